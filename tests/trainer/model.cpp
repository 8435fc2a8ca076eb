// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <trireme/checkpoints.hpp>
#include <trireme/parallel/price.hpp>
#include <trireme/schedules.hpp>
#include <trireme/weights.hpp>

#include <doctest/doctest.h>
#include <support/allocation_hook.hpp>
#include <support/files.hpp>
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

    TEST_CASE("the file of the weights says what outputs mean; without it, values in a row are scores") {
        files::folder const folder;
        auto const path = folder.path("weights");
        labelled_plane<1> const plane(30);
        labelled_plane<2> const two(30);
        int saved = 0;
        auto const saved_by = [&]<class Loss, class Net>(Loss, Net, auto const& of, char const* says_file) {
            trainer<Net, Loss, sgd> t{{.batch = 30}};
            t.step(of.samples());
            auto const said = t.predict(of.samples());
            save_weights(t, path, {{"of", "a test"}});
            CHECK(safetensors_file(path).metadata().at("trireme.outputs") == says_file);
            CHECK(safetensors_file(path).metadata().at("of") == "a test");
            model<Net, on<mesh<host, dp<2>>>> m;
            CHECK(!m.meaning());
            load_weights(m, path);
            CHECK((m.predict(of.samples()).meaning() == said.meaning()));
            load_weights(m, path, [](named_tensor const& tensor) { return file_tensor{tensor.name}; });
            CHECK((m.meaning() == said.meaning()));
            save_weights(m, folder.path("again"));
            CHECK(safetensors_file(folder.path("again")).metadata().at("trireme.outputs") == says_file);
            auto const checkpoint = folder.path("checkpoint" + std::to_string(++saved));
            save_checkpoint(t, checkpoint);
            model<Net> from_checkpoint;
            load_weights(from_checkpoint, checkpoint + "/weights.a.safetensors");
            CHECK((from_checkpoint.meaning() == said.meaning()));

            model<Net> told; // no file
            told.load_parameters(t.gather_parameters());
            CHECK(!told.meaning());
            CHECK((told.template predict<Loss>(of.samples()).meaning() == said.meaning()));
            CHECK(told.predict(of.samples()).classes() == (Net::output_extents::size > 1 ? 2u : 0u));
            save_weights(told, path);
            CHECK(!safetensors_file(path).metadata().contains("trireme.outputs"));
            load_weights(told, path); // as files were before
            CHECK(told.predict(of.samples()).classes() == (Net::output_extents::size > 1 ? 2u : 0u));
            return m.predict(of.samples());
        };
        using one_output = network<input<2>, linear<1>>;
        using two_outputs = network<input<2>, linear<2>>;
        auto const yes_or_no = saved_by(binary_cross_entropy{}, one_output{}, plane, "logits");
        CHECK(yes_or_no.all_classes().size() == 30);
        auto const values = saved_by(mean_squared_error{}, two_outputs{}, two, "values");
        CHECK(says(refusal([&] { values.class_of(0); }), {"2 values, none of them the score of a class"}));
        CHECK(saved_by(binary_cross_entropy{}, two_outputs{}, two, "logits").classes() == 0);

        trainer<network<input<2>, linear<4>>, cross_entropy, sgd> t{{.batch = 30}};
        model<network<input<2>, linear<4>>> m;
        CHECK(says(refusal([&] { m.set_meaning({.classes = 3}); }), {"4 values", "3 classes"}));
        CHECK(says(refusal([&] { m.set_meaning({.classes = 2, .logistic = true}); }), {"logits have none"}));
        for (char const* const wrong :
             {"classes 3", "classes 0", "classes ", "classes 4x", "logit", "", "classes 99999999999999999999"}) {
            save_weights(t, path, {{"trireme.outputs", wrong}});
            CHECK_THROWS_WITH_AS(load_weights(m, path), doctest::Contains("trireme.outputs = \""), data_error);
            CHECK(!m.meaning());
        }
        CHECK(says(refusal([&] { m.predict(plane.samples()); }), {"no weights yet"})); // it has taken none
        save_weights(t, path);
        CHECK(safetensors_file(path).metadata().at("trireme.outputs") == "classes 4");
        load_weights(m, path);
        CHECK(m.predict(plane.samples()).classes() == 4);
        load_weights(t, path); // trainers have their loss
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

    TEST_CASE("a prediction has the times, the bubble and the price of the way there alone") {
        using net = network<input<16>, repeat<7, linear<16>>, linear<16>>;
        using training = trainer<net, mean_squared_error, sgd, on<mesh<host, dp<2>>>>;
        constexpr machine slow{{{1, 1e-9, 0, 0}}};
        constexpr auto two = model<net, on<mesh<host, dp<2>>>>::plan(batch{64});
        static_assert(two.flops(0).total() == net::forward_flops && two.imbalance() == 1);
        auto const priced = seconds_of(two, slow, 1e9);
        CHECK(priced.seconds == doctest::Approx(static_cast<double>(net::forward_flops) * 32 / 1e9));
        CHECK((priced.computing == priced.seconds && priced.adding == 0));
        CHECK(seconds_of(training::plan(batch{64}), slow, 1e9).adding > 1);

        using staged = model<net, on<mesh<host, dp<1>, pp<2>>>, pipeline<one_f_one_b, 4>>;
        constexpr auto plan = staged::plan(batch{64});
        static_assert(plan.bubble() > 0.199 && plan.bubble() < 0.201); // 1 of 5
        static_assert(plan.bubble(plan.equal_stages) > 0.199 && plan.bubble(plan.equal_stages) < 0.201);
        CHECK(seconds_of(plan, machine{}, 1e9).computing == doctest::Approx(priced.seconds));
        CHECK(seconds_of(plan, machine{}, 1e9).waiting() == doctest::Approx(priced.seconds / 4));
        CHECK(seconds_of(plan, machine{{{1, 0, 0, 0}}}, 1e9).waiting() == doctest::Approx(1 + priced.seconds / 4));
        // in a V the last stage is the first device's, which takes no second micro-batch before it has done that
        using in_a_v = model<net, on<mesh<host, dp<1>, pp<2>>>, pipeline<zero_bubble_v, 4>>;
        CHECK(in_a_v::plan(batch{64}).bubble() == doctest::Approx(0.5));
        CHECK(seconds_of(in_a_v::plan(batch{64}), machine{}, 1e9).computing == doctest::Approx(priced.seconds));
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
