// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Sources of samples that model docs/concepts/sample_source.md and nothing more, in trainers.

#include <trireme/readers.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace sample_source_concept_test {
using namespace trireme;

// [source_archetype]
class sensor { // samples that lie in two arrays of somebody else
public:
    /// A number of samples that is no integer itself.
    struct amount {
        std::size_t value;
        operator std::size_t() const noexcept { return value; }
    };
    /// Rows that are none themselves.
    struct columns {
        sample_rows value;
        operator sample_rows() const noexcept { return value; }
    };

    sensor(std::size_t samples, float const* inputs, float const* targets)
        : samples_(samples), inputs_(inputs), targets_(targets) {}
    sensor(sensor const&) = delete;
    sensor& operator=(sensor const&) = delete;
    void operator&() const = delete;

    amount size() const { return {samples_}; }
    columns inputs() const { return {rows_of(inputs_, make_shape(3))}; }
    columns targets() const { return {rows_of(targets_, make_shape(1))}; }

private:
    std::size_t samples_;
    float const *inputs_, *targets_;
};
static_assert(sample_source<sensor>);
// [/source_archetype]

// A member of another kind under the name takes a requirement away.
struct without_size : sensor {
    struct size;
};
struct without_inputs : sensor {
    struct inputs;
};
struct without_targets : sensor {
    struct targets;
};
struct that_changes : sensor { // a source that must be writable
    amount size() { return sensor::size(); }
};
struct with_other_rows : sensor {
    float const* inputs() const { return nullptr; }
};
static_assert(!sample_source<without_size> && !sample_source<without_inputs> && !sample_source<without_targets>);
static_assert(!sample_source<that_changes> && !sample_source<with_other_rows>);
static_assert(sample_source<labelled_images> && sample_source<samples_in_memory> && sample_source<owned_samples>);
static_assert(sample_source<sample_set> && sample_source<augmented_samples>);

/// Two sources that stay where they are: for `fit`, which moves what it is given.
struct two_sensors {
    sensor const& train;
    sensor const& test;
};
struct one_that_stays {
    sensor train, test;
};
struct without_train {
    sensor const& test;
};
struct without_test {
    sensor const& train;
};
static_assert(training_data<two_sensors> && training_data<training_set<owned_samples>>);
static_assert(!training_data<one_that_stays> && !training_data<without_train> && !training_data<without_test>);

struct numbers {
    std::vector<float> inputs, targets;
    numbers() {
        for (int i = 0; i < 60; ++i) {
            for (int k = 0; k < 3; ++k) inputs.push_back(static_cast<float>((i * (k + 2)) % 5) / 5);
            targets.push_back(inputs[inputs.size() - 1] - inputs[inputs.size() - 3]);
        }
    }
};
using line = trainer<network<input<3>, linear<1>>, mean_squared_error, sgd, on<mesh<host, dp<2>>>>;
} // namespace sample_source_concept_test

TEST_SUITE("concepts/sample_source") {
    using namespace sample_source_concept_test;

    TEST_CASE("the archetype of a source feeds steps, evaluations, predictions and fits") {
        numbers const all;
        sensor const some(40, all.inputs.data(), all.targets.data());
        sensor const others(20, all.inputs.data() + 120, all.targets.data() + 40);
        line t{{.learning_rate = 0.2f, .batch = 10, .seed = 1}};
        auto const first = t.step(some).loss;
        auto const before = t.evaluate(others).loss;
        auto const last = t.train(two_sensors{some, others}, {.epochs = 20});
        CHECK(last.tested);
        CHECK(last.loss < first);
        CHECK(last.test.loss < before);
        CHECK(t.predict(others).size() == 20);
    }

    TEST_CASE("the archetype of a source is copied, split, standardised and augmented") {
        numbers const all;
        sensor const some(60, all.inputs.data(), all.targets.data());
        auto const parts = split(some, 0.25, 1);
        CHECK(parts.test.size() == 15);
        standardisation const scale(some);
        CHECK(scale(some).size() == 60);
    }

    TEST_CASE("a holder lives as long as a trainer may read") {
        struct held : samples_in_memory {
            std::shared_ptr<int> what = std::make_shared<int>(1);
            using samples_in_memory::samples_in_memory;
            std::shared_ptr<void const> holder() const { return what; }
        };
        numbers const all;
        line t{{.batch = 10}};
        std::weak_ptr<int> left;
        {
            held const some(all.inputs, make_shape(3), all.targets, make_shape(1));
            left = some.what;
            t.evaluate(some);
        }
        CHECK(!left.expired());
        t.evaluate(samples_in_memory(all.inputs, make_shape(3), all.targets, make_shape(1)));
        CHECK(left.expired());
    }
}
