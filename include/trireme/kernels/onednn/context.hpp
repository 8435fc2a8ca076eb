// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/kernels/channels_last/policy.hpp>
#include <trireme/kernels/onednn/library.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <type_traits>
#include <vector>

namespace trireme::inline TRIREME_ISA {

/// A primitive with its arguments. They are bound once, but for pointers: a call looks up and allocates nothing of
/// ours.
class onednn_call {
public:
    onednn_call() = default;
    explicit onednn_call(dnnl::primitive p) : primitive_(std::move(p)) {}

    bool ready() const noexcept { return static_cast<bool>(primitive_); }

    /// Argument number `count`, in the order of these calls.
    void add(int name, onednn_library::memory_desc const& what, dnnl::engine const& engine, void* at = nullptr) {
        if (what.get_size() == 0) return;
        memories_[count_] = dnnl::memory(what, engine, DNNL_MEMORY_NONE);
        arguments_[count_] = {name, memories_[count_].get()};
        if (at != nullptr) bind(count_, at);
        ++count_;
    }
    void bind(int argument, void const* at) {
        check(dnnl_memory_set_data_handle(arguments_[argument].memory, const_cast<void*>(at)));
    }
    void run(dnnl::stream const& stream) const {
        check(dnnl_primitive_execute(primitive_.get(), stream.get(), count_, arguments_));
    }

private:
    static void check(dnnl_status_t status) { dnnl::error::wrap_c_api(status, "oneDNN: a primitive could not run"); }

    dnnl::primitive primitive_;
    dnnl::memory memories_[5];
    dnnl_exec_arg_t arguments_[5] = {};
    int count_ = 0;
};

/// A layer with weights, and its number of samples, as oneDNN takes them: the operation, its extents, and whether it
/// has a bias.
template<class Operation>
struct onednn_layer {
    Operation operation;
    dnnl::memory::dims x, weights, y;
    bool bias = true;
};

/// An onednn_layer with its input, weights and output as Trireme stores them: x and y as numbers of type A, the others
/// as float.
template<class Operation, class A>
struct onednn_described_layer {
    static constexpr auto stored =
        std::is_same_v<A, bf16> ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;

    Operation operation;
    dnnl::memory::dims weights;
    onednn_library::memory_desc x, w, b, y;

    explicit onednn_described_layer(onednn_layer<Operation> const& l)
        : operation(l.operation), weights(l.weights), x(plain(l.x, stored, tag::nhwc)),
          w(plain(l.weights, type::f32, tag::oihw)),
          b(l.bias ? onednn_library::memory_desc({l.weights[0]}, type::f32, tag::a) : onednn_library::memory_desc()),
          y(plain(l.y, stored, tag::nhwc)) {}

private:
    using tag = dnnl::memory::format_tag;
    using type = dnnl::memory::data_type;
    static onednn_library::memory_desc plain(dnnl::memory::dims const& dims, type of_numbers, tag of_images) {
        return {dims, of_numbers, dims.size() == 4 ? of_images : tag::ab};
    }
};

/// Of one device: engine, primitives by layer and number of samples, and their memory.
///
/// oneDNN keeps weights in blocks of its own choice. They are caches, filled from the parameters when a layer first
/// needs them in a step; gradients by them are added to ours, in ours.
template<class A>
class onednn_context {
    using memory_desc = onednn_library::memory_desc;
    template<class Operation>
    using described = onednn_described_layer<Operation, A>;

public:
    /// The memory of a device, a declared limit; see `places`.
    static constexpr std::size_t bytes(layer_shapes const* rows, std::size_t count, std::size_t samples) {
        return places::of(rows, count, samples).bytes;
    }

    /// `memory`: that many bytes.
    onednn_context(layer_shapes const* rows, std::size_t count, std::size_t samples, void* memory)
        : places_(places::of(rows, count, samples)), memory_(static_cast<std::byte*>(memory)), layers_(count) {
        auto at = places_.caches;
        for (std::size_t i = 0; i < count; ++i) {
            layers_[i].shapes = rows[i];
            layers_[i].forward.at = at;
            layers_[i].backward.at = at += layers_[i].room = places::template blocked_bytes<A>(rows[i]);
            at += layers_[i].room;
        }
        onednn_library::one_thread const alone;
        engine_ = dnnl::engine(dnnl::engine::kind::cpu, 0);
        stream_ = dnnl::stream(engine_);
    }

    /// Of a step or an evaluation: the parameters are others than before.
    onednn_library::one_thread begin() {
        ++version_;
        return {};
    }
    void prepare(bool on) noexcept { preparing_ = on; }
    bool preparing() const noexcept { return preparing_; }
    layer_shapes const& shapes(std::size_t row) const noexcept { return layers_[row].shapes; }

    /// y = operation(x, w, b)
    template<class Operation>
    void forward(std::size_t row, std::size_t samples,
                 onednn_layer<Operation> (*describe)(std::size_t, layer_shapes const&), A const* x, float const* w,
                 float const* b, A* y) {
        auto& of = calls_of(row, samples);
        if (!of.forward.ready())
            explaining([&] { make_forward(row, of, described<Operation>(describe(samples, layers_[row].shapes))); });
        if (preparing_) return;
        of.forward.bind(0, x);
        of.forward.bind(1, weights(layers_[row].forward, of.load_forward, of.forward_wants, w));
        of.forward.bind(2, y);
        if (b != nullptr) of.forward.bind(3, b);
        of.forward.run(stream_);
    }

    /// dx = the gradient by x
    template<class Operation>
    void backward_input(std::size_t row, std::size_t samples,
                        onednn_layer<Operation> (*describe)(std::size_t, layer_shapes const&), float const* w,
                        A const* dy, A* dx) {
        auto& of = calls_of(row, samples);
        if (!of.backward_input.ready())
            explaining(
                [&] { make_backward_input(row, of, described<Operation>(describe(samples, layers_[row].shapes))); });
        if (preparing_) return;
        of.backward_input.bind(0, dx);
        of.backward_input.bind(1, weights(layers_[row].backward, of.load_backward, of.backward_wants, w));
        of.backward_input.bind(2, dy);
        of.backward_input.run(stream_);
    }

    /// dw += the gradient by w, db += that by b, of `outputs` numbers, unless db is null
    template<class Operation>
    void backward_weights(std::size_t row, std::size_t samples,
                          onednn_layer<Operation> (*describe)(std::size_t, layer_shapes const&), A const* x,
                          A const* dy, float* dw, float* db, std::size_t outputs) {
        auto& of = calls_of(row, samples);
        if (!of.backward_weights.ready())
            explaining(
                [&] { make_backward_weights(row, of, described<Operation>(describe(samples, layers_[row].shapes))); });
        if (preparing_) return;
        of.backward_weights.bind(0, x);
        of.backward_weights.bind(1, dy);
        of.backward_weights.run(stream_);
        of.add_weights.bind(1, dw);
        of.add_weights.run(stream_);
        if (db == nullptr) return;
        auto const* const bias = reinterpret_cast<float const*>(memory_ + places_.bias_gradient);
        for (std::size_t i = 0; i < outputs; ++i) db[i] += bias[i];
    }

private:
    /// The areas of the context's memory: one scratchpad, one gradient of weights and of biases at a time, and for each
    /// layer its weights twice, as forward and as backward want them.
    struct places {
        std::size_t scratch = 0, scratch_bytes = 0, gradient = 0, gradient_bytes = 0, bias_gradient = 0, caches = 0,
                    bytes = 0;

        /// Blocks are of 8, 16, 32, 48 or 64 channels, filled up with zeros.
        static constexpr std::size_t padded(std::size_t channels) noexcept {
            auto const by_64 = round_up<std::size_t>(channels, 64), by_48 = round_up<std::size_t>(channels, 48);
            return by_64 > by_48 ? by_64 : by_48;
        }
        /// Values of a sample, channels filled up.
        static constexpr std::size_t padded(shape const& s) noexcept {
            return s.size() / s.extent[0] * padded(s.extent[0]);
        }
        static constexpr std::size_t blocked_weights(layer_shapes const& l) noexcept {
            auto const& w = l.weights;
            if (w.rank < 2) return 0;
            auto const of_output = w.rank == 4 ? padded(w.extent[1]) * w.extent[2] * w.extent[3] : padded(l.viewed);
            return padded(w.extent[0]) * of_output;
        }
        /// A layer's weights in blocks: as A for forward and backward, as float for their gradient.
        template<class As>
        static constexpr std::size_t blocked_bytes(layer_shapes const& l) noexcept {
            return round_up(blocked_weights(l) * sizeof(As), cache_line);
        }
        /// A convolution may be made a product of matrices, sample by sample: one has all taps of a sample, and
        /// gradients by weights are added up in a few copies. An inner product may copy all samples.
        static constexpr std::size_t scratch_limit(layer_shapes const& l, std::size_t samples) noexcept {
            auto const& w = l.weights;
            if (w.rank < 2) return 0;
            auto const outside = padded(l.viewed) + padded(l.output);
            std::size_t numbers = 2 * samples * outside, copies = 1;
            if (w.rank == 4) {
                auto const places = l.output.size() / l.output.extent[0] + l.viewed.size() / l.viewed.extent[0];
                numbers = 2 * outside + places * padded(l.viewed.extent[0]) * w.extent[2] * w.extent[3];
                copies = 5;
            }
            return numbers * sizeof(float) + copies * blocked_bytes<float>(l) + 256 * 1024;
        }
        static constexpr places of(layer_shapes const* rows, std::size_t count, std::size_t samples) {
            places p;
            std::size_t outputs = 0, weights = 0;
            for (std::size_t i = 0; i < count; ++i) {
                auto const blocked = blocked_bytes<float>(rows[i]), scratch = scratch_limit(rows[i], samples);
                weights += 2 * blocked_bytes<A>(rows[i]);
                if (blocked > p.gradient_bytes) p.gradient_bytes = blocked;
                if (scratch > p.scratch_bytes) p.scratch_bytes = scratch;
                if (blocked != 0 && rows[i].weights.extent[0] > outputs) outputs = rows[i].weights.extent[0];
            }
            p.gradient = p.scratch_bytes = round_up(p.scratch_bytes, cache_line);
            p.bias_gradient = p.gradient + p.gradient_bytes;
            p.caches = p.bias_gradient + round_up(outputs * sizeof(float), cache_line);
            p.bytes = p.caches + weights;
            return p;
        }
    };

    /// A layer's weights in blocks: as `held` wants them, of step `version`.
    struct cache {
        std::size_t at = 0;
        memory_desc held = {};
        std::uint64_t version = 0;
    };
    struct calls {
        std::size_t samples = 0;
        onednn_call forward, backward_input, backward_weights;
        onednn_call load_forward, load_backward, add_weights; ///< reorders; none where the weights lie as ours
        memory_desc forward_wants = {}, backward_wants = {};
    };
    struct layer {
        layer_shapes shapes = {};
        std::size_t room = 0;
        cache forward, backward;
        std::deque<calls> by_samples;
    };

    calls& calls_of(std::size_t row, std::size_t samples) {
        auto& all = layers_[row].by_samples;
        for (auto& of : all)
            if (of.samples == samples) return of;
        all.emplace_back().samples = samples;
        return all.back();
    }

    /// The weights as a primitive wants them.
    void const* weights(cache& c, onednn_call& load, memory_desc const& wanted, float const* w) {
        if (!load.ready()) return w;
        if (c.version != version_ || c.held != wanted) {
            load.bind(0, w);
            load.run(stream_);
            c.version = version_;
            c.held = wanted;
        }
        return memory_ + c.at;
    }

    /// Says in our words what oneDNN does not have.
    template<class Make>
    static void explaining(Make const& make) {
        try {
            make();
        } catch (dnnl::error const& e) {
            if (e.status != dnnl_unimplemented || !std::is_same_v<A, bf16>) throw;
            throw usage_error("kernels<onednn>: oneDNN has no bf16 for this processor, it takes AVX-512: leave out "
                              "precision<bf16>");
        }
    }
    template<class Operation>
    TRIREME_COLD void make_forward(std::size_t row, calls& of, described<Operation> const& l) {
        auto const pd = forward_desc(l);
        of.forward = ready_call(pd);
        of.forward.add(DNNL_ARG_SRC, l.x, engine_);
        of.forward.add(DNNL_ARG_WEIGHTS, pd.weights_desc(), engine_);
        of.forward.add(DNNL_ARG_DST, l.y, engine_);
        of.forward.add(DNNL_ARG_BIAS, l.b, engine_);
        of.forward_wants = load_as(pd.weights_desc(), l.w, row, layers_[row].forward, of.load_forward);
        add_scratch(of.forward, pd, row);
    }
    template<class Operation>
    TRIREME_COLD void make_backward_input(std::size_t row, calls& of, described<Operation> const& l) {
        auto const pd = l.operation.backward_input(engine_, own_scratch(), forward_desc(l), l.x,
                                                   any(l, described<Operation>::stored), l.y);
        of.backward_input = ready_call(pd);
        of.backward_input.add(DNNL_ARG_DIFF_SRC, l.x, engine_);
        of.backward_input.add(DNNL_ARG_WEIGHTS, pd.weights_desc(), engine_);
        of.backward_input.add(DNNL_ARG_DIFF_DST, l.y, engine_);
        of.backward_wants = load_as(pd.weights_desc(), l.w, row, layers_[row].backward, of.load_backward);
        add_scratch(of.backward_input, pd, row);
    }
    template<class Operation>
    TRIREME_COLD void make_backward_weights(std::size_t row, calls& of, described<Operation> const& l) {
        auto const pd = l.operation.backward_weights(engine_, own_scratch(), forward_desc(l), l.x,
                                                     any(l, dnnl::memory::data_type::f32), l.b, l.y);
        auto const wanted = pd.diff_weights_desc();
        check_room("gradients", row, wanted.get_size(), places_.gradient_bytes);
        of.backward_weights = ready_call(pd);
        of.backward_weights.add(DNNL_ARG_SRC, l.x, engine_);
        of.backward_weights.add(DNNL_ARG_DIFF_DST, l.y, engine_);
        of.backward_weights.add(DNNL_ARG_DIFF_WEIGHTS, wanted, engine_, memory_ + places_.gradient);
        of.backward_weights.add(DNNL_ARG_DIFF_BIAS, l.b, engine_, memory_ + places_.bias_gradient);
        add_scratch(of.backward_weights, pd, row);
        dnnl::post_ops sum;
        sum.append_sum(1.0f);
        auto adding = own_scratch();
        adding.set_post_ops(sum);
        of.add_weights = reorder(wanted, l.w, adding, row);
        of.add_weights.bind(0, memory_ + places_.gradient);
    }

    /// The call that copies weights into a cache, if they must lie otherwise than ours.
    memory_desc load_as(memory_desc const& wanted, memory_desc const& ours, std::size_t row, cache const& c,
                        onednn_call& load) {
        if (wanted == ours) return wanted;
        check_room("weights", row, wanted.get_size(), layers_[row].room);
        load = reorder(ours, wanted, own_scratch(), row);
        load.bind(1, memory_ + c.at);
        return wanted;
    }
    onednn_call reorder(memory_desc const& from, memory_desc const& to, dnnl::primitive_attr const& a,
                        std::size_t row) {
        dnnl::reorder::primitive_desc const pd(engine_, from, engine_, to, a);
        auto call = ready_call(pd);
        call.add(DNNL_ARG_FROM, from, engine_);
        call.add(DNNL_ARG_TO, to, engine_);
        add_scratch(call, pd, row);
        return call;
    }
    template<class Desc>
    void add_scratch(onednn_call& call, Desc const& pd, std::size_t row) {
        check_room("a scratchpad", row, pd.scratchpad_desc().get_size(), places_.scratch_bytes);
        call.add(DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc(), engine_, memory_);
    }
    static void check_room(char const* what, std::size_t row, std::size_t wanted, std::size_t limit) {
        if (wanted > limit)
            throw usage_error("kernels<onednn>: for " + std::string(what) + " of layer " + std::to_string(row) +
                              " oneDNN asks for " + std::to_string(wanted) + " bytes, the plan's limit is " +
                              std::to_string(limit) + ": use kernels<portable>, and report this");
    }

    template<class Operation>
    auto forward_desc(described<Operation> const& l) const {
        return l.operation.forward(engine_, own_scratch(), l.x, any(l, described<Operation>::stored), l.b, l.y);
    }
    template<class Operation>
    static memory_desc any(described<Operation> const& l, dnnl::memory::data_type of_numbers) {
        return memory_desc(l.weights, of_numbers, dnnl::memory::format_tag::any);
    }
    static dnnl::primitive_attr own_scratch() {
        dnnl::primitive_attr a;
        a.set_scratchpad_mode(dnnl::scratchpad_mode::user);
        return a;
    }
    template<class Desc>
    static onednn_call ready_call(Desc const& pd) {
        return onednn_call(dnnl::primitive(pd.get()));
    }

    places places_;
    std::byte* memory_;
    std::vector<layer> layers_;
    dnnl::engine engine_;
    dnnl::stream stream_;
    std::uint64_t version_ = 0;
    bool preparing_ = false;
};

} // namespace trireme::inline TRIREME_ISA
