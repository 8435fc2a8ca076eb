// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>

namespace trireme {

/// With which exit code the library ends a process; programs use the same for what they catch.
namespace exit_code {
inline constexpr int usage = 2;   ///< a flag, an option, data: usage_error, data_error
inline constexpr int failure = 3; ///< a rank failed, died, or was late, on this rank or another
inline constexpr int launch = 4;  ///< launch_error: as many processes as the mesh has devices, all of one program
inline constexpr int stuck = 5;   ///< the watchdog: a call of MPI did not return

/// The exit code of a program that an error ends.
inline int of(std::exception const& e) noexcept {
    if (dynamic_cast<launch_error const*>(&e) != nullptr) return launch;
    bool const of_the_user = dynamic_cast<usage_error const*>(&e) || dynamic_cast<data_error const*>(&e);
    return of_the_user ? usage : failure;
}
} // namespace exit_code

} // namespace trireme
