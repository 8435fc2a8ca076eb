// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <support/compare.hpp>

#include <doctest/doctest.h>
#include <trireme/trireme.hpp>

#include <support/numbers.hpp>

#include "one_sample.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace layer_stage_pass_test {
using namespace trireme;

namespace {

/// y = x times a weight of each channel, sample by sample; but if it `Waits`, it claims to need the whole shard, counts
/// what it is shown, and computes with what it has counted: so that a granule that comes too soon, too late or twice
/// changes the numbers.
template<bool Waits>
struct scaled_channels {
    static constexpr layer_description describe(shape in) noexcept {
        layer_description d;
        d.output = in;
        d.parameter_count = 1;
        d.parameters[0] = {"weight", make_shape(in.extent[0]), 1, 1, initial::ones};
        d.execution.backward_reads_output = false;
        d.execution.in_place = true;
        d.forward.phases = d.backward.phases = Waits ? 1 : 0;
        d.kept = Waits ? 2 : 0;
        return d;
    }
    static void forward_gather(auto const& io) {
        if (io.place.granule.first == 0) io.place.kept[0] = 0;
        io.place.kept[0] += static_cast<double>(io.place.granule.count);
    }
    static void forward_agree(auto const& io, int) {
        io.place.kept[0] /= static_cast<double>(io.place.granule.samples);
    }
    static void forward(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i)
            io.y[i] = io.x[i] * io.parameter(0)[channel(io, i)] * (Waits ? io.place.kept[0] : 1.0);
    }
    static void backward_gather(auto const& io) {
        if (io.place.granule.first == 0) io.place.kept[1] = 0;
        io.place.kept[1] += static_cast<double>(io.place.granule.count);
        add_gradients(io);
    }
    static void backward_agree(auto const& io, int) {
        io.place.kept[1] /= static_cast<double>(io.place.granule.samples);
    }
    static void backward_input(auto const& io) {
        for (std::size_t i = 0; i < io.dx.size(); ++i)
            io.dx[i] = io.dy[i] * io.parameter(0)[channel(io, i)] * (Waits ? io.place.kept[1] : 1.0);
    }
    static void backward_weights(auto const& io) {
        if constexpr (!Waits) add_gradients(io);
    }

private:
    static std::size_t channel(auto const& io, std::size_t i) { // of value i of all samples
        auto const& sample = io.x.sample;
        return i / (io.x.size() / sample.extent[0]);
    }
    static void add_gradients(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.gradient(0)[channel(io, i)] += io.x[i] * io.dy[i];
    }
};

/// Exchanges a number each way, and leaves others where backward counts.
struct sums_of_all : scaled_channels<true> {
    static constexpr layer_description describe(shape in) noexcept {
        auto d = scaled_channels<true>::describe(in);
        d.forward = {2, {{0, 1}}};
        d.backward = {2, {{1, 1}}};
        return d;
    }
    static void forward_agree(auto const& io, int) { io.place.kept[1] = 3; }
    static void backward_agree(auto const&, int) {}
    static void evaluate(auto const& io) { forward(io); }
};

template<std::size_t C, std::size_t S = 1>
using conv3 = conv2d<C, kernel<3>, padding<1>, stride<S>>;
using curve = hyperbolic_tangent;

/// Networks come in two kinds: with layers that wait, and with layers that do not.
template<bool Waits>
struct networks {
    using norm = scaled_channels<Waits>;

    /// Shapes that shrink and grow inside residuals: two granules in one stretch do not lie in the same places.
    using shapes =
        network<input<1, 8, 8>, conv3<4>, norm, curve,
                residual<sequential<conv3<2>, norm, curve, conv3<6>, curve, conv3<4>>>, curve,
                residual<sequential<conv3<7, 2>, norm, curve, conv3<5>, norm>,
                         sequential<conv2d<5, kernel<1>, stride<2>>, norm>>,
                residual<sequential<conv3<1>, curve, conv3<9>, norm, conv3<5>>>, global_avg_pool2d, linear<3>>;
    /// Layers that wait side by side, first and last, in repeats, and in residuals of residuals.
    using waiting = network<input<2, 4, 4>, norm, norm, residual<norm>,
                            repeat<2, residual<sequential<norm, curve, conv3<2>>>, curve>,
                            residual<sequential<norm, residual<conv3<2>, norm>>, residual<sequential<norm, norm>>>,
                            flatten, residual<sequential<linear<5>, norm, linear<32>>>, linear<4>, norm>;
    /// One that waits somewhere in the middle, behind layers that are not trained.
    using late = network<input<2, 6, 6>, avg_pool2d<2>, residual<curve>, conv3<3>, residual<sequential<curve, norm>>,
                         flatten, linear<2>>;
    /// None.
    using none = network<input<3>, residual<sequential<linear<7>, curve, linear<3>>>, linear<2>>;
};

struct result {
    std::vector<double> outputs, gradients; ///< of all samples; of all parameters
};

/// Both ways begin with these numbers.
template<class Network>
struct start {
    std::size_t samples;
    std::vector<double> x, dy, parameters;
    explicit start(std::size_t n)
        : samples(n), x(numbers::uniform<double>(0, n * Network::input_extents::size)),
          dy(numbers::uniform<double>(1, n * Network::output_extents::size)),
          parameters(numbers::uniform<double>(2, Network::parameters)) {}
};

/// Value i of a sample, of all samples one after the other.
double value_of(std::vector<double> const& all, std::size_t size, std::size_t sample, std::size_t i) {
    return all[sample * size + i];
}

/// `cut`: where a second stage begins, if it is not 0.
template<class Network, class Kernels>
result by_shard(start<Network> const& s, std::size_t cut = 0) {
    using pass_type = host_pass<Network, Kernels, double>;
    constexpr auto lanes = pass_type::lanes, in = Network::input_extents::size, out = Network::output_extents::size;
    auto const places = pass_type::plan(s.samples);
    // NaN: whatever is read before it is written shows
    std::vector<double> arena(pass_type::elements(places), std::numeric_limits<double>::quiet_NaN());
    result r{std::vector<double>(s.samples * out), std::vector<double>(Network::parameters)};
    std::vector<double> buffers(Network::buffers), statistics(Network::buffers);
    detail::model_numbers<double> const model{s.parameters.data(), r.gradients.data(), buffers.data(),
                                              statistics.data()};
    pass_type const pass(places, arena.data(), model, {1, 1, 0, 0, s.samples, s.samples, s.samples});
    auto const sample = [&](std::size_t g, std::size_t lane) { return g * lanes + lane; };
    stage_pass const first(pass, {0, cut}), last(pass, {cut, Network::depth});
    auto const begin = [&](std::size_t g) {
        for (std::size_t lane = 0; lane < lanes; ++lane)
            for (std::size_t i = 0; i < in; ++i)
                pass.input(g)[i * lanes + lane] = value_of(s.x, in, std::min(sample(g, lane), s.samples - 1), i);
    };
    if (cut != 0) {
        first.forward(begin);
        last.forward();
    } else {
        last.forward(begin);
    }
    last.backward([&](std::size_t g) {
        for (std::size_t lane = 0; lane < lanes; ++lane)
            for (std::size_t i = 0; i < out; ++i) {
                bool const counts = sample(g, lane) < s.samples;
                if (counts) r.outputs[sample(g, lane) * out + i] = pass.output(g)[i * lanes + lane];
                pass.output_gradient(g)[i * lanes + lane] = counts ? value_of(s.dy, out, sample(g, lane), i) : 0;
            }
    });
    if (cut != 0) first.backward();
    return r;
}

/// The samples in as many shards as there are ranks, one granule each, which go through the network together.
template<class Network, class Kernels>
result by_ranks(start<Network> const& s, std::size_t ranks) {
    using pass_type = host_pass<Network, Kernels, double>;
    using context = typename decltype(std::declval<pass_type>()[0])::value_type;
    constexpr auto lanes = pass_type::lanes, in = Network::input_extents::size, out = Network::output_extents::size;
    auto const places = pass_type::plan(lanes);
    std::vector<std::vector<double>> arenas(
        ranks, std::vector<double>(pass_type::elements(places), std::numeric_limits<double>::quiet_NaN()));
    result r{std::vector<double>(s.samples * out), std::vector<double>(Network::parameters)};
    std::vector<double> buffers(Network::buffers), statistics(Network::buffers);
    detail::model_numbers<double> const model{s.parameters.data(), r.gradients.data(), buffers.data(),
                                              statistics.data()};
    std::vector<context> team;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        auto const mine = part(s.samples, rank, ranks);
        pass_type const pass(places, arenas[rank].data(), model,
                             {1, 1, static_cast<std::uint32_t>(rank), 0, mine.size(), mine.size(), s.samples});
        team.push_back(pass[0][0]);
        for (std::size_t lane = 0; lane < lanes; ++lane)
            for (std::size_t i = 0; i < in; ++i)
                pass.input()[i * lanes + lane] = value_of(s.x, in, mine.begin + std::min(lane, mine.size() - 1), i);
    }
    auto const exchange = [&](std::size_t i) {
        auto const& e = Network::exchanges[i];
        for (auto k = e.first; k < e.first + e.elements; ++k) {
            double sum = 0;
            for (auto const& c : team) sum += c.kept()[k];
            for (auto const& c : team) c.kept()[k] = sum;
        }
    };
    ranks_of_process<std::span<context const>> const all{team};
    stage_pass const pass(all);
    pass.forward(nothing_beside{}, nothing_beside{}, exchange);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        auto const mine = part(s.samples, rank, ranks);
        for (std::size_t lane = 0; lane < lanes; ++lane)
            for (std::size_t i = 0; i < out; ++i) {
                bool const counts = lane < mine.size();
                auto const at = (mine.begin + lane) * out + i;
                if (counts) r.outputs[at] = team[rank].value(Network::depth)[i * lanes + lane];
                team[rank].gradient(Network::depth)[i * lanes + lane] = counts ? s.dy[at] : 0;
            }
    }
    pass.backward(nothing_beside{}, nothing_beside{}, exchange);
    return r;
}

/// Each sample goes through the whole network before the next one, in the small arena of one sample.
template<class Network, class Kernels>
result one_by_one_sample(start<Network> const& s) {
    using pass_type = host_pass<Network, Kernels, double, 1>;
    constexpr auto in = Network::input_extents::size, out = Network::output_extents::size;
    std::vector<double> arena(pass_type::elements(pass_type::one));
    result r{{}, std::vector<double>(Network::parameters)};
    detail::model_numbers<double> const model{s.parameters.data(), r.gradients.data()};
    for (std::size_t n = 0; n < s.samples; ++n) {
        std::fill(arena.begin(), arena.end(), std::numeric_limits<double>::quiet_NaN());
        pass_type const pass(pass_type::one, arena.data(), model, {1, 1, 0, n, 1, s.samples, s.samples});
        std::copy_n(s.x.data() + n * in, in, pass.input());
        pass.forward();
        r.outputs.insert(r.outputs.end(), pass.output(), pass.output() + out);
        std::copy_n(s.dy.data() + n * out, out, pass.output_gradient());
        pass.backward();
    }
    return r;
}

template<class Waiting, class Plain, class Kernels>
void the_same(std::size_t samples) {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(samples);
    static_assert(Waiting::parameters == Plain::parameters && !Plain::whole_shard);
    start<Plain> const s(samples);
    start<Waiting> const t(samples);
    auto const expected = one_by_one_sample<Plain, Kernels>(s);
    auto const got = by_shard<Waiting, Kernels>(t);
    auto const size_of = [](double truth) { return std::max(1.0, std::abs(truth)); };
    CHECK(test_support::most_apart(got.outputs, expected.outputs, size_of) < 1e-11);
    CHECK(test_support::most_apart(got.gradients, expected.gradients, size_of) < 1e-11);
    double size = 0;
    for (auto const g : expected.gradients) size += std::abs(g);
    CHECK(size > 1e-3); // something was computed
}

} // namespace

TEST_SUITE("layer/stage_pass") {
    TEST_CASE("granules one behind the other compute what each sample computes alone") {
        constexpr auto lanes = portable::lanes<double>;
        for (std::size_t const samples : {std::size_t{1}, lanes, lanes + 1, 3 * lanes, 5 * lanes - 1}) {
            the_same<networks<true>::shapes, networks<false>::shapes, portable>(samples);
            the_same<networks<true>::waiting, networks<false>::waiting, portable>(samples);
            the_same<networks<true>::late, networks<false>::late, portable>(samples);
            the_same<networks<true>::none, networks<false>::none, portable>(samples);
        }
    }

    TEST_CASE("in granules of one sample, too") {
        for (std::size_t const samples : {1u, 2u, 7u})
            the_same<networks<true>::waiting, networks<false>::waiting, one_sample>(samples);
    }

    TEST_CASE("a network in stages computes the bits of the whole one, wherever it is cut between two residuals") {
        using net = networks<true>::waiting;
        auto const whole = by_shard<net, portable>(start<net>(2 * portable::lanes<double> + 1));
        std::size_t cuts = 0;
        for (std::size_t cut = 1; cut < net::depth; ++cut) {
            CAPTURE(cut);
            auto const parts = by_shard<net, portable>(start<net>(2 * portable::lanes<double> + 1), cut);
            CHECK(parts.outputs == whole.outputs);
            CHECK(parts.gradients == whole.gradients);
            ++cuts;
        }
        CHECK(cuts == net::depth - 1);
    }

    TEST_CASE("ranks that go row by row, and add what their layers exchange, compute what one rank computes") {
        using net = network<input<2, 3, 3>, conv3<3>, batch_norm<synchronised>, curve,
                            residual<batch_norm<synchronised>>, flatten, linear<2>>;
        static_assert(net::exchanges.count == 6 && net::row(4).first_exchange == 3);
        constexpr auto lanes = portable::lanes<double>;
        start<net> const s(lanes);
        auto const one = by_ranks<net, portable>(s, 1), two = by_ranks<net, portable>(s, 2);
        auto const size_of = [](double truth) { return std::max(1.0, std::abs(truth)); };
        CHECK(test_support::most_apart(two.outputs, one.outputs, size_of) < 1e-11);
        CHECK(test_support::most_apart(two.gradients, one.gradients, size_of) < 1e-11);
    }

    TEST_CASE("a rank without samples adds zeros to what others exchange, whatever it has kept") {
        using net = network<input<2, 3, 3>, conv3<3>, sums_of_all, curve, residual<sums_of_all>, flatten, linear<2>>;
        using pass_type = host_pass<net, portable, double>;
        static_assert(net::exchanges.count == 4);
        auto const places = pass_type::plan(pass_type::lanes);
        std::vector<double> arena(pass_type::elements(places), std::numeric_limits<double>::quiet_NaN()),
            parameters(net::parameters, 0.5), gradients(net::parameters);
        detail::model_numbers<double> const model{parameters.data(), gradients.data()};
        pass_type const pass(places, arena.data(), model, {1, 1, 0, 0, 0, 0, 5});
        std::vector<double> added;
        auto const exchange = [&](std::size_t i) {
            auto const& e = net::exchanges[i];
            for (auto k = e.first; k < e.first + e.elements; ++k) added.push_back(std::exchange(pass.kept()[k], 7));
        };
        stage_pass const all(pass);
        all.forward(nothing_beside{}, nothing_beside{}, exchange);
        all.backward(nothing_beside{}, nothing_beside{}, exchange);
        CHECK(added == std::vector<double>(4, 0.0));
    }

    TEST_CASE("a hundred residuals are one residual's code, and its rows a hundred times") {
        using one = residual<sequential<conv2d<2, kernel<1>>, batch_norm<>, curve>>;
        using net = network<input<2, 2, 2>, repeat<100, one, curve>, flatten, linear<2>>;
        constexpr std::size_t block = 7, parameters = 2 * 2 + 2 + 2 + 2;
        static_assert(net::depth == 100 * block + 2);
        static_assert(net::parameters == 100 * parameters + 8 * 2 + 2);
        static_assert(net::row(99 * block).first_parameter == 99 * parameters);
        auto const r = by_shard<net, portable>(start<net>(3));
        bool finite = true;
        std::size_t zeros = 0;
        for (auto const g : r.gradients) finite = finite && std::isfinite(g);
        for (std::size_t n = 0; n < 100; ++n) { // each repetition has gradients of its own
            auto const first = r.gradients.begin() + static_cast<std::ptrdiff_t>(n * parameters);
            zeros += std::all_of(first, first + parameters, [](double g) { return g == 0; }) ? 1 : 0;
        }
        CHECK(finite);
        CHECK(zeros == 0);
    }

    TEST_CASE("a hundred residuals that wait for nothing, as one straight line of loops") {
        using net = network<input<4>, repeat<100, residual<sequential<linear<4>, hyperbolic_tangent>>>, linear<2>>;
        static_assert(net::depth == 100 * 5 + 1 && host_pass<net, portable, double, 1>::one.elements > 0);
        start<net> const s(2);
        auto const expected = one_by_one_sample<net, portable>(s), got = by_shard<net, portable>(s);
        auto const norm = [](std::vector<double> const& v) {
            double most = 1;
            for (auto const x : v) most = std::max(most, std::abs(x));
            return most;
        };
        // chaotic: errors grow with the values, so they are measured by the largest
        double worst = 0;
        for (std::size_t i = 0; i < got.gradients.size(); ++i)
            worst = std::max(worst, std::abs(got.gradients[i] - expected.gradients[i]));
        CHECK(worst / norm(expected.gradients) < 1e-9);
    }
}

} // namespace layer_stage_pass_test
