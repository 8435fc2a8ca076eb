// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// The only file that includes cudnn.h: its old calls serve here, and may one day have to be replaced by its graphs.

#include <trireme/core/bf16.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/device/cuda/errors.hpp>
#include <trireme/device/cuda/queue.hpp>
#include <trireme/kernels/blocks/policy.hpp>

#if !__has_include(<cudnn.h>)
#error "trireme/cuda.hpp needs cuDNN 9: install libcudnn9-dev-cuda-13 (or NVIDIA's archive) where nvcc looks"
#endif
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace trireme::cuda_runtime {

/// Throws accelerator_error unless a call of cuDNN has succeeded.
template<class Operation>
void check(cudnnStatus_t status, char const* call, int device, Operation const& operation) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    char why[512] = "";
    cudnnGetLastErrorString(why, sizeof why);
    throw accelerator_error(failure(call, device, text_of(operation), cudnnGetErrorString(status), why));
}

/// The formats in which cuDNN stores and multiplies a type. CUDNN_FMA_MATH keeps TF32 out, which has 10 bits of a
/// float's 23.
template<class T>
struct network_numbers;
template<>
struct network_numbers<float> {
    static constexpr cudnnDataType_t stored = CUDNN_DATA_FLOAT, computed = CUDNN_DATA_FLOAT;
    static constexpr cudnnMathType_t math = CUDNN_FMA_MATH;
    using scalar = float;
};
template<>
struct network_numbers<double> {
    static constexpr cudnnDataType_t stored = CUDNN_DATA_DOUBLE, computed = CUDNN_DATA_DOUBLE;
    static constexpr cudnnMathType_t math = CUDNN_FMA_MATH;
    using scalar = double;
};
template<>
struct network_numbers<bf16> {
    static constexpr cudnnDataType_t stored = CUDNN_DATA_BFLOAT16, computed = CUDNN_DATA_FLOAT;
    static constexpr cudnnMathType_t math = CUDNN_TENSOR_OP_MATH;
    using scalar = float;
};

/// A descriptor of cuDNN's.
template<class Descriptor, cudnnStatus_t (*Create)(Descriptor*), cudnnStatus_t (*Destroy)(Descriptor)>
class cudnn_descriptor {
public:
    cudnn_descriptor() { check(Create(&descriptor_), "a cudnnCreate...Descriptor", 0, "a descriptor"); }
    cudnn_descriptor(cudnn_descriptor const&) = delete;
    cudnn_descriptor& operator=(cudnn_descriptor const&) = delete;
    ~cudnn_descriptor() { static_cast<void>(Destroy(descriptor_)); }

    operator Descriptor() const noexcept { return descriptor_; }

private:
    Descriptor descriptor_ = nullptr;
};
using cudnn_tensor =
    cudnn_descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using cudnn_filter =
    cudnn_descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using cudnn_convolution =
    cudnn_descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;
using cudnn_pooling =
    cudnn_descriptor<cudnnPoolingDescriptor_t, cudnnCreatePoolingDescriptor, cudnnDestroyPoolingDescriptor>;

/// A conv2d_geometry and the number of samples, as numbers.
struct convolution_sizes {
    std::size_t samples, channels, height, width, out_channels, kernel, padding, stride, out_height, out_width;
    bool channels_last;

    template<class G>
    static convolution_sizes of(std::size_t samples) noexcept {
        return {samples,    G::channels, G::height,     G::width,     G::out_channels, G::kernel,
                G::padding, G::stride,   G::out_height, G::out_width, G::channels_last};
    }
    std::string text() const {
        auto const n = [](std::size_t i) { return std::to_string(i); };
        return "conv2d of " + n(samples) + " samples of " + n(channels) + " x " + n(height) + " x " + n(width) +
               " to " + n(out_channels) + " channels, kernel " + n(kernel) + ", padding " + n(padding) + ", stride " +
               n(stride) + (channels_last ? ", channels last" : "");
    }
};

enum class convolution_pass : std::uint64_t { forward, backward_input, backward_weights };

/// A pool2d_geometry and the number of samples, as numbers.
struct pooling_sizes {
    std::size_t samples, channels, height, width, kernel, stride, out_height, out_width;
    bool channels_last, maximum;

    template<class G>
    static pooling_sizes of(std::size_t samples, bool maximum) noexcept {
        return {samples,   G::channels,   G::height,    G::width,         G::kernel,
                G::stride, G::out_height, G::out_width, G::channels_last, maximum};
    }
    std::string text() const {
        auto const n = [](std::size_t i) { return std::to_string(i); };
        return std::string(maximum ? "max_pool2d" : "avg_pool2d") + " of " + n(samples) + " samples of " + n(channels) +
               " x " + n(height) + " x " + n(width) + ", window " + n(kernel) + ", stride " + n(stride) +
               (channels_last ? ", channels last" : "");
    }
};

/// cuDNN on one device, its descriptors, and which of its algorithms was chosen for which convolution. Used by one
/// thread. Algorithms are chosen by cuDNN's own expectation among those that give the same bits at every run, keep to
/// the workspace, and add up products in the type that was asked for: no FFT, and of Winograd's forms only the small
/// one, whose sums are as good as those of a product of matrices.
class cudnn {
    struct convolution_plan;

public:
    /// The old calls are not told how tensors are aligned; their kernels read 16 bytes at once.
    static constexpr std::size_t alignment = 16;

    explicit cudnn(int device) : device_(device) {
        on_device const here(device, "cuDNN");
        cudnnHandle_t handle = nullptr;
        check(cudnnCreate(&handle), "cudnnCreate", device, "cuDNN");
        handle_ = {handle, destroy{device}};
    }

    /// The plan of a convolution; null where cuDNN cannot do it, of which there is then a note: no algorithm that
    /// may be used keeps to the workspace, or the tensors are not `aligned`. The answer is the same at every call.
    template<class T>
    convolution_plan const* plan(convolution_sizes const& sizes, workspace const& scratch, convolution_pass which,
                                 bool aligned) {
        on_device const here(device_, sizes);
        auto const& made = convolution<T>(sizes, scratch.bytes, which, aligned);
        return made.usable ? &made : nullptr;
    }

    /// Requests that cuDNN could not meet, in sentences.
    std::vector<std::string> const& notes() const noexcept { return notes_; }

    /// y = conv(x, w)
    template<class T>
    void convolve(stream& queue, workspace const& scratch, convolution_sizes const& sizes, convolution_plan const& plan,
                  T const* x, T const* w, T* y) {
        on_device const here(device_, sizes);
        attach(queue, sizes);
        typename network_numbers<T>::scalar const one = 1, zero = 0;
        check(cudnnConvolutionForward(handle_.get(), &one, plan.x, x, plan.w, w, plan.how,
                                      static_cast<cudnnConvolutionFwdAlgo_t>(plan.algorithm), scratch.data,
                                      plan.workspace, &zero, plan.y, y),
              "cudnnConvolutionForward", device_, sizes);
    }

    /// dx = the gradient by x
    template<class T>
    void convolve_backward_input(stream& queue, workspace const& scratch, convolution_sizes const& sizes,
                                 convolution_plan const& plan, T const* w, T const* dy, T* dx) {
        on_device const here(device_, sizes);
        attach(queue, sizes);
        typename network_numbers<T>::scalar const one = 1, zero = 0;
        check(cudnnConvolutionBackwardData(handle_.get(), &one, plan.w, w, plan.y, dy, plan.how,
                                           static_cast<cudnnConvolutionBwdDataAlgo_t>(plan.algorithm), scratch.data,
                                           plan.workspace, &zero, plan.x, dx),
              "cudnnConvolutionBackwardData", device_, sizes);
    }

    /// dw += the gradient by w, or = where dw has no value yet
    template<class T>
    void convolve_backward_weights(stream& queue, workspace const& scratch, convolution_sizes const& sizes,
                                   convolution_plan const& plan, T const* x, T const* dy, T* dw, bool dw_is_new) {
        on_device const here(device_, sizes);
        attach(queue, sizes);
        typename network_numbers<T>::scalar const one = 1, before = dw_is_new ? 0 : 1;
        check(cudnnConvolutionBackwardFilter(handle_.get(), &one, plan.x, x, plan.y, dy, plan.how,
                                             static_cast<cudnnConvolutionBwdFilterAlgo_t>(plan.algorithm), scratch.data,
                                             plan.workspace, &before, plan.w, dw),
              "cudnnConvolutionBackwardFilter", device_, sizes);
    }

    /// y = the mean or maximum of each window
    template<class T>
    void pool(stream& queue, pooling_sizes const& sizes, T const* x, T* y) {
        on_device const here(device_, sizes);
        auto& plan = pooling<T>(sizes);
        attach(queue, sizes);
        typename network_numbers<T>::scalar const one = 1, zero = 0;
        check(cudnnPoolingForward(handle_.get(), plan.how, &one, plan.x, x, &zero, plan.y, y), "cudnnPoolingForward",
              device_, sizes);
    }

    /// dx = the gradient by x, of the mean. cuDNN wants the addresses of x and y as well, and does not look at them: dx
    /// and dy have the right sizes.
    template<class T>
    void mean_backward_input(stream& queue, pooling_sizes const& sizes, T const* dy, T* dx) {
        on_device const here(device_, sizes);
        auto& plan = pooling<T>(sizes);
        attach(queue, sizes);
        typename network_numbers<T>::scalar const one = 1, zero = 0;
        check(
            cudnnPoolingBackward(handle_.get(), plan.how, &one, plan.y, dy, plan.y, dy, plan.x, dx, &zero, plan.x, dx),
            "cudnnPoolingBackward", device_, sizes);
    }

private:
    struct convolution_plan {
        cudnn_tensor x, y;
        cudnn_filter w;
        cudnn_convolution how;
        int algorithm = 0;
        std::size_t workspace = 0;
        bool usable = false;
    };
    struct pooling_plan {
        cudnn_tensor x, y;
        cudnn_pooling how;
    };

    struct destroy {
        int device;
        void operator()(cudnnHandle_t handle) const noexcept {
            on_device const here(device, std::nothrow);
            static_cast<void>(cudnnDestroy(handle));
        }
    };

    void attach(stream& queue, auto const& operation) const {
        check(cudnnSetStream(handle_.get(), queue.handle()), "cudnnSetStream", device_, operation);
    }

    static cudnnTensorFormat_t format(auto const& sizes) noexcept {
        return sizes.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
    }
    template<class T>
    void lay_out(cudnn_tensor const& tensor, std::size_t n, std::size_t c, std::size_t h, std::size_t w,
                 auto const& sizes) const {
        check(cudnnSetTensor4dDescriptor(tensor, format(sizes), network_numbers<T>::stored, static_cast<int>(n),
                                         static_cast<int>(c), static_cast<int>(h), static_cast<int>(w)),
              "cudnnSetTensor4dDescriptor", device_, sizes);
    }

    template<class T>
    convolution_plan const& convolution(convolution_sizes const& s, std::size_t room, convolution_pass which,
                                        bool aligned) {
        std::array<std::uint64_t, 13> const key{static_cast<std::uint64_t>(which),
                                                static_cast<std::uint64_t>(network_numbers<T>::stored),
                                                std::uint64_t{s.channels_last},
                                                std::uint64_t{aligned},
                                                room,
                                                s.samples,
                                                s.channels,
                                                s.height,
                                                s.width,
                                                s.out_channels,
                                                s.kernel,
                                                s.padding,
                                                s.stride};
        auto& plan = convolutions_[key];
        if (plan == nullptr) {
            plan = std::make_unique<convolution_plan>();
            auto const most =
                s.samples * std::max(s.channels * s.height * s.width, s.out_channels * s.out_height * s.out_width);
            if (most >= std::size_t{1} << 31)
                note(s, which, "tensors of fewer than 2^31 values");
            else if (aligned)
                choose_algorithm<T>(*plan, s, room, which);
            else
                note(s, which, "tensors that begin on " + std::to_string(alignment) + " bytes");
        }
        return *plan;
    }

    void note(convolution_sizes const& s, convolution_pass which, std::string const& wanted) {
        notes_.push_back(s.text() +
                         (which == convolution_pass::forward          ? ""
                          : which == convolution_pass::backward_input ? ", gradient by the input"
                                                                      : ", gradient by the weights") +
                         ": computed by a block program on gpu " + std::to_string(device_) + ", for cuDNN needs " +
                         wanted);
    }

    template<class T>
    void choose_algorithm(convolution_plan& chosen, convolution_sizes const& s, std::size_t room,
                          convolution_pass which) {
        auto* const plan = &chosen;
        auto const n = [](std::size_t i) { return static_cast<int>(i); };
        lay_out<T>(plan->x, s.samples, s.channels, s.height, s.width, s);
        lay_out<T>(plan->y, s.samples, s.out_channels, s.out_height, s.out_width, s);
        check(cudnnSetFilter4dDescriptor(plan->w, network_numbers<T>::stored, format(s), n(s.out_channels),
                                         n(s.channels), n(s.kernel), n(s.kernel)),
              "cudnnSetFilter4dDescriptor", device_, s);
        check(cudnnSetConvolution2dDescriptor(plan->how, n(s.padding), n(s.padding), n(s.stride), n(s.stride), 1, 1,
                                              CUDNN_CROSS_CORRELATION, network_numbers<T>::computed),
              "cudnnSetConvolution2dDescriptor", device_, s);
        set_math(*plan, network_numbers<T>::math, s);
        auto const handle = handle_.get();
        if (which == convolution_pass::forward) {
            using algorithm = cudnnConvolutionFwdAlgo_t;
            choose<cudnnConvolutionFwdAlgoPerf_t>(
                *plan, s, room, which, network_numbers<T>::math,
                [&](int* most) { return cudnnGetConvolutionForwardAlgorithmMaxCount(handle, most); },
                [&](int most, int* found, auto* list) {
                    return cudnnGetConvolutionForwardAlgorithm_v7(handle, plan->x, plan->w, plan->how, plan->y, most,
                                                                  found, list);
                },
                [&](algorithm a, std::size_t* bytes) {
                    return cudnnGetConvolutionForwardWorkspaceSize(handle, plan->x, plan->w, plan->how, plan->y, a,
                                                                   bytes);
                },
                [](algorithm a) {
                    return a == CUDNN_CONVOLUTION_FWD_ALGO_FFT || a == CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING ||
                           a == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
                });
        } else if (which == convolution_pass::backward_input) {
            using algorithm = cudnnConvolutionBwdDataAlgo_t;
            choose<cudnnConvolutionBwdDataAlgoPerf_t>(
                *plan, s, room, which, network_numbers<T>::math,
                [&](int* most) { return cudnnGetConvolutionBackwardDataAlgorithmMaxCount(handle, most); },
                [&](int most, int* found, auto* list) {
                    return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, plan->w, plan->y, plan->how, plan->x,
                                                                       most, found, list);
                },
                [&](algorithm a, std::size_t* bytes) {
                    return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, plan->w, plan->y, plan->how, plan->x, a,
                                                                        bytes);
                },
                [](algorithm a) {
                    return a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 || a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT ||
                           a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING ||
                           a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED;
                });
        } else {
            using algorithm = cudnnConvolutionBwdFilterAlgo_t;
            choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
                *plan, s, room, which, network_numbers<T>::math,
                [&](int* most) { return cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(handle, most); },
                [&](int most, int* found, auto* list) {
                    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, plan->x, plan->y, plan->how, plan->w,
                                                                         most, found, list);
                },
                [&](algorithm a, std::size_t* bytes) {
                    return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, plan->x, plan->y, plan->how, plan->w,
                                                                          a, bytes);
                },
                [](algorithm a) { return a != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1; });
        }
    }

    void set_math(convolution_plan& plan, cudnnMathType_t math, convolution_sizes const& s) const {
        check(cudnnSetConvolutionMathType(plan.how, math), "cudnnSetConvolutionMathType", device_, s);
    }

    /// The first algorithm of cuDNN's list, best first, that may be used.
    template<class Performance, class Count, class List, class Size, class Excluded>
    void choose(convolution_plan& plan, convolution_sizes const& s, std::size_t room, convolution_pass which,
                cudnnMathType_t math, Count const& count, List const& list, Size const& size,
                Excluded const& excluded) {
        int most = 0, found = 0;
        check(count(&most), "cudnnGetConvolution...AlgorithmMaxCount", device_, s);
        std::vector<Performance> best(static_cast<std::size_t>(most));
        auto const listed = list(most, &found, best.data());
        if (CUDNN_STATUS_CATEGORY(listed) == CUDNN_STATUS_NOT_SUPPORTED)
            found = 0;
        else
            check(listed, "cudnnGetConvolution...Algorithm_v7", device_, s);
        best.resize(static_cast<std::size_t>(std::min(found, most)));
        constexpr auto none = std::numeric_limits<std::size_t>::max();
        std::size_t least = none;
        for (auto const& it : best) {
            bool const rounds = it.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION ||
                                (it.mathType == CUDNN_TENSOR_OP_MATH && math == CUDNN_FMA_MATH);
            if (it.status != CUDNN_STATUS_SUCCESS || it.determinism != CUDNN_DETERMINISTIC || rounds ||
                excluded(it.algo))
                continue;
            // an algorithm may be listed with and without the units for products of matrices
            set_math(plan, math == CUDNN_FMA_MATH ? math : it.mathType, s);
            std::size_t bytes = 0;
            if (size(it.algo, &bytes) != CUDNN_STATUS_SUCCESS) continue;
            least = std::min(least, bytes);
            if (bytes > room) continue;
            plan.algorithm = static_cast<int>(it.algo);
            plan.workspace = bytes;
            plan.usable = true;
            return;
        }
        note(s, which,
             least == none
                 ? "an algorithm that gives the same bits at every run, and has none"
                 : "a workspace of " + std::to_string(least) + " bytes, and its stream has " + std::to_string(room));
    }

    template<class T>
    pooling_plan& pooling(pooling_sizes const& s) {
        std::array<std::uint64_t, 9> const key{static_cast<std::uint64_t>(network_numbers<T>::stored),
                                               std::uint64_t{s.maximum},
                                               std::uint64_t{s.channels_last},
                                               s.samples,
                                               s.channels,
                                               s.height,
                                               s.width,
                                               s.kernel,
                                               s.stride};
        auto& plan = poolings_[key];
        if (plan == nullptr) plan = make_pooling<T>(s);
        return *plan;
    }

    template<class T>
    std::unique_ptr<pooling_plan> make_pooling(pooling_sizes const& s) const {
        auto plan = std::make_unique<pooling_plan>();
        auto const n = [](std::size_t i) { return static_cast<int>(i); };
        lay_out<T>(plan->x, s.samples, s.channels, s.height, s.width, s);
        lay_out<T>(plan->y, s.samples, s.channels, s.out_height, s.out_width, s);
        auto const mode = s.maximum ? CUDNN_POOLING_MAX_DETERMINISTIC : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
        check(cudnnSetPooling2dDescriptor(plan->how, mode, CUDNN_PROPAGATE_NAN, n(s.kernel), n(s.kernel), 0, 0,
                                          n(s.stride), n(s.stride)),
              "cudnnSetPooling2dDescriptor", device_, s);
        return plan;
    }

    int device_;
    std::unique_ptr<cudnnContext, destroy> handle_;
    std::map<std::array<std::uint64_t, 13>, std::unique_ptr<convolution_plan>> convolutions_;
    std::map<std::array<std::uint64_t, 9>, std::unique_ptr<pooling_plan>> poolings_;
    std::vector<std::string> notes_;
};

} // namespace trireme::cuda_runtime
