// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One rank of the tests of pipelines over MPI: stages CASE REPLICAS STAGES [automatic|off|required]
// [RANKS_PER_MACHINE] [ARGUMENT]. stages.py starts it by mpirun, and looks at what it says and how it ends. `stages
// one_device` and `stages resume FOLDER` train on threads, to compare with.

#include <trireme/checkpoints.hpp>
#include <trireme/mpi.hpp>
#include <trireme/schedules.hpp>

#include <collective/channels.hpp>
#include <collective/matrix.hpp>
#include <collective/parts.hpp>
#include <support/allocation_hook.hpp>
#include <support/networks.hpp>
#include <support/tied_networks.hpp>
#include <support/traces.hpp>
#include <support/wires.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <unistd.h>

namespace {

using namespace trireme;
using namespace std::chrono_literals;
using test_collectives::require;
using test_networks::made_up;
using test_tying::several;

mpi_job job;
int replicas = 1, stages = 2;
std::string argument;

// ---- what goes over MPI, by the rank that it comes from ----

struct {
    std::vector<std::int64_t> by_links, by_collectives; ///< bytes, by rank
    MPI_Comm links = MPI_COMM_NULL;
} arrived;

// ---- trainings ----

/// The forward, or the backward, of a rank that fails in step 3.
struct {
    int rank = -1;
    std::string_view how;
} plan;

struct planned_faults {
    static void at(fault_point p, int rank, std::uint64_t step) {
        if (p != fault_point::backward || rank != plan.rank || step != 3) return;
        if (plan.how == "kill") raise(SIGKILL);
        if (plan.how == "stop") raise(SIGSTOP);
        if (plan.how == "stall") std::this_thread::sleep_for(6s);
        if (plan.how == "throw") throw std::runtime_error("the oar is broken");
    }
};

/// Tied rows, running statistics, dropout, and gradients that are clipped.
template<class... P>
using any_pipeline = trainer<several, cross_entropy, sgd_momentum, on<mesh<host, dp<dynamic>, pp<dynamic>>>,
                             reproducible<fixed_tree, dynamic>, clip_norm, P...>;
using over_mpi = any_pipeline<transport<mpi>, with_faults<planned_faults>>;
using over_threads = any_pipeline<>;

template<class Trainer>
typename Trainer::options training() {
    return {.learning_rate = 0.05f, .max_norm = 0.05f, .batch = 50, .seed = 3, .logical_shards = 8};
}
over_mpi::run_options layout(schedule_choice const& schedule = one_f_one_b{}) {
    return {
        .devices = replicas, .stages = stages, .schedule = schedule, .deadline = 20s, .trace = true, .processes = job};
}

/// A training with full and short batches, one of fewer samples than micro-batches, tests of few samples and of many,
/// and an epoch leaves this text.
constexpr std::uint64_t steps_of_training = 7;
template<class Trainer>
std::string train(Trainer& t) {
    std::vector<double> told;
    for (std::size_t const n : {50u, 37u, 5u, 50u}) {
        auto const step = t.step(made_up(n, n));
        told.insert(told.end(), {step.loss, step.gradient_norm});
    }
    for (std::size_t const n : {1u, 16u, 333u}) {
        auto const e = t.evaluate(made_up(n, 9));
        told.insert(told.end(), {e.loss, e.accuracy});
    }
    for (auto const& epoch : t.fit({made_up(130), made_up(53, 9)}, {.epochs = 1}))
        told.insert(told.end(), {epoch.loss, epoch.test.loss, epoch.test.accuracy});
    auto const asked = t.predict(made_up(21, 4));
    auto const parameters = t.gather_parameters(), buffers = t.gather_buffers();
    auto sum = digest_of(std::as_bytes(std::span(told)));
    for (auto const bytes : {std::as_bytes(std::span(parameters)), std::as_bytes(std::span(buffers)),
                             std::as_bytes(std::span<float const>(asked.values()))})
        sum = digest_of(bytes, sum);
    char text[200];
    std::snprintf(text, sizeof text, "last loss %a, all %016llx", told[6], static_cast<unsigned long long>(sum));
    return text;
}

namespace page {
using net = test_networks::small;
// [stages_between_machines]
using in_stages = trainer<net, cross_entropy, sgd_momentum, on<mesh<host, dp<2>, pp<2>>>, pipeline<zero_bubble_v, 4>,
                          reproducible<fixed_tree, 8>, transport<mpi>>;
// [/stages_between_machines]
using on_threads = trainer<net, cross_entropy, sgd_momentum, on<mesh<host, dp<2>, pp<2>>>, pipeline<zero_bubble_v, 4>,
                           reproducible<fixed_tree, 8>>;
static_assert(in_stages::plan(batch{64}).wire_bytes_per_step() == on_threads::plan(batch{64}).wire_bytes_per_step());
} // namespace page

// ---- the cases ----

/// The bits of one device, the program as the trace, the plan's bytes on the wire, and no allocation in a step.
void bits() {
    for (schedule_choice const& schedule :
         {schedule_choice(gpipe{}), schedule_choice(one_f_one_b{}), schedule_choice(zero_bubble_h1{}),
          schedule_choice(interleaved<2>{}), schedule_choice(zero_bubble_v{})}) {
        if (static_cast<std::size_t>(stages * schedule.chunks) > segments_of<several>.count) continue;
        over_mpi t(training<over_mpi>(), layout(schedule));
        auto const left = train(t);
        if (t.rank() == 0) std::printf("%s: %s\n", schedule.name, left.c_str());
        require(test_traces::trace_is_program(t, 1, steps_of_training) != 0, "no evaluation is in the trace");
        auto const full = made_up(50);
        require(test_wires::reads_as_planned(t, full, t.rank(), 1), "other bytes have moved than the plan says");
        require(test_wires::add_up(t.plan()), "the plan does not add up");
    }
    over_mpi t(training<over_mpi>(), {.devices = replicas, .stages = stages, .deadline = 20s, .processes = job});
    auto const full = made_up(50);
    for (int k = 0; k < 3; ++k) t.step(full);
    auto const before = allocation_hook::allocations.load();
    t.step(full);
    bool const allocated = allocation_hook::allocations != before; // a text is an allocation, too
    require(!allocated, "a step has allocated");
}

/// Each two ranks exchange this in a step by messages, by kind: moves of stages, tied rows, and collectives.
void traffic_by_pair() {
    job.windows = mpi_windows::off;
    over_mpi t(training<over_mpi>(), layout());
    auto const& l = t.plan().layout;
    auto const n = static_cast<std::size_t>(t.devices());
    auto const full = made_up(50);
    t.step(full);
    arrived.by_links.assign(n, 0);
    arrived.by_collectives.assign(n, 0);
    t.step(full);
    auto const links = std::exchange(arrived.by_links, {}), collectives = std::exchange(arrived.by_collectives, {});

    // what ranks tell one another of losses and norms goes over the links of no stage
    detail::traffic_by_peer sums(l, t.rank(), true);
    for (std::size_t const numbers : {gradient_pieces<several>({0, several::depth}).end, std::size_t{1}})
        sums.add_sum_over_roles(numbers, sizeof(double));
    auto const all_ranks = direct::all_reduce(t.devices()); // losses, of all shards
    std::vector<std::int64_t> of_collectives(n), of_links(n);
    detail::for_messages(all_ranks, t.rank(), {l.shards(), sizeof(double), all_ranks.chunks},
                         [&](rank_list const& ranks, bytes_t bytes) {
                             for (int k = 0; k < ranks.count; ++k)
                                 of_collectives[static_cast<std::size_t>(ranks.at(k, t.devices()))] +=
                                     static_cast<std::int64_t>(bytes);
                         });
    for (int peer = 0; peer < t.devices(); ++peer) {
        auto const p = static_cast<std::size_t>(peer);
        auto const both = static_cast<std::int64_t>(t.plan().wire(t.rank(), peer).bytes);
        auto const told = static_cast<std::int64_t>(sums.with(peer).bytes);
        bool const replica = l.role_of(peer) == l.role_of(t.rank());
        of_links[p] = replica ? 0 : both - told;
        of_collectives[p] += replica ? both : told;
    }
    auto const whole = [&](std::vector<std::int64_t> const& mine) { // [rank][peer]
        std::vector<std::int64_t> all(n * n);
        MPI_Allgather(mine.data(), static_cast<int>(n), MPI_INT64_T, all.data(), static_cast<int>(n), MPI_INT64_T,
                      MPI_COMM_WORLD);
        return all;
    };
    auto const is_links = whole(links), is_rest = whole(collectives);
    auto const planned_links = whole(of_links), planned_rest = whole(of_collectives);
    require(is_links == planned_links, "links have carried other bytes than the plan says");
    for (std::size_t a = 0; a < n; ++a) // the plan counts what a rank pushes for that rank
        for (std::size_t b = 0; b < a; ++b)
            require(is_rest[a * n + b] + is_rest[b * n + a] == planned_rest[a * n + b] + planned_rest[b * n + a],
                    "collectives have carried other bytes between ranks " + std::to_string(a) + " and " +
                        std::to_string(b) + " than the plan says");
    if (t.rank() == 0) std::printf("fine\n");
}

/// The trace has the exchanges that rows make inside of tasks, over all replicas.
void exchanges() {
    using sums = test_networks::every_sum;
    trainer<sums, cross_entropy, sgd, on<mesh<host, dp<dynamic>>>, transport<mpi>> t(
        {.batch = 24}, {.devices = replicas, .deadline = 20s, .trace = true, .processes = job});
    for (std::size_t const n : {24u, 7u}) t.step(made_up(n));
    t.evaluate(made_up(40));
    require(test_traces::trace_is_program(t, 1, 2) != 0, "no evaluation is in the trace");
    auto const found = std::ranges::count_if(t.traced(), [](timed_task const& task) { return task.exchange >= 0; });
    require(found == 2 * static_cast<std::ptrdiff_t>(sums::exchanges.count), "exchanges are not in the trace");
    if (t.rank() == 0) std::printf("fine\n");
}

/// Messages in pieces, as if a count of MPI could tell no more.
void pieces() {
    mpi_group g(job);
    g.run([](mpi_communicator& c) {
        c.messages().most_bytes() = 3;
        test_collectives::require_program(c, zero_bubble_v{}, 5, replicas);
    });
    if (g.rank() == 0) std::printf("fine\n");
}

/// Steps of programs on numbers that show what they were made of.
void programs() {
    for (schedule_choice const& schedule : {schedule_choice(one_f_one_b{}), schedule_choice(zero_bubble_v{})}) {
        mpi_group g(job);
        g.run([&](mpi_communicator& c) { test_collectives::require_program(c, schedule, 5, replicas); });
    }
    mpi_group g(job);
    g.run(
        [](mpi_communicator& c) { test_collectives::require_parts(c, mesh_value{{"dp", replicas}, {"pp", stages}}); });
    if (g.rank() == 0) std::printf("fine\n");
}

void fails() {
    plan = {std::atoi(argument.c_str() + argument.find(' ') + 1),
            std::string_view(argument).substr(0, argument.find(' '))};
    auto options = layout();
    options.deadline = 1500ms;
    over_mpi t(training<over_mpi>(), options);
    for (int k = 0; k < 5; ++k) t.step(made_up(50));
}

template<class Trainer>
std::string two_steps(Trainer& t) {
    double last = 0;
    for (int k = 0; k < 2; ++k) last = t.step(made_up(50, 1 + t.steps())).loss;
    auto const parameters = t.gather_parameters();
    char text[200];
    std::snprintf(text, sizeof text, "last loss %a, weights %016llx", last,
                  static_cast<unsigned long long>(digest_of(std::as_bytes(std::span(parameters)))));
    return text;
}
/// The first part of a training, into a folder, from which others go on; and what they should come to.
void save() {
    over_mpi t(training<over_mpi>(), layout(zero_bubble_h1{}));
    two_steps(t);
    save_checkpoint(t, argument);
    auto const left = two_steps(t);
    if (t.rank() == 0) std::printf("%s\n", left.c_str());
}
void load() {
    over_mpi t(training<over_mpi>(), layout());
    load_checkpoint(t, argument);
    auto const left = two_steps(t);
    if (t.rank() == 0) std::printf("%s\n", left.c_str());
}

struct {
    char const* name;
    void (*run)();
} constexpr cases[] = {
    {"bits", bits},     {"traffic", traffic_by_pair},
    {"pieces", pieces}, {"programs", programs},
    {"fails", fails},   {"save", save},
    {"load", load},     {"exchanges", exchanges},
};

} // namespace

/// Takes the place of MPI's, and counts.
extern "C" int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                         MPI_Request* request) {
    if (from >= 0 && static_cast<std::size_t>(from) < arrived.by_links.size())
        (comm == arrived.links ? arrived.by_links : arrived.by_collectives)[static_cast<std::size_t>(from)] += count;
    return PMPI_Irecv(data, count, type, from, tag, comm, request);
}
/// The third communicator that a group duplicates is that of its links.
extern "C" int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* made, MPI_Request* request) {
    static int duplicated = 0;
    int const status = PMPI_Comm_idup(comm, made, request);
    if (++duplicated == 3) arrived.links = *made;
    return status;
}

int main(int argc, char** argv) {
    std::string_view const name = argc > 1 ? argv[1] : "";
    auto const word = [&](int i) { return std::string(argc > i ? argv[i] : ""); };
    try {
        if (name == "one_device") {
            over_threads t(training<over_threads>());
            std::printf("%s\n", train(t).c_str());
            return 0;
        }
        if (name == "resume") {
            over_threads t(training<over_threads>(), {.devices = 3});
            load_checkpoint(t, word(2));
            std::printf("%s\n", two_steps(t).c_str());
            return 0;
        }
        replicas = std::atoi(word(2).c_str());
        stages = std::atoi(word(3).c_str());
        job.windows = word(4) == "off" ? mpi_windows::off : word(4) == "required" ? mpi_windows::required : job.windows;
        job.ranks_per_machine = std::atoi(word(5).c_str());
        argument = word(6);
        for (auto const& c : cases)
            if (name == c.name) {
                c.run();
                return 0;
            }
        return exit_code::usage;
    } catch (std::exception const& e) {
        std::fprintf(stderr, "SAID %s\n", e.what());
        return exit_code::failure;
    }
}
