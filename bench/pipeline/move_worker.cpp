// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A move between two stages, as a worker of bench/harness.py: move_worker WAY BYTES answers with moves per second.
//
// Two threads move a message there and back, as the values and the gradient of one micro-batch: each copies from the
// memory of the other what the other has just written. The median of the rounds counts, and half of it is a move.
//
//     moves    the move tasks of a step program with two stages and one micro-batch, over a group's channels
//     atomics  two atomic counters and the copy, a loop that does nothing else
//     memcpy   of that loop the copy alone

#include "prediction.hpp"

#include <trireme/trireme.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace trireme;
using clock_type = std::chrono::steady_clock;

double seconds(clock_type::time_point a, clock_type::time_point b) {
    return std::chrono::duration<double>(b - a).count();
}

/// Two ranks with a message each. What a rank takes it sends next, so that it lies in its core's cache, written.
class two_threads {
public:
    explicit two_threads(std::size_t bytes) : bytes_(bytes) {
        group_.run([&](threads::communicator& c) {
            auto& r = here(c);
            r.message = c.allocate(bytes_);
            r.moves = std::make_unique<stage_moves<threads::communicator>>(c, program, 1);
            std::memset(r.message.data, c.rank() + 1, bytes_);
        });
    }

    /// The seconds of moves by the tasks of the program.
    std::vector<double> by_moves(std::size_t rounds) {
        return run(rounds, [&](threads::communicator& c) {
            auto& moves = *here(c).moves;
            auto const begin = clock_type::now();
            for (auto const& t : program.list(c.rank())) {
                operation const what{name_of(t.kind), program.schedule, 0};
                if (t.kind == task_kind::move)
                    moves.run(
                        places_, t, what,
                        [&](stage_transfer const&) {
                            return std::span(static_cast<std::byte*>(here(c).message.data), bytes_);
                        },
                        [&](stage_transfer const& m, int, std::size_t) {
                            return c.peer<std::byte>(here(c).message, m.role);
                        });
                else if (c.rank() != 0 && gives_input(t.kind)) // as executors do before they compute
                    moves.wait_until_free(true, t.slot, what);
                else if (c.rank() == 0 && goes_forward(t.kind))
                    moves.wait_until_free(false, t.frame, what);
            }
            return seconds(begin, clock_type::now()) / 2;
        });
    }

    /// The seconds of moves by hand, or of the copy alone in one of them.
    std::vector<double> by_hand(std::size_t rounds, bool copy_alone) {
        return run(rounds, [&](threads::communicator& c) {
            auto& own = here(c).sent;
            auto const& other = ranks_[1 - c.rank()].sent;
            auto const next = own.load(std::memory_order_relaxed) + 1;
            auto const begin = clock_type::now();
            if (c.rank() == 0) own.store(next, std::memory_order_release);
            while (other.load(std::memory_order_acquire) != next) {}
            auto const came = copy_alone ? clock_type::now() : begin;
            take(c, 1 - c.rank());
            auto const taken = clock_type::now();
            if (c.rank() != 0) own.store(next, std::memory_order_release);
            return copy_alone ? seconds(came, taken) : seconds(begin, taken) / 2;
        });
    }

private:
    static constexpr step_program const& program = static_step<gpipe, 2, 1>::program;

    struct alignas(2 * cache_line) rank {
        std::atomic<std::uint32_t> sent{0}; ///< by hand
        arena message;
        std::unique_ptr<stage_moves<threads::communicator>> moves;
    };

    rank& here(threads::communicator const& c) { return ranks_[c.rank()]; }

    bytes_t take(threads::communicator& c, int from) {
        auto const& message = here(c).message;
        std::memcpy(message.data, c.peer<std::byte>(message, from), bytes_);
        return bytes_;
    }

    /// The times that rank 0 measures, one `round` after the other on both. Throws std::runtime_error if afterwards a
    /// message is not what rank 0 sent first.
    template<class Round>
    std::vector<double> run(std::size_t rounds, Round&& round) {
        std::vector<double> times[2];
        group_.run([&](threads::communicator& c) {
            auto& mine = times[c.rank()];
            mine.resize(rounds);
            barrier<direct>(c);
            for (auto& time : mine) time = round(c);
            barrier<direct>(c);
            auto const* const bytes = static_cast<std::byte const*>(here(c).message.data);
            if (std::any_of(bytes, bytes + bytes_, [](std::byte b) { return b != std::byte{1}; }))
                throw std::runtime_error("another message has come");
        });
        return times[0];
    }

    sent_places places_{program};
    std::size_t bytes_;
    rank ranks_[2];
    threads::group group_{2};
};

struct {
    char const* name;
    std::vector<double> (*seconds)(two_threads&, std::size_t rounds);
} constexpr ways[] = {
    {"moves", [](two_threads& t, std::size_t rounds) { return t.by_moves(rounds); }},
    {"atomics", [](two_threads& t, std::size_t rounds) { return t.by_hand(rounds, false); }},
    {"memcpy", [](two_threads& t, std::size_t rounds) { return t.by_hand(rounds, true); }},
};

template<class Way>
int work(Way const& way, std::size_t bytes) {
    two_threads both(bytes);
    auto const measure = [&](double limit) {
        constexpr std::size_t at_once = 1000;
        std::vector<double> all;
        for (auto const start = clock_type::now(); all.empty() || seconds(start, clock_type::now()) < limit;) {
            auto const some = way.seconds(both, at_once);
            all.insert(all.end(), some.begin(), some.end());
        }
        return 1 / bench::median(std::move(all));
    };
    measure(0);
    if (way.name == std::string_view("moves"))
        std::printf("ready Trireme %d.%d.%d, %s\n", TRIREME_VERSION_MAJOR, TRIREME_VERSION_MINOR, TRIREME_VERSION_PATCH,
                    instruction_set);
    else
        std::printf("ready two threads by hand\n");
    std::fflush(stdout);
    for (double limit = 0; std::scanf("%lf", &limit) == 1;) {
        std::printf("%.17g\n", measure(limit));
        std::fflush(stdout);
    }
    return 0;
}

} // namespace

int main(int argc, char** argv) try {
    std::size_t const bytes = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0;
    for (auto const& way : ways)
        if (bytes > 0 && way.name == std::string_view(argv[1])) return work(way, bytes);
    std::fprintf(stderr, "usage: move_worker moves | atomics | memcpy BYTES\n");
    return 2;
} catch (std::exception const& e) {
    std::fprintf(stderr, "move_worker: %s\n", e.what());
    return 1;
}
