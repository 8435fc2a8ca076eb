// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <trireme/device/cuda/device.hpp>
#include <trireme/group/transport/nccl/group.hpp>

#include "nccl_processes.hpp"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace trireme;

namespace nccl_group_test {

using group_type = nccl_group<gpu>;
using seconds = std::chrono::duration<double>;
using clock = std::chrono::steady_clock;
using nccl_test::role;

/// The rank's number at one place of the device, to be added up.
struct number {
    gpu::stream queue;
    gpu::memory memory;
    gpu::pinned_memory host;
    gpu::event done;

    explicit number(int device)
        : queue(device), memory(device, sizeof(std::int32_t), "a number"), host(sizeof(std::int32_t)), done(device) {}

    /// Adds `mine` to those of all other ranks; throws if it cannot be done by the deadline.
    std::int32_t add_up(group_type& group, std::int32_t mine, seconds limit, bool first_time) {
        *static_cast<std::int32_t*>(host.data()) = mine;
        queue.copy(memory.data(), host.data(), sizeof mine);
        nccl_call const call{nccl_call::kind::all_reduce, 0, 0, ncclInt32, memory.data(), 1, queue.handle()};
        group.run(std::span(&call, 1), {"all_reduce", "native", 7, sizeof mine}, first_time);
        queue.copy(host.data(), memory.data(), sizeof mine);
        queue.record(done);
        auto const end = deadline::in(limit);
        while (!await(done, deadline::in(std::chrono::milliseconds(20)))) {
            group.check();
            if (!end.passed()) continue;
            group.abandon();
            throw deadline_error(group.first_rank(), "the sum did not come");
        }
        return *static_cast<std::int32_t*>(host.data());
    }
};

nccl_runtime::attendance member(role const& r, double limit = 60) {
    return {r.index, r.count, r.count, r.file, seconds(limit)};
}

/// Nothing if NCCL refuses to let processes share the GPU.
void in_group(role const& r, double limit, void (*body)(group_type&)) {
    std::optional<group_type> group;
    try {
        group.emplace(member(r, limit), false);
    } catch (std::exception const& e) {
        return r.skip(e.what());
    }
    body(*group);
}

} // namespace nccl_group_test
using namespace nccl_group_test;

TEST_SUITE("group/nccl") {
    TEST_CASE("one rank of one process is a group") {
        group_type group({0, 1, 1, "", seconds(60)}, false);
        CHECK(group.size() == 1);
        CHECK(group.local_ranks() == 1);
        CHECK(group.at(0).rank() == 0);
        CHECK(group.at(0).device() == group.device_of(0));
        number n(group.device_of(0));
        CHECK(n.add_up(group, 5, seconds(30), true) == 5);
        CHECK(n.add_up(group, 6, seconds(30), false) == 6);
        auto const row = group.split(std::array{3}, std::array{0});
        REQUIRE(row.size() == 1);
        CHECK(row[0].size() == 1);
        auto const none = group.split(std::array{-1}, std::array{0});
        CHECK_FALSE(none[0]);
    }

    TEST_CASE("a communicator of the caller's stays the caller's") {
        group_type group({0, 1, 1, "", seconds(60)}, false);
        {
            auto borrowed = nccl_communicator::borrow(group.at(0).handle(), seconds(10));
            CHECK(borrowed.size() == 1);
            CHECK_FALSE(borrowed.owned());
            auto moved = std::move(borrowed);
            CHECK(moved.rank() == 0);
            moved.abandon();
            CHECK_FALSE(moved);
        }
        number n(group.device_of(0));
        CHECK(n.add_up(group, 4, seconds(30), true) == 4);
    }

    TEST_CASE("numbers that do not fit, and GPUs that are not there, are refused") {
        int const more = gpu::count() + 1;
        CHECK_THROWS_WITH_AS(group_type({0, 1, more, "", seconds(5)}, false), doctest::Contains("transport<peer>"),
                             usage_error);
        CHECK_THROWS_WITH_AS(group_type({0, 1, more, "", seconds(5)}, true),
                             doctest::Contains("takes each device of a process once"), usage_error);
        CHECK_THROWS_WITH_AS(group_type({0, 2, 3, "f", seconds(5)}, false), doctest::Contains("a multiple"),
                             usage_error);
        CHECK_THROWS_AS(group_type({2, 2, 2, "f", seconds(5)}, false), usage_error);
        CHECK_THROWS_WITH_AS(group_type({0, 2, 2, "", seconds(5)}, false), doctest::Contains("no id_file"),
                             usage_error);
    }

    TEST_CASE("after it has been given up, a group says so") {
        group_type group({0, 1, 1, "", seconds(60)}, false);
        number n(group.device_of(0));
        CHECK(n.add_up(group, 5, seconds(30), true) == 5);
        group.abandon();
        group.abandon();
        group.check();
        CHECK_THROWS_WITH_AS(n.add_up(group, 6, seconds(30), false), doctest::Contains("given up"), accelerator_error);
    }

    TEST_CASE("who does not come is an error by the deadline, of whichever kind") {
        nccl_test::folder const f;
        auto const begin = clock::now();
        CHECK_THROWS_WITH_AS(group_type({0, 2, 2, f.file(), seconds(1)}, false), doctest::Contains("process 1"),
                             deadline_error);
        CHECK(seconds(clock::now() - begin).count() < 5);

        std::thread other([&] { // takes the id, and never comes to NCCL
            try {
                nccl_runtime::id_exchange<sizeof(ncclUniqueId)> e({1, 2, 2, f.file(), seconds(10)});
                (void)e.take();
            } catch (std::exception const&) {}
        });
        auto const again = clock::now();
        CHECK_THROWS_WITH_AS(group_type({0, 2, 2, f.file(), seconds(3)}, false), doctest::Contains(f.file().c_str()),
                             deadline_error);
        CHECK(seconds(clock::now() - again).count() < 10);
        other.join();
    }

    TEST_CASE("child: sums" * doctest::skip()) {
        in_group(role::mine(), 60, [](group_type& group) {
            int const n = group.size();
            number one(group.device_of(0));
            for (int k = 0; k < 20; ++k)
                CHECK(one.add_up(group, k + group.first_rank(), seconds(60), k == 0) == n * k + n * (n - 1) / 2);
            int const color = group.first_rank() % 2;
            auto const rows = group.split(std::array{color}, std::array{n - group.first_rank()});
            REQUIRE(rows.size() == 1);
            CHECK(rows[0].size() == (n + 1 - color) / 2);
            CHECK(rows[0].rank() == (n - 1 - group.first_rank()) / 2); // the keys turn them round
        });
    }
    TEST_CASE("processes on one GPU meet, add and part") {
        for (int const count : {2, 3}) {
            CAPTURE(count);
            nccl_test::folder const f;
            nccl_test::processes all("child: sums", count, f);
            for (int k = 0; k < count; ++k) {
                int const code = all.end_of(static_cast<std::size_t>(k), 240);
                if (nccl_test::skipped(f)) return;
                CHECK(code == 0);
            }
        }
    }

    TEST_CASE("child: one is killed" * doctest::skip()) {
        in_group(role::mine(), 10, [](group_type& group) {
            number one(group.device_of(0));
            CHECK(one.add_up(group, 1, seconds(60), true) == group.size());
            if (group.first_rank() == 1) {
                nccl_call const call{nccl_call::kind::all_reduce, 0, 0, ncclInt32, one.memory.data(), 1,
                                     one.queue.handle()};
                group.run(std::span(&call, 1), {"all_reduce", "native", 8, 4}, false);
                ::raise(SIGKILL);
            }
            auto const begin = clock::now();
            std::string said;
            try {
                for (int k = 0; k < 1000; ++k) one.add_up(group, 1, seconds(10), false);
            } catch (accelerator_error const& e) {
                said = e.what();
            } catch (deadline_error const& e) {
                said = e.what();
            }
            MESSAGE("a survivor hears: " << said);
            CHECK_FALSE(said.empty());
            CHECK(seconds(clock::now() - begin).count() < 10 + 5);
        });
    }
    TEST_CASE("when a process is killed, the others have an error soon after the deadline, and end") {
        nccl_test::folder const f;
        nccl_test::processes all("child: one is killed", 2, f);
        int const killed = all.end_of(1, 120);
        if (nccl_test::skipped(f)) return;
        CHECK(killed == 128 + SIGKILL);
        int const survivor = all.end_of(0, 60);
        if (nccl_test::skipped(f)) return;
        CHECK(survivor == 0);
    }
}
