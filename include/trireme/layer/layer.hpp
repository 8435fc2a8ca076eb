// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/extents.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/core/words.hpp>
#include <trireme/device/host/isa.hpp>
#include <trireme/kernels/granule_place.hpp>
#include <trireme/kernels/kernel_context.hpp>
#include <trireme/kernels/views.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace trireme {

/// First values of a parameter tensor: `weights` by the trainer's initialiser (Xavier, He, ...), which uses the fans.
enum class initial : std::uint8_t { weights, zeros, ones };

/// One parameter tensor: its shape in PyTorch's layout, and how many inputs and outputs each of its elements connects.
struct parameter_tensor {
    char const* name = "";           ///< the name in files of weights, behind that of its layer
    trireme::shape shape = {};       ///< the shape in PyTorch's layout
    std::size_t fan_in = 1;          ///< inputs that each element connects
    std::size_t fan_out = 1;         ///< outputs that each element connects
    initial init = initial::weights; ///< the rule of its first values
};

inline constexpr int max_parameter_tensors = 8;
inline constexpr int max_buffer_tensors = 2;

/// The weight of one step in a buffer, a running statistic: buffer += statistics_momentum * (of this step - buffer).
inline constexpr double statistics_momentum = 0.1; // PyTorch's default

inline constexpr int max_exchanges = 2;

/// Numbers of those that a layer keeps of a shard, which are added over all devices, and replaced by the sums.
struct layer_exchange {
    std::size_t first = 0;    ///< the first of its numbers, among those that the layer keeps
    std::size_t elements = 0; ///< numbers, from `first` on
};

/// The agreement of a layer with the samples of a shard: after each granule has been shown to the layer, it computes
/// once for all of them, in phases, and between two phases the devices add numbers.
struct layer_agreement {
    int phases = 0; ///< phases of the layer's computing; 0: samples need nothing of each other
    layer_exchange after[max_exchanges] = {}; ///< after[k]: between phase k and phase k + 1

    constexpr int exchanges() const noexcept { return phases == 0 ? 0 : phases - 1; }
};

/// Execution hints of a layer: they change memory and time, and no number that the layer computes.
struct layer_execution {
    bool backward_reads_input = true;  ///< false frees the input of this layer sooner
    bool backward_reads_output = true; ///< false frees its output sooner
    bool in_place = false;             ///< y[i] needs x[i] alone, dx[i] dy[i]: each may overwrite the other
    bool applies = false;         ///< kernels of the layer can apply a function to what they write, if they fuse at all
    bool adds = false;            ///< likewise, its forward kernel can add a second input to what it writes
    bool subtracts_means = false; ///< a number added to all values of an input's channel is subtracted again
    bool view = false;            ///< the output is the input under another shape: nothing runs, nothing is stored
    bool sample_by_sample = false;     ///< a sample fills registers by itself, and needs no others beside it
    bool stores_gradients = false;     ///< backward_weights may store its own, where gradients have no value yet
    bool parameters_as_values = false; ///< kernels take parameters as narrow as values, where values are narrower
};

/// A layer's answer when it is shown the shape of its input. Everything the compiler, the plan and the network table
/// know of a layer is in here. FLOPs are per sample; a multiply-add counts as two.
struct layer_description {
    trireme::shape output = {};                              ///< the shape of a sample's output
    flops_t forward_flops = 0;                               ///< FLOPs of forward
    flops_t backward_input_flops = 0;                        ///< FLOPs of backward_input
    flops_t backward_weights_flops = 0;                      ///< FLOPs of backward_weights
    int parameter_count = 0;                                 ///< parameter tensors, at most max_parameter_tensors
    parameter_tensor parameters[max_parameter_tensors] = {}; ///< the first parameter_count of them count
    int channel_bias =
        -1; ///< number of its last tensor, if that is a bias added last, to all values of a channel; -1: none
    int buffer_count = 0;                              ///< buffers, at most max_buffer_tensors
    parameter_tensor buffers[max_buffer_tensors] = {}; ///< running statistics: kept, saved and agreed on, not trained
    std::size_t kept = 0;                              ///< numbers per shard, kept from forward to backward
    /// Bytes per sample that a forward kernel may save for the way back, which then reads them instead of the input.
    std::size_t saved_bytes = 0;
    layer_agreement forward = {};   ///< agreement before it gives y
    layer_agreement backward = {};  ///< agreement before it gives dx
    std::size_t least_samples = 1;  ///< samples of a shard that training needs; with exchanges, of the whole batch
    std::size_t vocabulary = 0;     ///< classes that the inputs of a network's first layer are; 0: they are values
    bool embeds = false;            ///< parameters are the vectors of tokens, or of their places
    bool adds_to_loss = false;      ///< true: in training it adds a term to each sample's loss
    bool accepts = true;            ///< false: the layer's `refusal` says why
    layer_execution execution = {}; ///< hints that change memory and time, and no number

    constexpr std::size_t parameter_elements() const noexcept {
        std::size_t sum = 0;
        for (int i = 0; i < parameter_count; ++i) sum += parameters[i].shape.size();
        return sum;
    }
    /// True if both have parameter tensors of the same shapes.
    constexpr bool has_parameters_of(layer_description const& other) const noexcept {
        for (int i = 0; i < parameter_count && parameter_count == other.parameter_count; ++i)
            if (!(parameters[i].shape == other.parameters[i].shape)) return false;
        return parameter_count == other.parameter_count;
    }
    constexpr std::size_t buffer_elements() const noexcept {
        std::size_t sum = 0;
        for (int i = 0; i < buffer_count; ++i) sum += buffers[i].shape.size();
        return sum;
    }
    /// True if the layer needs all samples of a shard before it can give any, and those of all devices.
    constexpr bool whole_shard() const noexcept { return forward.phases + backward.phases != 0; }
    constexpr bool whole_batch() const noexcept { return exchanges() != 0; }
    constexpr int exchanges() const noexcept { return forward.exchanges() + backward.exchanges(); }
    /// True if backward reads the input. `saves_bytes`: layers save the bytes that they ask for.
    constexpr bool reads_input(bool saves_bytes) const noexcept {
        return execution.backward_reads_input && !(saves_bytes && saved_bytes != 0);
    }
    /// Gradients by parameters may be computed later, unless the layer agrees on something on its way back.
    constexpr bool weights_wait() const noexcept { return parameter_count > 0 && backward.phases == 0; }
};

/// A layer that refuses its input: the shapes stay valid so that one mistake is one error.
constexpr layer_description refused(shape input) noexcept {
    layer_description d;
    d.output = input;
    d.accepts = false;
    return d;
}

/// Arguments of a layer's functions beside values and parameters; most layers need none of them.
template<class T, class Stored = T>
struct layer_place {
    std::size_t layer = 0;         ///< number of its row in the network
    granule_place granule = {};    ///< the samples that the functions see, of the shard
    Stored const* other = nullptr; ///< the second input of a layer with two
    T* buffers = nullptr;          ///< the first of its buffers
    /// Sums for its buffers, which change after the step; to be added to, times the shard's share.
    T* statistics = nullptr;
    T* kept = nullptr; ///< the numbers that its description asks to be kept
    /// Bytes that its description asks to be saved, of all samples; null where kernels save none, or no backward reads
    /// them.
    std::uint8_t* saved = nullptr;
    bool bias_cancels = false;   ///< the row behind subtracts it again: pointers to the bias and its gradient are null
    T const* left_out = nullptr; ///< the bias that the row before has not added, because it cancels here
    /// Of a layer that adds to the loss, one for each sample: its term, to be written by forward, without a factor,
    /// null where nobody asks; and the factor of the sample's loss, for backward_input. See loss_io.
    T* loss = nullptr;
    T const* loss_weight = nullptr;  ///< the factor of each sample's loss, for backward_input
    std::uint32_t last_channels = 1; ///< channels of its input, if it lies channels last
};

inline namespace TRIREME_ISA {

/// Arguments of a layer's `forward`. x: input, y: output, both views of one granule. `parameter(k)`: the k-th tensor
/// described. `policy`: the kernels, to be passed on as the first argument of every kernel.
template<class T, class In, class Out, std::size_t Lanes, class Kernels>
struct forward_io {
    using value_type = T;                     ///< of parameters
    using stored_type = stored_t<Kernels, T>; ///< of x, y, dy and dx
    using kernels = Kernels;
    using input = In;
    using output = Out;
    static constexpr std::size_t lanes = Lanes;

    view_of<stored_type const, In, Lanes, Kernels> x; ///< the input, a view of one granule
    view_of<stored_type, Out, Lanes, Kernels> y;      ///< the output, a view of the same granule
    T const* const* parameters;                       ///< the tensors described, in their order
    [[no_unique_address]] Kernels policy;             ///< the first argument of every kernel
    layer_place<T, stored_type> const& place;         ///< arguments that few layers need

    T const* parameter(int k) const noexcept { return parameters[k]; }
};

/// Arguments of `backward_input` and `backward_weights`. dy: the loss's gradient by the output; dx: by the input, to be
/// written; `gradient(k)`: by the k-th parameter tensor, to be *added to*. x and y hold what the forward pass left, if
/// the description says that they are read.
template<class T, class In, class Out, std::size_t Lanes, class Kernels>
struct backward_io {
    using value_type = T;                     ///< of parameters
    using stored_type = stored_t<Kernels, T>; ///< of x, y, dy and dx
    using kernels = Kernels;
    using input = In;
    using output = Out;
    static constexpr std::size_t lanes = Lanes;

    view_of<stored_type const, In, Lanes, Kernels> x;   ///< the input, if the description says that it is read
    view_of<stored_type const, Out, Lanes, Kernels> y;  ///< the output, if the description says that it is read
    view_of<stored_type const, Out, Lanes, Kernels> dy; ///< the loss's gradient by the output
    view_of<stored_type, In, Lanes, Kernels> dx;        ///< the loss's gradient by the input, to be written
    T const* const* parameters;                         ///< the tensors described, in their order
    T* const* gradients;                                ///< the loss's gradients by them, to be added to
    [[no_unique_address]] Kernels policy;               ///< the first argument of every kernel
    layer_place<T, stored_type> const& place;           ///< arguments that few layers need

    T const* parameter(int k) const noexcept { return parameters[k]; }
    T* gradient(int k) const noexcept { return gradients[k]; }
};

} // namespace TRIREME_ISA

namespace detail {

/// A description that the compiler can compute, of a list or of an image.
template<class L>
concept described_by_the_compiler = requires { typename std::bool_constant<L::describe(make_shape(1)).accepts>; } ||
                                    requires { typename std::bool_constant<L::describe(make_shape(1, 1, 1)).accepts>; };

} // namespace detail

/// A layer is a type that describes and computes one operation of a network. This concept asks for the description
/// alone, which is all that a network's shapes need; `layer_on` asks for the functions, too.
///
///     static constexpr layer_description describe(shape input);
///     static void forward(auto const& io);          // forward_io: reads x, writes y
///     static void backward_input(auto const& io);   // backward_io: reads dy, writes dx
///     static void backward_weights(auto const& io); // with parameters: reads dy, adds to gradient(k)
///     static void evaluate(auto const& io);         // forward_io: where training differs from evaluation
///
/// A layer whose description has an agreement is shown all granules of a shard before it computes any of them, and then
/// once, phase by phase, the shard as a whole, with the views of its first granule; it leaves what it finds in
/// `io.place.kept`. Between two phases the devices add what its `exchange` names:
///
///     static void forward_gather(auto const& io);             // each granule, x is there
///     static void forward_agree(auto const& io, int phase);   // once each; then forward, each granule
///     static void backward_gather(auto const& io);            // each granule, dy is there
///     static void backward_agree(auto const& io, int phase);  // once each; then backward_input, each granule
///
/// Outside of training nothing is gathered, so that a layer which agrees forward has `evaluate`.
/// Its parameters are trained there, too: gather and agree add to gradient(k), and there is no backward_weights.
/// `forward` may be called a second time, on the way back, where values are not kept: it gives the same values from the
/// same x and the same `kept`, and counts nothing. Gathering and agreeing are not repeated.
/// A layer may add a term to each sample's loss, as penalties do, on any stage: where `io.place.loss` is not null,
/// forward writes a number for each sample there, and backward_input adds its gradient times `io.place.loss_weight` to
/// what comes from dy. Outside of training there is no such term.
/// A layer may name the one that computes in rows tied to its own, which has the same parameters: `using tied_as`.
/// A layer's `takes_narrow` and `function` count only if it names itself, `using itself = relu`, and so does what its
/// description says of its kernels and its neighbours' (detail::description_in_row): a layer that derives from it has
/// another name, and functions of its own.
/// If `describe` refuses some inputs, it has a rule that says so: `template<class Where, class In> using refusal`.
/// Layers store nothing: whatever they need is in the views, so the same code runs on any slice of any device.
template<class L>
concept layer = requires(shape s) {
    { L::describe(s) } -> std::same_as<layer_description>;
} && detail::described_by_the_compiler<L>;

template<class... Where>
struct untrained_parameters_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0075: this layer has parameters and no `static void backward_weights(auto const& io)`, so that "
                  "they would never be trained: add it under exactly this name (it adds to io.gradient(k)), or "
                  "describe no parameters");
};

template<class... Where>
struct description_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0152: the description of this layer asks for what cannot be: a layer has at most 8 parameter "
                  "tensors and 2 buffers, and 3 phases each way; its channel_bias is the number of its last "
                  "parameter tensor, or -1; what it exchanges after a phase lies among the numbers `kept`; and with "
                  "`view` or `in_place` "
                  "its output has as many values as the input");
    static_assert(max_parameter_tensors == 8 && max_buffer_tensors == 2 && max_exchanges == 2);
};

template<class... Where>
struct uncalled_evaluate_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0150: this layer has an `evaluate` that cannot be called with what `forward` takes, so that "
                  "outside of training `forward` would be called: write `static void evaluate(auto const& io)`, or "
                  "leave it out");
};

namespace detail {

/// True if a layer names itself, `using itself = relu;`: then its kernels may be asked for narrow granules, other
/// layers may apply its function, and it may do work of theirs. A layer that derives from it may have functions of its
/// own.
template<class L>
inline constexpr bool names_itself = false;
template<class L>
    requires std::is_same_v<typename L::itself, L>
inline constexpr bool names_itself<L> = true;

struct backward_weights_of_nobody {
    int backward_weights;
};
template<class L>
struct with_a_second_backward_weights : L, backward_weights_of_nobody {};

/// True if a layer has a member of that name, whatever it takes: then the name is ambiguous beside a second one.
template<class L>
inline constexpr bool names_backward_weights = !requires { &with_a_second_backward_weights<L>::backward_weights; };

struct evaluate_of_nobody {
    int evaluate;
};
template<class L>
struct with_a_second_evaluate : L, evaluate_of_nobody {};

/// True if a layer has a member of that name; likewise.
template<class L>
inline constexpr bool names_evaluate = !requires { &with_a_second_evaluate<L>::evaluate; };
template<class L>
    requires std::is_final_v<L>
inline constexpr bool names_evaluate<L> = false; // nobody can tell

/// The evaluation of a layer with such an `Io`: by its own `evaluate`, or as it goes forward. A function of that name
/// that cannot be called breaks a rule.
template<class L, class Io>
struct evaluate_of {
    static constexpr bool is_own = requires(Io const& io) { L::evaluate(io); };
    static constexpr std::conditional_t<is_own || !names_evaluate<L>, no_rule, uncalled_evaluate_rule<gets<L>>>
        checked{};
};

/// True if a description keeps to its arrays, and what it says of memory is so on such an input.
constexpr bool is_possible(layer_description const& d, shape const& input) noexcept {
    bool all = d.parameter_count >= 0 && d.parameter_count <= max_parameter_tensors && d.buffer_count >= 0 &&
               d.buffer_count <= max_buffer_tensors &&
               (d.channel_bias == -1 || (d.channel_bias >= 0 && d.channel_bias + 1 == d.parameter_count));
    if (d.execution.view || d.execution.in_place) all = all && d.output.size() == input.size();
    for (auto const* way : {&d.forward, &d.backward}) {
        all = all && way->phases >= 0 && way->exchanges() <= max_exchanges;
        for (int k = 0; all && k < way->exchanges(); ++k)
            all = way->after[k].first <= d.kept && way->after[k].elements <= d.kept - way->after[k].first;
    }
    return all || !d.accepts;
}

/// Plain arguments of a layer's functions have kernels that say no more than they must.
template<class L, class In>
struct plain_io {
    static constexpr layer_description description = L::describe(In::shape);
    static constexpr auto const& of = description.output.extent;
    using output = to_extents<description.output.rank, of[0], of[1], of[2], of[3]>;
    using forward = forward_io<float, In, output, 1, kernel_context>;
    using backward = backward_io<float, In, output, 1, kernel_context>;
};

template<class L, class In>
constexpr bool has_functions() {
    if constexpr (!requires { typename std::bool_constant<L::describe(In::shape).accepts>; }) {
        return false; // it is no constant
    } else {
        using plain = plain_io<L, In>;
        using forward = typename plain::forward;
        using backward = typename plain::backward;
        constexpr auto d = plain::description;
        if constexpr (!is_possible(d, In::shape)) return false;
        if constexpr (!d.accepts) return requires { typename L::template refusal<void, In>; };
        if constexpr (!d.accepts || d.execution.view) return true;
        bool all = requires(forward const& f, backward const& b) {
            L::forward(f);
            L::backward_input(b);
        };
        if constexpr (d.forward.phases != 0)
            all = all && requires(forward const& f, int phase) {
                L::forward_gather(f);
                L::forward_agree(f, phase);
                L::evaluate(f); // where nothing is gathered
            };
        if constexpr (names_evaluate<L>) all = all && requires(forward const& f) { L::evaluate(f); };
        if constexpr (d.backward.phases != 0)
            all = all && requires(backward const& b, int phase) {
                L::backward_gather(b);
                L::backward_agree(b, phase);
            };
        else if constexpr (d.parameter_count > 0)
            all = all && requires(backward const& b) { L::backward_weights(b); };
        return all;
    }
}

/// True if a layer has parameters that nothing would train. Layers that agree on something train theirs there.
template<class L>
constexpr bool forgets_parameters(layer_description const& d) noexcept {
    if constexpr (std::is_final_v<L>)
        return false;
    else
        return d.accepts && d.parameter_count > 0 && d.backward.phases == 0 && !names_backward_weights<L>;
}

} // namespace detail

/// A layer on an input has all functions that its description of this input asks for: `layer_on<relu, input<3, 8,
/// 8>>`. The concept compiles no function and looks for no kernel. A view needs no functions; for an input that it
/// refuses, a layer has the rule `refusal` instead.
template<class L, class Input>
concept layer_on = layer<L> && detail::has_functions<L, typename Input::extents>();

} // namespace trireme
