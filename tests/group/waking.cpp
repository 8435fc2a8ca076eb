// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ranks that sleep at a counter in an arena, as those of channels do, are woken when their group stops.

#include <trireme/group/transport/threads/group.hpp>

#include "watchdog.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace group_waking_test {
namespace {

using namespace trireme;

/// True if a thread of this process sleeps in the kernel.
bool sleeps(long thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string const text{std::istreambuf_iterator<char>(file), {}};
    auto const name_ends = text.rfind(')');
    return name_ends != std::string::npos && name_ends + 2 < text.size() && text[name_ends + 2] == 'S';
}
void until_it_sleeps(std::atomic<long> const& thread) {
    while (thread == 0 || !sleeps(thread)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

} // namespace

TEST_SUITE("group/waking") {
    TEST_CASE("a rank that throws wakes those that wait for a counter in an arena") {
        watchdog const guard("waking at counters");
        threads::group g(2, std::chrono::seconds(100));
        progress* counter = nullptr;
        std::atomic<long> rank{0}, beside{0};
        std::atomic<bool> woken{false};
        std::thread other; // sleeps at the counter without a limit of its own, but is woken with the rank
        auto const all = [&](threads::communicator& c) {
            auto const room = c.allocate(2 * sizeof(progress));
            if (c.rank() == 1) {
                auto const at =
                    round_up<std::uintptr_t>(reinterpret_cast<std::uintptr_t>(room.data), alignof(progress));
                counter = new (reinterpret_cast<void*>(at)) progress;
                rank = ::syscall(SYS_gettid);
                c.wait_for(*counter, 1, 0, {"move", "a channel", 0});
                return;
            }
            until_it_sleeps(rank);
            other = std::thread([&] {
                beside = ::syscall(SYS_gettid);
                ::syscall(SYS_futex, static_cast<void*>(counter), FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
                woken = true;
            });
            until_it_sleeps(beside);
            throw std::runtime_error("the oar is broken");
        };
        CHECK_THROWS_AS(g.run([&](threads::communicator& c) { all(c); }), device_error);
        for (int i = 0; i < 5000 && !woken; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        CHECK(woken);
        while (!woken) { // else it sleeps for ever
            ::syscall(SYS_futex, static_cast<void*>(counter), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        other.join();
    }
}

} // namespace group_waking_test
