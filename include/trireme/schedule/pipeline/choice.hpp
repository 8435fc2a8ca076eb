// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/pipeline/schedule.hpp>
#include <trireme/schedule/pipeline/schedules/one_f_one_b.hpp>

#include <cstddef>

namespace trireme {

class schedule_orders;

namespace detail {

// The functions of schedule_choice, which a type's do not look at: what orders they are of.
template<pipeline_schedule S>
constexpr void written_by(void const*, int roles, int micro_batches, role_order* lists) {
    if constexpr (requires { S::write_all(roles, micro_batches, lists); })
        S::write_all(roles, micro_batches, lists);
    else
        for (int r = 0; r < roles; ++r) lists[r].count = S::write(roles, micro_batches, r, lists[r].tasks);
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

    /// The orders in which all roles compute, and the rest that a schedule says: see pipeline_schedule. Orders that
    /// were read are written one behind the other, from the room of the first list on.
    constexpr void write(int all_roles, int all_micro_batches, role_order* lists) const {
        write_(orders_, all_roles, all_micro_batches, lists);
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
    void (*write_)(void const*, int roles, int micro_batches, role_order* lists) = &detail::written_by<one_f_one_b>;
    int (*stage_)(void const*, int roles, int role, int chunk) = &detail::staged_by<one_f_one_b>;
    int (*slots_)(void const*, int roles, int micro_batches) = &detail::slots_by<one_f_one_b>;
};

} // namespace trireme
