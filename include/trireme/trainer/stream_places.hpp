// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/device/stream_order.hpp>
#include <trireme/parallel/step.hpp>
#include <trireme/trainer/model_facts.hpp>
#include <trireme/trainer/stream_stage.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace trireme::detail {

/// The values of a model on accelerators.
struct stream_facts : model_facts {
    bool adds_beside;           ///< gradients, and losses, on a stream of their own; else on that of all other kernels
    bool narrow;                ///< layers take a narrow copy of the parameters
    std::size_t settings_bytes; ///< of a step, before its samples
};

/// The stages of an accelerator, and what its streams work on: memory in places, by number, and the work that reads and
/// writes them. Whoever hands over work waits for what it says here, and for nothing else.
template<class T>
class stream_places {
    using stage = stream_stage<T>;

public:
    /// Gives its streams and places numbers, the streams' from `stream` on and the places' from `place` on, and returns
    /// how many places there are. `reductions`: parts of the gradients that are added one by one.
    std::size_t give_numbers(std::size_t stream_number, std::size_t place, std::size_t reductions) {
        on_compute_ = stream_number;
        on_beside_ = stream_number + (facts_.adds_beside ? 1 : 0);
        on_exchange_ = stream_number + 2;
        auto const take = [&next = place](std::size_t n) {
            auto const first = next;
            return range{first, next += n};
        };
        places_.all.begin = place;
        places_.parameters = take(1);
        places_.samples = take(2);
        places_.losses = take(1);
        places_.scores = take(1);
        places_.terms = take(facts_.loss_terms != 0 ? 1 : 0);
        places_.task = take(1);
        places_.frames = take(own_[0].blocks.frames);
        places_.slots = take(own_[0].blocks.slots);
        places_.parts.begin = place;
        for (auto& s : own_) s.parts = take(reductions);
        places_.parts.end = places_.sums.begin = place;
        for (auto& s : own_) s.sums = take(slots_ - 1);
        places_.sums.end = place;
        places_.squares = take(facts_.clips ? 1 : 0);
        places_.norm = take(facts_.clips ? 1 : 0);
        places_.tied = take(facts_.tied_gradients != 0 ? 1 : 0);
        places_.all.end = place;
        return places_.all.size();
    }
    static constexpr std::size_t ordered = 3; ///< streams

    range all_places() const noexcept { return places_.all; }
    range frame_place(std::size_t f) const noexcept { return one(places_.frames, f); }
    range slot_place(std::size_t s) const noexcept { return one(places_.slots, s); }
    range samples_place(int slot) const noexcept { return one(places_.samples, static_cast<std::size_t>(slot)); }

    stream_work everything() const { return {on_compute_, {}, {{places_.all}}}; }
    stream_work narrowing() const { return {on_compute_, {}, {{places_.parameters}}}; }
    stream_work clearing_scores() const { return {on_beside_, {}, {{places_.scores}}}; }
    stream_work clearing_terms() const { return {on_compute_, {}, {{places_.terms}}}; }
    stream_work clearing_gradients(int chunk) const { return {on_beside_, {}, {{gradients_now(own(chunk))}}}; }
    stream_work going_forward(int slot, step_task const& t) const {
        return {on_compute_,
                {{places_.parameters, samples_place(slot)}},
                {{frame_place(t.frame), places_.task, added_on_compute(t), places_.terms}}};
    }
    stream_work losing(int slot, step_task const& t) const {
        return {on_compute_, {{samples_place(slot)}}, {{frame_place(t.frame), places_.task, places_.losses}}};
    }
    stream_work scoring(int slot) const {
        return {on_beside_, {{places_.losses, samples_place(slot)}}, {{places_.scores}}};
    }
    /// `parts`: whether those of the gradients are told one by one.
    stream_work going_back(int slot, step_task const& t, bool parts = false) const {
        return {on_compute_,
                {{places_.parameters, samples_place(slot)}},
                {{frame_place(t.frame), places_.task, parts ? range{} : added_on_compute(t),
                  places_.slots.size() == 0 ? range{} : slot_place(t.slot)}}};
    }
    /// Beside going_back; up to the gradients of a reduction, or to all of them.
    stream_work adding_gradients(int slot, step_task const& t, std::size_t reduction = npos) const {
        return {on_beside_,
                {{places_.parameters, samples_place(slot), frame_place(t.frame), places_.task}},
                {{reduction == npos ? gradients_now(own(t.chunk)) : one(own(t.chunk).parts, reduction)}}};
    }
    /// The second half of backward; gradients of a narrow copy are not those of a task beside it.
    stream_work adding_later(int slot, step_task const& t) const {
        return {on_compute_,
                {{places_.parameters, samples_place(slot)}},
                {{frame_place(t.frame), places_.task, gradients_now(own(t.chunk))}}};
    }
    stream_work merging() const { return {on_compute_, {}, {{places_.parts, places_.sums}}}; }
    /// A reduction of a part of a stage's gradients, or of all that a fixed tree adds.
    stream_work reducing(int chunk, std::size_t reduction, bool all) const {
        auto const& s = own(chunk);
        return {on_exchange_, {}, {{all ? s.parts : one(s.parts, reduction), all ? s.sums : range{}}}};
    }
    /// The squares of this rank's gradients; and the norm of all, with those of the other stages.
    range squares_place() const noexcept { return places_.squares; }
    range norm_place() const noexcept { return places_.norm; }
    stream_work squaring() const { return {on_compute_, {{places_.parts}}, {{places_.squares}}}; }
    stream_work measuring(int slot) const {
        return {on_compute_, {{places_.squares, samples_place(slot)}}, {{places_.norm}}};
    }
    /// Tied gradients are added, those of another rank when they have been copied; and updated weights come from it.
    range parts_place() const noexcept { return places_.parts; }
    range parameters_place() const noexcept { return places_.parameters; }
    range tied_place() const noexcept { return places_.tied; }
    stream_work adding_tied() const { return {on_compute_, {{places_.tied}}, {{places_.parts}}}; }
    /// All that roles meet for is done.
    stream_work having_met() const { return {on_compute_, {{places_.parts, places_.parameters, places_.norm}}, {}}; }
    stream_work telling_norm() const { return {on_exchange_, {{places_.norm}}, {}}; }
    stream_work updating(int slot) const {
        if (facts_.clips)
            return {on_compute_, {{samples_place(slot), places_.norm}}, {{places_.parts, places_.parameters}}};
        return {on_compute_, {{places_.parts, samples_place(slot)}}, {{places_.parameters}}};
    }
    stream_work evaluating(int slot, step_task const& t) const {
        return {on_compute_,
                {{places_.parameters, samples_place(slot)}},
                {{frame_place(t.frame), places_.task, places_.losses, places_.scores}}};
    }
    stream_work sharing_scores() const { return {on_exchange_, {}, {{places_.scores, places_.terms}}}; }
    /// Numbers come from another rank of this process, or from one of another, or go there.
    stream_work taking(range from, range to) const { return {on_exchange_, {{from}}, {{to}}}; }
    stream_work receiving(range to) const { return {on_exchange_, {}, {{to}}}; }
    stream_work sending(range from) const { return {on_exchange_, {{from}}, {}}; }
    /// The samples of a slot have been used.
    stream_work leaving(int slot) const { return {on_compute_, {}, {{samples_place(slot)}}}; }

    std::vector<stage> const& own() const noexcept { return own_; }
    stage const& own(int chunk) const noexcept { return own_[static_cast<std::size_t>(chunk)]; }
    /// The stage of that number, which it has.
    stage const& own_stage(int in_network) const noexcept {
        return *std::ranges::find(own_, in_network, &stage::number);
    }

protected:
    /// `slots`: of gradients; `in_tree`: a tree adds them.
    stream_places(stream_facts const& facts, std::vector<stage> stages, std::size_t slots, bool in_tree)
        : facts_(facts), own_(std::move(stages)), slots_(slots), in_tree_(in_tree) {}

    // The gradients that are being added to: all micro-batches' in one slot, or, where a tree adds them, one of their
    // own.
    std::size_t slot_now(stage const& s) const noexcept { return in_tree_ ? s.tree.depth() : 0; }
    range gradients_now(stage const& s) const noexcept {
        return slot_now(s) == 0 ? s.parts : one(s.sums, slot_now(s) - 1);
    }
    /// Layers that agree on something add their gradients on `compute`, and their statistics.
    range added_on_compute(step_task const& t) const noexcept {
        bool const adds = (facts_.whole_shard || facts_.buffers != 0) && gives_weights(t.kind);
        return adds ? gradients_now(own(t.chunk)) : range{};
    }

    stream_facts const& facts_;
    std::vector<stage> own_; ///< stages

private:
    static range one(range const& of, std::size_t i) noexcept { return {of.begin + i, of.begin + i + 1}; }

    std::size_t slots_;
    bool in_tree_;
    std::size_t on_compute_ = 0, on_beside_ = 0, on_exchange_ = 0;
    /// Places that work waits for, by number. `parts` are those of the first slots of gradients, `sums` the other
    /// slots.
    struct {
        range all, parameters, samples, losses, scores, terms, task, frames, slots, parts, sums, squares, norm, tied;
    } places_;
};

} // namespace trireme::detail
