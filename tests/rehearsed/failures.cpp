// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What goes wrong on accelerators: rehearsed on the host.

#include <support/networks.hpp>

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>
#include <support/floats.hpp>

#include <chrono>
#include <stdexcept>
#include <string>

namespace rehearsed_failures_test {
using namespace trireme;
using rehearsal_runtime::budget;
using rehearsal_runtime::stage;
using rehearsal_runtime::timing;

using test_networks::made_up;
using perceptron = network<input<1, 28, 28>, flatten, linear<10>>;

template<class... Policies>
using on_two = trainer<perceptron, cross_entropy, sgd, on<mesh<rehearsal, dp<2>>>, Policies...>;

/// Fails on device 1 at one point of step 2.
template<fault_point Point>
struct fails {
    static void at(fault_point p, int device, std::uint64_t step) {
        if (p == Point && device == 1 && step == 2) throw std::runtime_error("the coolant is gone");
    }
};

template<fault_point Point>
void fails_and_refuses() {
    on_two<with_faults<fails<Point>>> t{{.batch = 8}};
    auto const images = made_up(8);
    t.step(images);
    try {
        t.step(images);
        FAIL("nothing was thrown");
    } catch (device_error const& e) {
        CHECK(e.device() == 1);
        CHECK(std::string(e.what()) == "device 1: the coolant is gone");
    }
    CHECK_THROWS_WITH_AS(t.step(images), doctest::Contains("construct a new one"), usage_error);
    CHECK_THROWS_AS(t.gather_parameters(), usage_error);
}

struct put_back {
    put_back() {
        stage::here().clear();
        stage::here().play(timing::late);
    }
    ~put_back() {
        stage::here().clear();
        stage::here().play(timing::late);
        budget.devices = rehearsal_runtime::memory_budget::most_devices;
        budget.total = std::size_t{1} << 40;
    }
};

TEST_SUITE("rehearsed/failures") {

    TEST_CASE("weights begin alike whatever the floating-point environment of the caller's thread") {
        put_back const _;
        on_two<> const wanted({.batch = 8, .seed = 3});
        for (auto const which : all_other_floats()) {
            in_other_floats const other(which);
            on_two<> const t({.batch = 8, .seed = 3});
            CHECK(other.holds());
            CHECK(test_networks::same_bits(test_networks::weights(t, 1), test_networks::weights(wanted, 1)));
        }
    }

    TEST_CASE("an exception at any point names the device and stops the trainer") {
        put_back const after;
        fails_and_refuses<fault_point::forward>();
        fails_and_refuses<fault_point::backward>();
        fails_and_refuses<fault_point::reduce>();
        fails_and_refuses<fault_point::update>();
    }

    TEST_CASE("work that is refused, wherever in a trainer's life: memory comes back, and the next trainer works") {
        put_back const after;
        auto const images = made_up(8);
        std::size_t const before[] = {budget.taken[0], budget.taken[1]};
        int refused = 0, alive = 0;
        for (std::uint64_t n = 0; n < 400; n += 7) {
            CAPTURE(n);
            stage::here().refuse(n);
            try {
                on_two<> t{{.batch = 8}};
                for (int k = 0; k < 3; ++k) t.step(images);
                ++alive;
            } catch (device_error const& e) {
                ++refused;
                CHECK(std::string(e.what()).find("the work was refused") != std::string::npos);
            }
            CHECK(budget.taken[0] == before[0]);
            CHECK(budget.taken[1] == before[1]);
            stage::here().clear();
        }
        CHECK(refused > 10); // while it is made, captured, and used
        CHECK(alive > 0);
        on_two<> t{{.batch = 8}};
        CHECK(t.step(images).step == 1);
    }

    TEST_CASE("a device that does not answer is a deadline error, and nothing waits for it afterwards") {
        put_back const after;
        auto const start = std::chrono::steady_clock::now();
        {
            on_two<> t{{.batch = 8}, {.deadline = std::chrono::milliseconds(200)}};
            auto const images = made_up(8);
            t.step(images);
            stage::here().stalled = true;
            try {
                t.step(images);
                FAIL("nothing was thrown");
            } catch (deadline_error const& e) {
                CHECK(e.device() == 0);
                std::string const text = e.what();
                CHECK(text.find("device 0 (rehearsal 0) did not finish within the deadline of 0.2 s") == 0);
                CHECK(text.find("training step 2") != std::string::npos);
                CHECK(text.find("raise the option `deadline`") != std::string::npos);
            }
            CHECK_THROWS_AS(t.evaluate(images), usage_error);
        }
        CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
    }

    TEST_CASE("a device that does not answer while a trainer is made") {
        put_back const after;
        stage::here().stalled = true;
        CHECK_THROWS_AS((on_two<>{{.batch = 8}, {.deadline = std::chrono::milliseconds(50)}}), deadline_error);
    }

    TEST_CASE("an observer's exception stops the trainer, as on the host") {
        put_back const after;
        on_two<> t{{.batch = 8}};
        auto const observe = [](progress_report const& p) {
            if (p.batch == 2) throw std::runtime_error("enough");
        };
        auto const train = [&] {
            for (auto const& e : t.fit({made_up(40), {}}, {.epochs = 1}, observe)) (void)e;
        };
        try {
            train();
            FAIL("nothing was thrown");
        } catch (device_error const& e) {
            CHECK(e.device() == 0); // though device 1 is waited for last
            CHECK(std::string(e.what()) == "device 0: enough");
        }
        CHECK_THROWS_AS(train(), usage_error);
    }

    TEST_CASE("memory: what was asked for, for what, and what is free") {
        put_back const after;
        budget.total = budget.taken[0] + 5'000'000;
        std::size_t const before[] = {budget.taken[0], budget.taken[1]};
        CHECK_THROWS_WITH_AS((on_two<>{{.batch = 8192}}), doctest::Contains("rehearsal 0 has no memory for the "),
                             usage_error);
        CHECK(budget.taken[0] == before[0]); // what had been taken was given back
        CHECK(budget.taken[1] == before[1]);
        on_two<> const t{{.batch = 8}};
    }

    TEST_CASE("fewer devices than the mesh has") {
        put_back const after;
        budget.devices = 1;
        CHECK_THROWS_WITH_AS((on_two<>{{.batch = 8}}),
                             doctest::Contains("a mesh of 2 devices of kind rehearsal was asked for, and 1 is there"),
                             usage_error);
        on_two<> t{{.batch = 8}, {.share_devices = true}};
        CHECK(t.step(made_up(8)).step == 1);
    }

    TEST_CASE("several processes need a transport that crosses them") {
        put_back const after;
        CHECK_THROWS_WITH_AS((on_two<>{{.batch = 8}, {.processes = process_of{0, 2, "id"}}}),
                             doctest::Contains("transport<peer> stays within one process"), usage_error);
    }
}

} // namespace rehearsed_failures_test
