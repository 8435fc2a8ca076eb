// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Schedules on rehearsed streams train as one device of the host does, or are refused by a rule that is known.

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <rehearsed/trainings.hpp>
#include <support/messages.hpp>
#include <support/sanitizers.hpp>
#include <support/schedule_matrix.hpp>

#include <trireme/rehearsal.hpp>

#include <cstddef>
#include <iterator>
#include <vector>

namespace rehearsed_schedules_test {
using namespace trireme;
using namespace test_schedule_matrix;
using rehearsed::on_stage;
using test_support::has;
using test_support::refusal;

namespace {

/// Ten layers are trained in one of every `nth` of some combinations; the work of trainings is played in several
/// orders. Sums as they come are compared with a device of the host, whose kernels add in another order; bits are those
/// of one rehearsed device.
void train_ten(char const* what, std::vector<combination> const& some, std::size_t nth = 1) {
    one_device<staged_ten<host>, table_maker> on_host(table);
    one_device<staged_ten<rehearsal>, table_maker> on_streams(table);
    counts seen;
    std::size_t played = 0;
    for (std::size_t i = 0; i < some.size(); i += nth)
        with_trainer_of<rehearsal>(some[i], [&]<class Trainer>(pack<Trainer>) {
            CAPTURE(some[i].name());
            for (auto const& t : trainings_of(some[i])) {
                auto const& order = rehearsed::orders[played % std::size(rehearsed::orders)];
                auto const seed = ++played;
                CAPTURE(static_cast<int>(t.how));
                CAPTURE(static_cast<int>(order.when));
                CAPTURE(seed);
                auto const o = t.options<Trainer>();
                auto r = t.run_options<Trainer>();
                r.share_devices = true;
                r.eager = order.eager;
                auto const by = t.refused_by(segments_of_ten);
                seen.add(by);
                if (by == rule::none) {
                    auto const& wanted = t.same_bits() ? on_streams.trained_as(t) : on_host.trained_as(t);
                    on_stage const as_told(order.when, seed);
                    Trainer many(o, r);
                    CHECK(t.agrees(trained(many, table), wanted));
                } else {
                    auto const said = refusal([&] { Trainer made(o, r); });
                    CHECK(has(said, t.words_of(by, segments_of_ten)));
                    CHECK(refusal([&] { Trainer::check(o, r); }) == said);
                }
            }
        });
    seen.print(what);
    CHECK(seen.ran() > 0);
}

} // namespace

TEST_SUITE("rehearsed/schedules") {
    TEST_CASE("every schedule trains ten layers on streams as one device does, or is refused") {
        watchdog const guard("schedules of streams", 300);
        train_ten("ten layers, on streams", over(carrier::streams, meeting_all_pairs(segments_of_ten)),
                  sanitized ? 8 : 1);
    }
}

TEST_SUITE("nightly/rehearsed/schedules") {
    TEST_CASE("ten layers on streams under one of every eleven combinations") {
        watchdog const guard("nightly schedules of streams", 3000);
        train_ten("ten layers, on streams, one of every eleven combinations", all_over(carrier::streams), 11);
    }
}

} // namespace rehearsed_schedules_test
