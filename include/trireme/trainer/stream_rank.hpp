// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/data/augmented.hpp>
#include <trireme/data/gather.hpp>
#include <trireme/data/sample_source.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/device/blocks/clock.hpp>
#include <trireme/device/blocks/gradient_norm.hpp>
#include <trireme/device/blocks/kernels.hpp>
#include <trireme/device/blocks/samples.hpp>
#include <trireme/device/stream_order.hpp>
#include <trireme/layer/stream_context.hpp>
#include <trireme/parallel/gradient_norm.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/parallel/ties.hpp>
#include <trireme/schedule/fixed_tree.hpp>
#include <trireme/trainer/composition.hpp>
#include <trireme/trainer/predictions.hpp>
#include <trireme/trainer/staged_granule.hpp>

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
/// Four streams: `compute` for the line from samples to gradients, `beside` for the gradients by the parameters,
/// `copies` for samples on their way in, `exchange` for what goes between ranks. Samples are staged in two slots, which
/// take turns.
template<class Model, accelerator Device, class Options>
class stream_rank {
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
    using stage = stage_activations<Model, context>;
    using stored_type = typename context::stored_type;

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

    /// Granules that are staged at once: all micro-batches of a step; of an evaluation in stages, two.
    static constexpr std::size_t granules(parallel_layout const& l, int rank) noexcept {
        return std::max<std::size_t>(l.shards_of_device(rank).size(), l.stages == 1 ? 1 : 2);
    }

    /// The map of a rank's memory, but for what its collectives need.
    static constexpr memory_map memory_of(parallel_layout const& l, std::size_t batch, int rank) {
        auto m = memory_of_model<Model>(l, rank);
        auto const samples = l.most_shard_samples(batch);
        detail::staged_granule<Model> const granule(l, samples, rank);
        stage const here(l, samples, rank);
        m.activations.bytes = here.elements() * sizeof(stored_type);
        m.narrow_parameters.bytes = narrow::bytes(here.rows);
        m.workspace = {workspace_bytes(), 2};
        m.samples = {settings_bytes + granules(l, rank) * granule.bytes(), 2};
        m.losses.bytes = granule.loss_bytes();
        m.squares.bytes = squares_bytes(here.rows);
        detail::for_each_tied<network>(l, [&](detail::tied_pair const& p) {
            if (Model::trains && p.is_apart() && p.owner_role == l.role_of(rank))
                m.tied.bytes = std::max<bytes_t>(m.tied.bytes, p.elements() * sizeof(T));
        });
        m.scores.bytes = granule.last ? round_up<bytes_t>(l.shards() * sizeof(sample_score), cache_line) : 0;
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
                     T weight, staged_shard about = {}) {
        auto* const to = granule_at(pinned_[slot].data(), k);
        auto const& inputs = samples.inputs();
        about.count = static_cast<std::uint32_t>(indices.size());
        about.scale = inputs.scale;
        about.bytes = inputs.kind == number_kind::u8;
        std::memcpy(to, &about, sizeof about);
        copied_[slot] = granule_.inputs() + (granule_.first ? granule_.input_bytes(about.bytes ? 1 : sizeof(T)) : 0);
        for (std::size_t i = 0; granule_.first && i < indices.size(); ++i) {
            if (about.step != 0 && inputs.changes.any())
                set_changed_sample(inputs, indices[i], about, to + granule_.inputs(), i);
            else if (about.bytes)
                std::memcpy(to + granule_.inputs() + i * granule_.values, inputs.of(indices[i]), granule_.values);
            else
                gather_samples<1>(inputs, indices.subspan(i, 1),
                                  reinterpret_cast<T*>(to + granule_.inputs()) + i * granule_.values);
        }
        if (!granule_.last || samples.targets().data == nullptr) return; // predictions need none
        auto* const targets = reinterpret_cast<typename Model::target*>(to + granule_.targets());
        auto* const weights = reinterpret_cast<T*>(to + granule_.weights());
        for (std::size_t i = 0; i < indices.size(); ++i)
            gather_samples<1>(samples.targets(), indices.subspan(i, 1), targets + i * Model::targets);
        std::fill_n(weights, indices.size(), weight);
        std::fill_n(weights + indices.size(), granule_.samples - indices.size(), T{0});
    }

    TRIREME_COLD void set_changed_sample(sample_rows const& rows, std::uint32_t sample, staged_shard const& about,
                                         std::byte* to, std::size_t i) {
        detail::drawn_changes const drawn{about.seed, about.step};
        auto const places = rows.shape.extent[1] * rows.shape.extent[2];
        if (about.bytes)
            detail::scatter_changed(rows, sample, drawn, std::uint8_t{1},
                                    reinterpret_cast<std::uint8_t*>(to) + i * granule_.values, places, 1);
        else
            detail::scatter_changed(rows, sample, drawn, static_cast<T>(rows.scale),
                                    reinterpret_cast<T*>(to) + i * granule_.values, places, 1);
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

    // ---- the places of its memory, and what works on them ----

    /// Gives its streams and places numbers, the streams' from `stream` on and the places' from `place` on, and returns
    /// how many places there are. `reductions`: parts of the gradients that are added one by one.
    std::size_t give_numbers(std::size_t stream_number, std::size_t place, std::size_t reductions) {
        on_compute_ = stream_number;
        on_beside_ = stream_number + 1;
        on_exchange_ = stream_number + 2;
        auto const take = [&next = place](std::size_t n) {
            auto const first = next;
            return range{first, next += n};
        };
        places_.all.begin = place;
        places_.parameters = take(1);
        places_.samples = take(2);
        places_.losses = take(1);
        places_.scores = take(1);
        places_.task = take(1);
        places_.frames = take(stage_.places.frames);
        places_.slots = take(stage_.places.slots);
        places_.parts = take(reductions);
        places_.sums = take(slots_ - 1);
        places_.squares = take(Model::clips ? 1 : 0);
        places_.norm = take(Model::clips ? 1 : 0);
        places_.tied = take(network::tied_gradients != 0 ? 1 : 0);
        places_.all.end = place;
        return places_.all.size();
    }
    static constexpr std::size_t ordered = 3; ///< streams
    std::vector<stream*> streams() { return {&compute, &beside, &exchange}; }

    range all_places() const noexcept { return places_.all; }
    range frame_place(std::size_t f) const noexcept { return one(places_.frames, f); }
    range slot_place(std::size_t s) const noexcept { return one(places_.slots, s); }
    range samples_place(int slot) const noexcept { return one(places_.samples, static_cast<std::size_t>(slot)); }

    stream_work everything() const { return {on_compute_, {}, {{places_.all}}}; }
    stream_work narrowing() const { return {on_compute_, {}, {{places_.parameters}}}; }
    stream_work clearing_scores() const { return {on_beside_, {}, {{places_.scores}}}; }
    stream_work clearing_gradients() const { return {on_beside_, {}, {{gradients_now()}}}; }
    stream_work going_forward(int slot, step_task const& t) const {
        return {on_compute_,
                {{places_.parameters, samples_place(slot)}},
                {{frame_place(t.frame), places_.task, added_on_compute(t)}}};
    }
    stream_work losing(int slot, step_task const& t) const {
        return {on_compute_, {{samples_place(slot)}}, {{frame_place(t.frame), places_.task, places_.losses}}};
    }
    stream_work scoring(int slot) const {
        return {on_beside_, {{places_.losses, samples_place(slot)}}, {{places_.scores}}};
    }
    /// `parts`: whether those of the gradients are told one by one.
    stream_work going_back(int slot, step_task const& t, bool parts = false) const {
        return {on_compute_,
                {{places_.parameters, samples_place(slot)}},
                {{frame_place(t.frame), places_.task, parts ? range{} : added_on_compute(t),
                  stage_.places.slots == 0 ? range{} : slot_place(t.slot)}}};
    }
    /// Beside going_back; up to the gradients of a reduction, or to all of them.
    stream_work adding_gradients(int slot, step_task const& t, std::size_t reduction = npos) const {
        return {on_beside_,
                {{places_.parameters, samples_place(slot), frame_place(t.frame), places_.task}},
                {{reduction == npos ? gradients_now() : one(places_.parts, reduction)}}};
    }
    /// The second half of backward; gradients of a narrow copy are not those of a task beside it.
    stream_work adding_later(int slot, step_task const& t) const {
        return {on_compute_,
                {{places_.parameters, samples_place(slot)}},
                {{frame_place(t.frame), places_.task, gradients_now()}}};
    }
    stream_work merging() const { return {on_compute_, {}, {{places_.parts, places_.sums}}}; }
    /// A reduction of a part, or of all that a fixed tree adds.
    stream_work reducing(std::size_t reduction, bool all) const {
        return {
            on_exchange_, {}, {{all ? places_.parts : one(places_.parts, reduction), all ? places_.sums : range{}}}};
    }
    /// The squares of this rank's gradients; those of another stage, which lie in `from`; and the norm of all.
    range squares_place() const noexcept { return places_.squares; }
    stream_work squaring() const { return {on_compute_, {{places_.parts}}, {{places_.squares}}}; }
    stream_work taking_squares(range from) const { return {on_exchange_, {{from}}, {{places_.norm}}}; }
    stream_work measuring(int slot) const {
        return {on_compute_, {{places_.squares, samples_place(slot)}}, {{places_.norm}}};
    }
    /// Tied gradients are added, those of another rank when they have been copied; and updated weights come from it.
    range parts_place() const noexcept { return places_.parts; }
    range parameters_place() const noexcept { return places_.parameters; }
    stream_work taking_tied(range from) const { return {on_exchange_, {{from}}, {{places_.tied}}}; }
    stream_work adding_tied() const { return {on_compute_, {{places_.tied}}, {{places_.parts}}}; }
    stream_work taking_weights(range from) const { return {on_exchange_, {{from}}, {{places_.parameters}}}; }
    stream_work having_tied() const { return {on_compute_, {{places_.parts, places_.parameters}}, {}}; }
    stream_work telling_norm() const { return {on_exchange_, {{places_.norm}}, {}}; }
    stream_work updating(int slot) const {
        if (Model::clips)
            return {on_compute_, {{samples_place(slot), places_.norm}}, {{places_.parts, places_.parameters}}};
        return {on_compute_, {{places_.parts, samples_place(slot)}}, {{places_.parameters}}};
    }
    stream_work evaluating(int slot, step_task const& t) const {
        return {on_compute_,
                {{places_.parameters, samples_place(slot)}},
                {{frame_place(t.frame), places_.task, places_.losses, places_.scores}}};
    }
    stream_work sharing_scores() const { return {on_exchange_, {}, {{places_.scores}}}; }
    /// A move from other ranks' memory to a frame.
    stream_work taking(range from, std::size_t frame) const { return {on_exchange_, {{from}}, {{frame_place(frame)}}}; }
    /// The samples of a slot have been used.
    stream_work leaving(int slot) const { return {on_compute_, {}, {{samples_place(slot)}}}; }

    // ---- the work of tasks; the order is the caller's ----

    /// `granule`: what to work on.
    kernels kernels_on(stream& s, int scratch, std::byte const* granule = nullptr) {
        kernels k(s, granule_.samples, workspace{scratch_[scratch].data(), scratch_[scratch].bytes()}, libraries_);
        k.set_shard(reinterpret_cast<staged_shard const*>(granule));
        return k;
    }
    void begin_step() noexcept { tree_ = {}; }
    void enqueue_narrow_copy() { narrow::copy(kernels_on(compute, 0), stage_.rows, own_numbers(), narrow_copy()); }
    void clear_scores() { beside.zero(scores_.data(), scores_.bytes()); }
    void clear_gradients() { beside.zero(gradients(), arena_bytes()); }

    /// The context of the granule in place `k` of a slot.
    context context_of(int slot, std::size_t k, step_task const& t) {
        auto* const granule = granule_at(stages_[slot].data(), k);
        auto n = own_numbers();
        if (t.kind == task_kind::forward) n.statistics = waiting(t.frame);
        if (t.kind == task_kind::backward_input) {
            n.agreed = agreed(t.frame);
            n.first_agreed = network::row(numbers_.rows.begin).first_agreed;
        }
        bool const in_order = t.kind == task_kind::backward_weights; // nothing goes on beside it
        bool const evaluates = t.kind == task_kind::evaluate;
        if (evaluates) n.gradients = n.statistics = nullptr;
        using target = typename Model::target;
        typename context::losses_type const of_loss{reinterpret_cast<target*>(granule + granule_.targets()),
                                                    reinterpret_cast<T const*>(granule + granule_.weights()), losses(),
                                                    correct()};
        return {stage_.plan,
                stage_.memory(values(), t.frame, t.slot),
                n,
                kernels_on(compute, 0, granule),
                in_order ? kernels_on(compute, 0, granule) : kernels_on(beside, 1, granule),
                ready_,
                stage_.rows,
                narrow_copy(),
                of_loss};
    }

    /// The inputs of a first stage; and statistics that wait in a frame for backward begin at zero.
    void enqueue_input(context const& c, int slot, std::size_t k, step_task const& t) {
        if (t.kind == task_kind::forward && numbers_.buffers != 0)
            compute.zero(waiting(t.frame), numbers_.buffers * sizeof(T));
        if (granule_.first)
            convert_inputs<T>(c.kernels(), c.kernels().shard(), granule_at(stages_[slot].data(), k) + granule_.inputs(),
                              c.value(0), granule_.values, narrow::input_order(granule_.samples));
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
    /// What earlier tasks have left in a frame is added where the gradients are: forward's statistics, and gradients of
    /// layers that agree on something, which begin at zero in the first half of backward.
    void enqueue_waiting(context const& c, step_task const& t) {
        auto const add = [&](std::size_t to, T const* from, std::size_t count) {
            add_into(c.kernels(), gradients() + to, from, count);
        };
        if (gives_weights(t.kind) && t.kind != task_kind::train && numbers_.buffers != 0)
            add(numbers_.buffers_lie, waiting(t.frame), numbers_.buffers);
        if (t.kind != task_kind::backward_input && t.kind != task_kind::backward_weights) return;
        detail::for_each_agreed<network>(numbers_.rows, [&](std::size_t from, std::size_t to, std::size_t count) {
            if (t.kind == task_kind::backward_input)
                compute.zero(agreed(t.frame) + from, count * sizeof(T));
            else
                add(to, agreed(t.frame) + from, count);
        });
    }

    /// Adds a shard's gradients to those before it, as the fixed tree of the shards says.
    void end_shard(std::size_t shard) {
        auto const at = shards_.begin + shard;
        tree_.push({at, at + 1}, [this](std::size_t i, std::size_t j) { merge(i, j); });
    }
    /// Adds what is left, where no other rank has a part of the tree.
    void end_shards() {
        tree_.finish([this](std::size_t i, std::size_t j) { merge(i, j); });
    }

    void enqueue_squares() {
        sums_of_squares(kernels_on(compute, 0), static_cast<T const*>(gradient_slot(0)), runs(), pieces_.size(),
                        squares() + pieces_.begin);
    }
    /// The squares of another stage of the replica.
    void enqueue_squares_of(stream_rank const& other) {
        if (auto const n = other.pieces_.size(); n != 0)
            exchange.copy(squares() + other.pieces_.begin, other.squares() + other.pieces_.begin, n * sizeof(double));
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
        auto* const sums = gradient_slot(0);
        if constexpr (Model::clips) clip_values(k, sums, measured(), numbers_.parameters);
        auto const* const both = reinterpret_cast<numbers const*>(stages_[slot].data());
        detail::update_runs<typename Model::optimizer>(
            k, updates_, {numbers_.first_parameter, numbers_.first_parameter + numbers_.parameters}, parameters(),
            static_cast<T const*>(sums), static_cast<T*>(state_.data()), numbers_.buffers_lie, both, both + 1,
            updates_made());
        if constexpr (detail::counts_updates<typename Model::optimizer>) k.each(1, blocks::one_more{updates_made()});
        if (numbers_.buffers != 0)
            update_running(k, parameters() + numbers_.buffers_lie, static_cast<T const*>(sums + numbers_.buffers_lie),
                           static_cast<T>(statistics_momentum), numbers_.buffers);
    }

    void enqueue_results(int slot) { exchange.copy(results_[slot].data(), scores_.data(), scores_.bytes()); }

    /// Of all shards; those of other ranks are zero unless the transport has shared them.
    std::span<sample_score const> results(int slot) const noexcept {
        return {static_cast<sample_score const*>(results_[slot].data()), all_shards_};
    }
    std::uint64_t* score_words() const noexcept { return static_cast<std::uint64_t*>(scores_.data()); }

    // ---- weights ----

    /// Memory of the host as large as parameters and buffers, and the copies between the two, on `compute`.
    T* mirror() const noexcept { return static_cast<T*>(mirror_.data()); }
    void enqueue_store() { compute.copy(mirror(), parameters_.data(), mirror_.bytes()); }
    void enqueue_load() { compute.copy(parameters_.data(), mirror(), mirror_.bytes()); }
    void enqueue_clear() { compute.zero(state_.data(), state_.bytes()); }

    T* parameters() const noexcept { return static_cast<T*>(parameters_.data()); }
    T* gradient_slot(std::size_t i) const noexcept {
        return static_cast<T*>(gradients_.data()) + i * numbers_.elements;
    }
    /// The numbers that layers keep, and add over all devices.
    T* kept() const noexcept { return reinterpret_cast<T*>(values() + stage_.plan.kept); }
    stored_type* values() const noexcept { return static_cast<stored_type*>(activations_.data()); }
    row_numbers const& own() const noexcept { return numbers_; }
    stage const& activations() const noexcept { return stage_; }
    range shards() const noexcept { return shards_; }
    std::size_t samples() const noexcept { return granule_.samples; }
    bool is_last() const noexcept { return granule_.last; }
    std::vector<std::string> notes() const { return libraries_.notes(); }

    int const number; ///< the rank
    stream compute, exchange, copies, beside;
    event staged[2]; ///< the slot's samples are there
    event used[2];   ///< and `compute` has done with them

private:
    using pinned = typename Device::pinned_memory;
    stream_rank(int device, parallel_layout const& l, int rank, std::size_t samples, memory_map const& map)
        : number(rank), compute(device), exchange(device), copies(device), beside(device),
          staged{event(device), event(device)}, used{event(device), event(device)}, granule_(l, samples, rank),
          stage_(l, samples, rank), numbers_(numbers_of_stage<network, T>(l, l.stage_of(rank, 0))), updates_(l.updates),
          shards_(l.shards_of_device(rank)), all_shards_(l.shards()),
          slots_(std::max<std::size_t>(map.gradients.parts, 1)), in_tree_(l.reproducible()), libraries_(device),
          parameters_(device, map.parameters.total(), "parameters"),
          gradients_(device, map.gradients.total(), "gradients"),
          state_(device, map.optimizer_state.total() + map.updates.total(), "optimizer's state"),
          activations_(device, map.activations.total(), "activations"),
          narrow_(device, map.narrow_parameters.total(), "parameters in bf16"),
          losses_(device, map.losses.total(), "losses"), scores_(device, map.scores.total(), "losses of the shards"),
          stages_{memory(device, map.samples.bytes, "samples"), memory(device, map.samples.bytes, "samples")},
          scratch_{memory(device, map.workspace.bytes, "workspace"), memory(device, map.workspace.bytes, "workspace")},
          pinned_{pinned(map.samples.bytes), pinned(map.samples.bytes)},
          results_{pinned(map.scores.bytes), pinned(map.scores.bytes)}, mirror_(numbers_.weights() * sizeof(T)),
          ready_(device), pieces_(Model::clips ? gradient_pieces<network>(numbers_.rows) : range{}),
          squares_(device, map.squares.bytes, "squares of the gradients"),
          tied_(device, map.tied.bytes, "tied gradients"), norms_{pinned(norm_bytes()), pinned(norm_bytes())},
          runs_(pieces_.size() * sizeof(gradient_run)) {
        if constexpr (Model::clips) {
            auto* to = static_cast<gradient_run*>(runs_.data());
            for_each_gradient_piece<network>(numbers_.rows, [&](std::size_t, std::size_t first, std::size_t elements) {
                *to++ = {first - numbers_.first_parameter, static_cast<std::uint32_t>(elements)};
            });
            if (pieces_.size() != 0) compute.copy(runs(), runs_.data(), runs_.bytes());
        }
    }

    // Memory of a gradient's norm: the sums of all pieces, what was measured, and the runs of the own pieces.
    static constexpr std::size_t all_pieces = gradient_pieces<network>({0, network::depth}).end;
    static constexpr std::size_t norm_bytes() noexcept { return Model::clips ? sizeof(measured_norm) : 0; }
    static constexpr bytes_t squares_bytes([[maybe_unused]] range rows) noexcept {
        if constexpr (Model::clips)
            return round_up<bytes_t>(all_pieces * sizeof(double) + sizeof(measured_norm) +
                                         gradient_pieces<network>(rows).size() * sizeof(gradient_run),
                                     cache_line);
        else
            return 0;
    }
    std::size_t output_bytes() const noexcept {
        return granule_.samples * network::output_extents::size * sizeof(stored_type);
    }
    double* squares() const noexcept { return static_cast<double*>(squares_.data()); }
    measured_norm* measured() const noexcept { return reinterpret_cast<measured_norm*>(squares() + all_pieces); }
    gradient_run* runs() const noexcept { return reinterpret_cast<gradient_run*>(measured() + 1); }

    static range one(range const& of, std::size_t i) noexcept { return {of.begin + i, of.begin + i + 1}; }

    std::size_t arena_bytes() const noexcept { return numbers_.elements * sizeof(T); }
    std::byte* granule_at(void* staged_samples, std::size_t k) const noexcept {
        return static_cast<std::byte*>(staged_samples) + settings_bytes + k * granule_.bytes();
    }

    detail::model_numbers<T> own_numbers() const noexcept {
        return {parameters(),
                gradients(),
                parameters() + numbers_.buffers_lie,
                gradients() + numbers_.buffers_lie,
                numbers_.first_parameter,
                numbers_.first_buffer,
                numbers_.first_kept,
                numbers_.first_tied,
                numbers_.tied_lie};
    }
    stored_type* narrow_copy() const noexcept { return static_cast<stored_type*>(narrow_.data()); }
    std::uint64_t* updates_made() const noexcept {
        return detail::count_of_updates<typename Model::optimizer>(state_.data(), state_.bytes());
    }
    T* waiting(std::size_t frame) const noexcept {
        return reinterpret_cast<T*>(values() + frame * stage_.frame + stage_.statistics);
    }
    T* agreed(std::size_t frame) const noexcept {
        return reinterpret_cast<T*>(values() + frame * stage_.frame + stage_.agreed);
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

    // The gradients that are being added to: all micro-batches' in one slot, or, where a tree adds them, one of their
    // own.
    std::size_t slot_now() const noexcept { return in_tree_ ? tree_.depth() : 0; }
    T* gradients() const noexcept { return gradient_slot(slot_now()); }
    range gradients_now() const noexcept { return slot_now() == 0 ? places_.parts : one(places_.sums, slot_now() - 1); }
    /// Layers that agree on something add their gradients on `compute`, and their statistics.
    range added_on_compute(step_task const& t) const noexcept {
        bool const adds = (network::whole_shard || network::buffers != 0) && gives_weights(t.kind);
        return adds ? gradients_now() : range{};
    }

    void merge(std::size_t i, std::size_t j) {
        add_into(kernels_on(compute, 0), gradient_slot(i), static_cast<T const*>(gradient_slot(j)), numbers_.elements);
    }

    detail::staged_granule<Model> granule_;
    stage stage_;
    row_numbers numbers_;
    std::span<update_run const> updates_;
    range shards_;
    std::size_t all_shards_, slots_;
    bool in_tree_;
    typename Device::libraries libraries_;
    memory parameters_, gradients_, state_, activations_, narrow_, losses_, scores_;
    memory stages_[2], scratch_[2];
    pinned pinned_[2], results_[2], mirror_, stamps_[2], outputs_;
    std::size_t copied_[2] = {}; ///< bytes of each granule in a slot
    event ready_;
    range pieces_; ///< of the gradients, where they are measured
    memory squares_, tied_;
    pinned norms_[2], runs_;
    fixed_tree::stack tree_;

    std::size_t on_compute_ = 0, on_beside_ = 0, on_exchange_ = 0;
    /// Places that work waits for, by number. `parts` are those of the first slot of gradients, `sums` the other slots.
    struct {
        range all, parameters, samples, losses, scores, task, frames, slots, parts, sums, squares, norm, tied;
    } places_;
};

} // namespace trireme
