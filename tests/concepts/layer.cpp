// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Layers that model docs/concepts/layer.md and nothing more, in networks.

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <support/compare.hpp>
#include <support/described.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

namespace layer_concept_test {
using namespace trireme;

// [layer_archetype]
struct scale {        // y = factor * x
    scale() = delete; // no layer is ever an object

    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
        d.parameter_count = 1;
        d.parameters[0] = {.name = "factor", .shape = make_shape(1), .init = initial::ones};
        return d;
    }
    static void forward(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = io.parameter(0)[0] * io.x[i];
    }
    static void backward_input(auto const& io) { // writes dx
        for (std::size_t i = 0; i < io.x.size(); ++i) io.dx[i] = io.parameter(0)[0] * io.dy[i];
    }
    static void backward_weights(auto const& io) { // adds to the gradient
        for (std::size_t i = 0; i < io.x.size(); ++i) io.gradient(0)[0] += io.x[i] * io.dy[i];
    }
};
static_assert(layer_on<scale, input<3, 8, 8>>);
// [/layer_archetype]

// [view_archetype]
struct as_list { // the same values, as a list
    as_list() = delete;

    static constexpr layer_description describe(shape in) {
        if (in.rank == 1) return refused(in);
        layer_description d;
        d.output = make_shape(in.size());
        d.execution.view = true;
        return d;
    }
    template<class Where, class In>
    struct refusal {
        static_assert(sizeof(Where) == 0, "this is a list already");
    };
};
static_assert(layer_on<as_list, input<3, 8, 8>> && layer_on<as_list, input<192>>);
// [/view_archetype]

// [agreeing_archetype]
struct centred { // y = x less its mean over the samples of the shard
    centred() = delete;

    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
        d.kept = 2 * in.size(); // the means of x, and those of dy
        d.buffer_count = 1;
        d.buffers[0] = {.name = "running_mean", .shape = in, .init = initial::zeros};
        d.forward.phases = d.backward.phases = 1;
        return d;
    }
    static void forward_gather(auto const& io) { add(io, io.x, io.place.kept); }
    static void forward_agree(auto const& io, int) {
        using T = typename std::remove_cvref_t<decltype(io)>::value_type;
        divide(io, io.place.kept);
        for (std::size_t i = 0; i < width<decltype(io)>; ++i)
            io.place.statistics[i] += static_cast<T>(io.place.granule.share()) * io.place.kept[i];
    }
    static void forward(auto const& io) { subtract(io, io.x, io.place.kept, io.y); }
    static void evaluate(auto const& io) { subtract(io, io.x, io.place.buffers, io.y); } // nothing is gathered there

    static void backward_gather(auto const& io) { add(io, io.dy, io.place.kept + width<decltype(io)>); }
    static void backward_agree(auto const& io, int) { divide(io, io.place.kept + width<decltype(io)>); }
    static void backward_input(auto const& io) { subtract(io, io.dy, io.place.kept + width<decltype(io)>, io.dx); }

private:
    template<class Io>
    static constexpr std::size_t width = std::remove_cvref_t<Io>::input::size;
    template<class Io>
    static constexpr std::size_t lanes = std::remove_cvref_t<Io>::lanes;

    template<class Io>
    static void add(Io const& io, auto const& values, auto* sums) {
        for (std::size_t i = 0; i < width<Io>; ++i) {
            if (io.place.granule.first == 0) sums[i] = 0; // the shard's first granule
            for (std::size_t lane = 0; lane < io.place.granule.count; ++lane) sums[i] += values[i * lanes<Io> + lane];
        }
    }
    template<class Io, class T>
    static void divide(Io const& io, T* sums) {
        auto const samples = std::max(io.place.granule.samples, std::size_t{1}); // a shard may have none: 0 / 1
        for (std::size_t i = 0; i < width<Io>; ++i) sums[i] /= static_cast<T>(samples);
    }
    template<class Io>
    static void subtract(Io const& io, auto const& from, auto const* means, auto const& to) {
        for (std::size_t i = 0; i < width<Io>; ++i)
            for (std::size_t lane = 0; lane < lanes<Io>; ++lane) // dx of a lane without a sample must be 0
                to[i * lanes<Io> + lane] = lane < io.place.granule.count ? from[i * lanes<Io> + lane] - means[i] : 0;
    }
};
static_assert(layer_on<centred, input<4>>);
// [/agreeing_archetype]

/// centred of four samples or more.
struct centred_of_four : centred {
    static constexpr layer_description describe(shape in) {
        auto d = centred::describe(in);
        d.least_samples = 4;
        return d;
    }
};

/// y = x less its mean over the samples of all shards.
struct centred_everywhere : centred {
    static constexpr layer_description describe(shape in) { return test_described::sums_both_ways(in); }
    static void forward_agree(auto const& io, int phase) { divide(io, io.place.kept, phase); }
    static void backward_agree(auto const& io, int phase) {
        divide(io, io.place.kept + std::remove_cvref_t<decltype(io)>::input::size, phase);
    }
    static void evaluate(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = io.x[i];
    }

private:
    template<class Io, class T>
    static void divide(Io const& io, T* sums, int phase) {
        for (std::size_t i = 0; i < Io::input::size && phase == 1; ++i)
            sums[i] /= static_cast<T>(io.place.granule.batch);
    }
};
static_assert(layer_on<centred_everywhere, input<4>>);

// A member of another kind under the name takes a requirement away.
struct without_describe : scale {
    struct describe;
};
struct that_tells_a_shape : scale {
    static constexpr shape describe(shape in) { return in; }
};
static_assert(layer<scale> && !layer<without_describe> && !layer<that_tells_a_shape>);

struct described_at_run_time : scale {
    static layer_description describe(shape in) { return scale::describe(in); }
};
struct without_forward : scale {
    struct forward;
};
struct without_backward_input : scale {
    struct backward_input;
};
struct without_backward_weights : scale {
    struct backward_weights;
};
static_assert(!layer<described_at_run_time> && !layer_on<described_at_run_time, input<4>>);
static_assert(layer<without_forward> && !layer_on<without_forward, input<4>>);
static_assert(!layer_on<without_backward_input, input<4>>);
static_assert(!layer_on<without_backward_weights, input<4>>);

struct without_refusal : as_list {
    struct refusal;
};
static_assert(layer_on<without_refusal, input<2, 2>> && !layer_on<without_refusal, input<4>>);

struct without_forward_gather : centred {
    struct forward_gather;
};
struct without_forward_agree : centred {
    struct forward_agree;
};
struct without_evaluate : centred {
    struct evaluate;
};
struct without_backward_gather : centred {
    struct backward_gather;
};
struct without_backward_agree : centred {
    struct backward_agree;
};
static_assert(!layer_on<without_forward_gather, input<4>> && !layer_on<without_forward_agree, input<4>>);
static_assert(!layer_on<without_evaluate, input<4>>);
static_assert(!layer_on<without_backward_gather, input<4>> && !layer_on<without_backward_agree, input<4>>);

// The library's own layers model it, too.
static_assert(layer_on<linear<3>, input<4>> && layer_on<linear<3>, input<1, 2, 2>>); // refused, and says why
static_assert(layer_on<conv2d<2, kernel<3>>, input<1, 8, 8>> && layer_on<max_pool2d<2>, input<1, 8, 8>>);
static_assert(layer_on<relu, input<4>> && layer_on<flatten, input<2, 2>> && layer_on<dropout<percent<20>>, input<4>>);
static_assert(layer_on<batch_norm<>, input<4>> && layer_on<batch_norm<synchronised>, input<4, 2, 2>>);

// [loss_archetype]
struct squared_distance { // of the outputs from their targets
    squared_distance() = delete;

    static constexpr loss_description describe(shape output) { return {.targets = output}; }

    static void forward(auto const& io) { // writes the loss of each sample
        using io_t = std::remove_cvref_t<decltype(io)>;
        for (std::size_t lane = 0; lane < io_t::lanes; ++lane) {
            io.loss[lane] = 0;
            for (std::size_t i = 0; i < io_t::input::size; ++i) {
                auto const apart = io.x(lane, i) - io.target(lane, i);
                io.loss[lane] += apart * apart;
            }
        }
    }
    static void backward(auto const& io) { // the same, and the gradient by x, times the weight
        using io_t = std::remove_cvref_t<decltype(io)>;
        forward(io);
        for (std::size_t lane = 0; lane < io_t::lanes; ++lane)
            for (std::size_t i = 0; i < io_t::input::size; ++i)
                io.dx(lane, i) = 2 * io.weight[lane] * (io.x(lane, i) - io.target(lane, i));
    }
};
static_assert(loss_on<squared_distance, input<3>>);
// [/loss_archetype]

struct picky_distance : squared_distance {
    static constexpr loss_description describe(shape output) {
        auto d = squared_distance::describe(output);
        d.accepts = output.size() == 1;
        return d;
    }
    template<class Out>
    struct refusal {
        static_assert(Out::size == 1, "one output");
    };
};
struct undescribed_distance : squared_distance {
    struct describe;
};
struct distance_described_at_run_time : squared_distance {
    static loss_description describe(shape output) { return squared_distance::describe(output); }
};
struct distance_without_forward : squared_distance {
    struct forward;
};
struct distance_without_backward : squared_distance {
    struct backward;
};
struct distance_without_refusal : picky_distance {
    struct refusal;
};
struct distance_weighed_by_an_object : squared_distance {
    double weight(auto const* targets) { return targets[0]; }
};
struct distance_weighed_in_double : squared_distance {
    static double weight(double const* targets) { return targets[0]; }
};
static_assert(!loss_on<distance_weighed_by_an_object, input<3>> && loss_on<distance_weighed_in_double, input<3>>);
static_assert(loss<squared_distance> && !loss<undescribed_distance> && !loss<scale>);
static_assert(!loss_on<distance_described_at_run_time, input<3>>);
static_assert(!loss_on<distance_without_forward, input<3>> && !loss_on<distance_without_backward, input<3>>);
static_assert(loss_on<picky_distance, input<3>> && !loss_on<distance_without_refusal, input<3>>);
static_assert(loss_on<cross_entropy, input<10>> && loss_on<mean_squared_error, input<2>>);

/// The loss of the first and the last of some steps.
template<class Network, class... Policies>
std::vector<double> losses_of_training() {
    std::vector<float> numbers, targets;
    for (int i = 0; i < 48; ++i) {
        for (int k = 0; k < 4; ++k) numbers.push_back(static_cast<float>((i * (k + 3)) % 7) / 7);
        targets.push_back(numbers[numbers.size() - 1] - numbers[numbers.size() - 3]);
    }
    samples_in_memory const samples(numbers, make_shape(1, 2, 2), targets, make_shape(1));
    trainer<Network, squared_distance, sgd, Policies...> t{{.learning_rate = 0.05f, .batch = 48}};
    std::vector<double> losses;
    for (int i = 0; i < 30; ++i) losses.push_back(t.step(samples).loss);
    losses.push_back(t.evaluate(samples).loss);
    return losses;
}

/// The losses of a step on all of `batch` samples and of one on `few` of them, and the buffers then.
template<class Layer, class... Policies>
std::vector<double> numbers_of_few(std::size_t batch, std::size_t few) {
    std::vector<float> numbers, targets;
    for (std::size_t i = 0; i < batch; ++i) {
        for (std::size_t k = 0; k < 4; ++k) numbers.push_back(static_cast<float>((i * (k + 3) + k) % 7) / 7);
        targets.push_back(static_cast<float>(i % 3));
    }
    samples_in_memory const all(numbers, make_shape(4), targets, make_shape(1));
    numbers.resize(4 * few);
    targets.resize(few);
    samples_in_memory const some(numbers, make_shape(4), targets, make_shape(1));
    trainer<network<input<4>, linear<4>, Layer, linear<3>, Layer, linear<1>>, squared_distance, sgd, Policies...> t{
        {.learning_rate = 0.05f, .batch = batch}};
    std::vector<double> found{t.step(all).loss, t.step(some).loss};
    for (auto const w : t.gather_parameters()) found.push_back(static_cast<double>(w));
    for (auto const b : t.gather_buffers()) found.push_back(static_cast<double>(b));
    return found;
}
} // namespace layer_concept_test

TEST_SUITE("concepts/layer") {
    using namespace layer_concept_test;

    TEST_CASE("archetypes of layers have the gradients of their functions") {
        CHECK(check_gradients<scale, input<3, 2, 2>>().ok());
        CHECK(check_gradients<as_list, input<3, 2, 2>>().ok());
        CHECK(check_gradients<centred, input<4>>().ok());
        CHECK(check_loss_gradients<squared_distance, input<3>>().ok());
    }

    TEST_CASE("archetypes of layers and of a loss train") {
        using net = network<input<1, 2, 2>, as_list, centred, scale, linear<3>, scale, linear<1>>;
        using on_two = on<mesh<host, dp<2>>>;
        auto const losses = losses_of_training<net, reproducible<fixed_tree, 2>>();
        CHECK(losses.back() < losses.front() / 2);
        CHECK(losses_of_training<net, reproducible<fixed_tree, 2>, on_two>() == losses);
    }
    TEST_CASE("a shard without samples adds nothing to what layers agree on") {
        auto const near = [](std::vector<double> const& a, std::vector<double> const& b) {
            return test_support::most_apart(a, b, [](double) { return 1.0; }) < 1e-5;
        };
        auto const one_of_all = numbers_of_few<centred_everywhere>(8, 1),
                   two_of_all = numbers_of_few<centred_everywhere>(8, 2);
        using on_three = on<mesh<host, dp<3>>>;
        CHECK(near(numbers_of_few<centred_everywhere, on<mesh<host, dp<2>>>>(8, 1), one_of_all));
        CHECK(near(numbers_of_few<centred_everywhere, on_three>(8, 2), two_of_all));
        auto const in_shards = numbers_of_few<centred, reproducible<fixed_tree, 8>>(8, 1);
        CHECK(std::ranges::all_of(in_shards, [](double n) { return std::isfinite(n); }));
        CHECK(numbers_of_few<centred, reproducible<fixed_tree, 8>, on_three>(8, 1) == in_shards);
        auto const in_parts = numbers_of_few<centred, accumulate<8>>(8, 1);
        CHECK(near(in_parts, in_shards));
        using in_stages = on<mesh<host, dp<1>, pp<2>>>;
        CHECK(near(numbers_of_few<centred, in_stages, pipeline<gpipe, 8>>(8, 1), in_shards));
        CHECK(near(numbers_of_few<centred, in_stages, pipeline<zero_bubble_h1, 8>>(8, 1), in_shards));
    }
    TEST_CASE("a layer that needs more samples is named in the refusal, and so is what it needs") {
        using net = network<input<4>, linear<4>, centred_of_four, linear<1>>;
        using on_two = trainer<net, squared_distance, sgd, on<mesh<host, dp<2>>>>;
        CHECK_THROWS_WITH_AS((trainer<net, squared_distance, sgd>({.batch = 3})),
                             "batch = 3 is too small: layer 1 (layer_concept_test::centred_of_four) needs at least 4 "
                             "samples of a shard; set the option `batch` to at least 4",
                             usage_error);
        CHECK_THROWS_WITH_AS(
            on_two({.batch = 7}),
            "batch = 7 on 2 devices leaves 3 for device 0: layer 1 "
            "(layer_concept_test::centred_of_four) needs at least 4 samples of a shard; set the option "
            "`batch` to at least 8, or use fewer devices",
            usage_error);
        using normed = network<input<4>, linear<4>, batch_norm<>, linear<1>>;
        CHECK_THROWS_WITH_AS(
            (trainer<normed, squared_distance, sgd, on<mesh<host, dp<2>>>>({.batch = 3})),
            doctest::Contains(") needs at least 2 samples of a shard, for it has one value per channel "
                              "and sample, and takes the variance of each channel over them; set the "
                              "option `batch` to at least 4, or use fewer devices, or "
                              "batch_norm<synchronised>"),
            usage_error);
        using everywhere = network<input<4>, linear<4>, batch_norm<synchronised>, linear<1>>;
        CHECK_THROWS_WITH_AS((trainer<everywhere, squared_distance, sgd>({.batch = 1})),
                             "batch = 1 is too small: layer 1 (batch_norm<synchronised>) needs at least 2 samples of "
                             "the batch, for it has one value per channel and sample, and takes the variance of each "
                             "channel over the batch; set the option `batch` to at least 2",
                             usage_error);
    }
}
