// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls that differ between ranks, sizes that do not fit, collectives that are begun and dropped: an error that says
// so, on all ranks, and never a wait without end.

#include <trireme/trireme.hpp>

#include <collective/ended_group.hpp>
#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/messages.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace collective_misuse_test {
namespace {

using namespace trireme;
using test_support::has;
using comm = threads::communicator;

/// A rank makes this call.
using call = std::function<void(comm&)>;

/// The mismatch's text; every rank must have got one that names two different calls.
std::string mismatch_of(int ranks, call const& first, call const& others, levels const& machine = {}) {
    threads::group g(ranks, std::chrono::seconds(20), machine);
    std::atomic<int> told{0};
    try {
        g.run([&](comm& c) {
            try {
                c.rank() == 0 ? first(c) : others(c);
                barrier<direct>(c); // a rank whose part was over before the others differed hears of it here
            } catch (mismatch_error const& e) {
                told += has(e.what(), "called different collectives");
                throw;
            }
        });
    } catch (mismatch_error const& e) {
        CHECK(told == ranks);
        CHECK(g.stopped());
        return e.what();
    }
    FAIL("no mismatch was found");
    return "";
}

template<class S, class T = float>
call adding(std::size_t n, int times = 1) {
    return [=](comm& c) {
        std::vector<T> x(n);
        for (int i = 0; i < times; ++i) all_reduce<S>(c, std::span(x));
    };
}

std::string refused(call const& f) { return test_collectives::end_of_group<device_error>(f); }

} // namespace

TEST_SUITE("collective/misuse: ranks that differ") {
    TEST_CASE("another count, type, operation, strategy, root or collective") {
        watchdog const guard("mismatches");
        for (int const ranks : {2, 4}) {
            CAPTURE(ranks);
            auto const count = mismatch_of(ranks, adding<ring>(1000), adding<ring>(1001));
            CHECK(has(count, "all_reduce<ring>(1000 x f32, sum, root 0; "));
            CHECK(has(count, "all_reduce<ring>(1001 x f32, sum, root 0; "));
            CHECK(has(count, "their number 1:"));
            CHECK(has(mismatch_of(ranks, adding<ring>(100), adding<ring, double>(100)), "100 x f64"));
            CHECK(has(mismatch_of(ranks, adding<ring>(100), adding<direct>(100)), "all_reduce<direct>"));
            CHECK(has(mismatch_of(ranks, adding<chain>(100), adding<double_binary_tree>(100)), "all_reduce<chain>"));
            CHECK(has(mismatch_of(ranks, adding<direct>(100),
                                  [](comm& c) {
                                      std::vector<float> x(100);
                                      all_reduce<direct>(c, std::span(x), op::max{});
                                  }),
                      "100 x f32, max"));
            CHECK(has(mismatch_of(ranks, adding<direct>(100), [](comm& c) { barrier<direct>(c); }), "barrier<direct>"));
            auto const from = [](int root) {
                return [root](comm& c) {
                    std::vector<float> x(100);
                    broadcast<binomial_tree>(c, std::span(x), root);
                };
            };
            CHECK(has(mismatch_of(ranks, from(0), from(1)), "root 1"));
            auto const sent = []<class T>(T) {
                return [](comm& c) {
                    std::vector<T> x(100);
                    broadcast<direct>(c, x);
                };
            };
            CHECK(has(mismatch_of(ranks, sent(std::uint8_t{}), sent(std::uint64_t{})), "100 x u64, root 0"));
            CHECK(has(mismatch_of(ranks, sent(std::array<char, 8>{}), sent(std::array<char, 4>{})),
                      "100 x bytes, 8 each"));
            CHECK(has(
                mismatch_of(ranks, adding<hierarchical<direct, ring>>(100), adding<hierarchical<ring, direct>>(100)),
                "all_reduce<hierarchical<ring, direct>>"));
        }
    }

    TEST_CASE("strategies and operations whose long names differ at the end alone") {
        watchdog const guard("long names");
        using first = hierarchical<recursive_halving_doubling, hierarchical<ring, direct>>;
        using other = hierarchical<recursive_halving_doubling, hierarchical<direct, ring>>;
        constexpr levels machine(2, 3, 2);
        constexpr auto a = first::all_reduce(12, machine), b = other::all_reduce(12, machine);
        static_assert(a.steps == b.steps && a.chunks == b.chunks); // nothing but the names tells them apart
        auto const text = mismatch_of(12, adding<first>(1200), adding<other>(1200), machine);
        CHECK(has(text, "called all_reduce<hierarchical<recursive_halving_doubling,...>(1200 x f32, sum, root 0; "));
        CHECK(has(text, "with another name behind the dots"));
        auto const by = [](char const* name) {
            return [name](comm& c) {
                std::vector<float> x(100);
                all_reduce<direct>(c, std::span(x), op::commutative(name, [](float l, float r) { return l * r; }));
            };
        };
        CHECK(has(mismatch_of(2, by("the product of all ranks' weights"), by("the product of all ranks' rates")),
                  "the product of all ranks..., root 0; "));
    }

    TEST_CASE("a call that one rank leaves out: the next one differs") {
        watchdog const guard("left out");
        auto const text = mismatch_of(
            3,
            [](comm& c) {
                adding<ring>(64, 5)(c);
                adding<ring>(32)(c);
            },
            [](comm& c) {
                adding<ring>(64, 4)(c);
                adding<ring>(32)(c);
            });
        CHECK(has(text, "their number 5:"));
        CHECK(has(text, "64 x f32"));
        CHECK(has(text, "32 x f32"));
    }

    TEST_CASE("a barrier of a group that has been stopped ends with an error, whatever the others have completed") {
        watchdog const guard("stopped before");
        for (int const ranks : {2, 3, 5}) {
            threads::group g(ranks, std::chrono::seconds(20));
            std::atomic<int> given_up{0}, told{0};
            auto const add =
                op::commutative("no sum", [](float, float) -> float { throw std::domain_error("no sum"); });
            CHECK_THROWS_AS(g.run([&](comm& c) {
                std::vector<float> x(10);
                CHECK_THROWS(all_reduce<direct>(c, std::span(x), add));
                ++given_up;
                while (given_up < ranks) std::this_thread::yield();
                if (c.rank() != 0) return;
                auto const said = test_support::text_of_error<std::exception>([&] { barrier<direct>(c); });
                told += has(said, "the group was stopped");
            }),
                            device_error);
            CHECK(told == 1);
        }
    }

    TEST_CASE("a rank that calls nothing at all is late, and named") {
        watchdog const guard("absent");
        threads::group g(3, std::chrono::milliseconds(300));
        try {
            g.run([](comm& c) {
                if (c.rank() != 1) adding<ring>(64)(c);
            });
            FAIL("nobody missed rank 1");
        } catch (deadline_error const& e) {
            CHECK(e.device() == 1);
        }
    }
}

TEST_SUITE("collective/misuse: what may be given as a buffer") {
    TEST_CASE("vectors, arrays, parts of them; nothing that is gone when the call returns, nothing that is constant") {
        std::vector<float> numbers(8, 1.0f);
        std::array<float, 8> copy{};
        float plain[4] = {};
        threads::group g(1);
        g.run([&](comm& c) {
            all_reduce<ring>(c, numbers, copy);
            all_reduce<ring>(c, std::span(numbers).first(4), plain);
            broadcast<chain>(c, plain);
            barrier<dissemination>(c);
        });
        CHECK(copy[7] == 1.0f);
        CHECK(plain[3] == 1.0f);
        static_assert(buffer<std::vector<float>&> && buffer<std::vector<float> const&> && !buffer<std::vector<float>>);
        static_assert(writable_buffer<std::span<float>> && !writable_buffer<std::vector<float> const&>);
        static_assert(!buffer_of<std::vector<double>&, float>);
    }
}

TEST_SUITE("collective/misuse: collectives in flight") {
    TEST_CASE("begun, advanced and waited for, while something else is computed") {
        watchdog const guard("in flight");
        threads::group g(4, std::chrono::seconds(20));
        std::atomic<int> wrong{0};
        g.run([&](comm& c) {
            std::vector<float> x(1000, static_cast<float>(c.rank()));
            for (int round = 0; round < 50; ++round) {
                for (auto& v : x) v = static_cast<float>(c.rank() + round);
                auto pending = start_all_reduce<ring>(c, std::span(x));
                for (int i = 0; i < 3 && !pending.advance(); ++i) {}
                pending.wait();
                pending.wait(); // nothing is left
                for (auto const v : x) wrong += v != static_cast<float>(6 + 4 * round);
            }
        });
        CHECK(wrong == 0);
    }

    TEST_CASE("one that has failed says so again, whoever caught the first error") {
        watchdog const guard("failed before");
        threads::group g(2, std::chrono::milliseconds(200));
        std::atomic<int> again{0};
        CHECK_THROWS_AS(g.run([&](comm& c) {
            if (c.rank() == 1) return; // never calls
            std::vector<float> x(100);
            auto pending = start_all_reduce<ring>(c, x);
            CHECK_THROWS_AS(pending.wait(), deadline_error);
            try {
                pending.wait();
            } catch (group_stopped const&) {
                ++again;
            }
            try {
                pending.advance();
            } catch (group_stopped const&) {
                ++again;
            }
        }),
                        deadline_error);
        CHECK(again == 2);
    }

    TEST_CASE("who only asks is told when the deadline is over, too") {
        watchdog const guard("asking");
        threads::group g(3, std::chrono::milliseconds(200));
        try {
            g.run([](comm& c) {
                if (c.rank() == 2) return;
                std::vector<float> x(100);
                auto pending = start_all_reduce<ring>(c, x);
                while (!pending.advance()) {}
                pending.wait();
            });
            FAIL("nobody missed rank 2");
        } catch (deadline_error const& e) {
            CHECK(e.device() == 2);
        }
    }

    TEST_CASE("a deadline that one collective was asked under is not the next one's") {
        watchdog const guard("asked before");
        threads::group g(2, std::chrono::milliseconds(300));
        std::atomic<int> wrong{0};
        g.run([&](comm& c) {
            for (int round = 0; round < 3; ++round) {
                if (c.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(150));
                std::vector<float> x(100, 1.0f);
                auto pending = start_all_reduce<direct>(c, x);
                pending.advance(); // rank 0 is told that rank 1 is not there
                pending.wait();
                wrong += x[0] != 2;
            }
        });
        CHECK(wrong == 0);
    }

    TEST_CASE("an exception that its own function catches is still an error of the group") {
        watchdog const guard("caught");
        threads::group g(2, std::chrono::seconds(20));
        try {
            g.run([](comm& c) {
                try {
                    std::vector<float> x(100);
                    auto pending = start_all_reduce<ring>(c, x);
                    if (c.rank() == 1) throw std::runtime_error("never mind");
                    pending.wait();
                } catch (std::runtime_error const&) {}
            });
            FAIL("the collective was never finished");
        } catch (device_error const& e) {
            CHECK(e.device() == 1);
            CHECK(has(e.what(), "an exception took it out of a collective"));
        }
    }

    TEST_CASE("dropped: an error on the rank that did, and the others end") {
        watchdog const guard("dropped");
        auto const text = refused([](comm& c) {
            std::vector<float> x(100);
            auto pending = start_all_reduce<ring>(c, std::span(x));
            if (c.rank() != 1) pending.wait();
        });
        CHECK(has(text, "device 1: all_reduce (ring) was begun and dropped in schedule step "));
        CHECK(has(text, "wait for it"));
    }

    TEST_CASE("a second one while the first is in flight") {
        watchdog const guard("two at once");
        auto const text = refused([](comm& c) {
            std::vector<float> x(100), y(100);
            auto first = start_all_reduce<ring>(c, std::span(x));
            auto second = start_all_reduce<ring>(c, std::span(y));
            first.wait();
            second.wait();
        });
        CHECK(has(text, "called all_reduce while its all_reduce was in flight: wait for that first"));
    }
}

TEST_SUITE("collective/misuse: buffers of a call that an error ends") {
    TEST_CASE("are read by nobody once the call has thrown, so that they can be freed") {
        watchdog const guard("freed");
        for (int round = 0; round < 20; ++round) {
            threads::group g(3, std::chrono::seconds(20));
            try {
                g.run([round](comm& c) {
                    for (int call = 0;; ++call) {
                        std::vector<float> x(100000, 1.0f); // gone when the call throws
                        if (c.rank() == 2 && call == round % 5) {
                            auto pending = start_all_reduce<ring>(c, x);
                            for (int i = 0; i < round && !pending.advance(); ++i) {}
                            throw std::runtime_error("enough");
                        }
                        all_reduce<ring>(c, x);
                        CHECK(x.front() == 3.0f);
                    }
                });
                FAIL("nothing was thrown");
            } catch (device_error const& e) {
                CHECK(e.device() == 2);
                CHECK(has(e.what(), "enough"));
            }
        }
    }
}

TEST_SUITE("collective/misuse: a peer that still works on a rank's buffers") {
    /// On rank 0, an exception ends a collective while rank 1 adds up numbers of rank 0: until `may_end` it goes on.
    /// Returns whether rank 0 left the collective after rank 1 had been done.
    bool leaves_after(std::atomic<bool> const& may_end, std::chrono::milliseconds takes,
                      std::chrono::milliseconds limit) {
        struct shared { // rank 1 may outlive the call
            std::atomic<bool> inside{false}, done{false};
        };
        auto const s = std::make_shared<shared>();
        std::atomic<bool> after{false};
        threads::group g(2, limit);
        CHECK_THROWS_AS(g.run([&, s](comm& c) {
            auto const a = c.allocate(100 * sizeof(float)); // kept while a rank is left behind
            std::span const x(static_cast<float*>(a.data), 100);
            if (c.rank() == 1)
                run_schedule<float>(c, collective::all_reduce, direct::all_reduce(2), x,
                                    [&may_end, takes, s](reduction_view<float> const& v) -> bytes_t {
                                        s->inside = true;
                                        std::this_thread::sleep_for(takes);
                                        while (!may_end) std::this_thread::yield();
                                        s->done = true;
                                        return v.elements * sizeof(float);
                                    });
            try {
                auto pending = start_all_reduce<direct>(c, x);
                while (!s->inside) std::this_thread::yield();
                throw std::runtime_error("enough");
            } catch (std::runtime_error const&) {
                after = s->done.load();
                throw;
            }
        }),
                        device_error);
        return after;
    }

    TEST_CASE("is waited for, since the exception frees them") {
        watchdog const guard("a peer at work");
        std::atomic<bool> const at_once{true};
        CHECK(leaves_after(at_once, std::chrono::milliseconds(100), std::chrono::seconds(20)));
    }

    TEST_CASE("is not waited for longer than the deadline") {
        watchdog const guard("a peer that does not end", 20);
        static std::atomic<bool> may_end{false}; // outlives the thread that is left behind
        CHECK(!leaves_after(may_end, std::chrono::milliseconds(0), std::chrono::milliseconds(200)));
        may_end = true;
    }
}

TEST_SUITE("collective/misuse: buffers that overlap") {
    TEST_CASE("are refused, unless every number stays where it is") {
        watchdog const guard("overlaps");
        std::vector<float> shared[3];
        for (auto& x : shared) x.assign(12, 0.0f);
        auto const part = [&](comm& c, std::size_t from, std::size_t n) {
            return std::span(shared[static_cast<std::size_t>(c.rank())]).subspan(from, n);
        };
        char const* const text = "input and output overlap";
        CHECK(has(refused([&](comm& c) { all_reduce<ring>(c, part(c, 0, 6), part(c, 1, 6)); }), text));
        CHECK(has(refused([&](comm& c) { reduce<chain>(c, part(c, 0, 6), part(c, 5, 6)); }), text));
        CHECK(has(refused([&](comm& c) { all_to_all<direct>(c, part(c, 0, 6), part(c, 3, 6)); }), text));
        CHECK(has(refused([&](comm& c) { all_gather<ring>(c, part(c, 1, 4), part(c, 0, 12)); }), text));
        CHECK(has(refused([&](comm& c) { gather<direct>(c, part(c, 6, 4), part(c, 0, 12)); }), text));
        CHECK(has(refused([&](comm& c) { scatter<direct>(c, part(c, 0, 12), part(c, 0, 4), 4, 1); }), text));
        CHECK(has(refused([&](comm& c) { reduce_scatter<direct>(c, part(c, 0, 12), part(c, 2, 4)); }), text));
        threads::group g(3);
        g.run([&](comm& c) { // these may: side by side, the same, or each block in its place
            auto const r = static_cast<std::size_t>(c.rank());
            all_reduce<ring>(c, part(c, 0, 6), part(c, 6, 6));
            all_reduce<ring>(c, part(c, 0, 6), part(c, 0, 6));
            all_gather<ring>(c, part(c, 4 * r, 4), part(c, 0, 12));
            reduce_scatter<direct>(c, part(c, 0, 12), part(c, 4 * r, 4));
        });
    }
}

TEST_SUITE("collective/misuse: sizes and roots") {
    TEST_CASE("each is refused with the number that is wrong and the one that is wanted") {
        watchdog const guard("sizes");
        std::vector<float> ten(10), nine(9), four(4), none;
        std::span<float const> const in(ten);
        CHECK(has(refused([&](comm& c) { all_reduce<ring>(c, in, std::span(nine)); }),
                  "all_reduce: the output has 9 elements; it needs 10, as many as the input"));
        CHECK(has(refused([&](comm& c) { reduce<chain>(c, in, std::span(nine)); }), "reduce: the output has 9"));
        CHECK(has(refused([&](comm& c) { reduce_scatter<ring>(c, in, std::span(ten)); }),
                  "reduce_scatter: the input has 10 elements; it needs a multiple of the 3 ranks"));
        CHECK(has(refused([&](comm& c) { reduce_scatter<ring>(c, std::span<float const>(nine), std::span(four)); }),
                  "reduce_scatter: the output has 4 elements; it needs 9"));
        CHECK(has(refused([&](comm& c) { all_gather<direct>(c, in, std::span(nine)); }),
                  "all_gather: the output has 9 elements; it needs 30"));
        std::vector<float> more(31);
        CHECK(has(refused([&](comm& c) { all_gather<direct>(c, in, std::span(more)); }), "the output has 31 elements"));
        CHECK(has(refused([&](comm& c) { all_gather<ring>(c, std::span(ten)); }), "all_gather: the buffer has 10"));
        CHECK(has(refused([&](comm& c) { gather<binomial_tree>(c, in, std::span(none)); }),
                  "gather: the output has 0 elements; it needs 30"));
        CHECK(has(refused([&](comm& c) { scatter<direct>(c, in, std::span(nine), 3); }),
                  "scatter: the root's input has 10 elements; it needs 9, a block of 3 per rank"));
        CHECK(has(refused([&](comm& c) { all_to_all<direct>(c, in, std::span(ten)); }), "a multiple of the 3 ranks"));
        CHECK(has(refused([&](comm& c) { all_to_all<direct>(c, std::span<float const>(nine), std::span(nine)); }),
                  "input and output are the same buffer"));
        CHECK(has(refused([&](comm& c) { broadcast<chain>(c, std::span(ten), 3); }),
                  "broadcast: root = 3 in a group of 3 ranks: it is a number from 0 to 2"));
        CHECK(has(refused([&](comm& c) { broadcast<chain>(c, std::span(ten), -1); }), "root = -1"));
        CHECK(has(refused([&](comm& c) { reduce<chain>(c, in, std::span(ten), 3); }), "reduce: root = 3"));
        CHECK(has(refused([&](comm& c) { gather<binomial_tree>(c, in, std::span(none), 3); }), "gather: root = 3"));
        CHECK(has(refused([&](comm& c) { scatter<direct>(c, in, std::span(nine), 3, 3); }), "scatter: root = 3"));
    }

    TEST_CASE("a strategy of one's own that is wrong is refused before anything moves") {
        struct hasty {
            static constexpr char const* name() { return "hasty"; }
            static constexpr collective_step step(int n, int rank, int s) noexcept {
                auto const step = direct::all_gather(n).at(rank, s);
                return n > 2 && s == n - 1 ? collective_step{} : step; // leaves without waiting for the readers
            }
            static constexpr schedule all_gather(int n) noexcept { return {"hasty", n, n, n, &step}; }
        };
        watchdog const guard("unproved");
        std::vector<float> x(30);
        threads::group two(2); // where it is right
        two.run([](comm& c) {
            std::vector<float> y(30);
            all_gather<hasty>(c, std::span(y));
        });
        CHECK(has(refused([&](comm& c) { all_gather<hasty>(c, std::span(x)); }),
                  "all_gather by hasty on 3 ranks lets a chunk be overwritten while it is read"));
    }

    TEST_CASE("a strategy of one's own that forgets the root is refused, and not taken for the proved one of root 0") {
        struct from_zero {
            static constexpr schedule broadcast(int n, int = 0) noexcept {
                auto s = direct::broadcast(n);
                s.name = "from_zero";
                return s;
            }
            static constexpr schedule gather(int n, int root = 0) noexcept {
                auto s = direct::gather(n, root);
                s.name = "from_zero";
                s.blocks = false; // block 0 comes from the root
                return s;
            }
        };
        watchdog const guard("roots");
        std::vector<float> x(6), all(18);
        auto const from = [&](int root) {
            return [&, root](comm& c) {
                std::vector<float> y(6);
                broadcast<from_zero>(c, y, root);
            };
        };
        auto const to = [&](int root) {
            return [&, root](comm& c) {
                std::vector<float> y(c.rank() == root ? 18 : 0);
                gather<from_zero>(c, std::span<float const>(x), std::span(y), root);
            };
        };
        threads::group three(3); // where both are right
        three.run(from(0));
        three.run(to(0));
        CHECK(has(refused(from(2)), "broadcast by from_zero is asked for root 2 and makes a schedule for root 0: give "
                                    "the schedule's `root` what the strategy is asked for"));
        CHECK(has(refused(to(2)),
                  "gather by from_zero on 3 ranks reads a chunk before its source is certain to have it"));
    }
}

} // namespace collective_misuse_test
