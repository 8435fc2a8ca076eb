// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <onednn/has_bf16.hpp>
#include <trireme/kernels/reference/activation.hpp>
#include <trireme/kernels/reference/add.hpp>
#include <trireme/kernels/reference/batch_norm.hpp>
#include <trireme/kernels/reference/conv2d.hpp>
#include <trireme/kernels/reference/dropout.hpp>
#include <trireme/kernels/reference/linear.hpp>
#include <trireme/kernels/reference/pool2d.hpp>
#include <trireme/onednn.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace onednn_kernels_test {
using namespace trireme;

namespace {

using numbers = std::vector<float>;

numbers random_numbers(std::size_t n, std::uint32_t key) {
    random_stream const random(key, random_purpose::user);
    numbers v(n);
    for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<float>(random.bits(i) >> 8) / 8388608.0f - 1.0f;
    return v;
}

/// Value i, channel by channel, of sample n lies at this place channels last, for images of shape s.
std::size_t place_of(shape const& s, std::size_t n, std::size_t i) {
    if (s.rank != 3) return n * s.size() + i;
    auto const positions = s.extent[1] * s.extent[2];
    return n * s.size() + i % positions * s.extent[0] + i / positions;
}
numbers rounded(numbers v) {
    for (auto& x : v) x = static_cast<float>(bf16(x));
    return v;
}

/// Lanes innermost to channels last, and back.
template<std::size_t N>
numbers to_last(shape const& s, numbers const& lanes) {
    numbers v(lanes.size());
    for (std::size_t i = 0; i < s.size(); ++i)
        for (std::size_t n = 0; n < N; ++n) v[place_of(s, n, i)] = lanes[i * N + n];
    return v;
}
template<std::size_t N>
numbers to_lanes(shape const& s, numbers const& last) {
    numbers v(last.size());
    for (std::size_t i = 0; i < s.size(); ++i)
        for (std::size_t n = 0; n < N; ++n) v[i * N + n] = last[place_of(s, n, i)];
    return v;
}

void check_near(char const* what, numbers const& is, numbers const& wanted, double tolerance = 1e-5) {
    CAPTURE(what);
    REQUIRE(is.size() == wanted.size());
    double size = 1;
    for (float const w : wanted) size = std::max(size, std::fabs(static_cast<double>(w)));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < is.size(); ++i)
        wrong += std::fabs(static_cast<double>(is[i]) - static_cast<double>(wanted[i])) <= tolerance * size ? 0 : 1;
    CHECK(wrong == 0);
}

/// A layer computes these values with one policy, lanes innermost.
struct computed {
    numbers y, dx, gradients, kept, statistics;
};

/// One layer on N samples, values with lanes innermost.
template<class Layer, class In, std::size_t N>
struct one_layer {
    static constexpr layer_description d = Layer::describe(In::shape);
    using out = to_extents<d.output.rank, d.output.extent[0], d.output.extent[1], d.output.extent[2]>;
    numbers x = random_numbers(In::size * N, 1), dy = random_numbers(out::size * N, 2),
            parameters = random_numbers(d.parameter_elements(), 3);

    /// Forward and backward by kernels that see the values through `lay` and `unlay`.
    template<std::size_t Lanes, class Kernels>
    computed by(Kernels const& k, numbers const& in, numbers const& out_gradient) const {
        using stored = std::vector<stored_t<Kernels, float>>; // numbers, or bf16
        computed r{{}, {}, numbers(d.parameter_elements(), 1.0f), numbers(d.kept), numbers(d.buffer_elements())};
        stored in_x, out_dy, y(out::size * N), dx(In::size * N);
        for (float const value : in) in_x.emplace_back(value);
        for (float const value : out_gradient) out_dy.emplace_back(value);
        using calls = trireme::detail::layer_calls<Layer, In, out, Lanes, float>;
        trireme::detail::layer_operands<float, typename stored::value_type> at;
        at.x = in_x.data();
        at.y = y.data();
        at.dy = out_dy.data();
        at.dx = dx.data();
        at.parameters = parameters.data();
        at.gradients = r.gradients.data();
        at.place.layer = 5;
        at.place.granule = {11, 3, 2, d.whole_shard() ? 0u : 7u, N, N, N};
        at.place.kept = r.kept.data();
        at.place.statistics = r.statistics.data();
        if constexpr (d.whole_shard()) {
            calls::template run<trireme::detail::row_call::forward_gather>(k, at);
            calls::template run<trireme::detail::row_call::forward_agree>(k, at, 0);
        }
        calls::template run<trireme::detail::row_call::forward>(k, at);
        if constexpr (d.whole_shard()) {
            calls::template run<trireme::detail::row_call::backward_gather>(k, at);
            calls::template run<trireme::detail::row_call::backward_agree>(k, at, 0);
        } else if constexpr (d.parameter_count > 0) {
            calls::template run<trireme::detail::row_call::backward_weights>(k, at);
        }
        calls::template run<trireme::detail::row_call::backward_input>(k, at);
        for (auto const value : y) r.y.push_back(static_cast<float>(value));
        for (auto const value : dx) r.dx.push_back(static_cast<float>(value));
        return r;
    }
};

/// Compares a policy of oneDNN's with the naive kernels; `viewed`: how the input lies, if that is another shape.
template<class Kernels, class Layer, class In, std::size_t N>
void check_with(one_layer<Layer, In, N> const& of, shape viewed, double tolerance) {
    constexpr auto d = one_layer<Layer, In, N>::d;
    auto const lies = d.execution.in_place && d.parameter_count == 0 ? viewed : d.output; // its output
    CAPTURE(N);
    CAPTURE(In::size);
    layer_shapes const shapes{In::shape, d.output, viewed, d.parameter_count > 0 ? d.parameters[0].shape : shape{}};
    using context_t = typename Kernels::context;
    host_memory const memory(context_t::bytes(&shapes, 1, N));
    context_t context(&shapes, 1, N, memory.data());
    auto const alone = context.begin();
    auto const k = Kernels(context).for_layer(0, N);
    auto const x = to_last<N>(viewed, of.x), dy = to_last<N>(lies, of.dy);

    context.prepare(true);
    auto const prepared = of.template by<1>(k, x, dy);
    if (!d.whole_shard()) { // whose agreement is computed by the layer
        CHECK(prepared.y == numbers(prepared.y.size()));
        CHECK(prepared.gradients == numbers(prepared.gradients.size(), 1.0f));
    }
    context.prepare(false);

    auto const is = of.template by<1>(k, x, dy);
    auto const wanted = of.template by<N>(reference{}, of.x, of.dy);
    check_near("y", to_lanes<N>(lies, is.y), wanted.y, tolerance);
    check_near("dx", to_lanes<N>(viewed, is.dx), wanted.dx, tolerance);
    check_near("gradients", is.gradients, wanted.gradients, tolerance);
    check_near("kept", is.kept, wanted.kept, tolerance);
    check_near("statistics", is.statistics, wanted.statistics, tolerance);
    auto const again = of.template by<1>(k, x, dy);
    CHECK(again.y == is.y);
    CHECK(again.dx == is.dx);
    CHECK(again.gradients == is.gradients);
}

/// In float, and in bf16 on numbers that bf16 can hold: then a value is rounded when it is written, and weights are.
template<class Layer, class In, std::size_t N>
void check(one_layer<Layer, In, N> of, shape viewed = In::shape) {
    check_with<onednn>(of, viewed, 1e-5);
    if (!has_bf16()) return;
    of.x = rounded(of.x);
    of.dy = rounded(of.dy);
    of.parameters = rounded(of.parameters);
    check_with<onednn_kernels<bf16>>(of, viewed, 1.0 / 128);
}
template<class Layer, class In, std::size_t N = 5>
void check(shape viewed = In::shape) {
    check(one_layer<Layer, In, N>(), viewed);
}

} // namespace

TEST_SUITE("onednn/kernels") {
    TEST_CASE("convolutions equal the naive ones") {
        check<conv2d<64, kernel<3>, padding<1>>, extents<1, 28, 28>>();
        check<conv2d<6, kernel<5>, padding<2>>, extents<1, 28, 28>, 33>();
        check<conv2d<16, kernel<5>>, extents<6, 14, 14>>();
        check<conv2d<17, kernel<3>, padding<1>, stride<2>>, extents<3, 9, 7>, 1>();
        check<conv2d<24, kernel<3>, padding<1>>, extents<17, 8, 8>>();
        check<conv2d<96, kernel<3>, padding<1>, stride<2>>, extents<80, 7, 7>>();
        check<conv2d<48, kernel<1>, stride<2>>, extents<24, 14, 14>>();
        check<conv2d<528, kernel<1>, stride<2>>, extents<256, 7, 7>, 2>();
        check<conv2d<32, kernel<7>, padding<3>, stride<2>>, extents<16, 21, 21>, 2>();
    }

    TEST_CASE("inner products equal the naive ones, behind flattened images too") {
        check<linear<10>, extents<84>>();
        check<linear<84>, extents<120>, 33>();
        check<linear<1>, extents<1>, 1>();
        check<linear<10, without_bias>, extents<84>, 33>();
        check<linear<120>, extents<16 * 5 * 5>>(make_shape(16, 5, 5));
        check<linear<10>, extents<17 * 3 * 2>, 1>(make_shape(17, 3, 2));
    }

    TEST_CASE("batch norm equals the naive one") {
        check<batch_norm<per_shard>, extents<64, 28, 28>, 6>(); // several blocks
        check<batch_norm<per_shard>, extents<4, 7, 7>>();
        check<batch_norm<per_shard>, extents<17, 5, 3>>();
        check<batch_norm<per_shard>, extents<6, 1, 1>, 9>();
        check<batch_norm<per_shard>, extents<33>, 9>();
        check<batch_norm<per_shard>, extents<1100, 2, 2>, 7>(); // position by position
    }

    TEST_CASE("batch norm: a variance far smaller than the mean keeps its digits") {
        using shape_t = extents<8, 16, 16>;
        constexpr std::size_t n = 64, positions = n * shape_t::size / 8;
        auto x = random_numbers(n * shape_t::size, 4);
        for (auto& value : x) value = value * 0.01f + 3.0f;
        layer_shapes const shapes{shape_t::shape, shape_t::shape, shape_t::shape, {}};
        onednn_context<float> context(&shapes, 1, n, nullptr);
        float mean[8], squares[8];
        using geometry = channel_geometry<8, shape_t::size / 8>;
        batch_norm_gather<geometry, 1>(onednn(context).for_layer(0, n), x.data(),
                                       batch_norm_numbers<float>{.mean = mean, .deviation = squares});
        for (std::size_t c = 0; c < 8; ++c) {
            double sum = 0, apart = 0;
            for (std::size_t i = c; i < x.size(); i += 8) sum += static_cast<double>(x[i]);
            for (std::size_t i = c; i < x.size(); i += 8) {
                auto const d = static_cast<double>(x[i]) - sum / positions;
                apart += d * d;
            }
            CHECK(static_cast<double>(mean[c]) == doctest::Approx(sum / positions).epsilon(1e-6));
            CHECK(static_cast<double>(squares[c]) == doctest::Approx(apart).epsilon(1e-4));
        }
    }

    TEST_CASE("pooling equals the naive one, ties and NaN included") {
        check<avg_pool2d<2>, extents<6, 28, 28>>();
        check<avg_pool2d<3, stride<2>>, extents<17, 9, 8>>();
        check<global_avg_pool2d, extents<20, 4, 4>>();
        check<max_pool2d<2>, extents<6, 9, 9>>();
        one_layer<max_pool2d<3, stride<2>>, extents<19, 9, 9>, 3> ties;
        for (auto& value : ties.x) value = std::round(value * 2);
        check(ties);
        one_layer<max_pool2d<2>, extents<3, 4, 4>, 2> nan;
        nan.x[6] = nan.x[25] = std::numeric_limits<float>::quiet_NaN();
        using k = one_layer<max_pool2d<2>, extents<3, 4, 4>, 2>;
        auto const wanted = nan.by<2>(reference{}, nan.x, nan.dy);
        layer_shapes const shapes{extents<3, 4, 4>::shape, k::d.output, extents<3, 4, 4>::shape, {}};
        host_memory const memory(onednn_context<float>::bytes(&shapes, 1, 2));
        onednn_context<float> context(&shapes, 1, 2, memory.data());
        auto const is = nan.by<1>(onednn(context).for_layer(0, 2), to_last<2>(shapes.input, nan.x),
                                  to_last<2>(shapes.output, nan.dy));
        CHECK(to_lanes<2>(shapes.input, is.dx) == wanted.dx);
    }

    TEST_CASE("sums over windows that overlap stay numbers, however many there are") {
        one_layer<avg_pool2d<32, stride<1>>, extents<3, 66, 70>, 2> means;
        std::fill(means.dy.begin(), means.dy.end(), 1.0f);
        check(means);
        one_layer<max_pool2d<24, stride<1>>, extents<17, 49, 47>, 1> maxima;
        std::fill(maxima.dy.begin(), maxima.dy.end(), 1.0f);
        check(maxima);
        std::fill(maxima.x.begin(), maxima.x.end(), 0.0f);
        for (std::size_t c = 0; c < 17; ++c) maxima.x[(c * 49 + 24) * 47 + 23] = 1;
        check(maxima);
        check<max_pool2d<3, stride<2>>, extents<5, 37, 67>, 2>();
        check<max_pool2d<5, stride<3>>, extents<18, 35, 34>, 2>();
        check<avg_pool2d<3, stride<1>>, extents<4, 17, 33>, 2>();
    }

    TEST_CASE("what is about each value equals the naive kernels") {
        check<relu, extents<5, 7, 7>>();
        check<sigmoid, extents<100>, 3>();
        check<hyperbolic_tangent, extents<3, 4, 4>>(); // as it lies
    }

    TEST_CASE("the two ways of a residual are added") {
        auto const sum = []<class A>(A, double tolerance) {
            auto const a = random_numbers(105, 1), b = random_numbers(105, 2);
            std::vector<A> x, other;
            for (std::size_t i = 0; i < a.size(); ++i) {
                x.emplace_back(a[i]);
                other.emplace_back(b[i]);
            }
            onednn_context<A> context(nullptr, 0, 3, nullptr);
            add_values(onednn_kernels<A>(context).for_layer(0, 3), x.data(), other.data(), x.data(), 35);
            for (std::size_t i = 0; i < a.size(); ++i)
                CHECK(static_cast<float>(x[i]) == doctest::Approx(a[i] + b[i]).epsilon(tolerance));
        };
        sum(float{}, 1e-7);
        sum(bf16{}, 1.0 / 128);
    }

    TEST_CASE("numbers in a register are rounded to bf16 as a number is") {
        using vector = lane_vector<float, full_register<float>>;
        auto const infinity = std::numeric_limits<float>::infinity();
        std::vector<float> special{0.0f,
                                   -0.0f,
                                   infinity,
                                   -infinity,
                                   std::numeric_limits<float>::quiet_NaN(),
                                   1e-40f,
                                   std::numeric_limits<float>::max(),
                                   1.00390625f,
                                   1.01171875f,
                                   3.4e38f};
        for (auto const value : random_numbers(1000, 9)) special.push_back(value * 1000);
        for (std::size_t n = 1; n < special.size(); n += 1 + n / 3) {
            std::vector<bf16> is(n + 1);
            for_registers<vector>(n, [&](std::size_t i, auto count) {
                write_numbers(read_numbers<vector>(special.data() + i, count), is.data() + i, count);
            });
            CHECK(is[n].bits == 0);
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < n; ++i) wrong += is[i].bits == bf16(special[i]).bits ? 0 : 1;
            std::vector<float> back(n + 1);
            for_registers<vector>(n, [&](std::size_t i, auto count) {
                write_numbers(read_numbers<vector>(is.data() + i, count), back.data() + i, count);
            });
            for (std::size_t i = 0; i < n; ++i) wrong += bf16(back[i]).bits == is[i].bits ? 0 : 1;
            CHECK(wrong == 0);
            CHECK(back[n] == 0.0f);
        }
    }

    TEST_CASE("dropout drops the same values, whatever their layout") {
        check<dropout<percent<50>>, extents<5, 7, 3>>();
        check<dropout<percent<20>>, extents<101>, 3>();
        check<dropout<percent<30>>, extents<6 * 5 * 5>>(make_shape(6, 5, 5));
    }

    TEST_CASE("caches follow the parameters from one step to the next, and numbers of samples share them") {
        using layer = conv2d<24, kernel<3>, padding<1>>;
        using in = extents<16, 8, 8>;
        one_layer<layer, in, 5> five;
        one_layer<layer, in, 2> two;
        layer_shapes const shapes{in::shape, five.d.output, in::shape, five.d.parameters[0].shape};
        host_memory const memory(onednn_context<float>::bytes(&shapes, 1, 5));
        onednn_context<float> context(&shapes, 1, 5, memory.data());
        for (std::uint32_t step = 0; step < 3; ++step) {
            auto const alone = context.begin();
            five.parameters = two.parameters = random_numbers(five.parameters.size(), 10 + step);
            auto const is = five.by<1>(onednn(context).for_layer(0, 5), to_last<5>(in::shape, five.x),
                                       to_last<5>(shapes.output, five.dy));
            check_near("y of five", to_lanes<5>(shapes.output, is.y), five.by<5>(reference{}, five.x, five.dy).y);
            auto const few = two.by<1>(onednn(context).for_layer(0, 2), to_last<2>(in::shape, two.x),
                                       to_last<2>(shapes.output, two.dy));
            check_near("dx of two", to_lanes<2>(in::shape, few.dx), two.by<2>(reference{}, two.x, two.dy).dx);
        }
    }
}

} // namespace onednn_kernels_test
