// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Training on accelerators with bf16 between the layers and float parameters, rehearsed on the host.

#include <rehearsed/trainings.hpp>
#include <support/networks.hpp>

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace rehearsed_bf16_test {
using namespace trireme;
using test_networks::conv3;
using test_networks::made_up;

/// Every layer: such as take their parameters as values lie, with and without a function behind them, and such as do
/// not.
using net = test_networks::every_layer;
using plain = network<input<1, 28, 28>, avg_pool2d<4>, conv3<3>, relu, flatten, linear<10>>;
template<class... Policies>
using of_plain = trainer<plain, cross_entropy, sgd, on<mesh<rehearsal, dp<2>>>, precision<bf16>, Policies...>;

using images_last = kernels<channels_last<rehearsal::kernels>>;

/// A number that no sum gets rid of.
template<class T>
struct spoiled {
    T* number;
    void operator()(std::size_t i) const { number[i] = static_cast<T>(std::numeric_limits<float>::quiet_NaN()); }
};

/// Kernels that ask for a workspace, note something, and spoil gradients that are new before they store them.
struct particular : rehearsal::kernels {
    static constexpr std::size_t workspace_bytes(shape const& weights, shape const&, std::size_t bytes) noexcept {
        return weights.rank == 4 ? 96 * 1024 * bytes : 64 * 1024;
    }
    static inline int written = 0;

    particular(stream& queue, std::size_t samples, workspace scratch, rehearsal::libraries& l)
        : kernels(queue, samples, scratch, l) {
        l.noted = {"conv2d: by a block program"};
    }
};
template<class G, std::size_t Lanes, class T>
void conv2d_backward_weights(particular const& k, T const* x, T const* dy, T* dw, T* db) {
    if (k.gradients_are_new()) {
        ++particular::written;
        k.each(G::out_channels * G::channels * G::kernel * G::kernel, spoiled<T>{dw});
        if (db != nullptr) k.each(G::out_channels, spoiled<T>{db});
    }
    conv2d_backward_weights<G, Lanes>(static_cast<rehearsal::kernels const&>(k), x, dy, dw, db);
}

/// The rows' parameters lie in the narrow copy as libraries read them.
template<class Kernels>
void narrow_rows_are_aligned() {
    using narrow = narrow_parameters<net, typename storing<Kernels, bf16>::type, float>;
    std::size_t end = 0;
    for (std::size_t row = 0; row < net::depth; ++row) {
        auto const& d = net::row(row).description;
        if (!d.execution.parameters_as_values) continue;
        CAPTURE(row);
        auto const begin = narrow::first(row);
        CHECK(begin * sizeof(bf16) % 256 == 0);
        CHECK(begin >= end);
        end = begin + d.parameter_elements();
    }
    CHECK(narrow::first(net::depth) >= end);
    CHECK(narrow::first(net::depth) * sizeof(bf16) % 256 == 0); // one layer's gradients follow
    CHECK(narrow::bytes() % 256 == 0);                          // and the copy of a device's next stage
}

TEST_SUITE("rehearsed/bf16") {
    TEST_CASE("channels last, what is dropped of a flattened image is the same") {
        using dropping =
            network<input<1, 28, 28>, avg_pool2d<4>, conv3<5>, relu, flatten, dropout<percent<30>>, linear<10>>;
        using first = trainer<dropping, cross_entropy, sgd, on<mesh<rehearsal, dp<1>>>, precision<bf16>>;
        using last = trainer<dropping, cross_entropy, sgd, on<mesh<rehearsal, dp<1>>>, precision<bf16>, images_last>;
        first a({.learning_rate = 0.1f, .batch = 16, .seed = 5});
        last b({.learning_rate = 0.1f, .batch = 16, .seed = 5});
        for (std::size_t step = 0; step < 4; ++step) {
            auto const images = made_up(16, step);
            CHECK(b.step(images).loss == doctest::Approx(a.step(images).loss).epsilon(2e-3));
        }
    }

    TEST_CASE("parameters begin where libraries read many bytes at once, in either order") {
        narrow_rows_are_aligned<rehearsal::kernels>();
        narrow_rows_are_aligned<channels_last<rehearsal::kernels>>();
    }

    TEST_CASE("kernels say how much workspace they want, what they do without a library, and store what is new") {
        of_plain<> wanted({.learning_rate = 0.03f, .batch = 12, .seed = 1});
        CHECK(wanted.notes().empty());
        rehearsed::memory_taken const taken;
        of_plain<kernels<particular>> t({.learning_rate = 0.03f, .batch = 12, .seed = 1});
        taken.is_planned(t);
        for (int rank : {0, 1}) CHECK(t.plan().memory(rank).workspace == 2 * 192 * 1024);
        CHECK(t.notes() == std::vector<std::string>{"conv2d: by a block program"}); // of both ranks
        auto const before = particular::written;
        for (std::size_t step = 0; step < 3; ++step)
            CHECK(t.step(made_up(50, step)).loss == wanted.step(made_up(50, step)).loss); // granule by granule
        CHECK(particular::written > before);
        CHECK(test_networks::weights(t) == test_networks::weights(wanted));
    }

    TEST_CASE("a step larger than the batch") {
        auto const images = made_up(50);
        of_plain<> whole({.learning_rate = 0.03f, .batch = 50, .seed = 1}),
            in_parts({.learning_rate = 0.03f, .batch = 7, .seed = 1});
        for (int step = 0; step < 3; ++step)
            CHECK(in_parts.step(images).loss == doctest::Approx(whole.step(images).loss).epsilon(1e-2));
    }
}

} // namespace rehearsed_bf16_test
