// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <collective/matrix.hpp>

#include <trireme/collective/channel.hpp>
#include <trireme/schedule/pipeline/program.hpp>
#include <trireme/schedule/pipeline/schedule.hpp>
#include <trireme/schedule/pipeline/verify.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

// Messages between the ranks of any group that shares memory.
namespace test_collectives {
using trireme::step_program;
using trireme::task_kind;

/// A number that shows what it was made of.
inline std::uint64_t made_of(std::initializer_list<std::uint64_t> parts) {
    std::uint64_t h = 0x9E3779B97F4A7C15u;
    for (auto const p : parts) {
        h = (h ^ p) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    return h;
}

/// Every rank sends messages to the next one and to the one after that, from two places in turn.
template<class C>
void require_messages(C& comm, std::uint64_t count) {
    int const n = comm.size();
    std::vector<trireme::channel_link> links;
    for (int r = 0; r < n; ++r)
        for (int const ahead : {1, 2})
            if (ahead % n != 0) links.push_back({r, (r + ahead) % n, 24});
    auto const places = comm.allocate(2 * 3 * links.size() * sizeof(std::uint64_t));
    auto const message = [](std::size_t link, std::uint64_t m, std::uint64_t word) { return made_of({link, m, word}); };
    auto const place = [](auto* arena, std::size_t link, std::uint64_t m) { return arena + 3 * (2 * link + m % 2); };
    trireme::rank_channels<C> ways(comm, links);
    auto const before = comm.pulled();
    std::uint64_t received = 0;
    for (std::uint64_t m = 0; m < count; ++m) {
        for (std::size_t i = 0; i < links.size(); ++i) {
            if (links[i].from != comm.rank()) continue;
            ways.wait_taken(i, {"message", "test", static_cast<int>(m)}, 1);
            auto* const to = place(comm.template shared<std::uint64_t>(places, comm.rank()), i, m);
            for (std::uint64_t w = 0; w < 3; ++w) to[w] = message(i, m, w);
            ways.send(i);
        }
        for (std::size_t i = 0; i < links.size(); ++i) {
            if (links[i].to != comm.rank()) continue;
            bool right = true;
            auto const number = ways.receive(i, {"message", "test", static_cast<int>(m)}, [&](int sender) {
                auto const* const from = place(comm.template peer<std::uint64_t>(places, sender), i, m);
                for (std::uint64_t w = 0; w < 3; ++w) right = right && from[w] == message(i, m, w);
            });
            require(right && number == m + 1, "another message has come");
            ++received;
        }
    }
    for (std::size_t i = 0; i < links.size(); ++i)
        if (links[i].from == comm.rank()) {
            ways.wait_taken(i, {"message", "test", -1});
            require(ways.taken(i), "a message that has been taken has not");
        }
    require((comm.pulled() - before).bytes == 24 * received, "other bytes have moved");
}

/// Executes a step program, a role per rank, on numbers that show what they were made of, and compares what the
/// parameters become with what a training step makes of them.
template<class S, class C>
void require_program(C& comm, int micro_batches) {
    int const roles = comm.size();
    trireme::step_shape const shape{roles, micro_batches, 1, 1, false};
    std::vector<trireme::step_task> room(trireme::step_capacity<S>(shape));
    auto const p = trireme::build_step<S>(shape, room);
    require(trireme::verify(p).ok(), "it is no step");
    auto const stages = static_cast<std::size_t>(p.stage_count());

    // values and gradients of each boundary have a link of their own
    std::vector<int> role_of(stages);
    for (int r = 0; r < roles; ++r)
        for (int c = 0; c < p.chunks; ++c) role_of[static_cast<std::size_t>(p.stage(r, c))] = r;
    std::vector<trireme::channel_link> links;
    for (std::size_t b = 0; b + 1 < stages; ++b) {
        links.push_back({role_of[b], role_of[b + 1], 8});
        links.push_back({role_of[b + 1], role_of[b], 8});
    }
    struct values {
        std::uint64_t x, y, dy;
    };
    std::size_t most_frames = 1;
    for (int r = 0; r < roles; ++r) most_frames = std::max<std::size_t>(most_frames, p.frames[r]);
    auto const arena = comm.allocate(most_frames * sizeof(values) + 2 * sizeof(std::uint64_t));
    auto const frames_of = [&](int rank) { return comm.template shared<values>(arena, rank); };
    auto const slots_of = [&](int rank) {
        return static_cast<std::uint64_t*>(static_cast<void*>(frames_of(rank) + most_frames));
    };
    trireme::rank_channels<C> ways(comm, links);
    enum name : std::uint64_t { input, way_there, loss, way_back, weights, sum };

    std::vector<std::uint64_t> sums(stages, 0);
    auto const list = p.list(comm.rank());
    auto* const frames = frames_of(comm.rank());
    auto* const slots = slots_of(comm.rank());
    std::vector<std::vector<std::uint16_t>> places(links.size()); // of the messages of each link, in order
    for (int r = 0; r < roles; ++r)
        for (auto const& t : p.list(r))
            for (int k = 0; k < t.transfers; ++k)
                if (auto const& m = t.moves[k]; m.sends)
                    places[2u * m.boundary + (m.gradient ? 1u : 0u)].push_back(m.place);
    for (auto const& t : list) {
        trireme::operation const what{"move", S::name, t.micro_batch};
        if (t.kind == task_kind::move) {
            for (int k = 0; k < t.transfers; ++k)
                if (auto const& m = t.moves[k]; m.sends) ways.send(2u * m.boundary + (m.gradient ? 1u : 0u));
            for (int k = 0; k < t.transfers; ++k) {
                auto const& m = t.moves[k];
                auto const i = 2u * m.boundary + (m.gradient ? 1u : 0u);
                if (m.sends) continue;
                ways.receive(i, what, [&, nth = std::size_t{m.micro_batch}](int sender) {
                    auto const place = places[i][nth];
                    if (m.gradient)
                        frames[m.place].dy = slots_of(sender)[place];
                    else
                        frames[m.place].x = frames_of(sender)[place].y;
                });
            }
        } else if (t.computes()) {
            auto const s = static_cast<std::size_t>(p.stage(comm.rank(), t.chunk));
            auto& f = frames[t.frame];
            if (t.kind == task_kind::forward || t.kind == task_kind::train) {
                if (s == 0) f.x = made_of({input, t.micro_batch});
                f.y = made_of({way_there, s, t.micro_batch, f.x});
            }
            if (t.kind == task_kind::forward) continue;
            if (s + 1 == stages && t.kind != task_kind::backward_weights) f.dy = made_of({loss, t.micro_batch, f.y});
            if (t.kind != task_kind::backward_weights && s > 0) {
                ways.wait_taken(2 * (s - 1) + 1, what, 1); // two slots in turn
                slots[t.slot] = made_of({way_back, s, t.micro_batch, f.x, f.y, f.dy});
            }
            if (t.kind != task_kind::backward_input)
                sums[s] = made_of({sum, sums[s], made_of({weights, s, t.micro_batch, f.x, f.y, f.dy})});
        }
    }
    std::vector<std::uint64_t> wanted(stages, 0);
    for (std::uint64_t m = 0; m < static_cast<std::uint64_t>(micro_batches); ++m) {
        std::vector<std::uint64_t> x(stages + 1, made_of({input, m}));
        for (std::uint64_t s = 0; s < stages; ++s) x[s + 1] = made_of({way_there, s, m, x[s]});
        auto dy = made_of({loss, m, x[stages]});
        for (auto s = stages; s-- > 0; dy = made_of({way_back, s, m, x[s], x[s + 1], dy}))
            wanted[s] = made_of({sum, wanted[s], made_of({weights, s, m, x[s], x[s + 1], dy})});
    }
    for (std::size_t s = 0; s < stages; ++s)
        if (role_of[s] == comm.rank()) require(sums[s] == wanted[s], "another step has been executed");
    barrier<trireme::direct>(comm); // nobody's arena is read any more
}

} // namespace test_collectives
