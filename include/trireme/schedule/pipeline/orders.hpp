// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/schedule/pipeline/program.hpp>
#include <trireme/schedule/pipeline/schedule.hpp>
#include <trireme/schedule/pipeline/verify.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

class schedule_orders;

namespace detail {

/// The numbers of schedule_orders, checked: stages are 0 ... roles * chunks - 1, each of them one role's.
struct order_lists {
    std::string name = {};
    int chunks = 1;
    int micro_batches = 1;
    bool has_moves = false;
    std::vector<std::uint16_t> stages = {}; ///< by role and chunk
    std::vector<scheduled_work> lines = {}; ///< role by role
    std::vector<std::size_t> begin = {0};   ///< of each role in `lines`, and the end
};

/// Schedule orders in the form that steps are built from: see schedule_choice.
struct orders_view {
    char const* name;
    int chunks;
    order_lists const* lists;
    int most_slots;

    int write(int, int, int role, scheduled_work* out) const {
        auto const r = static_cast<std::size_t>(role);
        std::copy(lists->lines.begin() + static_cast<std::ptrdiff_t>(lists->begin[r]),
                  lists->lines.begin() + static_cast<std::ptrdiff_t>(lists->begin[r + 1]), out);
        return static_cast<int>(lists->begin[r + 1] - lists->begin[r]);
    }
    int stage(int, int role, int chunk) const { return lists->stages[static_cast<std::size_t>(role * chunks + chunk)]; }
    int slots(int, int) const { return most_slots; }
};
inline std::size_t most_lines(orders_view const& s, step_shape const& shape) {
    std::size_t most = 0;
    for (std::size_t r = 0; r + 1 < s.lists->begin.size(); ++r)
        most = std::max(most, s.lists->begin[r + 1] - s.lists->begin[r]);
    return most * static_cast<std::size_t>(shape.passes);
}
inline bool writes_moves(orders_view const& s) { return s.lists->has_moves; }

} // namespace detail

/// A schedule that is data: the order in which each role computes, for one number of roles and of micro-batches, as
/// read_schedule_csv reads it. Orders may have lines for sends and receives, too; else these follow from them.
///
///     auto const orders = read_schedule_csv("mine.csv");
///     std::vector<step_task> room(step_capacity(orders, orders.shape()));
///     auto const step = build_step(orders, orders.shape(), room); // both live as long as the program
///     if (auto const v = verify(step); !v.ok()) std::cerr << marked_lists(step, v);
class schedule_orders {
public:
    /// The orders of lists that have been checked: read_schedule_csv.
    TRIREME_COLD explicit schedule_orders(detail::order_lists lists) : lists_(std::move(lists)) { find_slots(); }

    std::string const& name() const noexcept { return lists_.name; }
    int roles() const noexcept { return static_cast<int>(lists_.begin.size()) - 1; }
    int chunks() const noexcept { return lists_.chunks; } ///< stages of each role
    int micro_batches() const noexcept { return lists_.micro_batches; }
    /// The gradients that a role may have sent while none of them has been taken: the fewest with which the step is
    /// proved by counters, default_slots or more; as many as there are, where none suffice.
    int slots() const noexcept { return slots_; }
    int stage(int role, int chunk) const noexcept {
        return lists_.stages[static_cast<std::size_t>(role * chunks() + chunk)];
    }
    std::span<scheduled_work const> order(int role) const noexcept {
        auto const r = static_cast<std::size_t>(role);
        return std::span(lists_.lines).subspan(lists_.begin[r], lists_.begin[r + 1] - lists_.begin[r]);
    }
    /// True if the orders have lines for sends and receives.
    bool has_moves() const noexcept { return lists_.has_moves; }

    /// The shape of a step with one replica.
    step_shape shape() const noexcept { return {roles(), micro_batches()}; }

    /// These orders less their sends and receives, which follow then from what is computed.
    TRIREME_COLD schedule_orders without_moves() const {
        auto some = lists_;
        some.has_moves = false;
        some.lines.clear();
        for (int r = 0; r < roles(); ++r) {
            for (auto const& line : order(r))
                if (line.kind != task_kind::move) some.lines.push_back(line);
            some.begin[static_cast<std::size_t>(r) + 1] = some.lines.size();
        }
        return schedule_orders(std::move(some));
    }

    /// The form that build_step takes. Valid as long as the orders.
    detail::orders_view view() const noexcept { return {lists_.name.c_str(), lists_.chunks, &lists_, slots_}; }

private:
    void find_slots();

    detail::order_lists lists_;
    int slots_ = default_slots;
};

/// Tasks that a step, or an evaluation, of these orders has room for.
inline std::size_t step_capacity(schedule_orders const& s, step_shape const& shape) noexcept {
    auto const n = [](int x) { return static_cast<std::size_t>(x); };
    std::size_t lines = 0;
    for (int r = 0; r < s.roles(); ++r) lines += s.order(r).size();
    auto const of_evaluation = n(s.roles() * s.chunks() * 2);
    return 2 * std::max(lines * n(shape.passes), of_evaluation) +
           n(shape.roles) * (3 + n(2 * s.chunks() * shape.slices));
}

/// Builds a step of these orders in `room`, as build_step(schedule_choice) does. Errors: usage_error for another number
/// of roles or, in a pass, of micro-batches.
TRIREME_COLD inline step_program build_step(schedule_orders const& s, step_shape const& shape,
                                            std::span<step_task> room) {
    if (shape.roles != s.roles() || shape.micro_batches != s.micro_batches() * shape.passes)
        throw usage_error("schedule " + s.name() + " is for " + std::to_string(s.roles()) + " roles and " +
                          std::to_string(s.micro_batches()) + " micro-batches, and the step has " +
                          std::to_string(shape.roles) + " roles and " + std::to_string(shape.passes) + " times " +
                          std::to_string(shape.micro_batches / shape.passes) +
                          " micro-batches: build it with the shape of the schedule");
    return detail::build_step_of(s.view(), shape, room);
}

/// Builds the evaluation that goes with a step of these orders, in as much room.
TRIREME_COLD inline step_program build_evaluation(schedule_orders const& s, step_program const& step,
                                                  std::span<step_task> room) {
    return detail::build_evaluation_of(s.view(), step, room);
}

TRIREME_COLD inline void schedule_orders::find_slots() {
    std::vector<step_task> room(step_capacity(*this, shape()));
    auto const proved = [&](int slots) {
        slots_ = slots;
        return verify(build_step(*this, shape(), room)).ok();
    };
    int const most = std::max(default_slots, chunks() * micro_batches());
    if (proved(default_slots) || !proved(most)) return;
    int few = default_slots, enough = most;
    while (enough - few > 1) {
        auto const between = few + (enough - few) / 2;
        (proved(between) ? enough : few) = between;
    }
    slots_ = enough;
}

} // namespace trireme
