// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/data/augmented.hpp>
#include <trireme/data/dataset.hpp>
#include <trireme/data/standardisation.hpp>

#include "files.hpp"

#include <doctest/doctest.h>
#include <support/messages.hpp>

#include <cmath>
#include <cstring>
#include <limits>

namespace data_standardisation_test {
namespace {

using namespace trireme;
using test_support::refusal;
using test_support::says;

constexpr auto infinity = std::numeric_limits<double>::infinity();

owned_samples pairs(std::vector<double> numbers) {
    std::vector<int> labels(numbers.size() / 2);
    return {std::move(numbers), make_shape(2), std::move(labels), 1, {"all"}};
}

float number(owned_samples const& s, std::size_t sample, std::size_t i) {
    REQUIRE(s.inputs().kind == number_kind::f32);
    float value = 0;
    std::memcpy(&value, s.inputs().of(sample) + i * sizeof value, sizeof value);
    return value;
}

} // namespace

TEST_SUITE("data/standardisation") {
    TEST_CASE("mean 0 and deviation 1, by the samples it was taken from") {
        auto const train = pairs({1, 10, 3, 30, 5, 20, 7, 20});
        standardisation const scale(train);
        CHECK(scale.means()[0] == 4);
        CHECK(scale.means()[1] == 20);
        CHECK(scale.factors()[0] == doctest::Approx(1 / std::sqrt(5.0)));
        CHECK(scale.factors()[1] == doctest::Approx(1 / std::sqrt(50.0)));
        auto const scaled = scale(train);
        for (std::size_t c = 0; c < 2; ++c) {
            double sum = 0, squares = 0;
            for (std::size_t i = 0; i < 4; ++i) {
                sum += static_cast<double>(number(scaled, i, c));
                squares += static_cast<double>(number(scaled, i, c)) * static_cast<double>(number(scaled, i, c));
            }
            CHECK(sum == doctest::Approx(0));
            CHECK(squares / 4 == doctest::Approx(1));
        }
        // others by the same numbers, not by their own
        auto const test = scale(pairs({4, 20, 9, -30}));
        CHECK(number(test, 0, 0) == 0);
        CHECK(number(test, 0, 1) == 0);
        CHECK(number(test, 1, 0) == doctest::Approx(std::sqrt(5.0)));
        CHECK(number(test, 1, 1) == doctest::Approx(-50 / std::sqrt(50.0)));
    }

    TEST_CASE("what is no input stays as it is") {
        owned_samples scaled;
        {
            labelled_images const images({0, 255, 51, 204}, {1, 2}, 1, 2, 3);
            standardisation const scale(images);
            CHECK(scale.means()[0] == doctest::Approx(0.1)); // bytes / 255
            scaled = scale(images.take(1, 1));
            image_changes const flip{.crop_padding = 1, .flip = true};
            CHECK(scale(augmented(images, flip)).inputs().changes == flip);
            CHECK_FALSE(scaled.inputs().changes.any());
        }
        CHECK(scaled.size() == 1);
        CHECK(scaled.inputs().shape == make_shape(1, 1, 2));
        CHECK(scaled.inputs().scale == 1);
        CHECK(scaled.classes() == 3);
        CHECK(*reinterpret_cast<std::uint8_t const*>(scaled.targets().of(0)) == 2);
        CHECK(number(scaled, 0, 0) == doctest::Approx(1));
        CHECK(number(scaled, 0, 1) == doctest::Approx(-1));
        auto const named = pairs({1, 2, 3, 4});
        CHECK(standardisation(named)(named).class_names()[0] == "all");
        owned_samples const half(nullptr, 2, named.inputs(), {});
        CHECK(standardisation(half)(half).targets().data == nullptr);
    }

    TEST_CASE("columns of one number, and large numbers close to one another") {
        // 0.1 is no binary number: the sum of many, divided, would not be it, and the rest would be blown up
        std::vector<double> numbers;
        for (int i = 0; i < 1000; ++i) numbers.insert(numbers.end(), {0.1, 1.6e9 + i % 2});
        auto const source = pairs(numbers);
        standardisation const scale(source);
        CHECK(scale.means()[0] == 0.1);
        CHECK(scale.factors()[0] == 1);
        auto const scaled = scale(source);
        for (std::size_t i = 0; i < 1000; ++i) {
            CHECK(number(scaled, i, 0) == 0);
            CHECK(number(scaled, i, 1) == doctest::Approx(i % 2 == 0 ? -1 : 1));
        }
        standardisation const of_one(pairs({3, 4}));
        CHECK(of_one.factors()[1] == 1);
    }

    TEST_CASE("kept and passed again") {
        standardisation const scale({1, 2}, {10, 0.5});
        auto const scaled = scale(pairs({1.5, 8}));
        CHECK(number(scaled, 0, 0) == 5);
        CHECK(number(scaled, 0, 1) == 3);
        CHECK(says(refusal([] { standardisation({1, 2}, {1}); }), {"2 means and 1 factors"}));
        CHECK(says(refusal([] { standardisation({}, {}); }), {"0 means"}));
        CHECK(says(refusal([] { standardisation({1, infinity}, {1, 1}); }), {"factor 1", "not finite"}));
        CHECK(says(refusal([] { standardisation({1, 1}, {std::nan(""), 1}); }), {"factor 0", "not finite"}));
    }

    TEST_CASE("a channel of images has one mean and one deviation") {
        // two images of two channels of 1 x 2
        labelled_images const grey({0, 255, 51, 204}, {1, 2}, 1, 2, 3);
        standardisation const of_grey(grey, standardised::per_channel);
        REQUIRE(of_grey.means().size() == 1);
        CHECK(of_grey.of() == standardised::per_channel);
        CHECK(of_grey.means()[0] == doctest::Approx(0.5)); // bytes / 255: 0, 1, 0.2, 0.8
        CHECK(of_grey.factors()[0] == doctest::Approx(1 / std::sqrt((0.25 + 0.25 + 0.09 + 0.09) / 4)));
        CHECK(number(of_grey(grey), 1, 1) == doctest::Approx(0.3 * of_grey.factors()[0]));

        owned_samples const images(std::vector<std::uint8_t>{0, 2, 10, 30, 4, 6, 50, 70}, make_shape(2, 1, 2));
        standardisation const scale(images, standardised::per_channel);
        REQUIRE(scale.means().size() == 2);
        CHECK(scale.means()[0] == 3);
        CHECK(scale.means()[1] == 40);
        CHECK(scale.factors()[0] == doctest::Approx(1 / std::sqrt(5.0)));
        CHECK(scale.factors()[1] == doctest::Approx(1 / std::sqrt(500.0)));
        auto const scaled = scale(images);
        CHECK(scaled.inputs().shape == make_shape(2, 1, 2));
        CHECK(number(scaled, 0, 1) == doctest::Approx(-1 / std::sqrt(5.0)));
        CHECK(number(scaled, 0, 2) == doctest::Approx(-30 / std::sqrt(500.0)));
        CHECK(number(scaled, 1, 3) == doctest::Approx(30 / std::sqrt(500.0)));
        // images of another size have the same channels
        owned_samples const larger(std::vector<float>{3, 5, 7, 9, 40, 40, 60, 40}, make_shape(2, 2, 2));
        CHECK(number(standardisation({3, 40}, {2, 0.5}, standardised::per_channel)(larger), 0, 3) == 12);
        CHECK(number(standardisation({3, 40}, {2, 0.5}, standardised::per_channel)(larger), 0, 6) == 10);

        CHECK(says(refusal([] { standardisation(pairs({1, 2}), standardised::per_channel); }),
                   {"per_channel", "rank 1", "(channels, height, width)"}));
        CHECK(says(refusal([&] { scale(pairs({1, 2})); }), {"rank 1", "images have 3"}));
        CHECK(says(refusal([&] { scale(grey); }), {"1 channels", "taken from 2"}));
        owned_samples const broken(std::vector<double>{0, 2, 10, infinity}, make_shape(2, 1, 2));
        CHECK(says(refusal([&] { standardisation(broken, standardised::per_channel); }), {"channel 1 of sample 0"}));
        CHECK(says(refusal([&] { scale(broken); }), {"channel 1 of sample 0"}));
        CHECK(says(refusal([] { standardisation({1}, {}, standardised::per_channel); }), {"for each channel"}));
    }

    TEST_CASE("a file keeps a standardisation bit for bit") {
        files::folder const folder;
        auto const path = folder.path("scale");
        for (auto const of : {standardised::per_number, standardised::per_channel}) {
            standardisation const scale({0.1, -1e300, 5e-324}, {1.0 / 3, 7, -0.0}, of);
            scale.save(path);
            auto const kept = standardisation::load(path);
            CHECK(kept.of() == of);
            CHECK(std::memcmp(kept.means().data(), scale.means().data(), 24) == 0);
            CHECK(std::memcmp(kept.factors().data(), scale.factors().data(), 24) == 0);
        }
        safetensors_file const file(path);
        CHECK(file.at("mean").shape == std::vector<std::size_t>{3, 1, 1});

        auto const with = [&](std::vector<std::size_t> const& means, std::vector<std::size_t> const& factors,
                              char const* second = "factor", double number = 1) {
            std::vector<double> const numbers(6, number);
            auto const bytes = [&](std::vector<std::size_t> const& shape) {
                std::size_t n = 1;
                for (auto const extent : shape) n *= extent;
                return std::as_bytes(std::span(numbers).first(n));
            };
            write_safetensors(path, {{"mean", safetensors_dtype::f64, means, bytes(means)},
                                     {second, safetensors_dtype::f64, factors, bytes(factors)}});
        };
        auto const refused = [&](std::string const& words) {
            CAPTURE(words);
            try {
                (void)standardisation::load(path);
                FAIL_CHECK("no data_error");
            } catch (data_error const& e) {
                CHECK(e.path() == path);
                CHECK(says(e.what(), {words.c_str()}));
            }
        };
        with({2, 3}, {2, 3}), refused("has 2 dimensions");
        with({3, 2, 1}, {3, 2, 1}), refused("has 3 dimensions");
        with({2}, {3}), refused("tensor 'factor'");
        with({2}, {2}, "deviation"), refused("no tensor 'factor'");
        with({0}, {0}), refused("0 means");
        with({2}, {2}, "factor", infinity), refused("not finite");
        std::filesystem::remove(path);
        refused("cannot be opened");
    }

    TEST_CASE("what cannot be standardised") {
        CHECK(says(refusal([] { standardisation{owned_samples()}; }), {"there are none"}));
        CHECK(says(refusal([] { standardisation{pairs({1, 2, 3, infinity})}; }), {"number 1 of sample 1", "finite"}));
        CHECK(says(refusal([] { standardisation{pairs({std::nan(""), 2})}; }), {"number 0 of sample 0", "finite"}));
        CHECK(says(refusal([] { standardisation{pairs({1e308, 0, -1e308, 1})}; }), {"number 0", "scale the column"}));
        CHECK(says(refusal([] { standardisation{pairs({1e308, 0, 1.5e308, 1})}; }), {"scale the column"}));
        CHECK(says(refusal([] { standardisation{pairs({0, 1e-300, 0, 2e-300})}; }), {"number 1", "scale the column"}));
        standardisation const scale(pairs({1, 2, 3, 4}));
        owned_samples const wide(std::vector<float>{1, 2, 3}, make_shape(3), std::vector{0}, 1);
        CHECK(says(refusal([&] { scale(wide); }), {"3 numbers each", "taken from 2"}));
        CHECK(says(refusal([&] { scale(pairs({1, 2, 3, infinity})); }), {"number 1 of sample 1"}));
        CHECK(says(refusal([&] { scale(pairs({1e300, 2})); }), {"number 0 of sample 0", "too large for float"}));
    }
}

} // namespace data_standardisation_test
