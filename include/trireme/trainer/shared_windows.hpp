// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/levels.hpp>
#include <trireme/group/transport/processes/group.hpp>
#include <trireme/trainer/host_run.hpp>
#include <trireme/trainer/options.hpp>
#include <trireme/trainer/policy_arguments.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace trireme {

/// The option `processes` of a trainer over transport<shared_windows>: where its processes meet, and which one this is.
struct seat {
    /// Place in memory where processes meet, made before the program forks.
    std::optional<processes::meeting_place> where = {};
    int rank = 0;     ///< rank of this process
    levels near = {}; ///< levels of ranks that are near one another; none if all are alike
};

namespace processes {

/// The processes of a trainer.
class trainer_group : public group {
public:
    using communicator = processes::communicator;

    trainer_group(seat const& s, int devices, std::chrono::duration<double> limit, std::string const& agreed)
        : group(place_of(s, devices), s.rank, limit, s.near, agreed), near_(s.near) {}

    levels const& near() const noexcept { return near_; }

private:
    static meeting_place place_of(seat const& s, int devices) {
        if (!s.where)
            throw usage_error(
                "transport<shared_windows> needs the option `processes`: {meeting_place, rank}, the place "
                "made before the fork");
        auto const ranks = s.where->table().ranks;
        if (ranks != devices)
            throw launch_error("the mesh has " + std::to_string(devices) + " devices, the meeting place " +
                               std::to_string(ranks) + " processes: make it for as many, or change the mesh");
        return *s.where;
    }
    levels near_;
};

} // namespace processes

/// `transport<shared_windows>`: devices are processes of one machine, which read one another's memory. What starts them
/// is the program's own affair: it makes a processes::meeting_place, and forks.
struct shared_windows : transport_traits {
    static constexpr bool joins_hosts = true, has_stages = true;
    using processes = seat;
    template<bool Staged>
    using ranks = process_ranks<trireme::processes::trainer_group>;
};

} // namespace trireme
