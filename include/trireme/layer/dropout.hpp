// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/percentage.hpp>
#include <trireme/kernels/dropout_draw.hpp>
#include <trireme/layer/activation.hpp>
#include <trireme/layer/layer.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace trireme {

template<class... Where>
struct dropout_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0064: dropout takes a percentage, from percent<0> to percent<99>: write dropout<percent<50>> "
                  "where half of the values are dropped (a probability of 0.5)");
};

// A name that the call below needs before a kernel policy overloads it: see cross_entropy.
template<std::size_t Size, std::size_t Lanes>
void dropout_forward() = delete;

/// `dropout<percent<P>>`: in training each value is zero with a probability of P / 100, and else divided by 1 - P /
/// 100; in evaluation nothing happens. Any shape, no parameters.
///
/// Which values are dropped follows from the seed, the step, the logical shard, the sample's place in it and the layer,
/// never from a device, and is drawn again backward, so that nothing is kept. Cost: 10 rounds of Philox per 4 values,
/// forward and backward.
/// Source: Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov, "Dropout", 2014.
template<auto Share>
struct dropout {
    static constexpr bool usable = detail::is_percentage<Share>(percent<0>, percent<99>);

    static constexpr layer_description describe(shape in) noexcept {
        if (!usable) return refused(in);
        layer_description d;
        d.output = in;
        d.forward_flops = in.size();
        d.backward_input_flops = in.size();
        d.execution.backward_reads_input = false;
        d.execution.backward_reads_output = false;
        d.execution.in_place = true;
        return d;
    }

    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        apply<typename io_t::input, io_t::lanes>(io, io.x.data, io.y.data);
    }
    static void backward_input(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        apply<typename io_t::input, io_t::lanes>(io, io.dy.data, io.dx.data);
    }
    static void evaluate(auto const& io) { detail::pass_values(io); }

    template<class Where, class In>
    using refusal = dropout_rule<Where>;

    /// The draw of a layer's values, or of what else it drops so.
    static auto draw(auto const& io) noexcept {
        using T = typename std::remove_cvref_t<decltype(io)>::value_type;
        constexpr auto scale = static_cast<T>(100.0 / (100 - hundredths));
        return dropout_draw<T>{io.place.granule, static_cast<std::uint32_t>(io.place.layer), threshold, scale,
                               io.place.last_channels};
    }

private:
    /// Backward is forward, of gradients.
    template<class In, std::size_t Lanes, class Stored>
    static void apply(auto const& io, Stored const* from, Stored* to) {
        dropout_forward<In::size, Lanes>(io.policy, from, draw(io), to);
    }
    static constexpr int hundredths = usable ? static_cast<int>(Share) : 0;
    /// A value is dropped if its random bits are below.
    static constexpr std::uint32_t threshold = static_cast<std::uint32_t>((std::uint64_t{1} << 32) * hundredths / 100);
};

} // namespace trireme
