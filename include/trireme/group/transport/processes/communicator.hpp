// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/units.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/group/transport/processes/state.hpp>
#include <trireme/group/transport/step_counts.hpp>

#include <cstddef>
#include <cstring>

namespace trireme::processes {

/// One rank of a group of processes of one machine. Arenas are windows, rounded up to pages, that peers map when they
/// first use them, so that a byte on the wire is a byte read from a peer's memory or written to it, as between threads;
/// `allocate` throws window_error if there is too little memory, before it is touched. A buffer that is not in one of
/// the rank's own arenas is copied to a window before a collective and back after it: two passes over it, which
/// `allocate` saves.
class communicator : public step_counting<state> {
    using base = step_counting<state>;

public:
    using base::base;

    /// Bytes that the group itself takes per rank, for the plan.
    static constexpr bytes_t control_bytes = sizeof(process_slot);

    collective_call enter(collective_call const& call) {
        base::require_outside(call);
        staged_out_ = nullptr; // a call that was given up leaves its own
        users_ = call;
        return base::enter(in_windows(call));
    }

    void leave(int steps) noexcept {
        base::leave(steps);
        if (staged_out_ != nullptr) std::memcpy(users_.out, staged_out_, users_.out_bytes);
        staged_out_ = nullptr;
    }

private:
    /// The call with its buffers where peers see them.
    collective_call in_windows(collective_call call) {
        bool const in = call.in_bytes != 0 && state_->find(call.in, call.in_bytes).arena < 0;
        bool const out = call.out_bytes != 0 && state_->find(call.out, call.out_bytes).arena < 0;
        if (!in && !out) return call;
        // an input may be a part of the output, or the whole of it
        bool const inside = in && out && call.in >= call.out && call.in + call.in_bytes <= call.out + call.out_bytes;
        auto const place_of_in = out ? round_up<std::size_t>(call.out_bytes, cache_line) : 0;
        auto* const at = stage(place_of_in + (in && !inside ? call.in_bytes : 0));
        if (out) {
            std::memcpy(at, call.out, call.out_bytes);
            staged_out_ = at;
        }
        if (inside) {
            call.in = at + (call.in - users_.out);
        } else if (in) {
            std::memcpy(at + place_of_in, call.in, call.in_bytes);
            call.in = at + place_of_in;
        }
        if (out) call.out = at;
        return call;
    }

    /// Memory for buffers of others; what was there is lost.
    std::byte* stage(std::size_t bytes) {
        if (bytes > staging_bytes_) {
            state_->allocate(rank_, staging + lane_, bytes);
            staging_bytes_ = bytes;
        }
        return state_->at(rank_, staging + lane_);
    }

    std::size_t staging_bytes_ = 0;
    collective_call users_;           ///< the current call, as its caller has made it
    std::byte* staged_out_ = nullptr; ///< its output, if that is staged
};

} // namespace trireme::processes
