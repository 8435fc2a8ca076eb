// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <doctest/doctest.h>
#include <support/changing.hpp>
#include <support/messages.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace data_augmented_test {
using namespace trireme;
using namespace test_changing;

TEST_SUITE("data/augmented") {
    TEST_CASE("steps see images that are moved and mirrored, the same ones on any number of devices") {
        see_the_same_changes<host, std::uint8_t>();
        see_the_same_changes<host, float>();
    }

    TEST_CASE("each change is drawn about as often as the others") {
        images<std::uint8_t> const all(1);
        auto rows = all.samples().inputs();
        rows.changes = {.crop_padding = 1, .flip = true};
        std::size_t zeros_above = 0, mirrored = 0, still = 0;
        constexpr std::size_t draws = 1800;
        for (std::size_t step = 1; step <= draws; ++step) {
            std::vector<float> to(values);
            detail::scatter_changed(rows, 0, {.seed = 3, .step = step}, 1.0f, to.data(), height * width, 1);
            bool above = true;
            for (std::size_t x = 0; x < width; ++x) above = above && to[x] == 0;
            zeros_above += above ? 1 : 0;
            bool same = true;
            for (std::size_t i = 0; i < values; ++i) same = same && to[i] == float(all.numbers[i]);
            still += same ? 1 : 0;
            mirrored += to[2 * width + 2] > to[2 * width + 3] ? 1 : 0;
        }
        CHECK(zeros_above > draws / 3 - 100); // of three places down
        CHECK(zeros_above < draws / 3 + 100);
        CHECK(still > draws / 18 - 50); // of 3 x 3 places and two mirror images
        CHECK(still < draws / 18 + 50);
        CHECK(mirrored > draws / 3);
        CHECK(mirrored < 2 * draws / 3);
    }

    TEST_CASE("an epoch takes them, and what is no image is refused") {
        images<std::uint8_t> const all(40);
        any<host> t({.batch = 20});
        CHECK(t.train(training_set{augmented(all.samples(), {.flip = true}), all.samples()}, {.epochs = 2}).tested);
        CHECK_FALSE(t.train(training_set{augmented(all.samples(), {.flip = true})}, {.epochs = 1}).tested);
        std::vector<float> const numbers(8, 1.0f);
        CHECK(test_support::says(
            test_support::refusal([&] { augmented(samples_in_memory(numbers, make_shape(4)), {.flip = true}); }),
            {"rank 1", "make_shape(1, 28, 28)"}));
    }

    TEST_CASE("a source of one's own that changes what is no image is refused, and not trained on old memory") {
        struct changed_tables : samples_in_memory {
            using samples_in_memory::samples_in_memory;
            sample_rows inputs() const noexcept {
                auto rows = samples_in_memory::inputs();
                rows.changes.flip = true;
                return rows;
            }
        };
        std::vector<float> const x(24, 1.0f), y(6, 1.0f);
        using net = network<input<8>, linear<2>>;
        trainer<net, mean_squared_error, sgd> t({.batch = 3});
        changed_tables const tables(x, make_shape(2, 4), y, make_shape(2)), images(x, {2, 2, 2}, y, {2});
        CHECK(test_support::says(test_support::refusal([&] { t.step(tables); }), {"rank 2", "make_shape(1, 28, 28)"}));
        CHECK(std::isfinite(t.step(images).loss));
    }
}

} // namespace data_augmented_test
