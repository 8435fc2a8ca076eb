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
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <utility>

namespace trireme {

/// The place of a first window that each epoch of a training draws.
inline constexpr std::nullopt_t drawn_each_epoch = std::nullopt;

namespace detail {

/// True for a token that a vocabulary has. Negative numbers become larger than any vocabulary.
template<std::integral N>
constexpr bool is_token(N token, std::size_t vocabulary) noexcept {
    return static_cast<std::uint64_t>(token) < vocabulary;
}

/// The first token that a vocabulary lacks; their number if it has all. Blocks are tested whole, several tokens at a
/// time; types whose numbers are all in the vocabulary are not read.
template<std::integral N>
std::size_t first_outside(N const* tokens, std::size_t count, std::size_t vocabulary) noexcept {
    if (is_token(std::numeric_limits<N>::max(), vocabulary) && is_token(std::numeric_limits<N>::min(), vocabulary))
        return count;
    constexpr std::size_t block = 4096;
    for (std::size_t at = 0; at < count; at += block) {
        auto const here = std::min(block, count - at);
        bool all = true;
        for (std::size_t i = at; i < at + here; ++i) all &= is_token(tokens[i], vocabulary);
        if (all) continue;
        for (std::size_t i = at; i < at + here; ++i)
            if (!is_token(tokens[i], vocabulary)) return i;
    }
    return count;
}

/// Windows of tokens, side by side; see token_windows.
struct windows {
    std::size_t size = 0;
    sample_rows inputs = {}, targets = {};
};

/// `fail(token, sentence)` refuses tokens that are not in the vocabulary, or too few: it throws.
template<sample_number N, class Fail>
    requires std::integral<N>
TRIREME_COLD windows windows_of(N const* tokens, std::size_t count, std::size_t context, std::size_t vocabulary,
                                std::optional<std::size_t> first, Fail const& fail) {
    auto const begin = first.value_or(0);
    if (context == 0) throw usage_error("context = 0: a window has at least one token");
    if (begin >= count || count - begin <= context)
        fail(std::size_t{0}, "there are " + std::to_string(count) + " tokens, and a window of " +
                                 std::to_string(context) + " from token " + std::to_string(begin) +
                                 " on needs one more than that behind it: pass a longer text, or a shorter context");
    if (auto const wrong = first_outside(tokens, count, vocabulary); wrong != count)
        fail(wrong, "token " + std::to_string(wrong) + " is " + std::to_string(+tokens[wrong]) +
                        ", and the vocabulary has tokens in [0, " + std::to_string(vocabulary) +
                        "); correct it or pass a larger vocabulary");
    windows w;
    w.size = first ? (count - begin - 1) / context : std::max<std::size_t>((count - context) / context, 1);
    w.inputs = trireme::rows_of(tokens + begin, make_shape(context));
    if (!first) w.inputs.beginnings = std::min(context, count - w.size * context);
    w.targets = trireme::rows_of(tokens + begin + 1, make_shape(context));
    w.targets.beginnings = w.inputs.beginnings;
    w.targets.classes = vocabulary;
    return w;
}

} // namespace detail

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
    token_windows(X&& tokens, std::size_t context, std::size_t vocabulary, std::optional<std::size_t> first = 0)
        : windows_(detail::windows_of(std::ranges::data(tokens), std::ranges::size(tokens), context, vocabulary, first,
                                      [](std::size_t, std::string const& what) { throw usage_error(what); })) {}

    /// The compiler refuses tokens that nothing holds, TRI0156.
    template<detail::numbers_without_name X>
    token_windows(X&&, std::size_t, std::size_t, std::optional<std::size_t> = 0) {
        static constexpr samples_stay_rule<gets<X>> checked{};
        static_cast<void>(checked);
    }

    std::size_t size() const noexcept { return windows_.size; }
    sample_rows const& inputs() const noexcept { return windows_.inputs; }
    sample_rows const& targets() const noexcept { return windows_.targets; }

private:
    detail::windows windows_;
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
/// Errors: data_error with the path and the reason, also for a file that is larger than the memory.
TRIREME_COLD inline std::string read_text(std::string const& path) {
    detail::regular_file const file(path);
    std::string text;
    auto const too_large = [&] {
        file.fail("the text takes " + std::to_string(file.size()) +
                  " bytes of memory, which are not to be had: use file_windows<std::uint8_t>, which reads what is "
                  "used, or split the file");
    };
    if (file.size() > text.max_size()) too_large();
    try {
        text.resize(static_cast<std::size_t>(file.size()));
    } catch (std::bad_alloc const&) {
        too_large();
    }
    file.read(0, std::as_writable_bytes(std::span(text)));
    return text;
}

} // namespace trireme
