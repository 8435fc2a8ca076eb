// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All-reduce of floats among threads, as a worker of bench/harness.py: trireme_worker STRATEGY RANKS BYTES; without
// arguments it lists its strategies. The strategy `limit` is none of ours: what two threads reach by a loop alone.

#include "steps.hpp"

#include <trireme/trireme.hpp>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace trireme;

using all_reduce_function = void (*)(threads::communicator&, std::span<float>);

template<class Strategy>
void by(threads::communicator& me, std::span<float> buffer) {
    all_reduce<Strategy>(me, buffer);
}

struct {
    char const* name;
    all_reduce_function all_reduce;
} constexpr strategies[] = {
    {"direct", &by<direct>},
    {"ring", &by<ring>},
    {"bidirectional_ring", &by<bidirectional_ring>},
    {"recursive_halving_doubling", &by<recursive_halving_doubling>},
    {"double_binary_tree", &by<double_binary_tree>},
    {"chain", &by<chain>},
    {"hierarchical<direct,ring>", &by<hierarchical<direct, ring>>},
    {"best_of", &by<best_of<direct, ring, bidirectional_ring, recursive_halving_doubling, double_binary_tree, chain,
                            hierarchical<direct, ring>>>},
};

/// Two threads: each adds one half of both buffers in registers and writes the sum to both, between two meetings.
class bare_loop {
public:
    static void all_reduce(threads::communicator& me, std::span<float> buffer) {
        auto const half = buffer.size() / 2, from = static_cast<std::size_t>(me.rank()) * half;
        auto &own = places[me.rank()], &other = places[1 - me.rank()];
        own.buffer = buffer.data();
        meet(own, other);
        add(own.buffer + from, other.buffer + from, half);
        meet(own, other);
    }

private:
    struct alignas(2 * cache_line) place {
        std::atomic<unsigned> meetings;
        float* buffer;
    };
    static inline place places[2];

    static void meet(place& own, place const& other) {
        auto const met = own.meetings.load(std::memory_order_relaxed) + 1;
        own.meetings.store(met, std::memory_order_release);
        while (static_cast<int>(other.meetings.load(std::memory_order_acquire) - met) < 0) {}
    }

    static void add(float* own, float* other, std::size_t n) {
        using vector = lane_vector<float, full_register<float>>;
        constexpr std::size_t block = 4 * vector::size;
        for (std::size_t i = 0; i < n; i += block) {
#pragma GCC unroll 4
            for (auto k = i; k < i + block; k += vector::size) {
                auto const sum = vector::load(own + k) + vector::load(other + k);
                sum.store(own + k);
                sum.store(other + k);
            }
        }
    }
};

std::string trireme_name() {
    char name[64];
    std::snprintf(name, sizeof name, "Trireme %d.%d.%d, %s", TRIREME_VERSION_MAJOR, TRIREME_VERSION_MINOR,
                  TRIREME_VERSION_PATCH, instruction_set);
    return name;
}

int work(std::string const& what, all_reduce_function sum, int ranks, std::size_t bytes) {
    threads::group group(ranks);
    std::vector<host_memory> memory(static_cast<std::size_t>(ranks));
    auto const place = [](threads::communicator const& me) { return static_cast<std::size_t>(me.rank()); };
    group.run([&](threads::communicator& me) { memory[place(me)] = host_memory(bytes); }); // each touches its own
    bench::answer(what, ranks, [&](std::size_t steps) {
        std::vector<bench::stay> stays(steps * memory.size());
        group.run([&](threads::communicator& me) {
            std::span const buffer(static_cast<float*>(memory[place(me)].data()), bytes / sizeof(float));
            std::span const here(stays.data() + place(me) * steps, steps);
            bench::run_steps(me.rank(), ranks, buffer, here, [&] { sum(me, buffer); });
        });
        return stays;
    });
    return 0;
}

} // namespace

int main(int argc, char** argv) try {
    if (argc == 1) {
        for (auto const& s : strategies) std::puts(s.name);
        return 0;
    }
    std::string_view const name = argv[1];
    int const ranks = argc > 2 ? std::atoi(argv[2]) : 0;
    std::size_t const bytes = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0;
    if (name == "limit" && ranks == 2 && bytes > 0 && bytes % 512 == 0)
        return work("a loop of two threads", &bare_loop::all_reduce, ranks, bytes);
    for (auto const& s : strategies)
        if (name == s.name && ranks > 0 && bytes > 0) return work(trireme_name(), s.all_reduce, ranks, bytes);
    std::fprintf(stderr,
                 "usage: trireme_worker STRATEGY RANKS BYTES; trireme_worker limit 2 BYTES, a multiple of 512\n");
    return 2;
} catch (std::exception const& e) {
    std::fprintf(stderr, "trireme_worker: %s\n", e.what());
    return 1;
}
