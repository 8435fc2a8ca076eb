// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/no_label.hpp>
#include <trireme/core/philox.hpp>
#include <trireme/core/words.hpp>
#include <trireme/device/host/device.hpp>
#include <trireme/kernels/sample_by_sample.hpp>
#include <trireme/layer/host_pass.hpp>
#include <trireme/layer/loss.hpp>
#include <trireme/layer/network.hpp>
#include <trireme/layer/row_table.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iosfwd>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

namespace trireme {

/// Result of check_gradients: the largest relative error of any derivative, where |numeric - analytic| is divided by
/// max(1, |numeric|).
struct gradient_report {
    double input_error = 0;                ///< the largest relative error of a derivative by an input
    double parameter_error = 0;            ///< the largest relative error of a derivative by a parameter
    bool overwrites_input_gradient = true; ///< backward_input writes dx whatever stood there
    bool adds_parameter_gradients = true;  ///< backward_weights adds to what stands there
    std::size_t derivatives = 0;           ///< derivatives that were compared

    bool ok(double tolerance = 1e-6) const noexcept {
        return input_error < tolerance && parameter_error < tolerance && overwrites_input_gradient &&
               adds_parameter_gradients && derivatives > 0;
    }
};

/// One line: how many derivatives were compared, the two errors, and the mistakes that they do not show.
TRIREME_COLD inline std::string to_string(gradient_report const& r) {
    char numbers[128];
    std::snprintf(numbers, sizeof numbers,
                  "derivatives compared: %zu; largest error %.2g by inputs, %.2g by parameters", r.derivatives,
                  r.input_error, r.parameter_error);
    std::string line = numbers;
    if (!r.overwrites_input_gradient) line += "; backward_input does not overwrite dx";
    if (!r.adds_parameter_gradients) line += "; backward_weights does not add to the gradient";
    return line;
}

template<class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, gradient_report const& r) {
    return out << to_string(r).c_str();
}

template<class... Where>
struct incomplete_layer_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0139: this layer lacks a function that its description asks for: forward, backward_input, and with "
        "parameters backward_weights; one of them, or an `evaluate` that it has, is missing, misspelt or not static");
};

namespace detail::inline TRIREME_ISA {

/// Central differences of `loss` by every number of `at`, against `analytic`; returns the largest error.
template<class T, class Loss>
double difference_error(std::vector<T>& at, std::vector<T> const& analytic, Loss const& loss, std::size_t& compared) {
    constexpr T h = 1e-5;
    double error = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
        auto const kept = at[i];
        at[i] = kept + h;
        auto const above = loss();
        at[i] = kept - h;
        auto const below = loss();
        at[i] = kept;
        auto const numeric = (above - below) / (2 * h);
        auto const off = std::abs(numeric - analytic[i]) / std::max(1.0, std::abs(numeric));
        if (!(off <= error) && !std::isnan(error)) error = off; // a NaN is the largest
        ++compared;
    }
    return error;
}

template<class Layer, class Input>
constexpr bool checked_as_network() {
    if constexpr (layer<Layer>)
        return Layer::describe(Input::extents::shape).whole_shard() ||
               Layer::describe(Input::extents::shape).adds_to_loss;
    else
        return true;
}

/// y = x + p: what comes back as p's gradient is that by the input of the layer behind.
struct probe {
    static constexpr layer_description describe(shape in) noexcept {
        layer_description d;
        d.output = in;
        d.parameter_count = 1;
        d.parameters[0] = {"probe", in, 1, 1, initial::zeros};
        d.execution.backward_reads_input = false;
        d.execution.backward_reads_output = false;
        return d;
    }
    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = io.x[i] + io.parameter(0)[i / io_t::lanes];
    }
    static void backward_input(auto const& io) {
        for (std::size_t i = 0; i < io.dx.size(); ++i) io.dx[i] = io.dy[i];
    }
    static void backward_weights(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        for (std::size_t i = 0; i < io.dy.size(); ++i) io.gradient(0)[i / io_t::lanes] += io.dy[i];
    }
};

/// The network of some units behind a probe; rows that tied ones name are counted without it.
template<class U>
struct behind_probe {
    using type = U;
};
template<std::size_t Row>
struct behind_probe<tied<Row>> {
    using type = tied<Row + 1>;
};
template<class Input, class... U>
network<Input, probe, typename behind_probe<U>::type...> probed(pack<U...>);

template<class Layer, class Input, class Kernels>
gradient_report check_network_gradients(std::uint64_t seed) {
    using T = double;
    using net = decltype(probed<Input>(flat_list<Layer>()));
    using pass_type = host_pass<net, kernels_of<net, Kernels>, T>;
    static constexpr typename net::rule checked{};
    (void)checked;
    constexpr auto in = net::input_extents::size, out = net::output_extents::size;
    constexpr auto lanes = pass_type::lanes, most = pass_type::most, samples = most + 1;

    std::vector<T> x(2 * most * in), dy(2 * most * out, 0), p(net::parameters);
    random_stream const random(seed, random_purpose::user);
    std::uint64_t drawn = 0;
    for (auto& value : x) value = 2 * random.uniform(drawn++) - 1;
    for (auto& value : p) value = random.uniform(drawn++) - 0.5;
    std::fill_n(p.begin(), in, 0.0);
    for (std::size_t i = 0; i < out; ++i)
        for (std::size_t s = 0; s < samples; ++s)
            dy[(s / lanes * out + i) * lanes + s % lanes] = 2 * random.uniform(drawn++) - 1;

    auto const places = pass_type::plan(samples);
    std::vector<T> arena(pass_type::elements(places)), dp(p.size() + net::tied_gradients, 0), buffers(net::buffers),
        statistics(net::buffers);
    model_numbers<T> numbers{p.data(), dp.data(), buffers.data(), statistics.data()};
    numbers.tied_lie = p.size();
    double terms[net::loss_terms + 1] = {};
    numbers.terms = terms;
    numbers.loss_weight = 1;
    pass_type const pass(places, arena.data(), numbers, {seed, 1, 0, 0, samples, samples, samples});
    auto const loss = [&] {
        std::ranges::fill(terms, 0.0);
        pass.forward([&](std::size_t g) { std::copy_n(x.data() + g * most * in, most * in, pass.input(g)); });
        T sum = std::accumulate(std::begin(terms), std::end(terms), 0.0);
        for (std::size_t g = 0; g < 2; ++g)
            for (std::size_t i = 0; i < most * out; ++i) sum += dy[g * most * out + i] * pass.output(g)[i];
        return sum;
    };
    loss();
    pass.backward([&](std::size_t g) { std::copy_n(dy.data() + g * most * out, most * out, pass.output_gradient(g)); });
    for (std::size_t r = 0; r < net::depth; ++r)
        if (auto const& row = net::row(r); row.is_tied())
            for (std::size_t i = 0; i < row.description.parameter_elements(); ++i)
                dp[net::row(row.tied_to).first_parameter + i] += dp[p.size() + row.first_tied + i];
    gradient_report report;
    std::vector<T> const by_input(dp.begin(), dp.begin() + in),
        by_parameters(dp.begin() + in, dp.begin() + net::parameters);
    std::vector<T> own(p.begin() + in, p.end()), shift(in, 0);
    auto const with_numbers = [&] {
        std::copy(shift.begin(), shift.end(), p.begin());
        std::copy(own.begin(), own.end(), p.begin() + in);
        return loss();
    };
    report.input_error = difference_error(shift, by_input, with_numbers, report.derivatives);
    report.parameter_error = difference_error(own, by_parameters, with_numbers, report.derivatives);
    return report;
}

template<class Layer, class Input, class Kernels>
    requires layer_on<Layer, Input>
gradient_report check_layer_gradients(std::uint64_t seed) {
    using T = double;
    using In = typename Input::extents;
    using net = network<Input, Layer>;
    using Out = typename net::output_extents;
    static constexpr typename net::rule checked{};
    (void)checked;
    constexpr auto description = net::row(0).description;
    constexpr std::size_t lanes = Kernels::template lanes<T>;
    using calls = layer_calls<Layer, In, Out, lanes, T>;

    constexpr auto nan = std::numeric_limits<T>::quiet_NaN();

    std::vector<T> x(In::size * lanes), y(Out::size * lanes), dy(Out::size * lanes), p(net::parameters);
    std::vector<T> kept(description.kept, nan), statistics(description.buffer_elements()), buffers;
    for (int k = 0; k < description.buffer_count; ++k)
        buffers.insert(buffers.end(), description.buffers[k].shape.size(),
                       description.buffers[k].init == initial::ones ? 1 : 0);
    layer_place<T> place;
    place.granule = {seed, 1, 0, 0, lanes, lanes, lanes};
    place.buffers = buffers.data();
    place.statistics = statistics.data();
    place.kept = kept.data();
    random_stream const random(seed, random_purpose::user);
    std::uint64_t drawn = 0;
    auto const fill = [&](std::vector<T>& v, double scale) {
        for (auto& value : v) value = scale * (2 * random.uniform(drawn++) - 1);
    };
    fill(x, 1.0);
    fill(dy, 1.0);
    fill(p, 0.5);

    auto const forward = [&] {
        if constexpr (net::row(0).description.execution.view) // not the copy: for nvcc this is no constant in a lambda
            y = x;
        else
            calls::template run<row_call::forward>(
                Kernels{}, layer_operands<T, T>{.x = x.data(), .y = y.data(), .parameters = p.data(), .place = place});
    };
    auto const weighted_sum = [&] {
        forward();
        T sum = 0;
        for (std::size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
        return sum;
    };
    gradient_report report;
    auto const compare = [&](std::vector<T>& at, std::vector<T> const& analytic, double& error) {
        error = difference_error(at, analytic, weighted_sum, report.derivatives);
    };
    if constexpr (description.execution.view) {
        compare(x, dy, report.input_error);
        return report;
    } else {
        forward();
        auto const seen_x = description.execution.backward_reads_input ? x : std::vector<T>(x.size(), nan);
        auto seen_y = description.execution.backward_reads_output ? y : std::vector<T>(y.size(), nan);

        layer_operands<T, T> at;
        at.x = seen_x.data();
        at.y = seen_y.data();
        at.dy = dy.data();
        at.parameters = p.data();
        at.place = place;

        std::vector<T> dx(x.size(), 7), dx_again(x.size(), -3);
        for (auto* out : {&dx, &dx_again}) {
            at.dx = out->data();
            calls::template run<row_call::backward_input>(Kernels{}, at);
        }
        report.overwrites_input_gradient = dx == dx_again;

        std::vector<T> dp(p.size(), 0);
        if constexpr (description.parameter_count > 0) {
            std::vector<T> dp_on_top(p.size(), 4);
            for (auto* out : {&dp, &dp_on_top}) {
                at.gradients = out->data();
                calls::template run<row_call::backward_weights>(Kernels{}, at);
            }
            for (std::size_t i = 0; i < dp.size(); ++i)
                if (!(std::abs(dp_on_top[i] - 4 - dp[i]) <= 1e-9 * std::max(1.0, std::abs(dp[i]))))
                    report.adds_parameter_gradients = false;
        }
        compare(x, dx, report.input_error);
        compare(p, dp, report.parameter_error);
        return report;
    }
}

} // namespace detail::inline TRIREME_ISA

inline namespace TRIREME_ISA {

/// Compares a layer's backward functions with numeric derivatives, in double precision: central differences with step
/// 1e-5, of the sum of random weights times the outputs, by every input and every parameter of a granule.
///
///     auto const report = check_gradients<my_layer, input<3, 8, 8>>();
///
/// What the layer's description says is not read in backward is replaced by NaN before backward runs, so a wrong
/// `backward_reads_input` or `backward_reads_output` fails. The numbers that a layer keeps begin as NaN. Inputs are
/// uniform in (-1, 1), parameters in (-0.5, 0.5). Layers with kinks (maximum, relu) may fail for an unlucky seed, when
/// a difference crosses the kink. Cost: two forward passes per input and per parameter.
///
/// Combinators (residual, sequential, repeat) and layers that need a whole shard are checked as networks of their own,
/// on a granule and one sample more, as a trainer runs them: `input_error` is then that of the sum over the samples,
/// and what only calls of single layers show is not looked at.
template<class Layer, class Input, class Kernels = host::kernels>
gradient_report check_gradients(std::uint64_t seed = 1) {
    if constexpr (layer<Layer> && !layer_on<Layer, Input>) {
        constexpr auto in = Input::extents::shape;
        static constexpr std::conditional_t<detail::is_possible(Layer::describe(in), in),
                                            incomplete_layer_rule<gets<Layer>>, description_rule<gets<Layer>>>
            refused{};
        return (void)refused, gradient_report{};
    } else if constexpr (detail::checked_as_network<Layer, Input>())
        return detail::check_network_gradients<Layer, Input, Kernels>(seed);
    else
        return detail::check_layer_gradients<Layer, Input, kernels_of<network<Input, Layer>, Kernels>>(seed);
}

/// Compares a loss's gradient with numeric derivatives, likewise: of each sample's loss by what the network says, which
/// is uniform in (-2, 2). Targets are drawn: classes, with the label that the loss ignores as one more, or values in
/// (0, 1). `adds_parameter_gradients` says that forward and backward leave the same losses;
/// `overwrites_input_gradient`, that no sample's gradient depends on what stood there.
///
///     auto const report = check_loss_gradients<my_loss, input<10>>();
template<class Loss, class Output, class Policy = host::kernels>
    requires loss_on<Loss, Output>
gradient_report check_loss_gradients(std::uint64_t seed = 1) {
    using T = double;
    using out = typename Output::extents;
    using target = target_t<Loss, out, T>;
    constexpr auto described = Loss::describe(out::shape);
    using Kernels = kernels_for<Policy, described.sample_by_sample>;
    static_assert(described.accepts, "the loss does not take this output");
    constexpr std::size_t lanes = Kernels::template lanes<T>;
    random_stream const random(seed, random_purpose::user);
    std::uint64_t drawn = 0;
    std::vector<T> x(out::size * lanes), weight(lanes), loss_of(lanes), forward_loss(lanes);
    std::vector<target> targets(target_extents<Loss, out>::size * lanes);
    std::vector<int> correct(lanes);
    for (auto& value : x) value = 4 * random.uniform(drawn++) - 2;
    for (auto& value : weight) value = random.uniform(drawn++);
    for (auto& value : targets) {
        if constexpr (described.classes != 0) {
            constexpr auto labels = described.classes + (described.ignored != no_label ? 1 : 0);
            value = static_cast<int>(random.below(drawn++, labels));
            if (value == static_cast<int>(described.classes)) value = described.ignored;
        } else {
            value = random.uniform(drawn++);
        }
    }
    auto const operands = [&](std::vector<T>& losses) {
        return loss_operands<T, target>{targets.data(), weight.data(), losses.data(),
                                        described.has_answers() ? correct.data() : nullptr};
    };
    auto const weighted_sum = [&] {
        detail::apply_loss<false, Loss, out, lanes>(Kernels{}, x.data(), static_cast<T*>(nullptr),
                                                    operands(forward_loss));
        T sum = 0;
        for (std::size_t lane = 0; lane < lanes; ++lane) sum += weight[lane] * forward_loss[lane];
        return sum;
    };
    gradient_report report;
    std::vector<T> dx(x.size(), 7), dx_again(x.size(), -3);
    for (auto* to : {&dx, &dx_again})
        detail::apply_loss<true, Loss, out, lanes>(Kernels{}, x.data(), to->data(), operands(loss_of));
    report.overwrites_input_gradient = dx_again == dx;
    weighted_sum();
    for (std::size_t lane = 0; lane < lanes; ++lane)
        if (!(std::abs(loss_of[lane] - forward_loss[lane]) <= 1e-9 * std::max(1.0, std::abs(loss_of[lane]))))
            report.adds_parameter_gradients = false;
    report.input_error = detail::difference_error(x, dx, weighted_sum, report.derivatives);
    return report;
}

} // namespace TRIREME_ISA
} // namespace trireme
