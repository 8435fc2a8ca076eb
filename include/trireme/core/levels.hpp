// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace trireme {

/// Groups within groups: sizes[0] ranks to the innermost group, sizes[1] of those to the next, ... {8, 4} are four
/// machines of eight devices. Rank r is at place r % 8 of machine r / 8.
struct levels {
    static constexpr int most = 4;
    int count = 0;
    int sizes[most] = {};

    constexpr levels() = default;
    constexpr bool operator==(levels const&) const = default;
    template<class... Size>
    constexpr explicit levels(int innermost, Size... outer) noexcept
        : count(1 + static_cast<int>(sizeof...(outer))), sizes{innermost, outer...} {
        static_assert(sizeof...(outer) < most);
    }

    constexpr int ranks() const noexcept {
        int n = 1;
        for (int i = 0; i < count && i < most; ++i) n *= sizes[i];
        return n;
    }

    /// The groups as members of the next level.
    constexpr levels outer() const noexcept {
        levels l;
        for (int i = 1; i < count; ++i) l.sizes[l.count++] = sizes[i];
        return l;
    }

    /// The first level that holds both: 0 in one innermost group; `count` if there is none, or no levels at all.
    constexpr int shared_by(int a, int b) const noexcept {
        for (int i = 0; i < count && i < most; ++i) {
            a /= sizes[i];
            b /= sizes[i];
            if (a == b) return i;
        }
        return count;
    }

    /// The number whose digits in these sizes are those of `rank` from the other end: {8, 4} makes 4 p + m of 8 m + p.
    constexpr int reverse(int rank) const noexcept {
        int x = 0;
        for (int i = 0; i < count; ++i) {
            x = x * sizes[i] + rank % sizes[i];
            rank /= sizes[i];
        }
        return x;
    }

    /// The inverse of `reverse`.
    constexpr int reversed(int x) const noexcept {
        int rank = 0;
        for (int i = count - 1; i >= 0; --i) {
            int const digit = x % sizes[i];
            x /= sizes[i];
            rank = rank * sizes[i] + digit;
        }
        return rank;
    }

    /// `ranks` in `depth` levels: the given levels if they have so many, their outermost taken together if they have
    /// more; else as even as the divisors of `ranks` allow.
    static constexpr levels of(int ranks, levels const& given, int depth) noexcept {
        levels l;
        if (given.count >= depth && given.ranks() == ranks) {
            for (int i = 0; i < depth - 1; ++i) l.sizes[l.count++] = given.sizes[i];
            l.sizes[l.count++] = 1;
            for (int i = depth - 1; i < given.count; ++i) l.sizes[depth - 1] *= given.sizes[i];
            return l;
        }
        int rest = ranks;
        for (int left = depth; left > 1; --left) {
            int best = 1;
            for (int d = 1; d <= rest; ++d) {
                int power = 1;
                for (int i = 0; i < left && power <= rest; ++i) power *= d;
                if (power > rest) break;
                if (rest % d == 0) best = d;
            }
            // the even cut, or the next divisor where that is nothing: 6 in two levels are 2 x 3, 2 are 2 x 1
            if (best == 1 && left == 2)
                for (int d = 2; d <= rest && best == 1; ++d)
                    if (rest % d == 0) best = d;
            l.sizes[l.count++] = best;
            rest /= best;
        }
        l.sizes[l.count++] = rest;
        return l;
    }
};

} // namespace trireme
