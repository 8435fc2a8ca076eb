// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Published figures of pipeline schedules, as data.
namespace published_bubbles {

/// A setting and its bubble rates, (cost - m (F + B + W)) / cost.
/// Source: Qi et al., "Zero bubble pipeline parallelism", ICLR 2024, tables 3 to 6: models of 1.5 billion (p = 8)
/// and 14.6 billion parameters (p = 16) on A100 cards; times in milliseconds, measured there, rates calculated there
/// from them.
struct setting {
    int roles, micro_batches;
    double forward, backward_input, backward_weights, transfer;
    double one_f_one_b, interleaved, zero_bubble_h1, zero_bubble_h2, zero_bubble_1p, zero_bubble_2p;
};
inline constexpr setting settings[] = {
    {8, 24, 18.522, 18.086, 9.337, 0.601, 0.2431, 0.1055, 0.1585, 0.1083, 0.1585, 0.0433},
    {8, 32, 18.513, 18.086, 9.331, 0.626, 0.1985, 0.0818, 0.1242, 0.0837, 0.1242, 0.0039},
    {8, 64, 18.546, 18.097, 9.321, 0.762, 0.124, 0.0443, 0.0674, 0.0444, 0.0674, 0.0026},
    {16, 48, 11.347, 11.248, 8.132, 0.377, 0.2552, 0.1104, 0.1397, 0.0672, 0.1397, 0.0066},
    {16, 64, 11.307, 11.254, 8.101, 0.379, 0.2082, 0.0852, 0.1088, 0.0516, 0.1088, 0.0054},
    {16, 128, 11.325, 11.308, 8.109, 0.378, 0.1251, 0.0445, 0.0576, 0.0266, 0.0576, 0.0028},
};

} // namespace published_bubbles
