// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Samples of mapped files that are split and standardised: views, which read as the copies of arrays in memory do.

#include <trireme/data/augmented.hpp>
#include <trireme/data/gather.hpp>
#include <trireme/data/shuffled_batches.hpp>
#include <trireme/data/split.hpp>
#include <trireme/data/standardisation.hpp>
#include <trireme/data/token_files.hpp>
#include <trireme/trainer/sample_digests.hpp>

#include "npy_files.hpp"

#include <doctest/doctest.h>
#include <support/messages.hpp>
#include <support/seed.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <vector>

namespace data_views_test {
namespace {

using namespace trireme;
using test_support::refusal;
using test_support::says;

/// Random numbers of a type: all bytes, or values that are no powers of two.
template<class N>
std::vector<N> random_numbers(std::size_t count, std::mt19937_64& random) {
    std::vector<N> all(count);
    for (auto& each : all)
        if constexpr (std::floating_point<N>)
            each = static_cast<N>(std::normal_distribution<double>(3, 700)(random));
        else
            each = static_cast<N>(random());
    return all;
}

/// Samples of shape (2, 4, 5) with a class each, from one file: read into memory, and mapped.
struct pair_of_sets {
    owned_samples read, mapped;
};
template<class N>
pair_of_sets images_of(files::folder const& folder, std::size_t count, std::mt19937_64& random) {
    auto const x = files::write_npy(folder, "x.npy", files::npy_type<N>(), {count, 2, 4, 5}, sizeof(N),
                                    files::bytes_of(random_numbers<N>(count * 40, random)));
    std::vector<std::uint8_t> labels(count);
    for (auto& each : labels) each = static_cast<std::uint8_t>(random() % 3);
    auto const y = files::write_npy(folder, "y.npy", "|u1", {count}, 1, labels);
    auto const classes = read_npy(y);
    return {npy_samples(read_npy(x), classes, 3), npy_samples(map_npy(x), classes, 3)};
}

template<class T>
void append(std::vector<std::byte>& all, std::vector<T> const& numbers) {
    auto const bytes = std::as_bytes(std::span(numbers));
    all.insert(all.end(), bytes.begin(), bytes.end());
}

/// All that trainers read of samples, in each of their ways, and by kernels of T.
template<class T>
std::vector<std::byte> seen(sample_set const& samples) {
    std::vector<std::byte> all;
    auto const& rows = samples.inputs();
    auto const size = rows.size();
    std::vector<T> granule(size * 8), one(size);
    std::vector<std::uint32_t> indices;
    for (std::size_t i = 0; i < samples.size(); ++i) {
        indices.assign({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(samples.size() - 1 - i)});
        gather_samples<8>(rows, indices, granule.data());
        append(all, granule);
        gather_channels_last<T>(rows, i, rows.shape.rank == 3 ? rows.shape.extent[0] : 1, one.data());
        append(all, one);
        if (rows.changes.any()) {
            detail::scatter_changed(rows, indices[0], {7, i + 1}, static_cast<T>(rows.scale), one.data(),
                                    rows.size() / rows.shape.extent[0], 1);
            append(all, one);
        }
        if (samples.targets().data == nullptr) continue;
        std::vector<int> targets(samples.targets().size());
        gather_samples<1>(samples.targets(), std::span(indices).first(1), targets.data());
        append(all, targets);
    }
    return all;
}
bool alike(sample_set const& a, sample_set const& b) {
    return a.size() == b.size() && a.inputs().shape == b.inputs().shape && a.inputs().changes == b.inputs().changes &&
           a.inputs().beginnings == b.inputs().beginnings && a.targets().classes == b.targets().classes &&
           seen<float>(a) == seen<float>(b) && seen<double>(a) == seen<double>(b);
}

/// True if the numbers of a view are those of the file, not copies.
bool lies_in(sample_rows const& rows, std::size_t samples, sample_rows const& file, std::size_t of_file) {
    for (std::size_t i = 0; i < samples; ++i)
        if (rows.of(i) < file.data || rows.of(i) + rows.bytes() > file.data + of_file * file.stride) return false;
    return true;
}

std::uint64_t digest(sample_set const& samples) { return detail::sample_digests().of(samples).both(); }

template<class N>
void check_views_of(std::mt19937_64& random) {
    CAPTURE(files::npy_type<N>());
    files::folder const folder;
    auto const [read, mapped] = images_of<N>(folder, 23, random);
    auto const in_file = [&, &file = mapped](owned_samples const& s) {
        return lies_in(s.inputs(), s.size(), file.inputs(), file.size());
    };
    CHECK(mapped.inputs().mapped);
    CHECK_FALSE(read.inputs().mapped);
    auto const seed = random();
    auto const copies = split(read, 0.3, seed), views = split(mapped, 0.3, seed);
    CHECK(alike(copies.train, views.train));
    CHECK(alike(copies.test, views.test));
    CHECK(in_file(views.train));
    CHECK(alike(copies.train.take(3, 9), views.train.take(3, 9)));
    // parts of parts
    CHECK(alike(split(copies.train, split_counts{5, 4}, 1).test, split(views.train, split_counts{5, 4}, 1).test));
    CHECK(alike(split(copies.train.take(2, 12), 0.5, 1).train, split(views.train.take(2, 12), 0.5, 1).train));

    for (auto const of : {standardised::per_number, standardised::per_channel}) {
        standardisation const scale(copies.train.scaled(0.3), of), same(views.train.scaled(0.3), of);
        CHECK(std::memcmp(scale.means().data(), same.means().data(), scale.means().size_bytes()) == 0);
        CHECK(std::memcmp(scale.factors().data(), same.factors().data(), scale.factors().size_bytes()) == 0);
        auto const train = scale(copies.train.scaled(0.3)), view = scale(views.train.scaled(0.3));
        CHECK(in_file(view));
        CHECK(view.inputs().kind == number_kind::f32);
        CHECK(alike(train, view));
        CHECK(alike(train.scaled(0.7), view.scaled(0.7)));
        CHECK(alike(scale(mapped.take(4, 5)), scale(read.take(4, 5))));
        CHECK(alike(split(train, 0.5, 3).test, split(view, 0.5, 3).test));
        // standardised and changed twice
        standardisation const again(train.scaled(3), standardised::per_channel);
        CHECK(alike(again(train.scaled(3)), again(view.scaled(3))));
        CHECK(in_file(again(view)));
        image_changes const changes{.crop_padding = 2, .flip = true};
        CHECK(alike(augmented(train, changes), augmented(view, changes)));
        CHECK(alike(scale(augmented(copies.test, changes)), scale(augmented(views.test, changes))));
        // copies of a view need nothing of it
        auto const outliving = [&, &file = mapped](auto const& copied) {
            owned_samples made;
            std::weak_ptr<void const> means;
            {
                auto const short_lived = scale(split(file, 0.3, seed).train.scaled(0.3));
                means = short_lived.holder();
                made = copied(short_lived);
            }
            CHECK(means.expired());
            CHECK(made.inputs().standard == nullptr);
            return made;
        };
        std::vector<std::uint32_t> const which{3, 0, 3};
        auto const copied = outliving([&](owned_samples const& from) { return copy_of(from, which); });
        auto const batch = outliving([](owned_samples const& from) { return shuffled_batches(from, 5, 9).at(7); });
        CHECK(alike(copied, copy_of(train, which)));
        CHECK(alike(batch, shuffled_batches(train, 5, 9).at(7)));
        auto const without_holder = outliving([&](owned_samples const& from) {
            return split(owned_samples(nullptr, from.size(), from.inputs(), from.targets()), 0.5, 3).test;
        });
        CHECK(alike(without_holder, split(train, 0.5, 3).test));
    }
}

} // namespace

TEST_SUITE("data/views") {
    TEST_CASE("views of a mapped file have the bits of copies") {
        std::mt19937_64 random(test_seed());
        check_views_of<std::uint8_t>(random);
        check_views_of<std::int8_t>(random);
        check_views_of<std::uint16_t>(random);
        check_views_of<std::int32_t>(random);
        check_views_of<std::uint64_t>(random);
        check_views_of<float>(random);
        check_views_of<double>(random);
    }

    TEST_CASE("a sample may have more numbers than are read at a time") {
        std::mt19937_64 random(test_seed());
        files::folder const folder;
        auto const path = files::write_npy(folder, "x.npy", "<f4", {7, 3, 20, 30}, 4,
                                           files::bytes_of(random_numbers<float>(7 * 1800, random)));
        auto const read = npy_samples(read_npy(path)), mapped = npy_samples(map_npy(path));
        for (auto const of : {standardised::per_number, standardised::per_channel}) {
            standardisation const scale(read, of);
            image_changes const changes{.crop_padding = 5, .flip = true};
            CHECK(alike(augmented(scale(read), changes), augmented(scale(mapped), changes)));
        }
    }

    TEST_CASE("targets and names stay with their samples") {
        files::folder const folder;
        std::vector<std::int16_t> numbers(40), wanted(20);
        for (std::size_t i = 0; i < 40; ++i) numbers[i] = static_cast<std::int16_t>(i / 2);
        for (std::size_t i = 0; i < 20; ++i) wanted[i] = static_cast<std::int16_t>(100 + i);
        auto const x = files::write_npy(folder, "x.npy", "<i2", {20, 2}, 2, files::bytes_of(numbers));
        auto const y = files::write_npy(folder, "y.npy", "<i2", {20}, 2, files::bytes_of(wanted));
        auto const check = [](owned_samples const& s) {
            for (std::size_t i = 0; i < s.size(); ++i) {
                std::int16_t number = 0, target = 0;
                std::memcpy(&number, s.inputs().of(i), 2);
                std::memcpy(&target, s.targets().of(i), 2);
                CHECK(target == 100 + number);
            }
        };
        for (auto const& inputs : {read_npy(x), map_npy(x)})
            for (auto const& targets : {read_npy(y), map_npy(y)}) {
                auto const parts = split(npy_samples(inputs, targets), 0.4, 5);
                CHECK(parts.train.size() == 12);
                check(parts.train);
                check(split(parts.train, 0.5, 6).test);
                // a source of two that were split by themselves
                auto const of_inputs = split(npy_samples(inputs), 0.4, 5).train;
                owned_samples const both(of_inputs.holder(), 12, of_inputs.inputs(), parts.train.targets());
                check(split(both, 0.5, 6).test);
            }
        auto const classified = npy_samples(map_npy(x), read_npy(y), 200);
        owned_samples const named(classified.holder(), 20, classified.inputs(), classified.targets(),
                                  std::vector<std::string>(200, "n"));
        CHECK(split(named, 0.5, 1).test.class_names().size() == 200);
        CHECK(standardisation(named)(named).class_names().size() == 200);
        // inputs alone, and targets alone, as a stage of a pipeline has them
        auto const alone = npy_samples(map_npy(x));
        CHECK(split(standardisation(alone)(alone), 0.5, 1).test.targets().data == nullptr);
        auto const values = map_npy(y);
        owned_samples const targets(values.holder(), 20, {}, values.rows());
        auto const seen_again = standardisation({1}, {1})(targets);
        CHECK(seen_again.inputs().data == nullptr);
        CHECK(split(seen_again, 0.5, 1).train.targets().places != nullptr);
    }

    TEST_CASE("windows of a mapped file of tokens are split as those in memory") {
        files::folder const folder;
        std::vector<std::uint16_t> tokens(500);
        for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint16_t>(i * i % 91);
        auto const raw = folder.write("tokens.bin", files::bytes_of(tokens));
        auto const npy = files::write_npy(folder, "t.npy", "<u2", {500}, 2, files::bytes_of(tokens));
        for (std::optional<std::size_t> const first : {std::optional<std::size_t>{0}, std::optional<std::size_t>{}}) {
            token_windows const own(tokens, 8, 91, first);
            auto const wanted = split(own, 0.25, 3);
            for (auto const& mapped :
                 {file_windows<std::uint16_t>(raw, 8, 91, first), npy_windows(map_npy(npy), 8, 91, first)}) {
                auto const parts = split(mapped, 0.25, 3);
                CHECK(alike(parts.train, wanted.train));
                CHECK(alike(parts.test, wanted.test));
                CHECK(lies_in(parts.test.inputs(), parts.test.size(), mapped.inputs(), mapped.size()));
            }
            CHECK(split(npy_windows(read_npy(npy), 8, 91, first), 0.25, 3).train.inputs().places == nullptr);
        }
    }

    TEST_CASE("a source without a holder is copied, for nothing keeps its file") {
        files::folder const folder;
        auto const path = files::write_npy(folder, "x.npy", "|u1", {10, 2}, 1, files::bytes(20, 3));
        owned_samples train, scaled;
        {
            auto const array = map_npy(path);
            owned_samples const borrowed(nullptr, 10, array.rows(), {});
            train = split(borrowed, 0.5, 1).train;
            scaled = standardisation(borrowed)(borrowed);
        }
        CHECK_FALSE(train.inputs().mapped);
        CHECK(std::to_integer<int>(*train.inputs().of(4)) == 3);
        CHECK(scaled.inputs().standard == nullptr);
    }

    TEST_CASE("inputs in memory are standardised once, wherever their targets lie") {
        files::folder const folder;
        auto const x = read_npy(files::write_npy(folder, "x.npy", "|u1", {10, 2}, 1, files::bytes(20, 3)));
        auto const y = map_npy(files::write_npy(folder, "y.npy", "|u1", {10}, 1, files::bytes(10, 1)));
        auto const samples = npy_samples(x, y);
        CHECK(samples.targets().mapped);
        CHECK(standardisation(samples)(samples).inputs().standard == nullptr);
        CHECK(split(samples, 0.5, 1).train.targets().mapped);
    }

    TEST_CASE("what is no standardised number is refused before it is read") {
        files::folder const folder;
        std::vector<double> numbers{1, 2, 3, 4, 5, std::numeric_limits<double>::infinity()};
        auto const path = files::write_npy(folder, "x.npy", "<f8", {3, 2}, 8, files::bytes_of(numbers));
        standardisation const scale({1, 2}, {1, 1});
        for (auto const& array : {read_npy(path), map_npy(path)}) {
            CHECK(says(refusal([&] { scale(npy_samples(array)); }), {"number 1 of sample 2 is not finite"}));
            CHECK(says(refusal([&] { standardisation{npy_samples(array)}; }), {"number 1 of sample 2 is not finite"}));
            CHECK(says(refusal([&] { standardisation({1, 2, 3}, {1, 1, 1})(npy_samples(array)); }),
                       {"2 numbers each", "taken from 3"}));
            CHECK(scale(npy_samples(array).take(0, 2)).size() == 2);
        }
    }

    TEST_CASE("digests tell the changes of images, the classes, and the label to ignore") {
        std::mt19937_64 random(test_seed());
        files::folder const folder;
        auto const mapped = images_of<std::uint8_t>(folder, 20, random).mapped;
        image_changes const none, cropped{.crop_padding = 2}, cropped_more{.crop_padding = 3}, flipped{.flip = true},
            both{.crop_padding = 2, .flip = true};
        image_changes const all_changes[] = {none, cropped, cropped_more, flipped, both};
        for (auto const& one : all_changes)
            for (auto const& other : all_changes)
                CHECK((digest(augmented(mapped, one)) == digest(augmented(mapped, other))) == (one == other));
        auto const is_told = [&](auto change) { // by the digest, and where a set is asked for again
            auto targets = mapped.targets();
            change(targets);
            owned_samples const other(mapped.holder(), mapped.size(), mapped.inputs(), targets);
            bool const same = sample_set(mapped).same_as(other);
            CHECK(same == (digest(other) == digest(mapped)));
            return !same;
        };
        CHECK_FALSE(is_told([](auto&) {}));
        CHECK(is_told([](auto& targets) { targets.classes = 4; }));
        CHECK(is_told([](auto& targets) { targets.ignored = 255; }));
    }

    TEST_CASE("digests tell parts and standardisations from others") {
        std::mt19937_64 random(test_seed());
        files::folder const folder;
        auto const mapped = images_of<std::uint8_t>(folder, 20, random).mapped;
        auto const part = [&](std::uint64_t seed) { return split(mapped, 0.5, seed).train; };
        CHECK(digest(part(1)) == digest(part(1)));
        CHECK(digest(part(1)) != digest(part(2)));
        CHECK(digest(part(1)) != digest(mapped.take(0, 10)));
        standardisation const scale(mapped);
        std::vector<double> means(scale.means().begin(), scale.means().end());
        std::vector<double> const factors(scale.factors().begin(), scale.factors().end());
        CHECK(digest(scale(mapped)) == digest(standardisation(means, factors)(mapped)));
        means[7] = std::nextafter(means[7], 0.0);
        CHECK(digest(scale(mapped)) != digest(standardisation(means, factors)(mapped)));
        CHECK(digest(scale(mapped)) != digest(scale(mapped.scaled(2))));
        CHECK(digest(scale(mapped)) != digest(scale(mapped).scaled(2)));
        CHECK(digest(scale(mapped)) != digest(mapped));
        standardisation const again(scale(mapped));
        CHECK(digest(again(scale(mapped))) == digest(again(scale(mapped))));
        CHECK(digest(again(scale(mapped))) != digest(again(standardisation(means, factors)(mapped))));
        // a set is known again, by what it holds
        auto const view = scale(part(1));
        CHECK(sample_set(view).same_as(view));
        CHECK_FALSE(sample_set(view).same_as(view.take(1, 9)));
        auto const halves = split(mapped, 0.5, 1);
        CHECK_FALSE(sample_set(halves.train).same_as(halves.test));
        owned_samples const alone(mapped.holder(), 20, mapped.inputs(), {}); // of which nothing but places differs
        auto const of_inputs = split(alone, split_counts{10, 10}, 1);
        CHECK_FALSE(sample_set(of_inputs.train).same_as(of_inputs.test));
        CHECK_FALSE(sample_set(view).same_as(view.scaled(2)));
    }
}

} // namespace data_views_test
