// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/pack.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/accelerator.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

/// Work on a stream: all that is handed to it between `begin` and `end` of its stream_order. Streams are numbered, and
/// so are the places of memory that it reads and writes.
struct stream_work {
    std::size_t stream = 0;
    std::array<range, 5> reads = {};
    std::array<range, 5> writes = {};
};

/// Waits between streams, derived from what their work reads and writes: work begins when all that has written to what
/// it reads is done, and all that has read or written what it writes. A stream that comes after another's work anyway
/// does not wait for it. Allocates nothing after construction.
///
/// The caller hands work over in an order in which it can be done: what work waits for has been handed over before it.
template<accelerator_stream Stream>
class stream_order {
public:
    /// `places` of memory. Of each stream the last `remembered` pieces of work can be waited for one by one; who waits
    /// for an older one waits for one of these.
    stream_order(std::span<Stream* const> streams, std::size_t places, std::size_t remembered)
        : remembered_(remembered), needed_(streams.size()), read_(places * streams.size()),
          written_(places * streams.size()) {
        for (auto* const s : streams) {
            lanes_.push_back({s, 0, std::vector<std::uint64_t>(streams.size()), {}, {}});
            for (std::size_t i = 0; i < remembered; ++i) {
                lanes_.back().events.emplace_back(s->device());
                lanes_.back().knew.emplace_back(streams.size());
            }
        }
    }

    void begin(stream_work const& w) {
        auto const all = lanes_.size();
        std::fill(needed_.begin(), needed_.end(), 0);
        auto const need = [&](std::vector<std::uint64_t> const& by, range const& places) {
            for (auto p = places.begin; p < places.end; ++p)
                for (std::size_t s = 0; s < all; ++s) needed_[s] = std::max(needed_[s], by[p * all + s]);
        };
        for (auto const& places : w.reads) need(written_, places);
        for (auto const& places : w.writes) need(written_, places), need(read_, places);
        auto& lane = lanes_[w.stream];
        for (std::size_t s = 0; s < all; ++s)
            if (s == w.stream || needed_[s] <= lane.known[s]) needed_[s] = 0;
        for (auto s = widest(); s != npos; s = widest()) {
            auto const i = index(s);
            lane.stream->wait(lanes_[s].events[i]);
            for (std::size_t k = 0; k < all; ++k) {
                lane.known[k] = std::max(lane.known[k], lanes_[s].knew[i][k]);
                if (needed_[k] <= lane.known[k]) needed_[k] = 0;
            }
        }
    }
    void end(stream_work const& w) {
        auto& lane = lanes_[w.stream];
        auto const number = ++lane.count;
        lane.known[w.stream] = number;
        auto const note = [&](std::vector<std::uint64_t>& by, range const& places) {
            for (auto p = places.begin; p < places.end; ++p) by[p * lanes_.size() + w.stream] = number;
        };
        for (auto const& places : w.reads) note(read_, places);
        for (auto const& places : w.writes) note(written_, places);
        lane.stream->record(lane.events[number % remembered_]);
        lane.knew[number % remembered_] = lane.known;
    }

    /// Forgets who has read and written these places: all of it comes before what `stream` gets next, and the others
    /// come after that.
    void restart(std::size_t stream, range places) {
        auto const all = lanes_.size();
        for (auto i = places.begin * all; i < places.end * all; ++i) read_[i] = written_[i] = 0;
        end({stream, {}, {{places}}});
    }

private:
    struct stream_lane {
        Stream* stream;
        std::uint64_t count;              ///< of its pieces of work
        std::vector<std::uint64_t> known; ///< by stream: the last piece of work that this one comes after
        std::vector<typename Stream::event> events;
        std::vector<std::vector<std::uint64_t>> knew; ///< `known` at each event
    };

    /// The event that is waited for where a piece of work of stream `s` is needed: its own, or one behind it.
    std::size_t index(std::size_t s) const noexcept { return static_cast<std::size_t>(needed_[s] % remembered_); }
    /// The stream, of those that are needed, that comes after most of the others; npos if none is needed.
    std::size_t widest() const noexcept {
        std::size_t found = npos, most = 0;
        for (std::size_t s = 0; s < lanes_.size(); ++s) {
            if (needed_[s] == 0) continue;
            std::size_t covered = 0;
            for (std::size_t k = 0; k < lanes_.size(); ++k)
                if (needed_[k] != 0 && lanes_[s].knew[index(s)][k] >= needed_[k]) ++covered;
            if (covered > most) found = s, most = covered;
        }
        return found;
    }

    std::uint64_t remembered_;
    std::vector<stream_lane> lanes_;
    std::vector<std::uint64_t> needed_;         ///< of the work that begins, by stream
    std::vector<std::uint64_t> read_, written_; ///< by place and stream: the last piece of work
};

} // namespace trireme
