// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace trireme {

/// The kinds of tasks in a training step. A schedule writes forward, backward and the two halves of backward.
enum class task_kind : std::uint8_t {
    forward,          ///< of one micro-batch through the rows of one stage
    backward,         ///< both halves
    backward_input,   ///< the gradient by the stage's input
    backward_weights, ///< the gradients by its parameters, later than backward_input
    train,            ///< forward, loss and backward at once, where one device has all stages
    evaluate,         ///< forward outside of training; its frame is free again when its values have been sent
    move,             ///< values and gradients from stage to stage
    collective,       ///< gradients of some slices are added over the replicas
    add_tied,         ///< gradients of tied rows are added to those of the rows that they are tied to
    measure,          ///< the norm of all gradients of a replica, for which its roles meet
    update,           ///< of some slices of the parameters
    copy_tied         ///< what has been updated goes to tied rows of other stages
};

constexpr bool goes_forward(task_kind k) noexcept { return k == task_kind::forward || k == task_kind::train; }
/// True for a task that gives the gradient by its stage's input to the stage before.
constexpr bool gives_input(task_kind k) noexcept { return k == task_kind::backward || k == task_kind::backward_input; }
/// True for a task that adds the gradients by its stage's parameters.
constexpr bool gives_weights(task_kind k) noexcept {
    return k == task_kind::backward || k == task_kind::backward_weights || k == task_kind::train;
}

/// True for a task of the tail, which is told by its slices.
constexpr bool is_of_slices(task_kind k) noexcept { return k >= task_kind::collective; }
/// True for a task of the tail that all roles of a replica do together, on all slices.
constexpr bool is_meeting(task_kind k) noexcept {
    return k == task_kind::add_tied || k == task_kind::measure || k == task_kind::copy_tied;
}

/// One line of a schedule: which micro-batch goes which way through which of the role's stages. Schedules that are data
/// (schedule_orders) may also have moves, one transfer each, to or from that stage.
struct scheduled_work {
    task_kind kind = task_kind::forward;
    std::uint8_t chunk = 0; ///< which stage of the role, counted from 0
    std::uint16_t micro_batch = 0;
    bool sends = false;    ///< of a move; else it receives
    bool gradient = false; ///< of a move; else values

    constexpr bool operator==(scheduled_work const&) const = default;
};

/// The order in which the roles of a pipeline compute. A role is the place of a device in the pipeline; each has
/// `chunks` stages, by default chunk * roles + role, else `stage(roles, role, chunk)`.
///
///     static constexpr char const* name = "...";
///     static constexpr int chunks = 1;
///     static constexpr int write(int roles, int micro_batches, int role, scheduled_work* out); // returns how many
///
/// Sends, receives and where values are kept follow from the order; whether it works is proved (verify.hpp). A schedule
/// that goes back several times before the role before it takes the first gradient says for how many a role has room:
///
///     static constexpr int slots(int roles, int micro_batches); // by default default_slots
template<class S>
concept pipeline_schedule = std::default_initializable<S> && requires(scheduled_work* out) {
    { S::name } -> std::convertible_to<char const*>;
    typename std::integral_constant<int, S::chunks>;
    { S::write(1, 1, 0, out) } -> std::same_as<int>;
};

inline constexpr int max_chunks = 8;
inline constexpr int default_slots = 2;

/// The stage that is a role's `chunk`-th.
template<pipeline_schedule S>
constexpr int stage_of(int roles, int role, int chunk) noexcept {
    if constexpr (requires { S::stage(roles, role, chunk); })
        return S::stage(roles, role, chunk);
    else
        return chunk * roles + role;
}

/// The gradients that a role may have sent while none of them has been taken.
template<pipeline_schedule S>
constexpr int slots_of(int roles, int micro_batches) noexcept {
    if constexpr (requires { S::slots(roles, micro_batches); })
        return S::slots(roles, micro_batches);
    else
        return default_slots;
}

namespace detail {

/// The text `WORD<C>`, from which a schedule with a number of stages takes its name.
struct name_with_chunks {
    char text[32] = {};

    constexpr name_with_chunks(char const* word, int chunks) {
        static_assert(max_chunks < 10, "the number has one digit");
        char* to = text;
        while (*word != '\0') *to++ = *word++;
        for (char const c : {'<', static_cast<char>('0' + chunks), '>'}) *to++ = c;
    }
};

} // namespace detail

/// Schedule: all micro-batches forward, then all backward. Keeps the values of all of them.
/// Source: Huang et al., "GPipe", 2019.
struct gpipe {
    static constexpr char const* name = "gpipe";
    static constexpr int chunks = 1;

    TRIREME_COLD static constexpr int write(int, int micro_batches, int, scheduled_work* out) {
        int n = 0;
        for (auto const kind : {task_kind::forward, task_kind::backward})
            for (int m = 0; m < micro_batches; ++m) out[n++] = {kind, 0, static_cast<std::uint16_t>(m)};
        return n;
    }
};

/// Schedule: forward until the first micro-batch comes back, then one forward, one backward. Keeps the values of as
/// many micro-batches as there are stages from here to the end. Source: Narayanan et al., "PipeDream", 2019;
/// "Memory-efficient pipeline-parallel DNN training", 2021.
struct one_f_one_b {
    static constexpr char const* name = "one_f_one_b";
    static constexpr int chunks = 1;

    TRIREME_COLD static constexpr int write(int roles, int micro_batches, int role, scheduled_work* out) {
        int n = 0, ahead = std::min(roles - 1 - role, micro_batches), back = 0;
        for (int m = 0; m < micro_batches; ++m) {
            out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(m)};
            if (m >= ahead) out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(back++)};
        }
        while (back < micro_batches) out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(back++)};
        return n;
    }
};

class schedule_orders;

namespace detail {

// The functions of schedule_choice, which a type's do not look at: what orders they are of.
template<pipeline_schedule S>
constexpr int written_by(void const*, int roles, int micro_batches, int role, scheduled_work* out) {
    return S::write(roles, micro_batches, role, out);
}
template<pipeline_schedule S>
constexpr int staged_by(void const*, int roles, int role, int chunk) {
    return stage_of<S>(roles, role, chunk);
}
template<pipeline_schedule S>
constexpr int slots_by(void const*, int roles, int micro_batches) {
    return slots_of<S>(roles, micro_batches);
}

} // namespace detail

/// A pipeline's schedule as a value, made from the type: `schedule_choice s = gpipe{};`, or from orders that were read
/// from a file, and live as long: `schedule_choice s = orders;`.
class schedule_choice {
public:
    constexpr schedule_choice() = default;
    template<pipeline_schedule S>
    constexpr schedule_choice(S) noexcept
        : name(S::name), chunks(S::chunks), write_(&detail::written_by<S>), stage_(&detail::staged_by<S>),
          slots_(&detail::slots_by<S>) {
        static_assert(S::chunks >= 1 && S::chunks <= max_chunks,
                      "a role has at least one stage, and at most max_chunks");
    }

    char const* name = one_f_one_b::name;
    int chunks = one_f_one_b::chunks;
    int roles = 0;          ///< that the schedule is for; 0: any number
    int micro_batches = 0;  ///< likewise
    std::size_t lines = 0;  ///< of all roles; 0: as many as each micro-batch has tasks
    bool has_moves = false; ///< some lines are sends and receives, which else follow

    /// The order in which a role computes, its length, and the rest that a schedule says: see pipeline_schedule.
    constexpr int write(int all_roles, int all_micro_batches, int role, scheduled_work* out) const {
        return write_(orders_, all_roles, all_micro_batches, role, out);
    }
    constexpr int stage(int all_roles, int role, int chunk) const { return stage_(orders_, all_roles, role, chunk); }
    constexpr int slots(int all_roles, int all_micro_batches) const {
        return slots_(orders_, all_roles, all_micro_batches);
    }

    /// True if it was made from this type.
    template<pipeline_schedule S>
    bool is() const noexcept {
        return write_ == &detail::written_by<S>;
    }

private:
    friend schedule_orders;
    void const* orders_ = nullptr;
    int (*write_)(void const*, int roles, int micro_batches, int role,
                  scheduled_work* out) = &detail::written_by<one_f_one_b>;
    int (*stage_)(void const*, int roles, int role, int chunk) = &detail::staged_by<one_f_one_b>;
    int (*slots_)(void const*, int roles, int micro_batches) = &detail::slots_by<one_f_one_b>;
};

} // namespace trireme
