// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/device/stream_order.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/step.hpp>
#include <trireme/parallel/ties.hpp>
#include <trireme/schedule/pipeline/span.hpp>
#include <trireme/trainer/stream_meetings.hpp>
#include <trireme/trainer/stream_moves.hpp>
#include <trireme/trainer/stream_transport.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trireme {

/// The ranks of a process on accelerators, and their step programs, handed over to streams in an order in which they
/// can be done. Waits between streams follow from what tasks read and write. All of it may be noted as a graph. What a
/// device that does not answer may still be using is here; nothing here waits.
template<class Value, accelerator Device, class Transport>
class stream_executor : public detail::stream_moves<Value, Device, Transport> {
    using base = detail::stream_moves<Value, Device, Transport>;
    using base::at, base::here, base::tail_of, base::times_of, base::replicas_, base::order_, base::stamping_,
        base::evaluating_;
    using base::hand_over, base::stamp, base::take;
    using typename base::task_of_role;

public:
    using typename base::T, typename base::rank_type;
    using stream = typename Device::stream;
    using event = typename Device::event;
    using base::find, base::of_replica, base::program;
    using base::transport, base::layout, base::model, base::ranks, base::at_rank;

    /// `batch`: the most samples of a step that is staged at once. `where`: options of the run. `agreed`: what all
    /// processes must have in common.
    stream_executor(parallel_layout const& l, stream_model<T, Device> const& m, std::size_t batch, auto const& where,
                    std::string const& agreed = {})
        : base(l, m, batch, where, agreed), ties_(m.ties(l)) {
        make_order();
    }

    /// Collectives learn where what they add lies. `traced`: whether the times of tasks are noted.
    void prepare(bool traced = false) {
        for (auto& r : ranks)
            if (traced) r->trace(times_of(*r));
        std::vector<layer_sum<T>> sums;
        for (auto const& e : model.exchanges) {
            sums.push_back({{}, e.elements});
            for (auto const& r : ranks) sums.back().numbers.push_back(r->kept() + e.first);
        }
        if (!sums.empty()) // such networks have no stages
            detail::for_exchanges(model.network, {0, model.network.depth}, task_kind::train,
                                  [&](int i) { sums[static_cast<std::size_t>(i)].in_step = true; });
        for (std::size_t i = 0; i < by_role_.size() && model.trains; ++i)
            for (int chunk = 0; chunk < layout.chunks(); ++chunk) {
                std::vector<T*> gradients;
                for (auto k = i; k < ranks.size(); k += by_role_.size())
                    gradients.push_back(ranks[k]->gradient_slot(ranks[k]->own(chunk), 0));
                transport.prepare(here().role_of(static_cast<int>(i)), gradients, ranks[i]->own(chunk).numbers.extent(),
                                  sums);
            }
    }

    // ---- a step ----

    /// The whole step on the samples of a slot, over all ranks; begins and ends on the first rank's stream.
    void enqueue_step(int slot) {
        begin();
        stamping_ = ranks[0]->is_traced();
        enqueue_gradients(slot);
        end_step(slot);
    }
    void capture() {
        for (int slot : {0, 1}) {
            compute_[0]->begin_capture();
            try {
                enqueue_step(slot);
            } catch (...) { // as long as a capture goes on, nothing can be freed
                compute_[0]->abandon_capture();
                throw;
            }
            graphs_[slot] = compute_[0]->end_capture();
        }
    }
    /// The step that has been noted.
    void launch(int slot) {
        gather();
        compute_[0]->launch(graphs_[slot]);
        spread();
    }

    // ---- a step or an evaluation in pieces ----

    /// All ranks go on where the first one is; at the end, with its results, it goes on where they all are.
    void begin() {
        spread();
        for (auto& r : ranks) {
            at(*r);
            order_->restart(r->everything().stream, r->all_places());
            r->begin_step();
            if (model.narrow) hand_over(r->narrowing(), [&] { r->enqueue_narrow_copy(); });
            if (r->has_last() || transport.shares_scores()) hand_over(r->clearing_scores(), [&] { r->clear_scores(); });
            if (model.loss_terms != 0) hand_over(r->clearing_terms(), [&] { r->clear_terms(); });
        }
    }
    /// The gradients of a rank's shard begin, at zero or, where no tree adds them, at those of the shards before; they
    /// come granule by granule; and they end.
    void begin_shard(rank_type& r, int chunk = 0) {
        if (bool const begins = r.begins_gradients(chunk); begins || layout.reproducible())
            hand_over(r.clearing_gradients(chunk), [&] { r.clear_gradients(chunk); });
    }
    void enqueue_granule(rank_type& r, int slot, std::size_t shard) {
        step_task t;
        t.kind = task_kind::train;
        t.micro_batch = static_cast<std::uint16_t>(shard);
        alone({&r, &t, slot, 0});
        go_forward();
        go_back();
        leave(r, slot);
    }
    void end_shard(rank_type& r, std::size_t k, int chunk = 0) {
        if (layout.reproducible()) hand_over(r.merging(), [&] { r.end_shard(chunk, k); });
    }
    /// The task of a rank's k-th shard begins or ends, in a step in pieces whose times are looked for in a slot.
    void stamp_shard(rank_type& r, int slot, std::size_t k, bool end) {
        if (r.is_traced()) r.stamp(slot, k, end, r.compute);
    }
    /// Evaluates the granules that are staged in the first places of a slot, over all ranks of the k-th replica of this
    /// process. They belong to its `shard`-th shard; `npos`: their outputs are wanted, and no score.
    void enqueue_evaluation(std::size_t k, int slot, std::size_t shard) {
        stamping_ = evaluating_ = ranks[0]->is_traced();
        for (auto const& next : replicas_[k]->of_evaluation) evaluate(k, next, slot, shard);
        stamping_ = evaluating_ = false;
        for (auto& r : of_replica(k)) leave(*r, slot);
    }

    /// Reductions and updates come after all gradients; beside them the losses are shared.
    void end_step(int slot) {
        stamping_ = ranks[0]->is_traced();
        if (layout.reproducible() && layout.replicas == 1)
            for (auto& r : of_replica(0)) {
                at(*r);
                hand_over(r->merging(), [&] { r->end_shards(); });
            }
        std::size_t const tasks = tail_of(*ranks[0]).size(); // as many for each role
        for (std::size_t i = 0; i < tasks; ++i) {
            auto const kind = tail_of(*ranks[0])[i].kind;
            if (is_meeting(kind)) meet(i, slot);
            for (int role = 0; role < layout.stages; ++role) {
                if (!here().has(role)) continue;
                if (kind == task_kind::update)
                    update(role, i, slot);
                else if (kind == task_kind::collective)
                    reduce(role, i, slot);
            }
        }
        stamping_ = false;
        if (model.clips) hand_over(ranks[0]->telling_norm(), [&] { ranks[0]->enqueue_norm_result(slot); });
        enqueue_results(slot);
    }
    void enqueue_results(int slot) {
        bool const shared = transport.shares_scores();
        words_.clear();
        for (auto& r : ranks) {
            if (shared || r->has_results()) order_->begin(r->sharing_scores());
            words_.push_back(r->score_words());
        }
        transport.enqueue_scores(words_, 2 * ranks[0]->score_count(), exchange_);
        for (auto& r : ranks) {
            if (!shared && !r->has_results()) continue;
            at(*r);
            if (tells_results(*r)) r->enqueue_results(slot);
            order_->end(r->sharing_scores());
        }
        join();
    }
    /// True if the host is told the results of a rank: one has those of all if the transport shares them.
    bool tells_results(rank_type const& r) const noexcept {
        return transport.shares_scores() ? &r == ranks[0].get() : r.has_results();
    }
    /// Gives all processes of a replica what each has of some numbers, or all processes: see the transport. The host
    /// waits by `wait()`.
    template<class Wait>
    void share(std::span<std::byte> numbers, Wait const& wait) {
        transport.share(numbers, compute_, wait);
    }
    template<class Wait>
    void share_with_all(std::span<std::byte> numbers, Wait const& wait) {
        transport.share_with_all(numbers, compute_, wait);
    }

    /// The first rank goes on where all of them are.
    void join() {
        for (auto& r : ranks) order_->begin(r->everything());
        gather();
    }

private:
    using placed_task = typename rank_type::placed_task;

    void make_order() {
        std::vector<stream*> streams;
        for (auto& r : ranks) {
            fork_.emplace_back(r->compute.device());
            for (auto* const s : r->streams()) streams.push_back(s);
        }
        std::size_t places = 0;
        for (std::size_t i = 0; i < ranks.size(); ++i)
            places += ranks[i]->give_numbers(rank_type::ordered * i, places, layout.reductions());
        auto const reductions = static_cast<std::size_t>(layout.chunks()) * layout.reductions();
        order_ = std::make_unique<stream_order<stream>>(streams, places, reductions + 8);
        by_role_.resize(static_cast<std::size_t>(here().roles()));
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            compute_.push_back(&ranks[i]->compute);
            exchange_.push_back(&ranks[i]->exchange);
            by_role_[i % by_role_.size()].push_back(&ranks[i]->exchange);
        }
        words_.reserve(ranks.size());
        tasks_.reserve(ranks.size());
    }

    /// Streams of all ranks go on where the first rank's is, and the other way round.
    void spread() {
        compute_[0]->record(fork_[0]);
        for (std::size_t i = 1; i < compute_.size(); ++i) compute_[i]->wait(fork_[0]);
    }
    void gather() {
        for (std::size_t i = 1; i < compute_.size(); ++i) {
            compute_[i]->record(fork_[i]);
            compute_[0]->wait(fork_[i]);
        }
    }

    /// f(rank) for a role of this process, in each of its replicas.
    template<class F>
    void for_role(int role, F&& f) {
        for (std::size_t k = 0; k < replicas_.size(); ++k) {
            auto& r = *find(k, role);
            at(r);
            f(r);
        }
    }
    /// The gradients of all replicas, each in the order of its program. Where layers exchange numbers in the middle of
    /// a row, replicas go through the rows together: then they have one program.
    void enqueue_gradients(int slot) {
        bool some = true;
        for (std::size_t i = 0; some; ++i) {
            some = false;
            tasks_.clear();
            for (std::size_t k = 0; k < replicas_.size(); ++k) {
                auto const& list = replicas_[k]->of_step;
                if (i >= list.size()) continue;
                some = true;
                auto const& t = *list[i].task;
                if (t.kind == task_kind::move) {
                    take(k, list[i], replicas_[k]->sent_in_step, slot);
                    continue;
                }
                auto* const r = find(k, list[i].role);
                if (r == nullptr) continue;
                tasks_.push_back({r, &t, slot, t.micro_batch});
                if (!model.whole_batch) train(), tasks_.clear();
            }
            if (!tasks_.empty()) train();
        }
    }
    void alone(placed_task const& t) {
        tasks_.clear();
        tasks_.push_back(t);
    }

    /// Tasks of one kind that compute.
    void train() {
        auto const kind = tasks_[0].task->kind;
        for (auto const& t : tasks_)
            if (gives_weights(kind)) begin_shard(*t.rank, t.task->chunk);
        if (goes_forward(kind)) go_forward();
        if (kind == task_kind::backward_weights)
            add_later();
        else if (kind != task_kind::forward)
            go_back();
        for (auto const& t : tasks_)
            if (gives_weights(kind)) end_shard(*t.rank, t.task->micro_batch, t.task->chunk);
    }

    void begin_team() {
        for (auto const& t : tasks_) {
            at(*t.rank);
            t.rank->begin_task(t);
        }
    }
    auto exchanging() {
        return [this](std::size_t i) {
            auto const stamp_all = [&](bool end) {
                for (auto const& t : tasks_) stamp(*t.rank, *t.task, t.slot, end, t.rank->compute, static_cast<int>(i));
            };
            stamp_all(false);
            transport.enqueue_sum(i, compute_);
            stamp_all(true);
        };
    }
    static auto const& stage_of(placed_task const& t) noexcept { return t.rank->own(t.task->chunk); }
    range rows() const noexcept { return stage_of(tasks_[0]).numbers.rows; }
    range rows_and_loss() const noexcept { return {rows().begin, rows().end + (stage_of(tasks_[0]).last ? 1 : 0)}; }

    void go_forward() {
        begin_team();
        for (auto const& t : tasks_) {
            order_->begin(t.rank->going_forward(t.slot, *t.task));
            stamp(*t.rank, *t.task, t.slot, false, t.rank->compute);
            t.rank->clear_waiting(*t.task);
            t.rank->enqueue_input(t);
        }
        tasks_[0].rank->forward(tasks_, rows(), exchanging());
        for (auto const& t : tasks_) {
            if (!gives_weights(t.task->kind)) stamp(*t.rank, *t.task, t.slot, true, t.rank->compute);
            order_->end(t.rank->going_forward(t.slot, *t.task));
        }
    }

    /// Loss, and backward, or its first half. `beside` waits for the gradients when it has the losses, for what it
    /// reads row by row.
    void go_back() {
        bool const adds = gives_weights(tasks_[0].task->kind);
        begin_team();
        for (auto const& t : tasks_) {
            auto& r = *t.rank;
            if (!goes_forward(t.task->kind)) {
                order_->begin(r.going_back(t.slot, *t.task));
                stamp(r, *t.task, t.slot, false, r.compute);
            }
            if (stage_of(t).last)
                order_->begin(r.losing(t.slot, *t.task));
            else if (adds)
                order_->begin(r.clearing_gradients(t.task->chunk));
            order_->begin(r.going_back(t.slot, *t.task));
            r.enqueue_waiting(*t.task);
        }
        auto const between = [this, adds](std::size_t row) {
            if (row == model.network.depth)
                score(adds);
            else
                gradients_of(row);
        };
        tasks_[0].rank->backward(tasks_, rows_and_loss(), adds, between, exchanging());
        for (auto const& t : tasks_) {
            if (adds && !overlaps()) order_->end(t.rank->adding_gradients(t.slot, *t.task));
            stamp(*t.rank, *t.task, t.slot, true, t.rank->compute);
            order_->end(t.rank->going_back(t.slot, *t.task, overlaps()));
        }
    }

    /// The second half of backward.
    void add_later() {
        begin_team();
        for (auto const& t : tasks_) {
            order_->begin(t.rank->adding_later(t.slot, *t.task));
            stamp(*t.rank, *t.task, t.slot, false, t.rank->compute);
            t.rank->enqueue_waiting(*t.task);
        }
        tasks_[0].rank->backward_weights(tasks_, rows());
        for (auto const& t : tasks_) {
            stamp(*t.rank, *t.task, t.slot, true, t.rank->compute);
            order_->end(t.rank->adding_later(t.slot, *t.task));
        }
    }

    /// The losses of the tasks' samples are there. `adds`: gradients follow.
    void score(bool adds) {
        for (auto const& t : tasks_) {
            order_->end(t.rank->losing(t.slot, *t.task));
            hand_over(t.rank->scoring(t.slot), [&] { t.rank->enqueue_score(t.task->micro_batch, true); });
            if (adds) order_->begin(t.rank->clearing_gradients(t.task->chunk));
        }
    }

    /// Reductions begin while backward goes on, where nothing is added to a rank's gradients after it, and none lies
    /// elsewhere than its row's turn tells, as those of tied rows. Where layers add numbers over all devices as well,
    /// reductions come after them: ranks need one order of their collectives.
    bool overlaps() const noexcept {
        return layout.replicas > 1 && !layout.reproducible() && model.parameters != 0 && !model.whole_batch &&
               layout.stages == 1 && model.tied_gradients == 0;
    }
    /// A row of the tasks' ranks has its gradients: so have all reductions that begin with one of its parameters.
    void gradients_of(std::size_t row) {
        if (!overlaps()) return;
        auto const& r = model.network.row(row);
        auto const begin = r.first_parameter, end = begin + r.description.parameter_elements();
        for (std::size_t k = 0; k < layout.reductions(); ++k) {
            auto const first = layout.reduced_by(k, model.arena_elements).begin;
            if (first < begin || first >= end) continue;
            for (auto const& t : tasks_) order_->end(t.rank->adding_gradients(t.slot, *t.task, k));
        }
    }

    /// The i-th task of a role's tail, on all replicas.
    void reduce(int role, std::size_t i, int slot) {
        auto const slices = tail_of(*find(0, role))[i];
        bool const all = layout.reproducible();
        for (std::size_t slice = slices.first; slice < slices.end; ++slice) {
            int const chunk = static_cast<int>(slice / layout.reductions());
            auto const k = slice % layout.reductions();
            for_role(role, [&](rank_type& r) {
                order_->begin(r.reducing(chunk, k, all));
                if (slice == slices.first) stamp(r, tail_of(r)[i], slot, false, r.exchange);
            });
            transport.enqueue(role, chunk, k, by_role_[here().place(0, role)]);
            for_role(role, [&](rank_type& r) {
                if (slice + 1 == slices.end) stamp(r, tail_of(r)[i], slot, true, r.exchange);
                order_->end(r.reducing(chunk, k, all));
            });
        }
    }
    /// The i-th task of all tails, for which the roles of a replica meet.
    void meet(std::size_t i, int slot) {
        for (auto& r : ranks) stamp(*r, tail_of(*r)[i], slot, false, r->compute);
        auto const handed = [&](rank_type& r, stream_work const& w, auto const& f) {
            at(r);
            hand_over(w, f);
        };
        for (std::size_t k = 0; k < replicas_.size(); ++k) {
            auto const found = [&](int role) { return find(k, role); };
            auto const carried = [&](int from, auto const& source, int to, auto const& goal, bytes_t bytes) {
                this->carry(k, from, source, to, goal, bytes);
            };
            if (auto const kind = tail_of(*ranks[0])[i].kind; kind != task_kind::measure)
                detail::tie_rows(ties_, kind, found, handed, carried);
            else
                detail::measure_norm(layout, slot, found, handed, carried,
                                     [&](int stage) { return model.pieces(layout, stage); });
        }
        for (auto& r : ranks) handed(*r, r->having_met(), [&] { stamp(*r, tail_of(*r)[i], slot, true, r->compute); });
    }
    void update(int role, std::size_t i, int slot) {
        for_role(role, [&](rank_type& r) {
            hand_over(r.updating(slot), [&] {
                stamp(r, tail_of(r)[i], slot, false, r.compute);
                r.enqueue_update(slot);
                stamp(r, tail_of(r)[i], slot, true, r.compute);
            });
        });
    }

    void evaluate(std::size_t k, task_of_role const& next, int slot, std::size_t shard) {
        auto const& t = *next.task;
        if (t.kind == task_kind::move) return take(k, next, replicas_[k]->sent_in_evaluation, slot);
        auto* const here_is = find(k, next.role);
        if (here_is == nullptr) return;
        auto& r = *here_is;
        at(r);
        hand_over(r.evaluating(slot, t), [&] {
            stamp(r, t, slot, false, r.compute);
            alone({&r, &t, slot, t.micro_batch});
            begin_team();
            r.enqueue_input(tasks_[0]);
            r.evaluate(tasks_, shard == npos ? rows() : rows_and_loss());
            bool const last = r.own(t.chunk).last;
            if (last && shard == npos) r.enqueue_outputs(t.micro_batch);
            if (last && shard != npos) r.enqueue_score(shard, false);
            stamp(r, t, slot, true, r.compute);
        });
    }
    /// The slot's samples may be replaced when all is done that `compute` has got until now.
    void leave(rank_type& r, int slot) {
        order_->begin(r.leaving(slot));
        r.compute.record(r.used[slot]);
    }

    std::vector<detail::tied_pair> ties_;
    std::vector<stream*> compute_, exchange_;
    std::vector<std::vector<stream*>> by_role_; ///< exchange, of the roles of this process
    std::vector<std::uint64_t*> words_;
    std::vector<event> fork_;
    std::vector<placed_task> tasks_;
    typename Device::graph graphs_[2]; ///< gone before all that they use
};

} // namespace trireme
