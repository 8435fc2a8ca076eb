// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/trireme.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

// An optimizer of one's own whose steps become shorter: it wants to know how many it has made.
namespace test_fading {
using namespace trireme;

template<class T>
struct shorter_step {
    T* w;
    T const* gradient;
    sgd_numbers<T> const* numbers;
    std::uint64_t const* made;
    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        w[i] -= numbers->rate / static_cast<T>(1 + *made) * gradient[i];
    }
};

/// w -= learning_rate / (1 + updates made before) * gradient.
struct fading_sgd : sgd {
    static constexpr char const* name = "fading_sgd";
    static constexpr bool counts_updates = true;

    template<class Kernels, class T, class Numbers>
    static void update(Kernels const& policy, T* w, T const* gradient, std::array<T*, 0>, std::size_t n,
                       Numbers numbers, std::uint64_t const* made) {
        if constexpr (accelerator_kernels<Kernels>) {
            policy.each(n, shorter_step<T>{w, gradient, numbers, made});
        } else {
            shorter_step<T> const of{w, gradient, &numbers, made};
            for (std::size_t i = 0; i < n; ++i) of(i);
        }
    }
};

/// True if so many steps are those of sgd whose learning rate is set anew before each. `make()`: a trainer with
/// fading_sgd, `make_plain()` one with sgd.
template<class Make, class MakePlain>
bool fades(Make const& make, MakePlain const& make_plain, labelled_images const& images) {
    auto fading = make();
    auto plain = make_plain();
    double worst = 0;
    for (int k = 0; k < 5; ++k) {
        fading->step(images);
        plain->set_learning_rate(0.5f / static_cast<float>(k + 1));
        plain->step(images);
        if (k == 2) fading->load_parameters(plain->gather_parameters()); // which is no update
        auto const a = fading->gather_parameters(), b = plain->gather_parameters();
        for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(a[i] - b[i])));
    }
    return worst < 1e-6;
}

} // namespace test_fading
