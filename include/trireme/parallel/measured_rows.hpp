// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/pack.hpp>
#include <trireme/core/philox.hpp>
#include <trireme/core/words.hpp>
#include <trireme/device/host/memory.hpp>
#include <trireme/kernels/channels_last/policy.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/sample_by_sample.hpp>
#include <trireme/layer/host_pass.hpp>
#include <trireme/layer/initialise.hpp>
#include <trireme/layer/network.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/parallel/stages.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

namespace trireme {

/// Seconds that each row of a network takes for a sample, and the cut into stages that balances them. measure_rows
/// fills it in; so may a program that has the seconds from somewhere else.
///
///     std::cout << measure_rows<net>().policy(2);    // stages_by<cut_before<7>>
template<class Network>
struct measured_rows {
    double forward[Network::depth + 1] = {};  ///< seconds[row], of one sample
    double backward[Network::depth + 1] = {}; ///< likewise, by inputs and by parameters together

    /// Seconds of one sample in these rows, both ways.
    double seconds(range rows) const noexcept {
        double sum = 0;
        for (auto r = rows.begin; r < rows.end; ++r) sum += forward[r] + backward[r];
        return sum;
    }

    /// The rows of one of `stages` stages, so cut that the slowest takes as little time as possible; where that leaves
    /// a choice, earlier stages have more rows. Throws usage_error if the network cannot be cut into so many, or if
    /// seconds are negative or not finite.
    range rows(int stages, int stage) const {
        check(stages);
        if (stage < 0 || stage >= stages)
            throw usage_error("stage = " + std::to_string(stage) + ": " + std::to_string(stages) +
                              (stages == 1 ? " stage has the number 0" : " stages have the numbers from 0 on"));
        return detail::balanced_rows<Network>(costs(), stages, stage);
    }

    /// Seconds of the slowest stage of this cut, over those that each stage would have if all had as many: 1 is even,
    /// and `stages` is one stage with all the work. Throws usage_error as rows does.
    double imbalance(int stages) const {
        check(stages);
        double slowest = 0;
        for (int s = 0; s < stages; ++s) slowest = std::max(slowest, seconds(rows(stages, s)));
        auto const all = seconds({0, Network::depth});
        return all > 0 ? slowest * stages / all : 1;
    }

    /// The policy of a trainer that cuts the network so: "stages_by<cut_before<3, 7>>". Throws usage_error as rows
    /// does.
    std::string policy(int stages) const {
        check(stages);
        std::string text = "stages_by<cut_before<";
        for (int s = 1; s < stages; ++s) text += (s > 1 ? ", " : "") + std::to_string(rows(stages, s).begin);
        return text + ">>";
    }

private:
    TRIREME_COLD void check(int stages) const {
        auto const most = segments_of<Network>.count;
        if (stages < 1 || static_cast<std::size_t>(stages) > most)
            throw usage_error("stages = " + std::to_string(stages) + ": this network can be cut into 1 to " +
                              std::to_string(most) +
                              " stages (not inside a residual, and a function stays with the layer before it)");
        for (std::size_t r = 0; r < Network::depth; ++r)
            for (double const s : {forward[r], backward[r]})
                if (!std::isfinite(s) || s < 0)
                    throw usage_error("row " + std::to_string(r) + " takes " + std::to_string(s) +
                                      " seconds: a time is a finite number, and not below 0");
    }
    /// Whole numbers, for the search that cuts by constants, too: all seconds together are 10^15.
    detail::stage_costs<Network::depth> costs() const noexcept {
        auto const all = seconds({0, Network::depth});
        auto const scale = all > 0 ? 1e15 / all : 0;
        detail::stage_costs<Network::depth> c;
        auto const& segments = segments_of<Network>;
        for (std::size_t i = 0; i < segments.count; ++i)
            c.before[i + 1] =
                c.before[i] +
                static_cast<std::uint64_t>(std::llround(scale * seconds({segments.begin[i], segments.begin[i + 1]})));
        return c;
    }
};

template<class... Where>
struct timed_kernels_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0119: measure_rows times kernels that take some samples at a time, as portable does. Those that "
                  "take all samples at once, as onednn does, are made ready by a trainer: its option trace has the "
                  "seconds of each stage");
};

namespace detail::inline TRIREME_ISA {

/// A network with weights and memory for a micro-batch on the host, that goes forward and back row by row.
template<class Network, class Kernels, class T>
class timed_network {
    using pass_type = host_pass<Network, Kernels, T>;
    using stored = typename pass_type::stored_type;
    using plan_type = typename pass_type::plan_type;
    static constexpr auto most = pass_type::most;
    static constexpr row_numbers all_rows = numbers_of_rows(Network::rows, sizeof(T), {0, Network::depth});

public:
    explicit timed_network(std::size_t samples)
        : samples_(samples), places_(pass_type::whole_shard ? pass_type::plan(samples) : pass_type::one),
          numbers_(2 * all_rows.elements * sizeof(T)), arena_(pass_type::elements(places_) * sizeof(stored)) {
        auto* const weights = static_cast<T*>(numbers_.data());
        auto* const gradients = weights + all_rows.elements;
        model_ = {weights, gradients, weights + all_rows.buffers_lie, gradients + all_rows.buffers_lie};
        model_.tied_lie = all_rows.tied_lie;
        // by which values keep their size on the way, and none is denormal
        initialise_parameters<Network, he_uniform>(weights, 1);
        initialise_buffers<Network>(model_.buffers);
    }

    /// Adds the seconds of all samples, row by row, one time forward and back.
    void run(measured_rows<Network>& to) {
        auto const some = pass_type::whole_shard ? samples_ : most; // as trainers go: see host_pass
        for (std::size_t first = 0; first < samples_; first += some) {
            granule_place const shard{1, 1, 0, first, std::min(some, samples_ - first), samples_, samples_};
            auto const pass = [&](range rows) {
                auto const memory = pass_type::memory_in(static_cast<stored*>(arena_.data()), places_);
                return pass_type(places_, memory, model_, shard, Kernels{}, rows);
            };
            auto const whole = pass({0, Network::depth});
            for (std::size_t g = 0; g < whole.size(); ++g) fill(whole.input(g), Network::input_extents::size);
            for (std::size_t r = 0; r < Network::depth; ++r)
                to.forward[r] += seconds_of([&] { pass({r, r + 1}).forward(); });
            for (std::size_t g = 0; g < whole.size(); ++g)
                fill(whole.output_gradient(g), Network::output_extents::size);
            for (auto r = Network::depth; r-- > Network::first_trainable;)
                to.backward[r] += seconds_of([&] { pass({r, r + 1}).backward(); });
        }
    }

private:
    template<class F>
    static double seconds_of(F const& f) {
        auto const begin = std::chrono::steady_clock::now();
        f();
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    /// Numbers in (-1, 1) for all samples of a granule.
    static void fill(stored* to, std::size_t of_sample) {
        random_stream const random(1, random_purpose::user);
        for (std::size_t i = 0; i < of_sample * most; ++i)
            to[i] = static_cast<stored>(static_cast<T>(2 * random.uniform(i) - 1));
    }

    std::size_t samples_;
    plan_type places_;
    host_memory numbers_, arena_;
    model_numbers<T> model_;
};

} // namespace detail::inline TRIREME_ISA

inline namespace TRIREME_ISA {

/// Times each row of a network on this machine: one thread goes forward and back over `samples` made-up samples of a
/// micro-batch, row by row, by a trainer's kernels and in its memory plan; `rounds` times, after one that is not
/// counted, and each row's least seconds are taken. The loss is not timed. A row that does nothing, for a kernel has
/// applied its function already, takes next to no time.
///
/// Few rounds on a busy machine give other cuts from run to run: measure once, and write down what policy() says.
/// Throws usage_error for no samples, no rounds, or fewer samples than a layer needs. `Kernels`: those of one granule
/// after the other (TRI0119). Cost: rounds + 1 steps on one device, without loss and update, and two copies of the
/// parameters.
template<class Network, class Kernels = portable, class T = float>
measured_rows<Network> measure_rows(std::size_t samples = 32, int rounds = 5) {
    static constexpr typename Network::rule checked{};
    (void)checked;
    if (samples == 0) throw usage_error("samples = 0: rows are timed with at least one sample");
    if (rounds < 1) throw usage_error("rounds = " + std::to_string(rounds) + ": rows are timed at least once");
    for (std::size_t r = 0; r < Network::depth; ++r)
        if (auto const least = Network::row(r).description.least_samples; samples < least)
            throw usage_error("samples = " + std::to_string(samples) + ": layer " + std::to_string(r) +
                              " trains on at least " + std::to_string(least) + "; take as many");
    if constexpr (takes_all_samples<Kernels>) {
        static constexpr timed_kernels_rule<gets<Kernels>> refused{};
        (void)refused;
        return {};
    } else {
        detail::timed_network<Network, kernels_of<Network, Kernels>, T> timed(samples);
        measured_rows<Network> warm_up, best;
        timed.run(warm_up);
        for (int round = 0; round < rounds; ++round) {
            measured_rows<Network> now;
            timed.run(now);
            for (std::size_t r = 0; r < Network::depth; ++r) {
                best.forward[r] = round == 0 ? now.forward[r] : std::min(best.forward[r], now.forward[r]);
                best.backward[r] = round == 0 ? now.backward[r] : std::min(best.backward[r], now.backward[r]);
            }
        }
        for (std::size_t r = 0; r < Network::depth; ++r) {
            best.forward[r] /= static_cast<double>(samples);
            best.backward[r] /= static_cast<double>(samples);
        }
        return best;
    }
}

} // namespace TRIREME_ISA
} // namespace trireme
