// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>

namespace parallel_plan_text_test {
using namespace trireme;

namespace {

using net = network<input<4>, linear<8>, relu, linear<3>>;
template<int Devices>
using on_devices = trainer<net, cross_entropy, sgd_momentum, on<mesh<host, dp<Devices>>>>;

/// A map of which one part is the largest.
template<memory_area memory_map::* Part>
memory_map with_most(parallel_layout const&, std::size_t, int rank) {
    memory_map m;
    m.parameters.bytes = m.gradients.bytes = m.activations.bytes = 1000;
    (m.*Part).bytes = 2000 + static_cast<std::size_t>(rank);
    return m;
}

/// The text of the usage_error that stands for an exception of a trainer's constructor; "" if that is thrown on.
std::string explained(std::exception_ptr const& thrown, memory_map (*map)(parallel_layout const&, std::size_t, int)) {
    auto const layout = on_devices<2>::layout_of({});
    try {
        std::rethrow_exception(thrown);
    } catch (...) {
        try {
            detail::explain_bad_alloc(layout, 32, map, "trainer");
        } catch (usage_error const& e) {
            return e.what();
        }
    }
    return {};
}

std::exception_ptr on_device(int device, std::exception_ptr const& cause) {
    return std::make_exception_ptr(device_error(device, cause, "as it is"));
}

} // namespace

TEST_SUITE("parallel/plan_text") {
    TEST_CASE("a plan is printed as a table of what it costs") {
        auto const cost = on_devices<2>::plan(batch{1024});
        std::ostringstream out;
        out << cost;
        CHECK(out.str() == to_string(cost));
        auto const own = cost.memory();
        CHECK(to_string(cost) == "batch               1,024 samples on 2 devices\n"
                                 "parameters          67\n"
                                 "running statistics  0\n"
                                 "memory              " +
                                     with_commas(own.total()) +
                                     " bytes per device\n"
                                     "  parameters        320\n"
                                     "  gradients         320\n"
                                     "  optimizer state   " +
                                     with_commas(own.optimizer_state) +
                                     "\n"
                                     "  activations       " +
                                     with_commas(own.activations) +
                                     "\n"
                                     "  control           " +
                                     with_commas(own.control) +
                                     "\n"
                                     "between devices     " +
                                     with_commas(cost.wire_bytes_per_step()) +
                                     " bytes per step\n"
                                     "operations          " +
                                     with_commas(cost.flops_per_step()) + " FLOPs per step\n");
        CHECK(to_string(on_devices<1>::plan(batch{16})).starts_with("batch               16 samples on 1 device\n"));
        CHECK(to_string(on_devices<1>::plan(batch{1})).starts_with("batch               1 sample on 1 device\n"));
    }

    TEST_CASE("a plan of a pipeline has its stages and its bubble") {
        using mesh_of_both = mesh<host, dp<2>, pp<2>>;
        using four = trainer<network<input<4>, linear<8>, relu, linear<8>, relu, linear<8>, relu, linear<3>>,
                             cross_entropy, sgd, on<mesh_of_both>, pipeline<interleaved<2>, 4>>;
        auto const plan = four::plan(batch{64});
        CAPTURE(to_string(plan));
        auto const bubble = [](training_plan const& p) {
            char line[64];
            std::snprintf(line, sizeof line, "bubble              %.1f%% of a step\n", 100 * p.bubble());
            return std::string(line);
        };
        CHECK(plan.bubble() > 0.01);
        CHECK(plan.bubble() < 1);
        CHECK(to_string(plan).starts_with("batch               64 samples on 4 devices\nstages              4\n" +
                                          bubble(plan) + "parameters          "));
        auto const of_model = model<net, on<mesh_of_both>, pipeline<one_f_one_b, 2>>::plan(batch{64});
        CHECK(to_string(of_model).starts_with("batch               64 samples on 4 devices\nstages              2\n" +
                                              bubble(of_model) + "parameters          67\n"));
    }

    TEST_CASE("the part that takes most memory is named, with a remedy") {
        auto const none = std::make_exception_ptr(std::bad_alloc());
        CHECK(
            explained(on_device(1, none), &with_most<&memory_map::activations>) ==
            "device 1 has no memory for this trainer: the plan asks for 4,001 bytes on device 1 (parameters 1,000, "
            "gradients 1,000, activations 2,001), and for 8,001 on all 2; most are activations: use a smaller batch, a "
            "smaller network, or recompute");
        CHECK(explained(none, &with_most<&memory_map::gradients>) ==
              "the host has no memory for this trainer: the plan asks for 4,000 bytes on device 0 (parameters 1,000, "
              "gradients 2,000, activations 1,000), and for 8,001 on all 2; most are gradients: use a smaller network, "
              "or "
              "cut it into stages of several machines");
        auto const ends = [&](std::string const& remedy, auto* map) {
            auto const text = explained(on_device(0, none), map);
            CAPTURE(text);
            CHECK(text.ends_with("; most are " + remedy));
        };
        ends("parameters: use a smaller network, or cut it into stages of several machines",
             &with_most<&memory_map::parameters>);
        ends("optimizer state: use an optimizer that keeps less, as sgd, or a smaller network",
             &with_most<&memory_map::optimizer_state>);
        ends("strategy state: use a strategy that does not compress, or a smaller network",
             &with_most<&memory_map::strategy_state>);
        ends("control: use fewer devices or a smaller batch", &with_most<&memory_map::channels>);
        ends("staging: use a smaller batch", &with_most<&memory_map::samples>);
        ends("workspace: use kernels without a workspace", &with_most<&memory_map::workspace>);
    }

    TEST_CASE("errors of other causes are thrown on") {
        auto const map = &with_most<&memory_map::gradients>;
        auto const other = std::make_exception_ptr(std::runtime_error("is full"));
        CHECK(explained(other, map) == "");
        CHECK(explained(on_device(1, other), map) == "");
        CHECK(explained(on_device(1, nullptr), map) == "");
        CHECK(explained(std::make_exception_ptr(3), map) == "");
    }
}

} // namespace parallel_plan_text_test
