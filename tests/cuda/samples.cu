// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The kernels that bring samples in and scores out.
#include <trireme/cuda.hpp>

#include <kernels/cuda/on_gpu.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

using namespace trireme;

namespace cuda_test {

template<class T>
void samples_come_and_scores_go() {
    constexpr std::size_t samples = 300, values = 17;
    on_gpu::rank r;
    auto const k = r.policy<cuda_kernels>(samples);
    std::vector<std::uint8_t> pixels(samples * values);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 31);
    on_gpu::array<std::uint8_t> const bytes(r, pixels);
    on_gpu::array<T> const x(r, std::vector<T>(pixels.size(), T(-1)));
    on_gpu::array<staged_shard> const about(r, {staged_shard{.scale = 1.0 / 255, .bytes = true}});
    convert_inputs<T>(k, about.data(), reinterpret_cast<std::byte const*>(bytes.data()), x.data(), values);
    auto const converted = x.read();
    bool right = true;
    for (std::size_t i = 0; i < pixels.size(); ++i)
        right = right && static_cast<double>(converted[i]) == static_cast<double>(T(pixels[i]) * (T(1) / T(255)));
    CHECK(right);

    std::vector<T> losses(samples);
    std::vector<int> is_right(samples);
    double loss = 2;
    std::uint64_t correct = 5;
    std::uint32_t const count = 259; // the others must not count
    for (std::size_t i = 0; i < samples; ++i) {
        losses[i] = T(static_cast<int>(i % 13)) / T(4);
        is_right[i] = i % 3 == 0 ? 1 : 0;
        loss += i < count ? static_cast<double>(losses[i]) : 0.0;
        correct += i < count ? static_cast<std::uint64_t>(is_right[i]) : 0;
    }
    on_gpu::array<T> const at_losses(r, losses);
    on_gpu::array<int> const at_right(r, is_right);
    on_gpu::array<std::uint32_t> const at_count(r, {count});
    on_gpu::array<sample_score> const sum(r, {sample_score{2, 5}});
    add_scores(k, static_cast<T const*>(at_losses.data()), static_cast<int const*>(at_right.data()),
               static_cast<std::uint32_t const*>(at_count.data()), sum.data());
    CHECK(sum.read()[0].loss == loss);
    CHECK(sum.read()[0].correct == correct);
    add_scores(k, static_cast<T const*>(at_losses.data()), static_cast<int const*>(nullptr),
               static_cast<std::uint32_t const*>(at_count.data()), sum.data());
    CHECK(sum.read()[0].loss == 2 * loss - 2);
    CHECK(sum.read()[0].correct == correct);

    add_into(k, x.data(), static_cast<T const*>(x.data()), pixels.size());
    auto const doubled = x.read();
    bool twice = true;
    for (std::size_t i = 0; i < doubled.size(); ++i) twice = twice && doubled[i] == converted[i] + converted[i];
    CHECK(twice);
}

} // namespace cuda_test
using namespace cuda_test;

TEST_SUITE("cuda/samples") {
    TEST_CASE("samples come and scores go in float") { samples_come_and_scores_go<float>(); }
    TEST_CASE("samples come and scores go in double") { samples_come_and_scores_go<double>(); }
}
