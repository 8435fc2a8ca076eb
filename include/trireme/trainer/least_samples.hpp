// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/pack.hpp>
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

/// `of`: the samples of the epoch, if they are counted for its last batch.
TRIREME_COLD inline void check_samples(std::size_t row, std::size_t least, bool whole, parallel_layout const& l,
                                       std::size_t samples, sample_count counted, std::size_t of) {
    auto const number = [](std::size_t n) { return std::to_string(n); };
    auto const shards = whole ? 1 : l.shards();
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
        remedy += ", or use fewer " + many + ", or batch_norm<synchronised>";
    } else {
        what += " is too small";
    }
    throw usage_error(
        what + ": layer " + number(row) +
        " (batch_norm) has one value per channel and sample, and takes the variance of each channel over " +
        (whole ? "the batch" : "the samples of a shard") + ", which needs at least " + number(least) + "; " + remedy);
}

/// Throws usage_error if a step on `samples` would leave a shard, or the batch, fewer than a layer needs.
template<class Network>
void check_least_samples(parallel_layout const& l, std::size_t samples, sample_count counted, std::size_t of = 0) {
    constexpr auto of_shard = neediest_row<Network, false>(), of_batch = neediest_row<Network, true>();
    if constexpr (of_shard != npos)
        check_samples(of_shard, Network::row(of_shard).description.least_samples, false, l, samples, counted, of);
    if constexpr (of_batch != npos)
        check_samples(of_batch, Network::row(of_batch).description.least_samples, true, l, samples, counted, of);
}

} // namespace trireme::detail
