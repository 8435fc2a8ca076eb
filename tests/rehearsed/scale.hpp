// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/trireme.hpp>

#include <cstddef>
#include <type_traits>

// A layer of a user's own, which has parameters, and works in place.
namespace rehearsed {
using namespace trireme;

struct scaling {
    float const *from, *by;
    float* to;
    std::size_t size;
    void operator()(std::size_t i) const { to[i] = from[i] * by[i % size]; }
};
/// dw += sum over samples of dy y / w, which is dy x: reads its output again.
struct scale_gradient {
    float const *x, *y, *w, *dy;
    float* dw;
    std::size_t size, samples;
    void operator()(std::size_t i) const {
        for (std::size_t s = 0; s < samples; ++s) {
            auto const at = s * size + i;
            dw[i] += dy[at] * (x != nullptr ? x[at] : y[at] / w[i]);
        }
    }
};

/// y = w x, one weight per value: in place as far as gradients go, or reading its output in backward instead of its
/// input.
template<bool InPlace>
struct scale {
    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
        d.parameter_count = 1;
        d.parameters[0] = {"weight", in, 1, 1, initial::ones};
        d.execution.in_place = InPlace;
        d.execution.backward_reads_input = InPlace;
        d.execution.backward_reads_output = !InPlace;
        return d;
    }
    static void run(auto const& io, float const* from, float* to) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        scaling const f{from, io.parameter(0), to, io_t::input::size};
        if constexpr (accelerator_kernels<typename io_t::kernels>)
            io.policy.each(io.x.size() * io.policy.samples(), f);
        else
            for (std::size_t i = 0; i < io.x.size(); ++i)
                to[i] = from[i] * io.parameter(0)[i / io_t::lanes]; // lanes are innermost on the host
    }
    static void forward(auto const& io) { run(io, io.x.data, io.y.data); }
    static void backward_input(auto const& io) { run(io, io.dy.data, io.dx.data); }
    static void backward_weights(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        constexpr std::size_t size = io_t::input::size;
        if constexpr (accelerator_kernels<typename io_t::kernels>) {
            io.policy.each(size, scale_gradient{InPlace ? io.x.data : nullptr, io.y.data, io.parameter(0), io.dy.data,
                                                io.gradient(0), size, io.policy.samples()});
        } else {
            for (std::size_t i = 0; i < io.x.size(); ++i) {
                auto const v = i / io_t::lanes;
                io.gradient(0)[v] += io.dy[i] * (InPlace ? io.x[i] : io.y[i] / io.parameter(0)[v]);
            }
        }
    }
};

} // namespace rehearsed
