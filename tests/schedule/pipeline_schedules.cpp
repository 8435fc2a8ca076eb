// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedules.hpp>

#include <doctest/doctest.h>

#include <schedule/published_bubbles.hpp>
#include <support/built_step.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <string>

// The built-in schedules: each is proved for all small shapes, and has the price and the memory of its paper.
namespace pipeline_schedules_test {
using namespace trireme;
using test_support::built_evaluation;
using test_support::built_step;

namespace {

template<class S, int P, int M>
constexpr bool proved = verify(static_step<S, P, M>::program).ok();

// the compiler can do it as well
static_assert(proved<interleaved<2>, 3, 5> && proved<breadth_first<3>, 2, 4>);
static_assert(proved<zero_bubble_h1, 4, 6> && proved<zero_bubble_h2, 3, 6>);
static_assert(proved<zero_bubble_v, 3, 4> && proved<v_half, 2, 3> && proved<v_min, 2, 3>);
static_assert(proved<dual_pipe_v, 2, 4>);
static_assert(proved<zero_bubble_auto<2, 2, 1, 0, 3>, 2, 3>);
static_assert(step_span(static_step<zero_bubble_h1, 3, 5>::program) == 3 * 5 + 2);
static_assert(step_span(static_step<one_f_one_b, 3, 5>::program, {1, 1, 1, 2}) == 3 * (5 + 2) + 2 * 2 * 2 + 8);

template<class S>
struct built : built_step {
    built(int roles, int micro_batches, int replicas = 1) : built_step(S{}, {roles, micro_batches, replicas}) {}

    int frames(int role) const { return program.frames[role]; }
    int most_frames() const {
        int most = 0;
        for (int r = 0; r < program.shape.roles; ++r) most = std::max(most, frames(r));
        return most;
    }
};

/// Times of stages of which a role has several: together they are as long as one of one_f_one_b.
template<class S>
stage_times parts(stage_times t = {}) {
    t.forward /= S::chunks, t.backward_input /= S::chunks, t.backward_weights /= S::chunks;
    return t;
}
template<class S>
double span(int roles, int micro_batches) {
    return step_span(built<S>(roles, micro_batches).program, parts<S>());
}
template<class S>
double busiest(int roles, int micro_batches) {
    return busiest_role_span(built<S>(roles, micro_batches).program, parts<S>());
}

template<class S>
program_fault fault(int roles, int micro_batches, lowering const& by) {
    return verify(built<S>(roles, micro_batches).program, by).fault;
}

/// Proves a schedule over counters, and over the other two where `carries(roles, micro_batches)` says so; where it does
/// not, the named fault is what must come.
template<class S, class OverMessages, class Meeting>
void proves(OverMessages const& over_messages, Meeting const& meeting, program_fault otherwise) {
    CAPTURE(std::string(S::name));
    for (int p = 1; p <= 8; ++p)
        for (int m = 1; m <= 16; ++m) {
            CAPTURE(p);
            CAPTURE(m);
            CHECK(fault<S>(p, m, by_counters) == program_fault::none);
            CHECK(verify(built<S>(p, m, 3).program).ok());
            CHECK(fault<S>(p, m, by_messages) == (over_messages(p, m) ? program_fault::none : otherwise));
            CHECK(fault<S>(p, m, by_rendezvous) == (meeting(p, m) ? program_fault::none : otherwise));
        }
}
bool always(int, int) { return true; }
/// Fewer than twice as many micro-batches as roles.
bool few(int p, int m) { return m < 2 * p; }

/// The most micro-batches that a V carries over messages, by roles: values of one stage of a role and gradients of its
/// other one leave for the same neighbour, which takes them in another order.
template<int... Most>
bool up_to(int p, int m) {
    int const most[] = {Most...};
    return p == 1 || m <= most[p - 2];
}

/// The tasks of a kind and chunk that a role does before its first backward one.
template<class S>
int forwards_first(int roles, int micro_batches, int role) {
    int n = 0;
    built<S> const b(roles, micro_batches);
    for (auto const& t : b.program.list(role)) {
        if (t.kind == task_kind::backward || t.kind == task_kind::backward_input) break;
        n += t.kind == task_kind::forward;
    }
    return n;
}

} // namespace

TEST_SUITE("schedule/pipeline_schedules") {
    TEST_CASE("every schedule is a training step on 1 to 8 roles with 1 to 16 micro-batches; where it is not, it is "
              "refused") {
        auto const or_alone = [](int p, int m) { return p == 1 || few(p, m); };
        proves<gpipe>(always, always, program_fault::none);
        proves<one_f_one_b>(always, always, program_fault::none);
        proves<zero_bubble_h1>(always, always, program_fault::none);
        proves<zero_bubble_h2>(always, or_alone, program_fault::deadlock);
        proves<interleaved<1>>(always, always, program_fault::none);
        proves<interleaved<2>>(always, few, program_fault::deadlock);
        proves<interleaved<3>>(always, few, program_fault::deadlock);
        proves<interleaved<4>>(always, few, program_fault::deadlock);
        proves<breadth_first<1>>(always, always, program_fault::none);
        proves<breadth_first<2>>(always, few, program_fault::deadlock);
        proves<breadth_first<3>>(always, few, program_fault::deadlock);
        auto const v = up_to<2, 3, 4, 5, 6, 7, 8>, half = up_to<2, 2, 3, 3, 4, 4, 5>,
                   least = up_to<2, 2, 2, 3, 3, 3, 4>;
        proves<zero_bubble_v>(v, v, program_fault::mismatch);
        proves<v_half>(half, half, program_fault::mismatch);
        proves<v_min>(least, least, program_fault::mismatch);
    }

    TEST_CASE("dual_pipe_v wants twice as many micro-batches as roles, and is a training step then") {
        for (int p = 1; p <= 8; ++p)
            for (int m = 1; m <= 20; ++m) {
                CAPTURE(p);
                CAPTURE(m);
                bool const enough = m >= 2 * p;
                auto const otherwise = [&](program_fault f) { return enough ? f : program_fault::incomplete; };
                CHECK(fault<dual_pipe_v>(p, m, by_counters) == otherwise(program_fault::none));
                CHECK(fault<dual_pipe_v>(p, m, by_messages) ==
                      otherwise(p <= 2 ? program_fault::none : program_fault::mismatch));
                CHECK(fault<dual_pipe_v>(p, m, by_rendezvous) ==
                      otherwise(p <= 2 ? program_fault::deadlock : program_fault::mismatch));
                if (!enough) continue;
                for (int r = 0; r < p; ++r) CHECK(built<dual_pipe_v>(p, m).frames(r) == 2 * p + 1);
                CHECK(span<dual_pipe_v>(p, m) == 3 * m + 0.5 * (p - 1));
                CHECK(busiest<dual_pipe_v>(p, m) == 3 * m + 0.5 * (p - 1));
            }
    }

    TEST_CASE(
        "the evaluation of a schedule that has written nothing is refused, too, and does not divide by its frames") {
        built<dual_pipe_v> const step(2, 3);
        CHECK(step.most_frames() == 0);
        CHECK(!verify_evaluation(built_evaluation(dual_pipe_v{}, step.program).program).ok());
    }

    TEST_CASE_TEMPLATE("searched schedules are training steps, within their frames", S, zero_bubble_auto<1, 1, 1, 0, 1>,
                       zero_bubble_auto<1, 1, 1, 0, 4>, zero_bubble_auto<3, 3, 1, 1, 8>,
                       zero_bubble_auto<1, 3, 2, 0, 16>, zero_bubble_auto<2, 1, 5, 7, 3>) {
        int const most = S::frames;
        for (int p = 1; p <= 8; ++p)
            for (int m = 1; m <= 16; ++m) {
                CAPTURE(p);
                CAPTURE(m);
                CHECK(fault<S>(p, m, by_counters) == program_fault::none);
                CHECK(fault<S>(p, m, by_messages) == program_fault::none);
                auto const meeting = fault<S>(p, m, by_rendezvous);
                CHECK((meeting == program_fault::none || meeting == program_fault::deadlock));
                if (m <= most && few(p, m)) CHECK(meeting == program_fault::none);
                CHECK(built<S>(p, m).most_frames() <= std::min(most, m));
            }
    }

    TEST_CASE("roles keep what the papers say") {
        for (int p = 1; p <= 8; ++p)
            for (int m : {1, 2, 5, 8, 16, 40}) {
                CAPTURE(p);
                CAPTURE(m);
                for (int r = 0; r < p; ++r) {
                    CHECK(built<gpipe>(p, m).frames(r) == m);
                    CHECK(built<one_f_one_b>(p, m).frames(r) == std::min(m, p - r));
                    CHECK(built<breadth_first<2>>(p, m).frames(r) == 2 * m);
                    CHECK(built<zero_bubble_h1>(p, m).frames(r) == std::min(m, p));
                    CHECK(built<zero_bubble_h2>(p, m).frames(r) == std::min(m, 2 * p - 1));
                    if (m % p == 0)
                        CHECK(built<interleaved<3>>(p, m).frames(r) == std::min(3 * m, 2 * (p - 1 - r) + 2 * p + 1));
                    CHECK(built<zero_bubble_v>(p, m).frames(r) <= 2 * p);
                    CHECK(built<v_half>(p, m).frames(r) <= 2 * ((p + 2) / 2));
                    CHECK(built<v_min>(p, m).frames(r) <= 2 * ((p + 4) / 3));
                    if (m < 2 * p) continue; // in units of whole stages: p, (p + 2) / 2, (p + 4) / 3, on every role
                    CHECK(built<zero_bubble_v>(p, m).frames(r) == 2 * p);
                    CHECK(built<v_half>(p, m).frames(r) == 2 * ((p + 2) / 2));
                    CHECK(built<v_min>(p, m).frames(r) == 2 * ((p + 4) / 3));
                }
            }
    }

    TEST_CASE("steps take the time that the papers say, if all tasks take equally long") {
        CHECK(span<one_f_one_b>(8, 32) == 117);
        CHECK(span<zero_bubble_h1>(8, 32) == 103);
        CHECK(span<interleaved<2>>(8, 32) == 106.5);
        for (int p = 1; p <= 8; ++p)
            for (int m = 1; m <= 32; ++m) {
                CAPTURE(p);
                CAPTURE(m);
                CHECK(bubble_fraction(built<gpipe>(p, m).program) ==
                      doctest::Approx(static_cast<double>(p - 1) / (m + p - 1)));
                if (m >= p) {
                    CHECK(span<zero_bubble_h1>(p, m) == 3 * m + p - 1);
                    CHECK(span<breadth_first<2>>(p, m) == 3 * m + 1.5 * (p - 1));
                }
                if (m % p == 0) {
                    CHECK(span<interleaved<2>>(p, m) == 3 * m + 1.5 * (p - 1));
                    CHECK(span<interleaved<3>>(p, m) == doctest::Approx(3 * m + p - 1));
                } else if (m > p) { // those of the next multiple are more
                    CHECK(span<interleaved<2>>(p, m) < 3 * (m + p - m % p) + 1.5 * (p - 1));
                }
                if (m >= 2 * p - 1) {
                    CHECK(span<zero_bubble_h2>(p, m) == 3 * m + p - 1);
                    CHECK(busiest<zero_bubble_h2>(p, m) == 3 * m);
                }
                if (m >= 2 * p) {
                    CHECK(span<zero_bubble_v>(p, m) == 3 * m + 0.5 * (p - 1));
                    CHECK(busiest<zero_bubble_v>(p, m) == 3 * m);
                    // at most p / 2 and 2 p / 3 of a micro-batch's three tasks, by the paper; and not more for larger m
                    CHECK(span<v_half>(p, m) <= 3 * m + 1.5 * p);
                    CHECK(span<v_min>(p, m) <= 3 * m + 2.0 * p);
                    CHECK(span<v_half>(p, m + 1) == span<v_half>(p, m) + 3);
                    CHECK(span<v_min>(p, m + 1) == span<v_min>(p, m) + 3);
                    CHECK(span<v_min>(p, m) <= span<one_f_one_b>(p, m));
                }
            }
    }

    TEST_CASE("unequal times cost v_min the more, the more micro-batches there are, and the others not") {
        auto const waits = [](auto schedule, int m) {
            using S = decltype(schedule);
            return busiest_role_span(built<S>(8, m).program, parts<S>({1, 1, 0.5})) - 2.5 * m;
        };
        CHECK(waits(v_min{}, 16) == 21);
        CHECK(waits(v_min{}, 32) == 29);
        CHECK(waits(one_f_one_b{}, 32) == 17.5);
        CHECK(waits(v_half{}, 16) == waits(v_half{}, 32));
        CHECK(waits(zero_bubble_v{}, 16) == waits(zero_bubble_v{}, 32));
        CHECK(waits(zero_bubble_v{}, 16) == 3.5);
    }

    TEST_CASE("phases are those of the comments") {
        for (int p = 2; p <= 6; ++p)
            for (int r = 0; r < p; ++r) {
                CHECK(forwards_first<zero_bubble_h1>(p, 20, r) == p - r);
                CHECK(forwards_first<zero_bubble_h2>(p, 20, r) == 2 * (p - r) - 1);
                CHECK(forwards_first<interleaved<2>>(p, 4 * p, r) == 2 * (p - 1 - r) + p + 1);
                CHECK(forwards_first<breadth_first<3>>(p, 5, r) == 15);
            }
        CHECK(forwards_first<zero_bubble_v>(4, 20, 0) == 2 * 4 - 1 + 1); // and the first one that has come back up
    }

    TEST_CASE("a search is at least as good as what it can be compared with") {
        for (int p = 2; p <= 8; p += 2)
            for (int m : {p, 2 * p, 24}) {
                CAPTURE(p);
                CAPTURE(m);
                CHECK(busiest<zero_bubble_auto<1, 1, 1, 0, 8>>(p, m) <= busiest<zero_bubble_h1>(p, m));
                CHECK(busiest<zero_bubble_auto<1, 1, 1, 0, 16>>(p, m) <= busiest<zero_bubble_h2>(p, m));
                stage_times const unequal{3, 2, 1, 0.5};
                using more = zero_bubble_auto<6, 4, 2, 1, 24>;
                CHECK(busiest_role_span(built<more>(p, m).program, unequal) <=
                      busiest_role_span(built<zero_bubble_h2>(p, m).program, unequal));
            }
    }

    TEST_CASE("a transfer takes its time between roles, and none within one") {
        stage_times const times{1, 1, 1, 2};
        CHECK(step_span(built<one_f_one_b>(1, 4).program, times) == 12);
        CHECK(step_span(built<zero_bubble_v>(1, 4).program, parts<zero_bubble_v>(times)) == 12);
        CHECK(step_span(built<one_f_one_b>(2, 1).program, times) == 2 * 3 + 2 * 2);
        CHECK(step_span(built<gpipe>(3, 4).program, times) == 3 * (4 + 2) + 4 * 2); // there twice, and back twice
        CHECK(step_span(built<zero_bubble_v>(2, 1).program, times) ==
              8 + 1 + 4 * 2); // there, back, and one of the weights'
    }

    TEST_CASE("names tell the schedules apart") {
        std::set<std::string> const names{gpipe::name,
                                          one_f_one_b::name,
                                          interleaved<2>::name,
                                          interleaved<3>::name,
                                          breadth_first<2>::name,
                                          breadth_first<3>::name,
                                          zero_bubble_h1::name,
                                          zero_bubble_h2::name,
                                          zero_bubble_v::name,
                                          v_half::name,
                                          v_min::name,
                                          zero_bubble_auto<1, 1, 1, 0, 1>::name};
        CHECK(names.size() == 12);
        CHECK(!names.contains(dual_pipe_v::name));
        CHECK(schedule_choice(breadth_first<2>{}).slots(4, 9) == 9);
        CHECK(schedule_choice(zero_bubble_v{}).slots(4, 9) == 2);
    }
}

// ---- the published figures ----

namespace {

/// The part of a step in which the busiest role waits, in its own time, as the paper counts it.
template<class S>
double rate(published_bubbles::setting const& s) {
    stage_times const times{s.forward, s.backward_input, s.backward_weights, s.transfer};
    auto const cost = busiest_role_span(built<S>(s.roles, s.micro_batches).program, parts<S>(times));
    return 1 - s.micro_batches * (s.forward + s.backward_input + s.backward_weights) / cost;
}
/// Equal as printed.
bool as_printed(double is, double published) { return std::abs(is - published) < 0.5e-4 + 1e-9; }

} // namespace

TEST_SUITE("schedule/pipeline_schedules") {
    TEST_CASE("published bubble rates: all four digits of 1F1B, ZB-H1 and ZB-H2") {
        for (auto const& s : published_bubbles::settings) {
            CAPTURE(s.roles);
            CAPTURE(s.micro_batches);
            CHECK(as_printed(rate<one_f_one_b>(s), s.one_f_one_b));
            CHECK(as_printed(rate<zero_bubble_h1>(s), s.zero_bubble_h1));
            CHECK(as_printed(rate<zero_bubble_h2>(s), s.zero_bubble_h2));
        }
    }

    // Ours are 0.14 to 0.35 points above theirs: 0.1090 for 0.1055, 0.0847 for 0.0818, 0.0461 for 0.0443, 0.1136 for
    // 0.1104, 0.0878 for 0.0852, 0.0459 for 0.0445. Their chunk is a layer, and the first and the last stage have a
    // layer less, that is 22 layers in 24 chunks; here all chunks take a third of the mean time of a stage.
    TEST_CASE("published bubble rates: interleaved within half a point") {
        for (auto const& s : published_bubbles::settings) {
            CAPTURE(s.roles);
            CAPTURE(s.micro_batches);
            CHECK(std::abs(rate<interleaved<3>>(s) - s.interleaved) < 0.005);
        }
    }

    // Their limit of memory is in bytes: what a backward_weights still needs is less than what a backward_input does,
    // 32 s h of 34 s h + 5 a s^2, so that twice 1F1B's memory holds 43 (a = 24, h = 2304) and 74 (a = 40, h = 5120) of
    // them. Frames are kept whole here. With p frames the rates are theirs; with 2 p, 0.1015, 0.0784, 0.0415, 0.0672,
    // 0.0516, 0.0266, they are not; with 43 and 74 frames they are 0.0446 for 0.0433, 0.0039 for 0.0039, and nothing
    // for 0.0026, 0.0066, 0.0054 and 0.0028.
    TEST_CASE("published bubble rates: a search with as many frames as 1F1B, and with all that are worth it") {
        for (auto const& s : published_bubbles::settings) {
            CAPTURE(s.roles);
            CAPTURE(s.micro_batches);
            bool const small = s.roles == 8;
            auto const once = small ? rate<zero_bubble_auto<18522, 18086, 9337, 601, 8>>(s)
                                    : rate<zero_bubble_auto<11347, 11248, 8132, 377, 16>>(s);
            CHECK(as_printed(once, s.zero_bubble_1p));
            auto const twice = small ? rate<zero_bubble_auto<18522, 18086, 9337, 601, 43>>(s)
                                     : rate<zero_bubble_auto<11347, 11248, 8132, 377, 74>>(s);
            CHECK(twice < s.zero_bubble_2p + 0.002);
            CHECK(twice > -1e-9);
        }
    }
}

} // namespace pipeline_schedules_test
