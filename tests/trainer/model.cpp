// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <trireme/weights.hpp>

#include <data/files.hpp>
#include <doctest/doctest.h>
#include <support/allocation_hook.hpp>
#include <support/messages.hpp>
#include <support/predicting.hpp>

#include <string>

namespace trainer_model_test {
using namespace trireme;
using namespace test_predicting;
using test_networks::every_layer;
using test_networks::lenet;
using test_support::refusal;
using test_support::says;

namespace {

/// A model asks for what its plan says, to the byte, and for nothing while it predicts but for the outputs.
template<class Model>
void takes_what_is_planned(Model const*, typename Model::options const& o, typename Model::run_options const& r) {
    allocation_hook::aligned_to_line = 0;
    allocation_hook::aligned_beyond = 0;
    Model m(o, r);
    bytes_t arenas = 0, control = 0;
    for (int rank = 0; rank < m.devices(); ++rank) {
        auto const owned = m.plan().memory(rank);
        CHECK(owned.gradients == 0);
        CHECK(owned.optimizer_state == 0);
        arenas += owned.parameters + owned.activations;
        control += owned.control;
    }
    CHECK(allocation_hook::aligned_to_line + allocation_hook::aligned_beyond == arenas + control);
    m.load_parameters(std::vector<float>(Model::network_type::parameters));
    m.load_buffers(std::vector<float>(Model::network_type::buffers));
    auto const before = allocation_hook::aligned_to_line.load();
    m.predict(made_up(77));
    CHECK(allocation_hook::aligned_to_line == before);
}

} // namespace

TEST_SUITE("trainer/model") {
    TEST_CASE("a model predicts what the trainer does that has made its weights") {
        files::folder const folder;
        auto const path = folder.path("weights");
        trainer<every_layer, cross_entropy, sgd> t{{.learning_rate = 0.1f, .batch = 64}};
        for (int i = 0; i < 3; ++i) t.step(made_up(64));
        save_weights(t, path);
        auto const asked = made_up(91, 4);
        auto const wanted = values_of(t.predict(asked));

        model<every_layer> m;
        CHECK(says(refusal([&] { m.predict(asked); }), {"no weights yet", "load_weights"}));
        load_weights(m, path);
        CHECK(test_support::apart(values_of(m.predict(asked)), wanted) < 1e-5);
        CHECK(m.predict(asked).classes() == 10);
        CHECK(m.gather_parameters() == t.gather_parameters());

        model<every_layer, on<mesh<host, dp<2>>>, hold_weights<once>> shared;
        load_weights(shared, path);
        CHECK(test_support::apart(values_of(shared.predict(asked)), wanted) < 1e-5);
        CHECK(shared.plan().memory(1).parameters == 0);

        CHECK_THROWS_AS(load_weights(m, folder.path("nothing")), data_error);
        model<lenet> other;
        CHECK_THROWS_AS(load_weights(other, path), data_error);
        CHECK(says(refusal([&] { other.predict(asked); }), {"no weights yet"})); // it has not got half of them
        CHECK(says(refusal([&] { other.load_parameters(std::vector<float>(3)); }), {"3", "61706"}));
        std::vector<float> const numbers(8, 1.0f);
        CHECK(says(refusal([&] { m.predict(samples_in_memory(numbers, make_shape(4))); }),
                   {"each sample is 4, 4 values", "784"}));
    }

    TEST_CASE("there are no gradients, no optimizer's numbers, and few values between layers") {
        constexpr auto plan = model<lenet>::plan(batch{256});
        constexpr auto training = trainer<lenet, cross_entropy, adam>::plan(batch{256});
        static_assert(plan.memory().gradients == 0 && plan.memory().optimizer_state == 0);
        static_assert(plan.memory().parameters == training.memory().parameters);
        static_assert(2 * plan.memory().activations < training.memory().activations);
        static_assert(plan.flops_per_step() == 256 * lenet::forward_flops);
        static_assert(model<lenet, on<mesh<host, dp<4>>>>::plan(batch{256}).wire_bytes_per_step() == 0);
        // no layer needs a whole shard any more
        constexpr auto of_norms = model<every_layer>::plan(batch{256}), small = model<every_layer>::plan(batch{16});
        static_assert(of_norms.bytes_per_device() == small.bytes_per_device());
    }

    TEST_CASE("memory is what the plan says") {
        using m = any_model<host, every_layer>;
        for (auto const& layout : {std::pair{1, 1}, {3, 1}, {1, 3}, {2, 2}}) {
            int const replicas = layout.first, stages = layout.second;
            CAPTURE(replicas);
            CAPTURE(stages);
            takes_what_is_planned(static_cast<m*>(nullptr), {}, {.devices = replicas, .stages = stages});
        }
        takes_what_is_planned(static_cast<model<lenet>*>(nullptr), {}, {});
    }

    TEST_CASE("one sample is enough, also where training needs more") {
        model<every_layer> m{{.batch = 1}};
        trainer<every_layer, cross_entropy, sgd> t{{.batch = 16}};
        auto const image = made_up(1, 6);
        m.load_parameters(t.gather_parameters());
        CHECK(says(refusal([&] { m.predict(image); }), {"no running statistics yet", "load_buffers"}));
        m.load_buffers(t.gather_buffers());
        CHECK(test_support::apart(values_of(m.predict(image)), values_of(t.predict(image))) < 1e-5);
    }
}

} // namespace trainer_model_test
