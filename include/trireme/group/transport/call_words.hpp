// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/digest.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/group/communicator.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace trireme {

// Calls of collectives, in words that ranks compare with their own: ranks that call different ones are found by them,
// before one waits for what never comes.

/// The words of a collective_call in which ranks must agree, without addresses: the same words mean the same in any
/// process. Texts are cut where they are longer than their place; of what is cut off of a strategy, or an operation, a
/// digest is compared.
class call_words {
public:
    static constexpr std::size_t count = 20;

    call_words() = default;
    explicit call_words(collective_call const& c) noexcept {
        write(0, 2, c.name);
        auto const cut = write(2, 5, c.strategy) + 3 * write(7, 3, c.op);
        write(10, 1, c.dtype);
        words[11] = c.elements;
        words[12] = c.element_bytes;
        words[13] = static_cast<std::uint32_t>(c.root);
        words[14] = static_cast<std::uint32_t>(c.steps);
        words[15] = static_cast<std::uint32_t>(c.chunks) | (cut << 32);
        write(16, 1, c.subject.what);
        words[17] = c.subject.count;
        words[18] = c.subject.digest;
        words[19] = std::bit_cast<std::uint32_t>(c.subject.learning_rate);
    }
    bool operator==(call_words const&) const = default;

    /// "all_reduce<ring>(1024 x f32, sum, root 0; 6 steps, 4 chunks)".
    TRIREME_COLD std::string text() const {
        auto const dtype = read(10, 1), op = name_at(7, 3);
        auto said = read(0, 2) + '<' + name_at(2, 5) + ">(";
        if (!dtype.empty()) said += std::to_string(words[11]) + " x " + dtype + ", ";
        if (dtype == "bytes") said += std::to_string(words[12]) + " each, ";
        if (!op.empty()) said += op + ", ";
        return said + "root " + std::to_string(words[13]) + "; " + std::to_string(words[14]) + " steps, " +
               std::to_string(static_cast<std::uint32_t>(words[15])) + " chunks)";
    }

    /// True if the calls are alike, and only the data that they work for differs.
    bool differs_in_subject_only(call_words const& other) const noexcept {
        return words != other.words && std::equal(words.begin(), words.begin() + 16, other.words.begin());
    }
    /// "64 samples with digest 0123456789abcdef, learning rate 0.1".
    TRIREME_COLD std::string subject_text() const {
        auto const what = read(16, 1);
        if (what.empty()) return "no data";
        auto const rate = std::bit_cast<float>(static_cast<std::uint32_t>(words[19]));
        return std::to_string(words[17]) + ' ' + what + " with digest " + digest_text(words[18]) + ", learning rate " +
               number_text(rate);
    }

    std::array<std::uint64_t, count> words{};

private:
    /// Returns a digest of what has no room, 0 if all has.
    std::uint64_t write(std::size_t at, std::size_t n, char const* text) noexcept {
        auto const letters = strnlen(text, n * 8);
        std::memcpy(&words[at], text, letters);
        return text[letters] == '\0' ? 0 : digest_of_rest(text + letters);
    }
    TRIREME_COLD static std::uint64_t digest_of_rest(char const* text) noexcept {
        return digest_of(std::as_bytes(std::span(text, std::strlen(text))));
    }
    std::string read(std::size_t at, std::size_t n) const {
        char text[8 * count + 1] = {};
        std::memcpy(text, &words[at], n * 8);
        return text;
    }
    /// With "..." if it may have been cut.
    std::string name_at(std::size_t at, std::size_t n) const {
        auto text = read(at, n);
        if (text.size() == n * 8 && words[15] >> 32 != 0) text += "...";
        return text;
    }
};

/// The error of all ranks when two ranks have called different collectives as their collective of that number.
TRIREME_COLD inline mismatch_error different_calls(char const* member, std::uint32_t number, int rank,
                                                   call_words const& called, int other, call_words const& other_called,
                                                   std::uint32_t other_number) {
    auto const name = [&](int r) { return std::string(member) + ' ' + std::to_string(r); };
    if (number == other_number && called.differs_in_subject_only(other_called))
        return mismatch_error(std::string("the ") + member + "s of a group do not work on the same data: " +
                              name(rank) + " has " + called.subject_text() + ", " + name(other) + " has " +
                              other_called.subject_text() + "; give all of them the same data, and the same rate");
    return mismatch_error(std::string("the ") + member + "s of a group called different collectives, their number " +
                          std::to_string(number) + ": " + name(rank) + " called " + called.text() + ", " + name(other) +
                          " called " + other_called.text() +
                          (number != other_number                 ? " as its number " + std::to_string(other_number)
                           : called.text() == other_called.text() ? ", with another name behind the dots"
                                                                  : "") +
                          "; all must make the same calls in the same order");
}

/// The last call of a rank, for its peers to compare. A peer may look while the owner, ahead of it, writes the next:
/// then `number` says that there is nothing to compare.
struct published_call {
    std::atomic<std::uint32_t> number{0}; ///< of the collective, counted from 1
    std::array<std::atomic<std::uint64_t>, call_words::count> words{};

    void publish(std::uint32_t n, call_words const& w) noexcept {
        number.store(n, std::memory_order_relaxed);
        // a reader that sees one of these words sees the number, too
        for (std::size_t i = 0; i < w.words.size(); ++i) words[i].store(w.words[i], std::memory_order_release);
    }

    /// Belongs to `number` if that is the same before and after.
    call_words read() const noexcept {
        call_words w;
        for (std::size_t i = 0; i < w.words.size(); ++i) w.words[i] = words[i].load(std::memory_order_acquire);
        return w;
    }
};

/// Throws usage_error on a rank that begins a collective within another.
[[noreturn]] TRIREME_COLD inline void refuse_second_call(std::string const& who, char const* call, char const* other) {
    throw usage_error(who + " called " + call + " while its " + other + " was in flight: wait for that first");
}

} // namespace trireme
