// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Maximum pooling on accelerators, which saves the place of each maximum from forward to backward.

#include <rehearsed/trainings.hpp>
#include <support/compare.hpp>
#include <support/networks.hpp>
#include <support/recomputing.hpp>

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>
#include <vector>

namespace rehearsed_max_pool2d_test {
using namespace trireme;
using namespace rehearsed;
using test_networks::conv3;
using test_networks::made_up;

namespace {

/// Values rounded down to halves, so that windows have ties.
struct stairs_function {
    template<class T>
    static T value(T x) noexcept {
        return static_cast<T>(static_cast<int>(2 * x + T(100))) / 2 - 50;
    }
    template<class T>
    static T slope(T, T) noexcept {
        return T(1);
    }
};
struct stairs : activation<stairs_function, false, false> {};

/// Maximum pooling that saves nothing: its backward searches the windows of its input again.
struct searching : detail::pool2d<3, stride<2>> {
    static constexpr layer_description describe(shape in) noexcept {
        auto d = detail::pool2d<3, stride<2>>::describe(in);
        d.execution.backward_reads_output = false;
        return d;
    }
    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        max_pool2d_forward<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.y.data);
    }
    static void backward_input(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        max_pool2d_backward_input<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.y.data, io.dy.data, io.dx.data);
    }
};
using saving = max_pool2d<3, stride<2>>;

/// Windows that overlap, behind functions and before one.
template<class Pool>
using net = network<input<1, 28, 28>, avg_pool2d<2>, conv3<3>, stairs, Pool, conv3<4>, relu, Pool, hyperbolic_tangent,
                    flatten, linear<10>>;

/// Pooling in the middle of blocks, and at their ends.
using middle = sequential<conv3<4>, stairs, max_pool2d<2, stride<1>>, conv3<4>, relu>;
using end = sequential<conv3<4>, stairs, max_pool2d<2, stride<1>>>;
using blocks =
    network<input<1, 28, 28>, avg_pool2d<4>, conv3<4>, relu, middle, middle, end, middle, flatten, linear<10>>;

template<class Pool, class... Policies>
using any = test_networks::any_stages<rehearsal, net<Pool>, cross_entropy, sgd_momentum, Policies...>;

/// Losses of some steps and tests, and the parameters after them.
template<class Trainer>
std::vector<double> trained(Trainer& t) {
    std::vector<double> told;
    for (std::size_t const n : {24u, 24u, 17u}) {
        told.push_back(t.step(made_up(n, n)).loss);
        told.push_back(t.evaluate(made_up(9, 50 + n)).loss);
    }
    for (auto const x : t.gather_parameters()) told.push_back(static_cast<double>(x));
    return told;
}

template<class... Policies>
void saved_and_searched_are_the_same() {
    for (int const stages : {1, 2})
        for (auto const& how : orders) {
            CAPTURE(stages);
            CAPTURE(how.seed);
            on_stage const as_told(how.when, how.seed);
            auto const of = [&]<class Pool>(Pool*) {
                using t = any<Pool, Policies...>;
                typename t::options const training{.learning_rate = 0.1f, .batch = 24, .seed = 5, .logical_shards = 4};
                memory_taken const taken;
                t made(training, {.devices = 2, .stages = stages, .share_devices = true, .eager = how.eager});
                taken.is_planned(made);
                return trained(made);
            };
            CHECK(test_support::same_bits(of(static_cast<saving*>(nullptr)), of(static_cast<searching*>(nullptr))));
        }
}

/// Samples of small whole numbers, and weights that are quarters: a step of them rounds nothing.
struct whole_numbers {
    static constexpr std::size_t samples = 32, values = 121, targets = 4;
    std::vector<float> x, y;

    whole_numbers() : x(samples * values), y(samples * targets) {
        random_stream const r(3, random_purpose::user, 1);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(r.below(i, 4));
        for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(r.below(x.size() + i, 16));
    }
    samples_in_memory all() const { return {x, make_shape(1, 11, 11), y, make_shape(targets)}; }
};
std::vector<double> quarters(std::vector<double> parameters) {
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] = (static_cast<double>(i * 7919 % 11) - 5) / 4;
    return parameters;
}

} // namespace

TEST_SUITE("rehearsed/max_pool2d") {
    TEST_CASE("a step that rounds nothing has the bits of the host, where most windows have ties") {
        using plain = network<input<1, 11, 11>, conv2d<2, kernel<3>>, saving, relu, flatten, linear<4>>;
        whole_numbers const numbers;
        auto const wanted = has_the_hosts_numbers(0, [&]<class Device>(Device, int devices) {
            using t = trainer<plain, mean_squared_error, sgd, on<mesh<Device, dp<dynamic>>>, precision<f64>>;
            t one({.learning_rate = 1.0 / 64, .batch = whole_numbers::samples}, {.devices = devices});
            one.load_parameters(quarters(one.gather_parameters()));
            std::vector<double> told{one.step(numbers.all()).loss};
            for (double const x : one.gather_parameters()) told.push_back(x);
            return told;
        });
        CHECK(wanted[0] > 0);
    }

    TEST_CASE("places that are saved have the bits of places that are searched again, in stages, too") {
        saved_and_searched_are_the_same<>();
        saved_and_searched_are_the_same<accumulate<2>>();
        saved_and_searched_are_the_same<precision<bf16>>();
        saved_and_searched_are_the_same<precision<bf16>, kernels<channels_last<rehearsal::kernels>>>();
    }

    TEST_CASE("places that are saved a second time have the bits of those that are kept") {
        using test_recomputing::has_the_bits_of_none;
        on_stage const how(timing::shuffled, 3);
        has_the_bits_of_none<rehearsal, blocks, recompute<middle, end>>({one_f_one_b{}}, {1}, {1, 2}, as_planned);
        has_the_bits_of_none<rehearsal, blocks, recompute<middle, end>, precision<bf16>>({one_f_one_b{}}, {1}, {1},
                                                                                         as_planned);
    }

    TEST_CASE("an input that nothing else reads need not last, and a byte takes its place") {
        using of = network<input<1, 28, 28>, conv2d<8, kernel<3>>, saving, flatten, linear<10>>;
        using searched = network<input<1, 28, 28>, conv2d<8, kernel<3>>, searching, flatten, linear<10>>;
        auto const activations = []<class Network>(Network*) {
            trainer<Network, cross_entropy, sgd, on<mesh<rehearsal, dp<1>>>> const t({.batch = 64});
            return t.plan().memory(0).activations;
        };
        on_stage const as_usual;
        CHECK(activations(static_cast<of*>(nullptr)) < activations(static_cast<searched*>(nullptr)));
    }
}

} // namespace rehearsed_max_pool2d_test
