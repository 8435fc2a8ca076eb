// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Groups of processes: how they come to be, what they compute, how they end.

#include <trireme/processes.hpp>

#include <collective/all_to_allv.hpp>
#include <collective/channels.hpp>
#include <collective/convenience.hpp>
#include <collective/matrix.hpp>
#include <collective/parts.hpp>
#include <collective/rank_messages.hpp>
#include <doctest/doctest.h>
#include <group/no_threads.hpp>
#include <group/watchdog.hpp>
#include <support/files.hpp>
#include <support/forked.hpp>
#include <support/messages.hpp>
#include <support/seed.hpp>
#include <support/waiting.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

/// The next calls of fallocate are made while signals come all the time.
bool signals_come = false;

} // namespace

/// The tests' own, before that of the system: some kernels give the pages of a call back when a signal waits for its
/// end, others do not.
extern "C" int fallocate(int descriptor, int mode, off_t from, off_t bytes) {
    static int in_vain = 0;
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    if (!signals_come || sigismember(&blocked, SIGALRM) == 1)
        return static_cast<int>(syscall(SYS_fallocate, descriptor, mode, from, bytes));
    if (++in_vain == 1000) _exit(7); // it would go on for ever
    errno = EINTR;
    return -1;
}

namespace processes_group_test {
namespace {

using namespace trireme;
using namespace test_collectives;
using processes::meeting_place;
using comm = processes::communicator;
using test_support::has;
using test_waiting::comes_true;
using namespace std::chrono_literals;

/// Runs `f(communicator)` on forked ranks, which all have to succeed.
void in_processes(int ranks, std::function<void(comm&)> const& f, levels const& near = {}) {
    auto const place = meeting_place::create(ranks);
    forked_ranks all(ranks, [&](int rank) {
        processes::group g(place, rank, 60s, near);
        g.run(f);
    });
    all_end_well(all, 100s);
}

} // namespace

TEST_SUITE("processes/group") {
    TEST_CASE("every collective among 1 to 8 processes, as among threads") {
        watchdog const guard("every collective", 300);
        for (int const ranks : {1, 2, 3, 4, 5, 8}) in_processes(ranks, [](comm& c) { require_usual_strategies(c); });
    }

    TEST_CASE("collectives without strategies, by operations of one's own, with results and uneven blocks") {
        watchdog const guard("conveniences", 300);
        for (int const ranks : {1, 2, 3, 5}) in_processes(ranks, [](comm& c) { require_conveniences(c); });
    }

    TEST_CASE("blocks from every process to every other one, of sizes that they find out") {
        watchdog const guard("all_to_allv", 300);
        auto const seed = test_seed();
        for (int const ranks : {1, 2, 3, 5, 8})
            in_processes(ranks, [&](comm& c) {
                require_exchange<direct>(c, seed);
                require_known_to_root(c, seed);
            });
        mesh_value const m{{"dp", 2}, {"pp", 3}};
        in_processes(m.size(), [&](comm& c) {
            comm part(c, 1, mesh_group{{1}}.members(m, c.rank()));
            require_exchange<direct>(part, seed);
        });
    }

    TEST_CASE("messages between processes, and the step programs of a pipeline") {
        watchdog const guard("channels");
        for (int const ranks : {2, 3}) {
            in_processes(ranks, [](comm& c) { require_messages(c, 100); });
            in_processes(ranks, [](comm& c) {
                require_rank_messages(c, 5);
                require_messages_beside_a_sum(c);
            });
            in_processes(ranks, [](comm& c) { require_program(c, one_f_one_b{}, 9); });
        }
        in_processes(4, [](comm& c) { require_program(c, one_f_one_b{}, 5, 2); });
    }

    TEST_CASE("what a process has sent is there when it has ended") {
        watchdog const guard("sent and gone");
        in_processes(3, [](comm& c) {
            rank_messages messages(c);
            if (c.rank() != 2) return messages.send(2, std::vector<int>(5000, c.rank()));
            std::this_thread::sleep_for(200ms); // by then the others have left
            for (int const from : {1, 0})
                require(messages.receive<int>(from) == std::vector<int>(5000, from), "another message");
        });
    }

    TEST_CASE("collectives along the axes of a mesh, all groups at once") {
        watchdog const guard("parts");
        mesh_value const m{{"dp", 2}, {"pp", 3}};
        in_processes(m.size(), [&](comm& c) { require_parts(c, m); });
        in_processes(m.size(), [&](comm& c) { require_masked_part(c, m); });
    }

    TEST_CASE("a barrier holds everybody") {
        watchdog const guard("barrier");
        shared_value<std::atomic<int>> entered;
        in_processes(5, [&](comm& c) {
            for (int round = 1; round <= 50; ++round) {
                ++*entered;
                barrier<dissemination>(c);
                require(*entered >= 5 * round, "somebody had not come");
                barrier<direct>(c);
            }
        });
    }

    TEST_CASE("numbers in a rank's own arenas are used in place, at any offset; others are carried there and back") {
        watchdog const guard("arenas");
        in_processes(3, [&](comm& c) {
            auto const a = c.allocate(4096 * sizeof(float)), b = c.allocate(10 * sizeof(float));
            std::span const whole(static_cast<float*>(a.data), 4096);
            for (auto const x : whole) require(x == 0, "not zeroed");
            for (std::size_t const from : {std::size_t{0}, std::size_t{1}, std::size_t{77}}) {
                auto const part = whole.subspan(from, 999);
                for (std::size_t i = 0; i < part.size(); ++i) part[i] = static_cast<float>(number(c.rank(), i));
                all_reduce<ring>(c, part);
                for (std::size_t i = 0; i < part.size(); ++i)
                    require(part[i] == static_cast<float>(expected<op::sum>(3, i)), "wrong sum in an arena");
            }
            require(whole[998 + 77 + 1] == 0, "written beyond the part");
            // from a vector into an arena, and from an arena into a vector
            std::vector<float> own(10, static_cast<float>(c.rank())), sum(10);
            std::span const small(static_cast<float*>(b.data), 10);
            all_reduce<direct>(c, own, small);
            require(small[9] == 3, "wrong sum from a vector");
            all_reduce<direct>(c, small, sum);
            require(sum[0] == 9 && own[3] == static_cast<float>(c.rank()), "wrong sum into a vector");
            require(c.peer<float>(b, (c.rank() + 1) % 3)[5] == 3, "a peer's arena shows something else");
            // larger and larger, so that the place to carry things to is taken again
            for (std::size_t n = 1; n < 300'000; n *= 7) {
                std::vector<double> x(n, 1.0);
                all_reduce<ring>(c, x);
                require(x.front() == 3 && x.back() == 3, "wrong sum of many");
            }
        });
    }

    TEST_CASE("more arenas than there can be are refused") {
        in_processes(1, [](comm& c) {
            for (int i = 0; i < max_arenas; ++i) c.allocate(1);
            try {
                c.allocate(1);
            } catch (usage_error const&) {
                return;
            }
            throw std::runtime_error("an arena too many");
        });
    }

    TEST_CASE("memory that the machine has not is refused before it is touched, with the numbers") {
        try {
            processes::window::create(std::size_t{1} << 50, "a test");
            FAIL("a petabyte");
        } catch (processes::window_error const& e) {
            CHECK(has(e.what(), "1125899906842624 bytes"));
            CHECK(has(e.what(), "are available"));
        }
        // and no file system's limit counts: 200 MB are there where /dev/shm has 64
        if (processes::available_memory() > 1'000'000'000) {
            auto const w = processes::window::create(200'000'000, "a test");
            CHECK(static_cast<char const*>(w.data())[199'999'999] == 0);
            CHECK(ftruncate(w.descriptor(), 4096) != 0); // sealed: nobody can take it away
        }
    }

    TEST_CASE("signals that come again and again do not keep a window from its pages") {
        forked_ranks all(1, [](int) {
            signals_come = true;
            std::size_t const bytes = std::size_t{130} << 20;
            auto const w = processes::window::create(bytes, "a test");
            struct stat found{};
            require(fstat(w.descriptor(), &found) == 0, "there is no file");
            require(static_cast<std::size_t>(found.st_blocks) * 512 >= bytes, "pages are missing");
            sigset_t blocked;
            pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
            require(sigismember(&blocked, SIGALRM) == 0, "signals stay blocked");
        });
        all_end_well(all, 60s);
    }

    TEST_CASE("a peer's memory takes no descriptor; where there are too few the limit is named") {
        in_processes(3, [](comm& c) {
            std::vector<arena> mine;
            for (int i = 0; i < 4; ++i) mine.push_back(c.allocate(64));
            barrier<direct>(c);
            auto const descriptors = [] {
                return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
            };
            auto const before = descriptors();
            for (auto const& a : mine)
                for (int r = 0; r < 3; ++r) require(*c.peer<int>(a, r) == 0, "not zeroed");
            require(descriptors() == before, "descriptors of peers' memory stay open");
            barrier<direct>(c);
        });
        forked_ranks all(1, [](int) {
            auto const w = processes::window::create(4096, "a test");
            int const next = dup(w.descriptor());
            ::close(next);
            rlimit few{};
            getrlimit(RLIMIT_NOFILE, &few);
            few.rlim_cur = static_cast<rlim_t>(next);
            setrlimit(RLIMIT_NOFILE, &few);
            auto const refused = [](auto&& take) {
                return has(test_support::text_of_error<processes::window_error>(take), "(ulimit -n)");
            };
            require(refused([] { processes::window::create(4096, "a test"); }), "made");
            require(refused([&] { processes::window::open(getpid(), w.descriptor(), 4096, "a test"); }), "opened");
        });
        all_end_well(all, 60s);
    }

    TEST_CASE("memory is limited by the own control group and by each above it") {
        files::folder const root;
        auto const tell = [&](std::string const& path, std::string const& content) {
            std::filesystem::create_directories(std::filesystem::path(root.path(path)).parent_path());
            std::ofstream(root.path(path)) << content;
        };
        auto const available = [&] { return processes::available_memory(root.path()); };
        tell("proc/meminfo", "MemTotal: 4000 kB\nMemAvailable:  3000 kB\n");
        CHECK(available() == 3000 * 1024);

        // version 2: a job in a slice, of which the slice has less left
        tell("proc/self/cgroup", "0::/slice/job\n");
        tell("proc/self/mountinfo", "25 20 0:22 / /sys rw - sysfs sysfs rw\n"
                                    "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:9 master:3 - cgroup2 cgroup2 rw\n");
        tell("sys/fs/cgroup/slice/job/memory.max", "2000000\n");
        tell("sys/fs/cgroup/slice/job/memory.current", "500000\n");
        CHECK(available() == 1'500'000);
        tell("sys/fs/cgroup/slice/job/memory.stat", "anon 400000\ninactive_file 100000\n"); // makes room
        CHECK(available() == 1'600'000);
        tell("sys/fs/cgroup/slice/memory.max", "2100000\n");
        tell("sys/fs/cgroup/slice/memory.current", "1700000\n");
        CHECK(available() == 400'000);
        tell("sys/fs/cgroup/slice/memory.current", "2200000\n");
        CHECK(available() == 0);
        tell("sys/fs/cgroup/slice/memory.max", "max\n");
        CHECK(available() == 1'600'000);
        tell("sys/fs/cgroup/other/memory.max", "1\n"); // not above this one
        tell("sys/fs/cgroup/memory.max", "700000\n");
        CHECK(available() == 700'000);

        // a container that sees its own group as the whole tree, and one whose group cannot be seen
        for (auto const* group : {"/slice/job/inner", "/../elsewhere"}) {
            tell("proc/self/cgroup", std::string("0::") + group + "\n");
            tell("proc/self/mountinfo", "30 25 0:26 /slice/job /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
            tell("sys/fs/cgroup/inner/memory.max", "600000\n");
            CHECK(available() == (group[1] == 's' ? 600'000 : 700'000));
        }

        // version 1, beside version 2 without memory
        tell("proc/self/cgroup", "9:name=systemd:/a\n4:cpu,memory:/batch/job\n0::/\n");
        tell("proc/self/mountinfo", "30 25 0:26 / /unified rw - cgroup2 cgroup2 rw\n"
                                    "31 25 0:27 / /v1/cpuset rw - cgroup cgroup rw,cpuset\n"
                                    "32 25 0:28 / /v1/memory rw - cgroup cgroup rw,cpu,memory\n");
        tell("v1/memory/memory.limit_in_bytes", "9223372036854771712\n");
        tell("v1/memory/memory.usage_in_bytes", "900000\n");
        CHECK(available() == 3000 * 1024);
        tell("v1/memory/batch/memory.limit_in_bytes", "1000000\n");
        tell("v1/memory/batch/memory.usage_in_bytes", "600000\n");
        tell("v1/memory/batch/memory.stat", "inactive_file 1\ntotal_inactive_file 50000\n");
        CHECK(available() == 450'000);
    }

    TEST_CASE("a rank whose heartbeat gets no thread says so, and the others learn of it") {
        watchdog const guard("no thread");
        auto const place = meeting_place::create(2);
        forked_ranks all(2, [&](int rank) {
            std::optional<no_threads> none;
            if (rank == 1) none.emplace();
            try {
                processes::group g(place, rank, 20s);
                none.reset();
                g.run([](comm& c) { barrier<direct>(c); });
            } catch (launch_error const&) {
                require(rank == 1, "a launch error elsewhere");
                throw;
            }
        });
        for (auto const& o : all.wait(10s)) {
            CAPTURE(o.said);
            CHECK(o.code == 3);
            CHECK(has(o.said, "the heartbeat of rank 1 needs a thread, and the system refuses one"));
        }
    }

    TEST_CASE("what cannot be opened is an error with a reason") {
        CHECK_THROWS_AS(meeting_place::open({getpid(), 999, 2}), processes::window_error);
        CHECK_THROWS_AS(meeting_place::create(0), usage_error);
        auto const place = meeting_place::create(2);
        auto where = place.where();
        where.ranks = 3; // as another program would have it
        CHECK_THROWS_AS(meeting_place::open(where), processes::window_error);
        CHECK_THROWS_AS(processes::group(place, 2), usage_error);
        CHECK_THROWS_AS(processes::group(place, 0, 1s, levels(3)), usage_error);
    }

    TEST_CASE("a process that was not forked finds the others by the address") {
        auto const place = meeting_place::create(2);
        auto const where = place.where();
        forked_ranks all(2, [&](int rank) {
            processes::group g(meeting_place::open(where), rank, 10s);
            g.run([](comm& c) {
                std::vector<int> x(5, 1);
                all_reduce<direct>(c, x);
                require(x[4] == 2, "wrong sum");
            });
        });
        all_end_well(all, 20s);
    }

    TEST_CASE("ranks that do not come, come twice, or are of another program are named") {
        watchdog const guard("joining");
        {
            auto const place = meeting_place::create(3);
            auto const& mine = place.table().slot(1).present;
            forked_ranks all(2, [&](int rank) {
                // rank 1 is there before the deadline of rank 0 begins
                if (rank == 0) require(comes_true([&] { return mine == processes::presence::here; }), "rank 1 is late");
                processes::group g(place, rank, rank == 0 ? std::chrono::seconds(1) : 90s);
            });
            for (auto const& o : all.wait(100s)) {
                CAPTURE(o.said);
                CHECK(o.code == 3);
                CHECK(has(o.said, "absent: 2"));
            }
        }
        {
            auto const place = meeting_place::create(2);
            shared_value<std::atomic<int>> joined, refused;
            forked_ranks all(3, [&](int rank) {
                if (rank == 2) {
                    require(comes_true([&] { return *joined == 2; }), "the two ranks are late");
                    try {
                        processes::group g(place, 0, 60s);
                    } catch (launch_error const&) {
                        ++*refused;
                        throw;
                    }
                    return;
                }
                processes::group g(place, rank, 60s);
                ++*joined;
                require(comes_true([&] { return *refused == 1; }), "the third process was not refused");
                g.run([](comm& c) {
                    std::vector<float> x(10, 1.0f);
                    all_reduce<ring>(c, x);
                    require(x[9] == 2, "wrong sum");
                });
            });
            auto const& o = all.wait(100s);
            CHECK(o[0].code == 0);
            CHECK(o[1].code == 0);
            CHECK(o[2].code == 3);
            CHECK(has(o[2].said, std::to_string(all.process(0)).c_str()));
            CHECK(has(o[2].said, "has been taken by process"));
        }
        {
            auto const place = meeting_place::create(2);
            forked_ranks all(2, [&](int rank) {
                processes::group g(place, rank, 5s, {}, rank == 0 ? "dp<2>, ring" : "dp<2>, direct");
            });
            for (auto const& o : all.wait(10s)) {
                CHECK(o.code == 3);
                CHECK(has(o.said, "dp<2>, ring"));
                CHECK(has(o.said, "dp<2>, direct"));
            }
        }
    }

    TEST_CASE("ranks of a larger group are named by their numbers there") {
        watchdog const guard("larger group");
        enum class how { throws, sums, leaves, reads };
        for (auto const way : {how::throws, how::sums, how::leaves, how::reads}) {
            CAPTURE(static_cast<int>(way));
            auto const place = meeting_place::create(2);
            forked_ranks all(2, [&](int rank) {
                processes::group g(place, rank, 20s, {}, {}, 10 + rank);
                g.run([&](comm& c) {
                    if (rank == 1 && way == how::throws) throw std::runtime_error("the oar is broken");
                    if (rank == 1 && way == how::reads) c.peer<float>({7, nullptr, 0}, 0);
                    std::vector<float> x(100, 1.0f);
                    run_schedule<float>(c, collective::all_reduce, ring::all_reduce(2), std::span(x),
                                        [&](reduction_view<float> const& v) -> bytes_t {
                                            if (rank == 1 && way == how::sums)
                                                throw std::runtime_error("the oar is broken");
                                            return v.elements * sizeof(float);
                                        });
                });
                if (rank == 1) throw std::logic_error("the hull is broken");
                g.run([](comm& c) { barrier<direct>(c); });
            });
            auto const& o = all.wait(10s);
            for (auto const& e : o) {
                CAPTURE(e.said);
                CHECK(e.code == 3);
                if (way == how::throws || way == how::sums) CHECK(e.said == "device 11: the oar is broken");
                if (way == how::reads) CHECK(has(e.said, "device 11: arena 7 of rank 10 is not there yet"));
            }
            if (way == how::leaves) CHECK(has(o[0].said, "device 11: an exception outside of its group took it away"));
        }
        auto const place = meeting_place::create(2);
        auto const said =
            test_support::text_of_error<deadline_error>([&] { processes::group(place, 0, 1ms, {}, {}, 10); });
        CHECK(has(said, "rank 10, one of 2 on its machine, waited for the others to join"));
        CHECK(has(said, "absent: at the places 1;"));
    }

    TEST_CASE("a fork's copy of a group ends by itself, refuses to be used, and shows the other ranks nothing") {
        watchdog const guard("forked");
        auto const refused = [](auto&& use) {
            try {
                use();
            } catch (usage_error const& e) {
                return has(e.what(), "in a process that was forked");
            }
            return false;
        };
        auto const ended_well = [](pid_t child) {
            int status = 0;
            return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        };
        auto const place = meeting_place::create(2);
        forked_ranks all(2, [&](int rank) {
            auto g = std::make_unique<processes::group>(place, rank, 20s);
            g->run([](comm& c) { barrier<direct>(c); });
            pid_t child = -1;
            try {
                g->run([&](comm& c) {
                    std::vector<float> x(100, 1.0f);
                    auto pending = start_all_reduce<ring>(c, x);
                    if (rank == 1 && (child = fork()) == 0) {
                        alarm(10); // a copy that hangs is ended
                        if (!refused([&] { pending.wait(); })) _exit(1);
                        throw std::runtime_error("of a child");
                    }
                    pending.wait();
                    require(x[99] == 2, "wrong sum");
                });
            } catch (device_error const&) {
                if (child != 0) throw;
                if (!refused([&] { g->own().allocate(1); })) _exit(2);
                if (!refused([&] { barrier<direct>(g->own()); })) _exit(3);
                g.reset();
                _exit(0);
            }
            if (rank == 1) {
                require(ended_well(child), "the copy inside of a run did not end well");
                child = fork();
                if (child == 0) {
                    alarm(10);
                    if (!refused([&] { g->run([](comm&) {}); })) _exit(1);
                    g.reset();
                    _exit(0);
                }
                require(ended_well(child), "the copy did not end well");
                std::this_thread::sleep_for(300ms); // the other rank looks after this one meanwhile
            }
            g->run([](comm& c) { barrier<direct>(c); });
        });
        all_end_well(all, 60s);
        forked_ranks threads(1, [&](int) {
            auto g = std::make_unique<threads::group>(3);
            g->run([](threads::communicator& c) { barrier<direct>(c); });
            auto const child = fork();
            if (child == 0) {
                alarm(10);
                if (!refused([&] { g->run([](threads::communicator&) {}); })) _exit(1);
                g.reset();
                _exit(0);
            }
            require(ended_well(child), "the copy of a group of threads did not end well");
            g->run([](threads::communicator& c) { barrier<direct>(c); });
        });
        all_end_well(threads, 30s);
    }

    TEST_CASE("64 ranks on one processor make progress") {
        watchdog const guard("64 ranks");
        auto const place = meeting_place::create(64);
        int gate[2]; // shut until all are there: ranks that wait would take the processor from who makes the others
        REQUIRE(::pipe(gate) == 0);
        forked_ranks all(64, [&](int rank) {
            char none;
            ::close(gate[1]);
            require(::read(gate[0], &none, 1) == 0, "the gate does not open");
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
            sched_setaffinity(0, sizeof one, &one);
            processes::group g(place, rank, 60s);
            g.run([](comm& c) {
                for (int i = 0; i < 5; ++i) {
                    std::vector<float> x(1000, 1.0f);
                    all_reduce<recursive_halving_doubling>(c, x);
                    require(x[999] == 64, "wrong sum");
                }
            });
        });
        for (int const end : gate) ::close(end);
        all_end_well(all, 100s);
    }

    TEST_CASE("logical shards in memory of the caller's own are carried whole") {
        std::size_t const n = 300, shards = 8;
        std::vector<double> want(n);
        for (std::size_t i = 0; i < n; ++i) want[i] = static_cast<double>(shards * i);
        in_processes(3, [&](comm& c) {
            auto const blocks = fixed_tree::blocks(shards_of(c.rank(), 3, shards));
            std::vector<double> x(n * blocks.depth());
            for (std::size_t b = 0; b < blocks.depth(); ++b)
                for (std::size_t i = 0; i < n; ++i) x[b * n + i] = static_cast<double>(blocks.block(b).size() * i);
            run_schedule<double>(c, collective::all_reduce, direct::all_reduce(3), std::span(x).first(n),
                                 add_in_fixed_tree(shards, n));
            require(std::equal(want.begin(), want.end(), x.begin()), "wrong sum");
        });
    }

    TEST_CASE("levels reach the strategies that take them") {
        in_processes(
            4,
            [](comm& c) {
                require(c.groups() == levels(2, 2), "other levels");
                require_every_collective<two_levels>(c);
            },
            levels(2, 2));
    }
}

} // namespace processes_group_test
