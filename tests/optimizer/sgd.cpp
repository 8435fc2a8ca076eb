// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <golden/hash.hpp>
#include <support/golden.hpp>
#include <trireme/trireme.hpp>

#include <trireme/device/host/kernels/reference/sgd.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace optimizer_sgd_test {
using namespace trireme;
namespace golden = trireme_golden;

namespace {

struct rates {
    double learning_rate, momentum, weight_decay;
};

template<class Optimizer, class Kernels>
void check_updates(std::string const& kind) {
    CAPTURE(kind);
    golden::file const file("sgd");
    auto const expected = file.numbers(kind + ".w");
    REQUIRE(expected.size() == 5 * 4);
    rates const o = {file.number("learning_rate"), file.number(kind + ".momentum"),
                     file.number(kind + ".weight_decay")};
    auto w = golden::tensor<double>(300, 4, 1.0);
    std::vector<double> state(4 * Optimizer::state_per_parameter);
    for (std::uint64_t k = 0; k < 5; ++k) {
        auto const gradient = golden::tensor<double>(301 + k, 4, 1.0);
        Optimizer::update(Kernels{}, w.data(), gradient.data(), state.data(), w.size(),
                          Optimizer::template numbers<double>(o));
        for (std::size_t i = 0; i < 4; ++i) CHECK(w[i] == doctest::Approx(expected[4 * k + i]).epsilon(1e-13));
    }
}

} // namespace

TEST_SUITE("optimizer/sgd") {
    TEST_CASE_TEMPLATE("updates equal PyTorch's", Kernels, portable, reference) {
        check_updates<sgd, Kernels>("plain");
        check_updates<sgd, Kernels>("plain_wd");
        check_updates<sgd_momentum, Kernels>("momentum");
        check_updates<sgd_momentum, Kernels>("momentum_wd");
        check_updates<sgd_nesterov, Kernels>("nesterov");
        check_updates<sgd_nesterov, Kernels>("nesterov_wd");
    }

    TEST_CASE("golden values that are not there: errors name the file and the tensor") {
        golden::file const file("sgd"), none("none");
        auto const refuses = [](auto const& read, char const* path, char const* what) {
            CHECK_THROWS_WITH_AS(read(), doctest::Contains(path), data_error);
            CHECK_THROWS_WITH(read(), doctest::Contains(what));
        };
        refuses([&] { none.numbers("plain.w"); }, "golden/none.safetensors", "cannot be opened");
        refuses([&] { file.numbers("plain.v"); }, "golden/sgd.safetensors", "no tensor 'plain.v'");
        refuses([&] { file.integers("plain.w"); }, "golden/sgd.safetensors",
                "'plain.w' is F64 [5, 4], and wanted is I64");
        refuses([&] { file.number("plain.w"); }, "golden/sgd.safetensors", "'plain.w' is F64 [5, 4]");
    }
}

} // namespace optimizer_sgd_test
