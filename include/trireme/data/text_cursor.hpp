// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <string_view>

namespace trireme::detail {

/// A place in a text that is read from its begin to its end, for who derives.
class text_cursor {
protected:
    explicit text_cursor(std::string_view text) noexcept : text_(text) {}

    bool next_is(char wanted) const noexcept { return at_ < text_.size() && text_[at_] == wanted; }
    bool next_is_digit() const noexcept { return at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; }
    void skip_space() noexcept {
        while (next_is(' ') || next_is('\n') || next_is('\r') || next_is('\t')) ++at_;
    }
    /// Goes past spaces, and past this letter if it is next.
    bool take(char wanted) noexcept {
        skip_space();
        if (!next_is(wanted)) return false;
        ++at_;
        return true;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

} // namespace trireme::detail
