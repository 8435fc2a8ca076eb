// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One rank of the MPI tests: ranks CASE [automatic|off|required] [RANKS_PER_MACHINE] [ARGUMENT]. run.py starts it by
// mpirun, and looks at what it says and how it ends. `ranks threads N` trains on threads, to compare with.

#define DOCTEST_CONFIG_IMPLEMENT // a header of unit tests contains checks; this program runs none

#include <trireme/mpi.hpp>

#include <collective/all_to_allv.hpp>
#include <collective/convenience.hpp>
#include <collective/matrix.hpp>
#include <collective/rank_messages.hpp>
#include <mpi/parts.hpp>
#include <mpi/waits.hpp>
#include <support/diverging.hpp>
#include <support/networks.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace trireme;
using namespace test_collectives;
using namespace test_networks;
using namespace std::chrono_literals;

// ---- training ----

struct {
    int victim = -1;
    int signal = 0;
} plan; // in the backward pass of step 3

struct planned_faults {
    static void at(fault_point p, int rank, std::uint64_t step) {
        if (p == fault_point::backward && rank == plan.victim && step == 3) raise(plan.signal);
    }
};

namespace page {
using net = small;
// [transport]
using over_threads = trainer<net, cross_entropy, sgd, on<mesh<host, dp<4>>>, reproducible<fixed_tree, 8>>;
using over_processes =
    trainer<net, cross_entropy, sgd, on<mesh<host, dp<4>>>, reproducible<fixed_tree, 8>, transport<mpi>>;
// [/transport]
static_assert(over_threads::plan(batch{64}).wire_bytes_per_step() ==
              over_processes::plan(batch{64}).wire_bytes_per_step());

// [own_communicator]
void add_up(MPI_Comm mine, std::vector<float>& gradients) {
    mpi_group group({.comm = mine});
    group.run([&](mpi_communicator& me) { all_reduce<hierarchical<direct, ring>>(me, gradients); });
}
// [/own_communicator]
} // namespace page

template<class... P>
using small_trainer = any_layout<small, sgd_momentum, P...>;
using mpi_trainer = small_trainer<transport<mpi>>;

/// Losses and weights of some steps; checks that what has moved is what the plan says.
template<class Trainer>
void train(std::size_t shards, typename Trainer::run_options const& r, char const* what) {
    auto const images = made_up(200), test = made_up(50, 9);
    Trainer t({.learning_rate = 0.05f, .batch = 64, .seed = 3, .logical_shards = shards}, r);
    double sum = 0;
    std::uint64_t steps = 0;
    for (std::size_t const n : {std::size_t{64}, std::size_t{37}, std::size_t{9}, std::size_t{64}}) {
        sum += t.step(images.take(0, n)).loss;
        ++steps;
    }
    auto const score = t.evaluate(test);
    auto const moved = t.wire(t.rank()), planned = t.plan().wire(t.rank());
    require(moved.bytes == steps * planned.bytes,
            "other bytes have moved than the plan says: " + std::to_string(moved.bytes) + " for " +
                std::to_string(steps * planned.bytes));
    auto const parameters = t.gather_parameters();
    if (t.rank() == 0)
        std::printf("%s: losses %a, test %a %a, weights %016llx\n", what, sum, score.loss, score.accuracy,
                    static_cast<unsigned long long>(digest_of(std::as_bytes(std::span(parameters)))));
}

template<class... P>
void train_all(typename small_trainer<P...>::run_options r) {
    using Trainer = small_trainer<P...>;
    auto const by = [&r](strategy_choice const& s) {
        r.strategy = s;
        return r;
    };
    train<Trainer>(8, by(direct{}), "fixed_tree 8");
    train<Trainer>(0, by(ring{}), "ring");
    train<Trainer>(0, by(double_binary_tree{}), "double_binary_tree");
    using narrow = trainer<small, cross_entropy, sgd_momentum, on<mesh<host, dp<dynamic>>>,
                           reduce_by<compressed<bf16, ring>>, reproducible<fixed_tree, dynamic>, P...>;
    typename narrow::run_options n{.devices = r.devices};
    n.processes = r.processes;
    train<narrow>(0, n, "compressed ring");
}

// ---- the cases ----

mpi_job job;
int barriers_left = -1; ///< before this process stops itself; -1: it does not

/// Works on for longer than the deadline while the others have finished: they wait, and are not stuck.
void last_to_finish() {
    int rank = 0;
    {
        mpi_group g(job, 0, 1s);
        g.run([](mpi_communicator& c) { barrier<direct>(c); });
        rank = g.rank();
    }
    if (rank != 0) return;
    std::this_thread::sleep_for(4s);
    std::printf("fine\n");
}

/// Guards of two threads that do not end in the order in which they began; then the process sleeps outside of MPI.
void crossed_guards() {
    mpi_group const g(job);
    using guard = mpi_runtime::watchdog::guard;
    auto first = std::make_unique<guard>(0ms, "a first call");
    std::unique_ptr<guard> second;
    std::thread([&] { second = std::make_unique<guard>(100s, "a second call"); }).join();
    first.reset();
    std::thread([&] { second.reset(); }).join();
    std::this_thread::sleep_for(2500ms); // a second of the guard's, and one of the watchdog's
    std::printf("fine\n");
}

/// A deadline_error that says whether it came within 1.25 deadlines.
deadline_error timed(deadline_error const& e, std::int64_t begin, std::chrono::duration<double> limit) {
    auto const took = static_cast<double>(shared_clock() - begin) * 1e-9;
    return {e.device(), std::string(e.what()) + (took <= 1.25 * limit.count() ? " (in time)" : " (too late)") +
                            ", to blame: " + std::to_string(e.device())};
}

/// A group that rank 1 does not come to make, or in the making of which it is stopped, at the fourth argument's step.
void incomplete(int steps) {
    mpi_runtime::session::begin(30s);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    auto const begin = shared_clock();
    if (rank == 1 && steps == 0) std::this_thread::sleep_for(60s);
    if (rank == 1) barriers_left = steps - 1;
    try {
        mpi_group const g(job, 0, 2s);
    } catch (deadline_error const& e) {
        throw timed(e, begin, 2s);
    }
}

/// Rank 1 does not even begin MPI.
void without_mpi() {
    if (launch::discover().rank == 1) std::this_thread::sleep_for(60s);
    mpi_group const g(job, 0, 1s);
}

/// Rank 1 ends while the others go on.
void ends_early() {
    mpi_group g(job, 0, 20s);
    g.run([](mpi_communicator& c) { barrier<direct>(c); });
    if (g.rank() == 1) return;
    std::this_thread::sleep_for(500ms);
    g.run([](mpi_communicator& c) { barrier<direct>(c); });
}

/// Rank 1 throws outside of its two groups while the others go on in the second, which has the deadline.
void throws_outside(std::chrono::seconds deadline) {
    mpi_group const first(job); // has begun MPI
    mpi_group g(job, 0, deadline);
    g.run([](mpi_communicator& c) { barrier<direct>(c); });
    if (g.rank() == 1) throw std::runtime_error("the oar is broken");
    g.run([](mpi_communicator& c) { barrier<direct>(c); });
}

/// A fork's copy of a group, and of MPI, ends as if there were none.
void forked() {
    auto g = std::make_unique<mpi_group>(job, 0, 20s);
    g->run([](mpi_communicator& c) { barrier<direct>(c); });
    if (g->rank() == 1) {
        auto const child = fork();
        if (child == 0) {
            alarm(10);
            bool refused = false;
            try {
                g->run([](mpi_communicator&) {});
            } catch (usage_error const&) {
                refused = true;
            }
            g.reset();
            std::exit(refused ? 0 : 1);
        }
        int status = 0;
        require(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
                "the copy did not end well");
        std::this_thread::sleep_for(300ms); // the other rank looks after this one meanwhile
    }
    g->run([](mpi_communicator& c) { barrier<direct>(c); });
    if (g->rank() == 0) std::printf("fine\n");
}

/// No rank leaves before the last has come, by the clock of the machine.
template<class S>
void barrier_holds(mpi_communicator& c) {
    for (int round = 0; round < 10; ++round) {
        if (c.rank() == round % c.size()) std::this_thread::sleep_for(3ms);
        std::int64_t const came = shared_clock();
        barrier<S>(c);
        std::int64_t const left = shared_clock();
        std::int64_t last = 0;
        MPI_Allreduce(&came, &last, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
        require(left >= last, std::string("somebody had not come to the barrier of ") + S::name);
    }
}

/// A collective that is begun can wait, but not for another.
void begun(mpi_communicator& c) {
    std::vector<double> x(1000, 1.0);
    auto first = start_all_reduce<ring>(c, x);
    try {
        (void)start_all_reduce<direct>(c, x);
        require(false, "two collectives at once");
    } catch (usage_error const& e) {
        require(std::strstr(e.what(), "in flight") != nullptr, e.what());
    }
    std::this_thread::sleep_for(1200ms); // longer than the deadline, and nobody waits
    while (!first.advance()) std::this_thread::yield();
    first.wait();
    require(x[999] == c.size(), "a sum that was begun");
    require_messages_beside_a_sum(c);
}

void every_collective() {
    mpi_group g(job);
    if (g.rank() == 0) std::printf("%s\n", g.describe().c_str());
    g.run([](mpi_communicator& c) {
        require_usual_strategies(c);
        require_conveniences(c);
        require_exchange<direct>(c, 5);
        require_known_to_root(c, 5);
        require_rank_messages(c, 5);
        barrier_holds<dissemination>(c);
        barrier_holds<direct>(c);
        barrier_holds<hierarchical<direct, direct>>(c);
        auto const native_sums = all_reduce_by<native, float, op::sum>(c);
        auto const native_most = all_reduce_by<native, std::int32_t, op::max>(c);
        require(native_sums.wrong + native_most.wrong == 0, "MPI's own all-reduce");
        std::vector<double> x(1000, 1.0 + c.rank());
        all_reduce<native>(c, x, op::avg{});
        require(x[999] == 1 + 0.5 * (c.size() - 1), "MPI's own average");
        c.messages().most_bytes() = 1000; // as if a count could tell no more
        require_every_collective<ring, direct>(c);
    });
    if (g.size() > 3) return; // on few processors, many take longer than this deadline to make a group
    mpi_group impatient(job, 0, 1s);
    impatient.run(begun);
}

/// Weights that the last rank cannot read are taken by none, and the trainers go on.
void load_together(int ranks) {
    mpi_trainer t({.batch = 64}, {.devices = ranks, .processes = job});
    auto const before = weights(t, t.rank());
    auto const load = [&](bool broken) {
        t.load([&](std::span<float> parameters, std::span<float>) {
            if (broken && t.rank() == ranks - 1) throw data_error("the weights", 7, "are broken");
            std::fill(parameters.begin(), parameters.end(), 0.5f);
        });
    };
    try {
        load(true);
        require(false, "broken weights were loaded");
    } catch (data_error const&) {
        require(t.rank() == ranks - 1, "the error of another rank");
    } catch (device_error const& e) {
        require(e.device() == ranks - 1 && std::strstr(e.what(), "the weights, byte 7: are broken") != nullptr,
                e.what());
    }
    require(same_bits(weights(t, t.rank()), before), "weights have changed");
    load(false);
    require(weights(t, t.rank()).back() == 0.5f, "weights have not changed");
    t.step(made_up(64));
}

void bits() {
    int size = 0;
    {
        mpi_group const g(job);
        size = g.size();
        if (g.rank() == 0) std::printf("%s\n", g.describe().c_str());
    }
    train_all<transport<mpi>>({.devices = size, .processes = job});
    load_together(size);
}

void train_until_fault(int signal, int rank) {
    plan = {rank, signal};
    int const size = mpi_group(job).size();
    auto const images = made_up(64);
    small_trainer<transport<mpi>, with_faults<planned_faults>> t(
        {.batch = 64}, {.devices = size, .deadline = 1500ms, .processes = job});
    for (int i = 0; i < 5; ++i) t.step(images);
}

void different_calls() {
    mpi_group g(job, 0, 20s);
    g.run([](mpi_communicator& c) {
        std::vector<float> x(c.rank() == 1 ? 10 : 11);
        all_reduce<ring>(c, x);
        barrier<direct>(c);
    });
}

void broken_oar() {
    mpi_group g(job, 0, 20s);
    g.run([](mpi_communicator& c) {
        if (c.rank() == 1) throw std::runtime_error("the oar is broken");
        std::vector<float> x(10);
        for (int i = 0; i < 1000; ++i) {
            all_reduce<ring>(c, x);
            std::this_thread::sleep_for(1ms);
        }
    });
}

/// In the middle of a collective, where others wait for its numbers.
void broken_sum() {
    mpi_group g(job, 0, 20s);
    g.run([](mpi_communicator& c) {
        auto const a = c.allocate(100 * sizeof(float));
        std::span const x(static_cast<float*>(a.data), 100);
        for (int round = 0; round < 3; ++round)
            run_schedule<float>(c, collective::all_reduce, ring::all_reduce(c.size()), x,
                                [&](reduction_view<float> const& v) -> bytes_t {
                                    if (c.rank() == 1 && round == 2) throw std::runtime_error("the oar is broken");
                                    return v.elements * sizeof(float);
                                });
        barrier<direct>(c);
    });
}

/// A rank is killed, or stopped, that others send more to than MPI takes without it.
void long_sum_without(int rank, int signal, std::chrono::duration<double> limit) {
    std::int64_t begin = 0;
    try {
        mpi_group g(job, 0, limit);
        g.run([&](mpi_communicator& c) {
            std::vector<float> x(1'000'000);
            for (int i = 0;; ++i) {
                begin = shared_clock();
                if (i == 3 && c.rank() == rank) raise(signal);
                all_reduce<direct>(c, x);
            }
        });
    } catch (deadline_error const& e) {
        throw timed(e, begin, limit);
    }
}

/// Goes on for long, so that something can happen meanwhile.
void long_sums() {
    mpi_group g(job, 0, 1500ms);
    g.run([](mpi_communicator& c) {
        std::vector<float> x(1000);
        for (int i = 0; i < 5000; ++i) {
            all_reduce<ring>(c, x);
            std::this_thread::sleep_for(2ms);
        }
    });
}

/// MPI's own all-reduce, to which rank 1 does not come in time.
void late_for_native() {
    mpi_group g(job, 0, 1s);
    g.run([](mpi_communicator& c) {
        std::vector<float> x(10);
        all_reduce<native>(c, x);
        if (c.rank() == 1) std::this_thread::sleep_for(3s);
        all_reduce<native>(c, x);
    });
}

void mesh_of_four() {
    using four = trainer<small, cross_entropy, sgd, on<mesh<host, dp<4>>>, transport<mpi>>;
    four t({}, {.processes = job});
}

void two_programs() {
    mpi_group const all(job);
    bool const other = all.rank() == 1;
    mpi_group(job, all.size(), 20s, other ? "dp<2>, ring" : "dp<2>, direct");
}

/// One program, one flag of which rank 1 was given otherwise.
void other_rate() {
    mpi_trainer::options o{.learning_rate = 0.1f, .batch = 64};
    mpi_trainer::run_options r{.deadline = 20s, .processes = job};
    {
        mpi_group const all(job);
        r.devices = all.size();
        if (all.rank() == 1) o.learning_rate = 0.2f;
    }
    mpi_trainer const t(o, r);
}

/// Rank 1 has read other samples; nobody tests.
void other_samples() {
    int const ranks = mpi_group(job).size();
    mpi_trainer t({.batch = 64}, {.devices = ranks, .deadline = 20s, .processes = job});
    t.step(made_up(64));
    for (auto const& e : t.fit({made_up(200, t.rank() == 1 ? 8 : 7), {}}, {.epochs = 1})) (void)e;
    std::printf("trained\n");
}

/// A loss that is no number ends a step on all ranks, with the weights of the step before, and training goes on; in an
/// epoch it ends the program.
void diverges(int stages) {
    using test_diverging::table;
    int const ranks = mpi_group(job).size();
    test_diverging::any_trainer<transport<mpi>> t(
        {.learning_rate = 0.01f, .batch = 24, .logical_shards = 6},
        {.devices = ranks / stages, .stages = stages, .deadline = 20s, .processes = job});
    auto const bad = std::numeric_limits<float>::quiet_NaN();
    table const good(24), long_table(240, 100, bad);
    t.step(good);
    auto const weights = t.gather_parameters(), statistics = t.gather_buffers();
    for (std::size_t const at : {0u, 23u}) { // in the first shard, and in the last
        bool thrown = false;
        try {
            t.step(table(24, at, bad));
        } catch (divergence_error const& e) {
            thrown = e.intact();
        }
        require(thrown, "no error, or one of changed weights");
        require(same_bits(t.gather_parameters(), weights) && same_bits(t.gather_buffers(), statistics),
                "weights have changed");
    }
    require(std::isfinite(t.step(good).loss), "training does not go on");
    t.train(training_set{long_table.samples(), good.samples()}, {.epochs = 1});
}

void stuck_in_mpi() {
    mpi_group const g(job);
    mpi_runtime::watchdog::guard const guard(500ms, "MPI_Recv");
    int x = 0;
    if (g.rank() == 0) MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    std::this_thread::sleep_for(60s);
}

/// MPI is the program's own, and so is its communicator, whose messages are not touched.
void borrowed() {
    MPI_Init(nullptr, nullptr);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int sent = rank, got = -1;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(&got, 1, MPI_INT, (rank + size - 1) % size, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    {
        job.comm = MPI_COMM_WORLD;
        mpi_group g(job);
        g.run([](mpi_communicator& c) {
            require_every_collective<ring>(c);
            std::vector<int> x(100, 1);
            all_reduce<direct>(c, x);
            require(x[50] == c.size(), "wrong sum");
        });
    }
    MPI_Send(&sent, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    require(got == (rank + size - 1) % size, "a message of the program's own has been taken");
    MPI_Finalize();
    if (rank == 0) std::printf("fine\n");
}

/// NCCL's processes find one another by this exchange.
void shared_by_mpi() {
    auto const p = process_by_mpi();
    long long words[20] = {p.index == 0 ? 1234567890123456789 : 0};
    p.share(p.with, words, sizeof words);
    require(words[0] == 1234567890123456789, "other bytes than those of process 0");
    std::vector<float> x(10, static_cast<float>(p.index));
    page::add_up(MPI_COMM_WORLD, x);
    require(x[9] == static_cast<float>(p.count * (p.count - 1) / 2), "wrong sum");
    if (p.index == 0) std::printf("fine\n");
}

int victim = 0; // the fourth argument

struct {
    char const* name;
    void (*run)();
} constexpr cases[] = {
    {"matrix", every_collective},
    {"bits", bits},
    {"kill", [] { train_until_fault(SIGKILL, victim); }},
    {"kill_sum", [] { long_sum_without(victim, SIGKILL, 20s); }},
    {"stop_sum", [] { long_sum_without(victim, SIGSTOP, 2s); }},
    {"stop", [] { train_until_fault(SIGSTOP, victim); }},
    {"different", different_calls},
    {"throw", broken_oar},
    {"sum", broken_sum},
    {"long", long_sums},
    {"native", late_for_native},
    {"mesh", mesh_of_four},
    {"programs", two_programs},
    {"rate", other_rate},
    {"samples", other_samples},
    {"diverges", [] { diverges(victim); }},
    {"stuck", stuck_in_mpi},
    {"borrowed", borrowed},
    {"axes", [] { test_mpi::axes(job); }},
    {"parts", [] { test_mpi::refused_in_parts(job); }},
    {"native_part", [] { test_mpi::native_in_part(job); }},
    {"numbers", [] { test_mpi::native_of_other_numbers(job); }},
    {"stopped", [] { test_mpi::stopped_together(job); }},
    {"wraps", [] { test_mpi::numbers_begin_again(job); }},
    {"goes_on", [] { test_mpi::goes_on_after_exception(job); }},
    {"share", shared_by_mpi},
    {"last", last_to_finish},
    {"guards", crossed_guards},
    {"incomplete", [] { incomplete(victim); }},
    {"early", ends_early},
    {"outside", [] { throws_outside(std::chrono::seconds(victim)); }},
    {"no_mpi", without_mpi},
    {"forked", forked},
};

} // namespace

/// Takes the place of MPI's, which a group calls each time that its ranks meet while it comes to be.
extern "C" int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
    if (barriers_left == 0) raise(SIGSTOP);
    if (barriers_left >= 0) --barriers_left;
    return PMPI_Ibarrier(comm, request);
}

int main(int argc, char** argv) {
    std::string_view const name = argc > 1 ? argv[1] : "";
    if (name == "threads") {
        train_all<>({.devices = std::atoi(argv[2])});
        return 0;
    }
    std::string_view const windows = argc > 2 ? argv[2] : "automatic";
    job.windows = windows == "off"        ? mpi_windows::off
                  : windows == "required" ? mpi_windows::required
                                          : mpi_windows::automatic;
    job.ranks_per_machine = argc > 3 ? std::atoi(argv[3]) : 0;
    victim = argc > 4 ? std::atoi(argv[4]) : 0;
    try {
        for (auto const& c : cases)
            if (name == c.name) {
                c.run();
                return 0;
            }
        return exit_code::usage;
    } catch (launch_error const& e) {
        std::fprintf(stderr, "SAID %s\n", e.what());
        return exit_code::launch;
    } catch (std::exception const& e) {
        std::fprintf(stderr, "SAID %s\n", e.what());
        return exit_code::failure;
    }
}
