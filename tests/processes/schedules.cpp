// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Schedules whose ranks are processes train as one device does, or are refused by a rule that is known.

#include <trireme/processes.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/forked.hpp>
#include <support/messages.hpp>
#include <support/sanitizers.hpp>
#include <support/schedule_matrix.hpp>

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace processes_schedules_test {
using namespace trireme;
using namespace test_schedule_matrix;
using processes::meeting_place;

namespace {

using one_host_device = one_device<staged_ten<host>, table_maker>;

/// A training, the numbers that it is to leave, and where its ranks meet.
struct prepared {
    training as;
    rule by;
    std::vector<double> const* wanted; ///< none where a rule refuses it
    meeting_place place;
};

/// A rank's part in a training. Throws std::runtime_error if it leaves other numbers than one device, or is refused by
/// another rule.
template<class Trainer>
void take_part(prepared const& p, int rank) {
    auto const way = ", way " + std::to_string(static_cast<int>(p.as.how));
    auto r = p.as.run_options<Trainer>();
    r.deadline = std::chrono::seconds(60);
    r.processes = seat{p.place, rank};
    if (p.by == rule::none) {
        Trainer many(p.as.options<Trainer>(), r);
        if (!p.as.agrees(trained(many, table), *p.wanted))
            throw std::runtime_error("numbers of another training" + way);
        return;
    }
    auto const said = test_support::refusal([&] { Trainer made(p.as.options<Trainer>(), r); });
    if (!test_support::has(said, p.as.words_of(p.by, segments_of_ten)))
        throw std::runtime_error("no refusal by the rule" + way + ": " + said);
}

/// Ten layers are trained in some combinations, by ranks that are forked once for each.
void train_ten(char const* what, std::vector<combination> const& some) {
    one_host_device one(table);
    counts seen;
    for (auto const& c : some) {
        CAPTURE(c.name());
        int const ranks = c.mesh().devices * c.mesh().stages;
        std::vector<prepared> ways;
        for (auto const& t : trainings_of(c)) {
            auto const by = t.refused_by(segments_of_ten);
            seen.add(by);
            ways.push_back({t, by, by == rule::none ? &one.trained_as(t) : nullptr, meeting_place::create(ranks)});
        }
        forked_ranks all_ranks(ranks, [&](int rank) {
            with_trainer_of<host, transport<shared_windows>>(c, [&]<class Trainer>(pack<Trainer>) {
                for (auto const& p : ways) take_part<Trainer>(p, rank);
            });
        });
        all_end_well(all_ranks, std::chrono::seconds(100));
    }
    seen.print(what);
    CHECK(seen.ran() > 0);
}

} // namespace

TEST_SUITE("processes/schedules") {
    TEST_CASE("every schedule trains ten layers in processes as one device does, or is refused") {
        watchdog const guard("schedules of processes", 300);
        auto const pairs = meeting_all_pairs(segments_of_ten);
        train_ten("ten layers, in processes", sanitized ? over(carrier::windows, pairs) : pairs);
    }
}

TEST_SUITE("nightly/processes/schedules") {
    TEST_CASE("ten layers in processes under all combinations") {
        watchdog const guard("nightly schedules of processes", 3000);
        train_ten("ten layers, in processes, all combinations", all_over(carrier::windows));
    }
}

} // namespace processes_schedules_test
