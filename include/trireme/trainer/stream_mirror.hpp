// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/parallel/pieces.hpp>
#include <trireme/parallel/update_runs.hpp>
#include <trireme/trainer/stream_stage.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

/// The host's copy of the numbers that outlast a rank's steps: its weights, and, from the first time on that somebody
/// asks for them, what the optimizer keeps.
template<class T, accelerator Device>
class stream_mirror {
    using stage = detail::stream_stage<T>;
    using stream = typename Device::stream;
    using memory = typename Device::memory;
    using pinned = typename Device::pinned_memory;

public:
    /// `counts`: the optimizer keeps the number of its updates.
    stream_mirror(bytes_t weights, bool counts) : weights_(weights), counts_(counts) {}

    /// Hands over copies from the rank's memory, with the optimizer's numbers or without; and back.
    void enqueue_store(stream& on, memory const& parameters, memory const& state, bool optimizer) {
        on.copy(weights_.data(), parameters.data(), weights_.bytes());
        if (!optimizer || state.bytes() == 0) return;
        if (state_.data() == nullptr) state_ = pinned(state.bytes());
        on.copy(state_.data(), state.data(), state.bytes());
    }
    void enqueue_load(stream& on, memory const& parameters, memory const& state, bool optimizer) {
        on.copy(parameters.data(), weights_.data(), weights_.bytes());
        if (optimizer && state.bytes() != 0) on.copy(state.data(), state_.data(), state.bytes());
    }

    /// The weights of a stage.
    T* weights(stage const& s) const noexcept { return static_cast<T*>(weights_.data()) + s.lies.weights; }
    /// The numbers of a list that lie here for a stage.
    std::span<T const> numbers_of(canonical_list const& list, stage const& s) const {
        auto const held = s.held(weights(s));
        if (list.of == canonical_list::parameters) return held.parameters;
        if (list.of == canonical_list::buffers) return held.buffers;
        return {array(s, list.array), s.numbers.parameters};
    }
    /// Takes a stage's part of what the network has.
    void take(numbers_to_take<T> const& from, stage const& s) {
        if (!from.parameters.empty()) s.take_parameters(from.parameters, weights(s));
        if (!from.buffers.empty()) s.take_buffers(from.buffers, weights(s));
        for (std::size_t k = 0; k < from.optimizer.size(); ++k) {
            auto const mine = s.numbers.of({canonical_list::optimizer, k});
            std::ranges::copy(std::span(from.optimizer[k]).subspan(mine.begin, mine.size()), array(s, k));
        }
        if (auto* const made = count(); from.goes_on && made != nullptr) *made = from.updates;
    }
    /// Updates that the optimizer has counted.
    std::uint64_t updates() const noexcept {
        auto const* const made = count();
        return made != nullptr ? *made : 0;
    }

private:
    T* array(stage const& s, std::size_t k) const noexcept {
        return static_cast<T*>(state_.data()) + s.lies.state + k * s.numbers.buffers_lie;
    }
    std::uint64_t* count() const noexcept { return detail::count_of_updates(counts_, state_.data(), state_.bytes()); }

    pinned weights_, state_;
    bool counts_;
};

} // namespace trireme
