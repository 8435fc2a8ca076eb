// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Predictions of accelerators, on rehearsed streams.

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>
#include <rehearsed/trainings.hpp>
#include <support/predicting.hpp>

#include <cmath>
#include <type_traits>
#include <vector>

namespace rehearsed_predictions_test {
using namespace trireme;
using namespace rehearsed;
using namespace test_predicting;

namespace {

using norms = network<input<1, 28, 28>, avg_pool2d<4>, conv2d<3, kernel<3>>, batch_norm<per_shard>, relu, flatten,
                      linear<12>, dropout<percent<20>>, linear<10>>;

} // namespace

TEST_SUITE("rehearsed/predictions") {
    TEST_CASE("outputs have one device's bits, however late or shuffled work is done") {
        for (auto const when : {timing::late, timing::shuffled}) {
            on_stage const how(when, 3);
            have_one_devices_bits<rehearsal, norms>(1e-5);
        }
    }

    TEST_CASE("logits are right or wrong, on any number of replicas and stages") {
        on_stage const how(timing::shuffled, 4);
        logits_are_right_or_wrong<rehearsal, 1>();
        logits_are_right_or_wrong<rehearsal, 3>();
        labelled_plane<3> const plane(30);
        trainer<network<input<2>, linear<3>>, mean_squared_error, sgd, on<mesh<rehearsal, dp<2>>>> t{{.batch = 30}};
        CHECK(std::isnan(t.evaluate(plane.samples()).accuracy));
    }

    TEST_CASE("they are those of the host, in bf16 nearly") {
        on_stage const as_usual;
        auto const trained = made_up(48), asked = made_up(101, 3);
        trainer<norms, cross_entropy, sgd> t{{.learning_rate = 0.1f, .batch = 48}};
        t.step(trained);
        auto const wanted = values_of(t.predict(asked));
        auto const of = [&]<class M>(std::type_identity<M>) {
            M m{{.batch = 20}};
            m.load_parameters(t.gather_parameters());
            m.load_buffers(t.gather_buffers());
            return values_of(m.predict(asked));
        };
        using on_two = on<mesh<rehearsal, dp<2>>>;
        CHECK(test_support::apart(of(std::type_identity<model<norms, on_two>>{}), wanted) < 1e-5);
        CHECK(test_support::apart(of(std::type_identity<model<norms, on_two, precision<bf16>>>{}), wanted) < 0.1);
    }

    TEST_CASE("targets are not looked at, whatever their shape") {
        on_stage const as_usual;
        std::vector<float> const inputs(4 * 12, 0.5f), wide(60 * 12, 7.0f);
        samples_in_memory const bare(inputs, make_shape(4)), targeted(inputs, make_shape(4), wide, make_shape(60));
        trainer<network<input<4>, linear<2>>, mean_squared_error, sgd, on<mesh<rehearsal, dp<2>>>> t{{.batch = 8}};
        CHECK(values_of(t.predict(targeted)) == values_of(t.predict(bare)));
        model<network<input<4>, linear<2>>, on<mesh<rehearsal, dp<1>>>> m{{.batch = 8}};
        m.load_parameters(t.gather_parameters());
        CHECK(values_of(m.predict(targeted)) == values_of(m.predict(bare)));
    }

    TEST_CASE("a model's memory is what the plan says") {
        on_stage const as_usual;
        memory_taken const since;
        {
            model<norms, on<mesh<rehearsal, dp<2>>>> m{{.batch = 20}};
            since.is_planned(m);
            CHECK(m.plan().memory().gradients == 0);
        }
        since.is_given_back();
    }
}

} // namespace rehearsed_predictions_test
