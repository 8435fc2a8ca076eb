// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/device/activation_functions.hpp>
#include <trireme/device/kernel_policy.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace trireme {

/// Memory of an accelerator that kernels of one stream may use as they like, one after the other.
struct workspace {
    void* data = nullptr;
    std::size_t bytes = 0;
};

/// What kernels need to know of a shard's samples and find in the accelerator's memory, because a captured graph has
/// the arguments of its kernels built in.
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
class block_kernels {
public:
    using stream = Stream;
    static constexpr char const* name = "blocks";
    template<class T>
    static constexpr std::size_t lanes = 1;
    template<class T>
    static constexpr bool computes = std::is_floating_point_v<T> || std::is_same_v<T, bf16>;

    block_kernels(Stream& queue, std::size_t samples, workspace scratch) noexcept
        : queue_(&queue), samples_(samples), scratch_(scratch) {}

    Stream& queue() const noexcept { return *queue_; }
    std::size_t samples() const noexcept { return samples_; }
    workspace const& scratch() const noexcept { return scratch_; }

    /// In the accelerator's memory; kernels of layers that count samples or draw random numbers read it.
    staged_shard const* shard() const noexcept { return shard_; }
    void set_shard(staged_shard const* shard) noexcept { shard_ = shard; }

    /// True if the gradients that kernels add to are zero, so that a kernel may write its own and not read them.
    bool gradients_are_zero() const noexcept { return gradients_are_zero_; }
    void set_gradients_are_zero() noexcept { gradients_are_zero_ = true; }

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
    bool gradients_are_zero_ = false;
};

template<class Stream>
block_kernels<Stream> blocks_of_(block_kernels<Stream> const&); // declared only: finds the base of a derived policy

/// A policy whose kernels run on an accelerator.
template<class K>
concept accelerator_kernels = requires(K const& k) { trireme::blocks_of_(k); };

/// Policy adapter `channels_last` stores images and weights channels last, as tensor cores require for bf16. The layout
/// is part of the kernel's geometry type; kernels receive the base policy. For precision<bf16>, whose narrow copy of
/// the parameters is made in that order.
template<accelerator_kernels Kernels>
class channels_last : public Kernels {
public:
    static constexpr bool keeps_channels_last = true;
    template<class T>
    static constexpr bool computes = std::is_same_v<T, bf16>;
    using called = called_t<Kernels>;
    using Kernels::Kernels;
    explicit channels_last(Kernels const& k) noexcept : Kernels(k) {}
};

/// The same kernels for values that lie in memory as bf16; what they are called with is the policy itself.
template<accelerator_kernels Kernels>
class storing_bf16 : public Kernels {
public:
    using called = called_t<Kernels>;
    using stored_values = bf16;
    using Kernels::Kernels;
    explicit storing_bf16(Kernels const& k) noexcept : Kernels(k) {}
};
template<accelerator_kernels Kernels>
struct storing<Kernels, bf16> {
    using type = storing_bf16<Kernels>;
};

/// The same kernels, applying `Function` where the layer that is computed ends: forward writes Function::value(y);
/// backward_input multiplies what it writes, the gradient by its input x, by Function::slope(x, x), for its input is
/// what the function gave (`input`: that x). A layer's kernels say that they can by overloading on this type.
template<class Kernels, class Function, class T>
class with_function : public Kernels {
public:
    using function = Function;
    explicit with_function(Kernels const& k, T const* input = nullptr) noexcept : Kernels(k), input_(input) {}

    T const* input() const noexcept { return input_; }
    Kernels const& without() const noexcept { return *this; }

private:
    T const* input_;
};

} // namespace trireme
