// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/weights.hpp>

#include <doctest/doctest.h>
#include <support/files.hpp>
#include <support/networks.hpp>
#include <support/waiting.hpp>
#include <trainer/planned_faults.hpp>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace trainer_failures_test {
using namespace trireme;
using namespace test_networks;
using namespace test_faults;
using namespace test_waiting;
using namespace std::chrono_literals;

namespace {

using faulty = any_layout<small, sgd, with_faults<planned_faults>>;
using faulty_once = any_replicas<host, small, cross_entropy, sgd, hold_weights<once>, with_faults<planned_faults>>;

/// True if the error names the device, and the task and step, but where the fault was between two tasks.
bool names_the_place(device_error const& e, fault_point at) {
    auto const said = "device " + std::to_string(e.device()) + ": the oar is broken";
    bool const computes = at == fault_point::forward || at == fault_point::backward;
    for (auto const* const task : {computes ? "train of micro-batch" : "update", "collective"})
        if (std::string(e.what()).starts_with(said + " (" + task))
            return std::string(e.what()).ends_with(", training step 2)");
    return at == fault_point::reduce && e.what() == said;
}

/// A layer of a user's own that gives its input on, and breaks when a test says so.
struct brittle {
    enum class place { nowhere, forward, backward };
    static inline std::atomic<place> breaks{place::nowhere};
    static inline std::atomic<bool> by_caller{true};
    static inline std::thread::id caller = {};

    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
        return d;
    }
    static void forward(auto const& io) {
        may_break(place::forward);
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = io.x[i];
    }
    static void backward_input(auto const& io) {
        may_break(place::backward);
        for (std::size_t i = 0; i < io.dy.size(); ++i) io.dx[i] = io.dy[i];
    }
    static void may_break(place here) {
        if (breaks == here && (std::this_thread::get_id() == caller) == by_caller)
            throw std::out_of_range("the layer is broken");
    }
};
/// A layer that keeps all devices but the caller's waiting, when a test says so.
struct drowsy {
    static inline std::atomic<std::chrono::milliseconds> sleeps{std::chrono::milliseconds(0)};

    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
        return d;
    }
    static void forward(auto const& io) {
        auto const planned = sleeps.load();
        if (planned.count() != 0 && std::this_thread::get_id() != brittle::caller) fall_asleep(planned);
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = io.x[i] + 1;
    }
    static void backward_input(auto const& io) {
        for (std::size_t i = 0; i < io.dy.size(); ++i) io.dx[i] = io.dy[i];
    }
};
using with_brittle = any_layout<network<input<1, 28, 28>, avg_pool2d<4>, flatten, linear<12>, brittle, linear<10>>>;

/// A job on `t` throws this, as the trainer's device `guilty` has thrown it.
template<class Cause, class Job>
void ends_as_error_of(int guilty, std::string const& words, Job&& job) {
    try {
        job();
        FAIL("nothing was thrown");
    } catch (device_error const& e) {
        CHECK(e.device() == guilty);
        CHECK(std::string(e.what()) == "device " + std::to_string(guilty) + ": " + words);
        CHECK_THROWS_AS(std::rethrow_exception(e.cause()), Cause);
    }
}

/// An error was there: a device may still be at work in the trainer's memory.
template<class Trainer>
void refuses_everything(Trainer& t) {
    auto const refused = [](auto&& f) {
        CHECK_THROWS_WITH_AS(f(), doctest::Contains("stopped by an earlier error on a device: construct a new one"),
                             usage_error);
    };
    auto const images = made_up(64);
    files::folder const folder;
    std::vector<typename Trainer::value_type> values(Trainer::network_type::parameters);
    refused([&] { t.step(images); });
    refused([&] { t.evaluate(images); });
    refused([&] { t.fit({images, {}}, {.epochs = 1}).begin(); });
    refused([&] { (void)t.gather_parameters(); });
    refused([&] { (void)t.gather_buffers(); });
    refused([&] { (void)t.wire(0); });
    refused([&] { t.load_parameters(values); });
    refused([&] { t.load_buffers({}); });
    refused([&] { t.set_learning_rate(0.5f); });
    refused([&] { save_weights(t, folder.path("weights")); });
    CHECK(std::filesystem::is_empty(folder.path()));
    auto const file = folder.write("weights", {1, 2, 3});
    refused([&] { load_weights(t, file); }); // before it looks at the file
}

} // namespace

TEST_SUITE("trainer/failures") {
    TEST_CASE("a device that throws stops the others; the caller learns which one, and why") {
        auto const images = made_up(64);
        for (auto const point : {fault_point::forward, fault_point::backward, fault_point::reduce, fault_point::update})
            for (int const devices : {1, 2, 4})
                for (int const guilty : {0, devices - 1})
                    for (strategy_choice const s : {strategy_choice(ring{}), strategy_choice(direct{})}) {
                        CAPTURE(static_cast<int>(point));
                        CAPTURE(guilty);
                        CAPTURE(devices);
                        plan_fault({point, guilty, 2, 0});
                        faulty t({.batch = 64},
                                 {.devices = devices, .strategy = s, .deadline = std::chrono::seconds(60)});
                        CHECK_NOTHROW(t.step(images));
                        auto const start = std::chrono::steady_clock::now();
                        try {
                            t.step(images);
                            // a fault behind the last collective may reach the caller without stopping anybody else
                            FAIL("the fault was swallowed");
                        } catch (device_error const& e) {
                            CHECK(e.device() == guilty);
                            CHECK_MESSAGE(names_the_place(e, point), std::string(e.what()));
                            CHECK_THROWS_WITH_AS(std::rethrow_exception(e.cause()), "the oar is broken",
                                                 std::runtime_error);
                        }
                        // far below the deadline: nobody waited for the dead
                        CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
                        CHECK_THROWS_AS(t.step(images), usage_error); // and the trainer says that it is over
                    }
        plan_fault();
    }

    TEST_CASE("after an error a trainer refuses everything: its weights are neither shown, saved nor changed") {
        for (int const devices : {1, 2}) {
            plan_fault({fault_point::update, devices - 1, 1, 0});
            faulty t({.batch = 64}, {.devices = devices});
            CHECK_THROWS_AS(t.step(made_up(64)), device_error);
            refuses_everything(t);
        }
        plan_fault();
    }

    TEST_CASE("a layer that throws ends a step, an epoch and a test as an error of its device") {
        auto const images = made_up(64);
        brittle::caller = std::this_thread::get_id();
        for (int const devices : {1, 2, 3})
            for (auto const place : {brittle::place::forward, brittle::place::backward})
                for (int job = 0; job < 3; ++job) {
                    if (job == 2 && place == brittle::place::backward) continue; // a test goes forward
                    CAPTURE(devices);
                    CAPTURE(static_cast<int>(place));
                    CAPTURE(job);
                    brittle::by_caller = devices != 2;
                    with_brittle t({.batch = 64}, {.devices = devices, .deadline = std::chrono::seconds(60)});
                    t.step(images);
                    brittle::breaks = place;
                    auto const start = std::chrono::steady_clock::now();
                    std::string const where = job == 2 ? " (evaluate of micro-batch 0 in stage 0, evaluation)"
                                                       : " (train of micro-batch 0 in stage 0, training step 2)";
                    ends_as_error_of<std::out_of_range>(devices == 2 ? 1 : 0, "the layer is broken" + where, [&] {
                        if (job == 0) t.step(images);
                        if (job == 1) t.fit({images, {}}, {.epochs = 1}).begin();
                        if (job == 2) t.evaluate(images);
                    });
                    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
                    brittle::breaks = brittle::place::nowhere;
                    CHECK_THROWS_AS(t.step(images), usage_error);
                }
    }

    TEST_CASE("an observer that throws ends the fit as an error of device 0, and the trainer") {
        auto const images = made_up(96);
        plan_fault();
        for (int const devices : {1, 3})
            for (bool const standard : {true, false}) {
                CAPTURE(devices);
                CAPTURE(standard);
                faulty t({.batch = 32}, {.devices = devices, .deadline = std::chrono::seconds(60)});
                int told = 0;
                auto epochs = t.fit({images, {}}, {.epochs = 2}, [&](progress_report const&) {
                    if (++told != 2) return;
                    if (standard) throw std::out_of_range("seen enough");
                    throw 42;
                });
                auto const start = std::chrono::steady_clock::now();
                if (standard)
                    ends_as_error_of<std::out_of_range>(0, "seen enough", [&] { epochs.begin(); });
                else
                    ends_as_error_of<int>(0, "an exception that is not derived from std::exception",
                                          [&] { epochs.begin(); });
                CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
                CHECK(told == 2);
                CHECK_THROWS_AS(t.step(images), usage_error);
            }
    }

    TEST_CASE("a stalled device is named by a deadline error, and nothing hangs") {
        auto const images = made_up(64);
        for (auto const point : {fault_point::backward, fault_point::update}) {
            auto const said = error_of_stall(
                {.point = point, .device = 2, .step = 3}, 300ms,
                [](std::chrono::milliseconds deadline) {
                    return faulty({.batch = 64}, {.devices = 4, .strategy = ring{}, .deadline = deadline});
                },
                [&](faulty& t) { t.step(images); });
            CAPTURE(said);
            CHECK(said.find("device 2") != std::string::npos);
            CHECK(said.find("deadline") != std::string::npos);
            if (point == fault_point::backward) // where the others wait in a collective
                CHECK(said.find(" of training step 3") != std::string::npos);
        }
    }

    TEST_CASE("so is one that stalls in a prediction, whose outputs it writes when nobody waits for them any more") {
        brittle::caller = std::this_thread::get_id();
        std::vector<float> const numbers(6 * 5000, 1.0f);
        samples_in_memory const asked(numbers, make_shape(6));
        using sleepy = model<network<input<6>, drowsy>, on<mesh<host, dp<2>>>>;
        auto const in_time = [&](sleepy& m) {
            m.load_parameters({});
            CHECK(m.predict(asked)[4999][5] == 2);
        };
        auto const found = with_time_enough(std::chrono::milliseconds(300), 1, [&](std::chrono::milliseconds deadline) {
            auto const outcome = outcome_of_stall([&] { return sleepy({}, {.deadline = deadline}); }, in_time,
                                                  [&](sleepy& m) {
                                                      drowsy::sleeps = 4 * deadline;
                                                      (void)m.predict(asked);
                                                  });
            drowsy::sleeps = std::chrono::milliseconds(0);
            until_all_awake();
            return outcome;
        });
        CAPTURE(found.said);
        REQUIRE(found.stalled);
        REQUIRE(found.device == 1);
        CHECK(found.said.find("device 1") != std::string::npos);
    }

    TEST_CASE("the same where the weights are held once, and a slice is updated in the middle of the collective") {
        auto const images = made_up(64);
        for (auto const point : {fault_point::forward, fault_point::backward, fault_point::reduce, fault_point::update})
            for (int const devices : {1, 2, 4})
                for (int const guilty : {0, devices - 1})
                    for (std::size_t const shards : {0u, 8u}) {
                        CAPTURE(static_cast<int>(point));
                        CAPTURE(guilty);
                        CAPTURE(devices);
                        CAPTURE(shards);
                        plan_fault({point, guilty, 2, 0});
                        faulty_once t({.batch = 64, .logical_shards = shards},
                                      {.devices = devices, .deadline = std::chrono::seconds(60)});
                        CHECK_NOTHROW(t.step(images));
                        auto const start = std::chrono::steady_clock::now();
                        try {
                            t.step(images);
                            FAIL("the fault was swallowed");
                        } catch (device_error const& e) {
                            CHECK(e.device() == guilty);
                            CHECK_MESSAGE(names_the_place(e, point), std::string(e.what()));
                        }
                        CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
                        CHECK_THROWS_AS(t.step(images), usage_error);
                    }
        for (auto const point : {fault_point::backward, fault_point::update}) {
            CAPTURE(static_cast<int>(point));
            auto const said = error_of_stall(
                {.point = point, .device = 2, .step = 1}, 300ms,
                [](std::chrono::milliseconds deadline) {
                    return faulty_once({.batch = 64}, {.devices = 4, .deadline = deadline});
                },
                [&](faulty_once& t) { t.step(images); });
            CAPTURE(said);
            CHECK(said.find("reduce_scatter") != std::string::npos);
        }
    }

    TEST_CASE("a slow device below the deadline is waited for, and the bits are those of a fast one") {
        auto const images = made_up(64);
        faulty::options const o{.batch = 64, .seed = 6};
        faulty::run_options const r{.devices = 3, .strategy = double_binary_tree{}};
        plan_fault();
        faulty fast(o, r);
        fast.step(images);
        plan_fault({fault_point::backward, 1, 1, 0.2});
        faulty slow(o, r);
        slow.step(images);
        CHECK(same_bits(weights(fast), weights(slow)));
        plan_fault();
    }

    TEST_CASE("a step that fails in fit reaches the loop; trainers can be made afterwards") {
        auto const images = made_up(128);
        plan_fault({fault_point::reduce, 1, 3, 0});
        {
            faulty t({.batch = 32}, {.devices = 2});
            auto epochs = t.fit({images, {}}, {.epochs = 2});
            CHECK_THROWS_AS(epochs.begin(), device_error);
        }
        plan_fault();
        faulty t({.batch = 32}, {.devices = 2});
        for (auto const& e : t.fit({images, {}}, {.epochs = 1})) CHECK(e.loss > 0);
    }

    TEST_CASE("without the policy there is no fault point") {
        static_assert(std::is_same_v<trainer_policies<>::faults, no_faults>);
        no_faults::at(fault_point::forward, 0, 0);
    }
}

} // namespace trainer_failures_test
