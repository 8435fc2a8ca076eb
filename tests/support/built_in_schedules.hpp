// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedules.hpp>

// The pipeline schedules of the library, for tests that take each of them.
namespace test_support {

/// A schedule needs `least` micro-batches for each role.
struct built_in_schedule {
    trireme::schedule_choice schedule;
    int least = 0;
};
inline built_in_schedule const built_in_schedules[] = {{trireme::gpipe{}},
                                                       {trireme::one_f_one_b{}},
                                                       {trireme::interleaved<2>{}},
                                                       {trireme::interleaved<3>{}},
                                                       {trireme::breadth_first<2>{}},
                                                       {trireme::zero_bubble_h1{}},
                                                       {trireme::zero_bubble_h2{}},
                                                       {trireme::zero_bubble_auto<2, 3, 1, 1, 4>{}},
                                                       {trireme::zero_bubble_v{}},
                                                       {trireme::v_half{}},
                                                       {trireme::v_min{}},
                                                       {trireme::dual_pipe_v{}, 2}};

} // namespace test_support
