// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/schedule/pipeline/choice.hpp>
#include <trireme/schedule/pipeline/program.hpp>
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
    /// proved by counters, with gradients in any order, default_slots or more; as many as there are, up to max_places,
    /// where none suffice. An order of gradients asks for no more.
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

    /// The orders without their sends and receives, which follow then from what is computed.
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

    /// The form that steps are built from, and trainers take. Valid as long as the orders.
    operator schedule_choice() const& noexcept;
    operator schedule_choice() const&& = delete;

private:
    static schedule_orders const& at(void const* orders) noexcept {
        return *static_cast<schedule_orders const*>(orders);
    }
    void find_slots();

    detail::order_lists lists_;
    int slots_ = default_slots;
};

inline schedule_orders::operator schedule_choice() const& noexcept {
    schedule_choice c;
    c.name = lists_.name.c_str();
    c.chunks = lists_.chunks;
    c.roles = roles();
    c.micro_batches = micro_batches();
    c.lines = lists_.lines.size();
    c.has_moves = lists_.has_moves;
    c.orders_ = this;
    c.write_ = [](void const* all, int roles, int, role_order* lists) {
        auto* next = lists[0].tasks;
        for (int role = 0; role < roles; ++role) {
            lists[role] = {next, 0};
            for (auto const& line : at(all).order(role)) lists[role].add(line);
            next += lists[role].count;
        }
    };
    c.stage_ = [](void const* all, int roles, int role, int chunk) {
        return roles == at(all).roles() ? at(all).stage(role, chunk) : chunk * roles + role; // else it is refused
    };
    c.slots_ = [](void const* all, int, int) { return at(all).slots(); };
    return c;
}

TRIREME_COLD inline void schedule_orders::find_slots() {
    int const most = std::clamp(chunks() * micro_batches(), default_slots, max_places);
    slots_ = most;
    // without a way there and a way back for each, no number proves the step: it is not played, and takes no memory
    if (lists_.lines.size() / 2 <
        static_cast<std::size_t>(roles() * chunks()) * static_cast<std::size_t>(micro_batches()))
        return;
    std::vector<step_task> room(step_capacity(*this, shape()));
    auto const proved = [&](int slots) {
        slots_ = slots;
        return verify(build_step(*this, shape(), room), by_counters, gradient_order::any).ok();
    };
    if (proved(default_slots) || !proved(most)) return;
    int few = default_slots, enough = most;
    while (enough - few > 1) {
        auto const between = few + (enough - few) / 2;
        (proved(between) ? enough : few) = between;
    }
    slots_ = enough;
}

} // namespace trireme
