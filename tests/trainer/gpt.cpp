// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A small GPT with all that may go wrong between devices: an end that is tied to its embedding, dropout inside of
// attention and behind it, clipping, parameters that do not decay, batches in parts, recomputation.

#include <trireme/readers.hpp>
#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <support/allocation_hook.hpp>
#include <support/compare.hpp>
#include <support/left_out.hpp>
#include <support/networks.hpp>
#include <support/sanitizers.hpp>
#include <support/strategies.hpp>
#include <support/traces.hpp>
#include <support/wires.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trainer_gpt_test {
using namespace trireme;

namespace {

constexpr std::size_t context = 12, width = 24, vocabulary = 40;

using drop = dropout<percent<10>>;
using block = sequential<
    residual<sequential<layer_norm, linear<3 * width>, attention<heads<3>, causal, drop>, linear<width>, drop>>,
    residual<sequential<layer_norm, linear<4 * width>, gelu_tanh, linear<width>, drop>>>;
using net =
    network<input<context>, embedding<vocabulary, width>, learned_positions, repeat<2, block>, layer_norm, tied<0>>;

template<class... Policies>
using any_gpt = test_networks::any_stages<host, net, cross_entropy, adamw, reduce_by<chosen_at_run_time>, clip_norm,
                                          without_decay<biases, norms, embeddings>, Policies...>;

std::vector<std::uint8_t> const tokens = [] {
    std::vector<std::uint8_t> all;
    random_stream const random(11, random_purpose::user);
    for (std::uint64_t i = 0; i < 1000; ++i) // what follows depends on the last two
        all.push_back(static_cast<std::uint8_t>(
            i < 2 ? i : (3u * all[i - 1] + all[i - 2] + random.below(i, 3)) % static_cast<unsigned>(vocabulary)));
    return all;
}();
token_windows const windows(tokens, context, vocabulary, drawn_each_epoch);

struct result {
    std::vector<double> told;
    std::vector<float> weights;
    bool operator==(result const&) const = default;
};
template<class Trainer>
result train(Trainer& t) {
    shuffled_batches batches(windows, 24, 3), few(windows, 13, 4);
    result r;
    for (int i = 0; i < 3; ++i) {
        auto const drawn = batches.at(t.steps());
        auto const step = [&] { return t.step(drawn).loss; };
        r.told.push_back(i == 0 ? step() : allocation_hook::nothing_by(step));
    }
    r.told.push_back(t.step(few.at(0)).loss);
    auto const e = t.evaluate(few.at(1));
    r.told.insert(r.told.end(), {e.loss, e.accuracy});
    for (auto const& epoch : t.fit(training_set{windows, few.at(2)}, {.epochs = 1}))
        r.told.insert(r.told.end(), {epoch.loss, epoch.test.loss});
    r.weights = t.gather_parameters();
    for (double const x : r.told) CHECK(std::isfinite(x));
    return r;
}
constexpr std::size_t epoch_steps = 4; // 82 windows in batches of 24

template<class... Policies>
void has_the_bits_of_one_device(std::vector<int> const& replicas) {
    using trainer_t = any_gpt<Policies...>;
    typename trainer_t::options const o{
        .learning_rate = 0.003f, .weight_decay = 0.1f, .max_norm = 0.5f, .batch = 24, .seed = 3, .logical_shards = 8};
    trainer_t one(o, {.devices = 1, .stages = 1});
    auto const wanted = train(one);
    CHECK(wanted.told[6] < wanted.told[0]);
    for (int const devices : replicas)
        for (int const stages : {1, 2, 4})
            for (auto const& schedule : {schedule_choice(one_f_one_b{}), schedule_choice(zero_bubble_h1{})}) {
                if (stages == 1 && schedule.name != schedule_choice(one_f_one_b{}).name) continue;
                CAPTURE(devices);
                CAPTURE(stages);
                CAPTURE(std::string(schedule.name));
                trainer_t t(o, {.devices = devices, .stages = stages, .schedule = schedule, .trace = true});
                CHECK(train(t) == wanted);
                CHECK_NOTHROW(test_traces::trace_is_program(t, devices * stages, 4 + epoch_steps));
                CHECK(test_wires::reads_as_planned(t, shuffled_batches(windows, 24, 3).at(0), 0, devices * stages));
                CHECK(test_wires::add_up(t.plan()));
            }
}

template<class... Strategies>
void trains_alike_by(std::vector<int> const& devices) {
    any_gpt<>::options const o{.learning_rate = 0.003f, .batch = 24, .seed = 3};
    auto const told = [&](int n, int stages, strategy_choice const& strategy) {
        any_gpt<> t(o, {.devices = n, .stages = stages, .strategy = strategy});
        std::vector<double> losses;
        shuffled_batches batches(windows, 24, 3);
        for (int i = 0; i < 3; ++i) losses.push_back(t.step(batches.at(t.steps())).loss);
        return losses;
    };
    int compared = 0;
    for (int const n : devices)
        for (int const stages : {1, 2}) {
            auto const wanted = told(n, stages, direct{});
            auto const by = [&]<class S>(S strategy) {
                CAPTURE(n);
                CAPTURE(stages);
                CAPTURE(std::string(S::name));
                if constexpr (detail::is_all_reduce<S>) {
                    any_gpt<>::run_options const where{.devices = n, .stages = stages, .strategy = strategy};
                    try {
                        any_gpt<>::check(o, where);
                    } catch (usage_error const&) { // not for so many ranks
                        return;
                    }
                    CHECK(test_support::apart(told(n, stages, strategy), wanted) < 1e-5);
                    ++compared;
                }
            };
            (by(Strategies{}), ...);
        }
    CHECK(compared > 30);
}

} // namespace

TEST_SUITE("trainer/gpt") {
    TEST_CASE("it has one device's bits in replicas and stages, its trace is the program, its bytes are the plan's") {
        has_the_bits_of_one_device<>(sanitized ? std::vector{3} : std::vector{1, 2, 3, 4});
    }

    TEST_CASE("so it has with batches in parts, and with values that are computed twice") {
        has_the_bits_of_one_device<accumulate<2>, recompute<all>>(sanitized ? std::vector{2} : std::vector{1, 2, 4});
    }

    TEST_CASE("every strategy trains it alike") {
        if (test_support::left_out(sanitized, "every strategy takes too long under a sanitizer")) return;
        trains_alike_by<EVERY_STRATEGY>({2, 3, 4});
    }
}

} // namespace trainer_gpt_test
