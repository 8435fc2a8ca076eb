// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/on_streams/moves.hpp>
#include <trireme/collective/proved.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/pack.hpp>
#include <trireme/device/upload_table.hpp>
#include <trireme/group/transport/peer/group.hpp>
#include <trireme/schedule/fixed_tree.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace trireme {

/// The addresses of one rank's numbers of a collective, in its device's memory. The same address twice: in place.
template<class T>
struct stream_buffers {
    T const* in = nullptr;
    T* out = nullptr;
};

namespace detail {

/// Puts streams in step: all that is handed to any of them afterwards comes after all that any of them has.
template<class Stream>
void join_streams(std::span<Stream* const> streams, std::span<typename Stream::event> events) {
    for (std::size_t i = 0; i < streams.size(); ++i) streams[i]->record(events[i]);
    for (std::size_t i = 0; i < streams.size(); ++i)
        for (std::size_t k = 0; k < streams.size(); ++k)
            if (i != k) streams[i]->wait(events[k]);
}

/// The number of blocks that share `elements`: enough to fill a large device, not more than there is work for.
template<class Program>
std::uint32_t blocks_for(std::uint64_t elements, std::uint32_t per_thread) {
    auto const enough =
        (elements + std::uint64_t{Program::threads} * per_thread - 1) / (std::uint64_t{Program::threads} * per_thread);
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(enough, 1, 528));
}

} // namespace detail

/// The moves of a schedule, as they lie in the table that a device reads: moves, pointers, and where rounds begin. For
/// the plan a table is counted without being made.
class move_table {
public:
    /// Of the device of `rank`, if that has a device of its own.
    static constexpr std::size_t bytes(schedule const& s, buffer_cut const& cut, int rank) {
        std::size_t moves = 0, pointers = 0;
        int rounds = 0;
        detail::play<int>(s, [&](int r, int, collective_step const& step, int ready) {
            if (!reads(step.kind)) return ready;
            rounds = std::max(rounds, ready + 1);
            for (int j = 0; r == rank && j < step.chunk.count; ++j) {
                if (cut.at(s.place(step.chunk.at(j, s.chunks))).size() == 0) continue;
                ++moves;
                pointers += pointers_of(step);
            }
            return ready + 1;
        });
        return total(moves, pointers, rounds);
    }

    static constexpr std::size_t pointers_of(collective_step const& step) noexcept {
        bool const reduces = step.kind == step_kind::reduce;
        return 2 + (reduces ? static_cast<std::size_t>(step.sources.count + step.destinations.count) : 0);
    }
    static constexpr std::size_t total(std::size_t moves, std::size_t pointers, int rounds) noexcept {
        return moves == 0 ? 0
                          : moves * sizeof(stream_move) + pointers * sizeof(void*) +
                                round_up<std::size_t>((static_cast<std::size_t>(rounds) + 1) * sizeof(std::uint32_t),
                                                      sizeof(void*));
    }
};

/// One collective of a peer group, on fixed buffers, to be handed to streams as often as one likes: what is computed
/// about it is computed once, here. Between devices a round is a kernel per device, and rounds are ordered by events;
/// where all ranks are on one device, the whole schedule is one kernel. Nothing waits inside a kernel.
template<accelerator Device, class T, stream_op Op = stream_op::sum>
class peer_collective {
public:
    using stream = typename Device::stream;

    /// Rank r's numbers are at buffers[r]; the schedule has been proved. kept[r]: what of rank r's input is its output
    /// as well, though no step says so; for buffers that lie apart.
    peer_collective(peer_group<Device> const& group, schedule const& s, buffer_cut const& cut,
                    std::vector<stream_buffers<T>> const& buffers, std::vector<range> const& kept = {})
        : group_(&group), moved_(static_cast<std::size_t>(group.size())) {
        find_leaders();
        std::vector<std::vector<stream_move>> moves(leaders_.size());
        std::vector<std::vector<void*>> pointers(leaders_.size());
        std::vector<std::vector<std::uint32_t>> begins(leaders_.size());
        auto const steps = steps_in_rounds(s);
        rounds_ = steps.empty() ? (kept.empty() ? 0 : 1) : static_cast<std::uint32_t>(steps.back().round) + 1;
        std::size_t at = 0;
        for (std::uint32_t round = 0; round < rounds_; ++round) {
            for (std::size_t d = 0; d < leaders_.size(); ++d)
                begins[d].push_back(static_cast<std::uint32_t>(moves[d].size()));
            for (std::size_t r = 0; round == 0 && r < kept.size(); ++r) {
                if (kept[r].size() == 0 || buffers[r].in == buffers[r].out) continue;
                auto const d = place_of_device(group.device_of(static_cast<int>(r)));
                add_move(moves[d], pointers[d], kept[r].size(),
                         {buffers[r].out + kept[r].begin, const_cast<T*>(buffers[r].in) + kept[r].begin});
            }
            for (; at < steps.size() && steps[at].round == static_cast<int>(round); ++at) {
                auto const d = place_of_device(group.device_of(steps[at].rank));
                add_moves(s, cut, buffers, steps[at], moves[d], pointers[d]);
            }
        }
        for (std::size_t d = 0; d < leaders_.size(); ++d) {
            begins[d].push_back(static_cast<std::uint32_t>(moves[d].size()));
            lay_down(d, moves[d], pointers[d], begins[d]);
        }
    }

    /// The tree of `shards` logical shards: rank r's blocks lie behind slots[r], `elements` apart; all ranks get the
    /// sum in their first.
    peer_collective(peer_group<Device> const& group, std::size_t shards, std::size_t elements,
                    std::vector<T*> const& slots)
        : group_(&group), moved_(static_cast<std::size_t>(group.size())), tree_elements_(elements) {
        find_leaders();
        std::vector<void*> pointers;
        auto const merges = tree_merges(group.size(), shards, [&](int rank, std::size_t block) {
            pointers.push_back(slots[static_cast<std::size_t>(rank)] + block * elements);
        });
        leaves_ = static_cast<std::uint32_t>(merges.size());
        for (auto* const slot : slots) pointers.push_back(slot);
        for (std::size_t d = 0; d < leaders_.size(); ++d) lay_down(d, {}, pointers, merges);
        for (int r = 0; r < group.size(); ++r) {
            auto const part = chunk_range(elements, r, group.size(), sizeof(T)).size() * sizeof(T);
            auto& sum = moved_[static_cast<std::size_t>(r)];
            for (int q = 0; q < group.size(); ++q)
                if (q != r) {
                    sum.messages += 2; // read from, written to
                    sum.bytes += (tree_leaves_of(q, group.size(), shards) + 1) * part;
                }
        }
    }

    /// Hands the collective over. streams[r] is rank r's, on its device: what it had before comes before, what it gets
    /// afterwards finds the result.
    void enqueue(std::span<stream* const> streams) {
        if (streams.size() != static_cast<std::size_t>(group_->size()))
            throw usage_error("a collective of " + std::to_string(group_->size()) + " ranks was given " +
                              std::to_string(streams.size()) + " streams: one per rank");
        if (rounds_ == 0 && leaves_ == 0) return;
        detail::join_streams<stream>(streams, std::span(events_).first(streams.size()));
        if (leaves_ != 0)
            enqueue_tree(streams);
        else if (packed_)
            enqueue_rounds<true>(streams);
        else
            enqueue_rounds<false>(streams);
        detail::join_streams<stream>(streams, std::span(events_).first(streams.size()));
    }

    /// The traffic that rank r reads from its peers, or writes to them, each time.
    traffic moved(int rank) const noexcept { return moved_[static_cast<std::size_t>(rank)]; }

    /// Bytes of tables, over all devices.
    std::size_t table_bytes() const noexcept {
        std::size_t sum = 0;
        for (auto const& l : leaders_) sum += l.table.bytes();
        return sum;
    }

private:
    struct leader {
        int device;
        int rank; ///< whose stream the device's kernels go to
        typename Device::memory table;
        std::uint32_t moves = 0;
        std::uint64_t most_elements = 0; ///< of the moves of a round, over all rounds
    };

    void find_leaders() {
        for (int r = 0; r < group_->size(); ++r) {
            events_.emplace_back(group_->device_of(r));
            if (place_of_device(group_->device_of(r)) != npos) continue;
            leaders_.push_back({group_->device_of(r), r, {}});
            leader_events_.emplace_back(group_->device_of(r));
        }
        leading_.resize(leaders_.size());
    }
    std::size_t place_of_device(int device) const noexcept {
        for (std::size_t d = 0; d < leaders_.size(); ++d)
            if (leaders_[d].device == device) return d;
        return npos;
    }

    void add_moves(schedule const& s, buffer_cut const& cut, std::vector<stream_buffers<T>> const& buffers,
                   round_step const& at, std::vector<stream_move>& moves, std::vector<void*>& pointers) {
        auto const& step = at.step;
        auto const of = [&](int rank) -> stream_buffers<T> const& { return buffers[static_cast<std::size_t>(rank)]; };
        auto const where = [&](int rank, int chunk, int steps, std::size_t begin) {
            auto const& b = of(rank);
            bool const written = b.in == b.out || s.writes(rank, chunk, steps);
            return const_cast<T*>(written ? b.out : b.in) + begin; // the table holds what is read and what is written
        };
        auto& sum = moved_[static_cast<std::size_t>(at.rank)];
        sum.messages += static_cast<std::uint64_t>(step.sources.count + step.destinations.count);
        for (int j = 0; j < step.chunk.count; ++j) {
            int const chunk = step.chunk.at(j, s.chunks);
            auto const piece = cut.at(s.place(chunk));
            if (piece.size() == 0) continue;
            std::vector<T*> table{of(at.rank).out + piece.begin};
            if (step.kind == step_kind::reduce) {
                table.push_back(where(at.rank, chunk, at.index, piece.begin));
                for (int k = 0; k < step.sources.count; ++k)
                    table.push_back(where(step.sources.at(k, s.ranks), chunk, step.after, piece.begin));
                for (int k = 0; k < step.destinations.count; ++k)
                    table.push_back(of(step.destinations.at(k, s.ranks)).out + piece.begin);
                add_move(moves, pointers, piece.size(), table, step.sources.count, step.destinations.count);
            } else {
                int const source = step.sources.at(0, s.ranks);
                table.push_back(step.source_chunk >= 0
                                    ? const_cast<T*>(of(source).in) + cut.at(s.place(step.source_chunk)).begin
                                    : where(source, chunk, step.after, piece.begin));
                add_move(moves, pointers, piece.size(), table);
            }
            sum.bytes += piece.size() * sizeof(T) * static_cast<bytes_t>(step.sources.count + step.destinations.count);
        }
    }

    void add_move(std::vector<stream_move>& moves, std::vector<void*>& pointers, std::size_t elements,
                  std::vector<T*> const& table, int sources = 0, int copies = 0) {
        moves.push_back(
            {pointers.size(), elements, static_cast<std::uint32_t>(sources), static_cast<std::uint32_t>(copies)});
        for (auto* const p : table) {
            pointers.push_back(p);
            packed_ = packed_ && reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
        }
    }

    /// Moves, pointers and numbers, one behind the other, to the memory of a device.
    void lay_down(std::size_t d, std::vector<stream_move> const& moves, std::vector<void*> const& pointers,
                  std::vector<std::uint32_t> const& numbers) {
        auto const a = moves.size() * sizeof(stream_move), b = pointers.size() * sizeof(void*);
        auto const c = round_up<std::size_t>(numbers.size() * sizeof(std::uint32_t), sizeof(void*));
        auto& l = leaders_[d];
        l.moves = static_cast<std::uint32_t>(moves.size());
        for (std::size_t i = 0; i + 1 < numbers.size() && !moves.empty(); ++i) {
            std::uint64_t sum = 0;
            for (auto m = numbers[i]; m < numbers[i + 1]; ++m) sum += moves[m].elements;
            l.most_elements = std::max(l.most_elements, sum);
        }
        if (pointers.empty()) return;
        std::vector<std::byte> all(a + b + c);
        if (a != 0) std::memcpy(all.data(), moves.data(), a);
        std::memcpy(all.data() + a, pointers.data(), b);
        std::memcpy(all.data() + a + b, numbers.data(), numbers.size() * sizeof(std::uint32_t));
        l.table = typename Device::memory(l.device, all.size(), "tables of the collectives");
        upload_table<Device>(l.rank, l.device, l.table.data(), all.data(), all.size(), group_->wait_limit());
    }

    static stream_move const* moves_of(leader const& l) { return static_cast<stream_move const*>(l.table.data()); }
    static void* const* pointers_of(leader const& l) {
        return reinterpret_cast<void* const*>(static_cast<std::byte*>(l.table.data()) + l.moves * sizeof(stream_move));
    }

    template<bool Packed>
    void enqueue_rounds(std::span<stream* const> streams) {
        using program = move_program<T, Op, Packed>;
        auto const launch = [&](leader const& l, std::uint32_t first, std::uint32_t count) {
            if (l.moves == 0) return;
            auto const table_end = static_cast<std::byte*>(l.table.data()) + l.table.bytes();
            auto const numbers = round_up<std::size_t>((rounds_ + 1) * sizeof(std::uint32_t), sizeof(void*));
            streams[static_cast<std::size_t>(l.rank)]->launch(
                program{moves_of(l), pointers_of(l), reinterpret_cast<std::uint32_t const*>(table_end - numbers), first,
                        count},
                detail::blocks_for<program>(l.most_elements, program::packet::size));
        };
        if (leaders_.size() == 1) return launch(leaders_[0], 0, rounds_);
        for (std::size_t d = 0; d < leaders_.size(); ++d)
            leading_[d] = streams[static_cast<std::size_t>(leaders_[d].rank)];
        for (std::uint32_t round = 0; round < rounds_; ++round) {
            if (round != 0) detail::join_streams<stream>(leading_, std::span(leader_events_));
            for (auto const& l : leaders_) launch(l, round, 1);
        }
    }

    void enqueue_tree(std::span<stream* const> streams) {
        using program = tree_program<T>;
        for (std::size_t d = 0; d < leaders_.size(); ++d) {
            auto const& l = leaders_[d];
            auto const part =
                chunk_range(tree_elements_, static_cast<int>(d), static_cast<int>(leaders_.size()), sizeof(T));
            if (part.size() == 0) continue;
            auto const copies = static_cast<std::uint32_t>(group_->size());
            auto* const pointers = pointers_of(l);
            streams[static_cast<std::size_t>(l.rank)]->launch(
                program{pointers, reinterpret_cast<std::uint32_t const*>(pointers + leaves_ + copies), leaves_, copies,
                        part.begin, part.end},
                detail::blocks_for<program>(part.size(), 1));
        }
    }

    peer_group<Device> const* group_;
    bool packed_ = true;
    std::uint32_t rounds_ = 0;
    std::uint32_t leaves_ = 0;
    std::vector<traffic> moved_;
    std::size_t tree_elements_ = 0;
    std::vector<leader> leaders_;
    std::vector<stream*> leading_; ///< the leaders' streams of the call that is being handed over
    std::vector<typename Device::event> events_, leader_events_;
};

/// The part of `rank`'s input that is its output as well, where the two lie apart.
constexpr range kept_of(collective goal, int rank, int ranks, int root, std::size_t elements) noexcept {
    if (ranks == 1 || (goal == collective::broadcast && rank == root)) return {0, elements};
    bool const own_block = goal == collective::all_gather || goal == collective::all_to_all ||
                           ((goal == collective::gather || goal == collective::scatter) && rank == root);
    auto const block = elements / static_cast<std::size_t>(ranks);
    return own_block ? range{static_cast<std::size_t>(rank) * block, static_cast<std::size_t>(rank + 1) * block}
                     : range{};
}

/// Collective `Goal` by `Strategy` of a peer group, to be handed to streams: what each collective does is told in
/// schedule/collective/schedule.hpp. All buffers hold all `elements`;
/// where blocks belong to ranks, one per rank, of equal size. all_to_all needs buffers that lie apart.
///
///     auto sum = make_collective<ring, collective::all_reduce>(group, buffers, n);
///     sum.enqueue(streams);
///
/// The group must outlive it. The bits are those of the same strategy on threads. Throws usage_error. Cost: a table on
/// the device per collective, and per call one kernel on one device, or one per device and round.
template<class Strategy, collective Goal, stream_op Op = stream_op::sum, accelerator Device, class T>
[[nodiscard]] peer_collective<Device, T, Op> make_collective(peer_group<Device> const& group,
                                                             std::vector<stream_buffers<T>> const& buffers,
                                                             std::size_t elements, int root = 0) {
    static_assert(Goal != collective::barrier, "streams are put in step by events: a barrier has nothing to move");
    int const n = group.size();
    bool const blocks = Goal != collective::all_reduce && Goal != collective::broadcast && Goal != collective::reduce;
    if (buffers.size() != static_cast<std::size_t>(n))
        throw usage_error(std::string(name_of(Goal)) + " was given " + std::to_string(buffers.size()) +
                          " buffers in a group of " + std::to_string(n) + ": one per rank");
    if (blocks && elements % static_cast<std::size_t>(n) != 0)
        throw usage_error(std::string(name_of(Goal)) + " was given " + std::to_string(elements) + " elements for " +
                          std::to_string(n) + " ranks: their number must be a multiple of the ranks");
    for (auto const& b : buffers)
        if (Goal == collective::all_to_all && b.in == b.out && elements != 0)
            throw usage_error("all_to_all was given an output that is its input: they must lie apart");
    auto const s = proved_schedule<Strategy, Goal>(n, root, {}, elements * sizeof(T));
    std::vector<range> kept;
    for (int r = 0; r < n; ++r) kept.push_back(kept_of(Goal, r, n, root, elements));
    return {group, s, buffer_cut{elements, sizeof(T), s.chunks, blocks ? n : 1}, buffers, kept};
}

} // namespace trireme
