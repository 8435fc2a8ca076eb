// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

namespace trireme {

namespace detail {

/// Goes through the blocks of a blocks_by_rank; `Blocks` is constant where its numbers are.
template<class Blocks>
class block_iterator {
public:
    using iterator_concept = std::forward_iterator_tag;
    using difference_type = std::ptrdiff_t;
    using value_type = decltype((*std::declval<Blocks*>())[0]);

    block_iterator() = default;
    block_iterator(Blocks& blocks, std::size_t rank) : blocks_(&blocks), rank_(rank) {}
    value_type operator*() const { return (*blocks_)[rank_]; }
    block_iterator& operator++() {
        ++rank_;
        return *this;
    }
    block_iterator operator++(int) { return {*blocks_, rank_++}; }
    bool operator==(block_iterator const&) const = default;

private:
    Blocks* blocks_ = nullptr;
    std::size_t rank_ = 0;
};

} // namespace detail

/// Numbers of all ranks, a block of any size from each, one behind the other: a range of spans, by rank.
///
///     for (auto const block : all_gatherv(me, mine)) show(block);
template<class T>
struct blocks_by_rank {
    std::vector<T> numbers;
    std::vector<std::size_t> offsets = {0}; ///< where each rank's numbers begin, and where the last one's end

    blocks_by_rank() = default;
    /// Makes room for blocks of these sizes, by rank.
    explicit blocks_by_rank(std::span<std::size_t const> sizes) {
        for (auto const size : sizes) offsets.push_back(offsets.back() + size);
        numbers.resize(offsets.back());
    }

    /// The number of ranks.
    std::size_t size() const noexcept { return offsets.size() - 1; }
    bool empty() const noexcept { return size() == 0; }

    /// The numbers of a rank.
    std::span<T> operator[](std::size_t rank) noexcept {
        return std::span(numbers).subspan(offsets[rank], size_of(rank));
    }
    std::span<T const> operator[](std::size_t rank) const noexcept {
        return std::span(numbers).subspan(offsets[rank], size_of(rank));
    }

    auto begin() noexcept { return detail::block_iterator<blocks_by_rank>(*this, 0); }
    auto end() noexcept { return detail::block_iterator<blocks_by_rank>(*this, size()); }
    auto begin() const noexcept { return detail::block_iterator<blocks_by_rank const>(*this, 0); }
    auto end() const noexcept { return detail::block_iterator<blocks_by_rank const>(*this, size()); }

    bool operator==(blocks_by_rank const&) const = default;

private:
    std::size_t size_of(std::size_t rank) const noexcept { return offsets[rank + 1] - offsets[rank]; }
};

} // namespace trireme
