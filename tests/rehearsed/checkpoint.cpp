// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Trainings that go on from a checkpoint, on rehearsed streams.

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>
#include <rehearsed/trainings.hpp>
#include <support/going_on.hpp>

#include <cstdint>

namespace rehearsed_checkpoint_test {
using namespace trireme;
using namespace rehearsed;
using namespace test_going_on;

TEST_SUITE("rehearsed/checkpoint") {
    TEST_CASE("a training goes on with the same bits, however late or shuffled work is done; its wire counts its own") {
        for (auto const when : {timing::late, timing::shuffled}) {
            on_stage const how(when, 3);
            goes_on_anywhere<any_trainer<rehearsal, adamw, clip_norm>>({{{2, 2}, {1, 1}}, {{1, 1}, {3, 1}}});
        }
        on_stage const as_usual;
        files::folder const folder;
        using trainer_type = any_trainer<rehearsal, adamw, clip_norm>;
        begin_in<trainer_type>(folder.path(), {2, 1});
        auto t = at<trainer_type>({2, 1});
        t.step(made_up(40));
        load_checkpoint(t, folder.path());
        t.step(made_up(40));
        CHECK(t.wire(0).bytes == 2 * t.plan().wire(0).bytes);
    }

    TEST_CASE("an accelerator goes on from the host's checkpoint, nearly with its bits, and the host from its own") {
        on_stage const as_usual;
        files::folder const folder;
        using on_host = any_trainer<host, adamw, clip_norm>;
        using on_streams = any_trainer<rehearsal, adamw, clip_norm>;
        auto const wanted = uninterrupted<on_host>();
        begin_in<on_host>(folder.path(), {2, 1});
        CHECK(test_support::apart(go_on_from<on_streams>(folder.path(), {1, 2}).told, wanted.told) < 1e-3);
        begin_in<on_streams>(folder.path(), {1, 2});
        CHECK(test_support::apart(go_on_from<on_host>(folder.path(), {1, 1}).told, wanted.told) < 1e-3);
    }
}

} // namespace rehearsed_checkpoint_test
