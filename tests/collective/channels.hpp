// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <collective/matrix.hpp>

#include <support/built_step.hpp>
#include <support/step_numbers.hpp>

#include <trireme/collective/channel.hpp>
#include <trireme/collective/stage_moves.hpp>
#include <trireme/schedule/pipeline/print.hpp>
#include <trireme/schedule/pipeline/verify.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// Messages between the ranks of any group that shares memory.
namespace test_collectives {
using step_numbers::made_of;

/// Every rank sends messages to the next one and to the one after that, from two places in turn.
template<class C>
void require_messages(C& comm, std::uint64_t count) {
    int const n = comm.size();
    std::vector<trireme::channel_link> links;
    for (int r = 0; r < n; ++r)
        for (int const ahead : {1, 2})
            if (ahead % n != 0) links.push_back({r, (r + ahead) % n});
    auto const places = comm.allocate(2 * 3 * links.size() * sizeof(std::uint64_t));
    auto const message = [](std::size_t link, std::uint64_t m, std::uint64_t word) { return made_of({link, m, word}); };
    auto const place = [](auto* arena, std::size_t link, std::uint64_t m) { return arena + 3 * (2 * link + m % 2); };
    trireme::rank_channels<C> ways(comm, links);
    auto const before = comm.pulled();
    std::uint64_t received = 0;
    for (std::uint64_t m = 0; m < count; ++m) {
        for (std::size_t i = 0; i < links.size(); ++i) {
            if (links[i].from != comm.rank()) continue;
            if (m >= 2) ways.wait_taken(i, static_cast<std::uint32_t>(m - 1), {"message", "test", static_cast<int>(m)});
            auto* const to = place(comm.template shared<std::uint64_t>(places, comm.rank()), i, m);
            for (std::uint64_t w = 0; w < 3; ++w) to[w] = message(i, m, w);
            require(ways.send(i) == m + 1, "a message has another number");
        }
        for (std::size_t i = 0; i < links.size(); ++i) {
            if (links[i].to != comm.rank()) continue;
            bool right = true;
            auto const number = ways.receive(i, {"message", "test", static_cast<int>(m)}, [&](int sender) {
                auto const* const from = place(comm.template peer<std::uint64_t>(places, sender), i, m);
                for (std::uint64_t w = 0; w < 3; ++w) right = right && from[w] == message(i, m, w);
                return 24u;
            });
            require(right && number == m + 1, "another message has come");
            ++received;
        }
    }
    for (std::size_t i = 0; i < links.size(); ++i)
        if (links[i].from == comm.rank()) {
            auto const last = static_cast<std::uint32_t>(count);
            ways.wait_taken(i, last, {"message", "test", -1});
            require(ways.taken(i, last), "a message that has been taken has not");
        }
    require((comm.pulled() - before).bytes == 24 * received, "other bytes have moved");
}

/// Executes a step, and the evaluation that goes with it three times, a role per rank, on numbers that show what they
/// were made of, and compares what comes of it with what a training step is. `replicas` do the same.
template<class C>
void require_program(C& comm, trireme::schedule_choice const& schedule, int micro_batches, int replicas = 1) {
    using step_numbers::frame;
    int const roles = comm.size() / replicas, role = comm.rank() % roles;
    test_support::built_step const whole(schedule, {roles, micro_batches});
    auto const& step = whole.program;
    test_support::built_evaluation const of_step(schedule, step);
    auto const& evaluation = of_step.program;
    require(verify(step).ok() && verify_evaluation(evaluation).ok(), "it is no step");
    auto const stages = static_cast<std::size_t>(step.stage_count());

    std::size_t most_frames = 1;
    for (int r = 0; r < roles; ++r) most_frames = std::max<std::size_t>(most_frames, step.frames[r]);
    auto const arena = comm.allocate(most_frames * sizeof(frame) + 2 * sizeof(std::uint64_t));
    auto const frames_of = [&](int rank) { return comm.template shared<frame>(arena, rank); };
    auto const slots_of = [&](int rank) {
        return static_cast<std::uint64_t*>(static_cast<void*>(frames_of(rank) + most_frames));
    };
    trireme::stage_moves<C> moves(comm, step, replicas);
    auto const before = comm.pulled();
    std::uint64_t received = 0;
    auto* const frames = frames_of(comm.rank());
    auto* const slots = slots_of(comm.rank());
    auto const execute = [&](trireme::step_program const& p, std::vector<std::uint64_t>& sums) {
        trireme::sent_places const places(p);
        for (auto const& t : p.list(role)) {
            trireme::operation const what{name_of(t.kind), p.schedule, t.micro_batch};
            if (t.kind == trireme::task_kind::move) {
                for (int k = 0; k < t.transfers; ++k) received += !t.moves[k].sends && t.moves[k].role != role;
                moves.run(
                    places, t, what,
                    [&](trireme::stage_transfer const& m) {
                        auto& number = m.sends      ? m.gradient ? slots[m.place] : frames[m.place].y
                                       : m.gradient ? frames[m.place].dy
                                                    : frames[m.place].x;
                        return std::as_writable_bytes(std::span(&number, 1));
                    },
                    [&](trireme::stage_transfer const& m, int sender, std::size_t place) {
                        auto const* const number = m.gradient ? slots_of(sender) + place : &frames_of(sender)[place].y;
                        return reinterpret_cast<std::byte const*>(number);
                    });
            } else if (t.computes()) {
                auto const s = static_cast<std::size_t>(p.stage(role, t.chunk));
                if (s > 0 && gives_input(t.kind)) moves.wait_until_free(true, t.slot, what);
                if (s == 0 && (goes_forward(t.kind) || t.kind == trireme::task_kind::evaluate))
                    moves.wait_until_free(false, t.frame, what);
                step_numbers::compute(t, s, stages, frames[t.frame], slots + t.slot, sums[s]);
            }
        }
    };
    auto const require_sums = [&](std::vector<std::uint64_t> const& is, std::vector<std::uint64_t> const& wanted) {
        for (std::size_t s = 0; s < stages; ++s)
            if (step.role_of(static_cast<int>(s)) == role)
                require(is[s] == wanted[s], "another step has been executed");
    };
    for (int k = 0; k < 3; ++k) {
        std::vector<std::uint64_t> trained(stages, 0), evaluated(stages, 0);
        execute(step, trained);
        require_sums(trained, step_numbers::sums_of(stages, static_cast<std::size_t>(micro_batches)));
        execute(evaluation, evaluated);
        require_sums(evaluated,
                     step_numbers::sums_of(stages, static_cast<std::size_t>(evaluation.shape.micro_batches), true));
    }
    require((comm.pulled() - before).bytes == 8 * received, "other bytes have moved");
    barrier<trireme::direct>(comm); // nobody's arena is read any more
}

} // namespace test_collectives
