// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/data/sample_source.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/clock.hpp>
#include <trireme/kernels/blocks/gradient_norm.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/samples.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/parallel/step.hpp>
#include <trireme/parallel/ties.hpp>
#include <trireme/parallel/update_runs.hpp>
#include <trireme/trainer/staged_granule.hpp>
#include <trireme/trainer/stream_mirror.hpp>
#include <trireme/trainer/stream_places.hpp>
#include <trireme/trainer/stream_stage.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

namespace detail {

/// Reference to a function of the number of a row, or of an exchange. The function outlives the call that gets it.
class row_hook {
public:
    template<class F>
    row_hook(F const& f) noexcept
        : function_(&f), call_([](void const* to, std::size_t i) { (*static_cast<F const*>(to))(i); }) {}
    void operator()(std::size_t i) const { call_(function_, i); }

private:
    void const* function_;
    void (*call_)(void const*, std::size_t);
};

} // namespace detail

/// One rank on an accelerator: its memory, its streams, and the work that each kind of task is, with what it reads and
/// writes. Nothing here waits, and nothing orders: see stream_executor. stream_rank_of adds the work that depends on
/// the types of a model, in virtual functions: they are called when work is handed over, not while a graph of it runs.
///
/// Four streams: `compute` for the line from samples to gradients, `beside` for the gradients by the parameters, unless
/// their kernels are large (gradients_beside), `copies` for samples on their way in, `exchange` for what goes between
/// ranks. Samples are staged in two slots, which take turns.
template<class Value, accelerator Device>
class stream_rank : public detail::stream_places<Value> {
    using places = detail::stream_places<Value>;
    using places::slot_now;

public:
    using T = Value;
    using stream = typename Device::stream;
    using event = typename Device::event;
    using memory = typename Device::memory;
    using stage = detail::stream_stage<T>;
    using row_hook = detail::row_hook;
    using places::own;
    static_assert(sizeof(staged_shard) <= cache_line);

    /// A task of a rank, and the place of its samples in a slot.
    struct placed_task {
        stream_rank* rank;
        step_task const* task;
        int slot;
        std::size_t granule;
    };
    /// Tasks of one kind, of several ranks that go through the rows together: see ranks_of_process.
    using team = std::span<placed_task const>;

    stream_rank(stream_rank const&) = delete;
    stream_rank& operator=(stream_rank const&) = delete;
    virtual ~stream_rank() {} // not defaulted: see host_executor

    // ---- the work that depends on the model's types; the order is the caller's ----

    /// Gives the rank's next work the task's samples.
    virtual void begin_task(placed_task const&) = 0;
    /// Hands over the conversion of a first stage's inputs.
    virtual void enqueue_input(placed_task const&) = 0;
    // The ways of a team, whose first rank this is, through rows, as stage_pass has them; the loss is one row more.
    virtual void forward(team, range rows, row_hook exchanging) = 0;
    virtual void backward(team, range rows, bool adds, row_hook between, row_hook exchanging) = 0;
    virtual void backward_weights(team, range rows) = 0;
    virtual void evaluate(team, range rows) = 0;
    /// Adds the losses of a granule that has come through a last stage, and outside of training its right answers.
    virtual void enqueue_score(std::size_t shard, bool trains) = 0;
    /// Hands over the copy of the outputs of the granule in place `k`, in an evaluation without targets; there is room
    /// after make_room_for_outputs.
    virtual void enqueue_outputs(std::size_t k) = 0;
    /// Reads the output of the granule's i-th sample, once it is there.
    virtual void read_output(std::size_t k, std::size_t i, T* to) const = 0;
    virtual void enqueue_narrow_copy() = 0;
    virtual void enqueue_update(int slot) = 0;

    // ---- on the host: what the next step is about; the slot's last copy must be done ----

    /// Numbers of an update, those for parameters that do not decay, and the most norm, to be written.
    std::byte* settings(int slot) noexcept { return static_cast<std::byte*>(pinned_[slot].data()); }

    /// The samples of the granule in place `k` of a slot, and what they are, but for their number and kind. Fewer than
    /// there is room for: the others weigh nothing.
    void set_samples(int slot, std::size_t k, sample_set const& samples, std::span<std::uint32_t const> indices,
                     T weight, staged_shard const& about = {}) {
        copied_[slot] = granule_.fill(granule_at(pinned_[slot].data(), k), samples, indices, weight, about);
    }

    /// Hands over the copy of the slot's numbers and first granules, after its last use; `compute` waits for it.
    void enqueue_samples(int slot, std::size_t granules) {
        copies.wait(used[slot]);
        auto const copy = [&](std::size_t begin, std::size_t end) {
            copies.copy(static_cast<std::byte*>(stages_[slot].data()) + begin,
                        static_cast<std::byte const*>(pinned_[slot].data()) + begin, end - begin);
        };
        std::size_t begin = 0; // of a stretch without gaps
        for (std::size_t k = 0; k < granules; ++k) {
            auto const first = facts_.settings_bytes + k * granule_.bytes();
            if (copied_[slot] == granule_.bytes() && k + 1 < granules) continue;
            copy(begin, first + copied_[slot]);
            begin = first + granule_.bytes();
        }
        copies.record(staged[slot]);
        compute.wait(staged[slot]);
    }

    // ---- the times of tasks ----

    /// Keeps the times of so many tasks of a step, and exchanges inside of them, from now on.
    void trace(std::size_t tasks) {
        for (auto& t : stamps_) t = pinned(2 * tasks * sizeof(std::uint64_t));
    }
    bool is_traced() const noexcept { return stamps_[0].data() != nullptr; }
    /// Hands over the noting of the time: the k-th task of the step in a slot begins, or ends.
    void stamp(int slot, std::size_t k, bool end, stream& on) {
        stamp_time(on, static_cast<std::uint64_t*>(stamps_[slot].data()) + 2 * k + (end ? 1 : 0));
    }
    /// Nanoseconds, of each task's begin and end.
    std::uint64_t const* times(int slot) const noexcept {
        return static_cast<std::uint64_t const*>(stamps_[slot].data());
    }

    std::vector<stream*> streams() { return {&compute, &beside, &exchange}; }

    // ---- the work of tasks; the order is the caller's ----

    void begin_step() noexcept {
        for (auto& s : own_) s.tree = {}, s.adds = false;
    }
    /// True before the first gradients of a stage in a step.
    bool begins_gradients(int chunk) noexcept {
        return !std::exchange(own_[static_cast<std::size_t>(chunk)].adds, true);
    }
    void clear_scores() { adding().zero(scores_.data(), all_shards_ * sizeof(sample_score)); }
    /// The terms of rows that add to the loss lie behind the scores.
    void clear_terms() { compute.zero(term_of(0, 0), facts_.loss_terms * all_shards_ * sizeof(sample_score)); }
    void clear_gradients(int chunk) { adding().zero(gradients(own(chunk)), own(chunk).numbers.elements * sizeof(T)); }

    /// Takes memory of the host for the outputs of so many granules, once.
    void make_room_for_outputs(std::size_t granules) {
        if (outputs_.data() == nullptr) outputs_ = pinned(granules * output_bytes());
    }
    /// Statistics that wait in a frame for backward begin at zero.
    void clear_waiting(step_task const& t) {
        auto const buffers = own(t.chunk).numbers.buffers;
        if (t.kind == task_kind::forward && buffers != 0) compute.zero(waiting(t), buffers * sizeof(T));
    }
    /// Adds the numbers that earlier tasks have left in a frame to those where the gradients are: forward's statistics,
    /// and gradients of layers that agree on something, which begin at zero in the first half of backward.
    void enqueue_waiting(step_task const& t) {
        auto const& s = own(t.chunk);
        auto const add = [&](std::size_t to, T const* from, std::size_t count) {
            add_into(plain_kernels(), gradients(s) + to, from, count);
        };
        if (gives_weights(t.kind) && t.kind != task_kind::train && s.numbers.buffers != 0)
            add(s.numbers.buffers_lie, waiting(t), s.numbers.buffers);
        if (t.kind != task_kind::backward_input && t.kind != task_kind::backward_weights) return;
        for (auto const& g : s.agreed)
            if (t.kind == task_kind::backward_input)
                compute.zero(agreed(t) + g.from, g.count * sizeof(T));
            else
                add(g.to, agreed(t) + g.from, g.count);
    }

    /// Adds a shard's gradients to those before it, as the fixed tree of the shards says.
    void end_shard(int chunk, std::size_t shard) {
        auto const at = shards_.begin + shard;
        auto& s = own_[static_cast<std::size_t>(chunk)];
        s.tree.push({at, at + 1}, [&](std::size_t i, std::size_t j) { merge(s, i, j); });
    }
    /// Adds what is left, where no other rank has a part of the tree.
    void end_shards() {
        for (auto& s : own_) s.tree.finish([&](std::size_t i, std::size_t j) { merge(s, i, j); });
    }

    void enqueue_squares() {
        for (auto const& s : own_)
            sums_of_squares(plain_kernels(), static_cast<T const*>(gradient_slot(s, 0)), runs() + s.runs_lie,
                            s.pieces.size(), squares() + s.pieces.begin);
    }
    void enqueue_norm(int slot) {
        auto const* const most = reinterpret_cast<double const*>(static_cast<std::byte const*>(stages_[slot].data()) +
                                                                 facts_.settings_bytes - sizeof(double));
        norm_of_squares(plain_kernels(), squares(), facts_.pieces, most, measured());
    }
    void enqueue_norm_result(int slot) { exchange.copy(norms_[slot].data(), measured(), sizeof(measured_norm)); }
    /// Of the step in a slot, once its results are there.
    double gradient_norm(int slot) const noexcept {
        return facts_.clips ? static_cast<measured_norm const*>(norms_[slot].data())->norm
                            : std::numeric_limits<double>::quiet_NaN();
    }

    /// Of all pieces of the gradients; this rank computes those of its own.
    double* squares() const noexcept { return static_cast<double*>(squares_.data()); }
    /// Memory for the gradient of a tied row that another rank has.
    T* tied() const noexcept { return static_cast<T*>(tied_.data()); }

    void enqueue_results(int slot) { exchange.copy(results_[slot].data(), scores_.data(), scores_.bytes()); }

    /// Of all shards, and behind them, for each row that adds to the loss, its terms; those of other ranks are zero
    /// unless the transport shares them.
    std::span<sample_score const> results(int slot) const noexcept {
        return {static_cast<sample_score const*>(results_[slot].data()), score_count()};
    }
    std::uint64_t* score_words() const noexcept { return static_cast<std::uint64_t*>(scores_.data()); }
    std::size_t score_count() const noexcept { return (1 + facts_.loss_terms) * all_shards_; }
    bool has_results() const noexcept { return has_last() || facts_.loss_terms != 0; }

    // ---- weights ----

    /// The copies between its memory and the host's, on `compute`.
    void enqueue_store(bool optimizer) { mirror.enqueue_store(compute, parameters_, state_, optimizer); }
    void enqueue_load(bool optimizer) { mirror.enqueue_load(compute, parameters_, state_, optimizer); }
    void enqueue_clear() { compute.zero(state_.data(), state_.bytes()); }

    T* weights(stage const& s) const noexcept { return static_cast<T*>(parameters_.data()) + s.lies.weights; }
    T* gradient_slot(stage const& s, std::size_t i) const noexcept {
        return static_cast<T*>(gradients_.data()) + s.lies.gradients + i * s.numbers.elements;
    }
    /// The numbers that layers keep, and add over all devices.
    T* kept() const noexcept { return reinterpret_cast<T*>(values() + own_[0].blocks.kept); }
    std::byte* values() const noexcept { return static_cast<std::byte*>(activations_.data()); }
    /// Kernels on `compute` that need no samples, and no library.
    block_kernels<stream> plain_kernels() noexcept { return {compute, 0, {}}; }
    range shards() const noexcept { return shards_; }
    std::size_t samples() const noexcept { return granule_.samples; }
    bool has_last() const noexcept { return granule_.last; }
    std::vector<std::string> notes() const { return libraries_.notes(); }

    int const number; ///< the rank
    stream compute, exchange, copies, beside;
    event staged[2]; ///< the slot's samples are there
    event used[2];   ///< and `compute` has done with them
    stream_mirror<T, Device> mirror;

protected:
    using places::facts_, places::own_;
    using pinned = typename Device::pinned_memory;

    stream_rank(detail::stream_facts const& facts, std::vector<stage> stages, int device, parallel_layout const& l,
                int rank, std::size_t samples, memory_map const& map)
        : places(facts, std::move(stages), std::max<std::size_t>(map.gradients.parts, 1), l.reproducible()),
          number(rank), compute(device), exchange(device), copies(device), beside(device),
          staged{event(device), event(device)}, used{event(device), event(device)},
          mirror(map.parameters.total(), facts.counts_updates), granule_(facts, l, samples, rank), updates_(l.updates),
          shards_(l.shards_of_device(rank)), all_shards_(l.shards()), libraries_(device),
          parameters_(device, map.parameters.total(), "parameters"),
          gradients_(device, map.gradients.total(), "gradients"),
          state_(device, map.optimizer_state.total() + map.updates.total(), "optimizer's state"),
          activations_(device, map.activations.total(), "activations"),
          narrow_(device, map.narrow_parameters.total(), "parameters in bf16"),
          losses_(device, map.losses.total(), "losses"), scores_(device, map.scores.total(), "losses of the shards"),
          stages_{memory(device, map.samples.bytes, "samples"), memory(device, map.samples.bytes, "samples")},
          scratch_{memory(device, map.workspace.bytes, "workspace"),
                   memory(device, map.workspace.parts == 2 ? map.workspace.bytes : 0, "workspace")},
          pinned_{pinned(map.samples.bytes), pinned(map.samples.bytes)},
          results_{pinned(map.scores.bytes), pinned(map.scores.bytes)},
          squares_(device, map.squares.bytes, "squares of the gradients"),
          tied_(device, map.tied.bytes, "tied gradients"), norms_{pinned(norm_bytes()), pinned(norm_bytes())},
          runs_((own_.back().runs_lie + own_.back().pieces.size()) * sizeof(gradient_run)) {}

    std::size_t norm_bytes() const noexcept { return facts_.clips ? sizeof(measured_norm) : 0; }
    std::size_t output_bytes() const noexcept { return granule_.samples * facts_.outputs * facts_.stored_bytes; }
    void* outputs_of(std::size_t k) const noexcept {
        return static_cast<std::byte*>(outputs_.data()) + k * output_bytes();
    }
    measured_norm* measured() const noexcept { return reinterpret_cast<measured_norm*>(squares() + facts_.pieces); }
    gradient_run* runs() const noexcept { return reinterpret_cast<gradient_run*>(measured() + 1); }

    stream& adding() noexcept { return facts_.adds_beside ? beside : compute; }
    std::byte* granule_at(void* staged_samples, std::size_t k) const noexcept {
        return static_cast<std::byte*>(staged_samples) + facts_.settings_bytes + k * granule_.bytes();
    }

    T* waiting(step_task const& t) const noexcept {
        auto const& of = own(t.chunk).blocks;
        return reinterpret_cast<T*>(values() + t.frame * of.frame + of.statistics);
    }
    T* agreed(step_task const& t) const noexcept {
        auto const& of = own(t.chunk).blocks;
        return reinterpret_cast<T*>(values() + t.frame * of.frame + of.agreed);
    }
    T* losses() const noexcept { return static_cast<T*>(losses_.data()); }
    /// Null where outputs are not right or wrong.
    int* correct() const noexcept {
        if (!facts_.answers) return nullptr;
        return reinterpret_cast<int*>(static_cast<std::byte*>(losses_.data()) + granule_.correct());
    }
    sample_score* score_of(std::size_t shard) const noexcept {
        return static_cast<sample_score*>(scores_.data()) + shards_.begin + shard;
    }
    sample_score* term_of(std::size_t term, std::size_t shard) const noexcept {
        return static_cast<sample_score*>(scores_.data()) + (1 + term) * all_shards_ + shard;
    }

    T* gradients(stage const& s) const noexcept { return gradient_slot(s, slot_now(s)); }
    void merge(stage const& s, std::size_t i, std::size_t j) {
        add_into(plain_kernels(), gradient_slot(s, i), static_cast<T const*>(gradient_slot(s, j)), s.numbers.elements);
    }

    detail::staged_granule<T> granule_;
    std::span<update_run const> updates_;
    range shards_;
    std::size_t all_shards_;
    typename Device::libraries libraries_;
    memory parameters_, gradients_, state_, activations_, narrow_, losses_, scores_;
    memory stages_[2], scratch_[2];
    pinned pinned_[2], results_[2], stamps_[2], outputs_;
    std::size_t copied_[2] = {}; ///< bytes of each granule in a slot
    memory squares_, tied_;
    pinned norms_[2], runs_;
};

/// A model to executors, which know none of its types: values, and the functions that make its ranks and tell what
/// these move.
template<class T, accelerator Device>
struct stream_model : detail::stream_facts {
    /// The bytes that cross the boundary before a row with a micro-batch of so many samples.
    crossing_bytes (*across)(std::size_t row, std::size_t samples);
    std::vector<detail::tied_pair> (*ties)(parallel_layout const&);
    /// Pieces of a stage's gradients that are measured one by one.
    range (*pieces)(parallel_layout const&, int stage);
    /// The traffic of a rank that takes squares of gradients, and numbers of tied rows, from its replica.
    traffic (*met_for)(parallel_layout const&, int rank);
    std::unique_ptr<stream_rank<T, Device>> (*make_rank)(int device, parallel_layout const&, int rank,
                                                         std::size_t batch);
};

} // namespace trireme
