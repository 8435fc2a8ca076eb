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
#include <trireme/device/host/device.hpp>
#include <trireme/group/transport/stop_reason.hpp>
#include <trireme/group/transport/threads/group.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/trainer/agreement.hpp>
#include <trireme/trainer/host_executor.hpp>
#include <trireme/trainer/report.hpp>
#include <trireme/trainer/training_state.hpp>

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

namespace trireme {

/// Ways in which a trainer drives the devices of a kind: `run_on<Device>::type<Model, Options, Initialiser, Faults,
/// Transport>`. Headers of devices specialise it.
template<class Device>
struct run_on;

inline namespace TRIREME_ISA {

/// Devices that are threads of this process.
class thread_ranks {
public:
    using communicator = threads::communicator;
    static constexpr bool of_one_process = true; ///< else each process has one rank, and a trainer of its own

    template<class RunOptions, class Agreed>
    thread_ranks(RunOptions const& r, parallel_layout const& l, Agreed const&)
        : group_((detail::check_no_strategy_of_a_transport(l), l.devices()), r.deadline) {}

    bool stopped() const noexcept { return group_.stopped(); }
    int first() const noexcept { return 0; }

    /// Runs a function of (state, communicator) without captures on every device, which holds the state alive.
    /// Allocates nothing.
    template<class State, class Job>
    void run(std::shared_ptr<State> const& state, Job) {
        group_.run({state, [](void* s, communicator& c) { Job{}(*static_cast<State*>(s), c); }});
    }

private:
    threads::group group_;
};

/// Devices that are processes, each with a trainer of its own: SPMD, the same calls in all of them. `Group` joins them:
/// made of the option `processes`, the number of devices, the deadline and the agreement, it has this rank's
/// communicator (`own`), runs functions on it (`run`), and knows which ranks are `near`.
template<class Group>
class process_ranks {
public:
    using communicator = typename Group::communicator;
    static constexpr bool of_one_process = false;

    /// `agreed()`: what all processes must have in common.
    template<class RunOptions, class Agreed>
    process_ranks(RunOptions const& r, parallel_layout const& l, Agreed const& agreed)
        : group_(r.processes.value, l.devices(), r.deadline, agreed()) {}

    bool stopped() const noexcept { return group_.failed(); } // else the next call tells why
    int first() const noexcept { return group_.rank(); }
    levels near() const noexcept { return group_.near(); }

    template<class State, class Job>
    void run(std::shared_ptr<State> const& state, Job job) {
        group_.run([&](communicator& c) { job(*state, c); });
    }

private:
    mutable Group group_;
};

/// A trainer on devices of the host, which `Ranks` joins: each runs its executor. One instantiation serves every
/// layout.
template<class Model, class Options, class Initialiser, class Faults, class Ranks>
class host_run {
    using network = typename Model::network;
    using communicator = typename Ranks::communicator;
    using executor = host_executor<Model, communicator>;
    static constexpr bool of_one_process = Ranks::of_one_process;
    static constexpr std::size_t outputs = network::output_extents::size; ///< of a sample

public:
    using T = typename Model::value_type;
    using state_type = state_with_options<Model, Options>;

    /// The map of a rank's memory.
    static constexpr memory_map memory(parallel_layout const& l, std::size_t batch, int rank) {
        auto m = executor::memory(l, batch, rank);
        if (!of_one_process) // losses with what rows add to them, or with right answers
            m.scores.bytes = sizeof(double) * ((1 + std::max<std::size_t>(network::loss_terms, 1)) * l.shards() +
                                               (Model::weighs_samples ? 2 : 0));
        return m;
    }
    /// Adds to `sum` the traffic that a rank reads from others in a step on a full batch.
    static constexpr void moves(parallel_layout const& l, std::size_t batch, int rank, detail::traffic_by_peer& sum) {
        executor::moves(l, batch, rank, sum);
    }

    static constexpr crossing_bytes crossing(parallel_layout const& l, std::size_t batch, int stage) {
        return bytes_across<Model, typename Model::template pass<>>(l.rows_of(stage, network::depth).end,
                                                                    l.most_shard_samples(batch));
    }

    TRIREME_COLD host_run(Options const& o, auto const& r, parallel_layout const& layout)
        : ranks_(r, layout, [&] { return agreement<Model, Initialiser>(o, layout); }),
          shared_(std::make_shared<shared>(o, near_ones(layout))) {
        if constexpr (!of_one_process) {
            shared_->reads_inputs = layout.role_of(first_rank()) == layout.place_of(0).role;
            shared_->reads_targets = layout.role_of(first_rank()) == layout.role_of_last_stage();
        }
        if (r.trace.value)
            for (int k = 0; k < (of_one_process ? layout.devices() : 1); ++k)
                shared_->logs.push_back(std::make_unique<task_log>());
        on_every_device([](shared& s, communicator& c) { s.construct(c); });
    }

    state_type& state() const noexcept { return *shared_; }
    int first_rank() const noexcept { return ranks_.first(); } ///< of this process
    bool stopped() const noexcept { return ranks_.stopped(); }

    /// One step on all samples in use.
    step_report step() {
        auto& s = *shared_;
        s.number_all();
        work_on_samples();
        on_every_device([](shared& all, communicator& c) { all.step(c, all.all()); });
        auto const number = own().steps();
        check_convergence();
        return {number, s.mean_loss(number), s.samples().size(), own().gradient_norm()};
    }
    void epoch() {
        own().reset_times();
        work_on_samples();
        on_every_device([](shared& s, communicator& c) { s.epoch(c); });
        check_convergence();
    }
    void evaluate() {
        shared_->number_all();
        work_on_samples();
        on_every_device([](shared& s, communicator& c) { s.evaluate(c); });
    }
    /// The outputs for all samples in use, [sample][value].
    std::vector<T> predict() {
        auto& s = *shared_;
        s.number_all();
        work_on_samples();
        s.outputs.resize(s.samples().size() * outputs);
        on_every_device([](shared& here, communicator& c) { here.predict(c); });
        auto all = std::exchange(s.outputs, {});
        if constexpr (!of_one_process) {
            auto const of = [&](int rank) { // the outputs that a last stage has
                auto const shards = s.layout.shards_of_device(rank);
                auto const n = s.samples().size();
                auto const begin = part(n, shards.begin, s.layout.shards()).begin;
                return range{outputs * begin, outputs * part(n, shards.end - 1, s.layout.shards()).end};
            };
            auto const ranks = static_cast<std::size_t>(s.layout.devices());
            std::size_t most = 0;
            for (std::size_t r = 0; r < ranks; ++r) most = std::max(most, of(static_cast<int>(r)).size());
            std::vector<T> mine(most), everybody(most * ranks);
            auto const own_part = of(first_rank());
            std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(own_part.begin), own_part.size(), mine.begin());
            gather(mine, everybody);
            for (int r = s.layout.role_of_last_stage(); r < s.layout.devices(); r += s.layout.stages)
                std::copy_n(everybody.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(r) * most),
                            of(r).size(), all.begin() + static_cast<std::ptrdiff_t>(of(r).begin));
        }
        return all;
    }
    /// Of the first device of this process, in the last epoch.
    step_times const& times() const noexcept { return own().times(); }

    /// The tasks that the devices of this process have done, if they are traced.
    std::vector<timed_task> traced() const {
        std::vector<timed_task> all;
        for (auto const& log : shared_->logs)
            for (auto const& t : log->read()) all.push_back(t);
        return all;
    }

    step_program const& program(int rank) const { return at(rank).program(); }
    held_numbers<T> held(int rank, int chunk) const { return at(rank).held(chunk); }

    /// All numbers of a list.
    TRIREME_COLD std::vector<T> gathered(canonical_list const& list) const {
        auto const& l = shared_->layout;
        std::vector<T> all(list.template size<network>());
        auto const place = [&](int rank, int chunk, std::span<T const> from) {
            auto const at = list_at<network, T>(list, l, rank, chunk);
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
            for (int c = 0; c < chunk; ++c) sum += list_at<network, T>(list, l, rank, c).size();
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
    std::uint64_t updates() const noexcept { return own().updates(); }
    std::uint64_t steps() const noexcept { return own().steps(); }

    /// Gives numbers to all devices.
    TRIREME_COLD void take(numbers_to_take<T> const& from) {
        auto& s = *shared_;
        s.from = from;
        if constexpr (!of_one_process) {
            auto const digest = digest_of(std::as_bytes(from.buffers), digest_of(std::as_bytes(from.parameters)));
            collective_subject const read = {"values", from.parameters.size() + from.buffers.size(), digest,
                                             s.options.learning_rate};
            own().works_on(read, read);
        }
        on_every_device([](shared& all, communicator& c) { all.take(c); });
    }

    /// Finds out on all ranks whether each is well (`failed` is null), and has read these values; every rank calls it.
    /// Throws why another rank is not, as a device_error, or a mismatch_error for different values; a rank that is not
    /// well itself returns. The group works on.
    void agree(std::exception_ptr const& failed, std::span<std::span<std::byte const> const> values) const
        requires(!of_one_process)
    {
        struct state_of_rank {
            bool well = true;
            std::uint64_t sum = 0;
            stop_reason why;
        } mine;
        if (failed != nullptr) {
            mine.well = false;
            mine.why = stop_reason::of(first_rank(), failed);
        } else
            for (auto const bytes : values) mine.sum = digest_of(bytes, mine.sum);
        std::vector<state_of_rank> all(static_cast<std::size_t>(shared_->layout.devices()));
        shared_->mine = std::as_bytes(std::span(&mine, 1));
        shared_->everybody = std::as_writable_bytes(std::span(all));
        ranks_.run(shared_, [](shared& s, communicator& c) { s.gather(c); });
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
        if (!of_one_process && rank != first_rank())
            throw usage_error("the traffic of rank " + std::to_string(rank) + " was asked for in the process of rank " +
                              std::to_string(first_rank()) + ": each process counts its own");
        return at(rank).wire() - shared_->beside;
    }

private:
    /// The state that the devices of one trainer share, all of them or the one of this process. Devices hold it alive,
    /// so that one which is stuck never reads freed memory.
    struct shared : state_type {
        using state_type::layout;
        using state_type::options;
        using state_type::samples;

        std::vector<std::unique_ptr<executor>> executors; ///< by rank
        std::vector<std::unique_ptr<task_log>> logs;      ///< of the ranks of this process, if they are traced
        std::chrono::steady_clock::time_point const origin = std::chrono::steady_clock::now();
        sample_digests digests;
        arena scores;
        traffic beside; ///< of what is no step, in a process
        numbers_to_take<T> from;
        std::vector<T> outputs; ///< of a prediction: a device that comes too late may still write there
        std::span<std::byte const> mine;
        std::span<std::byte> everybody;

        shared(Options const& o, parallel_layout const& l)
            : state_type(o, l), executors(static_cast<std::size_t>(l.devices())) {}

        executor& at(int rank) const noexcept { return *executors[static_cast<std::size_t>(rank)]; }

        /// Makes the executor of `c`'s device, on that device, so that its memory is near it.
        TRIREME_COLD void construct(communicator& c) {
            auto made = std::make_unique<executor>(c, layout, options.batch.samples);
            made->template begin<Initialiser>(options.seed);
            if (!logs.empty()) made->trace_into(*logs[of_one_process ? static_cast<std::size_t>(c.rank()) : 0], origin);
            executors[static_cast<std::size_t>(c.rank())] = std::move(made);
            if constexpr (!of_one_process) {
                scores = c.allocate(memory(layout, options.batch.samples, c.rank()).scores.total());
                all_here(c); // before anybody uses another's memory
            }
        }

        /// One step on some of the samples in use; every device calls it. Returns its number.
        std::uint64_t step(communicator& c, std::span<std::uint32_t const> indices) {
            auto& e = at(c.rank());
            auto const number = e.steps() + 1;
            auto weight = this->weigh(indices);
            e.template step<Faults>({&samples(), indices, this->losses_of(number), nullptr, weight.scale()}, options);
            if constexpr (!of_one_process)
                share(c, std::span(this->losses_of(number), this->losses_of_step()), {}, weight);
            if (!of_one_process || c.rank() == 0) this->set_weight(number, weight);
            return number;
        }

        /// A whole epoch over `order`; every device calls it. Who knows all losses of a step, sums them; device 0 tells
        /// the observer.
        void epoch(communicator& c) {
            auto const batches = this->order.batches(options.batch.samples);
            for (std::size_t b = 0; b < batches; ++b) {
                auto const indices = this->order.batch(b, options.batch.samples);
                auto const number = step(c, indices);
                if (!of_one_process || c.rank() == 0) this->tell(b, number, c.rank() == 0);
                if (!this->is_finite(number)) return; // on all devices
            }
        }

        void evaluate(communicator& c) {
            at(c.rank()).template evaluate<Faults>(
                {&samples(), this->all(), this->losses_.data(), this->correct_.data()});
            if (of_one_process && c.rank() != 0) return;
            auto weight = this->weigh(this->all());
            if constexpr (!of_one_process)
                share(c, std::span(this->losses_).first(layout.shards()), this->correct_, weight);
            this->set_weight(weight);
        }

        void predict(communicator& c) {
            at(c.rank()).template evaluate<Faults>({&samples(), this->all(), nullptr, nullptr, 0, outputs.data()});
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
            std::span const all(static_cast<double*>(scores.data), scored + (Model::weighs_samples ? 2 : 0));
            std::fill(all.begin(), all.end(), 0.0);
            if (Model::weighs_samples && c.rank() == layout.role_of_last_stage()) {
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
            if (Model::weighs_samples) weight = {all[scored], static_cast<std::size_t>(all[scored + 1])};
        }
    };

    void check_convergence() {
        auto& s = *shared_; // devices that update on the way have done so
        s.check_convergence(own().steps(), !s.layout.shared_weights || s.layout.replicas == 1);
    }

    template<class Job>
    void on_every_device(Job job) {
        ranks_.run(shared_, job);
    }

    parallel_layout near_ones(parallel_layout l) const {
        if constexpr (!of_one_process)
            if (l.groups.count == 0 && ranks_.near().count != 0 && l.stages == 1) {
                l.groups = ranks_.near();
                detail::check_reductions(l, Model::arena_elements, sizeof(T)); // others than the compiler has seen
            }
        return l;
    }

    /// Gathers the numbers of each rank on all ranks.
    void gather(std::vector<T> const& mine, std::vector<T>& everybody) const {
        shared_->mine = std::as_bytes(std::span(mine));
        shared_->everybody = std::as_writable_bytes(std::span(everybody));
        ranks_.run(shared_, [](shared& here, communicator& c) { here.gather(c); });
    }

    executor& at(int rank) const noexcept { return shared_->at(of_one_process ? rank : first_rank()); }
    executor& own() const noexcept { return at(first_rank()); }

    /// The samples in use and the learning rate become what all ranks must have in common in the next collectives; of
    /// stages whose ranks have but a part of the samples, that part is what those of one stage have in common.
    void work_on_samples() {
        if constexpr (!of_one_process) {
            auto& s = *shared_;
            if (s.layout.devices() == 1) return; // no other rank compares, so that no sample is read
            collective_subject const here = {"samples", s.samples().size(), s.digests.of(s.samples()),
                                             s.options.learning_rate};
            auto everywhere = here;
            if (s.layout.stages > 1 && !s.samples().has_both()) everywhere.digest = 0;
            own().works_on(everywhere, here);
        }
    }

    mutable Ranks ranks_;
    std::shared_ptr<shared> shared_;
};

} // namespace TRIREME_ISA

template<>
struct run_on<host> {
    template<class Model, class Options, class Initialiser, class Faults, class Transport>
    using type = host_run<Model, Options, Initialiser, Faults, typename Transport::template ranks<Model::staged>>;
};

} // namespace trireme
