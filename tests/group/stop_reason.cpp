// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/group/transport/stop_reason.hpp>

#include <doctest/doctest.h>

#include <exception>
#include <stdexcept>
#include <string>

namespace group_stop_reason_test {
using namespace trireme;

namespace {

template<class E>
stop_reason of(E const& e) {
    return stop_reason::of(3, std::make_exception_ptr(e));
}

} // namespace

TEST_SUITE("group/stop_reason") {
    TEST_CASE("an exception is the same one in another process") {
        try {
            of(deadline_error(5, "late")).raise();
        } catch (deadline_error const& e) {
            CHECK(e.device() == 5);
            CHECK(std::string(e.what()) == "late");
        }
        try {
            of(peer_lost_error(2, 7, "gone")).raise();
        } catch (peer_lost_error const& e) {
            CHECK(e.device() == 2);
            CHECK(e.step() == 7);
        }
        CHECK_THROWS_AS(of(mismatch_error("two calls")).raise(), mismatch_error);
        try {
            of(std::runtime_error("broken")).raise();
        } catch (device_error const& e) {
            CHECK(e.device() == 3);
            CHECK(std::string(e.what()) == "device 3: broken");
        }
        try { // of another rank, passed on: not wrapped twice
            of(device_error(1, nullptr, "broken")).raise();
        } catch (device_error const& e) {
            CHECK(std::string(e.what()) == "device 1: broken");
        }
        CHECK_THROWS_AS(of(7).raise(), device_error);
        CHECK_THROWS_AS(stop_reason().raise(), device_error);
    }

    TEST_CASE("what a rank throws is told, and is a device_error here, too, whatever it is; what others know stays") {
        auto const thrown_by = [](auto const& what) {
            stop_reason told;
            try {
                run_or_stop(2, [&] { throw what; }, [&](stop_reason const& why) { told = why; });
            } catch (device_error const& e) {
                CHECK(told.what == stop_reason::kind::failed);
                CHECK(std::string(e.what()) == "device 2: " + told.text.get());
                return std::string(e.what());
            }
            return std::string("no device_error");
        };
        CHECK(thrown_by(42) == "device 2: an exception that is not derived from std::exception");
        CHECK(thrown_by(std::runtime_error("broken")) == "device 2: broken");
        CHECK(thrown_by(usage_error("a flag")) == "device 2: a flag");
    }

    TEST_CASE("a long text is cut, and memory that another process has spoilt is not overrun") {
        auto r = of(std::runtime_error(std::string(5000, 'x')));
        CHECK(r.text.get().size() == sizeof r.text.text - 1);
        for (auto& c : r.text.text) c = 'y'; // no end
        CHECK(r.text.get().size() == sizeof r.text.text - 1);
    }

    TEST_CASE("descriptions that are cut still differ where they have been cut off") {
        agreed_text a, b;
        a.set(std::string(5000, 'x') + 'a');
        b.set(std::string(5000, 'x') + 'b');
        CHECK(a.get() != b.get());
        CHECK(a.get().size() < agreed_text::most);
        CHECK(a.get().find("... and so on, with digest ") != std::string::npos);
        b.set(std::string(5000, 'x') + 'a');
        CHECK(a.get() == b.get());
    }

    TEST_CASE("of two programs the first part that differs is named") {
        std::string const mine = "dp<2>; direct; seed 1; relu";
        CHECK_NOTHROW(require_one_program(0, mine, 3, mine));
        CHECK_THROWS_WITH_AS(require_one_program(0, mine, 3, "dp<2>; direct; seed 2; tanh"),
                             doctest::Contains("rank 0 has seed 1, rank 3 has seed 2; start"), launch_error);
        CHECK_THROWS_WITH_AS(require_one_program(1, mine, 0, "dp<4>; direct"),
                             doctest::Contains("rank 1 has dp<2>, rank 0 has dp<4>; start"), launch_error);
    }
}

} // namespace group_stop_reason_test
