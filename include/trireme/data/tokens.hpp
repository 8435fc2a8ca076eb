// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/regular_file.hpp>
#include <trireme/data/sample_source.hpp>
#include <trireme/data/samples.hpp>
#include <trireme/data/samples_in_memory.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <utility>

namespace trireme {

/// The place of a first window that each epoch of a training draws.
inline constexpr std::nullopt_t drawn_each_epoch = std::nullopt;

/// Windows of a sequence of tokens in memory of the caller, side by side: `context` tokens are a sample's input, and
/// the token behind each of them is its target. Nothing is copied; tokens behind the last whole window are left out.
/// `drawn_each_epoch`: the first window begins with one of the first `context` tokens, which each epoch of a training
/// draws, so that other tokens meet in a window; fewer than 2 x context tokens are left out then.
///
///     token_windows const samples(tokens, 128, 50257);     // numbers in [0, 50257)
///     token_windows const shifted(tokens, 128, 50257, 64); // the first window begins with token 64
///     token_windows const drawn(tokens, 128, 50257, drawn_each_epoch);
class token_windows {
public:
    /// Errors: usage_error if there are not context + 1 tokens from `first` on, or one of them is not in
    /// [0, vocabulary).
    template<detail::numbers_in_memory X>
        requires std::integral<std::ranges::range_value_t<X>>
    token_windows(X&& tokens, std::size_t context, std::size_t vocabulary, std::optional<std::size_t> first = 0) {
        std::size_t const count = std::ranges::size(tokens), begin = first.value_or(0);
        check_size(count, context, begin);
        std::size_t at = 0;
        for (auto const each : tokens) {
            auto const token = static_cast<std::int64_t>(each);
            if (token < 0 || static_cast<std::uint64_t>(token) >= vocabulary)
                throw usage_error("token " + std::to_string(at) + " is " + std::to_string(token) +
                                  ", and the vocabulary has tokens in [0, " + std::to_string(vocabulary) +
                                  "); correct it or pass a larger vocabulary");
            ++at;
        }
        size_ = first ? (count - begin - 1) / context : std::max<std::size_t>((count - context) / context, 1);
        inputs_ = rows_of(std::ranges::data(tokens) + begin, make_shape(context));
        if (!first) inputs_.beginnings = std::min(context, count - size_ * context);
        targets_ = rows_of(std::ranges::data(tokens) + begin + 1, make_shape(context));
        targets_.beginnings = inputs_.beginnings;
        targets_.classes = vocabulary;
    }

    std::size_t size() const noexcept { return size_; }
    sample_rows const& inputs() const noexcept { return inputs_; }
    sample_rows const& targets() const noexcept { return targets_; }

private:
    TRIREME_COLD static void check_size(std::size_t count, std::size_t context, std::size_t first) {
        if (context == 0) throw usage_error("context = 0: a window has at least one token");
        if (first >= count || count - first <= context)
            throw usage_error("there are " + std::to_string(count) + " tokens, and a window of " +
                              std::to_string(context) + " from token " + std::to_string(first) +
                              " on needs one more than that behind it: pass a longer text, or a shorter context");
    }

    std::size_t size_ = 0;
    sample_rows inputs_, targets_;
};

/// Tokens of a text are its bytes.
inline constexpr std::size_t byte_vocabulary = 256;

/// Windows of a text that own it, byte by byte; see token_windows.
/// Errors: usage_error likewise.
TRIREME_COLD inline owned_samples text_windows(std::string text, std::size_t context,
                                               std::optional<std::size_t> first = 0) {
    auto const kept = std::make_shared<std::string const>(std::move(text));
    std::span const bytes(reinterpret_cast<std::uint8_t const*>(kept->data()), kept->size());
    token_windows const windows(bytes, context, byte_vocabulary, first);
    return {kept, windows.size(), windows.inputs(), windows.targets()};
}

/// Reads a file as text, whatever its bytes are.
/// Errors: data_error with the path and the reason.
TRIREME_COLD inline std::string read_text(std::string const& path) {
    detail::regular_file const file(path);
    std::string text(file.size(), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return text;
}

} // namespace trireme
