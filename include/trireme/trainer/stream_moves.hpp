// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/stage_moves.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/device/stream_order.hpp>
#include <trireme/schedule/pipeline/schedule.hpp>
#include <trireme/trainer/stream_meetings.hpp>
#include <trireme/trainer/stream_ranks.hpp>

#include <cstddef>
#include <memory>

namespace trireme::detail {

/// The ranks of a process on accelerators, and what goes between those of a replica: copied within the process, sent to
/// ranks of others and received from them. Both ends of a message are handed over where its receiver's task stands in
/// the order of the replica, so that all processes have one order of them.
template<class Value, accelerator Device, class Transport>
class stream_moves : public stream_ranks<Value, Device, Transport> {
    using base = stream_ranks<Value, Device, Transport>;

public:
    using base::find, base::transport;
    using typename base::rank_type;

protected:
    using stream = typename Device::stream;
    using base::at, base::bytes_of, base::takes, base::time_of;
    using base::base;
    using typename base::task_of_role;

    /// A task of a rank, or an exchange inside it, begins or ends on a stream, in a step or an evaluation that is
    /// traced.
    void stamp(rank_type& r, step_task const& t, int slot, bool end, stream& on, int exchange = -1) {
        if (stamping_) r.stamp(slot, time_of(r, t, evaluating_, exchange), end, on);
    }
    template<class F>
    void hand_over(stream_work const& w, F&& f) {
        order_->begin(w);
        f();
        order_->end(w);
    }

    /// Hands over that numbers go from one role of the k-th replica to another: `source(rank)` and `goal(rank)` say
    /// where they lie, each on its rank. `taking(f)` calls f(), which brings them, and may note the time.
    template<class Source, class Goal, class Taking>
    void carry(std::size_t k, int from, Source const& source, int to, Goal const& goal, bytes_t bytes,
               Taking const& taking) {
        auto *const sender = find(k, from), *const receiver = find(k, to);
        auto const out = sender != nullptr ? source(*sender) : numbers_in_places{};
        auto const in = receiver != nullptr ? goal(*receiver) : numbers_in_places{};
        if (receiver != nullptr) at(*receiver);
        if (sender != nullptr && receiver != nullptr) {
            hand_over(receiver->taking(out.places, in.places),
                      [&] { taking([&] { receiver->exchange.copy(in.at, out.at, bytes); }); });
        } else if constexpr (Transport::has_messages) {
            if (receiver != nullptr) {
                hand_over(receiver->receiving(in.places), [&] {
                    taking([&] { transport.enqueue_receive(to, from, in.at, bytes, receiver->exchange); });
                });
            } else if (sender != nullptr) {
                at(*sender);
                hand_over(sender->sending(out.places),
                          [&] { transport.enqueue_send(from, to, out.at, bytes, sender->exchange); });
            }
        }
    }
    template<class Source, class Goal>
    void carry(std::size_t k, int from, Source const& source, int to, Goal const& goal, bytes_t bytes) {
        carry(k, from, source, to, goal, bytes, [](auto const& f) { f(); });
    }

    /// Hands over what a role of the k-th replica receives from one beside it.
    void take(std::size_t k, task_of_role const& next, sent_places const& sent, int slot) {
        auto const& t = *next.task;
        auto* const r = find(k, next.role);
        int first = 0, end = t.transfers;
        while (first < end && !takes(t.moves[first])) ++first;
        while (first < end && !takes(t.moves[end - 1])) --end;
        if (first == end) { // it only sends: others take it
            for (bool const over : {false, true})
                if (r != nullptr) stamp(*r, t, slot, over, r->compute);
            return;
        }
        auto const& m = t.moves[next.transfer];
        if (!takes(m)) return;
        auto const left = sent.of(m);
        auto const source = [&](rank_type& from) -> numbers_in_places {
            auto const& there = from.own_stage(m.from()).blocks;
            return {m.gradient ? from.slot_place(left) : from.frame_place(left),
                    from.values() + (m.gradient ? there.outgoing(left) : there.output(left))};
        };
        auto const goal = [&](rank_type& to) -> numbers_in_places {
            auto const& there = to.own_stage(m.to()).blocks;
            return {to.frame_place(m.place),
                    to.values() + (m.gradient ? there.output_gradient(m.place) : there.input(m.place))};
        };
        carry(k, m.role, source, next.role, goal, bytes_of(m), [&](auto const& bring) {
            if (next.transfer == first) stamp(*r, t, slot, false, r->exchange);
            bring();
            if (next.transfer + 1 == end) stamp(*r, t, slot, true, r->exchange);
        });
    }

    std::unique_ptr<stream_order<stream>> order_;
    bool stamping_ = false, evaluating_ = false; ///< the times of tasks are noted; they are those of an evaluation
};

} // namespace trireme::detail
