// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/extents.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/cuda/queue.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/cuda/cublaslt.hpp>
#include <trireme/kernels/cuda/cudnn.hpp>
#include <trireme/kernels/library_sizes.hpp>

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

/// Workspace of a stream, as large as the largest that a layer of the network asks for. cuDNN's deterministic gradients
/// by the weights add up parts, and may copy images in another order before; cuBLAS asks for half of this on Hopper;
/// block programs of layers that are not for libraries add up no more parts than these.
inline constexpr std::size_t workspace_of_cudnn = 512_MiB, workspace_of_cublaslt = 64_MiB, workspace_of_blocks = 16_MiB;
} // namespace trireme::cuda_runtime

namespace trireme {

/// Kernels of a GPU that may come from cuBLASLt and cuDNN: where they are faster, or wherever they exist.
template<bool Everywhere>
class kernels_with_libraries : public block_kernels<cuda_runtime::stream> {
public:
    static constexpr char const* name = Everywhere ? "cuda libraries" : "cuda";
    static constexpr bool everywhere = Everywhere;

    /// Of each stream with kernels, for a layer with weights and an output of these shapes.
    static constexpr std::size_t workspace_bytes(shape const& weights, shape const& output,
                                                 std::size_t bytes_of_value) noexcept {
        if (weights.rank == 4 &&
            (Everywhere || cuda_runtime::convolution_for_library(weights.size(), output.extent[1] * output.extent[2],
                                                                 bytes_of_value)))
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

} // namespace trireme::cuda_runtime
