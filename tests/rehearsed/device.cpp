// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <trireme/device/rehearsal/device.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

namespace rehearsed_device_test {
using namespace trireme;
using rehearsal_runtime::stage;
using rehearsal_runtime::timing;

struct add_one {
    int* at;
    void operator()(std::size_t i) const { at[i] += 1; }
};

/// Sums a block's 64 numbers in shared memory: a barrier before every halving, or none at all.
struct tree_sum {
    static constexpr std::uint32_t threads = 64;
    struct shared {
        int value[64];
    };
    using own = nothing_kept;
    int const* in;
    int* out;
    bool barriers;
    int phases() const { return barriers ? 7 : 1; }
    void phase(int k, block_place at, shared& s, own&) const {
        if (k == 0) s.value[at.thread] = in[at.block * 64 + at.thread];
        for (int halving = barriers ? k : 1; halving <= (barriers ? k : 6); ++halving)
            if (auto const half = 64u >> halving; halving > 0 && at.thread < half)
                s.value[at.thread] += s.value[at.thread + half];
        if (k + 1 == phases() && at.thread == 0) out[at.block] = s.value[0];
    }
};

void finish(rehearsal::event& e) {
    while (!e.reached()) {}
}

/// a = 1, then b = a on another stream; without the event b is read too early, or a is written too late.
int copied(bool ordered, timing when, std::uint64_t seed) {
    stage::here().clear();
    stage::here().play(when, seed);
    rehearsal::stream one(0), two(0);
    rehearsal::event made(0), done(0);
    int one_value = 1, a = 0, b = 0;
    one.copy(&a, &one_value, sizeof a);
    one.record(made);
    if (ordered) two.wait(made);
    two.copy(&b, &a, sizeof b);
    two.record(done);
    finish(done);
    finish(made);
    return b;
}

TEST_SUITE("rehearsed/device") {

    TEST_CASE("streams keep their order, events order streams, and a missing event is found") {
        for (auto const when : {timing::late, timing::eager, timing::shuffled})
            for (std::uint64_t seed = 0; seed < 20; ++seed) CHECK(copied(true, when, seed) == 1);
        CHECK(copied(false, timing::late, 0) == 0);
        int wrong = 0;
        for (std::uint64_t seed = 0; seed < 20; ++seed) wrong += copied(false, timing::shuffled, seed) == 0;
        CHECK(wrong > 0);
        CHECK(wrong < 20);
    }

    TEST_CASE("host memory is read when the copy is done, not when it is asked for") {
        stage::here().clear();
        stage::here().play(timing::late);
        rehearsal::stream s(0);
        rehearsal::event done(0);
        int from = 1, to = 0;
        s.copy(&to, &from, sizeof to);
        s.record(done);
        from = 2; // too early on any accelerator
        finish(done);
        CHECK(to == 2);
    }

    TEST_CASE("a block program runs its phases in order, and its threads in none") {
        stage::here().clear();
        rehearsal::stream s(0);
        rehearsal::event done(0);
        std::vector<int> in(640), out(10), wrong_out(10);
        std::vector<int> expected(10);
        for (std::size_t i = 0; i < in.size(); ++i) {
            in[i] = static_cast<int>(i);
            expected[i / 64] += in[i];
        }
        s.launch(tree_sum{in.data(), out.data(), true}, 10);
        s.launch(tree_sum{in.data(), wrong_out.data(), false}, 10);
        s.record(done);
        finish(done);
        CHECK(out == expected);
        CHECK(wrong_out != expected);
    }

    TEST_CASE("a capture notes and draws in other streams; its graph does the work as often as it is launched") {
        for (auto const when : {timing::late, timing::eager, timing::shuffled}) {
            stage::here().clear();
            stage::here().play(when, 3);
            rehearsal::stream one(0), two(0);
            rehearsal::event fork(0), join(0), done(0);
            std::vector<int> a(1000), b(1000);
            block_kernels<rehearsal::stream> const on_one(one, 1, {}), on_two(two, 1, {});
            one.begin_capture();
            on_one.each(a.size(), add_one{a.data()});
            one.record(fork);
            two.wait(fork);
            on_two.each(b.size(), add_one{b.data()});
            two.record(join);
            on_one.each(a.size(), add_one{a.data()});
            one.wait(join);
            auto g = one.end_capture();
            CHECK(a == std::vector<int>(1000, 0));
            for (int i = 0; i < 5; ++i) one.launch(g);
            one.record(done);
            finish(done);
            CHECK(a == std::vector<int>(1000, 10));
            CHECK(b == std::vector<int>(1000, 5));
        }
    }

    TEST_CASE("what CUDA refuses in a capture is refused") {
        stage::here().clear();
        stage::here().play(timing::late);
        rehearsal::stream one(0), two(0);
        rehearsal::event fork(0), outside(0);
        int x = 0;
        two.zero(&x, sizeof x);
        two.record(outside);
        one.begin_capture();
        one.zero(&x, sizeof x);
        CHECK_THROWS_AS(one.wait(outside), std::logic_error);
        one.record(fork);
        CHECK_THROWS_AS(fork.reached(), std::logic_error);
        two.wait(fork);
        two.zero(&x, sizeof x);
        CHECK_THROWS_AS(one.end_capture(), std::logic_error); // two has not been joined
        rehearsal::event elsewhere(1);
        CHECK_THROWS_AS(one.record(elsewhere), std::logic_error);
        stage::here().clear();
    }

    TEST_CASE("what work throws reaches who asks, and a stalled stage never ends") {
        stage::here().clear();
        rehearsal::stream s(0);
        rehearsal::event done(0);
        int x = 1;
        s.zero(&x, sizeof x);
        s.record(done);
        stage::here().stalled = true;
        CHECK_FALSE(await(done, deadline::in(std::chrono::milliseconds(20))));
        stage::here().stalled = false;
        CHECK(await(done, deadline::in(std::chrono::seconds(10))));
        CHECK(x == 0);
    }

    TEST_CASE("memory is counted, and refused with what is free") {
        auto const before = rehearsal_runtime::budget.taken[3];
        {
            rehearsal::memory const some(3, 1000, "gradients");
            CHECK(rehearsal_runtime::budget.taken[3] == before + 1000);
        }
        CHECK(rehearsal_runtime::budget.taken[3] == before);
        CHECK_THROWS_WITH_AS((rehearsal::memory(3, std::size_t{1} << 41, "gradients")),
                             doctest::Contains("no memory for the gradients"), usage_error);
    }
}

} // namespace rehearsed_device_test
