// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/group/transport/threads/group.hpp>

#include <doctest/doctest.h>
#include <support/messages.hpp>

#include <chrono>
#include <string>

namespace test_collectives {

/// The text of the error that ends a new group of threads, which run `f(communicator)`.
template<class Error, class F>
std::string end_of_group(F const& f, int ranks = 3, std::chrono::duration<double> limit = std::chrono::seconds(20)) {
    trireme::threads::group g(ranks, limit);
    auto const text = test_support::text_of_error<Error>([&] { g.run(f); });
    CHECK(g.stopped());
    return text;
}

} // namespace test_collectives
