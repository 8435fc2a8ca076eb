// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Waits between streams that follow from what their work reads and writes: with all of them every order of work gives
// the same numbers, and no stream waits for what it comes after anyway.

#include <doctest/doctest.h>
#include <rehearsed/trainings.hpp>

#include <trireme/device/stream_order.hpp>
#include <trireme/rehearsal.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace rehearsed_stream_order_test {
using namespace trireme;
using namespace rehearsed;
using rehearsal_runtime::stream;

namespace {

/// Some streams, and places of one number each.
struct bench {
    std::vector<stream> all;
    std::vector<stream*> pointers;
    std::vector<std::uint64_t> numbers;
    stream_order<stream> order;

    bench(std::size_t streams, std::size_t places, std::size_t remembered)
        : all(streams, stream(0)), pointers(to(all)), numbers(places), order(pointers, places, remembered) {}

    static std::vector<stream*> to(std::vector<stream>& streams) {
        std::vector<stream*> found;
        for (auto& s : streams) found.push_back(&s);
        return found;
    }
    static range one(std::size_t place) { return {place, place + 1}; }

    /// to = mixture of what was there, and of what it reads.
    void work(std::size_t on, std::size_t from, std::size_t to) {
        stream_work const w{on, {{one(from)}}, {{one(to)}}};
        order.begin(w);
        all[on].launch(rehearsal_runtime::any_program(index_program<mixing>{{&numbers[from], &numbers[to]}, 1}), 1);
        order.end(w);
    }
    struct mixing {
        std::uint64_t const* from;
        std::uint64_t* to;
        void operator()(std::size_t) const { *to = *to * 6364136223846793005u + *from + 1; }
    };
    /// Waits for all streams, the first one in a capture.
    void finish() {
        order.begin({0, {}, {{{0, numbers.size()}}}});
        stream::event done(0);
        all[0].record(done);
        while (!done.reached()) {}
    }
};

/// A stream that does nothing.
struct counting_stream {
    struct event {
        explicit event(int) {}
        bool reached() { return true; }
    };
    struct graph {};
    struct warp {};
    int waits = 0;

    int device() const { return 0; }
    void copy(void*, void const*, std::size_t) {}
    void zero(void*, std::size_t) {}
    void record(event&) {}
    void wait(event const&) { ++waits; }
    void begin_capture() {}
    graph end_capture() { return {}; }
    void abandon_capture() {}
    void launch(graph&) {}
};

} // namespace

TEST_SUITE("rehearsed/stream_order") {
    TEST_CASE("work on many streams gives the numbers of one stream") {
        for (std::uint64_t seed = 0; seed < 60; ++seed) {
            CAPTURE(seed);
            std::size_t const streams = 2 + seed % 4, places = 1 + seed % 7, remembered = 1 + seed % 5;
            auto const run = [&](std::size_t spread, timing when) {
                on_stage const as_told(when, seed);
                bench b(spread, places, remembered);
                std::mt19937_64 random(seed);
                for (int i = 0; i < 60; ++i) {
                    auto const on = static_cast<std::size_t>(random() % streams) % spread;
                    auto const from = static_cast<std::size_t>(random() % places);
                    b.work(on, from, static_cast<std::size_t>(random() % places));
                }
                b.finish();
                return b.numbers;
            };
            auto const wanted = run(1, timing::eager);
            CHECK(run(streams, timing::shuffled) == wanted);
            CHECK(run(streams, timing::late) == wanted);
        }
    }

    TEST_CASE("who only reads does not wait for who reads, and nobody for what another wait has brought") {
        std::vector<counting_stream> all(4);
        std::vector<counting_stream*> pointers;
        for (auto& s : all) pointers.push_back(&s);
        stream_order<counting_stream> order(pointers, 4, 4);
        auto const waits_of = [&](std::size_t on, std::size_t from, std::size_t to) {
            auto const before = all[on].waits;
            stream_work const w{on, {{bench::one(from)}}, {{bench::one(to)}}};
            order.begin(w);
            order.end(w);
            return all[on].waits - before;
        };
        order.restart(0, {0, 4});
        for (std::size_t s = 1; s < 4; ++s) CHECK(waits_of(s, s, s) == 1);
        CHECK(waits_of(1, 0, 1) == 0); // both read what was there
        CHECK(waits_of(2, 0, 2) == 0);
        CHECK(waits_of(1, 2, 1) == 1); // reads what stream 2 has written
        CHECK(waits_of(3, 1, 3) == 1); // after stream 1, which comes after 2
        CHECK(waits_of(3, 2, 3) == 0);
        CHECK(waits_of(0, 0, 2) == 1); // stream 3 has read it, and comes after all others
        order.begin({0, {}, {{{0, 4}}}});
        CHECK(all[0].waits == 1);
    }
}

} // namespace rehearsed_stream_order_test
