// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/layer/loss.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

// A loss of a batch and its gradient, granule by granule, as trainers compute them.
namespace test_loss {
using namespace trireme;

/// Weights of classes that make_golden.py gives PyTorch.
struct weights_of_ten {
    static constexpr double of[] = {0.25, 1.0, 2.0, 0.0, 0.5, 1.5, 3.0, 0.75, 1.25, 0.1};
};

template<class Loss, class Out, class Kernels>
struct batch {
    using target = target_t<Loss, Out, double>;
    double mean = 0;
    std::vector<double> gradient; ///< by x
    std::size_t correct = 0;      ///< classes that have the largest logit; logits of labels on their side of 0

    /// `x` and `targets`: of one sample after the other.
    batch(std::vector<double> const& x, std::vector<target> const& targets) : gradient(x.size()) {
        constexpr std::size_t lanes = Kernels::template lanes<double>, values = Out::size;
        constexpr std::size_t wanted = target_extents<Loss, Out>::size;
        auto const samples = x.size() / values;
        REQUIRE(targets.size() == samples * wanted);
        batch_weight whole{static_cast<double>(samples), samples};
        if constexpr (detail::weighs_samples<Loss, Out, double>) {
            whole = {};
            for (std::size_t s = 0; s < samples; ++s) detail::add_weight<Loss, Out>(targets.data() + s * wanted, whole);
        }
        double sum = 0, evaluated = 0;
        for (std::size_t first = 0; first < samples; first += lanes) {
            auto const n = std::min(lanes, samples - first);
            std::vector<double> gx(values * lanes), gdx(values * lanes), loss(lanes), again(lanes), weight(lanes);
            std::vector<target> gt(wanted * lanes);
            std::vector<int> right(lanes);
            for (std::size_t lane = 0; lane < lanes; ++lane) {
                auto const s = first + std::min(lane, n - 1);
                weight[lane] = lane < n ? whole.scale() : 0;
                for (std::size_t i = 0; i < values; ++i) gx[i * lanes + lane] = x[s * values + i];
                for (std::size_t i = 0; i < wanted; ++i) gt[i * lanes + lane] = targets[s * wanted + i];
            }
            loss_operands<double, target> const to{gt.data(), weight.data(), loss.data(), nullptr};
            loss_operands<double, target> const by_evaluation{
                gt.data(), nullptr, again.data(), Loss::describe(Out::shape).has_answers() ? right.data() : nullptr};
            detail::apply_loss<true, Loss, Out, lanes>(Kernels{}, gx.data(), gdx.data(), to);
            detail::apply_loss<false, Loss, Out, lanes>(Kernels{}, gx.data(), static_cast<double*>(nullptr),
                                                        by_evaluation);
            for (std::size_t lane = 0; lane < n; ++lane) {
                sum += loss[lane];
                evaluated += again[lane];
                correct += static_cast<std::size_t>(right[lane]);
                for (std::size_t i = 0; i < values; ++i) gradient[(first + lane) * values + i] = gdx[i * lanes + lane];
            }
        }
        mean = whole.mean(sum);
        CHECK(whole.mean(evaluated) == doctest::Approx(mean).epsilon(1e-14));
    }
};

inline void check_equal(std::vector<double> const& ours, std::vector<double> const& torch) {
    REQUIRE(ours.size() == torch.size());
    for (std::size_t i = 0; i < torch.size(); ++i) {
        CAPTURE(i);
        CHECK(ours[i] == doctest::Approx(torch[i]).epsilon(1e-12).scale(1.0));
    }
}

} // namespace test_loss
