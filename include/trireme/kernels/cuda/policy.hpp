// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/extents.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/device/cuda/queue.hpp>
#include <trireme/kernels/blocks/channels.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/cuda/cublaslt.hpp>
#include <trireme/kernels/cuda/cudnn.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trireme::cuda_runtime {

/// The libraries of one device, for one thread. Each is opened when it is first needed, which takes a second or so and
/// device memory: never in a capture, so whoever captures a step has to take it once without.
class libraries {
public:
    explicit libraries(int device) : device_(device) {}

    cuda_runtime::cublaslt& cublaslt() {
        if (cublaslt_ == nullptr) cublaslt_ = std::make_unique<cuda_runtime::cublaslt>(device_);
        return *cublaslt_;
    }
    cuda_runtime::cudnn& cudnn() {
        if (cudnn_ == nullptr) cudnn_ = std::make_unique<cuda_runtime::cudnn>(device_);
        return *cudnn_;
    }

    /// Layers that block programs compute because a library cannot, in sentences.
    std::vector<std::string> notes() const { return cudnn_ == nullptr ? std::vector<std::string>() : cudnn_->notes(); }

private:
    int device_;
    std::unique_ptr<cuda_runtime::cublaslt> cublaslt_;
    std::unique_ptr<cuda_runtime::cudnn> cudnn_;
};

/// y = Function(y + b), for values of channels. G: a channel_geometry.
template<class Function, class G, class T>
struct bias_and_function {
    T const* b;
    T* y;
    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        using number = accumulate_t<T>;
        auto const bias = static_cast<number>(b[blocks::channel_of_value<G>(i).channel]);
        y[i] = static_cast<T>(Function::value(static_cast<number>(y[i]) + bias));
    }
};

/// db += dy, summed over samples and pixels. A block adds up one channel, or 32 whose values lie side by side; each
/// thread a part, and then half of the threads what the other half has.
template<std::size_t Channels, std::size_t Pixels, class T>
struct bias_gradient {
    using number = accumulate_t<T>;
    static constexpr std::uint32_t columns = Pixels == 1 ? 32 : 1, rows = Pixels == 1 ? 8 : 512;
    static constexpr std::uint32_t threads = columns * rows;
    static constexpr int halvings = Pixels == 1 ? 3 : 9;
    static_assert(1u << halvings == rows);
    static constexpr int phase_count = 1 + halvings;
    struct shared {
        number part[threads];
    };
    using own = nothing_kept;

    T const* dy;
    T* db;
    std::size_t samples;

    static constexpr std::uint32_t blocks() noexcept {
        return static_cast<std::uint32_t>((Channels + columns - 1) / columns);
    }
    TRIREME_HOST_DEVICE int phases() const { return phase_count; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own&) const {
        std::size_t const channel = std::size_t{at.block} * columns + at.thread % columns;
        std::uint32_t const row = at.thread / columns, left = rows >> k;
        if (channel >= Channels) return;
        if (k == 0) {
            number part = 0;
            for (std::size_t i = row; i < samples * Pixels; i += rows)
                part += static_cast<number>(dy[(i / Pixels * Channels + channel) * Pixels + i % Pixels]);
            s.part[at.thread] = part;
            return;
        }
        if (row >= left) return;
        number const sum = s.part[at.thread] + s.part[at.thread + left * columns];
        s.part[at.thread] = sum;
        if (left == 1) db[channel] = static_cast<T>(static_cast<number>(db[channel]) + sum);
    }
};

// From which size on a library is worth its price: its launches, and functions that are not part of its kernels.
// Estimates, not measured yet.

/// Most weights of a convolution that a block keeps in its shared memory, beside an image.
inline constexpr std::size_t most_weights_of_blocks = 16384;
template<class G>
inline constexpr bool convolution_for_library =
    G::channels * G::kernel * G::kernel * G::out_channels > most_weights_of_blocks;

/// Fewest weights of a matrix for which cuBLASLt has kernels that fill the GPU.
inline constexpr std::size_t fewest_weights_of_cublaslt = 65536;

/// Workspace of a stream, as large as the largest that a layer of the network asks for. cuDNN's deterministic gradients
/// by the weights add up parts, and may copy images in another order before; cuBLAS asks for half of this on Hopper;
/// block programs of layers that are not for libraries add up no more parts than these.
inline constexpr std::size_t workspace_of_cudnn = 512_MiB, workspace_of_cublaslt = 64_MiB, workspace_of_blocks = 16_MiB;
template<class G>
inline constexpr bool matrix_for_library = G::inputs * G::outputs >= fewest_weights_of_cublaslt;

} // namespace trireme::cuda_runtime

namespace trireme {

/// Kernels of a GPU that may come from cuBLASLt and cuDNN: where they are faster, or wherever they exist.
template<bool Everywhere>
class kernels_with_libraries : public block_kernels<cuda_runtime::stream> {
public:
    static constexpr char const* name = Everywhere ? "cuda libraries" : "cuda";
    static constexpr bool everywhere = Everywhere;

    /// Of each stream with kernels, for a layer with weights of this shape.
    static constexpr std::size_t workspace_bytes(shape const& weights) noexcept {
        if (weights.rank == 4 && (Everywhere || weights.size() > cuda_runtime::most_weights_of_blocks))
            return cuda_runtime::workspace_of_cudnn;
        if (weights.rank == 2 && (Everywhere || weights.size() >= cuda_runtime::fewest_weights_of_cublaslt))
            return cuda_runtime::workspace_of_cublaslt;
        return cuda_runtime::workspace_of_blocks;
    }

    kernels_with_libraries(stream& queue, std::size_t samples, workspace scratch,
                           cuda_runtime::libraries& opened) noexcept
        : block_kernels(queue, samples, scratch), opened_(&opened) {}

    cuda_runtime::libraries& libraries() const noexcept { return *opened_; }
    block_kernels const& blocks() const noexcept { return *this; }

private:
    cuda_runtime::libraries* opened_;
};

/// The default: libraries for what is large, block programs for what is small.
using cuda_kernels = kernels_with_libraries<false>;

/// Libraries for every layer that they know. Slower on small networks; to compare with.
using cuda_library_kernels = kernels_with_libraries<true>;

/// No library at all: the block programs that any accelerator runs.
class cuda_block_kernels : public block_kernels<cuda_runtime::stream> {
public:
    cuda_block_kernels(stream& queue, std::size_t samples, workspace scratch, cuda_runtime::libraries&) noexcept
        : block_kernels(queue, samples, scratch) {}
};

} // namespace trireme

namespace trireme::cuda_runtime {

/// The block programs of a policy, with the same function to apply.
template<bool Everywhere, class F, class T>
with_function<block_kernels<stream>, F, T>
blocks_of(with_function<kernels_with_libraries<Everywhere>, F, T> const& k) noexcept {
    return with_function<block_kernels<stream>, F, T>(k.blocks(), k.input());
}

/// y = F(y + b), each channel's. G: a channel_geometry.
template<class F, class G, class T>
void add_bias(block_kernels<stream> const& k, T const* b, T* y) {
    k.each(blocks::channel_values<G>(k), bias_and_function<F, G, T>{b, y});
}

/// db += dy, summed over samples and positions.
template<class G, class T>
void add_bias_gradient(block_kernels<stream> const& k, T const* dy, T* db) {
    if constexpr (G::channels_last) {
        blocks::add_channel_sums<G>(k, dy, db);
    } else {
        bias_gradient<G::channels, G::positions, T> const program{dy, db, k.samples()};
        k.queue().launch(program, program.blocks());
    }
}

} // namespace trireme::cuda_runtime
