// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/pack.hpp>
#include <trireme/layer/batch_norm.hpp>
#include <trireme/layer/for_units.hpp>
#include <trireme/layer/summary.hpp>
#include <trireme/parallel/layout.hpp>

#include <cstddef>
#include <string>

namespace trireme::detail {

/// The row of a network that needs the most samples of a shard, or, `Whole`, of a batch, in training; npos if every row
/// is content with one.
template<class Network, bool Whole>
constexpr std::size_t neediest_row() noexcept {
    std::size_t found = npos, most = 1;
    for (std::size_t i = 0; i < Network::depth; ++i) {
        auto const& d = Network::row(i).description;
        if (d.whole_batch() != Whole || d.least_samples <= most) continue;
        found = i;
        most = d.least_samples;
    }
    return found;
}

/// The samples that are counted: those of the option `batch`, of a call of `step`, or of the last batch of an epoch.
enum class sample_count { batch, step, rest };

/// A layer that needs more than one sample in training.
struct needy_layer {
    std::size_t row = 0;
    std::size_t least = 1;
    bool whole = false;         ///< samples of the batch; else of each shard
    bool is_batch_norm = false; ///< its reason is known
    std::string (*name)() = nullptr;
};

template<class Layer>
inline constexpr bool is_batch_norm = false;
template<class Scope>
inline constexpr bool is_batch_norm<batch_norm<Scope>> = true;

template<class Network, std::size_t Row>
constexpr needy_layer needy_layer_at(bool whole) noexcept {
    needy_layer needy{Row, Network::row(Row).description.least_samples, whole};
    for_units<Network>(0, [&]<class Chain, std::size_t Unit>(unit<Chain, Unit>, std::size_t row) {
        using layer = typename Chain::template layer_type<Unit>;
        if (row != Row) return;
        needy.is_batch_norm = is_batch_norm<layer>;
        needy.name = &line_name<layer>;
    });
    return needy;
}

/// `of`: the samples of the epoch, if they are counted for its last batch.
TRIREME_COLD inline void check_samples(needy_layer const& needy, parallel_layout const& l, std::size_t samples,
                                       sample_count counted, std::size_t of) {
    auto const least = needy.least;
    auto const number = [](std::size_t n) { return std::to_string(n); };
    auto const shards = needy.whole ? 1 : l.shards();
    if (samples >= least * shards) return; // their sizes differ by at most one
    std::size_t shard = 0;                 // the first that has some, and too few
    while (shard < shards && (part(samples, shard, shards).size() == 0 || part(samples, shard, shards).size() >= least))
        ++shard;
    if (shard == shards) return;
    std::string what, remedy;
    if (counted == sample_count::batch) {
        what = "batch = " + number(samples);
        remedy = "set the option `batch` to at least " + number(least * shards);
    } else if (counted == sample_count::step) {
        what = "a step on " + number(samples) + " samples";
        remedy = "give it at least " + number(least * shards);
    } else {
        what = "an epoch over " + number(of) + " samples ends with a batch of " + number(samples) + ", which";
        remedy = samples == of
                     ? "give it at least " + number(least * shards)
                     : "leave these out, so that there are " + number(of - samples) + ", or take another `batch`";
    }
    if (shards > 1) {
        bool const parts = !l.reproducible() && l.micro_batches > 1;
        std::string const name = l.reproducible() ? "logical shard" : parts ? "micro-batch" : "device";
        auto const many = name + (parts ? "es" : "s");
        what += " on " + number(shards) + ' ' + many + " leaves " + number(part(samples, shard, shards).size()) +
                " for " + name + ' ' + number(shard);
        remedy += ", or use fewer " + many + (needy.is_batch_norm ? ", or batch_norm<synchronised>" : "");
    } else {
        what += " is too small";
    }
    std::string reason;
    if (needy.is_batch_norm)
        reason = std::string(", for it has one value per channel and sample, and takes the variance of each channel ") +
                 (needy.whole ? "over the batch" : "over them");
    throw usage_error(what + ": layer " + number(needy.row) + " (" + needy.name() + ") needs at least " +
                      number(least) + " samples of " + (needy.whole ? "the batch" : "a shard") + reason + "; " +
                      remedy);
}

/// Throws usage_error if a step on `samples` would leave a shard, or the batch, fewer than a layer needs.
template<class Network>
void check_least_samples(parallel_layout const& l, std::size_t samples, sample_count counted, std::size_t of = 0) {
    constexpr auto of_shard = neediest_row<Network, false>(), of_batch = neediest_row<Network, true>();
    if constexpr (of_shard != npos) {
        constexpr auto needy = needy_layer_at<Network, of_shard>(false);
        check_samples(needy, l, samples, counted, of);
    }
    if constexpr (of_batch != npos) {
        constexpr auto needy = needy_layer_at<Network, of_batch>(true);
        check_samples(needy, l, samples, counted, of);
    }
}

} // namespace trireme::detail
