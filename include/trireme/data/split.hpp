// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/philox.hpp>
#include <trireme/data/samples.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

/// Samples for the training and the test of each part of a split.
struct split_counts {
    std::size_t train = 0; ///< samples of the training
    std::size_t test = 0;  ///< samples of the test
};

namespace detail {

TRIREME_COLD inline void check_counts(std::size_t n, split_counts const& counts) {
    if (counts.train == 0 || counts.test == 0 || counts.train > n || counts.test > n - counts.train)
        throw usage_error("a split into " + std::to_string(counts.train) + " samples to train with and " +
                          std::to_string(counts.test) + " to test with is none of these " + std::to_string(n) +
                          " samples: each part needs at least one, and both together at most all");
    if (n > std::numeric_limits<std::uint32_t>::max())
        throw usage_error(std::to_string(n) + " samples do not fit the 32-bit indices of a split; split the files");
}

TRIREME_COLD inline split_counts counts_of(std::size_t n, double test_share) {
    if (!(test_share > 0 && test_share < 1))
        throw usage_error(
            "the share of samples to test with is " + number_text(test_share) +
            ", and must lie between 0 and 1: pass 0.2 for a fifth, or counts as {.train = 120, .test = 30}");
    if (n < 2) throw usage_error("a split needs at least 2 samples, and there are " + std::to_string(n));
    auto const wanted = std::floor(static_cast<double>(n) * test_share + 0.5);
    auto const most = static_cast<double>(n - 1);
    auto const test = static_cast<std::size_t>(wanted < 1 ? 1 : wanted > most ? most : wanted);
    return {n - test, test};
}

/// A permutation of [0, n) that depends on n and `seed` alone. Fisher-Yates; cost: n Philox blocks.
TRIREME_COLD inline std::vector<std::uint32_t> split_order(std::size_t n, std::uint64_t seed) {
    std::vector<std::uint32_t> order(n);
    std::iota(order.begin(), order.end(), std::uint32_t{0});
    random_stream const random(seed, random_purpose::sample_split);
    for (auto left = n; left > 1; --left)
        std::swap(order[left - 1], order[random.below(left, static_cast<std::uint32_t>(left))]);
    return order;
}

/// Parts of a mapped source, which share one list of places. Windows of tokens begin where they do in the source, in
/// each epoch: shifted windows of one part would reach into the other part.
TRIREME_COLD inline training_set<owned_samples> split_views(sample_set const& source, std::vector<std::string> names,
                                                            split_counts const& counts,
                                                            std::vector<std::uint32_t> const& order) {
    struct storage {
        std::shared_ptr<void const> source;
        std::vector<std::uint32_t> inputs, targets;
    };
    auto const kept = std::make_shared<storage>();
    kept->source = source.holder();
    auto inputs = source.inputs(), targets = source.targets();
    bool const alike = inputs.data == nullptr || inputs.places == targets.places;
    auto const place = [&](sample_rows& rows, std::vector<std::uint32_t>& places) {
        if (rows.data == nullptr) return;
        if (places.empty()) {
            places = order;
            for (auto& each : places)
                if (rows.places != nullptr) each = rows.places[each];
        }
        rows.places = places.data();
        rows.beginnings = 1;
    };
    place(inputs, kept->inputs);
    place(targets, alike ? kept->inputs : kept->targets);
    owned_samples const all(kept, counts.train + counts.test, inputs, targets, std::move(names));
    return {all.take(counts.test, counts.train), all.take(0, counts.test)};
}

} // namespace detail

/// A split divides samples, chosen by `seed`, into two parts, to train and to test with. The choice depends on the seed
/// and on the number of samples alone: it is the same on every machine and for any number of devices. No sample is in
/// both parts; where the counts leave samples over, these are in neither. Samples are copied; if inputs or targets lie
/// in a mapped file (map_npy, file_windows), both stay where they are, and a part is a view of them. Memory: that of
/// the samples in both parts; for each sample of a mapped file 4 bytes, twice that while it splits. Errors: usage_error
/// if a part has no sample, or both together have more than there are.
template<sample_source Source>
training_set<owned_samples> split(Source const& source, split_counts const& counts, std::uint64_t seed) {
    detail::check_counts(source.size(), counts);
    auto const order = detail::split_order(source.size(), seed);
    if (sample_set const mapped(source); mapped.stays_mapped())
        return detail::split_views(mapped, detail::class_names_of(source), counts, order);
    std::span<std::uint32_t const> const all(order);
    return {copy_of(source, all.subspan(counts.test, counts.train)), copy_of(source, all.first(counts.test))};
}

/// The part to test with has `test_share` of the samples, rounded, and the other part the rest; each has at least one.
/// Errors: usage_error for a share that does not lie between 0 and 1, or fewer than 2 samples.
template<sample_source Source>
training_set<owned_samples> split(Source const& source, double test_share, std::uint64_t seed) {
    return split(source, detail::counts_of(source.size(), test_share), seed);
}

} // namespace trireme
