// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/data/tokens.hpp>
#include <trireme/trireme.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace bench {

/// `n` different images of 28 x 28 with labels, the same in every run: what a step costs does not depend on them.
inline trireme::labelled_images made_up_images(std::size_t n) {
    trireme::random_stream const random(0, trireme::random_purpose::user);
    std::vector<std::uint8_t> pixels(n * 28 * 28), labels(n);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(random.bits(i));
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::uint8_t>(random.below(i, 10));
    return {std::move(pixels), std::move(labels), 28, 28, 10};
}

/// Windows of `context` tokens of a made-up text, side by side. A token is a number below `vocabulary`; the next one is
/// its target.
template<class Token>
class made_up_tokens {
public:
    made_up_tokens(std::size_t windows, std::size_t context, std::size_t vocabulary = trireme::byte_vocabulary)
        : context_(context), vocabulary_(vocabulary), tokens_(windows * context + 1) {
        trireme::random_stream const random(0, trireme::random_purpose::user);
        for (std::size_t i = 0; i < tokens_.size(); ++i) tokens_[i] = static_cast<Token>(random.bits(i) % vocabulary);
    }

    std::size_t size() const noexcept { return (tokens_.size() - 1) / context_; }
    /// The `count` windows from `first` on, which stay here.
    trireme::token_windows take(std::size_t first, std::size_t count) const {
        std::span const part = std::span(tokens_).subspan(first * context_, count * context_ + 1);
        return {part, context_, vocabulary_};
    }

private:
    std::size_t context_, vocabulary_;
    std::vector<Token> tokens_;
};
using made_up_text = made_up_tokens<std::uint8_t>;

} // namespace bench
