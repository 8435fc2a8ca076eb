// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/mpi.hpp>

#include <collective/matrix.hpp>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

// Waits that are longer than the deadline because the whole job is stopped, and waits for messages whose numbers begin
// again.
namespace test_mpi {

using namespace trireme;
using test_collectives::require;

/// Stops processes for a while: a process that is none of MPI's does it, as soon as it is told which.
class stopper {
public:
    explicit stopper(std::chrono::seconds pause) {
        require(pipe(ends_) == 0, "no pipe");
        if (fork() != 0) {
            close(ends_[0]);
            return;
        }
        close(ends_[1]);
        pid_t all[64];
        auto const bytes = read(ends_[0], all, sizeof all);
        auto const tell = [&](int signal) {
            for (ssize_t i = 0; i < bytes / static_cast<ssize_t>(sizeof(pid_t)); ++i) kill(all[i], signal);
        };
        tell(SIGSTOP);
        if (bytes > 0) std::this_thread::sleep_for(pause);
        tell(SIGCONT);
        _exit(0);
    }
    stopper(stopper const&) = delete;
    stopper& operator=(stopper const&) = delete;
    ~stopper() { close(ends_[1]); }

    void stop(std::vector<pid_t> const& processes) {
        auto const bytes = static_cast<ssize_t>(processes.size() * sizeof(pid_t));
        require(write(ends_[1], processes.data(), static_cast<std::size_t>(bytes)) == bytes, "the pipe is full");
    }

private:
    int ends_[2];
};

/// All ranks are stopped, for longer than the deadline and the watchdog's limit, while rank 1 works for half the
/// deadline, and the others wait for it.
inline void stopped_together(mpi_job const& job) {
    stopper stops(std::chrono::seconds(7)); // before MPI begins
    mpi_group g(job, 0, std::chrono::seconds(3));
    g.run([&](mpi_communicator& c) {
        auto const processes = all_gather<direct>(c, getpid());
        if (c.rank() == 1) {
            stops.stop(processes);
            for (int i = 0; i < 30; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
        barrier<direct>(c);
    });
    if (g.rank() == 0) std::printf("fine\n");
}

/// Message 2^32 - 1 of a link is under way when the next one, which has number 0, is asked for.
inline void numbers_begin_again(mpi_job const& job) {
    mpi_group g(job, 2, std::chrono::seconds(20));
    g.run([](mpi_communicator& c) {
        auto links = c.links(2, 2);
        std::vector<std::byte> numbers(std::size_t{8} << 20); // more than MPI takes before somebody receives it
        operation const what{"test", "links", 0};
        constexpr std::uint32_t last = 0xFFFFFFFF, next = 0;
        if (c.rank() == 0) {
            links.send(0, last, 1, 0, numbers.data(), numbers.size());
            links.send(1, next, 1, 1, numbers.data(), numbers.size());
            require(!links.has_sent(0, next, what), "a message is free though the one before it is under way");
            require(links.has_sent(1, last, what), "a message waits for the one behind it");
        }
        barrier<direct>(c);
        if (c.rank() == 1) {
            links.receive(0, 0, numbers.data(), numbers.size(), what);
            links.receive(0, 1, numbers.data(), numbers.size(), what);
        } else {
            links.wait(1, what, [&] { return links.has_sent(0, next, what) && links.has_sent(1, next, what); });
        }
    });
    if (g.rank() == 0) std::printf("fine\n");
}

} // namespace test_mpi
