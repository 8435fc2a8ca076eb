// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/core/errors.hpp>

#include <doctest/doctest.h>

#include <exception>
#include <stdexcept>
#include <string>

namespace core_errors_test {
namespace {

using namespace trireme;

} // namespace

TEST_SUITE("core/errors") {
    TEST_CASE("a data error says where") {
        data_error const e("images.idx", 17, "the header ends here");
        CHECK(std::string(e.what()) == "images.idx, byte 17: the header ends here");
        CHECK(e.path() == "images.idx");
        CHECK(e.offset() == 17);
    }

    TEST_CASE("a device error names the device and carries the cause") {
        device_error const e(3, std::make_exception_ptr(std::out_of_range("the cause")), "the cause");
        CHECK(std::string(e.what()) == "device 3: the cause");
        CHECK(e.device() == 3);
        CHECK_THROWS_WITH_AS(std::rethrow_exception(e.cause()), "the cause", std::out_of_range);
    }

    TEST_CASE("a deadline error names the device") {
        deadline_error const e(5, "device 5 did not arrive");
        CHECK(e.device() == 5);
        CHECK(std::string(e.what()) == "device 5 did not arrive");
    }

    TEST_CASE("callers that know only the standard library catch them") {
        CHECK_THROWS_AS(throw usage_error("batch = 0"), std::invalid_argument);
        CHECK_THROWS_AS(throw data_error("f", 0, ""), std::runtime_error);
        CHECK_THROWS_AS(throw deadline_error(0, ""), std::runtime_error);
        CHECK_THROWS_AS(throw device_error(0, nullptr, ""), std::runtime_error);
        CHECK_THROWS_AS(throw group_stopped(), std::exception);
    }
}

} // namespace core_errors_test
