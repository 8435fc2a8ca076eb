// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Compilers prove steps of up to 16 roles and 256 tasks forward; larger ones are proved when a trainer is made.

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <support/messages.hpp>
#include <support/own_schedules.hpp>

#include <cstddef>

namespace steps_for_compilers_test {
using namespace trireme;

namespace {

/// A step that is for compilers, and proved: each is an evaluation of its own.
template<class S, int Roles, int MicroBatches>
constexpr bool proved = is_step_for_compiler<S>(Roles, MicroBatches) &&
                        detail::known_step<S, Roles, MicroBatches, 1,
                                           gradient_order::of_micro_batches>::template verdict<transport_traits>()
                            .ok();
/// The largest steps that are for compilers.
template<class S, int Most = 16, int Tasks = 256>
constexpr bool all_proved = proved<S, 2, Tasks / 2 / S::chunks> && proved<S, Most / 2, 2 * Tasks / Most / S::chunks> &&
                            proved<S, Most, Tasks / Most / S::chunks>;

static_assert(all_proved<gpipe> && all_proved<one_f_one_b> && all_proved<interleaved<2>> &&
              all_proved<breadth_first<2>>);
static_assert(all_proved<zero_bubble_h1> && all_proved<zero_bubble_h2>);
static_assert(all_proved<zero_bubble_v> && all_proved<v_half> && all_proved<v_min>);
static_assert(proved<dual_pipe_v, 2, 64> && proved<dual_pipe_v, 8, 16>);
static_assert(all_proved<zero_bubble_auto<>, 4, 64> && all_proved<zero_bubble_auto<2, 3, 1, 1, 4>, 4, 64>);
static_assert(!is_step_for_compiler<gpipe>(16, 17) && !is_step_for_compiler<gpipe>(17, 1));
static_assert(!is_step_for_compiler<interleaved<2>>(16, 9) && !is_step_for_compiler<zero_bubble_auto<>>(5, 2));

/// The fault shows at the end: the last micro-batch does not come back.
struct forgets_the_last : one_f_one_b {
    static constexpr int write(int roles, int m, int role, scheduled_work* out) {
        return one_f_one_b::write(roles, m, role, out) - 1;
    }
};
// A schedule that is wrong with any number of micro-batches is refused within the limits, too.
static_assert(detail::known_step<forgets_the_last, 16, 16, 1, gradient_order::any>::least() == 0);

using deep = network<input<8>, repeat<63, linear<8>, sigmoid>, linear<5>>;
template<class Schedule>
using on_64 =
    trainer<deep, cross_entropy, sgd, on<mesh<host, pp<64>>>, pipeline<Schedule, 512>, reproducible<fixed_tree, 512>>;

} // namespace

TEST_SUITE("trainer/steps_for_compilers") {
    TEST_CASE("64 stages of 512 micro-batches are proved when a trainer is made") {
        CHECK_NOTHROW(on_64<one_f_one_b>::check({.batch = 1024}));
        CHECK_NOTHROW(on_64<zero_bubble_h1>::check({.batch = 1024}));
        CHECK(test_support::says(
            test_support::refusal([] { on_64<own_schedules::last_first>::check({.batch = 1024}); }),
            {"schedule last_first on 64 stages: its step adds gradients in another order", "role 63"}));
    }
}

} // namespace steps_for_compilers_test
