// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/core/deadline.hpp>
#include <trireme/device/cuda/device.hpp>

#include <support/compare.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

// A stream with what kernels need beside it, arrays on the GPU, and how far results may be apart.

namespace on_gpu {

inline void finish(trireme::gpu::stream& s) {
    trireme::gpu::event done(s.device());
    s.record(done);
    REQUIRE(trireme::await(done, trireme::deadline::in(std::chrono::seconds(120))));
}

/// One rank has these objects of a GPU.
struct rank {
    trireme::gpu::stream queue{0};
    trireme::gpu::memory scratch{0, trireme::cuda_runtime::workspace_of_cudnn, "workspace"};
    trireme::gpu::libraries libraries{0};

    template<class Policy>
    Policy policy(std::size_t samples) {
        return Policy(queue, samples, {scratch.data(), scratch.bytes()}, libraries);
    }
};

/// An array on the GPU, `skip` elements behind the beginning of its memory: parameters are aligned by their size only.
template<class T>
class array {
public:
    array(rank& r, std::vector<T> const& values, std::size_t skip = 0)
        : rank_(&r), memory_(0, (values.size() + skip) * sizeof(T), "array of a test"), size_(values.size()),
          skip_(skip) {
        write(values);
    }

    T* data() const { return static_cast<T*>(memory_.data()) + skip_; }
    void write(std::vector<T> const& values) const {
        rank_->queue.copy(data(), values.data(), size_ * sizeof(T));
        finish(rank_->queue);
    }
    std::vector<T> read() const {
        std::vector<T> values(size_);
        rank_->queue.copy(values.data(), data(), size_ * sizeof(T));
        finish(rank_->queue);
        return values;
    }

private:
    rank* rank_;
    trireme::gpu::memory memory_;
    std::size_t size_, skip_;
};

/// A policy whose samples are a shard's.
template<class Policy>
struct staged {
    on_gpu::rank r;
    array<trireme::staged_shard> about;
    Policy k;

    staged(std::size_t samples, trireme::staged_shard const& shard) : about(r, {shard}), k(r.policy<Policy>(samples)) {
        k.set_shard(about.data());
    }
};

template<class T>
std::vector<double> widened(std::vector<T> const& values) {
    std::vector<double> wide;
    for (T const& value : values) wide.push_back(test_support::widened(value));
    return wide;
}

/// F applied to values.
template<class F>
std::vector<double> applied(std::vector<double> values) {
    for (auto& v : values) v = F::value(v);
    return values;
}

/// A gradient times F's slope where `input` is the output of F.
template<class F>
std::vector<double> sloped(std::vector<double> gradient, std::vector<double> const& input) {
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] *= F::slope(input[i], input[i]);
    return gradient;
}

/// |result - truth| / |truth|, |result| where the truth is 0; infinite if anything is a NaN, or sizes differ.
template<class T>
double distance(std::vector<T> const& result, std::vector<double> const& truth) {
    bool const compared = result.size() != truth.size() || test_support::length(truth) > 0;
    double const far = compared ? test_support::distance(result, truth) : test_support::length(result);
    return std::isnan(far) ? std::numeric_limits<double>::infinity() : far;
}

/// A result may be this far from the truth.
template<class T>
inline constexpr double allowed = 1e-5;
template<>
inline constexpr double allowed<double> = 1e-12;
template<>
inline constexpr double allowed<trireme::bf16> = 1e-2;

} // namespace on_gpu
