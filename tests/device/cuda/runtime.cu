// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <trireme/device/cuda/device.hpp>
#include <trireme/device/cuda/nvtx.hpp>
#include <trireme/device/rehearsal/device.hpp>

#include <kernels/cuda/on_gpu.hpp>
#include <support/messages.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace trireme;
using on_gpu::finish;
using test_support::text_of_error;

namespace cuda_test {

struct add_one {
    int* at;
    TRIREME_HOST_DEVICE void operator()(std::size_t i) const { at[i] += 1; }
};

/// Writes value to at[0] after a second for every billion turns or so; at[1] keeps the compiler from skipping them.
struct slow_set {
    static constexpr std::uint32_t threads = 1;
    using shared = nothing_kept;
    struct own {
        unsigned state;
    };
    static constexpr int phase_count = 2;
    int* at;
    int value;
    unsigned turns;
    TRIREME_HOST_DEVICE int phases() const { return phase_count; }
    TRIREME_HOST_DEVICE void phase(int k, block_place, shared&, own& o) const {
        if (k == 0) {
            o.state = 1;
            for (unsigned i = 0; i < turns; ++i) o.state = o.state * 1664525u + 1013904223u;
        } else {
            at[0] = value;
            at[1] = static_cast<int>(o.state);
        }
    }
};

/// Sums a block's 64 numbers in shared memory. `Known`: the compiler knows the number of phases.
template<bool Known>
struct phase_number {};
template<>
struct phase_number<true> {
    static constexpr int phase_count = 7;
};
template<class T, bool Known>
struct tree_sum : phase_number<Known> {
    static constexpr std::uint32_t threads = 64;
    struct shared {
        T value[64];
    };
    struct own {
        T mine;
    };
    T const* in;
    T* out;
    TRIREME_HOST_DEVICE tree_sum(T const* from, T* to) : in(from), out(to) {}
    TRIREME_HOST_DEVICE int phases() const { return 7; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own& o) const {
        if (k == 0) s.value[at.thread] = o.mine = in[at.block * 64 + at.thread];
        if (auto const half = 64u >> k; k > 0 && at.thread < half) s.value[at.thread] += s.value[at.thread + half];
        if (k == 6 && at.thread == 0) out[at.block] = s.value[0] + static_cast<T>(at.blocks);
        if (k == 6 && at.thread == 1) out[at.blocks + at.block] = o.mine; // kept over all phases
    }
};

/// Shared memory of a type that has a constructor.
struct reverse {
    static constexpr std::uint32_t threads = 128;
    struct shared {
        int value[128];
        TRIREME_HOST_DEVICE shared() {}
    };
    using own = nothing_kept;
    int* at;
    TRIREME_HOST_DEVICE int phases() const { return 2; }
    TRIREME_HOST_DEVICE void phase(int k, block_place place, shared& s, own&) const {
        int* const here = at + place.block * threads;
        if (k == 0)
            s.value[place.thread] = here[place.thread];
        else
            here[place.thread] = s.value[threads - 1 - place.thread];
    }
};

template<class T>
std::vector<T> numbers_of(std::size_t n) {
    std::vector<T> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<T>(static_cast<int>(i * 7919 % 1000) - 500) / T(7);
    return values;
}

/// One program runs on the GPU and in a rehearsal of it.
template<class T, bool Known>
void sums_agree() {
    constexpr std::uint32_t blocks = 37;
    auto const in = numbers_of<T>(blocks * 64);
    std::vector<T> expected(2 * blocks);
    rehearsal_runtime::stage::here().clear();
    rehearsal::stream played(0);
    rehearsal::event done(0);
    played.launch(tree_sum<T, Known>(in.data(), expected.data()), blocks);
    played.record(done);
    while (!done.reached()) {}

    on_gpu::rank r;
    on_gpu::array<T> const from(r, in), to(r, std::vector<T>(2 * blocks));
    r.queue.launch(tree_sum<T, Known>(from.data(), to.data()), blocks);
    CHECK(to.read() == expected);
}

} // namespace cuda_test
using namespace cuda_test;

TEST_SUITE("device/cuda") {

    TEST_CASE("GPUs are counted and described") {
        REQUIRE(gpu::count() >= 1);
        for (int i = 0; i < gpu::count(); ++i) {
            CHECK(gpu::describe(i).find("multiprocessors") != std::string::npos);
            CHECK(gpu::reaches(i, i));
        }
    }

    TEST_CASE("memory is zeroed, may be empty, and is refused with what is free") {
        on_gpu::rank r;
        gpu::memory a(0, 1000, "numbers");
        std::vector<unsigned char> values(1000, 1);
        r.queue.copy(values.data(), a.data(), values.size());
        finish(r.queue);
        CHECK(values == std::vector<unsigned char>(1000, 0));
        gpu::memory const moved = std::move(a);
        CHECK(moved.bytes() == 1000);
        CHECK(a.data() == nullptr);
        CHECK(gpu::memory(0, 0, "nothing").data() == nullptr);
        gpu::pinned_memory const host(100);
        CHECK(static_cast<unsigned char const*>(host.data())[99] == 0);

        auto const refusal = text_of_error<usage_error>([] { gpu::memory(0, std::size_t{1} << 50, "gradients"); });
        CHECK(refusal.find("gpu 0 has no memory for the gradients: 1125899906842624 bytes") == 0);
        CHECK(refusal.find("are free; use a smaller batch, or more devices") != std::string::npos);
        finish(r.queue); // nothing is broken after it
    }

    TEST_CASE("streams keep their order, and events order streams") {
        on_gpu::rank r;
        gpu::stream other(0);
        gpu::event made(0);
        on_gpu::array<int> const a(r, {0, 0}), b(r, {0});
        for (int round = 1; round <= 5; ++round) {
            r.queue.launch(slow_set{a.data(), round, 10'000'000}, 1);
            r.queue.record(made);
            other.wait(made);
            other.copy(b.data(), a.data(), sizeof(int));
            finish(other);
            CHECK(b.read()[0] == round);
        }
    }

    TEST_CASE("an event is not reached before its work is done, and reached if nothing was recorded") {
        on_gpu::rank r;
        on_gpu::array<int> const a(r, {0, 0});
        gpu::event never(0), done(0);
        CHECK(never.reached());
        r.queue.wait(never);
        r.queue.launch(slow_set{a.data(), 1, 200'000'000}, 1);
        r.queue.record(done);
        CHECK_FALSE(done.reached());
        CHECK_FALSE(await(done, deadline::in(std::chrono::milliseconds(1))));
        CHECK(await(done, deadline::in(std::chrono::seconds(60))));
        CHECK(cudaGetLastError() == cudaSuccess); // "not yet" is no error that others may find
    }

    TEST_CASE("block programs give what a rehearsal gives") {
        sums_agree<float, true>();
        sums_agree<float, false>();
        sums_agree<double, true>();
        sums_agree<int, false>();
    }

    TEST_CASE("shared memory may have a constructor, and a program needs a block") {
        on_gpu::rank r;
        std::vector<int> values(256), expected(256);
        for (int i = 0; i < 256; ++i) {
            values[static_cast<std::size_t>(i)] = i;
            expected[static_cast<std::size_t>(i)] = i / 128 * 128 + 127 - i % 128;
        }
        on_gpu::array<int> const a(r, values);
        r.queue.launch(reverse{a.data()}, 2);
        CHECK(a.read() == expected);
        CHECK_THROWS_AS(r.queue.launch(reverse{a.data()}, 0), std::logic_error);
    }

    TEST_CASE("a graph of two streams does what its work does when it is handed over directly") {
        on_gpu::rank r;
        gpu::stream side(0);
        gpu::event fork(0), join(0);
        on_gpu::array<int> const a(r, std::vector<int>(100'000)), b(r, std::vector<int>(100'000));
        block_kernels<gpu::stream> const on_main(r.queue, 1, {}), on_side(side, 1, {});
        auto const work = [&] {
            on_main.each(100'000, add_one{a.data()});
            r.queue.record(fork);
            side.wait(fork);
            on_side.each(100'000, add_one{b.data()});
            side.copy(b.data(), a.data(), sizeof(int)); // its first number is a's of before the join
            side.record(join);
            on_main.each(50'000, add_one{a.data() + 50'000});
            r.queue.wait(join);
        };
        for (int i = 0; i < 6; ++i) work();
        auto const eager_a = a.read(), eager_b = b.read();
        a.write(std::vector<int>(100'000));
        b.write(std::vector<int>(100'000));

        r.queue.begin_capture();
        work();
        auto g = r.queue.end_capture();
        CHECK(g.nodes() == 4);
        CHECK(a.read() == std::vector<int>(100'000)); // noted, not done
        for (int i = 0; i < 6; ++i) r.queue.launch(g);
        CHECK(a.read() == eager_a);
        CHECK(b.read() == eager_b);

        gpu::graph moved = std::move(g);
        r.queue.launch(g); // nothing is left in it
        r.queue.launch(moved);
        auto more = eager_a;
        for (std::size_t i = 0; i < more.size(); ++i) more[i] += i < 50'000 ? 1 : 2;
        CHECK(a.read() == more);
    }

    TEST_CASE("an empty capture is an empty graph") {
        on_gpu::rank r;
        r.queue.begin_capture();
        auto g = r.queue.end_capture();
        CHECK(g.nodes() == 0);
        r.queue.launch(g);
        finish(r.queue);
    }

    TEST_CASE("a capture that was abandoned leaves its stream usable") {
        on_gpu::rank r;
        on_gpu::array<int> const a(r, {1});
        r.queue.begin_capture();
        r.queue.zero(a.data(), sizeof(int));
        r.queue.abandon_capture();
        CHECK(a.read()[0] == 1);
        {
            gpu::stream gone(0);
            gone.begin_capture();
            gone.zero(a.data(), sizeof(int));
        }
        CHECK(a.read()[0] == 1);
        r.queue.begin_capture();
        r.queue.zero(a.data(), sizeof(int));
        auto g = r.queue.end_capture();
        r.queue.launch(g);
        CHECK(a.read()[0] == 0);
    }

    TEST_CASE("mistakes in a capture are errors that name the call and the GPU") {
        on_gpu::rank r;
        gpu::stream side(0);
        gpu::event fork(0);
        gpu::memory const some(0, 4, "number");
        r.queue.begin_capture();
        r.queue.zero(some.data(), 4);
        r.queue.record(fork);
        auto const asked = text_of_error<accelerator_error>([&] { fork.reached(); });
        CHECK(asked.find("cudaEventQuery on gpu 0 for ") == 0);
        r.queue.abandon_capture();

        r.queue.begin_capture();
        r.queue.zero(some.data(), 4);
        r.queue.record(fork);
        side.wait(fork);
        side.zero(some.data(), 4);
        auto const unjoined = text_of_error<accelerator_error>([&] { r.queue.end_capture(); });
        CHECK(unjoined.find("cudaStreamEndCapture on gpu 0 for a capture: cudaErrorStreamCapture") == 0);
        finish(r.queue);
    }

    TEST_CASE("an event of one GPU is waited for by a stream of another, and memory is copied between them") {
        if (gpu::count() < 2) {
            MESSAGE("left out: there is one GPU");
            return;
        }
        if (gpu::reaches(0, 1) && gpu::reaches(1, 0)) {
            gpu::enable_peers(0, 1);
            gpu::enable_peers(0, 1);
        }
        on_gpu::rank r;
        gpu::stream there(1);
        gpu::event made(0);
        on_gpu::array<int> const a(r, {0, 0});
        gpu::memory const b(1, sizeof(int), "number");
        int result = 0;
        r.queue.launch(slow_set{a.data(), 5, 10'000'000}, 1);
        r.queue.record(made);
        there.wait(made);
        there.copy(b.data(), a.data(), sizeof(int));
        there.copy(&result, b.data(), sizeof(int));
        finish(there);
        CHECK(result == 5);
        int current = -1;
        REQUIRE(cudaGetDevice(&current) == cudaSuccess);
        CHECK(current == 0); // whatever was done on the other
    }

    TEST_CASE("ranges for profilers work without one") {
        cuda_runtime::range_scope const outer("step");
        cuda_runtime::range_scope const inner("forward");
    }
}
