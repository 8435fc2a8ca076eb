// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/in_flight.hpp>
#include <trireme/core/bf16.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/host/stored_numbers.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/schedule/collective/schedule.hpp>

#include <cmath>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace trireme::detail::inline TRIREME_ISA {

/// The part of a device's gradients that travels as bf16: what is sent, and the errors of rounding that the next step
/// makes good. Without `Compresses` there is none.
template<class T, class Communicator, bool Compresses>
class compressed_gradients {
public:
    compressed_gradients(Communicator&, memory_map const&) noexcept {}
    void add_stage(parallel_layout const&, arena_extent const&) const noexcept {}
    void add(Communicator&, schedule const&, std::size_t, std::span<T>) const noexcept {}
    void scale_errors(T) const noexcept {}
};
template<class T, class Communicator>
class compressed_gradients<T, Communicator, true> {
public:
    compressed_gradients(Communicator& comm, memory_map const& map)
        : memory_(comm.allocate(map.strategy_state.total())) {}

    /// Takes the collectives of the device's next stage.
    TRIREME_COLD void add_stage(parallel_layout const& l, arena_extent const& extent) {
        for (std::size_t i = 0; i < l.reductions(); ++i) {
            offsets_.push_back(elements_);
            elements_ += l.compressed_by(i, extent);
        }
    }

    /// Adds the gradients of the `i`-th collective over all replicas. Costs two passes.
    void add(Communicator& replicas, schedule const& steps, std::size_t i, std::span<T> gradients) {
        auto* const sent = reinterpret_cast<bf16*>(errors() + elements_);
        round(gradients, errors() + offsets_[i], sent);
        run_schedule<bf16>(replicas, collective::all_reduce, steps, std::span(sent, gradients.size()));
        widen(sent, gradients);
    }

    /// Errors shrink by a factor; one that is 0, or no number as the norm of a lost step makes it, forgets them.
    void scale_errors(T factor) noexcept {
        bool const keeps = factor > 0;
        for (std::size_t k = 0; k < elements_; ++k) errors()[k] = keeps ? errors()[k] * factor : T{0};
    }

private:
    using register_type = reckoned_vector<bf16>;
    static constexpr std::size_t width = std::is_same_v<T, float> ? register_type::size : 0;

    T* errors() const noexcept { return static_cast<T*>(memory_.data); }

    /// Rounds gradients with their errors, and keeps what that takes off; nothing where it is not finite.
    static void round(std::span<T const> gradients, T* errors, bf16* sent) noexcept {
        std::size_t k = 0;
        if constexpr (width != 0)
            for (; k + width <= gradients.size(); k += width) {
                auto const whole = register_type::load(&gradients[k]) + register_type::load(errors + k);
                write_numbers(whole, sent + k);
                auto const error = whole - read_numbers<register_type>(sent + k);
                register_type const none{};
                register_type::select(error - error == none, error, none).store(errors + k);
            }
        for (; k < gradients.size(); ++k) {
            T const whole = gradients[k] + errors[k];
            sent[k] = bf16(static_cast<float>(whole));
            T const error = whole - static_cast<T>(static_cast<float>(sent[k]));
            errors[k] = std::isfinite(error) ? error : T{0};
        }
    }
    static void widen(bf16 const* sent, std::span<T> gradients) noexcept {
        std::size_t k = 0;
        if constexpr (width != 0)
            for (; k + width <= gradients.size(); k += width)
                read_numbers<register_type>(sent + k).store(&gradients[k]);
        for (; k < gradients.size(); ++k) gradients[k] = static_cast<T>(static_cast<float>(sent[k]));
    }

    arena memory_;                     ///< errors, and behind them what is sent
    std::vector<std::size_t> offsets_; ///< of the collectives' errors, stage by stage
    std::size_t elements_ = 0;         ///< of errors
};

} // namespace trireme::detail::inline TRIREME_ISA
