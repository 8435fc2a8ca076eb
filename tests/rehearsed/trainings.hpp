// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/compare.hpp>
#include <support/networks.hpp>

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

// What trainings on the rehearsal leave behind, and how far it is from what others leave.

namespace rehearsed {

/// Puts the stage back as it was.
struct on_stage {
    explicit on_stage(trireme::rehearsal_runtime::timing when = trireme::rehearsal_runtime::timing::late,
                      std::uint64_t seed = 0) {
        trireme::rehearsal_runtime::stage::here().clear();
        trireme::rehearsal_runtime::stage::here().forget_nothing();
        trireme::rehearsal_runtime::stage::here().play(when, seed);
    }
    ~on_stage() {
        trireme::rehearsal_runtime::stage::here().clear();
        trireme::rehearsal_runtime::stage::here().forget_nothing();
        trireme::rehearsal_runtime::stage::here().play(trireme::rehearsal_runtime::timing::late);
    }
};

template<class T>
struct outcome {
    std::vector<double> losses;
    std::vector<T> numbers; ///< of all devices: parameters, buffers
    bool operator==(outcome const&) const = default;
};
template<class Trainer>
auto outcome_of(Trainer const& t) {
    outcome<typename Trainer::value_type> o;
    for (int r = 0; r < t.devices(); ++r) {
        auto const p = t.parameters(r);
        o.numbers.insert(o.numbers.end(), p.begin(), p.end());
        auto const b = t.buffers(r);
        o.numbers.insert(o.numbers.end(), b.begin(), b.end());
    }
    return o;
}
template<class Trainer>
auto train(Trainer& t, std::size_t images, int epochs) {
    std::vector<double> losses;
    auto const data = test_networks::made_up(images);
    auto const keep = [&](trireme::progress_report const& p) { losses.push_back(p.loss); };
    for (auto const& epoch : t.fit({data, {}}, {.epochs = epochs}, keep)) (void)epoch;
    losses.push_back(t.evaluate(data).loss);
    auto o = outcome_of(t);
    o.losses = std::move(losses);
    return o;
}

using test_support::apart;

/// What devices have been asked for since this was made.
class memory_taken {
public:
    /// A trainer made since then has asked for what its plan says, to the byte.
    template<class Trainer>
    void is_planned(Trainer const& t) const {
        for (int r = 0; r < t.devices(); ++r) {
            auto const device = static_cast<std::size_t>(r);
            CHECK(t.plan().memory(r).total() == trireme::rehearsal_runtime::budget.taken[device] - before_[device]);
        }
    }

private:
    decltype(std::to_array(trireme::rehearsal_runtime::budget.taken)) before_ =
        std::to_array(trireme::rehearsal_runtime::budget.taken);
};

template<class Network>
void gradients_in_parts_give_the_same_sums() {
    using namespace trireme;
    on_stage const as_told(rehearsal_runtime::timing::shuffled, 21);
    using whole = trainer<Network, cross_entropy, sgd, on<mesh<rehearsal, dp<3>>>, reduce_by<direct>, precision<f64>>;
    using cut = trainer<Network, cross_entropy, sgd, on<mesh<rehearsal, dp<3>>>, reduce_by<direct, bucket<512>>,
                        precision<f64>>;
    static_assert(cut::plan(batch{12}).layout.reductions() > 3);
    whole a{{.learning_rate = 0.03f, .batch = 12, .seed = 1}};
    cut b{{.learning_rate = 0.03f, .batch = 12, .seed = 1}};
    auto const expected = train(a, 40, 1), got = train(b, 40, 1);
    CHECK(apart(got.losses, expected.losses) < 1e-9);
    CHECK(apart(got.numbers, expected.numbers) < 1e-9);
}

} // namespace rehearsed
