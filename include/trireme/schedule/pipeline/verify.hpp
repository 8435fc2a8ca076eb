// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/pack.hpp>
#include <trireme/core/scratch.hpp>
#include <trireme/schedule/pipeline/lowering.hpp>
#include <trireme/schedule/pipeline/program.hpp>

#include <cstddef>
#include <cstdint>

namespace trireme {

/// Reasons why a program is no training step.
enum class program_fault : std::uint8_t {
    none,
    out_of_range, ///< a stage, micro-batch, frame, slot, slice or role that does not exist, or a stage of two roles
    order,        ///< a way back before the way there, or the halves of backward the wrong way round
    twice,        ///< a micro-batch goes one way through a stage again
    missing,      ///< a micro-batch has not been everywhere, or something is sent that nobody takes
    sum_order,    ///< a stage adds the gradients of a later micro-batch first: other bits on other layouts
    overwritten,  ///< a frame is taken that is in use
    elsewhere,    ///< a frame or slot holds something else than what is read
    mismatch,     ///< two roles do not send and receive the same things in the same order
    deadlock,     ///< a task waits for what cannot come
    scale,        ///< a micro-batch's loss is weighted never, or twice
    incomplete,   ///< gradients are added over the replicas, measured or used before all are there
    slices        ///< a slice is not added, not measured, not updated, or not tied to others, exactly once
};

/// A verdict on a step program: a fault, if there is one, and its place.
struct program_verdict {
    program_fault fault = program_fault::none; ///< the reason; none: the program is right
    int role = 0;                              ///< role of the task at fault
    int task = 0;                              ///< number of the task in the role's list
    constexpr bool ok() const noexcept { return fault == program_fault::none; }
};

/// The order in which a stage has to add the gradients of its micro-batches. Bits depend on it; sums of real numbers do
/// not.
enum class gradient_order : std::uint8_t { of_micro_batches, any };

namespace detail {

/// Plays a program: each role does its next task as soon as it can. Since every task waits for things that stay, who
/// goes first does not matter, and one play stands for all.
class program_proof {
public:
    constexpr program_proof(step_program const& p, lowering const& by,
                            gradient_order order = gradient_order::of_micro_batches)
        : p_(p), by_(by), order_(order), roles_(static_cast<std::size_t>(p.shape.roles)),
          stages_(static_cast<std::size_t>(p.stage_count())),
          micro_batches_(static_cast<std::size_t>(p.shape.micro_batches)),
          slices_(static_cast<std::size_t>(p.chunks * p.shape.slices)), next_(roles_), posted_(roles_),
          been_(stages_ * micro_batches_), added_(stages_), frames_(numbered(p.frames, first_frame_)),
          slots_(numbered(p.slots, first_slot_)), crossings_(2 * stages_ * micro_batches_), reduced_(roles_ * slices_),
          updated_(roles_ * slices_), met_(roles_) {}

    constexpr program_verdict run(bool evaluation) {
        evaluates_ = evaluation;
        if (auto const r = p_.misplaced_role(); r != p_.shape.roles)
            return at(program_fault::out_of_range, static_cast<std::size_t>(r), 0);
        for (std::size_t r = 0; r < roles_; ++r)
            for (auto const& t : p_.list(static_cast<int>(r)))
                if (!in_range(t, r)) return at(program_fault::out_of_range, r, index(t, r));
        if (auto const v = match(); !v.ok()) return v;
        for (bool moved = true; moved;) {
            moved = false;
            for (std::size_t r = 0; r < roles_; ++r)
                while (next_[r] < list(r).size()) {
                    auto const& t = list(r)[next_[r]];
                    bool waits = false;
                    bool const posted = posted_[r];
                    auto const fault = step(t, r, waits);
                    moved = moved || posted != posted_[r];
                    if (fault != program_fault::none) return at(fault, r, next_[r]);
                    if (waits) break; // its sends may have been posted: then somebody else can go on
                    ++next_[r];
                    moved = true;
                }
        }
        for (std::size_t r = 0; r < roles_; ++r)
            if (next_[r] < list(r).size()) return at(program_fault::deadlock, r, next_[r]);
        return evaluation ? evaluated() : whole();
    }
    /// The task that a role had come to when the proof ended, of its list.
    constexpr std::size_t next(int role) { return next_[static_cast<std::size_t>(role)]; }

private:
    /// Progress of a micro-batch in a stage.
    enum visit : std::uint8_t { nothing, forward_done, input_done, all_done };
    /// Content of a frame. A frame that has got its values is taken; gradients come into the same frame. Values that
    /// were evaluated are through until they are sent.
    struct content {
        std::uint16_t stage = 0, micro_batch = 0;
        enum : std::uint8_t { free, values, through, evaluated, gradient, waiting } is = free; // for backward_weights
        std::size_t sent = npos; ///< the crossing that its values have been sent by
    };
    struct sent {
        std::uint16_t stage = 0, micro_batch = 0;
        bool used = false;
    };
    enum crossing : std::uint8_t { not_yet, is_posted, is_taken };

    /// The room for the places of all roles, of which each has so many: `first` tells where its own begin.
    constexpr std::size_t numbered(std::uint16_t const* counts, std::uint32_t* first) const {
        std::uint32_t all = 0;
        for (std::size_t r = 0; r < roles_; ++r) first[r] = all, all += counts[r];
        return all + 1;
    }
    constexpr std::span<step_task const> list(std::size_t role) const { return p_.list(static_cast<int>(role)); }
    constexpr std::size_t index(step_task const& t, std::size_t role) const {
        return static_cast<std::size_t>(&t - list(role).data());
    }
    static constexpr program_verdict at(program_fault f, std::size_t role, std::size_t task) {
        return {f, static_cast<int>(role), static_cast<int>(task)};
    }
    constexpr std::size_t stage_of(step_task const& t, std::size_t role) const {
        return static_cast<std::size_t>(p_.stage(static_cast<int>(role), t.chunk));
    }
    constexpr std::size_t stage_of_slice(std::size_t slice, std::size_t role) const {
        return static_cast<std::size_t>(p_.stage(static_cast<int>(role), static_cast<int>(slice) / p_.shape.slices));
    }
    constexpr bool has_stage(std::size_t role, std::size_t stage) const {
        for (int c = 0; c < p_.chunks; ++c)
            if (static_cast<std::size_t>(p_.stage(static_cast<int>(role), c)) == stage) return true;
        return false;
    }

    constexpr bool in_range(step_task const& t, std::size_t r) const {
        if (t.kind == task_kind::move) {
            if (t.transfers > max_transfers) return false;
            for (int k = 0; k < t.transfers; ++k) {
                auto const& m = t.moves[k];
                bool const gives = m.sends != m.gradient; // this side is the lower stage's
                if (m.role >= roles_ || m.boundary + 1u >= stages_ || m.micro_batch >= micro_batches_) return false;
                if (!has_stage(r, m.boundary + (gives ? 0u : 1u)) || !has_stage(m.role, m.boundary + (gives ? 1u : 0u)))
                    return false;
                if (m.place >= (m.sends && m.gradient ? p_.slots[r] : p_.frames[r])) return false;
            }
            return true;
        }
        if (t.computes())
            return t.chunk < p_.chunks && t.micro_batch < micro_batches_ && t.frame < p_.frames[r] &&
                   (t.kind != task_kind::train || stages_ == 1) &&
                   (stage_of(t, r) == 0 || !gives_input(t.kind) || t.slot < p_.slots[r]);
        return t.first < t.end && t.end <= slices_;
    }

    /// Both sides of every pair of roles name the same transfers in the same order: of each way, or, where one queue
    /// carries all ways, of all of them together.
    constexpr program_verdict match() {
        if (all_match()) return {};
        for (std::size_t a = 0; a < roles_; ++a)
            for (std::size_t b = 0; b < roles_; ++b) {
                auto v = match(a, b, npos);
                if (!v.ok() && !by_.one_queue) {
                    v = {};
                    for (std::size_t way = 0; way + 2 < 2 * stages_ && v.ok(); ++way) v = match(a, b, way);
                }
                if (!v.ok()) return v;
            }
        return {};
    }
    /// Says only whether: once through all lists, for what is sent, and once more, for what is received.
    constexpr bool all_match() const {
        std::size_t const keys = by_.one_queue ? roles_ * roles_ : 2 * stages_;
        auto const key = [&](stage_transfer const& m, std::size_t r) {
            return !by_.one_queue ? m.way() : m.sends ? r * roles_ + m.role : m.role * roles_ + r;
        };
        auto const for_each = [&](bool sends, auto const& f) {
            for (std::size_t r = 0; r < roles_; ++r)
                for (auto const& t : list(r))
                    for (int k = 0; t.kind == task_kind::move && k < t.transfers; ++k)
                        if (t.moves[k].sends == sends) f(key(t.moves[k], r), index_of(t.moves[k]));
        };
        scratch<std::size_t> begin(keys + 1), next(keys);
        for_each(true, [&](std::size_t of, std::size_t) { ++begin[of + 1]; });
        for (std::size_t i = 0; i < keys; ++i) begin[i + 1] += begin[i], next[i] = begin[i];
        scratch<std::size_t> what(begin[keys] + 1);
        for_each(true, [&](std::size_t of, std::size_t is) { what[next[of]++] = is; });
        for (std::size_t i = 0; i < keys; ++i) next[i] = begin[i];
        bool same = true;
        for_each(false, [&](std::size_t of, std::size_t is) {
            same = same && next[of] < begin[of + 1] && what[next[of]] == is;
            ++next[of];
        });
        for (std::size_t i = 0; i < keys; ++i) same = same && next[i] == begin[i + 1];
        return same;
    }
    /// Transfers from `a` to `b`; npos: of any way.
    constexpr program_verdict match(std::size_t a, std::size_t b, std::size_t way) {
        cursor from{list(a)}, to{list(b)};
        for (;;) {
            bool const some = from.next(true, b, way), other = to.next(false, a, way);
            if (some != other) return at(program_fault::mismatch, some ? a : b, some ? from.task : to.task);
            if (!some) return {};
            if (!from.get().carries_as(to.get())) return at(program_fault::mismatch, b, to.task);
        }
    }
    struct cursor {
        std::span<trireme::step_task const> list;
        std::size_t task = 0;
        int move = -1;

        constexpr stage_transfer const& get() const { return list[task].moves[move]; }
        constexpr bool next(bool sends, std::size_t role, std::size_t way) {
            for (; task < list.size(); ++task, move = -1)
                while (list[task].kind == task_kind::move && ++move < list[task].transfers)
                    if (get().sends == sends && get().role == role && (way == npos || get().way() == way)) return true;
            return false;
        }
    };

    constexpr program_fault step(step_task const& t, std::size_t r, bool& waits) {
        if (t.kind == task_kind::move) return next_[r] < p_.tail[r] ? move(t, r, waits) : program_fault::order;
        if (is_meeting(t.kind)) return meet(t, r, waits);
        return t.computes() ? compute(t, r, waits) : finish(t, r);
    }

    constexpr content& frame(std::size_t role, std::size_t i) { return frames_[first_frame_[role] + i]; }
    constexpr sent& slot(std::size_t role, std::size_t i) { return slots_[first_slot_[role] + i]; }
    constexpr std::size_t index_of(stage_transfer const& m) const { return m.way() * micro_batches_ + m.micro_batch; }
    constexpr crossing& crossing_of(stage_transfer const& m) { return crossings_[index_of(m)]; }
    /// True if values that were sent from a frame are still to be read there: who fills the frame waits.
    constexpr bool is_on_its_way(content const& f) { return f.sent != npos && crossings_[f.sent] != is_taken; }

    constexpr program_fault move(step_task const& t, std::size_t r, bool& waits) {
        if (!posted_[r]) {
            for (int k = 0; k < t.transfers; ++k) {
                auto const& m = t.moves[k];
                if (!m.sends) continue;
                if (crossing_of(m) != not_yet) return program_fault::twice;
                if (m.gradient) {
                    auto const& s = slot(r, m.place);
                    if (!s.used || s.stage != m.boundary + 1u || s.micro_batch != m.micro_batch)
                        return program_fault::elsewhere;
                } else {
                    auto& f = frame(r, m.place);
                    bool const there = f.is == content::through || f.is == content::evaluated;
                    if (!there || f.stage != m.boundary || f.micro_batch != m.micro_batch)
                        return program_fault::elsewhere;
                    if (f.is == content::evaluated) f.is = content::free;
                    f.sent = index_of(m);
                }
                crossing_of(m) = is_posted;
            }
            posted_[r] = true;
        }
        for (int k = 0; k < t.transfers; ++k) {
            auto const& m = t.moves[k];
            if (!m.sends && crossing_of(m) == not_yet) waits = true;
            if (!m.sends && !m.gradient && frame(r, m.place).is == content::free && is_on_its_way(frame(r, m.place)))
                waits = true;
            if (m.sends && by_.rendezvous && crossing_of(m) != is_taken && !awaited(m)) waits = true;
        }
        if (waits) return program_fault::none;
        for (int k = 0; k < t.transfers; ++k) {
            auto const& m = t.moves[k];
            if (m.sends) continue;
            auto& f = frame(r, m.place);
            if (m.gradient) {
                if (f.is != content::through || f.stage != m.boundary || f.micro_batch != m.micro_batch)
                    return program_fault::elsewhere;
                f.is = content::gradient;
            } else {
                if (f.is != content::free) return program_fault::overwritten;
                f = {static_cast<std::uint16_t>(m.boundary + 1u), m.micro_batch, content::values};
            }
            crossing_of(m) = is_taken;
        }
        posted_[r] = false;
        return program_fault::none;
    }
    /// True if the receiver has come to the move that takes it.
    constexpr bool awaited(stage_transfer const& m) {
        if (next_[m.role] >= list(m.role).size()) return false;
        auto const& t = list(m.role)[next_[m.role]];
        for (int k = 0; k < t.transfers && t.kind == task_kind::move && posted_[m.role]; ++k)
            if (!t.moves[k].sends && t.moves[k].carries_as(m)) return true;
        return false;
    }

    constexpr program_fault compute(step_task const& t, std::size_t r, bool& waits) {
        auto const stage = stage_of(t, r), last = stages_ - 1;
        auto& been = been_[stage * micro_batches_ + t.micro_batch];
        auto& f = frame(r, t.frame);
        auto const here = [&] { return f.is != content::free && f.stage == stage && f.micro_batch == t.micro_batch; };
        bool const scales = stage == last && (t.kind == task_kind::train || gives_input(t.kind));
        if (t.scales != scales) return program_fault::scale;
        if (next_[r] >= p_.tail[r]) return program_fault::order;

        if (goes_forward(t.kind) || t.kind == task_kind::evaluate) {
            if (been != nothing) return program_fault::twice;
            if (stage == 0) {
                if (f.is != content::free) return program_fault::overwritten;
                if (is_on_its_way(f)) {
                    waits = true;
                    return program_fault::none;
                }
                f = {static_cast<std::uint16_t>(stage), t.micro_batch, content::values};
            } else if (!here() || f.is != content::values) {
                return program_fault::elsewhere;
            }
            f.is = content::through;
            been = forward_done;
            if (t.kind == task_kind::evaluate) f.is = stage == last ? content::free : content::evaluated;
            if (evaluates_ && stage == last && added_[stage]++ != t.micro_batch) return program_fault::sum_order;
            if (t.kind != task_kind::train) return program_fault::none;
        }
        if (t.kind == task_kind::backward_weights) {
            if (been != input_done) return been == all_done ? program_fault::twice : program_fault::order;
            if (!here() || f.is != content::waiting) return program_fault::elsewhere;
        } else {
            if (been != forward_done) return been == nothing ? program_fault::order : program_fault::twice;
            auto const wanted = stage == last ? content::through : content::gradient;
            if (!here() || f.is != wanted) return program_fault::elsewhere;
            if (stage > 0) {
                auto& s = slot(r, t.slot);
                if (s.used && !taken(s)) {
                    waits = true;
                    return program_fault::none;
                }
                s = {static_cast<std::uint16_t>(stage), t.micro_batch, true};
            }
            if (t.kind == task_kind::backward_input) {
                been = input_done;
                f.is = content::waiting;
                return program_fault::none;
            }
        }
        if (order_ == gradient_order::of_micro_batches && added_[stage] != t.micro_batch)
            return program_fault::sum_order;
        ++added_[stage];
        been = all_done;
        f.is = content::free;
        return program_fault::none;
    }
    /// True if the gradient that was sent from a slot has arrived.
    constexpr bool taken(sent const& s) {
        stage_transfer m;
        m.gradient = true;
        m.boundary = static_cast<std::uint16_t>(s.stage - 1);
        m.micro_batch = s.micro_batch;
        return crossing_of(m) == is_taken;
    }

    /// The roles of a replica exchange something of all their slices: none goes on before all have come to it.
    constexpr program_fault meet(step_task const& t, std::size_t r, bool& waits) {
        if (!posted_[r]) {
            if (next_[r] < p_.tail[r]) return program_fault::order;
            bool const wanted = p_.shape.meets_for(t.kind, p_.stage_count());
            if (!wanted || has_met(t.kind, r) || t.first != 0 || t.end != slices_) return program_fault::slices;
            for (std::size_t s = 0; s < slices_; ++s) {
                bool const added = reduced_[r * slices_ + s] || p_.shape.replicas == 1;
                if (added_[stage_of_slice(s, r)] != micro_batches_ || !added) return program_fault::incomplete;
                if (updated_[r * slices_ + s] != (t.kind == task_kind::copy_tied)) return program_fault::order;
            }
            if (t.kind == task_kind::measure && !is_ready_for(t.kind, r)) return program_fault::incomplete;
            met_[r] = static_cast<std::uint8_t>(met_[r] | bit_of(t.kind));
            posted_[r] = true;
        }
        for (std::size_t q = 0; q < roles_; ++q)
            if (!has_met(t.kind, q)) waits = true;
        posted_[r] = waits;
        return program_fault::none;
    }
    static constexpr unsigned bit_of(task_kind k) {
        return 1u << (static_cast<unsigned>(k) - static_cast<unsigned>(task_kind::add_tied));
    }
    constexpr bool has_met(task_kind k, std::size_t r) { return (met_[r] & bit_of(k)) != 0; }
    /// True if a role's gradients are what a measure or an update wants: tied, and measured.
    constexpr bool is_ready_for(task_kind k, std::size_t r) {
        if (p_.shape.ties && !has_met(task_kind::add_tied, r)) return false;
        return k == task_kind::measure || !p_.shape.measures || has_met(task_kind::measure, r);
    }

    constexpr program_fault finish(step_task const& t, std::size_t r) {
        bool const adds = t.kind == task_kind::collective, updates = !adds || t.updates;
        if (next_[r] < p_.tail[r]) return program_fault::order;
        if (adds && t.updates != p_.shape.updates_on_the_way) return program_fault::slices;
        for (std::size_t s = t.first; s < t.end; ++s) {
            if (added_[stage_of_slice(s, r)] != micro_batches_) return program_fault::incomplete;
            auto &reduced = reduced_[r * slices_ + s], &updated = updated_[r * slices_ + s];
            if (adds && (reduced || p_.shape.replicas == 1)) return program_fault::slices;
            if (adds) reduced = true;
            if (updates && !reduced && p_.shape.replicas > 1) return program_fault::incomplete;
            if (updates && updated) return program_fault::slices;
            if (updates && !is_ready_for(task_kind::update, r)) return program_fault::incomplete;
            if (updates) updated = true;
        }
        return program_fault::none;
    }

    constexpr program_verdict whole() {
        for (std::size_t r = 0; r < roles_; ++r) {
            for (int c = 0; c < p_.chunks; ++c)
                if (added_[static_cast<std::size_t>(p_.stage(static_cast<int>(r), c))] != micro_batches_)
                    return at(program_fault::missing, r, list(r).size());
            for (std::size_t s = 0; s < slices_; ++s)
                if (!updated_[r * slices_ + s]) return at(program_fault::slices, r, list(r).size());
            for (auto const kind : {task_kind::add_tied, task_kind::measure, task_kind::copy_tied})
                if (has_met(kind, r) != p_.shape.meets_for(kind, p_.stage_count()))
                    return at(program_fault::slices, r, list(r).size());
        }
        return {};
    }
    /// Evaluation, likewise: every micro-batch has been forward through every stage, and nothing else was done.
    constexpr program_verdict evaluated() {
        for (std::size_t r = 0; r < roles_; ++r) {
            for (auto const& t : list(r))
                if (t.kind != task_kind::evaluate && t.kind != task_kind::move)
                    return at(program_fault::order, r, index(t, r));
            for (int c = 0; c < p_.chunks; ++c)
                for (std::size_t m = 0; m < micro_batches_; ++m)
                    if (been_[static_cast<std::size_t>(p_.stage(static_cast<int>(r), c)) * micro_batches_ + m] ==
                        nothing)
                        return at(program_fault::missing, r, list(r).size());
        }
        return {};
    }

    step_program const& p_;
    lowering by_;
    gradient_order order_;
    bool evaluates_ = false;
    std::size_t roles_, stages_, micro_batches_, slices_;
    scratch<std::size_t> next_;
    scratch<bool> posted_; ///< the sends of the role's next task, a move; or the role has come to a meeting
    scratch<visit> been_;
    scratch<std::size_t> added_; ///< micro-batches whose gradients a stage has added, or losses
    std::uint32_t first_frame_[max_roles] = {}, first_slot_[max_roles] = {};
    scratch<content> frames_;
    scratch<sent> slots_;
    scratch<crossing> crossings_;
    scratch<bool> reduced_, updated_;
    scratch<std::uint8_t> met_; ///< by role: the kinds of meetings that it has come to
};

} // namespace detail

/// Proves that a program is a training step if moves are carried out so: every micro-batch goes once through every
/// stage, forward and back, gradients are added once and in the order of the micro-batches, or in any, weighted once,
/// and only used when all are there; what is read from a frame or slot is what was put there for it; and nobody waits
/// for ever. Cost: linear in the tasks.
constexpr program_verdict verify(step_program const& p, lowering const& by = by_counters,
                                 gradient_order order = gradient_order::of_micro_batches) {
    return detail::program_proof(p, by, order).run(false);
}

/// Proves that a program is an evaluation, likewise: every micro-batch goes once forward through every stage, through
/// the last one in the order of the micro-batches.
constexpr program_verdict verify_evaluation(step_program const& p, lowering const& by = by_counters) {
    return detail::program_proof(p, by).run(true);
}

/// The fault in words.
constexpr char const* describe(program_fault f) noexcept {
    switch (f) {
    case program_fault::none:
        return "is a training step";
    case program_fault::out_of_range:
        return "names something that does not exist";
    case program_fault::order:
        return "goes back before it has gone forward";
    case program_fault::twice:
        return "goes the same way twice";
    case program_fault::missing:
        return "leaves something out";
    case program_fault::sum_order:
        return "adds gradients in another order than that of the micro-batches";
    case program_fault::overwritten:
        return "overwrites what is still needed";
    case program_fault::elsewhere:
        return "reads a place that holds something else";
    case program_fault::mismatch:
        return "sends and receives different things";
    case program_fault::deadlock:
        return "waits for what cannot come";
    case program_fault::scale:
        return "weights a loss never, or twice";
    case program_fault::incomplete:
        return "uses gradients before all of them are there";
    case program_fault::slices:
        return "does not add, measure or update every part of the parameters exactly once";
    }
    return "";
}

} // namespace trireme
