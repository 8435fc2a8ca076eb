// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The nodes of a step on an accelerator, and the bytes that they read and write: LeNet in float by block programs, as
// a GPU computes it, and ResNet-18 in bf16, whose large convolutions are a library's there, and here read and write
// what one would.

#include "traffic.hpp"
#include "../../examples/resnet18.hpp"
#include <rehearsed/trainings.hpp>
#include <support/left_out.hpp>
#include <support/networks.hpp>

#include <trireme/kernels/blocks/activation.hpp>
#include <trireme/kernels/blocks/bias.hpp>
#include <trireme/kernels/blocks/conv2d.hpp>
#include <trireme/kernels/library_sizes.hpp>
#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>

namespace rehearsed_traffic_test {

/// One kernel reads two tensors and writes a third where a library computes a convolution; its numbers are none.
struct library_kernels : trireme::rehearsal::kernels {
    using trireme::rehearsal::kernels::kernels;
};

template<class T>
struct library_convolution {
    T const *a, *b;
    T* to;
    std::size_t as, bs, size;
    void operator()(std::size_t i) const {
        float value = 0;
        if (i < as) value += static_cast<float>(a[i]);
        if (i < bs) value += static_cast<float>(b[i]);
        if (i < size) to[i] = static_cast<T>(value * 0.01f);
    }
};

template<class G>
struct convolution_sizes {
    static constexpr std::size_t x = G::channels * G::height * G::width,
                                 w = G::channels * G::kernel * G::kernel * G::out_channels;
    static constexpr std::size_t y = G::out_channels * G::out_height * G::out_width;
};
template<class G>
using convolved = trireme::channel_geometry<G::out_channels, G::out_height * G::out_width, G::channels_last>;

template<class T>
void convolve(library_kernels const& k, T const* a, std::size_t as, T const* b, std::size_t bs, T* to,
              std::size_t size) {
    k.each(std::max({as, bs, size}), library_convolution<T>{a, b, to, as, bs, size});
}

// As kernels/cuda/conv2d.hpp puts them together.

template<class F, class G, class T>
void forward(library_kernels const& k, T const* x, T const* w, T const* b, T* y) {
    using sizes = convolution_sizes<G>;
    convolve(k, x, k.samples() * sizes::x, w, sizes::w, y, k.samples() * sizes::y);
    trireme::blocks::add_bias<F, convolved<G>>(k, b, y);
}

template<class G, std::size_t Lanes, class T>
void conv2d_forward(library_kernels const& k, T const* x, T const* w, T const* b, T* y) {
    if constexpr (trireme::cuda_runtime::goes_to_library<G, T>)
        forward<trireme::identity_function, G>(k, x, w, b, y);
    else
        trireme::conv2d_forward<G, Lanes>(static_cast<trireme::rehearsal::kernels const&>(k), x, w, b, y);
}
template<class G, std::size_t Lanes, class T>
void conv2d_backward_input(library_kernels const& k, T const* w, T const* dy, T* dx) {
    using sizes = convolution_sizes<G>;
    if constexpr (trireme::cuda_runtime::goes_to_library<G, T>)
        convolve(k, dy, k.samples() * sizes::y, w, sizes::w, dx, k.samples() * sizes::x);
    else
        trireme::conv2d_backward_input<G, Lanes>(static_cast<trireme::rehearsal::kernels const&>(k), w, dy, dx);
}
template<class G, std::size_t Lanes, class F, class T>
void conv2d_backward_input(trireme::with_function<library_kernels, F, T> const& k, T const* w, T const* dy, T* dx) {
    if constexpr (trireme::cuda_runtime::goes_to_library<G, T>) {
        conv2d_backward_input<G, Lanes>(k.without(), w, dy, dx);
        trireme::activation_backward_input<F>(k.without(), k.input(), k.input(), static_cast<T const*>(dx), dx,
                                              convolution_sizes<G>::x);
    } else {
        trireme::with_function<trireme::rehearsal::kernels, F, T> const blocks(k.without(), k.input());
        trireme::conv2d_backward_input<G, Lanes>(blocks, w, dy, dx);
    }
}
template<class G, std::size_t Lanes, class T>
void conv2d_backward_weights(library_kernels const& k, T const* x, T const* dy, T* dw, T* db) {
    using sizes = convolution_sizes<G>;
    if constexpr (trireme::cuda_runtime::goes_to_library<G, T>) {
        convolve(k, x, k.samples() * sizes::x, dy, k.samples() * sizes::y, dw, sizes::w);
        trireme::blocks::add_bias_gradient<convolved<G>>(k, dy, db);
    } else {
        trireme::conv2d_backward_weights<G, Lanes>(static_cast<trireme::rehearsal::kernels const&>(k), x, dy, dw, db);
    }
}

using namespace trireme;
using namespace rehearsed;
using test_support::left_out;

/// A step is to take this: nodes of each kind, and bytes as multiples of the bytes of all convolutions' outputs.
struct expectation {
    std::size_t kernels, copies, zeros;
    double passes;     ///< over the activations: bytes read and written there
    double everywhere; ///< in all areas
};

template<class Stored, class Trainer>
void a_step_takes(char const* name, std::size_t samples, std::size_t outputs, expectation const& wanted) {
    on_stage const as_usual(timing::eager);
    Trainer t({.learning_rate = 0.01f, .batch = samples});
    t.step(test_networks::made_up(samples));
    traffic_watch const seen;
    t.step(test_networks::made_up(samples));
    double const pass = static_cast<double>(samples * outputs * sizeof(Stored));
    auto const passes_of = [&](moved_bytes const& of) { return static_cast<double>(of.read + of.written) / pass; };
    auto const& values = seen.of_area.at("activations");
    MESSAGE(std::string(name) << ", batch " << samples << ": " << seen.kernels.nodes << " kernels, "
                              << seen.copies.nodes << " copies, " << seen.zeros.nodes
                              << " zeros; passes over the activations: " << passes_of(values)
                              << ", over all memory: " << passes_of(seen.all()));
    auto const tell = [&](std::string const& of, moved_bytes const& moved) { // with the option --success
        INFO(of << ": " << moved.nodes << " nodes, passes read " << static_cast<double>(moved.read) / pass
                << ", written " << static_cast<double>(moved.written) / pass);
        CHECK(moved.nodes > 0);
    };
    for (auto const& [program, of] : seen.of_program) tell(program, of);
    for (auto const& [area, of] : seen.of_area)
        if (of.nodes > 0) tell("area of " + area, of);
    CHECK(seen.kernels.nodes == wanted.kernels);
    CHECK(seen.copies.nodes == wanted.copies);
    CHECK(seen.zeros.nodes == wanted.zeros);
    CHECK(passes_of(values) == doctest::Approx(wanted.passes).epsilon(0.02));
    CHECK(passes_of(seen.all()) == doctest::Approx(wanted.everywhere).epsilon(0.02));
}

TEST_SUITE("rehearsed/traffic") {
    TEST_CASE("LeNet's step: nodes, and bytes") {
        if (left_out(!traffic_can_be_seen, "a fault does not say here whether it was a write")) return;
        using lenet = trainer<test_networks::lenet, cross_entropy, sgd, on<mesh<rehearsal, dp<1>>>>;
        a_step_takes<float, lenet>("LeNet f32", 32, 6 * 28 * 28 + 16 * 10 * 10, {24, 2, 2, 7.28, 10.60});
    }

    TEST_CASE("ResNet-18's step in bf16: nodes, and passes over its activations") {
        if (left_out(!traffic_can_be_seen, "a fault does not say here whether it was a write")) return;
        using resnet = trainer<resnet18<batch_norm<per_shard>>, cross_entropy, sgd, on<mesh<rehearsal, dp<1>>>,
                               precision<bf16>, kernels<channels_last<library_kernels>>>;
        constexpr std::size_t outputs = 5 * 64 * 28 * 28 + 5 * 128 * 14 * 14 + 5 * 256 * 7 * 7 + 5 * 512 * 4 * 4;
        a_step_takes<bf16, resnet>("ResNet-18 bf16", 8, outputs, {214, 2, 2, 16.37, 71.93});
    }

    TEST_CASE("maximum pooling: a byte for each window on the way there and back, where the input is not read") {
        if (left_out(!traffic_can_be_seen, "a fault does not say here whether it was a write")) return;
        using pooling =
            network<input<1, 28, 28>, test_networks::conv3<16>, max_pool2d<3, stride<2>>, flatten, linear<10>>;
        constexpr std::size_t samples = 32;
        constexpr double inputs = samples * 16 * 28 * 28, outputs = samples * 16 * 13 * 13;
        on_stage const as_usual(timing::eager);
        trainer<pooling, cross_entropy, sgd, on<mesh<rehearsal, dp<1>>>> t({.batch = samples});
        t.step(test_networks::made_up(samples));
        traffic_watch const seen;
        t.step(test_networks::made_up(samples));
        std::size_t found = 0;
        for (auto const& entry : seen.of_program) {
            auto const& program = entry.first;
            auto const& of = entry.second;
            bool const back = program.find("max_pool2d_gradient") != std::string::npos;
            if (!back && program.find("max_pool2d_value") == std::string::npos) continue;
            CAPTURE(program);
            ++found;
            double const small = outputs * (sizeof(float) + 1), large = inputs * sizeof(float);
            CHECK(static_cast<double>(of.read) == doctest::Approx(back ? small : large).epsilon(0.05));
            CHECK(static_cast<double>(of.written) == doctest::Approx(back ? large : small).epsilon(0.05));
        }
        CHECK(found == 2);
    }
}

} // namespace rehearsed_traffic_test
