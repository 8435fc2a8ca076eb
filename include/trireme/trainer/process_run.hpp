// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/all_gather.hpp>
#include <trireme/collective/barrier.hpp>
#include <trireme/collective/in_flight.hpp>
#include <trireme/collective/proved.hpp>
#include <trireme/core/digest.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/group/transport/stop_reason.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/trainer/agreement.hpp>
#include <trireme/trainer/engine.hpp>
#include <trireme/trainer/host_run.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace trireme {

inline namespace TRIREME_ISA {

/// A trainer whose devices are processes, each with a trainer of its own: SPMD, the same calls in all of them. `Group`
/// joins them: made of the option `processes`, the number of devices, the deadline and the agreement, it has this
/// rank's communicator (`own`), runs functions on it (`run`), and knows which ranks are `near`.
template<class Model, class Options, class Initialiser, class Faults, class Group>
class process_run {
    using communicator = typename Group::communicator;
    using engine_type = engine<Model, Options, Initialiser, Faults, communicator>;

public:
    using T = typename Model::value_type;

    static constexpr memory_map memory(data_parallel_layout const& l, std::size_t batch, int rank) {
        auto m = replica<Model, communicator>::memory(l, batch, rank);
        m.scores.bytes = 2 * sizeof(double) * l.shards();
        return m;
    }

    process_run(Options const& o, auto const& r, data_parallel_layout const& layout)
        : group_(r.processes.value, layout.devices, r.deadline, agreement<Model, Initialiser>(o, layout)),
          engine_(o, with_levels(layout)) {
        group_.run([&](communicator& c) {
            engine_.construct(c);
            scores_ = c.allocate(memory(layout, o.batch.samples, c.rank()).scores.total());
            all_here(c); // before anybody uses another's memory
        });
    }

    engine_type& state() noexcept { return engine_; }
    engine_type const& state() const noexcept { return engine_; }
    bool stopped() const noexcept { return group_.failed(); } // else the next call tells why
    int first_rank() const noexcept { return group_.rank(); }

    step_report step() {
        engine_.number_all();
        work_on_images();
        std::uint64_t number = 0;
        group_.run([&](communicator& c) {
            number = engine_.step(c, engine_.all());
            share_losses(c, number);
        });
        return {number, engine_.mean_loss(number, engine_.images().size()), engine_.images().size()};
    }

    void epoch() {
        mine().reset_times();
        work_on_images();
        group_.run([&](communicator& c) {
            engine_.epoch(c, [&](std::uint64_t number) {
                share_losses(c, number);
                return true;
            });
        });
    }

    void evaluate() {
        work_on_images();
        group_.run([&](communicator& c) {
            engine_.evaluate(c);
            auto const scores = all_scores();
            engine_.for_own_scores(c, [&](std::size_t shard, double loss, std::size_t correct) {
                scores[2 * shard] = loss;
                scores[2 * shard + 1] = static_cast<double>(correct);
            });
            share(c, scores);
            for (std::size_t s = 0; s < engine_.layout.shards(); ++s)
                engine_.set_score(s, scores[2 * s], static_cast<std::size_t>(scores[2 * s + 1]));
        });
    }

    step_times const& times() const noexcept { return engine_.at(group_.rank()).times(); }

    step_program const& program(int) const { return mine().program(); }
    /// By this process: its own copy, or the one there is.
    held_numbers<T> held(int) const { return {{0, Model::network::depth}, weights(), mine().buffers(group_.own())}; }
    void load_parameters(std::span<T const> values) { load(values, weights()); }
    void load_buffers(std::span<T const> values) { load(values, mine().buffers(group_.own())); }

    /// Finds out on all ranks whether each is well (`failed` is null), and has read these values; every rank calls it.
    /// Throws why another rank is not, as a device_error, or a mismatch_error for different values; a rank that is not
    /// well itself returns. The group works on.
    void agree(std::exception_ptr const& failed, std::initializer_list<std::span<std::byte const>> values) {
        struct state_of_rank {
            bool well = true;
            std::uint64_t sum = 0;
            stop_reason why;
        } mine;
        if (failed != nullptr) {
            mine.well = false;
            mine.why = stop_reason::of(group_.rank(), failed);
        } else
            for (auto const bytes : values) mine.sum = digest_of(bytes, mine.sum);
        std::vector<state_of_rank> all(static_cast<std::size_t>(engine_.layout.devices));
        group_.run([&](communicator& c) {
            auto const before = c.pulled();
            all_gather<direct>(c, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
            score_traffic_ += c.pulled() - before;
        });
        if (!mine.well) return;
        for (auto const& other : all)
            if (!other.well) other.why.raise();
        for (std::size_t r = 1; r < all.size(); ++r)
            if (all[r].sum != all[0].sum)
                throw mismatch_error("the weights that rank " + std::to_string(r) +
                                     " has read are not those that rank 0 has read, and all ranks begin with one set: "
                                     "no rank has taken them; give all ranks a file with one content");
    }

    /// Of this process alone: what others move is counted there.
    traffic wire(int rank) const {
        if (rank != group_.rank())
            throw usage_error("the traffic of rank " + std::to_string(rank) + " was asked for in the process of rank " +
                              std::to_string(group_.rank()) + ": each process counts its own");
        return group_.own().pulled() - score_traffic_;
    }

private:
    data_parallel_layout with_levels(data_parallel_layout l) const {
        if (l.groups.count == 0 && group_.near().count != 0) {
            l.groups = group_.near();
            detail::check_schedules(l, Model::arena_elements, sizeof(T)); // others than the compiler has seen
        }
        return l;
    }

    /// The images in use and the learning rate become what all ranks must have in common in the next collectives.
    void work_on_images() {
        if (engine_.layout.devices == 1) return; // no other rank compares, so that no image is read
        auto const& images = engine_.images();
        group_.own().works_on({"samples", images.size(), digests_.of(images), engine_.options.learning_rate});
    }

    void load(std::span<T const> values, std::span<T> to) {
        group_.own().works_on(
            {"values", values.size(), digest_of(std::as_bytes(values)), engine_.options.learning_rate});
        group_.run([&](communicator& c) {
            all_here(c); // nobody computes with them
            if (!engine_.layout.shared_weights || c.rank() == 0) std::copy(values.begin(), values.end(), to.begin());
            all_here(c);
        });
    }

    static void all_here(communicator& c) { barrier<direct>(c); }

    auto& mine() const noexcept { return engine_.at(group_.rank()); }
    std::span<T> weights() const { return mine().weights(group_.own()); }

    /// Two numbers for each shard, zero where they are those of other ranks.
    std::span<double> all_scores() {
        std::span const all(static_cast<double*>(scores_.data), 2 * engine_.layout.shards());
        std::fill(all.begin(), all.end(), 0.0);
        return all;
    }

    /// Every rank has filled in its own, and all others are zero: their sum is all of them, bit for bit.
    void share(communicator& c, std::span<double> scores) {
        if (c.size() == 1) return;
        auto const before = c.pulled();
        run_schedule<double>(c, collective::all_reduce, proved_schedule<direct, collective::all_reduce>(c.size()),
                             scores);
        score_traffic_ += c.pulled() - before;
    }

    /// After this every rank knows the losses of all shards.
    void share_losses(communicator& c, std::uint64_t number) {
        auto const scores = all_scores().first(engine_.layout.shards());
        engine_.for_own_losses(c, number, [&](std::size_t shard, double loss) { scores[shard] = loss; });
        share(c, scores);
        for (std::size_t s = 0; s < scores.size(); ++s) engine_.set_loss(number, s, scores[s]);
    }

    Group group_;
    engine_type engine_;
    image_digests digests_;
    arena scores_;
    traffic score_traffic_;
};

} // namespace TRIREME_ISA
} // namespace trireme
