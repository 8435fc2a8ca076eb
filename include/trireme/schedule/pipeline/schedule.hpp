// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
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
    task_kind kind = task_kind::forward; ///< the task
    std::uint8_t chunk = 0;              ///< stage of the role, counted from 0
    std::uint16_t micro_batch = 0;       ///< number of the micro-batch, counted from 0
    bool sends = false;                  ///< true for the side of a move that sends; else it receives
    bool gradient = false;               ///< true for a move of gradients; else of values

    constexpr bool operator==(scheduled_work const&) const = default;
};

/// A role's list of tasks, as it is written.
struct role_order {
    scheduled_work* tasks = nullptr;            ///< room for the list
    int count = 0;                              ///< tasks written so far
    int most = std::numeric_limits<int>::max(); ///< tasks that there is room for; those behind are counted alone

    constexpr void add(scheduled_work const& w) {
        if (count < most) tasks[count] = w;
        ++count;
    }
};

/// The order in which the roles of a pipeline compute. A role is the place of a device in the pipeline; each has
/// `chunks` stages, by default chunk * roles + role, else `stage(roles, role, chunk)`.
///
///     static constexpr char const* name = "...";
///     static constexpr int chunks = 1;
///     static constexpr int write(int roles, int micro_batches, int role, scheduled_work* out); // returns how many
///
/// A schedule that plays all roles to write one writes them at once instead, each into its list:
///
///     static constexpr void write_all(int roles, int micro_batches, role_order* lists);
///
/// Sends, receives and where values are kept follow from the order; whether it works is proved (verify.hpp). A schedule
/// that goes back several times before the role before it takes the first gradient says for how many a role has room:
///
///     static constexpr int slots(int roles, int micro_batches); // 1 to max_places; by default default_slots
///
/// One that looks for its order among many says so, so that compilers do only what they can: see is_step_for_compiler.
///
///     static constexpr bool searches = true;
template<class S>
concept pipeline_schedule = std::default_initializable<S> && requires {
    { S::name } -> std::convertible_to<char const*>;
    typename std::integral_constant<int, S::chunks>;
} && (requires(scheduled_work* out) {
    { S::write(1, 1, 0, out) } -> std::same_as<int>;
} || requires(role_order* lists) {
    { S::write_all(1, 1, lists) } -> std::same_as<void>;
});

inline constexpr int max_chunks = 8;
inline constexpr int default_slots = 2;
inline constexpr int max_places = 65535; ///< frames of a role, and slots: tasks number them in 16 bits

/// The stage that is a role's `chunk`-th.
template<pipeline_schedule S>
constexpr int stage_of(int roles, int role, int chunk) noexcept {
    if constexpr (requires { S::stage(roles, role, chunk); })
        return S::stage(roles, role, chunk);
    else
        return chunk * roles + role;
}

namespace detail {

/// True if a schedule looks for its order among many.
template<class S>
inline constexpr bool searches = [] {
    if constexpr (requires { S::searches; })
        return S::searches;
    else
        return false;
}();

} // namespace detail

/// True for steps that compilers prove within the limits that they have by default; the others are proved when a
/// trainer is made. A schedule that searches is for compilers only on few roles.
template<pipeline_schedule S>
constexpr bool is_step_for_compiler(int roles, int micro_batches) noexcept {
    constexpr bool searches = detail::searches<S>;
    return roles <= (searches ? 4 : 16) && roles * S::chunks * micro_batches <= (searches ? 64 : 256);
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

} // namespace trireme
