// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Training on accelerators, rehearsed on the host: the streams, events, graphs, tables and kernels are those of a GPU.

#include <support/compare.hpp>
#include <support/networks.hpp>

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace rehearsed_trainer_test {
using namespace trireme;
using rehearsal_runtime::stage;
using rehearsal_runtime::timing;

using test_networks::lenet;
using test_networks::made_up;

/// Every kind of layer, small enough for many trainings.
using tiny = network<input<1, 28, 28>, avg_pool2d<4>, conv2d<3, kernel<3>>, hyperbolic_tangent, max_pool2d<2>, flatten,
                     linear<12>, relu, linear<10>>;

template<class Device, class Network = tiny, class Optimizer = sgd, class... Policies>
using any = trainer<Network, cross_entropy, Optimizer, on<mesh<Device, dp<dynamic>>>, reduce_by<chosen_at_run_time>,
                    reproducible<fixed_tree, dynamic>, Policies...>;

/// Puts the stage back as it was.
struct on_stage {
    explicit on_stage(timing when = timing::late, std::uint64_t seed = 0, int devices = 8) {
        stage::here().clear();
        stage::here().forget_nothing();
        stage::here().play(when, seed);
        rehearsal_runtime::budget.devices = devices;
    }
    ~on_stage() {
        stage::here().clear();
        stage::here().forget_nothing();
        stage::here().play(timing::late);
        rehearsal_runtime::budget.devices = rehearsal_runtime::memory_budget::most_devices;
    }
};

struct outcome {
    std::vector<double> losses;
    std::vector<float> weights; ///< of all devices
    bool operator==(outcome const&) const = default;
};

template<class Trainer>
outcome train(Trainer& t, std::size_t images, int epochs) {
    outcome o;
    auto const data = made_up(images);
    auto const keep = [&](progress_report const& p) { o.losses.push_back(p.loss); };
    for (auto const& epoch : t.fit({data, {}}, {.epochs = epochs}, keep)) (void)epoch;
    for (int r = 0; r < t.devices(); ++r) {
        auto const w = t.parameters(r);
        o.weights.insert(o.weights.end(), w.begin(), w.end());
    }
    return o;
}

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
        d.in_place = InPlace;
        d.backward_reads_input = InPlace;
        d.backward_reads_output = !InPlace;
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

constexpr strategy_choice strategies[] = {direct{},
                                          ring{},
                                          bidirectional_ring{},
                                          recursive_halving_doubling{},
                                          double_binary_tree{},
                                          chain{},
                                          hierarchical<direct, ring>{}};

TEST_SUITE("rehearsed/trainer") {

    TEST_CASE("LeNet's first 50 losses are the host's") {
        on_stage const as_usual(timing::shuffled, 5);
        any<host, lenet>::options const o{.learning_rate = 0.5f, .batch = 4, .seed = 11, .devices = 1};
        any<host, lenet> on_host(o);
        any<rehearsal, lenet> on_one({.learning_rate = 0.5f, .batch = 4, .seed = 11, .devices = 1});
        any<rehearsal, lenet> on_two({.learning_rate = 0.5f, .batch = 4, .seed = 11, .devices = 2});
        auto const expected = train(on_host, 200, 1);
        REQUIRE(expected.losses.size() == 50);
        CHECK(test_support::relatively_apart(train(on_one, 200, 1).losses, expected.losses) < 1e-4);
        CHECK(test_support::relatively_apart(train(on_two, 200, 1).losses, expected.losses) < 1e-4);
    }

    TEST_CASE("any strategy, any number of ranks, on devices of their own or shared, whenever work is done") {
        any<host, tiny, sgd_nesterov> reference({.learning_rate = 0.1f, .batch = 24, .seed = 2});
        auto const expected = train(reference, 60, 2); // the last batch is half a batch
        for (auto const& strategy : strategies)
            for (int const ranks : {2, 3, 8})
                for (int const devices : {1, 3}) {
                    CAPTURE(strategy.name);
                    CAPTURE(ranks);
                    CAPTURE(devices);
                    on_stage const as_told(devices == 3 ? timing::shuffled : timing::late, 7, devices);
                    any<rehearsal, tiny, sgd_nesterov> t({.learning_rate = 0.1f,
                                                          .batch = 24,
                                                          .seed = 2,
                                                          .devices = ranks,
                                                          .strategy = strategy,
                                                          .share_devices = true});
                    auto const got = train(t, 60, 2);
                    CHECK(test_support::relatively_apart(got.losses, expected.losses) < 1e-4);
                    for (int r = 1; r < ranks; ++r) // all ranks hold the same bits
                        CHECK(std::memcmp(got.weights.data(),
                                          got.weights.data() + static_cast<std::size_t>(r) * tiny::parameters,
                                          tiny::parameters * sizeof(float)) == 0);
                    for (int r = 0; r < ranks; ++r) {
                        CHECK(t.wire(r).bytes == 6 * t.plan().wire(r).bytes);
                        CHECK(t.wire(r).messages == 6 * t.plan().wire(r).messages);
                    }
                }
    }

    TEST_CASE("a graph's replay has the bits of the eager step, whenever work is done") {
        outcome first;
        for (bool const eager : {false, true})
            for (auto const when : {timing::late, timing::eager, timing::shuffled}) {
                on_stage const as_told(when, 13);
                any<rehearsal> t({.batch = 20, .seed = 4, .devices = 2, .strategy = ring{}, .eager = eager});
                auto const got = train(t, 90, 2);
                if (first.losses.empty()) first = got;
                CHECK(got == first);
            }
    }

    TEST_CASE("buckets travel while backward goes on: the same sums") {
        on_stage const as_told(timing::shuffled, 21);
        using whole = trainer<tiny, cross_entropy, sgd, on<mesh<rehearsal, dp<3>>>, reduce_by<direct>>;
        using cut = trainer<tiny, cross_entropy, sgd, on<mesh<rehearsal, dp<3>>>, reduce_by<direct, bucket<64>>>;
        static_assert(cut::plan(batch{12}).layout.reductions() == 3);
        whole a{{.batch = 12, .seed = 1}};
        cut b{{.batch = 12, .seed = 1}};
        auto const expected = train(a, 40, 1), got = train(b, 40, 1);
        CHECK(test_support::relatively_apart(got.losses, expected.losses) < 1e-5);
        for (int r = 0; r < 3; ++r) CHECK(b.wire(r).bytes == 4 * b.plan().wire(r).bytes);
    }

    TEST_CASE("reproducible<fixed_tree, V>: the same bits for any number of ranks and devices") {
        outcome first;
        for (int const ranks : {1, 2, 3, 4, 6})
            for (int const devices : {1, 2, 8}) {
                CAPTURE(ranks);
                CAPTURE(devices);
                on_stage const as_told(timing::shuffled, 3, devices);
                any<rehearsal> t(
                    {.batch = 24, .seed = 4, .devices = ranks, .logical_shards = 6, .share_devices = true});
                auto got = train(t, 56, 2);
                got.weights.resize(tiny::parameters);
                if (first.losses.empty()) first = got;
                CHECK(got == first);
                CHECK(t.wire(0).bytes == 6 * t.plan().wire(0).bytes);
            }
    }

    TEST_CASE("steps and evaluations of any size") {
        on_stage const as_told(timing::shuffled, 1);
        for (std::size_t const shards : {std::size_t{0}, std::size_t{4}}) {
            any<host> on_host({.batch = 16, .seed = 9, .devices = 2, .logical_shards = shards});
            any<rehearsal> t({.batch = 16, .seed = 9, .devices = 2, .logical_shards = shards});
            for (auto const n : std::initializer_list<std::size_t>{1, 2, 15, 16, 17, 31, 32, 33, 100}) {
                CAPTURE(n);
                auto const images = made_up(n, n);
                auto const a = t.step(images), b = on_host.step(images);
                CHECK(a.samples == n);
                CHECK(a.step == b.step);
                CHECK(a.loss == doctest::Approx(b.loss).epsilon(1e-5));
                auto const e = t.evaluate(images), f = on_host.evaluate(images);
                CHECK(e.loss == doctest::Approx(f.loss).epsilon(1e-5));
                CHECK(e.accuracy == f.accuracy);
            }
            std::vector<float> weights(tiny::parameters, 0.25f);
            t.load_parameters(weights);
            CHECK(std::memcmp(t.parameters(1).data(), weights.data(), weights.size() * sizeof(float)) == 0);
            t.set_learning_rate(0);
            t.step(made_up(16));
            CHECK(std::memcmp(t.parameters(0).data(), weights.data(), weights.size() * sizeof(float)) == 0);
        }
    }

    TEST_CASE("more logical shards than samples, and ranks without any") {
        struct setting {
            int devices;
            std::size_t shards, batch, samples;
        };
        for (auto const& one : {setting{1, 8, 4, 5}, {2, 8, 4, 5}, {3, 5, 3, 4}, {2, 8, 4, 3}, {3, 6, 3, 1}})
            for (bool const eager : {false, true})
                for (std::uint64_t seed = 0; seed < 5; ++seed) {
                    int const devices = one.devices;
                    auto const shards = one.shards, batch = one.batch, samples = one.samples;
                    CAPTURE(devices);
                    CAPTURE(shards);
                    CAPTURE(samples);
                    CAPTURE(eager);
                    on_stage const as_told(seed == 0 ? timing::late : timing::shuffled, seed);
                    any<host> on_host({.batch = batch, .seed = 3, .devices = devices, .logical_shards = shards});
                    any<rehearsal> t(
                        {.batch = batch, .seed = 3, .devices = devices, .logical_shards = shards, .eager = eager});
                    auto const images = made_up(samples);
                    for (int k = 0; k < 3; ++k)
                        CHECK(t.step(images).loss == doctest::Approx(on_host.step(images).loss).epsilon(1e-5));
                    CHECK(t.evaluate(images).loss == doctest::Approx(on_host.evaluate(images).loss).epsilon(1e-5));
                }
    }

    TEST_CASE("a network without parameters has nothing to add") {
        on_stage const as_usual;
        trainer<network<input<1, 28, 28>, avg_pool2d<7>, flatten, relu>, cross_entropy, sgd, on<mesh<rehearsal, dp<2>>>>
            t{{.batch = 4}};
        CHECK(std::isfinite(t.step(made_up(4)).loss));
    }

    TEST_CASE("layers of one's own: in place, with parameters, and with outputs that are read again") {
        for (std::uint64_t seed = 0; seed < 8; ++seed) {
            on_stage const as_told(seed == 0 ? timing::late : timing::shuffled, seed);
            using scaled_net = network<input<1, 28, 28>, flatten, linear<12>, linear<11>, scale<true>, scale<false>,
                                       sigmoid, linear<10>>;
            any<host, scaled_net> on_host({.learning_rate = 0.3f, .batch = 6, .seed = 1});
            any<rehearsal, scaled_net> t({.learning_rate = 0.3f, .batch = 6, .seed = 1});
            CHECK(test_support::relatively_apart(train(t, 30, 1).losses, train(on_host, 30, 1).losses) < 1e-4);
        }
    }

    TEST_CASE("the plan is what the devices are asked for, to the byte") {
        on_stage const as_usual;
        auto const taken = [](int device) { return rehearsal_runtime::budget.taken[device]; };
        for (int const ranks : {1, 2, 5, 8})
            for (std::size_t const shards : {std::size_t{0}, std::size_t{8}})
                for (auto const& strategy : strategies) {
                    if (shards != 0 && !strategy.is<direct>()) continue;
                    CAPTURE(ranks);
                    CAPTURE(shards);
                    CAPTURE(strategy.name);
                    std::size_t before[8], during[8];
                    for (int d = 0; d < 8; ++d) before[d] = taken(d);
                    {
                        any<rehearsal, tiny, sgd_momentum> t(
                            {.batch = 40, .devices = ranks, .strategy = strategy, .logical_shards = shards});
                        for (int d = 0; d < 8; ++d) during[d] = taken(d) - before[d];
                        for (int r = 0; r < ranks; ++r) CHECK(t.plan().memory(r).total() == during[r]);
                        t.step(made_up(100));
                        for (int d = 0; d < 8; ++d) CHECK(taken(d) - before[d] == during[d]); // a step takes nothing
                    }
                    for (int d = 0; d < 8; ++d) CHECK(taken(d) == before[d]);
                }
        using fixed = trainer<lenet, cross_entropy, sgd, on<mesh<rehearsal, dp<2>>>>;
        static_assert(fixed::plan(batch{256}).memory().activations > fixed::plan(batch{128}).memory().activations);
        static_assert(fixed::plan(batch{256}).bytes_per_device() < 16_MiB);
    }

    TEST_CASE("every wait for an event is needed: without it some order of work goes wrong") {
        // Two ranks on devices of their own, four steps, the last smaller: all streams and both slots take part. A ring
        // ends with ranks that wait until nobody reads from them any more, which the end of the step would see to as
        // well; and before a second shard's gradients are cleared nothing has been merged yet.
        struct expectation {
            strategy_choice strategy;
            std::size_t shards;
            std::uint64_t spare;
        };
        for (auto const& one : {expectation{ring{}, 0, 4}, {direct{}, 0, 0}, {direct{}, 4, 4}}) {
            auto const strategy = one.strategy;
            auto const shards = one.shards;
            CAPTURE(strategy.name);
            CAPTURE(shards);
            auto const run = [&](std::uint64_t forgotten) {
                stage::here().forget(forgotten);
                any<rehearsal, tiny, sgd_momentum> t({.learning_rate = 0.1f,
                                                      .batch = 8,
                                                      .seed = 6,
                                                      .devices = 2,
                                                      .strategy = strategy,
                                                      .logical_shards = shards});
                return train(t, 28, 1);
            };
            outcome expected;
            std::uint64_t waits = 0, missed = 0;
            {
                on_stage const as_usual;
                expected = run(~std::uint64_t{0});
                waits = stage::here().waits();
            }
            CHECK(waits > 10);
            std::string not_missed;
            for (std::uint64_t w = 0; w < waits; ++w) {
                bool wrong = false;
                for (std::uint64_t seed = 0; seed < 40 && !wrong; ++seed) {
                    on_stage const as_told(seed == 0 ? timing::late : timing::shuffled, seed);
                    try {
                        wrong = !(run(w) == expected);
                    } catch (std::exception const&) { // a capture that is not joined, an index out of nowhere
                        wrong = true;
                    }
                }
                missed += wrong;
                if (!wrong) not_missed += std::to_string(w) + ' ';
            }
            CAPTURE(not_missed);
            CHECK(missed + one.spare == waits);
        }
    }
}

} // namespace rehearsed_trainer_test
