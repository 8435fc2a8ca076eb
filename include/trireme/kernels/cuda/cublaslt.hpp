// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/device/cuda/errors.hpp>
#include <trireme/device/cuda/queue.hpp>
#include <trireme/kernels/blocks/policy.hpp>

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace trireme::cuda_runtime {

/// Throws accelerator_error unless a call of cuBLASLt has succeeded.
template<class Operation>
void check(cublasStatus_t status, char const* call, int device, Operation const& operation) {
    if (status != CUBLAS_STATUS_SUCCESS)
        throw accelerator_error(
            failure(call, device, text_of(operation), cublasLtGetStatusName(status), cublasLtGetStatusString(status)));
}

/// The formats in which cuBLASLt stores and multiplies a type. Never TF32, which keeps 10 bits of a float's 23.
template<class T>
struct matrix_numbers;
template<>
struct matrix_numbers<float> {
    static constexpr cudaDataType_t stored = CUDA_R_32F, scaled = CUDA_R_32F;
    static constexpr cublasComputeType_t computed = CUBLAS_COMPUTE_32F;
    using scalar = float;
};
template<>
struct matrix_numbers<double> {
    static constexpr cudaDataType_t stored = CUDA_R_64F, scaled = CUDA_R_64F;
    static constexpr cublasComputeType_t computed = CUBLAS_COMPUTE_64F;
    using scalar = double;
};
template<>
struct matrix_numbers<bf16> {
    static constexpr cudaDataType_t stored = CUDA_R_16BF, scaled = CUDA_R_32F;
    static constexpr cublasComputeType_t computed = CUBLAS_COMPUTE_32F;
    using scalar = float;
};

/// The last operation on a product, before cuBLASLt writes it: `add` adds it to what stands there; `bias` adds a vector
/// to every column; `relu` sets negative values to 0 after that.
enum class matrix_end : std::uint32_t { write, add, bias, bias_relu };

/// D (m x n) = op(A) op(B), k long, of matrices stored column by column without gaps; op transposes if asked to.
struct matrix_product {
    std::uint64_t m = 0, n = 0, k = 0;
    bool transpose_a = false, transpose_b = false;
    matrix_end end = matrix_end::write;
};

/// cuBLASLt on one device, and which of its algorithms it has chosen for which product. Used by one thread.
class cublaslt {
public:
    /// Kernels of cuBLASLt may read a bias 16 bytes at once: an algorithm can be chosen by the alignment of every
    /// matrix, but not by that of the bias.
    static constexpr std::size_t bias_alignment = 16;

    explicit cublaslt(int device) : device_(device) {
        on_device const here(device, "cuBLASLt");
        cublasLtHandle_t handle = nullptr;
        check(cublasLtCreate(&handle), "cublasLtCreate", device, "cuBLASLt");
        handle_ = {handle, destroy{device}};
    }

    /// `bias`: m numbers, if the end of the product needs them. `operation` is told if something fails.
    template<class T, class Operation>
    void multiply(stream& queue, workspace const& scratch, matrix_product const& product, T const* a, T const* b,
                  T const* bias, T* d, Operation const& operation) {
        using scalar = typename matrix_numbers<T>::scalar;
        on_device const here(device_, operation);
        auto const room = aligned(scratch);
        key const which{product.m,
                        product.n,
                        product.k,
                        std::uint64_t{product.transpose_a} * 2 + std::uint64_t{product.transpose_b},
                        static_cast<std::uint64_t>(product.end),
                        static_cast<std::uint64_t>(matrix_numbers<T>::stored),
                        room.bytes,
                        alignment(a),
                        alignment(b),
                        alignment(d)};
        auto found = plans_.find(which);
        if (found == plans_.end())
            found = plans_.emplace(which, choose<T>(product, which, bias, room.bytes, operation)).first;
        auto& plan = found->second;
        if (bias != nullptr) set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias, operation);
        scalar const one = 1, beta = product.end == matrix_end::add ? scalar(1) : scalar(0);
        check(cublasLtMatmul(handle_.get(), &plan.description, &one, a, &plan.a, b, &plan.b, &beta, d, &plan.d, d,
                             &plan.d, &plan.algorithm, room.data, room.bytes, queue.handle()),
              "cublasLtMatmul", device_, operation);
    }

private:
    /// m, n, k, transposed, end, type, workspace, alignment of a, b and d
    using key = std::array<std::uint64_t, 10>;

    struct plan_t {
        cublasLtMatmulDescOpaque_t description{};
        cublasLtMatrixLayoutOpaque_t a{}, b{}, d{};
        cublasLtMatmulAlgo_t algorithm{};
    };

    struct destroy {
        int device;
        void operator()(cublasLtHandle_t handle) const noexcept {
            on_device const here(device, std::nothrow);
            static_cast<void>(cublasLtDestroy(handle));
        }
    };

    static constexpr std::uint64_t best_alignment = 256;

    static std::uint64_t alignment(void const* p) noexcept {
        auto const address = reinterpret_cast<std::uintptr_t>(p) | best_alignment;
        return address & (~address + 1); // its lowest bit
    }

    /// cuBLASLt takes a workspace only if it begins on 256 bytes.
    static workspace aligned(workspace const& given) noexcept {
        auto const address = reinterpret_cast<std::uintptr_t>(given.data);
        std::size_t const skip = (best_alignment - address % best_alignment) % best_alignment;
        if (given.data == nullptr || skip >= given.bytes) return {};
        return {static_cast<char*>(given.data) + skip, given.bytes - skip};
    }

    template<class Value, class Operation>
    void set(cublasLtMatmulDescOpaque_t& description, cublasLtMatmulDescAttributes_t attribute, Value const& value,
             Operation const& operation) const {
        check(cublasLtMatmulDescSetAttribute(&description, attribute, &value, sizeof value),
              "cublasLtMatmulDescSetAttribute", device_, operation);
    }
    template<class Value, class Operation>
    void set(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute,
             Value const& value, Operation const& operation) const {
        check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
              "cublasLtMatmulPreferenceSetAttribute", device_, operation);
    }

    template<class T, class Operation>
    plan_t choose(matrix_product const& p, key const& which, T const* bias, std::size_t room,
                  Operation const& operation) const {
        using numbers = matrix_numbers<T>;
        plan_t plan;
        check(cublasLtMatmulDescInit(&plan.description, numbers::computed, numbers::scaled), "cublasLtMatmulDescInit",
              device_, operation);
        auto const op = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
        set(plan.description, CUBLASLT_MATMUL_DESC_TRANSA, op(p.transpose_a), operation);
        set(plan.description, CUBLASLT_MATMUL_DESC_TRANSB, op(p.transpose_b), operation);
        auto const end = p.end == matrix_end::bias        ? CUBLASLT_EPILOGUE_BIAS
                         : p.end == matrix_end::bias_relu ? CUBLASLT_EPILOGUE_RELU_BIAS
                                                          : CUBLASLT_EPILOGUE_DEFAULT;
        set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE, end, operation);
        if (bias != nullptr) set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias, operation);

        auto const lay_out = [&](cublasLtMatrixLayoutOpaque_t& layout, std::uint64_t rows, std::uint64_t columns) {
            check(cublasLtMatrixLayoutInit(&layout, numbers::stored, rows, columns, static_cast<std::int64_t>(rows)),
                  "cublasLtMatrixLayoutInit", device_, operation);
        };
        lay_out(plan.a, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k);
        lay_out(plan.b, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n);
        lay_out(plan.d, p.m, p.n);

        cublasLtMatmulPreferenceOpaque_t preference{};
        check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit", device_, operation);
        set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{room}, operation);
        // parts of a long product are added up in a step of their own: always in the same order, and never in bf16
        set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
            static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE), operation);
        auto const align = [&](cublasLtMatmulPreferenceAttributes_t attribute, std::uint64_t bytes) {
            set(preference, attribute, static_cast<std::uint32_t>(bytes), operation);
        };
        align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, which[7]);
        align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, which[8]);
        align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, which[9]);
        align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, which[9]);

        std::array<cublasLtMatmulHeuristicResult_t, 8> best{};
        int found = 0;
        auto const status =
            cublasLtMatmulAlgoGetHeuristic(handle_.get(), &plan.description, &plan.a, &plan.b, &plan.d, &plan.d,
                                           &preference, static_cast<int>(best.size()), best.data(), &found);
        if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "cublasLtMatmulAlgoGetHeuristic", device_, operation);
        for (int i = 0; i < std::min(found, static_cast<int>(best.size())); ++i) {
            auto const& it = best[static_cast<std::size_t>(i)];
            if (it.state != CUBLAS_STATUS_SUCCESS || it.workspaceSize > room) continue;
            plan.algorithm = it.algo;
            return plan;
        }
        throw usage_error("cuBLASLt has no algorithm on gpu " + std::to_string(device_) + " for " + text_of(operation) +
                          " within a workspace of " + std::to_string(room) +
                          " bytes; give its stream a larger one, or use kernels<cuda_block_kernels>");
    }

    int device_;
    std::unique_ptr<cublasLtContext, destroy> handle_;
    std::map<key, plan_t> plans_;
};

} // namespace trireme::cuda_runtime
