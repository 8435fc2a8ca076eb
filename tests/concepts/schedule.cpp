// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A pipeline schedule that models docs/concepts/schedule.md and nothing more, in a trainer.

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <support/built_step.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace schedule_concept_test {
using namespace trireme;

// [pipeline_archetype]
struct backwards_at_once { // one micro-batch at a time: forward and back, then the next
    static constexpr char const* name = "backwards_at_once";
    static constexpr int chunks = 1; // stages of a role

    static constexpr int write(int, int micro_batches, int, scheduled_work* out) {
        int n = 0;
        for (int m = 0; m < micro_batches; ++m) {
            out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(m)};
            out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(m)};
        }
        return n; // lines
    }

    backwards_at_once() = default; // programs are built of objects, none is copied
    backwards_at_once(backwards_at_once const&) = delete;
    backwards_at_once& operator=(backwards_at_once const&) = delete;
};
static_assert(pipeline_schedule<backwards_at_once>);
static_assert(verify(static_step<backwards_at_once, 2, 4>::program).ok());
// [/pipeline_archetype]

// [placed_archetype]
struct folded : backwards_at_once { // two stages of each role: the last role has neighbouring ones
    static constexpr char const* name = "folded";
    static constexpr int chunks = 2;

    static constexpr int stage(int roles, int role, int chunk) { return chunk == 0 ? role : 2 * roles - 1 - role; }
    static constexpr int slots(int, int) { return 1; }

    static constexpr int write(int, int micro_batches, int, scheduled_work* out) {
        int n = 0;
        for (int m = 0; m < micro_batches; ++m) {
            auto const number = static_cast<std::uint16_t>(m);
            out[n++] = {task_kind::forward, 0, number};
            out[n++] = {task_kind::forward, 1, number};
            out[n++] = {task_kind::backward, 1, number};
            out[n++] = {task_kind::backward, 0, number};
        }
        return n;
    }
};
static_assert(pipeline_schedule<folded>);
static_assert(verify(static_step<folded, 2, 4>::program).ok());
// [/placed_archetype]

/// A schedule that writes all roles at once.
struct all_at_once {
    static constexpr char const* name = "all_at_once";
    static constexpr int chunks = 1;
    static constexpr bool searches = true;
    static constexpr void write_all(int roles, int micro_batches, role_order* lists) {
        for (int role = 0; role < roles; ++role)
            for (int m = 0; m < micro_batches; ++m)
                for (auto const kind : {task_kind::forward, task_kind::backward})
                    lists[role].add({kind, 0, static_cast<std::uint16_t>(m)});
    }
};
static_assert(pipeline_schedule<all_at_once> && is_step_for_compiler<all_at_once>(4, 16));
static_assert(!is_step_for_compiler<all_at_once>(5, 1) && is_step_for_compiler<folded>(8, 16));

struct that_returns_a_number : all_at_once {
    static constexpr int write_all(int, int, role_order*) { return 0; }
};
static_assert(!pipeline_schedule<that_returns_a_number>);

// A member of another kind under the name takes a requirement away.
struct without_name : backwards_at_once {
    struct name;
};
struct without_chunks : backwards_at_once {
    struct chunks;
};
struct with_chunks_of_run_time : backwards_at_once {
    static int chunks;
};
struct without_write : backwards_at_once {
    struct write;
};
struct that_counts_in_size_t : backwards_at_once {
    static constexpr std::size_t write(int, int, int, scheduled_work*) { return 0; }
};
struct not_made_of_nothing : backwards_at_once {
    explicit not_made_of_nothing(int) {}
};
static_assert(!pipeline_schedule<without_name> && !pipeline_schedule<without_chunks>);
static_assert(!pipeline_schedule<with_chunks_of_run_time> && !pipeline_schedule<without_write>);
static_assert(!pipeline_schedule<that_counts_in_size_t> && !pipeline_schedule<not_made_of_nothing>);
static_assert(!pipeline<not_made_of_nothing>::fits && pipeline<folded>::fits);
static_assert(pipeline_schedule<gpipe> && pipeline_schedule<one_f_one_b> && pipeline_schedule<interleaved<2>>);

// A role has three lines for each micro-batch and stage. More of them are a fault, and no memory behind the lists.
struct that_writes_four : backwards_at_once {
    static constexpr int write(int, int micro_batches, int, scheduled_work* out) {
        int n = 0;
        for (int m = 0; m < micro_batches; ++m)
            for (auto const kind : {task_kind::forward, task_kind::backward_input, task_kind::backward_weights,
                                    task_kind::backward_weights})
                out[n++] = {kind, 0, static_cast<std::uint16_t>(m)};
        return n;
    }
};
struct that_returns_more : backwards_at_once {
    static constexpr int write(int roles, int micro_batches, int role, scheduled_work* out) {
        return 1000 * backwards_at_once::write(roles, micro_batches, role, out);
    }
};
struct that_returns_fewer_than_none : backwards_at_once {
    static constexpr int write(int, int, int, scheduled_work*) { return -1; }
};
struct that_adds_more : all_at_once {
    static constexpr void write_all(int roles, int micro_batches, role_order* lists) {
        for (int i = 0; i < 100; ++i) all_at_once::write_all(roles, micro_batches, lists);
    }
};
template<class S>
inline constexpr auto fault_of = verify(static_step<S, 2, 4>::program);
template<class S>
inline constexpr bool has_a_line_too_many = fault_of<S>.fault == program_fault::out_of_range && fault_of<S>.role == 0;
static_assert(has_a_line_too_many<that_writes_four> && has_a_line_too_many<that_returns_more>);
static_assert(has_a_line_too_many<that_adds_more> && fault_of<that_adds_more>.fault == program_fault::out_of_range);
static_assert(!fault_of<that_returns_fewer_than_none>.ok());

// What does not search says so by its value, too.
struct that_does_not_search : all_at_once {
    static constexpr bool searches = false;
};
static_assert(is_step_for_compiler<that_does_not_search>(16, 16) && !is_step_for_compiler<all_at_once>(16, 16));

/// Losses and weights of a training in four micro-batches.
template<class... Policies>
std::vector<double> trained() {
    std::vector<float> numbers;
    std::vector<int> classes;
    for (int i = 0; i < 32; ++i) {
        for (int k = 0; k < 3; ++k) numbers.push_back(static_cast<float>((i * (k + 2)) % 5) / 5);
        classes.push_back(i % 2);
    }
    samples_in_memory const samples(numbers, make_shape(3), classes, 2);
    using net = network<input<3>, linear<4>, sigmoid, linear<5>, sigmoid, linear<4>, sigmoid, linear<2>>;
    trainer<net, cross_entropy, sgd, reproducible<fixed_tree, 4>, Policies...> t{{.batch = 32, .seed = 4}};
    std::vector<double> all;
    for (int i = 0; i < 5; ++i) all.push_back(t.step(samples).loss);
    all.push_back(t.evaluate(samples).loss);
    for (auto const w : t.gather_parameters()) all.push_back(static_cast<double>(w));
    return all;
}
} // namespace schedule_concept_test

TEST_SUITE("concepts/schedule") {
    using namespace schedule_concept_test;

    TEST_CASE("archetypes of schedules train on two stages with the bits of one device") {
        auto const alone = trained<>();
        using on_two = on<mesh<host, dp<1>, pp<2>>>;
        CHECK(trained<on_two, pipeline<backwards_at_once, 4>>() == alone);
        CHECK(trained<on_two, pipeline<folded, 4>>() == alone);
        CHECK(trained<on_two, pipeline<all_at_once, 4>>() == alone);
    }

    TEST_CASE("more lines than a role has room for are a fault while a program runs, too") {
        for (schedule_choice const& s : {schedule_choice(that_writes_four{}), schedule_choice(that_returns_more{}),
                                         schedule_choice(that_adds_more{})})
            for (int const passes : {1, 2})
                for (int const replicas : {1, 2}) {
                    test_support::built_step const built(s, {3, 8, replicas, 2, false, false, passes});
                    auto const v = verify(built.program);
                    CHECK(v.fault == program_fault::out_of_range);
                    CHECK(v.role == 0);
                }
    }
}
