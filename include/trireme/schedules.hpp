// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// All pipeline schedules that come with Trireme, those in files, and their proof and price; and the seconds of rows,
/// by which a network is cut into stages. `trireme/trireme.hpp` has gpipe and one_f_one_b alone.

#include <trireme/core/macros.hpp> // first: it refuses older standards

#include <trireme/parallel/measured_rows.hpp>
#include <trireme/schedule/pipeline/csv.hpp>
#include <trireme/schedule/pipeline/named.hpp>
#include <trireme/schedule/pipeline/orders.hpp>
#include <trireme/schedule/pipeline/print.hpp>
#include <trireme/schedule/pipeline/schedules/breadth_first.hpp>
#include <trireme/schedule/pipeline/schedules/dual_pipe_v.hpp>
#include <trireme/schedule/pipeline/schedules/gpipe.hpp>
#include <trireme/schedule/pipeline/schedules/interleaved.hpp>
#include <trireme/schedule/pipeline/schedules/one_f_one_b.hpp>
#include <trireme/schedule/pipeline/schedules/v_half.hpp>
#include <trireme/schedule/pipeline/schedules/v_min.hpp>
#include <trireme/schedule/pipeline/schedules/zero_bubble_auto.hpp>
#include <trireme/schedule/pipeline/schedules/zero_bubble_h1.hpp>
#include <trireme/schedule/pipeline/schedules/zero_bubble_h2.hpp>
#include <trireme/schedule/pipeline/schedules/zero_bubble_v.hpp>
#include <trireme/schedule/pipeline/span.hpp>
#include <trireme/schedule/pipeline/verify.hpp>
