// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/own_process.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/group/transport/mpi/errors.hpp>
#include <trireme/group/transport/mpi/messages.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace trireme {

/// The messages of one rank on links to others, outside of collectives. Each link between two ranks has a tag of its
/// own, on a communicator that collectives do not use: what goes over one link arrives in the order of its sending,
/// and in no order with what goes over another. A send only begins, whatever its size, and is never buffered here.
class mpi_links {
public:
    /// All ranks of the group call it together. `between_two`: the most links from one rank to another; `under_way`:
    /// messages of this rank, for which there is room without allocating. Throws deadline_error, usage_error.
    mpi_links(mpi_messages& group, std::size_t between_two, std::size_t under_way)
        : group_(group), comm_(group.links()), first_tag_(group.first_tag(between_two)) {
        sent_.reserve(under_way);
        received_.reserve(1);
    }
    mpi_links(mpi_links const&) = delete;
    mpi_links& operator=(mpi_links const&) = delete;

    /// Leaves what has not been taken to MPI, after a short while: its memory is to stay until the group ends.
    ~mpi_links() {
        int over = 0;
        if (!process_.is_this() || MPI_Finalized(&over) != MPI_SUCCESS || over != 0) return;
        group_.sends(-static_cast<int>(sent_.size()));
        give_up_receive();
        std::vector<MPI_Request> rest;
        for (auto const& s : sent_) rest.push_back(s.request);
        if (!rest.empty()) group_.await_shortly(rest);
    }

    /// Begins message `number` of a link, which counts from 1: the `tag`-th link to rank `to`.
    void send(std::size_t link, std::uint32_t number, int to, std::size_t tag, void const* data, std::size_t bytes) {
        group_.require_usable();
        in_pieces(
            bytes,
            [&](std::size_t at, int count) {
                auto& piece = sent_.emplace_back(message{link, number, MPI_REQUEST_NULL});
                mpi_runtime::check(MPI_Isend(static_cast<std::byte const*>(data) + at, count, MPI_BYTE, to, tag_of(tag),
                                             comm_, &piece.request),
                                   "MPI_Isend", group_.rank(), "a message on a link");
                group_.sends(1);
            },
            group_.most_bytes);
    }
    /// True if the memory of all messages of a link up to `number` is free.
    bool has_sent(std::size_t link, std::uint32_t number, operation const& what) {
        for (std::size_t i = 0; i < sent_.size();) {
            bool const later = static_cast<std::int32_t>(sent_[i].number - number) > 0; // numbers wrap around
            if (sent_[i].link != link || later) {
                ++i;
                continue;
            }
            int over = 0;
            if (auto const status = MPI_Test(&sent_[i].request, &over, MPI_STATUS_IGNORE); status != MPI_SUCCESS)
                group_.fail(status, what);
            if (over == 0) return false;
            sent_[i] = sent_.back();
            sent_.pop_back();
            group_.sends(-1);
        }
        return true;
    }

    /// Receives the next message of the `tag`-th link from a rank, of at most so many bytes, and waits for it.
    void receive(int from, std::size_t tag, void* data, std::size_t bytes, operation const& what) {
        group_.require_usable();
        in_pieces(
            bytes,
            [&](std::size_t at, int count) {
                mpi_runtime::check(MPI_Irecv(static_cast<std::byte*>(data) + at, count, MPI_BYTE, from, tag_of(tag),
                                             comm_, &received_.emplace_back(MPI_REQUEST_NULL)),
                                   "MPI_Irecv", group_.rank(), "a message on a link");
            },
            group_.most_bytes);
        try {
            wait(from, what, [&] {
                int over = 0;
                auto const status =
                    MPI_Testall(static_cast<int>(received_.size()), received_.data(), &over, MPI_STATUSES_IGNORE);
                if (status != MPI_SUCCESS) group_.fail(status, what);
                return over != 0;
            });
        } catch (...) {
            give_up_receive();
            throw;
        }
        received_.clear();
    }

    /// Waits until `ready()`, for rank `other`, as a collective waits: with the deadline, and what ends the group.
    template<class Ready>
    void wait(int other, operation const& what, Ready&& ready) {
        group_.awaits(other);
        group_.wait_for(what, ready);
    }

private:
    /// A message, or a piece of a long one, that may not have been taken.
    struct message {
        std::size_t link;
        std::uint32_t number;
        MPI_Request request;
    };

    int tag_of(std::size_t tag) const noexcept { return first_tag_ + static_cast<int>(tag); }

    TRIREME_COLD void give_up_receive() noexcept {
        for (auto& r : received_)
            if (r != MPI_REQUEST_NULL) MPI_Cancel(&r);
        if (!received_.empty()) group_.await_shortly(received_);
        received_.clear();
    }

    mpi_messages& group_;
    MPI_Comm comm_;
    int first_tag_;
    std::vector<message> sent_;
    std::vector<MPI_Request> received_; ///< pieces of one message
    own_process process_;
};

} // namespace trireme
