// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/all_gather.hpp>
#include <trireme/collective/channel.hpp>
#include <trireme/collective/in_flight.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/group/communicator.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace trireme {
namespace detail {

/// The beginning of a message.
struct message_head {
    std::uint64_t elements = 0;
    std::uint32_t element_bytes = 0;
    char dtype[12] = {};

    template<class T>
    static message_head of(std::size_t elements) noexcept {
        message_head head{elements, sizeof(T), {}};
        std::memcpy(head.dtype, dtype_name<T>, std::min(std::strlen(dtype_name<T>), sizeof head.dtype - 1));
        return head;
    }
    bool same_type(message_head const& other) const noexcept {
        return element_bytes == other.element_bytes && std::memcmp(dtype, other.dtype, sizeof dtype) == 0;
    }
    /// "10 x f32", "3 x bytes, 16 each".
    std::string text() const {
        auto const said = std::to_string(elements) + " x " + dtype;
        return std::strcmp(dtype, "bytes") == 0 ? said + ", " + std::to_string(element_bytes) + " each" : said;
    }
};
static_assert(sizeof(message_head) <= cache_line && std::is_trivially_copyable_v<message_head>);

[[noreturn]] TRIREME_COLD inline void refuse_peer(char const* what, int peer, int rank, int ranks) {
    throw usage_error(std::string(what) + ": rank " + std::to_string(peer) + " is asked for by rank " +
                      std::to_string(rank) + " of " + std::to_string(ranks) +
                      ": messages go between two different ranks");
}
[[noreturn]] TRIREME_COLD inline void refuse_message(int from, message_head const& sent, int to,
                                                     message_head const& wanted) {
    throw usage_error("receive: rank " + std::to_string(from) + " has sent " + sent.text() + " to rank " +
                      std::to_string(to) + ", which receives " + wanted.text() +
                      ": both ends of a message agree in type and count");
}

} // namespace detail

inline namespace TRIREME_ISA {

/// Messages from rank to rank, outside of collectives: `messages.send(1, numbers)` on one rank,
/// `auto numbers = messages.receive<float>(0)` on the other. Between two ranks they arrive in the order of their
/// sending, and every one is received by a call of its own.
///
/// Each pair of ranks has a slot in each direction. `send` copies into it and returns, as long as there is room: up to
/// 16 messages, or as many bytes as the slot has. A longer message goes in parts, and its sender then waits for the
/// receiver. So two ranks that both send too much before they receive wait for one another, until the group's deadline
/// ends that with a deadline_error. Waits name the rank that is late, and end when the group stops.
///
/// Between machines parts are messages, which may leave only while their sender calls the group again.
template<channelled_communicator C>
class rank_messages {
public:
    /// Every rank of the group calls it, with the same size of a slot; it takes two of a rank's arenas, one of them of
    /// `slot_bytes` (at least 2 KiB) per other rank. Returns when all ranks are here. Throws usage_error if the sizes
    /// differ.
    explicit rank_messages(C& comm, std::size_t slot_bytes = 64_KiB)
        : comm_(comm), part_bytes_(part_of(slot_bytes)), sent_(static_cast<std::size_t>(comm_.size())),
          received_(sent_.size()), slots_(comm_.allocate((sent_.size() - 1) * parts * part_bytes_)),
          rooms_(reads_all_in_place(comm) ? 0 : (sent_.size() - 1) * part_bytes_),
          channels_(comm_, links(comm_.size()), parts * (sent_.size() - 1)) {
        for (int r = 0; r < comm_.size(); ++r) {
            if (r == comm_.rank() || !is_near(r)) continue;
            // a rank that leaves early may still have sent something: what it shows is mapped now
            comm_.template shared<std::byte>(slots_, r);
            channels_.taken(link(comm_.rank(), r), 0);
        }
        for (auto const theirs : all_gather<direct>(comm_, part_bytes_))
            if (theirs != part_bytes_)
                throw usage_error("rank_messages: slots of " + std::to_string(parts * part_bytes_) + " bytes on rank " +
                                  std::to_string(comm_.rank()) + ", of " + std::to_string(parts * theirs) +
                                  " on another: all ranks give the same size");
    }
    rank_messages(rank_messages const&) = delete;
    rank_messages& operator=(rank_messages const&) = delete;

    /// Sends a buffer of any size, which may be changed when the call returns. Throws usage_error for a rank that does
    /// not exist or is the caller, deadline_error and group_stopped.
    template<class B>
        requires(buffer<B> || temporary_buffer<B>) && byte_copyable<element_of<B>>
    void send(int to, B&& numbers) {
        send_numbers(to, std::span<element_of<B> const>(numbers));
    }
    /// Sends one number, or anything else that is copied as bytes.
    template<single_value T>
    void send(int to, T const& value) {
        send_numbers(to, std::span<T const>(&value, 1));
    }

    /// Receives the next message of a rank, of any count. Throws usage_error if it is of another type than T, and as
    /// send; a message that has been refused can be received again.
    template<byte_copyable T>
        requires std::default_initializable<T>
    [[nodiscard]] std::vector<T> receive(int from) {
        std::vector<T> numbers;
        receive_numbers<T>(from, [&](detail::message_head const& head) {
            refuse_another(from, head, detail::message_head::of<T>(static_cast<std::size_t>(head.elements)));
            numbers.resize(static_cast<std::size_t>(head.elements));
            return numbers.data();
        });
        return numbers;
    }
    /// Receives the next message of a rank into a buffer of its size. Throws usage_error if it has another one.
    template<writable_buffer B>
        requires byte_copyable<element_of<B>>
    void receive(int from, B&& numbers) {
        receive_into(from, std::span<element_of<B>>(numbers));
    }
    /// Receives one number, or anything else that is copied as bytes.
    template<single_value T>
    void receive(int from, T& value) {
        receive_into(from, std::span<T>(&value, 1));
    }

private:
    static constexpr std::size_t parts = 16;              ///< of a slot; a message takes one or more
    static constexpr std::size_t head_bytes = cache_line; ///< in a message's first part, before its numbers

    static std::size_t part_of(std::size_t slot_bytes) noexcept {
        return std::max(2 * head_bytes, round_up(slot_bytes / parts, cache_line));
    }
    static std::vector<channel_link> links(int ranks) {
        std::vector<channel_link> all;
        for (int from = 0; from < ranks; ++from)
            for (int to = 0; to < ranks; ++to)
                if (from != to) all.push_back({from, to});
        return all;
    }
    std::size_t slot(int from, int to) const noexcept { return static_cast<std::size_t>(to < from ? to : to - 1); }
    std::size_t link(int from, int to) const noexcept {
        return static_cast<std::size_t>(from) * (sent_.size() - 1) + slot(from, to);
    }
    /// The place of a part in the memory of its sender.
    std::size_t place(int from, int to, std::uint64_t part) const noexcept {
        return (slot(from, to) * parts + static_cast<std::size_t>(part % parts)) * part_bytes_;
    }
    bool is_near([[maybe_unused]] int rank) {
        if constexpr (link_communicator<C>)
            return comm_.place_of(rank) >= 0;
        else
            return true;
    }
    void require_peer(char const* what, int peer) const {
        if (peer < 0 || peer >= comm_.size() || peer == comm_.rank()) [[unlikely]]
            detail::refuse_peer(what, peer, comm_.rank(), comm_.size());
    }
    static operation doing(char const* what, std::uint64_t part) noexcept {
        return {what, "rank_messages", static_cast<int>(part & 0x7FFFFFFF)};
    }
    void refuse_another(int from, detail::message_head const& sent, detail::message_head const& wanted) const {
        if (!sent.same_type(wanted) || sent.elements != wanted.elements) [[unlikely]]
            detail::refuse_message(from, sent, comm_.rank(), wanted);
    }

    template<class T>
    void send_numbers(int to, std::span<T const> numbers) {
        require_peer("send", to);
        auto& sent = sent_[static_cast<std::size_t>(to)];
        auto const i = link(comm_.rank(), to);
        auto const* const from = reinterpret_cast<std::byte const*>(numbers.data());
        std::size_t done = 0;
        for (bool first = true; first || done < numbers.size_bytes(); first = false) {
            if (sent >= parts)
                channels_.wait_taken(i, static_cast<std::uint32_t>(sent - parts + 1), doing("send", sent));
            auto* at = comm_.template shared<std::byte>(slots_, comm_.rank()) + place(comm_.rank(), to, sent);
            if (first) {
                auto const head = detail::message_head::of<T>(numbers.size());
                std::memcpy(at, &head, sizeof head);
            }
            auto const before = first ? head_bytes : 0;
            auto const bytes = std::min(part_bytes_ - before, numbers.size_bytes() - done);
            if (bytes != 0) std::memcpy(at + before, from + done, bytes);
            done += bytes;
            channels_.send(i, at, before + bytes);
            ++sent;
        }
    }

    template<class T>
    void receive_into(int from, std::span<T> numbers) {
        receive_numbers<T>(from, [&](detail::message_head const& head) {
            refuse_another(from, head, detail::message_head::of<T>(numbers.size()));
            return numbers.data();
        });
    }

    /// The room of a rank's next part, if that is sent; none if all ranks share memory.
    std::span<std::byte> room_of(int from) noexcept {
        if (rooms_.empty()) return {};
        return std::span(rooms_).subspan(slot(comm_.rank(), from) * part_bytes_, part_bytes_);
    }

    /// `room(head)` says where a message's numbers go, or throws.
    template<class T, class Room>
    void receive_numbers(int from, Room&& room) {
        require_peer("receive", from);
        auto& received = received_[static_cast<std::size_t>(from)];
        std::byte* to = nullptr;
        std::size_t all = 0, done = 0;
        for (bool first = true; first || done < all; first = false) {
            auto const find = [&](int sender) {
                return comm_.template shared<std::byte>(slots_, sender) + place(sender, comm_.rank(), received);
            };
            channels_.receive(link(from, comm_.rank()), doing("receive", received), room_of(from), find,
                              [&](std::byte const* at) -> bytes_t {
                                  if (first) {
                                      detail::message_head head;
                                      std::memcpy(&head, at, sizeof head);
                                      to = reinterpret_cast<std::byte*>(room(head));
                                      all = static_cast<std::size_t>(head.elements) * sizeof(T);
                                  }
                                  auto const before = first ? head_bytes : 0;
                                  auto const bytes = std::min(part_bytes_ - before, all - done);
                                  if (bytes != 0) std::memcpy(to + done, at + before, bytes);
                                  done += bytes;
                                  return bytes;
                              });
            ++received;
        }
    }

    C& comm_;
    std::size_t part_bytes_;
    std::vector<std::uint64_t> sent_, received_; ///< parts, by the other rank
    arena slots_;
    std::vector<std::byte> rooms_; ///< for parts that are sent
    rank_channels<C> channels_;
};

template<class C>
rank_messages(C&) -> rank_messages<C>;
template<class C>
rank_messages(C&, std::size_t) -> rank_messages<C>;

} // namespace TRIREME_ISA
} // namespace trireme
