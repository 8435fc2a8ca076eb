// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/gradient_norm.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/samples.hpp>
#include <trireme/layer/stage_pass.hpp>
#include <trireme/parallel/gradient_norm.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/parallel/ties.hpp>
#include <trireme/trainer/composition.hpp>
#include <trireme/trainer/predictions.hpp>
#include <trireme/trainer/staged_granule.hpp>
#include <trireme/trainer/stream_context.hpp>
#include <trireme/trainer/stream_rank.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace trireme {

/// A rank on an accelerator with the work that depends on the types of its model.
template<class Model, accelerator Device, class Options>
class stream_rank_of final : public stream_rank<typename Model::value_type, Device> {
    using base = stream_rank<typename Model::value_type, Device>;
    using base::compute, base::beside, base::own_, base::granule_, base::stages_, base::waiting, base::agreed;
    using base::losses, base::correct, base::term_of, base::gradients, base::measured, base::runs;
    using typename base::row_hook, typename base::stage;
    using typename base::stream, typename base::event, typename base::placed_task, typename base::team;

public:
    using T = typename Model::value_type;
    using kernels = typename Model::kernels;
    using network = typename Model::network;
    using numbers = decltype(Model::optimizer::template numbers<T>(std::declval<Options const&>()));
    using context = stream_context<network, kernels, T, typename Model::loss>;
    using narrow = narrow_parameters<network, kernels, T>;
    using stored_type = typename context::stored_type;
    using base::own, base::weights, base::gradient_slot, base::values;

    static constexpr detail::stream_facts facts{
        detail::facts_of_model<Model>, gradients_beside<network, kernels>, narrow::exist,
        round_up<std::size_t>(2 * sizeof(numbers) + (Model::clips ? sizeof(double) : 0), cache_line)};

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
        detail::staged_granule<T> const granule(facts, l, samples, rank);
        m.activations.bytes = stage_activations<Model, context>(l, samples, rank).elements() * sizeof(stored_type);
        std::size_t pieces = 0;
        for (int chunk = 0; chunk < l.chunks(); ++chunk) {
            auto const rows = l.rows_of(l.stage_of(rank, chunk), network::depth);
            m.narrow_parameters.bytes += narrow::bytes(rows);
            pieces += gradient_pieces<network>(rows).size();
        }
        m.workspace = {workspace_bytes(), facts.adds_beside ? 2 : 1};
        m.samples = {facts.settings_bytes + granules(l, rank) * granule.bytes(), 2};
        m.losses.bytes = granule.loss_bytes();
        m.squares.bytes = squares_bytes(pieces);
        detail::for_each_tied<network>(l, [&](detail::tied_pair const& p) {
            if (Model::trains && p.is_apart() && p.owner_role == l.role_of(rank))
                m.tied.bytes = std::max<bytes_t>(m.tied.bytes, p.elements() * sizeof(T));
        });
        m.scores.bytes = round_up<bytes_t>((1 + network::loss_terms) * l.shards() * sizeof(sample_score), cache_line);
        return m;
    }

    /// Writes the numbers of a step into its settings.
    static void write_settings(Options const& o, std::byte* to) {
        numbers const both[] = {Model::optimizer::template numbers<T>(o),
                                Model::optimizer::template numbers<T>(detail::without_weight_decay(o))};
        std::memcpy(to, both, sizeof both);
        if constexpr (Model::clips) {
            auto const most = static_cast<double>(o.max_norm.value);
            std::memcpy(to + facts.settings_bytes - sizeof most, &most, sizeof most);
        }
    }

    /// `batch`: the most samples of a step that is staged at once.
    stream_rank_of(int device, parallel_layout const& l, int rank, std::size_t batch)
        : stream_rank_of(device, l, rank, l.most_shard_samples(batch), memory_of(l, batch, rank),
                         activations::of_rank(l, l.most_shard_samples(batch), rank, frames_of_rank(l, rank))) {}

    void begin_task(placed_task const& p) override {
        step_task const& t = *p.task;
        auto* const granule = this->granule_at(stages_[p.slot].data(), p.granule);
        auto const& s = own(t.chunk);
        auto n = s.numbers_in(weights(s), gradients(s));
        if (t.kind == task_kind::forward) n.statistics = waiting(t);
        if (t.kind == task_kind::backward_input) {
            n.agreed = agreed(t);
            n.first_agreed = network::row(s.numbers.rows.begin).first_agreed;
        }
        bool const in_order = !facts.adds_beside || t.kind == task_kind::backward_weights; // nothing goes on beside it
        bool const evaluates = t.kind == task_kind::evaluate;
        if (evaluates) n.gradients = n.statistics = nullptr;
        using target = typename Model::target;
        typename context::losses_type of_loss{{reinterpret_cast<target*>(granule + granule_.targets()),
                                               reinterpret_cast<T const*>(granule + granule_.weights()), losses(),
                                               correct()}};
        if constexpr (network::loss_terms != 0) {
            of_loss.terms = reinterpret_cast<T*>(reinterpret_cast<std::byte*>(losses()) + granule_.terms());
            of_loss.sums = term_of(0, this->shards().begin + t.micro_batch);
            of_loss.between_sums = this->all_shards_;
        }
        auto const& blocks = blocks_[static_cast<std::size_t>(t.chunk)];
        context_.emplace(blocks.plan, blocks.memory(stored(values()), t.frame, t.slot), n,
                         kernels_on(compute, 0, granule),
                         in_order ? kernels_on(compute, 0, granule) : kernels_on(beside, 1, granule), ready_,
                         s.numbers.rows, narrow_copy(s), of_loss);
    }
    void enqueue_input(placed_task const& p) override {
        if (!own(p.task->chunk).first()) return;
        auto const& c = *context_;
        auto const* const from = this->granule_at(stages_[p.slot].data(), p.granule) + granule_.inputs();
        if constexpr (network::row(0).description.vocabulary != 0)
            convert_tokens<T>(c.kernels(), c.kernels().shard(), from, c.value(0), granule_.values);
        else
            convert_inputs<T>(c.kernels(), c.kernels().shard(), from, c.value(0), granule_.values,
                              narrow::input_order(granule_.samples));
    }

    void forward(team tasks, range rows, row_hook exchanging) override {
        ranks_of_process<contexts> const all{{tasks}};
        stage_pass(all, rows).forward(nothing_beside{}, nothing_beside{}, exchanging);
    }
    void backward(team tasks, range rows, bool adds, row_hook between, row_hook exchanging) override {
        ranks_of_process<contexts> const all{{tasks}};
        stage_pass const pass(all, rows);
        if (adds)
            pass.backward(nothing_beside{}, between, exchanging);
        else
            pass.backward_input(nothing_beside{}, between, exchanging);
    }
    void backward_weights(team tasks, range rows) override {
        ranks_of_process<contexts> const all{{tasks}};
        stage_pass(all, rows).backward_weights();
    }
    void evaluate(team tasks, range rows) override {
        ranks_of_process<contexts> const all{{tasks}};
        stage_pass(all, rows).evaluate();
    }

    void enqueue_score(std::size_t shard, bool trains) override {
        auto const& k = trains ? context_->beside() : context_->kernels();
        add_scores(k, losses(), trains ? nullptr : correct(), &k.shard()->count, this->score_of(shard));
    }
    void enqueue_outputs(std::size_t k) override {
        compute.copy(this->outputs_of(k), context_->value(network::depth), this->output_bytes());
    }
    void read_output(std::size_t k, std::size_t i, T* to) const override {
        using out = typename network::output_extents;
        auto const* const first = static_cast<stored_type const*>(this->outputs_of(k));
        detail::copy_output<out>(first + i * out::size, 1, narrow::images_last, to);
    }
    void enqueue_narrow_copy() override {
        for (auto const& s : own_)
            narrow::copy(kernels_on(compute, 0), s.numbers.rows, s.numbers_in(weights(s), nullptr), narrow_copy(s));
    }
    void enqueue_update(int slot) override {
        auto const k = kernels_on(compute, 0);
        auto const* const both = reinterpret_cast<numbers const*>(stages_[slot].data());
        auto* const updates_made = detail::count_of_updates(detail::counts_updates<typename Model::optimizer>,
                                                            this->state_.data(), this->state_.bytes());
        for (auto const& s : own_) {
            auto const& n = s.numbers;
            auto* const sums = gradient_slot(s, 0);
            if constexpr (Model::clips) clip_values(k, sums, measured(), n.parameters);
            detail::update_runs<typename Model::optimizer>(
                k, this->updates_, {n.first_parameter, n.first_parameter + n.parameters}, weights(s),
                static_cast<T const*>(sums), static_cast<T*>(this->state_.data()) + s.lies.state, n.buffers_lie, both,
                both + 1, updates_made);
            if (n.buffers != 0)
                update_running(k, weights(s) + n.buffers_lie, static_cast<T const*>(sums + n.buffers_lie),
                               static_cast<T>(statistics_momentum), n.buffers);
        }
        if constexpr (detail::counts_updates<typename Model::optimizer>) k.each(1, blocks::one_more{updates_made});
    }

private:
    using activations = stage_activations<Model, context>;

    /// The contexts of a team's tasks.
    struct contexts {
        struct iterator {
            placed_task const* at;
            context const& operator*() const noexcept {
                return *static_cast<stream_rank_of const&>(*at->rank).context_;
            }
            iterator& operator++() noexcept { return ++at, *this; }
            bool operator==(iterator const&) const = default;
        };
        team tasks;
        iterator begin() const noexcept { return {tasks.data()}; }
        iterator end() const noexcept { return {tasks.data() + tasks.size()}; }
        context const& operator[](std::size_t i) const noexcept { return *iterator{&tasks[i]}; }
    };

    stream_rank_of(int device, parallel_layout const& l, int rank, std::size_t samples, memory_map const& map,
                   std::vector<activations> blocks)
        : base(facts, stage::template of_rank<Model, context>(l, rank, blocks), device, l, rank, samples, map),
          blocks_(std::move(blocks)), ready_(device) {
        if constexpr (Model::clips) {
            auto* to = static_cast<gradient_run*>(this->runs_.data());
            for (auto const& s : own_)
                for_each_gradient_piece<network>(
                    s.numbers.rows, [&](std::size_t, std::size_t first, std::size_t elements) {
                        *to++ = {first - s.numbers.first_parameter, static_cast<std::uint32_t>(elements)};
                    });
            if (this->runs_.bytes() != 0) compute.copy(runs(), this->runs_.data(), this->runs_.bytes());
        }
    }

    // Memory of a gradient's norm: the sums of all pieces, what was measured, and the runs of the own pieces.
    static constexpr bytes_t squares_bytes([[maybe_unused]] std::size_t pieces) noexcept {
        if constexpr (Model::clips)
            return round_up<bytes_t>(
                facts.pieces * sizeof(double) + sizeof(measured_norm) + pieces * sizeof(gradient_run), cache_line);
        else
            return 0;
    }

    /// `granule`: what to work on.
    kernels kernels_on(stream& s, int scratch, std::byte const* granule = nullptr) {
        auto const& room = this->scratch_[scratch];
        kernels k(s, granule_.samples, workspace{room.data(), room.bytes()}, this->libraries_);
        k.set_shard(reinterpret_cast<staged_shard const*>(granule));
        return k;
    }
    static stored_type* stored(std::byte* at) noexcept { return reinterpret_cast<stored_type*>(at); }
    stored_type* narrow_copy(stage const& s) const noexcept {
        return stored(static_cast<std::byte*>(this->narrow_.data()) + s.narrow_lies);
    }

    std::vector<activations> blocks_; ///< of its stages
    event ready_;
    std::optional<context> context_; ///< of the task that is handed over
};

/// The model that executors get of these types.
template<class Model, accelerator Device, class Options>
inline constexpr stream_model<typename Model::value_type, Device> stream_model_of{
    stream_rank_of<Model, Device, Options>::facts,
    &bytes_across<Model, typename stream_rank_of<Model, Device, Options>::context>,
    [](parallel_layout const& l) {
        std::vector<detail::tied_pair> all;
        if constexpr (Model::network::tied_gradients != 0)
            detail::for_each_tied<typename Model::network>(l, [&](detail::tied_pair const& p) { all.push_back(p); });
        return all;
    },
    []([[maybe_unused]] parallel_layout const& l, [[maybe_unused]] int stage) {
        if constexpr (Model::clips)
            return gradient_pieces<typename Model::network>(l.rows_of(stage, Model::network::depth));
        return range{};
    },
    [](parallel_layout const& l, int rank) {
        traffic sum;
        auto const add = [&](int, traffic const& t) { sum += t; };
        traffic_of_squares<Model>(l, rank, add);
        detail::traffic_of_ties<Model>(l, rank, add);
        return sum;
    },
    [](int device, parallel_layout const& l, int rank,
       std::size_t batch) -> std::unique_ptr<stream_rank<typename Model::value_type, Device>> {
        return std::make_unique<stream_rank_of<Model, Device, Options>>(device, l, rank, batch);
    }};

} // namespace trireme
