// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <golden/hash.hpp>
#include <golden/sgd.hpp>
#include <trireme/trireme.hpp>

#include <trireme/device/host/kernels/reference/sgd.hpp>

using namespace trireme;
namespace golden = trireme_golden;

namespace {

struct rates {
    double learning_rate, momentum, weight_decay;
};

template<class Optimizer, class Kernels>
void check_updates(double const (&expected)[20], rates const& o) {
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
        namespace g = golden::sgd;
        check_updates<sgd, Kernels>(g::plain::w, {g::lr, 0, 0});
        check_updates<sgd, Kernels>(g::plain_wd::w, {g::lr, 0, g::plain_wd::weight_decay});
        check_updates<sgd_momentum, Kernels>(g::momentum::w, {g::lr, g::momentum::momentum, 0});
        check_updates<sgd_momentum, Kernels>(g::momentum_wd::w,
                                             {g::lr, g::momentum_wd::momentum, g::momentum_wd::weight_decay});
        check_updates<sgd_nesterov, Kernels>(g::nesterov::w, {g::lr, g::nesterov::momentum, 0});
        check_updates<sgd_nesterov, Kernels>(g::nesterov_wd::w,
                                             {g::lr, g::nesterov_wd::momentum, g::nesterov_wd::weight_decay});
    }
}
