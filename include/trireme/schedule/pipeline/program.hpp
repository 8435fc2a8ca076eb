// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/scratch.hpp>
#include <trireme/schedule/pipeline/choice.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace trireme {

inline constexpr int max_roles = 64;
inline constexpr int max_transfers = 4;

/// A transfer across the boundary between two stages: the values of one micro-batch, or, the other way, their
/// gradients.
struct stage_transfer {
    std::uint8_t role = 0;         ///< role of the other side
    bool sends = false;            ///< true: this side sends; else it receives
    bool gradient = false;         ///< true: from stage `boundary` + 1 to stage `boundary`; else the other way
    std::uint16_t boundary = 0;    ///< the lower of the two stages
    std::uint16_t micro_batch = 0; ///< number of the micro-batch, counted from 0
    /// The frame that it is read from or written to; of a gradient that is sent: an outgoing slot.
    std::uint16_t place = 0;

    constexpr bool operator==(stage_transfer const&) const = default;
    /// The number of its boundary and direction: what goes one way keeps its order.
    constexpr std::size_t way() const noexcept { return 2u * boundary + (gradient ? 1u : 0u); }
    /// The stages that it goes from and to.
    constexpr int from() const noexcept { return boundary + (gradient ? 1 : 0); }
    constexpr int to() const noexcept { return boundary + (gradient ? 0 : 1); }
    /// True for the other side of the same transfer.
    constexpr bool carries_as(stage_transfer const& other) const noexcept {
        return way() == other.way() && micro_batch == other.micro_batch;
    }
};

/// One line of a role's list. Frames and slots are numbered by role.
struct step_task {
    task_kind kind = task_kind::forward; ///< the task
    std::uint8_t chunk = 0;              ///< stage of the role that computes, counted from 0
    bool scales = false;                 ///< each sample's loss is weighted here, by one over the samples of the step
    bool updates = false;                ///< true: the collective updates what it has added (hold_weights<once>)
    std::uint16_t micro_batch = 0;       ///< number of the micro-batch, counted from 0
    std::uint16_t frame = 0;             ///< frame that keeps the micro-batch's values from forward to backward
    std::uint16_t slot = 0;              ///< slot of the gradient that backward gives to the stage before
    std::uint16_t first = 0;             ///< slices [first, end) of the role's parameters, of a collective or an update
    std::uint16_t end = 0;               ///< the slice behind the last one
    std::uint8_t transfers = 0;          ///< transfers that it hands over or waits for
    stage_transfer moves[max_transfers] = {}; ///< the first `transfers` of them count

    constexpr bool operator==(step_task const&) const = default;
    constexpr bool computes() const noexcept { return kind <= task_kind::evaluate; }
};

/// The numbers that a step program is built from.
struct step_shape {
    int roles = 1;                   ///< devices of a replica
    int micro_batches = 1;           ///< micro-batches of a replica
    int replicas = 1;                ///< replicas that add their gradients
    int slices = 1;                  ///< slices of a stage's parameters: each is added by a collective of its own
    bool updates_on_the_way = false; ///< true: collectives update what they have added (hold_weights<once>)
    bool measures = false;           ///< true: the norm of the gradients is taken, between adding and updating them
    int passes = 1;    ///< passes of the schedule, one behind the other, each over as many of the micro-batches
    bool ties = false; ///< true: some rows have their parameters in common

    /// True if its tail has a task of that kind, which all roles do together.
    constexpr bool meets_for(task_kind k, int stages) const noexcept {
        return k == task_kind::measure ? measures : ties && (k == task_kind::add_tied || stages > 1);
    }
};

/// A training step as a value: what each role of a replica does, in order. Tasks before `tail` compute gradients, and
/// may be done several times; those behind it add them over the replicas, and update, once.
struct step_program {
    char const* schedule = "";                        ///< the schedule's name
    step_shape shape = {};                            ///< the numbers that it is built from
    int chunks = 1;                                   ///< stages of each role
    std::span<step_task const> all = {};              ///< the lists of all roles, one behind the other
    std::uint32_t begin[max_roles + 1] = {};          ///< first task of each role's list in `all`
    std::uint32_t tail[max_roles] = {};               ///< tasks before the tail, in a role's list
    std::uint16_t frames[max_roles] = {};             ///< frames that a role needs
    std::uint16_t slots[max_roles] = {};              ///< slots that a role needs, for gradients that it sends
    std::uint16_t stages[max_roles][max_chunks] = {}; ///< stage of the network, by role and chunk

    constexpr int stage_count() const noexcept { return shape.roles * chunks; }
    constexpr std::span<step_task const> list(int role) const noexcept {
        auto const r = static_cast<std::size_t>(role);
        return all.subspan(begin[r], begin[r + 1] - begin[r]);
    }
    /// True if some task is a half of backward.
    constexpr bool has_halves() const noexcept {
        for (auto const& t : all)
            if (t.kind == task_kind::backward_input || t.kind == task_kind::backward_weights) return true;
        return false;
    }
    constexpr int stage(int role, int chunk) const noexcept {
        return stages[static_cast<std::size_t>(role)][static_cast<std::size_t>(chunk)];
    }
    /// The first role with a stage that does not exist, or that is there already; else the number of roles.
    constexpr int misplaced_role() const {
        detail::scratch<bool> there(static_cast<std::size_t>(stage_count()));
        for (int r = 0; r < shape.roles; ++r)
            for (int c = 0; c < chunks; ++c) {
                auto const s = static_cast<std::size_t>(stage(r, c));
                if (s >= static_cast<std::size_t>(stage_count()) || there[s]) return r;
                there[s] = true;
            }
        return shape.roles;
    }
    /// The role that has a stage.
    constexpr int role_of(int stage_number) const noexcept {
        for (int r = 0; r < shape.roles; ++r)
            for (int c = 0; c < chunks; ++c)
                if (stage(r, c) == stage_number) return r;
        return 0;
    }
};

namespace detail {

/// Writes the tasks of one role, and gives out its frames and outgoing slots.
class role_writer {
public:
    /// most_slots: fewer than one count as one, and more than have numbers as max_places. most_frames: as many as the
    /// lines that may take one.
    constexpr role_writer(step_program const& p, int role, std::span<step_task> out,
                          std::span<std::uint8_t const> role_of, int most_slots, std::size_t most_frames,
                          bool writes_moves = false, std::uint16_t evaluation_frames = 1)
        : program_(p), role_(role), out_(out), role_of_(role_of),
          most_slots_(static_cast<std::uint16_t>(std::clamp(most_slots, 1, max_places))),
          evaluation_frames_(std::max<std::uint16_t>(1, evaluation_frames)), writes_moves_(writes_moves),
          held_(static_cast<std::size_t>(p.chunks * p.shape.micro_batches)),
          busy_(std::min<std::size_t>(most_frames, max_places) + 1) {}

    role_writer(role_writer const&) = delete;
    role_writer& operator=(role_writer const&) = delete;
    constexpr ~role_writer() = default; // nvcc does not see that the implicit one is constexpr

    TRIREME_COLD constexpr void add(scheduled_work const& c) {
        if (c.kind == task_kind::move) return add_move(c);
        auto const stage = program_.stage(role_, c.chunk), last = program_.stage_count() - 1;
        bool const forward = goes_forward(c.kind) || c.kind == task_kind::evaluate;
        auto& held = held_in(c);
        if (forward && (stage == 0 || moves_follow(stage - 1)))
            held.frame = c.kind == task_kind::evaluate ? next_frame() : take_frame();
        auto const frame = held.frame;
        needs_frame(frame);
        if (forward && stage > 0 && moves_follow(stage - 1))
            move(stage - 1, false, {.micro_batch = c.micro_batch, .place = frame});
        if (gives_input(c.kind) && stage < last && moves_follow(stage + 1))
            move(stage + 1, false, {.gradient = true, .micro_batch = c.micro_batch, .place = frame});
        flush();

        step_task t;
        t.kind = c.kind;
        t.chunk = c.chunk;
        t.micro_batch = c.micro_batch;
        t.frame = frame;
        t.scales = stage == last && (c.kind == task_kind::train || gives_input(c.kind));
        if (gives_input(c.kind) && stage > 0) {
            t.slot = static_cast<std::uint16_t>(sent_++ % most_slots_);
            needs_slot(t.slot);
            held.slot = t.slot;
        }
        out_[count_++] = t;

        if (forward && stage < last && moves_follow(stage + 1))
            move(stage + 1, true, {.micro_batch = c.micro_batch, .place = frame});
        if (gives_input(c.kind) && stage > 0 && moves_follow(stage - 1))
            move(stage - 1, true, {.gradient = true, .micro_batch = c.micro_batch, .place = t.slot});
        if (gives_weights(c.kind)) {
            busy_[frame] = false;
            lowest_ = std::min(lowest_, frame);
        }
    }
    constexpr void end_of_micro_batches() {
        flush();
        tail_ = static_cast<std::uint32_t>(count_);
    }
    constexpr void add(step_task const& t) { out_[count_++] = t; }

    constexpr std::size_t count() const { return count_; }
    constexpr std::uint32_t tail() const { return tail_; }
    constexpr std::uint16_t frames() const { return frames_; }
    constexpr std::uint16_t slots() const { return slots_; }

private:
    /// The places of a micro-batch in a stage.
    struct places {
        std::uint16_t frame = 0, slot = 0;
    };
    constexpr places& held_in(scheduled_work const& c) {
        return held_[static_cast<std::size_t>(c.chunk * program_.shape.micro_batches + c.micro_batch)];
    }
    /// True if what goes to or comes from that stage is moved without a line of the schedule.
    constexpr bool moves_follow(int other) const {
        return !writes_moves_ || role_of_[static_cast<std::size_t>(other)] == role_;
    }
    /// Places that are named are counted, also where nothing has been put there: the proof tells of that.
    constexpr void needs_frame(std::uint16_t f) { frames_ = std::max(frames_, static_cast<std::uint16_t>(f + 1)); }
    constexpr void needs_slot(std::uint16_t s) { slots_ = std::max(slots_, static_cast<std::uint16_t>(s + 1)); }
    /// A transfer that the schedule has a line for. Values get a frame where they are received.
    constexpr void add_move(scheduled_work const& c) {
        auto& held = held_in(c);
        if (!c.sends && !c.gradient) held.frame = take_frame();
        if (c.sends && c.gradient)
            needs_slot(held.slot);
        else
            needs_frame(held.frame);
        move(program_.stage(role_, c.chunk) + (c.sends != c.gradient ? 1 : -1), c.sends,
             {.gradient = c.gradient,
              .micro_batch = c.micro_batch,
              .place = c.sends && c.gradient ? held.slot : held.frame});
    }
    /// The last frame that has a number is taken again where all are busy: the proof tells of that, too.
    constexpr std::uint16_t take_frame() {
        constexpr std::uint16_t last = max_places - 1;
        auto f = lowest_;
        while (busy_[f] && f < last) ++f;
        busy_[f] = true;
        lowest_ = std::min(last, static_cast<std::uint16_t>(f + 1));
        return f;
    }
    /// In evaluation frames take turns: what has been sent from one need not have been taken when the next is filled.
    constexpr std::uint16_t next_frame() { return static_cast<std::uint16_t>(evaluated_++ % evaluation_frames_); }
    /// To or from the stage `other`, the one before or behind; t: the rest.
    constexpr void move(int other, bool sends, stage_transfer t) {
        t.role = role_of_[static_cast<std::size_t>(other)];
        t.sends = sends;
        t.boundary = static_cast<std::uint16_t>(sends == t.gradient ? other : other - 1);
        if (move_.transfers == max_transfers) flush();
        move_.kind = task_kind::move;
        move_.moves[move_.transfers++] = t;
    }
    constexpr void flush() {
        if (move_.transfers != 0) out_[count_++] = move_;
        move_ = {};
    }

    step_program const& program_;
    int role_;
    std::span<step_task> out_;
    std::span<std::uint8_t const> role_of_; ///< by stage
    std::uint16_t most_slots_, evaluation_frames_, evaluated_ = 0;
    bool writes_moves_;
    std::size_t count_ = 0;
    scratch<places> held_; ///< by chunk and micro-batch
    scratch<bool> busy_;
    std::uint16_t lowest_ = 0; ///< all frames below are busy
    step_task move_ = {};
    std::uint32_t tail_ = 0;
    std::uint16_t frames_ = 0, slots_ = 0;
    std::uint32_t sent_ = 0;
};

} // namespace detail

/// Tasks that a step of this shape, or an evaluation, has room for: two for each line, which may have a move before it.
/// Orders that were read have at least a line for each stage; an evaluation goes twice through it.
constexpr std::size_t step_capacity(schedule_choice const& s, step_shape const& shape) noexcept {
    auto const n = [](int x) { return static_cast<std::size_t>(x); };
    auto const lines =
        s.lines != 0 ? s.lines * n(shape.passes) : n(shape.roles) * n(3 * s.chunks) * n(shape.micro_batches);
    return 2 * lines + n(shape.roles) * (5 + n(2 * s.chunks * shape.slices));
}

namespace detail {

/// The lines that a role may have in a pass.
constexpr std::size_t most_lines(schedule_choice const& s, step_shape const& shape) noexcept {
    return s.lines != 0 ? s.lines : static_cast<std::size_t>(3 * s.chunks * (shape.micro_batches / shape.passes));
}

[[noreturn]] TRIREME_COLD inline void refuse_shape(schedule_choice const& s, step_shape const& shape) {
    throw usage_error("schedule " + std::string(s.name) + " is for " + std::to_string(s.roles) + " roles and " +
                      std::to_string(s.micro_batches) + " micro-batches, and the step has " +
                      std::to_string(shape.roles) + " roles and " + std::to_string(shape.passes) + " times " +
                      std::to_string(shape.micro_batches / shape.passes) +
                      " micro-batches: build it with the shape of the schedule");
}

/// The stages of all roles, as a schedule has them; and who has which stage.
constexpr step_program with_stages(schedule_choice const& s, step_shape const& shape, scratch<std::uint8_t>& role_of) {
    step_program p;
    p.schedule = s.name;
    p.shape = shape;
    p.chunks = s.chunks;
    for (int r = 0; r < shape.roles; ++r)
        for (int c = 0; c < s.chunks; ++c) {
            auto const stage = s.stage(shape.roles, r, c);
            p.stages[r][c] = static_cast<std::uint16_t>(stage);
            if (stage >= 0 && stage < p.stage_count())
                role_of[static_cast<std::size_t>(stage)] = static_cast<std::uint8_t>(r);
        }
    return p;
}
/// Keeps what a writer has found out of a role; its tasks begin at `used` in the room, and end where `used` is then.
constexpr void keep_role(step_program& p, int role, role_writer const& w, std::size_t& used) {
    auto const r = static_cast<std::size_t>(role);
    p.tail[r] = w.tail();
    p.frames[r] = w.frames();
    p.slots[r] = w.slots();
    used += w.count();
    p.begin[r + 1] = static_cast<std::uint32_t>(used);
}

} // namespace detail

/// Builds a step in `room`, which has step_capacity(s, shape) tasks and lives as long as the program.
///
/// A send goes with the next receive, as one task. A frame is taken before the micro-batch's values come, and is free
/// after its last backward task; gradients leave from outgoing slots in turn, two if the schedule does not say
/// otherwise. Where one role has everything and forward is followed by backward, the two are one task. Work of a stage
/// or a micro-batch that does not exist, and the first line above 3 * chunks * micro-batches, becomes a task without
/// frame and moves, which `verify` refuses. Errors: usage_error for orders that were read for another number of roles
/// or, in a pass, of micro-batches.
TRIREME_COLD constexpr step_program build_step(schedule_choice const& s, step_shape const& shape,
                                               std::span<step_task> room) {
    using namespace detail;
    if (s.roles != 0 && (s.roles != shape.roles || s.micro_batches * shape.passes != shape.micro_batches))
        refuse_shape(s, shape);
    auto const stages = static_cast<std::size_t>(shape.roles * s.chunks);
    scratch<std::uint8_t> role_of(stages);
    auto p = with_stages(s, shape, role_of);
    auto const most = most_lines(s, shape), roles = static_cast<std::size_t>(shape.roles);
    auto const room_of_a_list = s.lines != 0 ? most + 1 : 2 * most + 1; // for a schedule that writes too much, too
    auto const apart = s.lines != 0 ? std::size_t{0} : room_of_a_list;  // lists that were read make their own room
    scratch<scheduled_work> lines((roles - 1) * apart + room_of_a_list);
    scratch<role_order> lists(roles);
    for (std::size_t r = 0; r < roles; ++r) {
        lists[r].tasks = lines.data() + r * apart;
        lists[r].most = static_cast<int>(room_of_a_list);
    }
    int const in_a_pass = shape.micro_batches / shape.passes;
    s.write(shape.roles, in_a_pass, lists.data());
    bool const placed = p.misplaced_role() == shape.roles;
    std::size_t used = 0;
    for (int r = 0; r < shape.roles; ++r) {
        role_writer w(p, r, room.subspan(used), {role_of.data(), stages}, s.slots(shape.roles, in_a_pass),
                      most * static_cast<std::size_t>(shape.passes), s.has_moves);
        auto& order = lists[static_cast<std::size_t>(r)];
        bool const too_many = s.lines == 0 && order.count > static_cast<int>(most);
        if (too_many) order.count = static_cast<int>(most); // the program has no room for more
        for (int pass = 0; pass < shape.passes; ++pass)
            for (int i = 0; i < order.count; ++i) {
                auto c = order.tasks[i];
                bool const whole = stages == 1 && i + 1 < order.count && c.kind == task_kind::forward &&
                                   order.tasks[i + 1].kind == task_kind::backward &&
                                   order.tasks[i + 1].micro_batch == c.micro_batch;
                if (whole) c.kind = task_kind::train, ++i;
                c.micro_batch = static_cast<std::uint16_t>(c.micro_batch + pass * in_a_pass);
                if (placed && c.chunk < s.chunks && c.micro_batch < shape.micro_batches) {
                    w.add(c);
                } else {
                    step_task unknown;
                    unknown.kind = c.kind;
                    unknown.chunk = c.chunk;
                    unknown.micro_batch = c.micro_batch;
                    w.add(unknown);
                }
            }
        if (too_many) { // the line behind the last one that a role may have; verify refuses it
            step_task beyond;
            beyond.chunk = static_cast<std::uint8_t>(s.chunks);
            w.add(beyond);
        }
        w.end_of_micro_batches();
        step_task t;
        t.end = static_cast<std::uint16_t>(s.chunks * shape.slices);
        for (auto k = t.end; k-- > 0 && shape.replicas > 1;) { // the last rows are the first to be complete
            step_task add;
            add.kind = task_kind::collective;
            add.first = k;
            add.end = static_cast<std::uint16_t>(k + 1);
            add.updates = shape.updates_on_the_way;
            w.add(add);
        }
        for (auto const kind : {task_kind::add_tied, task_kind::measure, task_kind::update, task_kind::copy_tied}) {
            bool const updates = kind == task_kind::update && (shape.replicas == 1 || !shape.updates_on_the_way);
            t.kind = kind;
            if (updates || (is_meeting(kind) && shape.meets_for(kind, p.stage_count()))) w.add(t);
        }
        keep_role(p, r, w, used);
    }
    p.all = room.first(used);
    return p;
}

/// Builds the evaluation that goes with a step, in as much room: two micro-batches go forward through all stages, in
/// frames of the step. It is executed as often as there are two more.
TRIREME_COLD constexpr step_program build_evaluation(schedule_choice const& s, step_program const& step,
                                                     std::span<step_task> room) {
    using namespace detail;
    auto shape = step.shape;
    shape.micro_batches = step.stage_count() == 1 ? 1 : 2;
    auto const stages = static_cast<std::size_t>(step.stage_count());
    scratch<std::uint8_t> role_of(stages);
    auto p = with_stages(s, shape, role_of);
    std::size_t used = 0;
    for (int r = 0; r < shape.roles; ++r) {
        role_writer w(p, r, room.subspan(used), {role_of.data(), stages}, default_slots, 0, false, step.frames[r]);
        for (int m = 0; m < shape.micro_batches; ++m)
            for (int stage = 0; stage < step.stage_count(); ++stage)
                for (int c = 0; c < s.chunks; ++c)
                    if (p.stage(r, c) == stage)
                        w.add(scheduled_work{task_kind::evaluate, static_cast<std::uint8_t>(c),
                                             static_cast<std::uint16_t>(m)});
        w.end_of_micro_batches();
        keep_role(p, r, w, used);
    }
    p.all = room.first(used);
    return p;
}

/// The step program of a shape that the compiler knows.
template<pipeline_schedule S, int Roles, int MicroBatches, int Replicas = 1, int Slices = 1, int Passes = 1>
struct static_step {
    static constexpr step_shape shape = {Roles, MicroBatches, Replicas, Slices, false, false, Passes};

private:
    struct storage {
        step_task room[step_capacity(S{}, shape)] = {};
        step_program program;
        constexpr storage() : program(build_step(S{}, shape, room)) {}
    };
    static constexpr storage made{};

public:
    static constexpr step_program const& program = made.program;
};

} // namespace trireme
