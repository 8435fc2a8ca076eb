// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedules.hpp>

#include <doctest/doctest.h>
#include <support/messages.hpp>

#include <set>
#include <string>
#include <string_view>
#include <vector>

// Schedules by their names: each name has one schedule, and what is no name is refused with all that are.
namespace named_schedules_test {
using namespace trireme;

namespace {

/// The lines of all roles, one behind the other.
std::vector<scheduled_work> written(schedule_choice const& s, int roles, int micro_batches) {
    auto const most = static_cast<std::size_t>(3 * s.chunks * micro_batches + 1);
    std::vector<scheduled_work> lines(static_cast<std::size_t>(roles) * most), all;
    std::vector<role_order> lists;
    for (std::size_t r = 0; r < static_cast<std::size_t>(roles); ++r) lists.push_back({lines.data() + r * most});
    s.write(roles, micro_batches, lists.data());
    for (auto const& list : lists) all.insert(all.end(), list.tasks, list.tasks + list.count);
    return all;
}

/// True if both write the same order, for the same stages and slots.
bool alike(schedule_choice const& a, schedule_choice const& b) {
    if (std::string_view(a.name) != b.name || a.chunks != b.chunks) return false;
    for (int const roles : {1, 2, 3})
        for (int const micro_batches : {1, 6, 7}) {
            if (written(a, roles, micro_batches) != written(b, roles, micro_batches)) return false;
            for (int role = 0; role < roles; ++role)
                for (int c = 0; c < a.chunks; ++c)
                    if (a.stage(roles, role, c) != b.stage(roles, role, c)) return false;
            if (a.slots(roles, micro_batches) != b.slots(roles, micro_batches)) return false;
        }
    return true;
}

// the compiler can do it as well
static_assert(schedule_named("interleaved:8").chunks == 8 && schedule_named("gpipe").chunks == 1);
static_assert(std::string_view(interleaved<4>::name) == "interleaved<4>");
static_assert(std::string_view(breadth_first<8>::name) == "breadth_first<8>");
static_assert(named_schedules.size() == 9 + 2 * max_chunks);

} // namespace

TEST_SUITE("schedule/named_schedules") {
    TEST_CASE("a name has the schedule of its type") {
        CHECK(alike(schedule_named("gpipe"), gpipe{}));
        CHECK(alike(schedule_named("one_f_one_b"), one_f_one_b{}));
        CHECK(alike(schedule_named("interleaved:1"), interleaved<1>{}));
        CHECK(alike(schedule_named("interleaved:2"), interleaved<2>{}));
        CHECK(alike(schedule_named("interleaved:8"), interleaved<8>{}));
        CHECK(alike(schedule_named("breadth_first:1"), breadth_first<1>{}));
        CHECK(alike(schedule_named("breadth_first:5"), breadth_first<5>{}));
        CHECK(alike(schedule_named("zero_bubble_h1"), zero_bubble_h1{}));
        CHECK(alike(schedule_named("zero_bubble_h2"), zero_bubble_h2{}));
        CHECK(alike(schedule_named("zero_bubble_auto"), zero_bubble_auto<1, 1, 1, 0, 16>{}));
        CHECK(alike(schedule_named("zero_bubble_v"), zero_bubble_v{}));
        CHECK(alike(schedule_named("v_half"), v_half{}));
        CHECK(alike(schedule_named("v_min"), v_min{}));
        CHECK(alike(schedule_named("dual_pipe_v"), dual_pipe_v{}));
        CHECK(!alike(schedule_named("interleaved:2"), breadth_first<2>{}));
    }

    TEST_CASE("every schedule of the list has a name of its own, which the list of names has") {
        std::set<std::string> names;
        for (auto const& s : named_schedules) {
            std::string name = s.name;
            if (auto const at = name.find('<'); at != name.npos) {
                CHECK(name == name.substr(0, at) + '<' + std::to_string(s.chunks) + '>');
                name = name.substr(0, at) + ':' + std::to_string(s.chunks);
            }
            CAPTURE(name);
            CHECK(names.insert(name).second);
            CHECK(alike(schedule_named(name), s));
            auto const listed = name.substr(0, name.find(':')) + (name.find(':') == name.npos ? "" : ":C");
            CHECK((", " + schedule_names() + ",").find(", " + listed) != std::string::npos);
        }
        CHECK(schedule_names() ==
              "gpipe, one_f_one_b, interleaved:C, breadth_first:C, zero_bubble_h1, zero_bubble_h2, zero_bubble_auto, "
              "zero_bubble_v, v_half, v_min, dual_pipe_v (C: 1 to 8 stages of each device)");
    }

    TEST_CASE("what is no name is refused with those that are") {
        for (std::string_view const name : {"",
                                            "gpip",
                                            "gpipe ",
                                            "GPipe",
                                            "interleaved",
                                            "interleaved:",
                                            "interleaved:0",
                                            "interleaved:9",
                                            "interleaved:22",
                                            "interleaved:2>",
                                            "interleaved:C",
                                            "interleaved<2",
                                            "interleaved 2",
                                            "interleaved<2>",
                                            "breadth_first<2:",
                                            "zero_bubble_auto<1>",
                                            "v_min:2",
                                            "one_f_one_b:1",
                                            ":2",
                                            "zero_bubble"}) {
            CAPTURE(name);
            CHECK(test_support::refusal([&] { (void)schedule_named(name); }) ==
                  "there is no schedule '" + std::string(name) + "'; choose one of " + schedule_names());
        }
    }
}

} // namespace named_schedules_test
