// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <rehearsed/nccl_mock.hpp>
#include <rehearsed/trainings.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <string>

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

/// What is thrown, as text.
template<class Error, class F>
std::string text_of_error(F const& f) {
    try {
        f();
    } catch (Error const& e) {
        return e.what();
    }
    return "nothing was thrown";
}

} // namespace rehearsed
