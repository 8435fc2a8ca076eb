// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/pipeline/schedule.hpp>
#include <trireme/schedule/proof.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

inline constexpr int max_roles = 64;
inline constexpr int max_micro_batches = 4096;
inline constexpr int max_transfers = 4;

/// A transfer across the boundary between two stages: the values of one micro-batch, or, the other way, their
/// gradients.
struct stage_transfer {
    std::uint8_t role = 0;      ///< of the other side
    bool sends = false;         ///< else it receives
    bool gradient = false;      ///< from stage `boundary` + 1 to stage `boundary`; else the other way
    std::uint16_t boundary = 0; ///< the lower of the two stages
    std::uint16_t micro_batch = 0;
    std::uint16_t place =
        0; ///< the frame that it is read from or written to; of a gradient that is sent: an outgoing slot

    constexpr bool operator==(stage_transfer const&) const = default;
};

/// One line of a role's list. Frames and slots are numbered by role.
struct step_task {
    task_kind kind = task_kind::forward;
    std::uint8_t chunk = 0; ///< of what is computed
    bool scales = false;    ///< each sample's loss is weighted here, by one over the samples of the step
    bool updates = false;   ///< of a collective: it updates what it has added (hold_weights<once>)
    std::uint16_t micro_batch = 0;
    std::uint16_t frame = 0; ///< where the micro-batch's values are kept from forward to backward
    std::uint16_t slot = 0;  ///< of backward: where the gradient lies that goes to the stage before
    std::uint16_t first = 0; ///< slices [first, end) of the role's parameters, of a collective or an update
    std::uint16_t end = 0;
    std::uint8_t transfers = 0;
    stage_transfer moves[max_transfers] = {};

    constexpr bool operator==(step_task const&) const = default;
    constexpr bool computes() const noexcept { return kind <= task_kind::train; }
};

/// The numbers that a step program is built from.
struct step_shape {
    int roles = 1;         ///< devices of a replica
    int micro_batches = 1; ///< of a replica
    int replicas = 1;      ///< which add their gradients
    int slices = 1;        ///< of a stage's parameters: each is added by a collective of its own
    bool updates_on_the_way = false;
};

/// A training step as a value: what each role of a replica does, in order. Tasks before `tail` compute gradients, and
/// may be done several times; those behind it add them over the replicas, and update, once.
struct step_program {
    char const* schedule = "";
    step_shape shape = {};
    int chunks = 1;
    std::span<step_task const> all = {};
    std::uint32_t begin[max_roles + 1] = {};
    std::uint32_t tail[max_roles] = {};      ///< in a role's list
    std::uint16_t frames[max_roles] = {};    ///< that a role needs
    std::uint16_t slots[max_roles] = {};     ///< outgoing ones, for gradients
    std::uint16_t stages[max_roles][8] = {}; ///< by role and chunk

    constexpr int stage_count() const noexcept { return shape.roles * chunks; }
    constexpr std::span<step_task const> list(int role) const noexcept {
        auto const r = static_cast<std::size_t>(role);
        return all.subspan(begin[r], begin[r + 1] - begin[r]);
    }
    constexpr int stage(int role, int chunk) const noexcept {
        return stages[static_cast<std::size_t>(role)][static_cast<std::size_t>(chunk)];
    }
};

namespace detail {

/// Writes the tasks of one role, and gives out its frames and outgoing slots.
class role_writer {
public:
    constexpr role_writer(step_program const& p, int role, std::span<step_task> out)
        : program_(p), role_(role), out_(out), held_(static_cast<std::size_t>(p.chunks * p.shape.micro_batches)),
          busy_(static_cast<std::size_t>(p.chunks * p.shape.micro_batches) + 1) {}

    constexpr void add(scheduled_work const& c, std::span<std::uint8_t const> role_of) {
        auto const stage = program_.stage(role_, c.chunk), last = program_.stage_count() - 1;
        bool const forward = c.kind == task_kind::forward || c.kind == task_kind::train;
        bool const gives_input = c.kind == task_kind::backward || c.kind == task_kind::backward_input;
        auto& frame = held_[static_cast<std::size_t>(c.chunk * program_.shape.micro_batches + c.micro_batch)];
        if (forward) frame = take_frame();
        if (forward && stage > 0) move({role_of[at(stage - 1)], false, false, number(stage - 1), c.micro_batch, frame});
        if (gives_input && stage < last)
            move({role_of[at(stage + 1)], false, true, number(stage), c.micro_batch, frame});
        flush();

        step_task t;
        t.kind = c.kind;
        t.chunk = c.chunk;
        t.micro_batch = c.micro_batch;
        t.frame = frame;
        t.scales = stage == last && (c.kind == task_kind::train || gives_input);
        if (gives_input && stage > 0) {
            t.slot = sent_++ % 2;
            slots_ = std::max(slots_, static_cast<std::uint16_t>(t.slot + 1));
        }
        out_[count_++] = t;

        if (forward && stage < last) move({role_of[at(stage + 1)], true, false, number(stage), c.micro_batch, frame});
        if (gives_input && stage > 0)
            move({role_of[at(stage - 1)], true, true, number(stage - 1), c.micro_batch, t.slot});
        if (c.kind == task_kind::backward || c.kind == task_kind::backward_weights || c.kind == task_kind::train)
            busy_[frame] = false;
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
    static constexpr std::size_t at(int stage) { return static_cast<std::size_t>(stage); }
    static constexpr std::uint16_t number(int stage) { return static_cast<std::uint16_t>(stage); }

    constexpr std::uint16_t take_frame() {
        std::uint16_t f = 0;
        while (busy_[f]) ++f;
        busy_[f] = true;
        frames_ = std::max(frames_, static_cast<std::uint16_t>(f + 1));
        return f;
    }
    constexpr void move(stage_transfer const& t) {
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
    std::size_t count_ = 0;
    scratch<std::uint16_t> held_;
    scratch<bool> busy_;
    step_task move_ = {};
    std::uint32_t tail_ = 0;
    std::uint16_t frames_ = 0, slots_ = 0, sent_ = 0;
};

} // namespace detail

/// Tasks that a step of this shape has room for.
template<pipeline_schedule S>
constexpr std::size_t step_capacity(step_shape const& s) noexcept {
    auto const n = [](int x) { return static_cast<std::size_t>(x); };
    return n(s.roles) * (n(6 * S::chunks) * n(s.micro_batches) + 2 + n(2 * S::chunks * s.slices));
}

/// Builds a step in `room`, which has step_capacity<S>(shape) tasks and lives as long as the program.
///
/// What is sent goes with the next receive, as one task. A frame is taken before the micro-batch's values come, and is
/// free after its last backward task; gradients leave from two outgoing slots in turn. Where one role has everything
/// and forward is followed by backward, the two are one task.
template<pipeline_schedule S>
constexpr step_program build_step(step_shape const& shape, std::span<step_task> room) {
    step_program p;
    p.schedule = S::name;
    p.shape = shape;
    p.chunks = S::chunks;
    detail::scratch<std::uint8_t> role_of(static_cast<std::size_t>(p.stage_count()));
    for (int r = 0; r < shape.roles; ++r)
        for (int c = 0; c < S::chunks; ++c) {
            auto const stage = stage_of<S>(shape.roles, r, c);
            p.stages[r][c] = static_cast<std::uint16_t>(stage);
            role_of[static_cast<std::size_t>(stage)] = static_cast<std::uint8_t>(r);
        }
    std::span<std::uint8_t const> const roles(role_of.data(), static_cast<std::size_t>(p.stage_count()));
    detail::scratch<scheduled_work> order(static_cast<std::size_t>(3 * S::chunks * shape.micro_batches + 1));
    std::size_t used = 0;
    for (int r = 0; r < shape.roles; ++r) {
        detail::role_writer w(p, r, room.subspan(used));
        auto const n = static_cast<std::size_t>(S::write(shape.roles, shape.micro_batches, r, order.data()));
        for (std::size_t i = 0; i < n; ++i) {
            auto c = order[i];
            bool const whole = p.stage_count() == 1 && i + 1 < n && c.kind == task_kind::forward &&
                               order[i + 1].kind == task_kind::backward && order[i + 1].micro_batch == c.micro_batch;
            if (whole) c.kind = task_kind::train, ++i;
            w.add(c, roles);
        }
        w.end_of_micro_batches();
        step_task t;
        t.end = static_cast<std::uint16_t>(S::chunks * shape.slices);
        for (auto s = t.end; s-- > 0 && shape.replicas > 1;) { // the last rows are the first to be complete
            step_task add;
            add.kind = task_kind::collective;
            add.first = s;
            add.end = static_cast<std::uint16_t>(s + 1);
            add.updates = shape.updates_on_the_way;
            w.add(add);
        }
        t.kind = task_kind::update;
        if (shape.replicas == 1 || !shape.updates_on_the_way) w.add(t);
        auto const role = static_cast<std::size_t>(r);
        p.tail[role] = w.tail();
        p.frames[role] = w.frames();
        p.slots[role] = w.slots();
        used += w.count();
        p.begin[role + 1] = static_cast<std::uint32_t>(used);
    }
    p.all = room.first(used);
    return p;
}

/// The step program of a shape that the compiler knows.
template<pipeline_schedule S, int Roles, int MicroBatches, int Replicas = 1, int Slices = 1>
struct static_step {
    static constexpr step_shape shape = {Roles, MicroBatches, Replicas, Slices, false};

private:
    struct storage {
        step_task room[step_capacity<S>(shape)] = {};
        step_program program;
        constexpr storage() : program(build_step<S>(shape, room)) {}
    };
    static constexpr storage made{};

public:
    static constexpr step_program const& program = made.program;
};

} // namespace trireme
