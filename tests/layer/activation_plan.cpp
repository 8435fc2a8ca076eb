// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <networks.hpp>

#include <vector>

using namespace trireme;

namespace {

/// Plays forward and backward on a map of who owns which element, asking before every use that the block is still
/// whole. Knows the rules of the pass (what each layer reads and writes), nothing of lifetimes or holes.
template<class Network>
void check_nothing_is_overwritten(std::size_t lanes, std::size_t element_bytes) {
    constexpr auto depth = Network::depth;
    auto const plan = plan_activations<Network>(lanes, element_bytes);
    std::vector<int> owner(plan.elements, -1);
    auto const size = [&](std::size_t i) { return Network::row(i).input.size() * lanes; };
    auto const value_id = [](std::size_t i) { return static_cast<int>(2 * i); };
    auto const gradient_id = [](std::size_t i) { return static_cast<int>(2 * i + 1); };
    auto const write = [&](std::size_t at, std::size_t n, int id) {
        REQUIRE(at + n <= plan.elements);
        CHECK(at * element_bytes % cache_line == 0);
        for (std::size_t k = 0; k < n; ++k) owner[at + k] = id;
    };
    auto const whole = [&](std::size_t at, std::size_t n, int id) {
        for (std::size_t k = 0; k < n; ++k)
            if (owner[at + k] != id) return false;
        return true;
    };
    std::vector<int> id_of_value(depth + 1), id_of_gradient(depth + 1);
    for (std::size_t i = 0; i <= depth; ++i) {
        bool const view = i > 0 && Network::row(i - 1).description.view;
        id_of_value[i] = view ? id_of_value[i - 1] : value_id(i);
    }
    for (std::size_t i = depth + 1; i-- > 0;) {
        bool const view = i < depth && Network::row(i).description.view;
        id_of_gradient[i] = view ? id_of_gradient[i + 1] : gradient_id(i);
    }

    write(plan.value[0], size(0), id_of_value[0]);
    for (std::size_t i = 0; i < depth; ++i) {
        CAPTURE(i);
        if (Network::row(i).description.view) {
            CHECK(plan.value[i] == plan.value[i + 1]);
            continue;
        }
        CHECK(whole(plan.value[i], size(i), id_of_value[i]));
        write(plan.value[i + 1], size(i + 1), id_of_value[i + 1]);
        if (!Network::row(i).description.in_place) CHECK(whole(plan.value[i], size(i), id_of_value[i]));
    }
    write(plan.gradient[depth], size(depth), id_of_gradient[depth]);
    CHECK(whole(plan.value[depth], size(depth), id_of_value[depth]));
    for (std::size_t i = depth; i-- > Network::first_trainable;) {
        CAPTURE(i);
        auto const& d = Network::row(i).description;
        CHECK(whole(plan.gradient[i + 1], size(i + 1), id_of_gradient[i + 1]));
        if (!d.view && i > Network::first_trainable) write(plan.gradient[i], size(i), id_of_gradient[i]);
        if (!d.in_place) CHECK(whole(plan.gradient[i + 1], size(i + 1), id_of_gradient[i + 1]));
        if (d.backward_reads_input) CHECK(whole(plan.value[i], size(i), id_of_value[i]));
        if (d.backward_reads_output) CHECK(whole(plan.value[i + 1], size(i + 1), id_of_value[i + 1]));
    }
}

} // namespace

TEST_SUITE("layer/activation_plan") {
    TEST_CASE("nothing is overwritten before its last reading") {
        check_nothing_is_overwritten<test_networks::lenet>(16, 4);
        check_nothing_is_overwritten<test_networks::lenet>(1, 8);
        check_nothing_is_overwritten<test_networks::lenet_of<relu, max_pool2d<2>>>(8, 4);
        check_nothing_is_overwritten<test_networks::small>(4, 4);
        check_nothing_is_overwritten<test_networks::softmax_regression>(16, 4);
        check_nothing_is_overwritten<network<input<5>, flatten, flatten, relu, flatten, linear<3>, flatten>>(3, 4);
        check_nothing_is_overwritten<
            network<input<2, 6, 6>, conv2d<3, kernel<3>>, flatten, relu, linear<7>, flatten, sigmoid, linear<2>>>(16,
                                                                                                                  4);
        check_nothing_is_overwritten<network<input<3>, relu, relu>>(4, 4); // nothing to train
    }

    TEST_CASE("layers that work in place share a block with their input, unless it is the caller's or read again") {
        using lenet = test_networks::lenet; // conv2d, sigmoid, ...
        constexpr auto plan = plan_activations<lenet>(16, 4);
        CHECK(plan.value[1] == plan.value[2]);
        CHECK(plan.gradient[1] == plan.gradient[2]);
        using first = network<input<3>, relu, linear<2>>;
        constexpr auto of_first = plan_activations<first>(4, 4);
        CHECK(of_first.value[0] != of_first.value[1]);
        using read_again = network<input<1, 4, 4>, conv2d<2, kernel<3>>, max_pool2d<2>, relu, flatten, linear<2>>;
        constexpr auto of_read = plan_activations<read_again>(4, 4); // max_pool2d's backward reads what relu takes
        CHECK((of_read.value[2] == of_read.value[3]) != read_again::row(1).description.backward_reads_output);
    }

    TEST_CASE("blocks are used again: the arena is smaller than the sum of its blocks") {
        constexpr auto plan = plan_activations<test_networks::lenet>(16, 4);
        std::size_t sum = 0;
        for (std::size_t i = 0; i <= test_networks::lenet::depth; ++i)
            sum += 2 * 16 * test_networks::lenet::row(i).input.size();
        CHECK(plan.elements < sum * 6 / 10);
    }
}
