// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <rehearsed/nccl_post.hpp>

#include <trireme/collective/on_streams/moves.hpp>
#include <trireme/core/bf16.hpp>
#include <trireme/device/rehearsal/device.hpp>
#include <trireme/kernels/blocks/policy.hpp>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// A stand-in for NCCL, and for the few calls of CUDA beside it, over the streams of the rehearsal. It defines those
// functions, so a program that has it links neither library.
//
// What it plays: communicators that do not block, of one process, or of several that have been forked and have a
// post_office; their splits; a group of sends, receives and all-reduces, which begins on a stream when that is due, and
// makes nothing wait but the two ends of a message (so that other waits that the caller has forgotten show, as they do
// with all work of the rehearsal); errors that come later. It refuses what NCCL forbids, and where NCCL would wait for
// ever, or give any result: a message without its other end in one process, ends that differ, memory that one call of a
// group writes and another uses, a communicator that is busy or has failed, a stream of another device.
//
// What it cannot show: that NCCL itself takes these calls; the order in which NCCL adds (here it is that of the ranks);
// an abort while kernels run; graphs that outlive their communicators; how long anything takes.

namespace nccl_mock {

/// A rehearsed stream that can be handed to NCCL.
class stream : public trireme::rehearsal_runtime::stream {
public:
    using trireme::rehearsal_runtime::stream::stream;
    cudaStream_t handle() noexcept { return reinterpret_cast<cudaStream_t>(this); }
    static stream& of(cudaStream_t handle) noexcept { return *reinterpret_cast<stream*>(handle); }
};

/// The rehearsal device, whose ranks may be joined by transport<nccl>.
struct rehearsal_with_nccl : trireme::rehearsal {
    static constexpr char const* name = "rehearsal with nccl";
    using stream = nccl_mock::stream;
    class kernels : public trireme::block_kernels<stream> {
    public:
        kernels(stream& queue, std::size_t samples, trireme::workspace scratch, libraries&) noexcept
            : block_kernels(queue, samples, scratch) {}
    };
};
static_assert(trireme::accelerator<rehearsal_with_nccl>);

/// Tests read and set this state of the library.
struct library {
    static library& here() {
        static library the_only;
        return the_only;
    }

    int communicators = 0; ///< that are open
    int aborted = 0;
    std::size_t sent = 0;                       ///< bytes, by all messages
    int busy_polls = 3;                         ///< for how long a communicator is busy with what it was told
    int failing_rank = -1;                      ///< has an error that came later
    std::string last_words;                     ///< of the last refusal
    std::mutex guard;                           ///< of all of this: communicators are closed by threads of their own
    int worlds = 0;                             ///< communicators that are made together have the number of their world
    std::map<int, int> splits = {};             ///< of each world
    std::set<std::pair<int, int>> members = {}; ///< of this process: worlds and ranks
    post_office* post = nullptr;                ///< if there are other processes

    bool has(int world, int rank) const { return members.count({world, rank}) != 0; }
    int members_of(int world) const {
        return static_cast<int>(
            std::count_if(members.begin(), members.end(), [&](auto const& m) { return m.first == world; }));
    }

    ncclResult_t refuse(std::string const& why) {
        last_words = why;
        return ncclInvalidUsage;
    }
};

enum class call_kind : int { send, receive, all_reduce };

/// A communicator that is to be split: NCCL makes the new one when the group of calls ends.
struct split_call {
    ncclComm_t comm;
    int color, key;
    ncclComm_t* made;
};

struct call {
    call_kind kind;
    ncclComm_t comm;
    int peer;
    ncclDataType_t dtype;
    void* data;
    std::size_t count;
    cudaStream_t stream;
};

} // namespace nccl_mock

struct ncclComm {
    int world, rank, ranks, device;
    int busy;
};

namespace nccl_mock {

/// A thread's group of calls, while it is open.
struct open_group {
    int depth = 0;
    std::vector<call> calls;
    std::vector<split_call> splits;
    ncclResult_t refused = ncclSuccess;
};
inline thread_local open_group group;

/// f(std::type_identity<T>()) for what NCCL calls `dtype`; false for those that are not played.
template<class F>
bool for_type(ncclDataType_t dtype, F const& f) {
    switch (dtype) {
    case ncclUint8:
        return f(std::type_identity<std::uint8_t>()), true;
    case ncclInt32:
        return f(std::type_identity<std::int32_t>()), true;
    case ncclUint64:
        return f(std::type_identity<std::uint64_t>()), true;
    case ncclFloat32:
        return f(std::type_identity<float>()), true;
    case ncclFloat64:
        return f(std::type_identity<double>()), true;
    case ncclBfloat16:
        return f(std::type_identity<trireme::bf16>()), true;
    default:
        return false;
    }
}
inline std::size_t bytes_of(call const& c) {
    std::size_t bytes = 0;
    for_type(c.dtype, [&](auto type) { bytes = c.count * sizeof(typename decltype(type)::type); });
    return bytes;
}

/// A group, sorted: messages by their ends, in the order that both ends named them; all-reduces by communicators.
struct sorted_calls {
    struct message {
        std::vector<call> sends, receives;
    };
    std::map<std::tuple<int, int, int>, message> messages; ///< world, from, to
    std::map<int, std::vector<call>> all_reduces;          ///< world; one per rank

    explicit sorted_calls(std::vector<call> const& calls) {
        for (auto const& c : calls) {
            auto const world = c.comm->world;
            if (c.kind == call_kind::send)
                messages[{world, c.comm->rank, c.peer}].sends.push_back(c);
            else if (c.kind == call_kind::receive)
                messages[{world, c.peer, c.comm->rank}].receives.push_back(c);
            else
                all_reduces[world].push_back(c);
        }
    }
};

/// Why a group cannot be played; nothing if it can.
inline std::string fault_of(std::vector<call> const& calls, sorted_calls const& sorted) {
    auto const number = [](auto n) { return std::to_string(n); };
    for (auto const& c : calls) {
        if (!for_type(c.dtype, [](auto) {})) return "a type that is not played";
        if (stream::of(c.stream).device() != c.comm->device)
            return "rank " + number(c.comm->rank) + " was given a stream of device " +
                   number(stream::of(c.stream).device());
    }
    for (auto const& [ends, m] : sorted.messages) {
        auto const text = "rank " + number(std::get<1>(ends)) + " to rank " + number(std::get<2>(ends)) + ": ";
        auto const& lib = library::here();
        if (!lib.has(std::get<0>(ends), std::get<1>(ends)) || !lib.has(std::get<0>(ends), std::get<2>(ends))) {
            if (lib.post == nullptr) return text + "one of them is not there";
            continue;
        }
        if (m.sends.size() != m.receives.size())
            return text + number(m.sends.size()) + " sent, " + number(m.receives.size()) + " received";
        for (std::size_t i = 0; i < m.sends.size(); ++i)
            if (m.sends[i].count != m.receives[i].count || m.sends[i].dtype != m.receives[i].dtype)
                return text + number(bytes_of(m.sends[i])) + " bytes sent, " + number(bytes_of(m.receives[i])) +
                       " received";
    }
    for (auto const& [world, of_ranks] : sorted.all_reduces) {
        std::vector<int> ranks;
        for (auto const& c : of_ranks) {
            ranks.push_back(c.comm->rank);
            if (c.count != of_ranks[0].count || c.dtype != of_ranks[0].dtype)
                return "an all-reduce of different arrays";
        }
        std::sort(ranks.begin(), ranks.end());
        bool const all =
            static_cast<int>(ranks.size()) == library::here().members_of(world) &&
            (library::here().post != nullptr || of_ranks[0].comm->ranks == static_cast<int>(ranks.size())) &&
            std::adjacent_find(ranks.begin(), ranks.end()) == ranks.end();
        if (!all) return "an all-reduce, not by every rank once";
    }
    struct memory {
        char const *begin, *end;
        bool written;
    };
    std::vector<memory> used;
    for (auto const& c : calls) {
        auto const* const begin = static_cast<char const*>(c.data);
        used.push_back({begin, begin + bytes_of(c), c.kind != call_kind::send});
    }
    std::sort(used.begin(), used.end(), [](memory const& a, memory const& b) { return a.begin < b.begin; });
    for (std::size_t i = 0; i < used.size(); ++i)
        for (std::size_t k = i + 1; k < used.size() && used[k].begin < used[i].end; ++k)
            if ((used[i].written || used[k].written) && used[k].begin < used[k].end)
                return "memory that is written and used in one group";
    return "";
}

/// The sum of all ranks' numbers, in the order of the ranks, for every rank.
template<class T>
struct sum_for_all {
    static constexpr int most = trireme::rehearsal_runtime::memory_budget::most_devices;
    T* data[most];
    int ranks;

    void operator()(std::size_t i) const {
        using scalar = trireme::reduction_scalar<T>;
        T sum = data[0][i];
        for (int r = 1; r < ranks; ++r)
            sum = scalar::store(static_cast<typename scalar::type>(scalar::load(sum) + scalar::load(data[r][i])));
        for (int r = 0; r < ranks; ++r) data[r][i] = sum;
    }
};

inline void play_sum(std::vector<call> of_ranks, stream& on) {
    std::sort(of_ranks.begin(), of_ranks.end(),
              [](call const& a, call const& b) { return a.comm->rank < b.comm->rank; });
    for_type(of_ranks[0].dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        sum_for_all<T> sum{{}, static_cast<int>(of_ranks.size())};
        for (std::size_t r = 0; r < of_ranks.size(); ++r) sum.data[r] = static_cast<T*>(of_ranks[r].data);
        trireme::index_program<sum_for_all<T>> const program{sum, of_ranks[0].count};
        if (of_ranks[0].count != 0) on.launch(program, program.blocks());
    });
}

/// So do the ranks of several processes: each sends its numbers to all others, and adds when theirs are there.
inline void play_sum_by_post(std::vector<call> of_ranks, stream& on) {
    for_type(of_ranks[0].dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        auto const world = of_ranks[0].comm->world, ranks = of_ranks[0].comm->ranks;
        auto* const post = library::here().post;
        auto const from = [world](int rank) { return route{letter_kind::numbers, world, rank, -1}; };
        std::vector<T*> own(static_cast<std::size_t>(ranks));
        for (auto const& c : of_ranks) own[static_cast<std::size_t>(c.comm->rank)] = static_cast<T*>(c.data);
        auto const count = of_ranks[0].count;
        on.when({}, [=] {
            for (int r = 0; r < ranks; ++r)
                if (auto* const x = own[static_cast<std::size_t>(r)]; x != nullptr)
                    post->send(from(r), x, count * sizeof(T));
        });
        auto const are_there = [=] {
            for (int r = 0; r < ranks; ++r)
                if (!post->is_there(from(r))) return false;
            return true;
        };
        on.when(are_there, [=] {
            sum_for_all<T> sum{{}, ranks};
            std::vector<std::vector<T>> numbers(static_cast<std::size_t>(ranks), std::vector<T>(count));
            for (int r = 0; r < ranks; ++r) {
                auto const letter = post->take(from(r));
                auto& of_rank = numbers[static_cast<std::size_t>(r)];
                if (letter.size() != count * sizeof(T)) throw std::logic_error("an all-reduce of different arrays");
                if (count != 0) std::memcpy(of_rank.data(), letter.data(), letter.size());
                sum.data[r] = of_rank.data();
            }
            for (std::size_t i = 0; i < count; ++i) sum(i);
            for (int r = 0; r < ranks; ++r)
                if (auto* const x = own[static_cast<std::size_t>(r)]; x != nullptr && count != 0)
                    std::memcpy(x, sum.data[r], count * sizeof(T));
        });
    });
}

/// A message between two processes, on a stream of this one's end: it begins at once, and is over when it is taken.
inline void play_by_post(call const& c, route const& on, stream& wire) {
    auto* const post = library::here().post;
    auto const bytes = bytes_of(c);
    if (c.kind == call_kind::send) {
        auto const number = std::make_shared<std::size_t>();
        wire.when({}, [=, data = c.data] { *number = post->send(on, data, bytes); });
        return wire.when([=] { return post->is_taken(*number); }, [] {});
    }
    wire.when([=] { return post->is_there(on); },
              [=, data = c.data] {
                  auto const letter = post->take(on);
                  if (letter.size() != bytes) throw std::logic_error("a message of another size was sent");
                  if (bytes != 0) std::memcpy(data, letter.data(), bytes);
              });
}

/// Hands a group to the streams of its calls. Each message is a stream of its own, which waits for what its two ends
/// had before, and for which they wait; so it is with an all-reduce and its ranks.
inline void play(std::vector<call> const& calls, sorted_calls const& sorted) {
    using event = trireme::rehearsal::event;
    std::map<cudaStream_t, event> before;
    for (auto const& c : calls) {
        auto const [at, is_new] = before.try_emplace(c.stream, c.comm->device);
        if (is_new) stream::of(c.stream).record(at->second);
    }
    std::vector<std::pair<cudaStream_t, event>> after;
    auto const between = [&](std::vector<call> const& ends, auto const& work) {
        std::vector<cudaStream_t> streams;
        for (auto const& c : ends)
            if (std::find(streams.begin(), streams.end(), c.stream) == streams.end()) streams.push_back(c.stream);
        stream wire(ends[0].comm->device);
        for (auto* const s : streams) wire.wait(before.at(s));
        work(wire);
        event done(wire.device());
        wire.record(done);
        for (auto* const s : streams) after.emplace_back(s, done);
    };
    for (auto const& entry : sorted.messages) {
        auto const& m = entry.second;
        auto both = m.sends;
        both.insert(both.end(), m.receives.begin(), m.receives.end());
        auto const [world, from, to] = entry.first;
        route const on{letter_kind::message, world, from, to};
        if (m.sends.empty() || m.receives.empty()) {
            between(both, [&](stream& wire) {
                for (auto const& c : both) play_by_post(c, on, wire);
            });
            continue;
        }
        between(both, [&](stream& wire) {
            for (std::size_t i = 0; i < m.sends.size(); ++i)
                wire.copy(m.receives[i].data, m.sends[i].data, bytes_of(m.sends[i]));
        });
    }
    for (auto const& entry : sorted.all_reduces)
        between(entry.second, [&](stream& wire) {
            if (static_cast<int>(entry.second.size()) == entry.second[0].comm->ranks)
                play_sum(entry.second, wire);
            else
                play_sum_by_post(entry.second, wire);
        });
    for (auto const& [s, done] : after) stream::of(s).wait(done);
}

/// Makes one communicator of each colour, of its ranks in the order of their keys. Why it cannot; nothing if it can:
/// all ranks of each take part once.
inline std::string play(std::vector<split_call> const& splits, library& lib) {
    struct part {
        int color, key, rank;
        auto operator<=>(part const&) const = default;
    };
    std::map<int, std::vector<split_call>> by_world;
    for (auto const& s : splits) by_world[s.comm->world].push_back(s);
    for (auto const& [world, of_ranks] : by_world) {
        if (static_cast<int>(of_ranks.size()) != lib.members_of(world)) return "a split, not by every rank once";
        std::vector<part> parts;
        for (auto const& s : of_ranks) {
            parts.push_back({s.color, s.key, s.comm->rank});
            if (lib.post != nullptr)
                lib.post->send({letter_kind::split, world, s.comm->rank, -1}, &parts.back(), sizeof(part));
        }
        for (int r = 0; r < of_ranks[0].comm->ranks; ++r) {
            route const from{letter_kind::split, world, r, -1};
            if (lib.post == nullptr && !lib.has(world, r)) return "a split, not by every rank once";
            if (lib.post == nullptr) continue;
            for (int turn = 0; !lib.post->is_there(from); ++turn) {
                if (turn == 20000) return "a split that another process takes no part in";
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            part theirs;
            std::memcpy(&theirs, lib.post->take(from).data(), sizeof theirs);
            if (!lib.has(world, r)) parts.push_back(theirs);
        }
        std::sort(parts.begin(), parts.end());
        int made = 1'000'000 * (1 + world % 1000) + 100 * lib.splits[world]++; // the same in all processes
        for (std::size_t first = 0, end = 0; first < parts.size(); first = end, ++made) {
            while (end < parts.size() && parts[end].color == parts[first].color) ++end;
            for (auto i = first; i < end; ++i)
                for (auto const& s : of_ranks) {
                    s.comm->busy = lib.busy_polls;
                    if (s.comm->rank != parts[i].rank || s.color == NCCL_SPLIT_NOCOLOR) continue;
                    *s.made = new ncclComm{made, static_cast<int>(i - first), static_cast<int>(end - first),
                                           s.comm->device, lib.busy_polls};
                    lib.members.insert({made, (*s.made)->rank});
                    ++lib.communicators;
                }
        }
    }
    return "";
}

/// Notes a call down, which is a group by itself if none is open.
inline ncclResult_t note(call const& c) {
    trireme::rehearsal_runtime::own_work const is_not_counted;
    ncclGroupStart();
    auto& mine = group;
    {
        auto& lib = library::here();
        std::lock_guard const lock(lib.guard);
        if (c.comm->busy > 0) mine.refused = lib.refuse("rank " + std::to_string(c.comm->rank) + " is busy");
        if (c.comm->rank == lib.failing_rank) mine.refused = lib.refuse("the communicator has failed");
    }
    mine.calls.push_back(c);
    auto const refused = mine.refused;
    auto const ended = ncclGroupEnd();
    return refused != ncclSuccess ? refused : ended;
}

} // namespace nccl_mock

// ---- NCCL ----

extern "C" {

inline ncclResult_t ncclGetVersion(int* version) {
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}
inline char const* ncclGetErrorString(ncclResult_t) { return "as played"; }
inline char const* ncclGetLastError(ncclComm_t) { return nccl_mock::library::here().last_words.c_str(); }

inline ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    auto& lib = nccl_mock::library::here();
    std::lock_guard const lock(lib.guard);
    std::memset(id, 0, sizeof *id);
    ++lib.worlds;
    std::memcpy(id->internal, &lib.worlds, sizeof lib.worlds);
    return ncclSuccess;
}

/// On the device that is the thread's current one.
inline ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                           ncclConfig_t* config) {
    auto& lib = nccl_mock::library::here();
    std::lock_guard const lock(lib.guard);
    if (config->blocking != 0) return lib.refuse("a communicator that blocks");
    int device = 0;
    cudaGetDevice(&device);
    int world = 0;
    std::memcpy(&world, id.internal, sizeof world);
    *comm = new ncclComm{world, rank, ranks, device, lib.busy_polls};
    lib.members.insert({world, rank});
    ++lib.communicators;
    return ncclInProgress;
}

inline ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
    auto& lib = nccl_mock::library::here();
    std::lock_guard const lock(lib.guard);
    *state = ncclSuccess;
    if (comm->rank == lib.failing_rank)
        *state = ncclRemoteError;
    else if (comm->busy > 0)
        *state = --comm->busy > 0 ? ncclInProgress : ncclSuccess;
    return ncclSuccess;
}

inline ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    auto& lib = nccl_mock::library::here();
    std::lock_guard const lock(lib.guard);
    comm->busy = lib.busy_polls;
    return ncclInProgress;
}
inline ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    auto& lib = nccl_mock::library::here();
    std::lock_guard const lock(lib.guard);
    lib.members.erase({comm->world, comm->rank});
    --lib.communicators;
    delete comm;
    return ncclSuccess;
}
inline ncclResult_t ncclCommAbort(ncclComm_t comm) {
    auto& lib = nccl_mock::library::here();
    std::lock_guard const lock(lib.guard);
    lib.members.erase({comm->world, comm->rank});
    --lib.communicators;
    ++lib.aborted;
    delete comm;
    return ncclSuccess;
}
inline ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
    ncclGroupStart();
    auto& mine = nccl_mock::group;
    if (config != nullptr)
        mine.refused = nccl_mock::library::here().refuse("a split with a configuration is not played");
    *made = nullptr;
    mine.splits.push_back({comm, color, key, made});
    return ncclGroupEnd();
}

inline ncclResult_t ncclCommCount(ncclComm_t const comm, int* ranks) {
    *ranks = comm->ranks;
    return ncclSuccess;
}
inline ncclResult_t ncclCommUserRank(ncclComm_t const comm, int* rank) {
    *rank = comm->rank;
    return ncclSuccess;
}
inline ncclResult_t ncclCommCuDevice(ncclComm_t const comm, int* device) {
    *device = comm->device;
    return ncclSuccess;
}

inline ncclResult_t ncclSend(void const* data, std::size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                             cudaStream_t stream) {
    return nccl_mock::note(
        {nccl_mock::call_kind::send, comm, peer, dtype, const_cast<void*>(data), count, stream}); // only read
}
inline ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                             cudaStream_t stream) {
    return nccl_mock::note({nccl_mock::call_kind::receive, comm, peer, dtype, data, count, stream});
}
inline ncclResult_t ncclAllReduce(void const* from, void* to, std::size_t count, ncclDataType_t dtype, ncclRedOp_t what,
                                  ncclComm_t comm, cudaStream_t stream) {
    if (from != to || what != ncclSum) {
        std::lock_guard const lock(nccl_mock::library::here().guard);
        return nccl_mock::library::here().refuse("an all-reduce that is not a sum in place is not played");
    }
    return nccl_mock::note({nccl_mock::call_kind::all_reduce, comm, 0, dtype, to, count, stream});
}

inline ncclResult_t ncclGroupStart() {
    ++nccl_mock::group.depth;
    return ncclSuccess;
}
inline ncclResult_t ncclGroupEnd() {
    trireme::rehearsal_runtime::own_work const is_not_counted;
    auto& mine = nccl_mock::group;
    if (--mine.depth > 0) return ncclSuccess;
    auto const calls = std::exchange(mine.calls, {});
    auto const splits = std::exchange(mine.splits, {});
    auto const refused = std::exchange(mine.refused, ncclSuccess);
    if (refused != ncclSuccess) return refused;
    if (!splits.empty()) {
        auto& lib = nccl_mock::library::here();
        std::lock_guard const lock(lib.guard);
        auto const why = nccl_mock::play(splits, lib);
        return why.empty() ? ncclInProgress : lib.refuse(why);
    }
    if (calls.empty()) return ncclSuccess;
    nccl_mock::sorted_calls const sorted(calls);
    auto& lib = nccl_mock::library::here();
    std::lock_guard const lock(lib.guard);
    if (auto const why = nccl_mock::fault_of(calls, sorted); !why.empty()) return lib.refuse(why);
    nccl_mock::play(calls, sorted);
    for (auto const& c : calls) {
        c.comm->busy = lib.busy_polls;
        if (c.kind == nccl_mock::call_kind::send) lib.sent += nccl_mock::bytes_of(c);
    }
    return ncclInProgress;
}

// ---- CUDA: which device is current; nothing fails ----

inline thread_local int nccl_mock_device = 0;

inline cudaError_t cudaSetDevice(int device) {
    nccl_mock_device = device;
    return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
    *device = nccl_mock_device;
    return cudaSuccess;
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline char const* cudaGetErrorName(cudaError_t) { return "no error is played"; }
inline char const* cudaGetErrorString(cudaError_t) { return "no error is played"; }

} // extern "C"
