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
#include <trireme/parallel/gradient_norm.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/parallel/ties.hpp>
#include <trireme/trainer/composition.hpp>
#include <trireme/trainer/predictions.hpp>
#include <trireme/trainer/staged_granule.hpp>
#include <trireme/trainer/stream_context.hpp>
#include <trireme/trainer/stream_mirror.hpp>
#include <trireme/trainer/stream_places.hpp>
#include <trireme/trainer/stream_stage.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace trireme {

/// One rank on an accelerator: its memory, its streams, and the work that each kind of task is, with what it reads and
/// writes. Nothing here waits, and nothing orders: see stream_executor.
///
/// Four streams: `compute` for the line from samples to gradients, `beside` for the gradients by the parameters, unless
/// their kernels are large (gradients_beside),
/// `copies` for samples on their way in, `exchange` for what goes between ranks. Samples are staged in two slots, which
/// take turns.
template<class Model, accelerator Device, class Options>
class stream_rank : public detail::stream_places<Model, detail::stage_on_streams<Model>> {
    using places = detail::stream_places<Model, detail::stage_on_streams<Model>>;
    using places::own_, places::slot_now, places::adds_beside;

public:
    using T = typename Model::value_type;
    using kernels = typename Model::kernels;
    using stream = typename Device::stream;
    using event = typename Device::event;
    using memory = typename Device::memory;
    using network = typename Model::network;
    using numbers = decltype(Model::optimizer::template numbers<T>(std::declval<Options const&>()));
    /// Of a step, before its samples: the numbers of an update, those for parameters that do not decay, the most norm.
    static constexpr std::size_t settings_bytes =
        round_up<std::size_t>(2 * sizeof(numbers) + (Model::clips ? sizeof(double) : 0), cache_line);
    static constexpr std::size_t most_norm_lies = settings_bytes - sizeof(double);
    static_assert(sizeof(staged_shard) <= cache_line);

    using context = stream_context<network, kernels, T, typename Model::loss>;
    using narrow = narrow_parameters<network, kernels, T>;
    using stage = detail::stage_on_streams<Model>;
    using places::own;
    using stored_type = typename context::stored_type;

    /// Of each of the two streams with kernels: what the kernels ask for the layer that needs most, if they say.
    static constexpr std::size_t workspace_bytes() noexcept {
        if constexpr (requires { kernels::workspace_bytes(shape{}, shape{}, sizeof(stored_type)); }) {
            std::size_t most = 0;
            for (std::size_t row = 0; row < network::depth; ++row) {
                auto const& d = network::row(row).description;
                most = std::max(most, kernels::workspace_bytes(d.parameters[0].shape, d.output, sizeof(stored_type)));
            }
            return most;
        } else {
            return Device::workspace_bytes;
        }
    }

    /// Granules that are staged at once: all micro-batches of a step; of an evaluation in stages, two.
    static constexpr std::size_t granules(parallel_layout const& l, int rank) noexcept {
        return std::max<std::size_t>(l.shards_of_device(rank).size(), l.stages == 1 ? 1 : 2);
    }

    /// The map of a rank's memory, but for what its collectives need.
    static constexpr memory_map memory_of(parallel_layout const& l, std::size_t batch, int rank) {
        auto m = memory_of_model<Model>(l, rank);
        auto const samples = l.most_shard_samples(batch);
        detail::staged_granule<Model> const granule(l, samples, rank);
        m.activations.bytes = stage_activations<Model, context>(l, samples, rank).elements() * sizeof(stored_type);
        std::size_t pieces = 0;
        for (int chunk = 0; chunk < l.chunks(); ++chunk) {
            auto const rows = l.rows_of(l.stage_of(rank, chunk), network::depth);
            m.narrow_parameters.bytes += narrow::bytes(rows);
            pieces += gradient_pieces<network>(rows).size();
        }
        m.workspace = {workspace_bytes(), adds_beside ? 2 : 1};
        m.samples = {settings_bytes + granules(l, rank) * granule.bytes(), 2};
        m.losses.bytes = granule.loss_bytes();
        m.squares.bytes = squares_bytes(pieces);
        detail::for_each_tied<network>(l, [&](detail::tied_pair const& p) {
            if (Model::trains && p.is_apart() && p.owner_role == l.role_of(rank))
                m.tied.bytes = std::max<bytes_t>(m.tied.bytes, p.elements() * sizeof(T));
        });
        if (granule.last || network::loss_terms != 0)
            m.scores.bytes =
                round_up<bytes_t>((1 + network::loss_terms) * l.shards() * sizeof(sample_score), cache_line);
        return m;
    }

    /// `batch`: the most samples of a step that is staged at once.
    stream_rank(int device, parallel_layout const& l, int rank, std::size_t batch)
        : stream_rank(device, l, rank, l.most_shard_samples(batch), memory_of(l, batch, rank)) {}

    // ---- on the host: what the next step is about; the slot's last copy must be done ----

    void set_numbers(int slot, Options const& o) {
        numbers const both[] = {Model::optimizer::template numbers<T>(o),
                                Model::optimizer::template numbers<T>(detail::without_weight_decay(o))};
        std::memcpy(pinned_[slot].data(), both, sizeof both);
        if constexpr (Model::clips) {
            auto const most = static_cast<double>(o.max_norm.value);
            std::memcpy(static_cast<std::byte*>(pinned_[slot].data()) + most_norm_lies, &most, sizeof most);
        }
    }

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
            auto const first = settings_bytes + k * granule_.bytes();
            if (copied_[slot] == granule_.bytes() && k + 1 < granules) continue;
            copy(begin, first + copied_[slot]);
            begin = first + granule_.bytes();
        }
        copies.record(staged[slot]);
        compute.wait(staged[slot]);
    }

    // ---- the times of tasks ----

    /// Keeps the times of so many tasks of a step from now on.
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

    /// `granule`: what to work on.
    kernels kernels_on(stream& s, int scratch, std::byte const* granule = nullptr) {
        kernels k(s, granule_.samples, workspace{scratch_[scratch].data(), scratch_[scratch].bytes()}, libraries_);
        k.set_shard(reinterpret_cast<staged_shard const*>(granule));
        return k;
    }
    void begin_step() noexcept {
        for (auto& s : own_) s.tree = {};
    }
    void enqueue_narrow_copy() {
        for (auto const& s : own_)
            narrow::copy(kernels_on(compute, 0), s.numbers.rows, s.numbers_in(weights(s), nullptr), narrow_copy(s));
    }
    void clear_scores() { adding().zero(scores_.data(), all_shards_ * sizeof(sample_score)); }
    /// The terms of rows that add to the loss lie behind the scores.
    void clear_terms() { compute.zero(term_of(0, 0), network::loss_terms * all_shards_ * sizeof(sample_score)); }
    void clear_gradients(int chunk) { adding().zero(gradients(own(chunk)), own(chunk).numbers.elements * sizeof(T)); }

    /// The context of the granule in place `k` of a slot.
    context context_of(int slot, std::size_t k, step_task const& t) {
        auto* const granule = granule_at(stages_[slot].data(), k);
        auto const& s = own(t.chunk);
        auto n = s.numbers_in(weights(s), gradients(s));
        if (t.kind == task_kind::forward) n.statistics = waiting(t);
        if (t.kind == task_kind::backward_input) {
            n.agreed = agreed(t);
            n.first_agreed = network::row(s.numbers.rows.begin).first_agreed;
        }
        bool const in_order = !adds_beside || t.kind == task_kind::backward_weights; // nothing goes on beside it
        bool const evaluates = t.kind == task_kind::evaluate;
        if (evaluates) n.gradients = n.statistics = nullptr;
        using target = typename Model::target;
        typename context::losses_type of_loss{{reinterpret_cast<target*>(granule + granule_.targets()),
                                               reinterpret_cast<T const*>(granule + granule_.weights()), losses(),
                                               correct()}};
        if constexpr (network::loss_terms != 0) {
            of_loss.terms = reinterpret_cast<T*>(static_cast<std::byte*>(losses_.data()) + granule_.terms());
            of_loss.sums = term_of(0, shards_.begin + t.micro_batch);
            of_loss.between_sums = all_shards_;
        }
        return {s.blocks.plan,
                s.blocks.memory(values(), t.frame, t.slot),
                n,
                kernels_on(compute, 0, granule),
                in_order ? kernels_on(compute, 0, granule) : kernels_on(beside, 1, granule),
                ready_,
                s.numbers.rows,
                narrow_copy(s),
                of_loss};
    }

    /// The inputs of a first stage; and statistics that wait in a frame for backward begin at zero.
    void enqueue_input(context const& c, int slot, std::size_t k, step_task const& t) {
        auto const& s = own(t.chunk);
        if (t.kind == task_kind::forward && s.numbers.buffers != 0)
            compute.zero(waiting(t), s.numbers.buffers * sizeof(T));
        if (!s.first()) return;
        auto const* const from = granule_at(stages_[slot].data(), k) + granule_.inputs();
        if constexpr (network::row(0).description.vocabulary != 0)
            convert_tokens<T>(c.kernels(), c.kernels().shard(), from, c.value(0), granule_.values);
        else
            convert_inputs<T>(c.kernels(), c.kernels().shard(), from, c.value(0), granule_.values,
                              narrow::input_order(granule_.samples));
    }
    /// Adds the losses of a granule that has come through a last stage, and outside of training its right answers.
    void enqueue_score(kernels const& k, std::size_t shard, bool trains) {
        add_scores(k, losses(), trains ? nullptr : correct(), &k.shard()->count, score_of(shard));
    }
    /// Outputs of the granule in place `k`, of an evaluation without targets; there is room after
    /// make_room_for_outputs.
    void make_room_for_outputs(std::size_t granules) {
        if (outputs_.data() == nullptr) outputs_ = pinned(granules * output_bytes());
    }
    void enqueue_outputs(context const& c, std::size_t k) {
        compute.copy(static_cast<std::byte*>(outputs_.data()) + k * output_bytes(), c.value(network::depth),
                     output_bytes());
    }
    /// The output of the granule's i-th sample, once it is there.
    void read_output(std::size_t k, std::size_t i, T* to) const {
        using out = typename network::output_extents;
        auto const* const first =
            reinterpret_cast<stored_type const*>(static_cast<std::byte const*>(outputs_.data()) + k * output_bytes());
        detail::copy_output<out>(first + i * out::size, 1, narrow::images_last, to);
    }
    /// Adds the numbers that earlier tasks have left in a frame to those where the gradients are: forward's statistics,
    /// and gradients of layers that agree on something, which begin at zero in the first half of backward.
    void enqueue_waiting(context const& c, step_task const& t) {
        auto const& s = own(t.chunk);
        auto const add = [&](std::size_t to, T const* from, std::size_t count) {
            add_into(c.kernels(), gradients(s) + to, from, count);
        };
        if (gives_weights(t.kind) && t.kind != task_kind::train && s.numbers.buffers != 0)
            add(s.numbers.buffers_lie, waiting(t), s.numbers.buffers);
        if (t.kind != task_kind::backward_input && t.kind != task_kind::backward_weights) return;
        detail::for_each_agreed<network>(s.numbers.rows, [&](std::size_t from, std::size_t to, std::size_t count) {
            if (t.kind == task_kind::backward_input)
                compute.zero(agreed(t) + from, count * sizeof(T));
            else
                add(to, agreed(t) + from, count);
        });
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
            sums_of_squares(kernels_on(compute, 0), static_cast<T const*>(gradient_slot(s, 0)), runs() + s.runs_lie,
                            s.pieces.size(), squares() + s.pieces.begin);
    }
    /// The squares of the stages of another rank of the replica.
    void enqueue_squares_of(stream_rank const& other) {
        for (auto const& s : other.own_)
            if (auto const n = s.pieces.size(); n != 0)
                exchange.copy(squares() + s.pieces.begin, other.squares() + s.pieces.begin, n * sizeof(double));
    }
    void enqueue_norm(int slot) {
        auto const* const most =
            reinterpret_cast<double const*>(static_cast<std::byte const*>(stages_[slot].data()) + most_norm_lies);
        norm_of_squares(kernels_on(compute, 0), squares(), all_pieces, most, measured());
    }
    void enqueue_norm_result(int slot) { exchange.copy(norms_[slot].data(), measured(), sizeof(measured_norm)); }
    /// Of the step in a slot, once its results are there.
    double gradient_norm(int slot) const noexcept {
        return Model::clips ? static_cast<measured_norm const*>(norms_[slot].data())->norm
                            : std::numeric_limits<double>::quiet_NaN();
    }

    /// Memory for the gradient of a tied row that another rank has.
    T* tied() const noexcept { return static_cast<T*>(tied_.data()); }

    void enqueue_update(int slot) {
        auto const k = kernels_on(compute, 0);
        auto const* const both = reinterpret_cast<numbers const*>(stages_[slot].data());
        for (auto const& s : own_) {
            auto const& n = s.numbers;
            auto* const sums = gradient_slot(s, 0);
            if constexpr (Model::clips) clip_values(k, sums, measured(), n.parameters);
            detail::update_runs<typename Model::optimizer>(
                k, updates_, {n.first_parameter, n.first_parameter + n.parameters}, weights(s),
                static_cast<T const*>(sums), static_cast<T*>(state_.data()) + s.lies.state, n.buffers_lie, both,
                both + 1, updates_made());
            if (n.buffers != 0)
                update_running(k, weights(s) + n.buffers_lie, static_cast<T const*>(sums + n.buffers_lie),
                               static_cast<T>(statistics_momentum), n.buffers);
        }
        if constexpr (detail::counts_updates<typename Model::optimizer>) k.each(1, blocks::one_more{updates_made()});
    }

    void enqueue_results(int slot) { exchange.copy(results_[slot].data(), scores_.data(), scores_.bytes()); }

    /// Of all shards, and behind them, for each row that adds to the loss, its terms; those of other ranks are zero
    /// unless the transport has shared them.
    std::span<sample_score const> results(int slot) const noexcept {
        return {static_cast<sample_score const*>(results_[slot].data()), score_count()};
    }
    std::uint64_t* score_words() const noexcept { return static_cast<std::uint64_t*>(scores_.data()); }
    std::size_t score_count() const noexcept { return (1 + network::loss_terms) * all_shards_; }
    bool has_results() const noexcept { return has_last() || network::loss_terms != 0; }

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
    T* kept() const noexcept { return reinterpret_cast<T*>(values() + own_[0].blocks.plan.kept); }
    stored_type* values() const noexcept { return static_cast<stored_type*>(activations_.data()); }
    range shards() const noexcept { return shards_; }
    std::size_t samples() const noexcept { return granule_.samples; }
    bool has_last() const noexcept { return granule_.last; }
    std::vector<std::string> notes() const { return libraries_.notes(); }

    int const number; ///< the rank
    stream compute, exchange, copies, beside;
    event staged[2]; ///< the slot's samples are there
    event used[2];   ///< and `compute` has done with them
    stream_mirror<Model, Device, stage> mirror;

private:
    using pinned = typename Device::pinned_memory;
    stream_rank(int device, parallel_layout const& l, int rank, std::size_t samples, memory_map const& map)
        : places(stage::of_rank(l, samples, rank), std::max<std::size_t>(map.gradients.parts, 1), l.reproducible()),
          number(rank), compute(device), exchange(device), copies(device), beside(device),
          staged{event(device), event(device)}, used{event(device), event(device)}, mirror(map.parameters.total()),
          granule_(l, samples, rank), updates_(l.updates), shards_(l.shards_of_device(rank)), all_shards_(l.shards()),
          libraries_(device), parameters_(device, map.parameters.total(), "parameters"),
          gradients_(device, map.gradients.total(), "gradients"),
          state_(device, map.optimizer_state.total() + map.updates.total(), "optimizer's state"),
          activations_(device, map.activations.total(), "activations"),
          narrow_(device, map.narrow_parameters.total(), "parameters in bf16"),
          losses_(device, map.losses.total(), "losses"), scores_(device, map.scores.total(), "losses of the shards"),
          stages_{memory(device, map.samples.bytes, "samples"), memory(device, map.samples.bytes, "samples")},
          scratch_{memory(device, map.workspace.bytes, "workspace"),
                   memory(device, map.workspace.parts == 2 ? map.workspace.bytes : 0, "workspace")},
          pinned_{pinned(map.samples.bytes), pinned(map.samples.bytes)},
          results_{pinned(map.scores.bytes), pinned(map.scores.bytes)}, ready_(device),
          squares_(device, map.squares.bytes, "squares of the gradients"),
          tied_(device, map.tied.bytes, "tied gradients"), norms_{pinned(norm_bytes()), pinned(norm_bytes())},
          runs_((own_.back().runs_lie + own_.back().pieces.size()) * sizeof(gradient_run)) {
        if constexpr (Model::clips) {
            auto* to = static_cast<gradient_run*>(runs_.data());
            for (auto const& s : own_)
                for_each_gradient_piece<network>(
                    s.numbers.rows, [&](std::size_t, std::size_t first, std::size_t elements) {
                        *to++ = {first - s.numbers.first_parameter, static_cast<std::uint32_t>(elements)};
                    });
            if (runs_.bytes() != 0) compute.copy(runs(), runs_.data(), runs_.bytes());
        }
    }

    // Memory of a gradient's norm: the sums of all pieces, what was measured, and the runs of the own pieces.
    static constexpr std::size_t all_pieces = gradient_pieces<network>({0, network::depth}).end;
    static constexpr std::size_t norm_bytes() noexcept { return Model::clips ? sizeof(measured_norm) : 0; }
    static constexpr bytes_t squares_bytes([[maybe_unused]] std::size_t pieces) noexcept {
        if constexpr (Model::clips)
            return round_up<bytes_t>(
                all_pieces * sizeof(double) + sizeof(measured_norm) + pieces * sizeof(gradient_run), cache_line);
        else
            return 0;
    }
    std::size_t output_bytes() const noexcept {
        return granule_.samples * network::output_extents::size * sizeof(stored_type);
    }
    double* squares() const noexcept { return static_cast<double*>(squares_.data()); }
    measured_norm* measured() const noexcept { return reinterpret_cast<measured_norm*>(squares() + all_pieces); }
    gradient_run* runs() const noexcept { return reinterpret_cast<gradient_run*>(measured() + 1); }

    stream& adding() noexcept { return adds_beside ? beside : compute; }
    std::byte* granule_at(void* staged_samples, std::size_t k) const noexcept {
        return static_cast<std::byte*>(staged_samples) + settings_bytes + k * granule_.bytes();
    }

    stored_type* narrow_copy(stage const& s) const noexcept {
        return reinterpret_cast<stored_type*>(static_cast<std::byte*>(narrow_.data()) + s.narrow_lies);
    }
    std::uint64_t* updates_made() const noexcept {
        return detail::count_of_updates<typename Model::optimizer>(state_.data(), state_.bytes());
    }
    T* waiting(step_task const& t) const noexcept {
        auto const& blocks = own(t.chunk).blocks;
        return reinterpret_cast<T*>(values() + t.frame * blocks.frame + blocks.statistics);
    }
    T* agreed(step_task const& t) const noexcept {
        auto const& blocks = own(t.chunk).blocks;
        return reinterpret_cast<T*>(values() + t.frame * blocks.frame + blocks.agreed);
    }
    T* losses() const noexcept { return static_cast<T*>(losses_.data()); }
    /// Null where targets are no classes.
    int* correct() const noexcept {
        if (!std::is_same_v<typename Model::target, int>) return nullptr;
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
        add_into(kernels_on(compute, 0), gradient_slot(s, i), static_cast<T const*>(gradient_slot(s, j)),
                 s.numbers.elements);
    }

    detail::staged_granule<Model> granule_;
    std::span<update_run const> updates_;
    range shards_;
    std::size_t all_shards_;
    typename Device::libraries libraries_;
    memory parameters_, gradients_, state_, activations_, narrow_, losses_, scores_;
    memory stages_[2], scratch_[2];
    pinned pinned_[2], results_[2], stamps_[2], outputs_;
    std::size_t copied_[2] = {}; ///< bytes of each granule in a slot
    event ready_;
    memory squares_, tied_;
    pinned norms_[2], runs_;
};

} // namespace trireme
