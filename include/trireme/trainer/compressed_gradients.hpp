// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/in_flight.hpp>
#include <trireme/core/bf16.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/schedule/collective/schedule.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace trireme::detail::inline TRIREME_ISA {

/// The part of a device's gradients that strategies compress, as it is sent, and the errors of rounding that the next
/// step makes good. Without `Compresses` there is none.
template<class T, class Communicator, bool Compresses>
class compressed_gradients {
public:
    compressed_gradients(Communicator&, memory_map const&) noexcept {}
    void add_stage(parallel_layout const&, arena_extent const&) const noexcept {}
    void add(Communicator&, schedule const&, std::size_t, std::span<T>) const noexcept {}
    void forget() const noexcept {}
};
template<class T, class Communicator>
class compressed_gradients<T, Communicator, true> {
public:
    compressed_gradients(Communicator& comm, memory_map const& map)
        : errors_(comm.allocate(map.strategy_state.total())), sent_(comm.allocate(map.compressed.total())) {}

    /// Takes the collectives of the device's next stage.
    TRIREME_COLD void add_stage(parallel_layout const& l, arena_extent const& extent) {
        for (std::size_t i = 0; i < l.reductions(); ++i) {
            lie_.push_back(elements_);
            elements_ += l.compressed_by(i, extent);
        }
    }

    /// Adds the gradients of the `i`-th collective over all replicas. Costs two passes. A gradient that is not finite
    /// leaves an error that is no number, as it does the weights: the next step is lost, and forgets it.
    void add(Communicator& replicas, schedule const& steps, std::size_t i, std::span<T> gradients) {
        auto* const sent = static_cast<bf16*>(sent_.data) + lie_[i];
        auto* const errors = static_cast<T*>(errors_.data) + lie_[i];
        for (std::size_t k = 0; k < gradients.size(); ++k) {
            T const whole = gradients[k] + errors[k];
            sent[k] = bf16(static_cast<float>(whole));
            errors[k] = whole - static_cast<T>(static_cast<float>(sent[k]));
        }
        run_schedule<bf16>(replicas, collective::all_reduce, steps, std::span(sent, gradients.size()));
        for (std::size_t k = 0; k < gradients.size(); ++k) gradients[k] = static_cast<T>(static_cast<float>(sent[k]));
    }

    void forget() noexcept { std::fill_n(static_cast<T*>(errors_.data), elements_, T{0}); }

private:
    arena errors_, sent_;
    std::vector<std::size_t> lie_; ///< first elements of the collectives, stage by stage
    std::size_t elements_ = 0;
};

} // namespace trireme::detail::inline TRIREME_ISA
