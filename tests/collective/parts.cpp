// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/collective/channel.hpp>
#include <trireme/group/mesh.hpp>
#include <trireme/group/transport/threads/group.hpp>

#include <collective/parts.hpp>
#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/messages.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace collective_parts_test {
using namespace trireme;
using namespace std::chrono_literals;
using test_support::has;
using comm = threads::communicator;

namespace {

constexpr mesh_value two_by_two{{"dp", 2}, {"pp", 2}};

/// The group of a rank along dp, in its lane.
comm replicas_of(comm& c) { return comm(c, 1, mesh_group{{0}}.members(two_by_two, c.rank())); }

} // namespace

TEST_SUITE("collective/parts") {
    TEST_CASE("every collective along every set of axes, all groups at once") {
        watchdog const guard("parts");
        for (mesh_value const& m : {mesh_value{{"dp", 2}, {"pp", 3}}, mesh_value{{"dp", 2}, {"own", 2}},
                                    mesh_value{{"a", 4}, {"b", 1}}, mesh_value{{"dp", 5}}}) {
            threads::group g(m.size());
            g.run([&](comm& c) { test_collectives::require_parts(c, m); });
        }
    }

    TEST_CASE("a rank may have a group along each of eight axes at once") {
        watchdog const guard("axes");
        mesh_value const m{{"a", 2}, {"b", 1}, {"c", 2}, {"d", 1}, {"e", 2}, {"f", 1}, {"g", 1}, {"h", 2}};
        threads::group g(m.size());
        g.run([&](comm& c) {
            std::vector<std::unique_ptr<comm>> groups;
            for (int axis = 0; axis < m.count; ++axis)
                groups.push_back(std::make_unique<comm>(c, 1 + axis, mesh_group{{axis}}.members(m, c.rank())));
            for (int axis = m.count - 1; axis >= 0; --axis) {
                std::vector<int> sum{c.rank()};
                all_reduce<direct>(*groups[static_cast<std::size_t>(axis)], sum);
                int wanted = 0;
                for (int const r : mesh_group{{axis}}.members(m, c.rank())) wanted += r;
                CHECK(sum[0] == wanted);
            }
        });
    }

    TEST_CASE("a group may have some roles only") {
        watchdog const guard("roles");
        mesh_value const m{{"dp", 2}, {"pp", 4}};
        threads::group g(m.size());
        g.run([&](comm& c) { test_collectives::require_masked_part(c, m); });
    }

    TEST_CASE("a rank that is late is named through groups along different axes, and by its number in the whole") {
        watchdog const guard("late");
        threads::group g(4, 1s);
        std::atomic<bool> waiting{false};
        try {
            g.run([&](comm& c) { // 0 waits for 2 in a collective, 2 for 3 in a channel, 1 for 3 in a collective
                auto const part = std::make_unique<comm>(c, 1, mesh_group{{0}}.members(two_by_two, c.rank()));
                std::vector<channel_link> const one{{3, 2}};
                rank_channels<comm> ways(c, one);
                c.at_training_step(7);
                if (c.rank() == 3)
                    for (;; std::this_thread::sleep_for(1ms)) c.check_stopped();
                if (c.rank() != 0) {
                    while (!waiting) std::this_thread::yield();
                    std::this_thread::sleep_for(50ms); // so that rank 0 is the one whose deadline passes
                }
                waiting = true;
                if (c.rank() == 2) ways.receive(0, {"move", "test", 4}, [](int) { return 0u; });
                std::vector<float> numbers(4);
                all_reduce<direct>(*part, numbers);
            });
            FAIL("nobody was late");
        } catch (deadline_error const& e) {
            CHECK(e.device() == 3);
            CHECK(has(e.what(), "device 3 did not arrive"));
            CHECK(has(e.what(), "device 0 waited for device 2 in all_reduce (direct"));
            CHECK(has(e.what(), "of training step 7"));
        }
    }

    TEST_CASE("what a rank throws ends the waits in all groups; different calls in a part are told") {
        watchdog const guard("thrown");
        threads::group broken(4, 60s);
        try {
            broken.run([&](comm& c) {
                auto part = replicas_of(c);
                if (c.rank() == 1) throw std::runtime_error("no more parts");
                std::vector<float> numbers(4);
                if (c.rank() == 3) all_reduce<direct>(part, numbers);
                barrier<direct>(c);
            });
            FAIL("nobody has thrown");
        } catch (device_error const& e) {
            CHECK(e.device() == 1);
            CHECK(has(e.what(), "no more parts"));
        }
        threads::group different(4, 60s);
        try {
            different.run([&](comm& c) {
                auto part = replicas_of(c);
                std::vector<float> numbers(c.rank() == 3 ? 5 : 4);
                all_reduce<direct>(part, numbers);
            });
            FAIL("nobody minds");
        } catch (mismatch_error const& e) {
            CHECK(has(e.what(), "device 1"));
            CHECK(has(e.what(), "device 3"));
            CHECK(has(e.what(), "all_reduce<direct>(5 x f32"));
        }
    }

    TEST_CASE("a part that cannot be is refused") {
        threads::group g(4);
        g.run([](comm& c) {
            auto const refused = [&](int lane, std::vector<int> members) {
                CHECK_THROWS_AS(comm(c, lane, std::move(members)), usage_error);
            };
            if (c.rank() != 1) return;
            refused(0, {1, 2});
            refused(max_lanes, {1, 2});
            refused(1, {0, 2});
            refused(1, {1, 2, 1});
            refused(1, {1, 4});
            refused(1, {});
            comm part(c, 1, {1});
            refused(1, {1}); // before the lane has been used
            CHECK_THROWS_AS(comm(part, 2, {1}), usage_error);
            CHECK_THROWS_AS((void)part.allocate(8), usage_error);
            std::vector<float> numbers{1, 2};
            all_reduce<direct>(part, numbers);
            CHECK(numbers[1] == 2);
            refused(1, {1});
        });
    }
}

} // namespace collective_parts_test
