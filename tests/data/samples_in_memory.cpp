// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/data/dataset.hpp>
#include <trireme/data/samples.hpp>
#include <trireme/data/samples_in_memory.hpp>

#include <doctest/doctest.h>
#include <support/messages.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace data_samples_in_memory_test {
using namespace trireme;
using test_support::refusal;
using test_support::says;

static_assert(sample_source<samples_in_memory> && sample_source<sample_set> && sample_source<labelled_images>);
static_assert(sample_number<char> && sample_number<long> && sample_number<long long> && sample_number<float>);
static_assert(sample_number<unsigned> && sample_number<unsigned long> && sample_number<unsigned long long>);
static_assert(!sample_number<bool> && !sample_number<long double> && !sample_number<float*>);
// Digests of samples contain these.
static_assert(static_cast<int>(number_kind::f64) == 7 && static_cast<int>(number_kind::u32) == 8 &&
              static_cast<int>(number_kind::u64) == 9);

TEST_SUITE("data/samples_in_memory") {
    TEST_CASE("rows are where the numbers are") {
        std::vector<double> const x(12, 1.0);
        std::vector<std::uint8_t> const y{0, 1, 2};
        samples_in_memory const s(x, make_shape(2, 2), y, 3);
        CHECK(s.size() == 3);
        CHECK(s.inputs().kind == number_kind::f64);
        CHECK(s.inputs().of(2) == reinterpret_cast<std::byte const*>(&x[8]));
        CHECK(s.inputs().shape == make_shape(2, 2));
        CHECK(s.inputs().bytes() == 32);
        CHECK(s.targets().of(1) == reinterpret_cast<std::byte const*>(&y[1]));
        CHECK(s.targets().classes == 3);
        CHECK(s.scaled(0.5).inputs().scale == 0.5);
        CHECK(samples_in_memory(std::span(x).first(8), make_shape(4), std::span(y).first(2), 3).size() == 2);
    }

    TEST_CASE("a shape in braces has these extents") {
        std::vector<float> const x(2 * 784);
        std::vector<int> const y{0, 1}, tags(4, 1);
        CHECK(samples_in_memory(x, {784}, y, 10).inputs().shape == make_shape(784));
        CHECK(samples_in_memory(x, {1, 28, 28}, y, 10).inputs().shape == make_shape(1, 28, 28));
        CHECK(samples_in_memory(x, {2, 14, 28}).inputs().shape == make_shape(2, 14, 28));
        samples_in_memory const values(x, {784}, y, {1}); // a shape, and no number of classes
        CHECK(values.targets().shape == make_shape(1));
        CHECK(values.targets().classes == 0);
        samples_in_memory const labels(x, {784}, tags, {2}, 3, -1);
        CHECK(labels.targets().shape == make_shape(2));
        CHECK(labels.targets().classes == 3);
        CHECK(labels.targets().ignored == -1);
        CHECK(samples_in_memory(x, {784}, x, {784}).targets().shape == make_shape(784));
        CHECK(owned_samples(x, {784}, y, 10).inputs().shape == make_shape(784));
        CHECK(owned_samples(x, {784}, y, {1}).classes() == 0);
        CHECK(owned_samples(x, {784}, tags, {2}, 3).classes() == 3);
        CHECK(owned_samples(x, {784}, y, 10, {}).classes() == 10); // without names
        CHECK(owned_samples(x, {784}, x, {784}).targets().shape == make_shape(784));
        CHECK(owned_samples(x, {4, 196}).inputs().shape == make_shape(4, 196));
        CHECK(owned_samples(x, {784}, y, 2, {"no", "yes"}).class_names().size() == 2);
    }

    TEST_CASE("samples may have several labels, some of which are to be ignored") {
        std::vector<std::uint8_t> const tokens(6, 1);
        std::vector<std::int8_t> const tags{0, -1, 2, 1, 1, -1};
        samples_in_memory const s(tokens, make_shape(3), tags, make_shape(3), 3, -1);
        CHECK(s.size() == 2);
        CHECK(s.targets().shape == make_shape(3));
        CHECK(s.targets().classes == 3);
        CHECK(s.targets().ignored == -1);
        CHECK(s.targets().of(1) == reinterpret_cast<std::byte const*>(&tags[3]));
        CHECK(says(refusal([&] { samples_in_memory(tokens, make_shape(3), tags, make_shape(3), 3); }),
                   {"label 1 is -1", "[0, 3)"}));
        CHECK(says(refusal([&] { samples_in_memory(tokens, make_shape(3), tags, make_shape(2), 3, -1); }),
                   {"inputs of 2", "targets of 3"}));
    }

    TEST_CASE("unsigned integers are inputs and labels, each with its own value") {
        std::vector<std::size_t> const x{1, 2, std::uint64_t(0) - 1, 4};
        std::vector<unsigned> const y{1, 0};
        samples_in_memory const s(x, make_shape(2), y, 2);
        CHECK(s.inputs().kind == number_kind::u64);
        CHECK(s.inputs().bytes() == 16);
        CHECK(s.targets().kind == number_kind::u32);
        CHECK(s.targets().of(1) == reinterpret_cast<std::byte const*>(&y[1]));
        // -1 and the largest unsigned number have the same bits
        std::vector<std::size_t> const none{0, std::uint64_t(0) - 1};
        std::vector<std::uint32_t> const narrow{0, std::uint32_t(0) - 1};
        for (int const ignored : {no_label, -1}) {
            CHECK(says(refusal([&] { samples_in_memory(x, make_shape(2), none, 2, ignored); }),
                       {"label 1 is 18446744073709551615", "[0, 2)"}));
            CHECK(says(refusal([&] { samples_in_memory(x, make_shape(2), narrow, 2, ignored); }),
                       {"label 1 is 4294967295", "[0, 2)"}));
        }
        std::vector<std::uint64_t> const some{0, 255};
        CHECK(samples_in_memory(x, make_shape(2), some, 2, 255).targets().ignored == 255);
    }

    TEST_CASE("what does not fit together is refused with the sizes") {
        std::vector<float> const x(12);
        std::vector<int> const labels{0, 1, 3}, negative{0, -1, 2}, two{0, 1};
        CHECK(
            says(refusal([&] { samples_in_memory(x, make_shape(5), labels, 4); }), {"12 numbers", "inputs", "5 each"}));
        CHECK(says(refusal([&] { samples_in_memory(x, make_shape(4), two, 4); }), {"inputs of 3", "targets of 2"}));
        CHECK(says(refusal([&] { samples_in_memory(x, make_shape(4), labels, 3); }), {"label 2 is 3", "[0, 3)"}));
        CHECK(says(refusal([&] { samples_in_memory(x, make_shape(4), negative, 3); }), {"label 1 is -1", "[0, 3)"}));
        CHECK(says(refusal([&] { samples_in_memory(x, make_shape(4), x, make_shape(5)); }), {"12 numbers", "targets"}));
        std::vector<float> const none;
        CHECK(says(refusal([&] { samples_in_memory(none, make_shape(4), two, 2); }), {"0 numbers", "inputs"}));
        CHECK(says(refusal([&] { samples_in_memory(x, make_shape(0), two, 2); }), {"12 numbers", "0 each"}));
    }

    TEST_CASE("training data without tests") {
        std::vector<float> const x(4);
        samples_in_memory const learnt(x, {1}, x, {1});
        training_set const data{learnt};
        static_assert(std::is_same_v<decltype(data), training_set<samples_in_memory, sample_set> const>);
        static_assert(std::is_same_v<decltype(training_set{data}), training_set<samples_in_memory, sample_set>>);
        CHECK(data.train.size() == 4);
        CHECK(data.test.size() == 0);
    }

    TEST_CASE("a set is known again by its holder alone") {
        std::vector<float> const x(4), y(4);
        samples_in_memory const unheld(x, make_shape(1), y, make_shape(1));
        CHECK_FALSE(sample_set(unheld).same_as(unheld)); // its memory may have changed
        labelled_images const images({1, 2, 3, 4}, {0, 1}, 1, 2, 2), others({1, 2, 3, 4}, {0, 1}, 1, 2, 2);
        CHECK(sample_set(images).same_as(images));
        CHECK_FALSE(sample_set(images).same_as(others));
        CHECK_FALSE(sample_set(images).same_as(images.take(0, 1)));
        CHECK_FALSE(sample_set().same_as(sample_set()));
    }
}

} // namespace data_samples_in_memory_test
