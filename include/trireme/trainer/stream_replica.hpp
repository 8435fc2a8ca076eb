// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/data/dataset.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/device/blocks/kernels.hpp>
#include <trireme/device/blocks/samples.hpp>
#include <trireme/layer/stage_pass.hpp>
#include <trireme/layer/stream_context.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/schedule/fixed_tree.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

/// The samples that a rank computes at once, as they are staged: what they are (staged_shard), labels, weights in the
/// loss, pixels; each begins on a cache line.
template<class Model>
struct staged_granule {
    using T = typename Model::value_type;
    static constexpr std::size_t values = Model::network::input_extents::size;

    std::size_t samples;

    constexpr std::size_t labels() const noexcept { return cache_line; }
    constexpr std::size_t weights() const noexcept { return labels() + round_up(samples * sizeof(int), cache_line); }
    constexpr std::size_t pixels() const noexcept { return weights() + round_up(samples * sizeof(T), cache_line); }
    constexpr std::size_t bytes() const noexcept { return pixels() + round_up(samples * values, cache_line); }

    /// What kernels leave of each sample, beside the staged: its loss, and whether it was right.
    constexpr std::size_t correct() const noexcept { return round_up(samples * sizeof(T), cache_line); }
    constexpr std::size_t loss_bytes() const noexcept {
        return correct() + round_up(samples * sizeof(int), cache_line);
    }
};

/// One rank's copy of the model on an accelerator, and its part of every step: nothing here waits, it hands work over
/// to streams. What is handed over between begin_capture and end_capture is a graph.
///
/// Four streams: `compute` for the line from samples to gradients, `beside` for the gradients by the parameters,
/// `copies` for samples on their way in, `exchange` for collectives. Samples are staged in two slots, which take turns.
template<class Model, accelerator Device, class Options>
class stream_replica {
public:
    using T = typename Model::value_type;
    using kernels = typename Model::kernels;
    using stream = typename Device::stream;
    using event = typename Device::event;
    using memory = typename Device::memory;
    using network = typename Model::network;
    using numbers = decltype(Model::optimizer::template numbers<T>(std::declval<Options const&>()));
    static_assert(sizeof(numbers) <= cache_line && sizeof(staged_shard) <= cache_line);

    using context = stream_context<network, kernels, T>;
    using narrow = narrow_parameters<network, kernels, T>;

    /// Of each of the two streams with kernels: what the kernels ask for the layer that needs most, if they say.
    static constexpr std::size_t workspace_bytes() noexcept {
        if constexpr (requires { kernels::workspace_bytes(shape{}); }) {
            std::size_t most = 0;
            for (std::size_t row = 0; row < network::depth; ++row)
                most = std::max(most, kernels::workspace_bytes(network::row(row).description.parameters[0].shape));
            return most;
        } else {
            return Device::workspace_bytes;
        }
    }

    /// What is where in the memory of a rank, but for what its collectives need.
    static constexpr memory_map memory_of(parallel_layout const& l, std::size_t batch, int rank) {
        auto m = memory_of_model<Model>(l, rank);
        auto const samples = l.most_shard_samples(batch);
        staged_granule<Model> const granule{samples};
        m.activations.bytes = context::elements(context::plan(samples)) * sizeof(typename context::stored_type);
        m.narrow_parameters.bytes = narrow::bytes();
        m.workspace = {workspace_bytes(), 2};
        m.samples = {cache_line + l.shards_of_device(rank).size() * granule.bytes(), 2};
        m.losses.bytes = granule.loss_bytes();
        m.scores.bytes = round_up<bytes_t>(l.shards() * sizeof(sample_score), cache_line);
        return m;
    }

    /// `batch`: the most samples of a step that is staged at once.
    stream_replica(int device, parallel_layout const& l, int rank, std::size_t batch)
        : stream_replica(device, l, rank, l.most_shard_samples(batch), memory_of(l, batch, rank)) {}

    // ---- on the host: what the next step is about; the slot's last copy must be done ----

    void set_numbers(int slot, Options const& o) {
        auto const n = Model::optimizer::template numbers<T>(o);
        std::memcpy(pinned_[slot].data(), &n, sizeof n);
    }

    /// The samples of the granule in place `k` of a slot, and what they are, but for their number. Fewer than there is
    /// room for: the others weigh nothing.
    void set_samples(int slot, std::size_t k, labelled_images const& images, std::span<std::uint32_t const> indices,
                     T weight, staged_shard about = {}) {
        auto* const to = granule_at(pinned_[slot].data(), k);
        about.count = static_cast<std::uint32_t>(indices.size());
        std::memcpy(to, &about, sizeof about);
        auto* const labels = reinterpret_cast<int*>(to + granule_.labels());
        auto* const weights = reinterpret_cast<T*>(to + granule_.weights());
        for (std::size_t i = 0; i < indices.size(); ++i) {
            auto const image = images.image(indices[i]);
            labels[i] = images.label(indices[i]);
            std::memcpy(to + granule_.pixels() + i * granule_.values, image.data(), granule_.values);
        }
        std::fill_n(weights, indices.size(), weight);
        std::fill_n(weights + indices.size(), granule_.samples - indices.size(), T{0});
    }

    /// Hands over the copy of the slot's numbers and first granules, after its last use; `compute` waits for it.
    void enqueue_samples(int slot, std::size_t granules) {
        copies.wait(used[slot]);
        copies.copy(stages_[slot].data(), pinned_[slot].data(), cache_line + granules * granule_.bytes());
        copies.record(staged[slot]);
        compute.wait(staged[slot]);
    }

    // ---- on `compute` and `beside`: gradients ----

    // What is added to begins at zero: on `beside`, which adds to it, while `compute` is busy with forward.

    /// The parameters are others than in the last step.
    void begin_step() {
        if constexpr (narrow::exist) narrow::copy(kernels_on(compute, 0), parameters(), narrow_copy());
        follow();
        beside.zero(scores_.data(), scores_.bytes());
        tree_ = {};
    }

    void begin_shard() {
        follow();
        beside.zero(gradient_slot(tree_.depth()), arena_bytes);
        if constexpr (network::whole_shard) join(); // what such layers agree on is added on `compute`
    }

    /// Forward, loss and backward of the granule in place `k` of a slot, which belongs to this rank's `shard`-th shard.
    /// `after(row)` is called when the gradients of a row have been handed over, from the last row to the first.
    template<class After = nothing_beside>
    void enqueue_granule(int slot, std::size_t k, std::size_t shard, After&& after = {}) {
        auto* const stage = granule_at(stages_[slot].data(), k);
        context const mine = context_of(stage, gradient_slot(tree_.depth()));
        ranks_of_process<context> const alone{{&mine, 1}};
        enqueue_pixels(mine, stage);
        stage_pass(alone).forward();
        enqueue_loss(mine, stage, shard);
        stage_pass(alone).backward(nothing_beside{}, after);
    }

    /// The same of the first granules of several ranks, row by row, for layers that exchange numbers: see stage_pass
    /// for `exchange(i)`. `team` has room for all ranks.
    template<class Ranks, class Exchange>
    static void enqueue_granules(Ranks const& ranks, std::vector<context>& team, int slot, Exchange&& exchange) {
        auto const stage_of = [slot](auto const& r) { return r->granule_at(r->stages_[slot].data(), 0); };
        team.clear();
        for (auto const& r : ranks) {
            team.push_back(r->context_of(stage_of(r), r->gradient_slot(r->tree_.depth())));
            r->enqueue_pixels(team.back(), stage_of(r));
        }
        ranks_of_process<context> const all{team};
        stage_pass(all).forward(nothing_beside{}, nothing_beside{}, exchange);
        for (std::size_t i = 0; i < team.size(); ++i) ranks[i]->enqueue_loss(team[i], stage_of(ranks[i]), 0);
        stage_pass(all).backward(nothing_beside{}, nothing_beside{}, exchange);
    }
    /// Where layers keep what they add over all devices.
    T* kept() const noexcept { return reinterpret_cast<T*>(values() + places_.elements); }

    /// What follows on `beside` comes after what `compute` has; and the other way round.
    void follow() {
        compute.record(ready_);
        beside.wait(ready_);
    }
    void join() {
        beside.record(joined_);
        compute.wait(joined_);
    }

    /// Adds the shard's gradients to those before it, as the fixed tree of the shards says.
    void end_shard(std::size_t shard) {
        auto const at = shards_.begin + shard;
        tree_.push({at, at + 1}, [this](std::size_t i, std::size_t j) { merge(i, j); });
    }
    /// The same for what is left, where no other rank has a part of the tree.
    void end_shards() {
        tree_.finish([this](std::size_t i, std::size_t j) { merge(i, j); });
    }

    void enqueue_update(int slot) {
        auto const k = kernels_on(compute, 0);
        Model::optimizer::update(k, parameters(), gradient_slot(0), static_cast<T*>(state_.data()), Model::first_buffer,
                                 reinterpret_cast<numbers const*>(stages_[slot].data()));
        if constexpr (network::buffers != 0)
            update_running(k, parameters() + Model::first_buffer,
                           static_cast<T const*>(gradient_slot(0) + Model::first_buffer),
                           static_cast<T>(statistics_momentum), network::buffers);
    }

    // ---- on `compute`: scores ----

    /// Losses and right answers of the granule in place `k` of a slot; no gradient.
    void enqueue_evaluation(int slot, std::size_t k, std::size_t shard) {
        auto* const stage = granule_at(stages_[slot].data(), k);
        context const mine = context_of(stage, nullptr);
        ranks_of_process<context> const alone{{&mine, 1}};
        auto* const correct = reinterpret_cast<int*>(static_cast<std::byte*>(losses_.data()) + granule_.correct());
        enqueue_pixels(mine, stage);
        stage_pass(alone).evaluate();
        Model::loss::template evaluate<typename Model::output, 1>(
            mine.kernels(), static_cast<stored_type const*>(mine.value(network::depth)),
            reinterpret_cast<int const*>(stage + granule_.labels()), losses(), correct);
        add_scores(mine.kernels(), losses(), static_cast<int const*>(correct), &mine.kernels().shard()->count,
                   score_of(shard));
    }

    void enqueue_results(int slot, stream& on) { on.copy(results_[slot].data(), scores_.data(), scores_.bytes()); }

    /// Of all shards; those of other ranks are zero unless the transport has shared them.
    std::span<sample_score const> results(int slot) const noexcept {
        return {static_cast<sample_score const*>(results_[slot].data()), all_shards_};
    }
    std::uint64_t* score_words() const noexcept { return static_cast<std::uint64_t*>(scores_.data()); }

    // ---- weights ----

    /// Memory of the host as large as parameters and buffers, and the copies between the two, on `compute`.
    T* mirror() const noexcept { return static_cast<T*>(mirror_.data()); }
    void enqueue_store() { compute.copy(mirror(), parameters_.data(), arena_bytes); }
    void enqueue_load() { compute.copy(parameters_.data(), mirror(), arena_bytes); }
    void enqueue_clear() { compute.zero(state_.data(), state_.bytes()); }

    T* gradients() const noexcept { return gradient_slot(0); }
    range shards() const noexcept { return shards_; }
    std::size_t samples() const noexcept { return granule_.samples; }
    std::vector<std::string> notes() const { return libraries_.notes(); }

    stream compute, exchange, copies, beside;
    event staged[2]; ///< the slot's samples are there
    event used[2];   ///< and `compute` has done with them
    event scored;    ///< the losses of a step are there

private:
    using stored_type = typename context::stored_type;
    using pinned = typename Device::pinned_memory;
    static constexpr std::size_t arena_bytes = Model::arena_elements * sizeof(T);
    static constexpr T pixel_scale = T{1} / T{255};

    stream_replica(int device, parallel_layout const& l, int rank, std::size_t samples, memory_map const& map)
        : compute(device), exchange(device), copies(device), beside(device), staged{event(device), event(device)},
          used{event(device), event(device)}, scored(device), granule_{samples}, shards_(l.shards_of_device(rank)),
          all_shards_(l.shards()), libraries_(device), parameters_(device, map.parameters.total(), "parameters"),
          gradients_(device, map.gradients.total(), "gradients"),
          state_(device, map.optimizer_state.total(), "optimizer's state"),
          activations_(device, map.activations.total(), "activations"),
          narrow_(device, map.narrow_parameters.total(), "parameters in bf16"),
          losses_(device, map.losses.total(), "losses"), scores_(device, map.scores.total(), "losses of the shards"),
          stages_{memory(device, map.samples.bytes, "samples"), memory(device, map.samples.bytes, "samples")},
          scratch_{memory(device, map.workspace.bytes, "workspace"), memory(device, map.workspace.bytes, "workspace")},
          pinned_{pinned(map.samples.bytes), pinned(map.samples.bytes)},
          results_{pinned(map.scores.bytes), pinned(map.scores.bytes)}, mirror_(arena_bytes),
          places_(context::plan(samples)), ready_(device), joined_(device) {}

    std::byte* granule_at(void* stage, std::size_t k) const noexcept {
        return static_cast<std::byte*>(stage) + cache_line + k * granule_.bytes();
    }

    /// `stage`: the granule to work on.
    kernels kernels_on(stream& s, int scratch, std::byte const* stage = nullptr) {
        kernels k(s, granule_.samples, workspace{scratch_[scratch].data(), scratch_[scratch].bytes()}, libraries_);
        k.set_shard(reinterpret_cast<staged_shard const*>(stage));
        return k;
    }
    /// The granule to work on, and where its gradients and statistics are added.
    context context_of(std::byte* stage, T* gradients) {
        return {places_,
                values(),
                {parameters(), gradients, parameters() + Model::first_buffer,
                 gradients == nullptr ? nullptr : gradients + Model::first_buffer},
                kernels_on(compute, 0, stage),
                kernels_on(beside, 1, stage),
                ready_,
                narrow_copy()};
    }
    stored_type* values() const noexcept { return static_cast<stored_type*>(activations_.data()); }
    stored_type* narrow_copy() const noexcept { return static_cast<stored_type*>(narrow_.data()); }
    T* parameters() const noexcept { return static_cast<T*>(parameters_.data()); }
    T* gradient_slot(std::size_t i) const noexcept {
        return static_cast<T*>(gradients_.data()) + i * Model::arena_elements;
    }
    T* losses() const noexcept { return static_cast<T*>(losses_.data()); }
    sample_score* score_of(std::size_t shard) const noexcept {
        return static_cast<sample_score*>(scores_.data()) + shards_.begin + shard;
    }

    void enqueue_loss(context const& c, std::byte* stage, std::size_t shard) {
        Model::loss::template gradient<typename Model::output, 1>(
            c.kernels(), static_cast<stored_type const*>(c.value(network::depth)),
            reinterpret_cast<int const*>(stage + granule_.labels()),
            reinterpret_cast<T const*>(stage + granule_.weights()), c.gradient(network::depth), losses());
        follow();
        add_scores(c.beside(), losses(), static_cast<int const*>(nullptr), &c.beside().shard()->count, score_of(shard));
        beside.record(scored);
    }
    void enqueue_pixels(context const& c, std::byte const* stage) {
        convert_pixels(c.kernels(), reinterpret_cast<std::uint8_t const*>(stage + granule_.pixels()), pixel_scale,
                       c.value(0), granule_.values, narrow::input_order(granule_.samples));
    }
    void merge(std::size_t i, std::size_t j) {
        add_into(kernels_on(compute, 0), gradient_slot(i), static_cast<T const*>(gradient_slot(j)),
                 Model::arena_elements);
    }

    staged_granule<Model> granule_;
    range shards_;
    std::size_t all_shards_;
    typename Device::libraries libraries_;
    memory parameters_, gradients_, state_, activations_, narrow_, losses_, scores_;
    memory stages_[2], scratch_[2];
    pinned pinned_[2], results_[2], mirror_;
    typename context::plan_type places_;
    event ready_, joined_;
    fixed_tree::stack tree_;
};

} // namespace trireme
