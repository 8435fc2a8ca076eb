// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/floats.hpp>
#include <trireme/layer/cross_entropy.hpp>
#include <trireme/layer/network.hpp>
#include <trireme/optimizer/sgd.hpp>
#include <trireme/parallel/pieces.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/parallel/plan_text.hpp>
#include <trireme/trainer/fit.hpp>
#include <trireme/trainer/host_run.hpp>
#include <trireme/trainer/least_samples.hpp>
#include <trireme/trainer/options.hpp>
#include <trireme/trainer/predictions.hpp>
#include <trireme/trainer/snapshot.hpp>
#include <trireme/trainer/trainer_layouts.hpp>
#include <trireme/trainer/trainer_policies.hpp>
#include <trireme/trainer/trainer_rules.hpp>
#include <trireme/trainer/training_calls.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace trireme {

inline namespace TRIREME_ISA {

/// A training program: a network, its loss, its optimizer, and policies in any order, each at most once.
///
/// The type is the composition; the object is the run: constructing it starts the devices, allocates everything and
/// proves what the compiler could not. It is used by one thread at a time. An exception on a device stops all devices
/// and reaches the caller as a device_error that names it; afterwards the trainer refuses to work.
template<class Network, class Loss, class Optimizer, class... Policies>
class trainer {
public:
    using rule =
        typename detail::only<decltype(detail::broken_trainer_rule<Network, Loss, Optimizer, Policies...>())>::type;
    static constexpr rule checked{};

    using policies = trainer_policies<Policies...>;
    using value_type = typename policies::dtype::value_type;
    // after a broken rule stand-ins keep the rest valid, so that one mistake is one error
    using network_type = std::conditional_t<is_network<Network>, Network, network<input<1>>>;
    using loss_type = std::conditional_t<loss<Loss>, Loss, cross_entropy>;
    using optimizer_type = std::conditional_t<optimizer<Optimizer>, Optimizer, sgd>;
    /// The options of training, and of the run in the second braces: `trainer t{{.learning_rate = 0.5f}, {.devices =
    /// 2}};`
    using options = typename optimizer_type::template options<typename option_fields<policies>::training>;
    using run_options = trireme::run_options<option_fields<policies>>;

private:
    using model_type = composition<network_type, loss_type, optimizer_type,
                                   kernels_of<network_type, typename policies::kernel_policy, loss_type>, value_type,
                                   policies::has_stages, policies::clips, policies::compresses>;
    using layouts = detail::trainer_layouts<model_type, policies>;
    using run_type = typename run_on<typename policies::mesh::device>::template type<
        model_type, options, typename policies::initialiser, typename policies::faults, typename policies::transport>;

    static_assert(layouts::template makes_a_step<rule>(), "the library's own step is no training step");

public:
    /// The layout that options mean.
    static constexpr parallel_layout layout_of(options const& o, run_options const& r = {}) {
        return layouts::make(r.devices.value, r.strategy.value, o.logical_shards.value, r.stages.value,
                             static_cast<std::size_t>(r.micro_batches.value), r.schedule);
    }
    /// Throws what the constructor would for options that cannot work, and makes nothing.
    static void check(options const& o, run_options const& r = {}) {
        layouts::check(layout_of(o, r), o.batch.samples);
        optimizer_type::check(o);
        if constexpr (policies::clips) detail::check_max_norm(o);
        if constexpr (detail::has_rate<options>) detail::check_rate_schedule(o.rate.value);
        detail::check_run_options(r);
    }

    /// The plan of a program of this type, its costs: memory per device, bytes on the wire, operations. A constant
    /// expression. Where a strategy follows groups of near devices, as that of transport<mpi> does, this plan has
    /// groups as even as it goes; those of the launch, and so what each rank reads, has only plan() of a trainer that
    /// is made.
    static constexpr training_plan plan(batch b)
        requires(policies::is_static)
    {
        return plan(b, layouts::make(policies::replicas, strategy_choice(typename policies::strategy{}),
                                     static_cast<std::size_t>(policies::shards), policies::stages, 0,
                                     typename option_fields<policies>::schedule{}));
    }
    template<class... Open>
        requires(!policies::is_static)
    static constexpr training_plan plan(batch, Open...) {
        static_assert(sizeof(open_plan_rule<gets<Policies>..., Open...>) != 0);
        return {};
    }
    /// The plan for a layout chosen when the program runs, cut as the type says if it does not say how. Throws
    /// usage_error if it has no device, no micro-batch, or more stages than the mesh, a pipeline or the network.
    static constexpr training_plan plan(batch b, parallel_layout const& layout) {
        return layouts::template plan<run_type>(b, layout);
    }

    /// Throws usage_error if the options break a rule, and, on the host, with the bytes of its plan if there is no
    /// memory for them. On the host it starts devices() - 1 threads.
    explicit trainer(options const& o = {}, run_options const& r = {}) try
        : run_((check(o, r), o), r, layout_of(o, r)) {
    } catch (...) {
        if constexpr (policies::on_host)
            detail::explain_bad_alloc(layout_of(o, r), o.batch.samples, &run_type::memory,
                                      model_type::trains ? "trainer" : "model");
    }

    int devices() const noexcept { return run_.state().layout.devices(); }
    training_plan plan() const { return plan(run_.state().options.batch, run_.state().layout); }

    /// The first of the devices that this process drives: 0 unless there are several processes.
    int rank() const noexcept { return run_.first_rank(); }

    /// One step on all of `samples`, of any source and however many (at least one): mean gradient, one update.
    step_report step(sample_set const& samples) {
        job const running(*this);
        auto& e = run_.state();
        e.use(samples);
        e.check_step(model_type::whole_shard);
        detail::check_least_samples<network_type>(e.layout, samples.size(), detail::sample_count::step);
        return run_.step();
    }

    template<class Other>
        requires(!std::convertible_to<Other const&, sample_set>)
    step_report step(Other const&) {
        return no_samples<Other, step_report>();
    }

    /// Mean loss and accuracy on all of `samples`, NaN if values have no right answers; the weights stay as they are.
    evaluation evaluate(sample_set const& samples) {
        job const running(*this);
        auto& e = run_.state();
        e.use(samples);
        run_.evaluate();
        return e.evaluated();
    }

    template<class Other>
        requires(!std::convertible_to<Other const&, sample_set>)
    evaluation evaluate(Other const&) {
        return no_samples<Other, evaluation>();
    }

    /// The network's outputs for all of `samples`, which need no targets, on all devices; the weights stay as they are.
    /// Every process of the trainer calls it, and gets all of them. Cost: the memory of the outputs, besides the
    /// plan's.
    predictions<value_type> predict(sample_set const& samples) {
        job const running(*this);
        run_.state().use(samples, false);
        constexpr auto output = network_type::output_extents::shape;
        constexpr auto scores = output.rank == 1 && output.size() > 1 ? output.size() : 0; // if no loss says more
        return {run_.predict(), output, model_type::trains ? meaning_of<loss_type>(output) : output_meaning{scores}};
    }

    template<class Other>
        requires(!std::convertible_to<Other const&, sample_set>)
    predictions<value_type> predict(Other const&) {
        static_cast<void>(no_samples<Other, evaluation>());
        return {{}, network_type::output_extents::shape, output_meaning{}};
    }

    /// Trains epoch by epoch while the result is iterated: `for (auto const& epoch : t.fit(data, {.epochs = 10}))`.
    /// Each epoch visits every sample of data.train once, in an order shuffled from the seed, and ends with a test on
    /// data.test if that is not empty. `patience` ends the fit when tests gain no more; with `keep_best` it ends with
    /// the weights of the best one.
    ///
    /// `observe(progress_report const&)` is called after every step, on the caller's thread; it must not use the
    /// trainer, and ends the fit as a device_error of device 0 if it throws. `observe(epoch_report const&)` is called
    /// after every epoch and its test; what it throws reaches the caller as it is. Observers have one of them or both,
    /// are called in the process of rank 0, and are copied: pass std::ref of one that keeps state.
    ///
    /// Throws usage_error for options that break a rule, and for a test set that the network cannot take.
    template<class Data = dataset, class Options = fit_options,
             class Observer = detail::default_observer<Data, Options>>
    [[nodiscard("fit trains while its result is iterated: write for (auto const& epoch : t.fit(data, {.epochs = 10})), "
                "or t.train(data, {.epochs = 10}) for all epochs at once")]]
    epoch_range<trainer, Observer, std::conditional_t<training_data<Data>, Data, dataset>>
    fit(Data data, Options const& o = detail::no_options<Data>(), Observer observe = {}) {
        if constexpr (!detail::is_training<Data, Options>) {
            return {*this, {}, detail::no_training<Data, Options>(), std::move(observe)};
        } else {
            if constexpr (!observer<Observer>) {
                [[maybe_unused]] static constexpr observer_rule<gets<Observer>> is_one{};
            }
            detail::check_fit_options(o, data.test.size() != 0, detail::has_accuracy<trainer>);
            if (data.test.size() != 0) ready().check(data.test);
            return {*this, std::move(data), o, std::move(observe)};
        }
    }

    /// Trains all epochs of `fit` and returns the report of the last, or with `keep_best` that of the best, whose
    /// weights the trainer has then; of 0 epochs an empty one.
    template<class Data = dataset, class Options = fit_options,
             class Observer = detail::default_observer<Data, Options>>
    epoch_report train(Data data, Options const& o = detail::no_options<Data>(), Observer observe = {}) {
        auto epochs = fit(std::move(data), o, std::move(observe));
        epoch_report last;
        for (auto const& epoch : epochs) last = epoch;
        if constexpr (std::convertible_to<Options const&, fit_options>)
            if (fit_options const& given = o; given.keep_best && epochs.best().epoch != 0) return epochs.best();
        return last;
    }

    /// Trains one epoch, the `epoch`-th of `epochs` of this fit. What `fit` calls. The order of samples follows from
    /// the seed and from how many epochs this trainer has trained before, so that two fits in a row are one longer fit.
    template<class Observer>
    TRIREME_COLD epoch_report train_epoch(sample_set const& samples, int epoch, int epochs, Observer& observe) {
        using clock = std::chrono::steady_clock;
        job const running(*this);
        auto& e = run_.state();
        e.check_epoch(samples.size());
        auto const start = clock::now();
        auto const batch = e.options.batch.samples;
        if (auto const rest = samples.size() % batch; rest != 0)
            detail::check_least_samples<network_type>(e.layout, rest, detail::sample_count::rest, samples.size());
        e.use(samples.of_epoch(e.options.seed, e.epochs));
        e.number_all(); // for the test after it
        if (e.order.size() != samples.size()) e.order = epoch_order(samples.size(), e.options.seed);
        e.order.shuffle(e.epochs++);
        e.begin_epoch();

        auto const since = [&] { return std::chrono::duration<double>(clock::now() - start).count(); };
        auto tell = [&]([[maybe_unused]] std::size_t b, [[maybe_unused]] double loss) {
            if constexpr (step_observer<Observer>)
                observe(progress_report{epoch, epochs, b + 1, e.order.batches(batch), loss, since(),
                                        std::min((b + 1) * batch, samples.size()), samples.size()});
        };
        e.observer = nullptr; // one that has thrown may have been left there
        if constexpr (step_observer<Observer>) {
            e.observer_state = &tell;
            e.observer = [](void* state, std::size_t b, double loss) {
                (*static_cast<decltype(tell)*>(state))(b, loss);
            };
        }
        run_.epoch();
        e.observer = nullptr;

        epoch_report r;
        auto const& times = run_.times();
        r.epoch = epoch;
        r.loss = e.epoch_loss();
        r.seconds = since();
        r.samples_per_second = static_cast<double>(samples.size()) / r.seconds;
        r.devices = devices();
        r.sync_share = times.synchronisation / times.step;
        r.data_share = times.data / times.step;
        return r;
    }

    /// All parameters in canonical coordinates: layer by layer, tensor by tensor, whatever the devices are. Every
    /// process of the trainer calls it, and gets all of them.
    std::vector<value_type> gather_parameters() const { return gathered({canonical_list::parameters}); }
    /// The running statistics of the network's layers, likewise.
    std::vector<value_type> gather_buffers() const { return gathered({canonical_list::buffers}); }
    /// f(piece) for what device `rank`, one of this process, computes with, parameters and buffers: see tensor_piece.
    /// What it shows is valid until the next call of the trainer; under hold_weights<once> it is one memory for all.
    template<class F>
    void for_each_piece(int rank, F&& f) const {
        check_ready();
        auto const& l = run_.state().layout;
        auto const role = l.role_of(checked_rank(rank));
        for (int stage = 0; stage < l.stage_count(); ++stage)
            if (auto const at = l.place_of(stage); at.role == role)
                for_each_piece_of<network_type>(run_.held(rank, at.chunk), f);
    }

    /// Sets the parameters of all devices.
    TRIREME_COLD void load_parameters(std::span<value_type const> values) {
        detail::check_count("load_parameters", values.size(), network_type::parameters, " parameters");
        check_ready();
        run_.take({.parameters = values});
    }

    /// Sets the parameters and the running statistics of all devices to what `read(parameters, buffers)` fills in, two
    /// spans. If it throws, nothing is changed. Where devices are processes all of them call it, and agree before
    /// anything is changed: what `read` throws on one rank is thrown there, and as a device_error that names the rank
    /// on all others; ranks that have read different values throw a mismatch_error. The trainer works on.
    template<class Read>
    void load(Read&& read) {
        check_ready();
        std::vector<value_type> parameters, buffers;
        together([&](auto const& same) {
            parameters.resize(network_type::parameters);
            buffers.resize(network_type::buffers);
            read(std::span(parameters), std::span(buffers));
            same(parameters);
            same(buffers);
        });
        run_.take({parameters, buffers});
    }

    /// The state of the training, with which another trainer goes on. Every process of the trainer calls it, and gets
    /// all of it. Cost: the memory of the parameters, times one more than the numbers that the optimizer keeps of each.
    training_snapshot<value_type> snapshot() const {
        check_ready();
        auto const& state = run_.state();
        training_snapshot<value_type> s{gather_parameters(), gather_buffers()};
        for (std::size_t k = 0; k < optimizer_type::state_per_parameter; ++k)
            s.optimizer.push_back(run_.gathered({canonical_list::optimizer, k}));
        s.updates = run_.updates();
        s.steps = run_.steps();
        s.epochs = state.epochs;
        s.seed = state.options.seed;
        s.learning_rate = state.options.learning_rate;
        return s;
    }

    /// Goes on from a state that `read(training_snapshot<value_type>&)` fills in: the next steps and epochs are those
    /// that the trainer of the snapshot would have made, on whatever devices, with the same bits where both are
    /// reproducible; what a trainer that compresses gradients has kept of them is in no snapshot. The lists have their
    /// sizes already. If `read` throws, nothing is changed; processes agree as in `load`. Errors: usage_error if a list
    /// has another size afterwards, the snapshot is of a training with another seed, or its learning rate is negative
    /// or not finite.
    template<class Read>
    void restore(Read&& read) {
        check_ready();
        training_snapshot<value_type> s{std::vector<value_type>(network_type::parameters),
                                        std::vector<value_type>(network_type::buffers)};
        s.optimizer.assign(optimizer_type::state_per_parameter, s.parameters);
        std::array<std::uint64_t, 3> counts{};
        together([&](auto const& same) {
            read(s);
            detail::check_snapshot(s, network_type::parameters, network_type::buffers,
                                   optimizer_type::state_per_parameter, run_.state().options.seed);
            static_cast<void>(with_rate(s.learning_rate));
            same(s.parameters);
            same(s.buffers);
            for (auto const& array : s.optimizer) same(array);
            same(counts = {s.updates, s.steps, s.epochs});
        });
        run_.take({s.parameters, s.buffers, s.optimizer, s.updates, s.steps, true});
        run_.state().epochs = s.epochs;
        run_.state().options.learning_rate = s.learning_rate;
    }

    /// Runs `f()` in this process. Where devices are processes all of them call it, and what it throws on one rank is
    /// thrown there, and as a device_error that names the rank on all others. The trainer works on.
    template<class F>
    void all_or_none(F&& f) const {
        check_ready();
        together([&](auto const&) { f(); });
    }

    /// Steps of the training so far, and epochs begun, those before `restore` included.
    std::uint64_t steps() const noexcept { return run_.steps(); }
    std::uint32_t epochs() const noexcept { return run_.state().epochs; }

    /// The options, `learning_rate` and the like as they are now.
    options const& current_options() const noexcept { return run_.state().options; }

    /// Sets the learning rate of all further steps. Throws usage_error if it is negative or not finite.
    void set_learning_rate(float rate) {
        check_ready();
        run_.state().options = with_rate(rate);
    }

    /// The program of device `rank`, one of this process: what it does in a step, not a description of it.
    /// table_of(t.program(0)) shows it.
    step_program const& program(int rank) const {
        check_ready();
        return run_.program(checked_rank(rank));
    }

    /// The tasks that the devices of this process have done, rank by rank, each with its times in seconds since the
    /// trainer was made: the last 65,535 of each, if the option `trace` was set. What is lost with a device that hangs
    /// or fails is the task that it was in. Accelerators note the times by their own clocks, from the first task on.
    /// trace_json writes them for ui.perfetto.dev, step_svg draws them.
    std::vector<timed_task> traced() const {
        if (std::atomic_ref(running_).load(std::memory_order_relaxed)) detail::refuse_second_use();
        return run_.traced();
    }

    /// Traffic that device `rank` has read from its peers since construction: as the threads counted it, or, on
    /// accelerators, what the tables of the collectives say, times the steps.
    traffic wire(int rank) const {
        check_ready();
        return run_.wire(checked_rank(rank));
    }

    /// Deviations of devices from what their kernels were asked, in sentences: block programs do what a library
    /// of a GPU cannot. Of this process; complete when the trainer is made.
    std::vector<std::string> notes() const {
        if constexpr (requires { run_.notes(); })
            return run_.notes();
        else
            return {};
    }

    /// Sets the running statistics of all devices.
    TRIREME_COLD void load_buffers(std::span<value_type const> values) {
        detail::check_count("load_buffers", values.size(), network_type::buffers, " in its buffers");
        check_ready();
        run_.take({.buffers = values});
    }

private:
    template<class Other, class Result>
    static Result no_samples() {
        [[maybe_unused]] static constexpr sample_source_rule<gets<Other>> is_one{};
        return {};
    }

    /// The options, but for the learning rate. Throws usage_error for one that no trainer can have.
    options with_rate(float rate) const {
        auto changed = run_.state().options;
        changed.learning_rate = rate;
        optimizer_type::check(changed);
        return changed;
    }

    std::vector<value_type> gathered(canonical_list const& list) const {
        check_ready();
        return run_.gathered(list);
    }

    /// Runs work(same) in all processes, and throws where it has failed in one of them, or where they have called
    /// same(list) with different lists.
    template<class Work>
    void together(Work const& work) const {
        std::vector<std::span<std::byte const>> lists;
        std::exception_ptr failed;
        try {
            work([&](auto const& list) { lists.push_back(std::as_bytes(std::span(list))); });
        } catch (...) {
            failed = std::current_exception();
        }
        if constexpr (requires { run_.agree(failed, lists); }) run_.agree(failed, lists);
        if (failed != nullptr) std::rethrow_exception(failed);
    }

    int checked_rank(int rank) const {
        if (rank >= 0 && rank < devices()) return rank;
        detail::refuse_rank(rank, devices());
    }

    /// Throws usage_error unless nobody is using the devices: none has failed (one that is stuck may still be reading),
    /// and no job is running (an observer is called while the other devices are in the next step).
    void check_ready() const {
        if (std::atomic_ref(running_).load(std::memory_order_relaxed)) detail::refuse_second_use();
        check_going();
    }
    void check_going() const {
        if (run_.stopped()) detail::refuse_stopped();
    }
    auto& ready() {
        check_ready();
        return run_.state();
    }

    /// The devices are at work as long as it lives. Throws usage_error if they are already, or work no more.
    class job {
    public:
        explicit job(trainer& t) : running_(t.running_) {
            t.check_going();
            if (running_.exchange(true)) detail::refuse_second_use();
        }
        job(job const&) = delete;
        job& operator=(job const&) = delete;
        ~job() { running_ = false; }

    private:
        std::atomic_ref<bool> running_;
    };

    run_type run_;
    alignas(std::atomic_ref<bool>::required_alignment) mutable bool running_ = false; ///< a job is in progress
};

/// A trainer whose devices all hold the whole model and share the batch.
template<class Network, class Loss, class Optimizer, class... Policies>
using data_parallel_trainer = trainer<Network, Loss, Optimizer, Policies...>;

} // namespace TRIREME_ISA
} // namespace trireme
