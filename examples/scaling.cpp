// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// scaling [--quick] [--svg FILE]    when does a second device pay?
//
// LeNet and ResNet-18 on one and on two devices, for several batch sizes. For each, the time of a step is predicted
// before it is measured, in three parts: computation, synchronisation (adding gradients), and waiting for one another.
//
// The prediction takes from the plan who computes how many samples and which bytes move, and from a calibration the
// rest: alpha, beta and gamma of the links between threads, how long one device takes for a granule of samples, alone
// and while its neighbour computes, too, and by how much two such devices differ from step to step. Both are done
// several times in turn, for no machine is equally fast from second to second, and the median is shown. Then the same
// numbers answer for a cluster that is only described: "8 devices are 8 times as fast, why are 16 only 10 times?"

#include "calibration.hpp"
#include "resnet18.hpp"
#include "result_file.hpp"
#include "scaling_picture.hpp"
#include "standard_output.hpp"

#include <trireme/trireme.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

using namespace trireme;

// clang-format off
using lenet = network<input<1, 28, 28>,
    conv2d<6, kernel<5>, padding<2>>, sigmoid, avg_pool2d<2>,
    conv2d<16, kernel<5>>,            sigmoid, avg_pool2d<2>,
    flatten, linear<120>, sigmoid, linear<84>, sigmoid, linear<10>>;
// clang-format on

template<class Network>
using trainer_of = data_parallel_trainer<Network, cross_entropy, sgd, on<mesh<host, dp<dynamic>>>>;

/// A measurement repeats this often: steps of an epoch, epochs of a round.
struct repeats {
    int rounds, epochs, steps;
};

/// The one in the middle by its total.
step_seconds middle(std::vector<step_seconds> steps) {
    auto const at = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
    std::nth_element(steps.begin(), at, steps.end(),
                     [](auto const& a, auto const& b) { return a.total() < b.total(); });
    return *at;
}

struct measured_epochs {
    step_seconds median;
    std::vector<double> steps; ///< seconds of each step
};

template<class Trainer>
measured_epochs measure(Trainer& trainer, labelled_images const& images, repeats times) {
    measured_epochs m;
    std::vector<double> whole, agreeing;
    auto const some = images.take(0, trainer.plan().batch.samples * static_cast<std::size_t>(times.steps));
    double before = 0;
    auto const observe = [&](progress_report const& now) {
        if (now.epoch > 1) m.steps.push_back(now.seconds - (now.batch == 1 ? 0 : before));
        before = now.seconds;
    };
    for (auto const& epoch : trainer.fit({some, {}}, {.epochs = times.epochs + 1}, observe)) {
        if (epoch.epoch == 1) continue; // memory is touched, caches fill
        whole.push_back(epoch.seconds / times.steps);
        agreeing.push_back(epoch.seconds * epoch.sync_share / times.steps);
    }
    // What adding takes without waiting is what it takes when nobody is late.
    auto const quickest = *std::min_element(agreeing.begin(), agreeing.end());
    m.median.waiting = calibration::median(agreeing) - quickest;
    m.median.synchronisation = quickest;
    m.median.computation = calibration::median(whole) - m.median.synchronisation - m.median.waiting;
    return m;
}

/// Needs of a device: seconds per granule that is full, half as wide and a quarter as wide, per single sample, and
/// for the rest of a step (the update, mostly).
struct computation {
    double granule = 0, half = 0, quarter = 0, single = 0, rest = 0;
    double late = 0; ///< by how much of a step its neighbour is later, on average

    template<class Network>
    using pass = host_pass<Network, portable, float>;

    /// Samples are computed in granules, the last of which may be narrow ones, or single samples.
    template<class Network>
    double seconds(std::size_t samples) const {
        constexpr auto lanes = portable::lanes<float>;
        auto t = rest;
        auto const add = [&]<std::size_t N>(lane_count<N>, range const& some) {
            auto const taken = N == 1 ? N : pass<Network>::lanes_for(some.size());
            t += taken == 1 ? single : taken == lanes ? granule : taken == lanes / 2 ? half : quarter;
        };
        if constexpr (Network::whole_shard)
            t += static_cast<double>((samples + lanes - 1) / lanes) * granule;
        else
            for_granules<portable, float, pass<Network>::narrows>(range{0, samples}, add);
        return t;
    }
};

/// Devices that each train by themselves, at the same time: seconds of a step, and by how much of it the last one is
/// later than the first.
struct neighbours {
    double seconds, late;
};
template<class Network>
neighbours side_by_side(int devices, labelled_images const& images, std::size_t batch, repeats times) {
    std::vector<measured_epochs> each(static_cast<std::size_t>(devices));
    threads::group group(devices);
    group.run([&](threads::communicator& me) {
        trainer_of<Network> t({.learning_rate = 0.01f, .batch = batch});
        barrier<dissemination>(me);
        each[static_cast<std::size_t>(me.rank())] = measure(t, images, times);
    });
    auto const &first = each.front(), &last = each.back();
    std::vector<double> late; // of epochs
    auto const steps = static_cast<std::size_t>(times.steps);
    for (std::size_t i = 0; i < first.steps.size(); i += steps) {
        double own = 0, waiting = 0;
        for (auto k = i; k < i + steps; ++k) {
            own += first.steps[k];
            waiting += std::max(0.0, last.steps[k] - first.steps[k]);
        }
        late.push_back(waiting / own);
    }
    return {(first.median.total() + last.median.total()) / 2, calibration::median(late)};
}

template<class Network>
computation calibrated(int devices, labelled_images const& images, repeats times) {
    constexpr auto lanes = portable::lanes<float>;
    auto const one = side_by_side<Network>(devices, images, lanes, times),
               three = side_by_side<Network>(devices, images, 3 * lanes, times);
    computation c;
    c.granule = (three.seconds - one.seconds) / 2;
    c.rest = std::max(0.0, one.seconds - c.granule);
    c.late = (one.late + three.late) / 2;
    auto const seconds_of_step = [&](std::size_t samples) {
        return side_by_side<Network>(devices, images, samples, times).seconds;
    };
    constexpr bool narrows = computation::pass<Network>::narrows;
    if constexpr (constexpr auto few = narrows ? lanes / 8 : portable::one_by_one<float>;
                  !Network::whole_shard && few > 1) {
        auto const first = seconds_of_step(1);
        c.single = (seconds_of_step(few) - first) / (few - 1);
        c.rest = std::max(0.0, first - c.single);
    }
    if constexpr (narrows) {
        c.half = seconds_of_step(lanes / 2) - c.rest;
        c.quarter = seconds_of_step(lanes / 4) - c.rest;
        if (c.single == 0) c.single = seconds_of_step(1) - c.rest;
    }
    return c;
}

/// A step as the plan and the calibration see it.
template<class Network>
step_seconds predict(training_plan const& plan, computation const& each, machine const& links) {
    step_seconds p;
    auto const n = static_cast<std::size_t>(plan.devices());
    auto const of = [&](std::size_t d) { return each.seconds<Network>(part(plan.batch.samples, d, n).size()); };
    p.computation = of(0); // on which the clock is read
    if (n == 1) return p;
    double last = 0;
    for (std::size_t d = 0; d < n; ++d) last = std::max(last, of(d));
    p.waiting = last - p.computation + each.late * p.computation;
    auto const s = plan.layout.reduction(0, plan.arena_elements, plan.element_bytes);
    p.synchronisation = seconds_of(s, {plan.arena_elements, plan.element_bytes, s.chunks}, links);
    return p;
}

/// A cluster that is only described: machines of 8 such devices, and between them links of 10 Gbit/s with 20 us.
machine cluster_of(int devices, link_cost const& within_a_machine) {
    machine m;
    if (devices > 8) m.groups = levels(8, devices / 8);
    m.links[0] = within_a_machine;
    m.links[1] = {2e-5, 8e-10, within_a_machine.gamma, 1e-6};
    return m;
}

template<class Network>
void measure_network(char const* name, std::vector<std::size_t> const& batches, labelled_images const& images,
                     repeats times, std::vector<cell>& cells, std::vector<cluster_row>& clusters) {
    using trainer_type = trainer_of<Network>;
    auto const plan_of = [](std::size_t batch, int devices, levels const& groups = {}, strategy_choice s = direct{}) {
        parallel_layout layout{.replicas = devices, .strategy = s};
        layout.groups = groups;
        return trainer_type::plan(batch, layout);
    };
    constexpr std::size_t large = 1024; // a batch that 32 devices can share
    std::vector<std::vector<step_seconds>> predicted(2 * batches.size()), of_clusters(6);
    std::vector<std::vector<step_seconds>> measured(2 * batches.size());
    threads::group group(2);
    auto const bytes = round_up<std::size_t>(plan_of(1, 1).arena_elements * sizeof(float), 2 * cache_line);

    repeats const more{times.rounds, 3 * times.epochs, times.steps}; // of steps that are short
    for (int round = 0; round < times.rounds; ++round) {
        // before the runs: what a granule takes, and what the links take at the size of this network's gradients
        auto const alone = calibrated<Network>(1, images, more), both = calibrated<Network>(2, images, more);
        machine links;
        links.links[0] = calibration::measured(group, bytes);
        if (round == 0)
            std::printf(
                "%s: %.4g ms per %zu samples, beside another device %.4g ms and %.2g ms for the rest, one later "
                "than the other by %.2g%%; links of %.3g us, %.3g GB/s (the first of %d calibrations)\n",
                name, 1e3 * alone.granule, portable::lanes<float>, 1e3 * both.granule, 1e3 * both.rest, 100 * both.late,
                1e6 * links.links[0].alpha, 1e-9 / (links.links[0].beta + links.links[0].gamma), times.rounds);
        for (std::size_t i = 0; i < measured.size(); ++i) {
            auto const batch = batches[i / 2];
            int const devices = i % 2 == 0 ? 1 : 2;
            predicted[i].push_back(predict<Network>(plan_of(batch, devices), devices == 1 ? alone : both, links));
            trainer_type t({.learning_rate = 0.01f, .batch = batch}, {.devices = devices});
            measured[i].push_back(measure(t, images, times).median);
        }
        for (std::size_t i = 0; i < of_clusters.size(); ++i) {
            int const devices = 1 << i;
            auto const cluster = cluster_of(devices, links.links[0]);
            auto const strategy =
                devices > 8 ? strategy_choice(hierarchical<direct, ring>{}) : strategy_choice(direct{});
            of_clusters[i].push_back(
                predict<Network>(plan_of(large, devices, cluster.groups, strategy), both, cluster));
        }
    }

    for (std::size_t i = 0; i < measured.size(); ++i)
        cells.push_back({name, batches[i / 2], i % 2 == 0 ? 1 : 2, middle(predicted[i]), middle(measured[i])});
    for (std::size_t i = 0; i < of_clusters.size(); ++i) {
        auto const p = middle(of_clusters[i]);
        clusters.push_back({name, large, 1 << i, middle(of_clusters[0]).total() / p.total(), p});
    }
}

int main(int argc, char** argv) try {
    watch_standard_output();
    bool quick = false;
    std::string svg;
    for (int i = 1; i < argc; ++i) {
        if (std::strcmp(argv[i], "--quick") == 0)
            quick = true;
        else if (std::strcmp(argv[i], "--svg") == 0 && i + 1 < argc)
            svg = argv[++i];
        else
            throw usage_error(std::string("'") + argv[i] + "': usage: scaling [--quick] [--svg FILE]");
    }
    result_file picture("--svg", svg);
    if (host::processors() < 2)
        throw usage_error("scaling compares one device with two, and this process may use one processor only");
    auto const images = fashion_mnist::load().train.take(0, 2560);

    std::vector<cell> cells;
    std::vector<cluster_row> clusters;
    using large_network = resnet18<batch_norm<per_shard>>;
    if (quick) {
        measure_network<lenet>("LeNet", {256, 64, 16, 2}, images, {3, 10, 5}, cells, clusters);
        measure_network<large_network>("ResNet-18", {32}, images, {1, 2, 1}, cells, clusters);
    } else {
        measure_network<lenet>("LeNet", {256, 64, 16, 2}, images, {21, 7, 10}, cells, clusters);
        measure_network<large_network>("ResNet-18", {256, 128, 64, 32}, images, {3, 3, 1}, cells, clusters);
    }

    print_table(cells);
    explain(cells);
    print_clusters(clusters);
    if (picture.wanted()) picture.write(picture_of(cells));
} catch (std::exception const& e) {
    std::fprintf(stderr, "scaling: %s\n", e.what());
    return exit_code::of(e);
}
