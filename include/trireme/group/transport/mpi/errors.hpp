// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// The C++ bindings that some mpi.h still bring are none of ours.
#if !defined(OMPI_SKIP_MPICXX)
#define OMPI_SKIP_MPICXX 1
#endif
#if !defined(MPICH_SKIP_MPICXX)
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <trireme/core/macros.hpp>

#include <stdexcept>
#include <string>

namespace trireme {

/// MPI has refused a call. The text names the call, the rank and what it was for, and has MPI's own words.
class mpi_error : public std::runtime_error {
public:
    mpi_error(int status, std::string const& what) : std::runtime_error(what), status_(status) {}
    int status() const noexcept { return status_; }

private:
    int status_;
};

namespace mpi_runtime {

TRIREME_COLD inline std::string words_for(int status) {
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    if (MPI_Error_string(status, text, &length) != MPI_SUCCESS) return "error " + std::to_string(status);
    return std::string(text, static_cast<std::size_t>(length));
}

/// Throws mpi_error unless a call has succeeded.
inline void check(int status, char const* call, int rank, char const* purpose) {
    if (status == MPI_SUCCESS) return;
    throw mpi_error(status, std::string(call) + " failed on rank " + std::to_string(rank) + " (" + purpose +
                                "): " + words_for(status));
}

/// "Open MPI 4.1.4": the library that is linked, in a few words.
inline std::string library() {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(text, &length);
    std::string const all(text, static_cast<std::size_t>(length));
    auto const from = all.find("Version:"); // "MPICH Version:\t4.0.2\n..."
    if (all.rfind("MPICH", 0) == 0 && from != std::string::npos) {
        auto const begin = all.find_first_not_of(" \t", from + 8);
        return "MPICH " + all.substr(begin, all.find_first_of(" \t\n", begin) - begin);
    }
    auto const name = all.substr(0, all.find_first_of(",\n"));
    return name.rfind("Open MPI v", 0) == 0 ? "Open MPI " + name.substr(10) : name;
}

} // namespace mpi_runtime
} // namespace trireme
