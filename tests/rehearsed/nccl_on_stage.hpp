// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <rehearsed/nccl_mock.hpp>
#include <rehearsed/trainings.hpp>
#include <support/pipelines.hpp>

#include <trireme/trainer/nccl_transport.hpp>

#include <doctest/doctest.h>

#include <cstddef>

// What rehearsals of NCCL share.
namespace rehearsed {

inline std::size_t index(int i) { return static_cast<std::size_t>(i); }

/// Puts the library back as it was, too; all communicators have to be closed by then.
struct nccl_on_stage : on_stage {
    using on_stage::on_stage;
    ~nccl_on_stage() {
        nccl_mock::library::here().failing_rank = -1;
        CHECK(nccl_mock::library::here().communicators == 0);
    }
};

/// Replicas of several stages; the first one adds a term to the loss.
using in_rows =
    trireme::network<trireme::input<1, 28, 28>, trireme::avg_pool2d<14>, trireme::conv2d<3, trireme::kernel<1>>,
                     trireme::relu, trireme::flatten, trireme::linear<6>,
                     trireme::activity_penalty<trireme::percent<5>>, trireme::hyperbolic_tangent,
                     trireme::dropout<trireme::percent<20>>, trireme::linear<5>, trireme::sigmoid, trireme::linear<10>>;
template<class Way, class... Policies>
using in_stages =
    test_pipelines::any_pipeline<nccl_mock::rehearsal_with_nccl, in_rows,
                                 trireme::reduce_by<trireme::chosen_at_run_time>, trireme::transport<Way>, Policies...>;

} // namespace rehearsed
