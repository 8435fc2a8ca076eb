// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/rehearsal/device.hpp>
#include <trireme/kernels/blocks/support.hpp>

#include <support/compare.hpp>
#include <support/numbers.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

// Block programs under test: played by the rehearsal device, compared with the reference kernels of the host.

namespace blocks_test {

using numbers::uniform;
using numbers::unset;
using rehearsal_kernels = trireme::rehearsal::kernels;
using trireme::rehearsal_runtime::stage;
using trireme::rehearsal_runtime::timing;

/// work(policy), for so many samples and bytes of workspace, in an order that `seed` tells.
template<class Work>
void rehearse(std::uint64_t seed, std::size_t samples, std::size_t scratch_bytes, Work const& work) {
    stage::here().clear();
    stage::here().play(seed % 2 == 0 ? timing::late : timing::shuffled, seed);
    trireme::rehearsal::stream queue(0);
    trireme::rehearsal::libraries libraries(0);
    trireme::rehearsal::event done(0);
    trireme::rehearsal::memory const scratch(0, scratch_bytes, "scratch");
    if (scratch_bytes != 0) std::memset(scratch.data(), 0xff, scratch_bytes);
    work(rehearsal_kernels(queue, samples, {scratch.data(), scratch_bytes}, libraries));
    queue.record(done);
    while (!done.reached()) {}
}

/// `work` runs in three orders; `result` must be what it has written, and keep its bits.
template<class Result, class Work>
bool same_in_every_order(std::size_t samples, std::size_t scratch_bytes, Result& result, Work const& work) {
    auto const before = result;
    rehearse(0, samples, scratch_bytes, work);
    auto const first = result;
    bool same = true;
    for (std::uint64_t seed = 1; seed < 3; ++seed) {
        result = before;
        rehearse(seed, samples, scratch_bytes, work);
        same = same && (first.empty() || std::memcmp(result.data(), first.data(), first.size() * sizeof first[0]) == 0);
    }
    return same;
}

/// The reference computes with these values, and gives such.
template<class T>
std::vector<trireme::accumulate_t<T>> wide(std::vector<T> const& values) {
    std::vector<trireme::accumulate_t<T>> result;
    for (T const& value : values) result.push_back(static_cast<trireme::accumulate_t<T>>(value));
    return result;
}

/// numbers::apart; results in bf16 may be a hundredth of what they are, or of one, away.
template<class T>
double apart(std::vector<T> const& a, std::vector<trireme::accumulate_t<T>> const& b, std::size_t terms) {
    if constexpr (!std::is_same_v<T, trireme::bf16>) {
        return numbers::apart(a, b, terms);
    } else {
        return test_support::most_apart(a, b, [](double truth) { return 1e-2 * (1 + std::abs(truth)); });
    }
}

} // namespace blocks_test
