// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/data/dataset.hpp>
#include <trireme/data/samples.hpp>

#include <doctest/doctest.h>
#include <support/messages.hpp>

#include <array>
#include <cstring>

namespace data_samples_test {
namespace {

using namespace trireme;
using test_support::refusal;
using test_support::says;

static_assert(sample_source<owned_samples>);

template<class N>
N number(sample_rows const& rows, std::size_t sample, std::size_t i = 0) {
    REQUIRE(rows.kind == kind_of<N>());
    N value;
    std::memcpy(&value, rows.of(sample) + i * sizeof(N), sizeof(N));
    return value;
}

owned_samples three() {
    return {std::vector<float>{1, 2, 3, 4, 5, 6}, make_shape(2), std::vector<std::uint8_t>{0, 1, 1}, 2, {"no", "yes"}};
}

} // namespace

TEST_SUITE("data/samples") {
    TEST_CASE("numbers live as long as any copy or part") {
        owned_samples part;
        {
            auto const all = three();
            part = all.take(1, 2);
            CHECK(sample_set(all).same_as(all));
            CHECK_FALSE(sample_set(all).same_as(part));
        }
        CHECK(part.size() == 2);
        CHECK(number<float>(part.inputs(), 0) == 3);
        CHECK(number<float>(part.inputs(), 1, 1) == 6);
        CHECK(number<std::uint8_t>(part.targets(), 1) == 1);
        CHECK(part.classes() == 2);
        REQUIRE(part.class_names().size() == 2);
        CHECK(part.class_names()[1] == "yes");
        CHECK(part.scaled(0.5).scaled(0.5).inputs().scale == 0.25);
        CHECK(part.scaled(0.5).targets().scale == 1);
        CHECK(part.take(2, 0).size() == 0);
        CHECK(says(refusal([&] { (void)part.take(1, 2); }), {"samples 1 and the 2", "set of 2", "take fewer"}));
        CHECK(says(refusal([&] { (void)part.take(3, 0); }), {"samples 3"}));
    }

    TEST_CASE("labels of several tokens, some of which are ignored") {
        owned_samples const words(std::vector<int>{0, 1, 2, 3}, make_shape(2), std::vector<std::int8_t>{4, -1, -1, 5},
                                  make_shape(2), 6, -1);
        CHECK(words.size() == 2);
        CHECK(words.classes() == 6);
        CHECK(words.targets().ignored == -1);
        CHECK(number<std::int8_t>(words.targets(), 1, 1) == 5);
        CHECK(says(refusal([] {
                       owned_samples(std::vector<int>{0, 1}, make_shape(2), std::vector<int>{6, -1}, make_shape(2), 6,
                                     -1);
                   }),
                   {"label 0 is 6", "or are -1"}));
    }

    TEST_CASE("none") {
        owned_samples const none;
        CHECK(none.size() == 0);
        CHECK(none.class_names().empty());
        CHECK_FALSE(sample_set(none).has_both());
        CHECK(none.take(0, 0).inputs().data == nullptr);
        CHECK(copy_of(none, {}).size() == 0);
    }

    TEST_CASE("what does not fit together is refused as in samples_in_memory") {
        std::vector<float> const x(6);
        std::vector<int> const y{0, 1, 2};
        CHECK(says(refusal([&] { owned_samples(x, make_shape(4), y, 3); }), {"6 numbers", "4 each"}));
        CHECK(says(refusal([&] { owned_samples(x, make_shape(3), y, 3); }), {"inputs of 2", "targets of 3"}));
        CHECK(says(refusal([&] { owned_samples(x, make_shape(2), y, 2); }), {"label 2 is 2", "[0, 2)"}));
        CHECK(says(refusal([&] { owned_samples(x, make_shape(2), x, make_shape(3)); }), {"inputs of 3", "of 2"}));
        CHECK(says(refusal([&] { owned_samples(x, make_shape(2), y, 3, {"a", "b"}); }), {"2 names", "3 classes"}));
        owned_samples const curve(x, make_shape(2), x, make_shape(2));
        CHECK(curve.classes() == 0);
        CHECK(curve.targets().size() == 2);
    }

    TEST_CASE("copies are in the order that was asked for, and keep what the numbers mean") {
        std::array<std::uint32_t, 4> const which{2, 0, 2, 1};
        owned_samples copy;
        { copy = copy_of(three().scaled(0.5), which); }
        CHECK(copy.size() == 4);
        CHECK(number<float>(copy.inputs(), 0, 1) == 6);
        CHECK(number<float>(copy.inputs(), 1) == 1);
        CHECK(number<std::uint8_t>(copy.targets(), 3) == 1);
        CHECK(copy.inputs().scale == 0.5);
        CHECK(copy.inputs().shape == make_shape(2));
        CHECK(copy.class_names()[0] == "no");

        // rows that lie apart, of a source that has no names
        std::array<std::uint16_t, 9> const table{1, 2, 90, 3, 4, 91, 5, 6, 92};
        auto inputs = rows_of(table.data(), make_shape(2)), targets = rows_of(table.data() + 2, make_shape(1));
        inputs.stride = targets.stride = 6;
        auto const packed = copy_of(owned_samples(nullptr, 3, inputs, targets), which);
        CHECK(number<std::uint16_t>(packed.inputs(), 0, 1) == 6);
        CHECK(number<std::uint16_t>(packed.targets(), 3) == 91);
        CHECK(packed.inputs().stride == 4);
        labelled_images const images({1, 2, 3, 4}, {0, 1}, 1, 2, 2);
        std::array<std::uint32_t, 1> const second{1};
        auto const image = copy_of(images, second);
        CHECK(number<std::uint8_t>(image.inputs(), 0, 1) == 4);
        CHECK(image.inputs().shape == make_shape(1, 1, 2));
        CHECK(image.inputs().scale == 1.0 / 255);
        CHECK(image.class_names().empty());
    }

    TEST_CASE("inputs without targets") {
        std::array<float, 2> const x{1, 2};
        owned_samples const half(nullptr, 2, rows_of(x.data(), make_shape(1)), {});
        std::array<std::uint32_t, 1> const second{1};
        auto const copy = copy_of(half, second);
        CHECK(number<float>(copy.inputs(), 0) == 2);
        CHECK(copy.targets().data == nullptr);
        CHECK(half.take(1, 1).targets().data == nullptr);
        owned_samples const own(std::vector<std::uint64_t>{1, 2, 3, 4}, make_shape(2));
        CHECK(own.size() == 2);
        CHECK(number<std::uint64_t>(own.inputs(), 1, 1) == 4);
        CHECK(own.targets().data == nullptr);
        CHECK(own.holder() != nullptr);
        CHECK(says(refusal([] { owned_samples(std::vector<float>{1, 2, 3}, make_shape(2)); }), {"3 numbers"}));
    }
}

} // namespace data_samples_test
