// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/hash.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Options that optimizers take, and updates that PyTorch has made.

namespace optimizer_options {
using namespace trireme;

/// The options that a trainer hands to an optimizer.
template<class Optimizer>
using options_of = typename Optimizer::template options<option_fields<trainer_policies<>>::training>;

template<class Optimizer, class Options>
bool takes(Options const& o) {
    try {
        Optimizer::check(o);
    } catch (usage_error const&) {
        return false;
    }
    return true;
}

/// Names and values of all options that processes must agree in.
template<class Optimizer>
std::string described(auto const& o) {
    std::string text;
    Optimizer::describe(o, [&](char const* name, auto value) { text += name + (' ' + number_text(value)) + "; "; });
    return text;
}

/// Five updates of four weights give the weights of `expected`, one update behind the other. `update` gets the weights,
/// their gradients, the state, and the number of updates before.
template<class Optimizer, class Update>
void check_five_updates(std::vector<double> const& expected, double epsilon, Update const& update) {
    REQUIRE(expected.size() == 5 * 4);
    auto w = trireme_golden::tensor<double>(300, 4, 1.0);
    std::vector<double> state(4 * Optimizer::state_per_parameter);
    for (std::uint64_t made = 0; made < 5; ++made) {
        auto gradient = trireme_golden::tensor<double>(301 + made, 4, 1.0);
        update(w.data(), gradient.data(), detail::state_in<Optimizer>(state.data(), w.size(), 0), made);
        for (std::size_t i = 0; i < 4; ++i) CHECK(w[i] == doctest::Approx(expected[4 * made + i]).epsilon(epsilon));
    }
}

} // namespace optimizer_options
