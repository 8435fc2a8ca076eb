// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/activation_functions.hpp>
#include <trireme/kernels/kernel_context.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace trireme {

/// Memory of an accelerator that kernels of one stream may use as they like, one after the other.
struct workspace {
    void* data = nullptr;
    std::size_t bytes = 0;
};

/// Data about a shard's samples that kernels find in the accelerator's memory, because a captured graph has the
/// arguments of its kernels built in.
struct staged_shard {
    std::uint32_t count = 0; ///< of the samples that are there; those behind them weigh nothing
    std::uint32_t shard = 0; ///< logical, the same for any number of devices
    std::uint64_t first = 0; ///< number of its first sample in the shard
    std::uint64_t seed = 0;
    std::uint64_t step = 0;
    double share = 0;        ///< the shard's part of the batch
    std::uint64_t batch = 0; ///< samples of the step, over all shards
    double scale = 1;        ///< of their numbers, if these are bytes
    bool bytes = false;      ///< else as wide as parameters, and as they are computed with
};

/// The kernel policy of accelerators: our own block programs, specialised on the known shapes, for any accelerator.
///
/// Unlike the policies of the host it is an object: it knows the stream to hand its work to and how many samples there
/// are. Pointers that kernels take are to the accelerator's memory; samples lie one behind the other (so `Lanes` is 1:
/// value i of sample n stands at [n * size + i]). Every kernel gives the same bits whenever it runs, on any stream.
/// A policy of an accelerator with libraries derives from this one and replaces what its libraries do better.
template<accelerator_stream Stream>
class block_kernels : public kernel_context {
public:
    using stream = Stream;
    static constexpr char const* name = "blocks";
    static constexpr value_layout layout = value_layout::plain;
    static constexpr bool remote = true;
    static constexpr fusion fuses = fusion::on_both_sides;
    /// The function that backward begins with; see beginning_with.
    using prologue = identity_function;
    template<class T>
    static constexpr bool computes = std::is_floating_point_v<T> || std::is_same_v<T, bf16>;
    /// Most FLOPs, per sample, of a layer's gradients by its parameters that leave room on a device for others beside
    /// them. An estimate: 32 samples of more fill 100 blocks.
    static constexpr std::uint64_t most_flops_beside = 10'000'000;

    block_kernels(Stream& queue, std::size_t samples, workspace scratch) noexcept
        : queue_(&queue), samples_(samples), scratch_(scratch) {}

    Stream& queue() const noexcept { return *queue_; }
    std::size_t samples() const noexcept { return samples_; }
    workspace const& scratch() const noexcept { return scratch_; }

    /// In the accelerator's memory; kernels of layers that count samples or draw random numbers read it.
    staged_shard const* shard() const noexcept { return shard_; }
    void set_shard(staged_shard const* shard) noexcept { shard_ = shard; }

    /// A second input of forward, laid out as what it writes, which is added to that before the epilogue; or null.
    void const* addend() const noexcept { return addend_; }
    void set_addend(void const* addend) noexcept { addend_ = addend; }

    /// True if the gradients of the layer have no value yet: its kernels store their own, and add them to nothing. For
    /// layers whose description says that they can (stores_gradients).
    bool gradients_are_new() const noexcept { return gradients_are_new_; }
    void set_gradients_are_new() noexcept { gradients_are_new_ = true; }

    /// f(i) for all i in [0, n): of all samples, where it is about each value of each. F is a struct with a name at
    /// namespace scope.
    template<class F>
    void each(std::size_t n, F f) const {
        index_program<F> const program{f, n};
        if (n != 0) queue_->launch(program, program.blocks());
    }

private:
    Stream* queue_;
    std::size_t samples_;
    workspace scratch_;
    staged_shard const* shard_ = nullptr;
    void const* addend_ = nullptr;
    bool gradients_are_new_ = false;
};

/// A kernel policy of an accelerator, as a trainer makes and asks it: an object for one stream of Device and so many
/// samples. block_kernels has all of it but the constructor. What the policy's own kernels ask beside is their matter.
///
///     using stream = ...;                             // that of the device
///     static constexpr std::uint64_t most_flops_beside = ...;
///     policy(stream&, std::size_t samples, workspace, libraries&);
///     stream& queue() const;
///     std::size_t samples() const;
///     void set_shard(staged_shard const*);
///     staged_shard const* shard() const;
///     void set_addend(void const*);                   // if it fuses functions on both sides
///     void set_gradients_are_new();                   // if values are narrower than parameters
template<class K, class Device>
concept stream_kernels =
    kernel_policy<K> && accelerator_kernels<K> && std::copy_constructible<K> &&
    std::same_as<typename K::stream, typename Device::stream> &&
    std::constructible_from<K, typename K::stream&, std::size_t, workspace, typename Device::libraries&> &&
    requires(K& k, K const& c, staged_shard const* shard, void const* addend) {
        { K::most_flops_beside } -> std::convertible_to<std::uint64_t>;
        { c.queue() } -> std::same_as<typename K::stream&>;
        { c.samples() } -> std::same_as<std::size_t>;
        { c.shard() } -> std::same_as<staged_shard const*>;
        k.set_shard(shard);
        requires K::fuses != fusion::on_both_sides || requires { k.set_addend(addend); };
        requires std::same_as<stored_t<K, float>, float> || requires { k.set_gradients_are_new(); };
    };

/// Policy adapter for values that lie in memory as numbers of type A, in this layout. Kernels learn both from their
/// arguments and from the geometry's type.
template<accelerator_kernels Kernels, class A, value_layout Layout>
class values_as : public Kernels {
public:
    using adapted = values_as;
    static constexpr value_layout layout = Layout;
    template<class T>
    using stored = A;
    using Kernels::Kernels;
    explicit values_as(Kernels const& k) noexcept : Kernels(k) {}
};

/// Policy adapter `channels_last` stores images and weights channels last, as tensor cores require for bf16. For
/// precision<bf16>, whose narrow copy of the parameters is made in that order.
template<accelerator_kernels Kernels>
class channels_last : public values_as<Kernels, bf16, value_layout::channels_last> {
public:
    template<class T>
    static constexpr bool computes = std::is_same_v<T, bf16>;
    using values_as<Kernels, bf16, value_layout::channels_last>::values_as;
};

template<accelerator_kernels Kernels>
struct storing<Kernels, bf16> {
    using type = values_as<Kernels, bf16, Kernels::layout>;
};
template<accelerator_kernels Kernels>
struct storing<channels_last<Kernels>, bf16> {
    using type = typename channels_last<Kernels>::adapted;
};

/// Policy adapter for the way back of a layer whose forward ended with `Function`: dy is the gradient by what the
/// function gave, and the kernels multiply by its slope first, at the function's input computed again.
template<accelerator_kernels Kernels, class Function>
class beginning_with : public Kernels {
public:
    using prologue = Function;
    explicit beginning_with(Kernels const& k) noexcept : Kernels(k) {}
};

/// The kernels with a function to apply, for values as they lie for `k`; see with_function.
template<class Function, accelerator_kernels Kernels, class T>
auto applying(Kernels const& k, T const* input) noexcept {
    return with_function<Kernels, Function, T>(k, input);
}
template<class Function, class Kernels, class A, value_layout Layout>
auto applying(values_as<Kernels, A, Layout> const& k, A const* input) noexcept {
    using with = with_function<Kernels, Function, A>;
    return values_as<with, A, Layout>(with(k, input));
}

} // namespace trireme
