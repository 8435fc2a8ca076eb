// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <doctest/doctest.h>

#include <sys/mman.h>

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstring>
#include <map>
#include <new>
#include <span>
#include <utility>

// The way from process to process that the stand-in for NCCL takes: see nccl_mock.hpp.

namespace nccl_mock {

/// A letter at the post office is a message, one rank's numbers for an all-reduce, or its part in a split.
enum class letter_kind : int { message, numbers, split };

/// The letters of one kind from one rank to another, or to all, of a world; they are taken in the order in which they
/// were sent.
struct route {
    letter_kind kind;
    int world, from, to;
    auto operator<=>(route const&) const = default;
};

/// A post office for processes that have been forked: memory that all of them see. Letters are never thrown away.
class post_office {
public:
    post_office() {
        auto* const memory = ::mmap(nullptr, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        REQUIRE(memory != MAP_FAILED);
        shared_ = new (memory) shared;
    }
    post_office(post_office const&) = delete;
    post_office& operator=(post_office const&) = delete;
    ~post_office() { ::munmap(shared_, sizeof(shared)); }

    /// Returns the letter's number.
    std::size_t send(route const& on, void const* data, std::size_t bytes) {
        auto const number = shared_->letters.fetch_add(1), begin = shared_->used.fetch_add(bytes);
        if (number >= most_letters || begin + bytes > most_bytes) throw std::bad_alloc();
        auto& l = shared_->all[number];
        l.on = on;
        l.begin = begin;
        l.bytes = bytes;
        if (bytes != 0) std::memcpy(shared_->data + begin, data, bytes);
        l.here.store(true, std::memory_order_release);
        return number;
    }
    bool is_taken(std::size_t number) const { return shared_->all[number].taken.load(std::memory_order_acquire); }

    /// The next letter on a route, if it is there; it stays the next one until it is taken.
    bool is_there(route const& on) {
        for (; read_ < most_letters && shared_->all[read_].here.load(std::memory_order_acquire); ++read_)
            numbers_[{shared_->all[read_].on, sent_[shared_->all[read_].on]++}] = read_;
        return numbers_.count({on, taken_[on]}) != 0;
    }
    std::span<std::byte const> take(route const& on) {
        auto& l = shared_->all[numbers_.at({on, taken_[on]++})];
        l.taken.store(true, std::memory_order_release);
        return {shared_->data + l.begin, l.bytes};
    }

private:
    static constexpr std::size_t most_letters = 1 << 16, most_bytes = std::size_t{1} << 28;
    struct letter {
        route on;
        std::size_t begin, bytes;
        std::atomic<bool> here, taken;
    };
    struct shared {
        std::atomic<std::size_t> letters{0}, used{0};
        letter all[most_letters];
        std::byte data[most_bytes];
    };

    shared* shared_;
    // of this process
    std::size_t read_ = 0; ///< letters that have been looked at
    std::map<route, std::size_t> sent_, taken_;
    std::map<std::pair<route, std::size_t>, std::size_t> numbers_;
};

} // namespace nccl_mock
