// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// scaling [--quick] [--svg FILE]    when does a second device pay?
//
// LeNet and ResNet-18 on one and on two devices, for several batch sizes. For each, the time of a step is predicted
// before it is measured, in three parts: computation, synchronisation (adding gradients), and waiting for one another.
//
// The prediction takes from the plan who computes how many samples and which bytes move, and from a calibration the
// rest: alpha, beta and gamma of the links between threads, how much later than the caller the other device begins, and
// how long one device takes for a granule of samples while its neighbour computes, too. Then the same numbers answer
// for a cluster that is only described: "8 devices are 8 times as fast, why are 16 only 10 times?"

#include "calibration.hpp"
#include "resnet18.hpp"
#include "scaling_picture.hpp"

#include <trireme/core/exit_code.hpp>
#include <trireme/trireme.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
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

/// The medians of some steps on one batch, in seconds.
template<class Trainer>
measured_step measure(Trainer& trainer, labelled_images const& images, int steps) {
    std::vector<double> whole, agreeing;
    for (auto const& epoch : trainer.fit({images, {}}, {.epochs = steps + 1})) { // an epoch of one step
        if (epoch.epoch == 1) continue;                                          // memory is touched, caches fill
        whole.push_back(epoch.seconds);
        agreeing.push_back(epoch.seconds * epoch.sync_share);
    }
    // What adding takes without waiting is what it takes when nobody is late.
    auto const quickest = *std::min_element(agreeing.begin(), agreeing.end());
    measured_step m;
    m.total = calibration::median(whole);
    m.waiting = calibration::median(agreeing) - quickest;
    m.synchronisation = quickest;
    return m;
}

/// What one device needs while its neighbour is busy, too: seconds per full granule, per single sample, and for the
/// rest of a step (the update, mostly).
struct computation {
    double granule = 0, single = 0, rest = 0;

    /// Samples are computed in granules, and the last few one by one, or as a granule that is not full.
    template<class Network>
    double seconds(std::size_t samples) const {
        constexpr auto lanes = portable::lanes<float>;
        constexpr std::size_t few = Network::whole_shard ? 0 : portable::one_by_one<float>;
        auto const left = samples % lanes;
        auto t = rest + static_cast<double>(samples / lanes) * granule;
        if (left > few) return t + granule;
        return t + static_cast<double>(left) * single;
    }
};

/// The slower of two devices that each train by themselves, at the same time.
template<class Network>
double side_by_side(labelled_images const& images, std::size_t batch, int steps) {
    double seconds[2] = {};
    auto const work = [&](int k) {
        trainer_of<Network> t({.learning_rate = 0.01f, .batch = batch});
        seconds[k] = measure(t, images.take(0, batch), steps).total;
    };
    std::thread neighbour([&] { work(1); });
    work(0);
    neighbour.join();
    return std::max(seconds[0], seconds[1]);
}

template<class Network>
computation calibrated(labelled_images const& images, int steps) {
    constexpr auto lanes = portable::lanes<float>;
    auto const one = side_by_side<Network>(images, lanes, steps),
               three = side_by_side<Network>(images, 3 * lanes, steps);
    computation c;
    c.granule = (three - one) / 2;
    c.rest = std::max(0.0, one - c.granule);
    if constexpr (!Network::whole_shard) c.single = std::max(0.0, side_by_side<Network>(images, 1, 4 * steps) - c.rest);
    return c;
}

/// A step as the plan and the calibration see it; `late`: seconds by which the other devices begin later.
template<class Network>
predicted_step predict(training_plan const& plan, computation const& each, machine const& links, double late) {
    predicted_step p;
    auto const n = static_cast<std::size_t>(plan.devices());
    double last = 0, first = 0;
    for (std::size_t d = 0; d < n; ++d) {
        auto const t = each.seconds<Network>(part(plan.batch.samples, d, n).size());
        if (d == 0) first = t;
        last = std::max(last, d == 0 ? t : late + t);
    }
    p.computation = first;
    p.waiting = last - first; // of device 0, on which the clock is read
    if (n > 1) {
        auto const s = plan.layout.reduction(0, plan.arena_elements, plan.element_bytes);
        p.synchronisation = seconds_of(s, {plan.arena_elements, plan.element_bytes, s.chunks}, links);
    }
    return p;
}

template<class Network>
void measure_network(char const* name, std::vector<std::size_t> const& batches, labelled_images const& images,
                     int steps, std::vector<cell>& cells, std::vector<cluster_row>& clusters) {
    using trainer_type = trainer_of<Network>;
    auto const plan_of = [](std::size_t batch, int devices, levels const& groups = {}, strategy_choice s = direct{}) {
        data_parallel_layout layout{devices, s, 0, false};
        layout.groups = groups;
        return trainer_type::plan(batch, layout);
    };
    // before any run: what a granule takes, and what the links take at the size of this network's gradients
    auto const each = calibrated<Network>(images, steps);
    machine links;
    auto const bytes = round_up<std::size_t>(plan_of(1, 1).arena_elements * sizeof(float), 2 * cache_line);
    threads::group group(2);
    links.links[0] = calibration::measured(group, bytes);
    auto const late = calibration::seconds_late(group, links.links[0]);
    std::printf("%s: %.4g ms per %zu samples on a device, %.4g ms for the rest; links of %.3g us, %.3g GB/s; the other "
                "device begins %.3g us later\n",
                name, 1e3 * each.granule, portable::lanes<float>, 1e3 * each.rest, 1e6 * links.links[0].alpha,
                1e-9 / (links.links[0].beta + links.links[0].gamma), 1e6 * late);

    for (auto const batch : batches)
        for (int const devices : {1, 2}) {
            cell c;
            c.name = name;
            c.batch = batch;
            c.devices = devices;
            c.predicted = predict<Network>(plan_of(batch, devices), each, links, late);
            trainer_type t({.learning_rate = 0.01f, .batch = batch, .devices = devices});
            c.measured = measure(t, images.take(0, batch), steps);
            cells.push_back(c);
        }

    // A cluster: machines of 8 such devices, and between machines a link of 10 Gbit/s with 20 us.
    constexpr std::size_t large = 1024; // a batch that 32 devices can share
    double alone = 0;
    for (int const devices : {1, 2, 4, 8, 16, 32}) {
        int const machines = std::max(1, devices / 8);
        machine cluster;
        cluster.groups = machines > 1 ? levels(8, machines) : levels{};
        cluster.links[0] = links.links[0];
        cluster.links[1] = {2e-5, 8e-10, links.links[0].gamma, 1e-6};
        auto const strategy = machines > 1 ? strategy_choice(hierarchical<direct, ring>{}) : strategy_choice(direct{});
        auto const plan = plan_of(large, devices, cluster.groups, strategy);
        auto const p = predict<Network>(plan, each, cluster, late);
        if (devices == 1) alone = p.total();
        clusters.push_back({name, large, devices, alone / p.total(), p});
    }
}

int main(int argc, char** argv) try {
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
    std::ofstream picture;
    if (!svg.empty()) {
        picture.open(svg);
        if (!picture) throw usage_error("--svg " + svg + ": cannot be written; name a file in a folder that is yours");
    }
    if (host::processors() < 2)
        throw usage_error("scaling compares one device with two, and this process may use one processor only");
    auto const images = fashion_mnist::load().train.take(0, 1024);

    std::vector<cell> cells;
    std::vector<cluster_row> clusters;
    measure_network<lenet>("LeNet", {256, 64, 16, 2}, images, quick ? 51 : 401, cells, clusters);
    if (quick)
        measure_network<resnet18<batch_norm<per_shard>>>("ResNet-18", {32}, images, 2, cells, clusters);
    else
        measure_network<resnet18<batch_norm<per_shard>>>("ResNet-18", {256, 128, 64, 32}, images, 5, cells, clusters);

    print_table(cells);
    explain(cells);
    print_clusters(clusters);
    if (picture.is_open()) picture << picture_of(cells);
} catch (trireme::usage_error const& e) {
    std::fprintf(stderr, "scaling: %s\n", e.what());
    return trireme::exit_code::usage;
} catch (trireme::data_error const& e) {
    std::fprintf(stderr, "scaling: %s\n", e.what());
    return trireme::exit_code::usage;
} catch (std::exception const& e) {
    std::fprintf(stderr, "scaling: %s\n", e.what());
    return trireme::exit_code::failure;
}
