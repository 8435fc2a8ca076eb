// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/group/communicator.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace trireme::detail {

/// The subjects of the processes of a trainer on accelerators: what each of them works on in a step. Their words are a
/// table with a place for every process, in which each fills in its own before the tables are added.
template<accelerator Device>
class stream_subjects {
    struct entry {
        std::uint64_t count, digest, learning_rate;
    };

public:
    using stream = typename Device::stream;

    /// The bytes of a table, for so many processes at most.
    static constexpr bytes_t bytes(int processes) noexcept {
        return processes == 1 ? 0 : static_cast<bytes_t>(processes) * sizeof(entry);
    }

    stream_subjects(int index, int processes) : index_(index), processes_(processes) {
        for (auto* const slot : {&told_, &heard_})
            for (auto& table : *slot) {
                table = pinned(bytes(processes));
                if (bytes(processes) != 0) std::memset(table.data(), 0, bytes(processes));
            }
    }

    /// The words of a table.
    std::size_t words() const noexcept { return bytes(processes_) / sizeof(std::uint64_t); }

    /// Notes down what this process works on from the next step on. All others are over.
    void work_on(collective_subject const& s) noexcept {
        for (auto& table : told_)
            static_cast<entry*>(table.data())[index_] = {s.count, s.digest,
                                                         std::bit_cast<std::uint32_t>(s.learning_rate)};
    }
    void enqueue_told(int slot, std::uint64_t* to, stream& on) { on.copy(to, told_[slot].data(), bytes(processes_)); }
    void enqueue_heard(int slot, std::uint64_t const* from, stream& on) {
        on.copy(heard_[slot].data(), from, bytes(processes_));
    }

    /// Throws mismatch_error unless all processes worked on the same in the last step of a slot, once it is over.
    void compare(int slot) const {
        auto const mine = of(slot, index_);
        for (int k = 0; k < processes_; ++k)
            if (of(slot, k) != mine) throw different_data("processes", "process", index_, mine, k, of(slot, k));
    }

private:
    using pinned = typename Device::pinned_memory;

    collective_subject of(int slot, int process) const noexcept {
        auto const& e = static_cast<entry const*>(heard_[slot].data())[process];
        return {"samples", e.count, e.digest, std::bit_cast<float>(static_cast<std::uint32_t>(e.learning_rate))};
    }

    int index_, processes_;
    pinned told_[2], heard_[2];
};

} // namespace trireme::detail
