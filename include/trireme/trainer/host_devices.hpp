// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/all_gather.hpp>
#include <trireme/collective/barrier.hpp>
#include <trireme/collective/in_flight.hpp>
#include <trireme/collective/proved.hpp>
#include <trireme/core/digest.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/trainer/host_executor.hpp>
#include <trireme/trainer/host_facts.hpp>
#include <trireme/trainer/process_outcome.hpp>
#include <trireme/trainer/report.hpp>
#include <trireme/trainer/sample_digests.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme::detail::inline TRIREME_ISA {

/// The devices of a trainer on the host, whatever its model: what the calls of a trainer ask of them beside steps.
template<class T, class Ranks, bool Staged, class Faults>
class host_devices {
protected:
    using communicator = typename Ranks::communicator;
    using executor = host_executor<T, communicator, Staged, Faults>;
    static constexpr bool of_one_process = Ranks::of_one_process;

public:
    int first_rank() const noexcept { return ranks_.first(); } ///< of this process
    bool stopped() const noexcept { return ranks_.stopped(); }

    /// Of the first device of this process, in the last epoch.
    step_times const& times() const noexcept { return own().times(); }

    /// The tasks that the devices of this process have done, if they are traced.
    std::vector<timed_task> traced() const {
        std::vector<timed_task> all;
        for (auto const& log : devices_->logs)
            for (auto const& t : log->read()) all.push_back(t);
        return all;
    }

    step_program const& program(int rank) const { return at(rank).program(); }
    held_numbers<T> held(int rank, int chunk) const { return at(rank).held(chunk); }

    /// All numbers of a list.
    TRIREME_COLD std::vector<T> gathered(canonical_list const& list) const {
        auto const& l = devices_->layout;
        std::vector<T> all(devices_->model.size(list));
        auto const place = [&](int rank, int chunk, std::span<T const> from) {
            auto const at = part_of(list, rank, chunk);
            std::ranges::copy(from.first(at.size()), all.begin() + static_cast<std::ptrdiff_t>(at.begin));
        };
        if (of_one_process || (l.stages == 1 && !(l.shared_weights && list.of == canonical_list::optimizer))) {
            for (int rank = 0; rank < (of_one_process ? l.devices() : 1); ++rank)
                for (int chunk = 0; chunk < l.chunks() && !is_copy(list, l, rank); ++chunk)
                    place(rank, chunk, at(rank).numbers_of(list, chunk));
            return all;
        }
        auto const before = [&](int rank, int chunk) { // in the part of a rank, which has its stages side by side
            std::size_t sum = 0;
            for (int c = 0; c < chunk; ++c) sum += part_of(list, rank, c).size();
            return sum;
        };
        std::size_t most = 0;
        for (int rank = 0; rank < l.devices(); ++rank) most = std::max(most, before(rank, l.chunks()));
        std::vector<T> mine, everybody(most * static_cast<std::size_t>(l.devices()));
        for (int chunk = 0; chunk < l.chunks(); ++chunk) {
            auto const own_part = own().numbers_of(list, chunk);
            mine.insert(mine.end(), own_part.begin(), own_part.end());
        }
        mine.resize(most);
        gather(mine, everybody);
        for (int rank = 0; rank < l.devices(); ++rank)
            for (int chunk = 0; chunk < l.chunks() && !is_copy(list, l, rank); ++chunk)
                place(rank, chunk,
                      std::span(everybody).subspan(static_cast<std::size_t>(rank) * most + before(rank, chunk)));
        return all;
    }
    /// Of the devices that have parameters; processes ask together.
    TRIREME_COLD std::uint64_t updates() const {
        auto const& l = devices_->layout;
        if (l.stages == 1) return own().updates();
        std::vector<std::uint64_t> all(static_cast<std::size_t>(l.devices()));
        if constexpr (of_one_process) {
            for (int rank = 0; rank < l.devices(); ++rank) all[static_cast<std::size_t>(rank)] = at(rank).updates();
        } else {
            gather(std::vector{own().updates()}, all);
        }
        return std::ranges::max(all);
    }
    std::uint64_t steps() const noexcept { return own().steps(); }

    /// Gives numbers to all devices. `learning_rate`: what ranks must have in common beside them.
    TRIREME_COLD void give(numbers_to_take<T> const& from, [[maybe_unused]] float learning_rate) {
        auto& s = *devices_;
        s.from = from;
        if constexpr (!of_one_process) {
            auto const digest = digest_of(std::as_bytes(from.buffers), digest_of(std::as_bytes(from.parameters)));
            collective_subject const read = {"values", from.parameters.size() + from.buffers.size(), digest,
                                             learning_rate};
            own().works_on(read, read);
        }
        ranks_.run(devices_, [](shared_devices& all, communicator& c) { all.take(c); });
    }

    /// Finds out on all ranks whether each is well (`failed` is null), and has read these values; every rank calls it.
    /// Throws why another rank is not, as a device_error, or a mismatch_error for different values; a rank that is not
    /// well itself returns. The group works on.
    void agree(std::exception_ptr const& failed, std::span<std::span<std::byte const> const> values) const
        requires(!of_one_process)
    {
        std::vector const mine{process_outcome::of(first_rank(), failed, values)};
        std::vector<process_outcome> all(static_cast<std::size_t>(devices_->layout.devices()));
        gather(mine, all);
        require_same_outcome(all, mine[0], "rank");
    }

    /// Of this process alone: what others move is counted there.
    traffic wire(int rank) const {
        if (!of_one_process && rank != first_rank())
            throw usage_error("the traffic of rank " + std::to_string(rank) + " was asked for in the process of rank " +
                              std::to_string(first_rank()) + ": each process counts its own");
        return at(rank).wire() - devices_->beside;
    }

protected:
    /// The state that the devices of one trainer share, all of them or the one of this process. Devices hold it alive,
    /// so that one which is stuck never reads freed memory.
    struct shared_devices {
        parallel_layout const& layout;
        host_facts const& model;
        std::vector<std::unique_ptr<executor>> executors; ///< by rank
        std::vector<std::unique_ptr<task_log>> logs;      ///< of the ranks of this process, if they are traced
        std::chrono::steady_clock::time_point const origin = std::chrono::steady_clock::now();
        detail::sample_digests digests;
        arena scores;
        traffic beside; ///< of what is no step, in a process
        numbers_to_take<T> from;
        std::vector<T> outputs; ///< of a prediction: a device that comes too late may still write there
        std::span<std::byte const> mine;
        std::span<std::byte> everybody;

        shared_devices(parallel_layout const& l, host_facts const& m)
            : layout(l), model(m), executors(static_cast<std::size_t>(l.devices())) {}
        shared_devices(shared_devices const&) = delete;
        shared_devices& operator=(shared_devices const&) = delete;

        executor& at(int rank) const noexcept { return *executors[static_cast<std::size_t>(rank)]; }

        /// Takes the executor of a device, which has been made there.
        TRIREME_COLD void add(communicator& c, std::unique_ptr<executor> made, [[maybe_unused]] bytes_t score_bytes) {
            if (!logs.empty()) made->trace_into(*logs[of_one_process ? static_cast<std::size_t>(c.rank()) : 0], origin);
            executors[static_cast<std::size_t>(c.rank())] = std::move(made);
            if constexpr (!of_one_process) {
                scores = c.allocate(score_bytes);
                all_here(c); // before anybody uses another's memory
            }
        }

        void take(communicator& c) {
            if constexpr (!of_one_process) all_here(c); // nobody computes with them
            at(c.rank()).take(from);
            if constexpr (!of_one_process) all_here(c);
        }

        void gather(communicator& c) {
            auto const before = c.pulled();
            all_gather<direct>(c, mine, everybody);
            beside += c.pulled() - before;
        }

        static void all_here(communicator& c) { barrier<direct>(c); }

        /// Every rank has losses and right answers of its own shards; after this it has all of them, and the weight of
        /// the batch, which the last stage of the first replica tells. Others' are zero in the sum, so that it is all
        /// of them, bit for bit.
        void share(communicator& c, std::span<double> losses, std::span<std::size_t> correct, batch_weight& weight) {
            if (c.size() == 1) return;
            auto const n = losses.size(), scored = n + correct.size();
            std::span const all(static_cast<double*>(scores.data), scored + (model.weighs_samples ? 2 : 0));
            std::fill(all.begin(), all.end(), 0.0);
            if (model.weighs_samples && c.rank() == layout.role_of_last_stage()) {
                all[scored] = weight.sum;
                all[scored + 1] = static_cast<double>(weight.targets);
            }
            at(c.rank()).for_losses([&](std::size_t i) {
                if (i >= n) return; // an evaluation has no terms
                all[i] = losses[i];
                if (!correct.empty()) all[n + i] = static_cast<double>(correct[i]);
            });
            auto const before = c.pulled();
            run_schedule<double>(c, collective::all_reduce, proved_schedule<direct, collective::all_reduce>(c.size()),
                                 all);
            beside += c.pulled() - before;
            std::copy_n(all.begin(), n, losses.begin());
            for (std::size_t s = 0; s < correct.size(); ++s) correct[s] = static_cast<std::size_t>(all[n + s]);
            if (model.weighs_samples) weight = {all[scored], static_cast<std::size_t>(all[scored + 1])};
        }
    };

    template<class RunOptions, class Agreed>
    TRIREME_COLD host_devices(RunOptions const& r, parallel_layout const& layout, Agreed const& agreed)
        : ranks_(r, layout, agreed) {}

    /// The error of a device that is late, with the task that it had come to. Its executor may still be at work.
    TRIREME_COLD deadline_error with_task(deadline_error const& e) const {
        if (e.device() < 0 || e.device() >= devices_->layout.devices()) return e; // thrown by a user's function
        auto const of = "device " + std::to_string(e.device());
        return {e.device(), std::string(e.what()) + " (" + of + ": " + at(e.device()).last_task() + ')'};
    }

    executor& at(int rank) const noexcept { return devices_->at(of_one_process ? rank : first_rank()); }
    executor& own() const noexcept { return at(first_rank()); }

    /// The outputs of a prediction that each process has made its part of become the whole.
    TRIREME_COLD void gather_outputs(std::vector<T>& all, std::size_t samples) const {
        auto const& l = devices_->layout;
        auto const outputs = devices_->model.outputs;
        auto const of = [&](int rank) { // the outputs that a last stage has
            auto const shards = l.shards_of_device(rank);
            auto const begin = part(samples, shards.begin, l.shards()).begin;
            return range{outputs * begin, outputs * part(samples, shards.end - 1, l.shards()).end};
        };
        auto const ranks = static_cast<std::size_t>(l.devices());
        std::size_t most = 0;
        for (std::size_t r = 0; r < ranks; ++r) most = std::max(most, of(static_cast<int>(r)).size());
        std::vector<T> mine(most), everybody(most * ranks);
        auto const own_part = of(first_rank());
        std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(own_part.begin), own_part.size(), mine.begin());
        gather(mine, everybody);
        for (int r = l.role_of_last_stage(); r < l.devices(); r += l.stages)
            std::copy_n(everybody.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(r) * most),
                        of(r).size(), all.begin() + static_cast<std::ptrdiff_t>(of(r).begin));
    }

    mutable Ranks ranks_;
    std::shared_ptr<shared_devices> devices_;

private:
    range part_of(canonical_list const& list, int rank, int chunk) const {
        auto const& l = devices_->layout;
        auto const& network = devices_->model.network;
        auto const rows = l.rows_of(l.stage_of(rank, chunk), network.depth);
        return list_at(numbers_of_rows(network, sizeof(T), rows), list, l, rank, sizeof(T));
    }
    /// Gathers the numbers of each rank on all ranks.
    template<class Number>
    void gather(std::vector<Number> const& mine, std::vector<Number>& everybody) const {
        devices_->mine = std::as_bytes(std::span(mine));
        devices_->everybody = std::as_writable_bytes(std::span(everybody));
        ranks_.run(devices_, [](shared_devices& here, communicator& c) { here.gather(c); });
    }
};

} // namespace trireme::detail::inline TRIREME_ISA
