// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/compare.hpp>
#include <support/networks.hpp>
#include <support/promises.hpp>
#include <support/training.hpp>

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

// Trainings on the rehearsal: how their work is played, and what they take.

namespace rehearsed {
using trireme::rehearsal_runtime::stage;
using trireme::rehearsal_runtime::timing;

/// A network of layers that take samples one by one, small enough for many trainings.
using tiny = trireme::network<trireme::input<1, 28, 28>, trireme::avg_pool2d<4>, trireme::conv2d<3, trireme::kernel<3>>,
                              trireme::hyperbolic_tangent, trireme::max_pool2d<2>, trireme::flatten,
                              trireme::linear<12>, trireme::relu, trireme::linear<10>>;

/// Plays work as told, on so many devices, and puts the stage back as it was.
struct on_stage {
    static constexpr int all_devices = trireme::rehearsal_runtime::memory_budget::most_devices;

    explicit on_stage(timing when = timing::late, std::uint64_t seed = 0, int devices = all_devices) {
        play(when, seed, devices);
    }
    on_stage(on_stage const&) = delete;
    on_stage& operator=(on_stage const&) = delete;
    ~on_stage() { play(timing::late, 0, all_devices); }

private:
    static void play(timing when, std::uint64_t seed, int devices) {
        stage::here().clear();
        stage::here().forget_nothing();
        stage::here().play(when, seed);
        trireme::rehearsal_runtime::budget.devices = devices;
    }
};

/// Devices have been asked for this memory since the object was made.
class memory_taken {
public:
    /// A trainer made since then has asked for what its plan says, to the byte. Ranks take turns on the devices; those
    /// that share one share some words of their tables.
    template<class Trainer>
    void is_planned(Trainer const& t) const {
        auto const devices = static_cast<std::size_t>(trireme::rehearsal_runtime::budget.devices);
        for (std::size_t d = 0; d < devices; ++d) {
            CAPTURE(d);
            std::size_t planned = 0, more = 0;
            for (std::size_t r = d; r < static_cast<std::size_t>(t.devices()); r += devices) {
                more += planned == 0 ? 0 : 2 * trireme::cache_line + sizeof(void*) * t.plan().layout.reductions();
                planned += t.plan().memory(static_cast<int>(r)).total();
            }
            auto const taken = trireme::rehearsal_runtime::budget.taken[d] - before_[d];
            CHECK(taken <= planned);
            CHECK(taken + more >= planned);
        }
    }

    void is_given_back() const { CHECK((std::to_array(trireme::rehearsal_runtime::budget.taken) == before_)); }

private:
    decltype(std::to_array(trireme::rehearsal_runtime::budget.taken)) before_ =
        std::to_array(trireme::rehearsal_runtime::budget.taken);
};

/// Devices take what the plan says, to the byte: make(taken) makes the trainer and hands it to `taken`.
inline constexpr auto as_planned = [](auto const& make) {
    make([before = memory_taken()](auto const& t) { before.is_planned(t); });
};

/// Orders in which the work of streams may be played, with graphs or without.
struct playing {
    timing when;
    std::uint64_t seed;
    bool eager;
};
inline constexpr playing orders[] = {{timing::late, 0, false}, {timing::shuffled, 1, true}, {timing::eager, 0, false}};

/// Trainings of up to 3 devices and so many stages have one device's bits in every order, in memory as planned. Returns
/// what train(trainer) tells of one device.
template<class Trainer, class Train>
std::vector<double> has_one_devices_bits_in_stages(typename Trainer::options const& training, int most_stages,
                                                   Train const& train) {
    auto const wanted = [&] {
        on_stage const as_usual;
        Trainer one(training);
        return train(one);
    }();
    for (double const x : wanted) CHECK(std::isfinite(x));
    for (int stages = 1; stages <= most_stages; ++stages)
        for (int const devices : {1, 2, 3})
            for (auto const& how : orders) {
                CAPTURE(stages);
                CAPTURE(devices);
                CAPTURE(how.seed);
                CAPTURE(how.eager);
                on_stage const as_told(how.when, how.seed);
                memory_taken const taken;
                Trainer many(training,
                             {.devices = devices, .stages = stages, .share_devices = true, .eager = how.eager});
                taken.is_planned(many);
                CHECK(test_support::same_bits(train(many), wanted));
            }
    return wanted;
}

/// Trainings on one and two devices, in every order, tell the numbers of the host, which are returned: to the bit where
/// `tolerance` is 0, else as test_support::apart has it. `train(device, devices)` tells them.
template<class Train>
std::vector<double> has_the_hosts_numbers(double tolerance, Train const& train) {
    std::vector<double> const wanted = train(trireme::host{}, 1);
    for (int const devices : {1, 2})
        for (auto const& how : orders) {
            CAPTURE(devices);
            CAPTURE(how.seed);
            on_stage const as_told(how.when, how.seed);
            auto const found = train(trireme::rehearsal{}, devices);
            if (tolerance == 0)
                CHECK(test_support::same_bits(found, wanted));
            else
                CHECK(test_support::apart(found, wanted) < tolerance);
        }
    return wanted;
}

/// The losses of an epoch's steps, and all numbers of all ranks.
template<class Trainer>
auto epoch_of(Trainer& t, std::size_t images) {
    std::pair<std::vector<double>, std::vector<typename Trainer::value_type>> found;
    auto const keep = [&](trireme::progress_report const& p) { found.first.push_back(p.loss); };
    for (auto const& epoch : t.fit({test_networks::made_up(images), {}}, {.epochs = 1}, keep)) (void)epoch;
    for (int r = 0; r < t.devices(); ++r) {
        auto const numbers = test_networks::numbers_of(t, r);
        found.second.insert(found.second.end(), numbers.begin(), numbers.end());
    }
    return found;
}

/// Without a wait some order of work must go wrong. Forgets each in turn, in what `run()` hands over; `spare` of them
/// are for what is known to be in order anyway.
template<class Run>
void every_wait_is_needed(std::uint64_t spare, Run const& run) {
    std::uint64_t waits = 0, missed = 0;
    auto const expected = [&] {
        on_stage const as_usual;
        auto outcome = run();
        waits = stage::here().waits();
        return outcome;
    }();
    CHECK(waits > 10);
    struct order {
        timing when;
        std::uint64_t seed = 0;
    };
    std::string not_missed;
    for (std::uint64_t w = 0; w < waits; ++w) {
        bool wrong = false;
        for (auto const& how : {order{timing::late},
                                {timing::rushed, 0},
                                {timing::rushed, 1},
                                {timing::rushed, 2},
                                {timing::rushed, 3},
                                {timing::shuffled, 1}}) {
            on_stage const as_told(how.when, how.seed);
            stage::here().forget(w);
            try {
                wrong = wrong || !(run() == expected);
            } catch (std::exception const&) { // a capture that is not joined, an index out of nowhere
                wrong = true;
            }
            if (wrong) break;
        }
        missed += wrong;
        if (!wrong) not_missed += std::to_string(w) + ' ';
    }
    CAPTURE(not_missed);
    CHECK(missed + spare == waits);
}

} // namespace rehearsed

namespace promises {

struct order_of_work {
    bool eager;
    rehearsed::timing when;
    std::uint64_t seed = 0;
    int devices = rehearsed::on_stage::all_devices;
};

/// Ranks on rehearsed accelerators: work begins as late or as early as it may, or shuffled, as a graph or without one,
/// each rank on a device of its own or shared.
template<class Device, class Dtype, class... Own>
struct on_accelerators : trains_on<Device, Dtype, Own...> {
    using order = order_of_work;
    static std::vector<order> orders() {
        using enum rehearsed::timing;
        return {{false, shuffled, 5}, {true, shuffled, 3, 1}, {false, late, 0, 3},
                {false, eager},       {true, eager},          {true, late}};
    }
    template<class Trainer>
    static auto trained(test_networks::settings<Trainer> s, order const& how, std::vector<std::size_t> const& sizes) {
        rehearsed::on_stage const as_told(how.when, how.seed, how.devices);
        s.run.eager = how.eager;
        s.run.share_devices = true;
        rehearsed::memory_taken const taken;
        auto const found = test_networks::trained<Trainer>(s, sizes, [&](Trainer const& t) { taken.is_planned(t); });
        taken.is_given_back();
        return found;
    }
};

template<class Dtype, class... Own>
struct on_rehearsal : on_accelerators<rehearsal, Dtype, Own...> {
    using reference = on_threads<Dtype>;
    using wide = on_rehearsal<f32>; ///< what bf16 is compared with
    static constexpr double apart_from_wide = 0.02;
};

} // namespace promises
