// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <support/allocation_hook.hpp>
#include <support/compare.hpp>
#include <support/networks.hpp>
#include <support/own_schedules.hpp>
#include <support/sanitizers.hpp>

#include <cmath>
#include <string>
#include <vector>

// Trainings in stages, and what they must be equal to.
namespace test_pipelines {
using namespace trireme;
using test_networks::made_up;

using dense = network<input<1, 28, 28>, flatten, linear<24>, repeat<8, relu, linear<24>>, relu, linear<10>>;

/// A trainer of any number of replicas and stages.
template<class Device, class Network, class... Policies>
using any_pipeline = test_networks::any_stages<Device, Network, cross_entropy, sgd_momentum, Policies...>;

/// A short training with full, short and very short batches, tests, and an epoch leaves this; with sanitizers less
/// of each.
struct result {
    std::vector<double> told;
    std::vector<double> numbers;
    bool operator==(result const&) const = default;
};
/// False for trainers whose kernels call libraries that take memory in a step.
template<class Trainer>
inline constexpr bool counts_allocations = true;

constexpr int steps_of_training = sanitized ? 4 : 7; ///< those of its epoch, too
template<class Trainer>
result train(Trainer& t) {
    result r;
    using sizes = std::vector<std::size_t>;
    for (auto const n : sanitized ? sizes{50, 5} : sizes{50, 37, 5, 50}) {
        auto const images = made_up(n, n);
        auto const step = [&] { return t.step(images).loss; };
        r.told.push_back(r.told.empty() || !counts_allocations<Trainer> ? step() : allocation_hook::nothing_by(step));
    }
    for (auto const n : sanitized ? sizes{1, 61} : sizes{1, 16, 333}) {
        auto const e = t.evaluate(made_up(n, 9));
        r.told.insert(r.told.end(), {e.loss, e.accuracy});
    }
    for (auto const& epoch : t.fit({made_up(sanitized ? 67 : 130), made_up(sanitized ? 9 : 53, 9)}, {.epochs = 1}))
        r.told.insert(r.told.end(), {epoch.loss, epoch.test.loss, epoch.test.accuracy});
    for (auto const& some : {t.gather_parameters(), t.gather_buffers()})
        r.numbers.insert(r.numbers.end(), some.begin(), some.end());
    for (double const x : r.told) CHECK(std::isfinite(x));
    return r;
}

/// Schedule: like one_f_one_b, but the first role is one micro-batch further ahead.
struct eager {
    static constexpr char const* name = "eager";
    static constexpr int chunks = 1;
    static constexpr int write(int roles, int micro_batches, int role, scheduled_work* out) {
        return one_f_one_b::write(roles + (role == 0 ? 1 : 0), micro_batches, role, out);
    }
};

template<class Device, class Network, class... Policies>
void as_on_one_device(int most_stages, std::vector<int> const& replicas) {
    using trainer_t = any_pipeline<Device, Network, Policies...>;
    typename trainer_t::options const training{.learning_rate = 0.05f, .batch = 50, .seed = 3, .logical_shards = 8};
    trainer_t one(training, {.devices = 1, .stages = 1});
    auto const wanted = train(one);
    for (int stages = 2; stages <= most_stages; ++stages)
        for (int const devices : replicas)
            for (schedule_choice const& schedule :
                 {schedule_choice(gpipe{}), schedule_choice(one_f_one_b{}), schedule_choice(eager{}),
                  schedule_choice(zero_bubble_h1{}), schedule_choice(interleaved<2>{}),
                  schedule_choice(interleaved<3>{}), schedule_choice(zero_bubble_v{})}) {
                if (stages * schedule.chunks > most_stages) continue;
                CAPTURE(stages);
                CAPTURE(devices);
                CAPTURE(std::string(schedule.name));
                trainer_t t(training, {.devices = devices, .stages = stages, .schedule = schedule});
                CHECK(t.devices() == devices * stages);
                CHECK(train(t) == wanted);
            }
}

/// A schedule may go back in any order where no bits are promised, as GPipe was published: its sums are one device's.
template<class Device>
void last_first_has_one_devices_sums() {
    using trainer_t = trainer<test_networks::every_layer, cross_entropy, sgd_momentum,
                              on<mesh<Device, dp<dynamic>, pp<dynamic>>>, precision<f64>>;
    typename trainer_t::options const training{.learning_rate = 0.05f, .batch = 24, .seed = 3};
    for (int const stages : {2, 3}) {
        CAPTURE(stages);
        trainer_t one(training, {.devices = 1, .stages = 1, .micro_batches = 4});
        trainer_t many(training,
                       {.devices = 1, .stages = stages, .micro_batches = 4, .schedule = own_schedules::last_first{}});
        for (std::size_t const n : {24u, 13u, 24u, 3u})
            CHECK(many.step(made_up(n, n)).loss == doctest::Approx(one.step(made_up(n, n)).loss).epsilon(1e-12));
        CHECK(test_support::apart(many.gather_parameters(), one.gather_parameters()) < 1e-9);
        CHECK(test_support::apart(many.gather_buffers(), one.gather_buffers()) < 1e-9);
    }
}

} // namespace test_pipelines
