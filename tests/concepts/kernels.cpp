// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A family of kernels that models docs/concepts/kernels.md and nothing more, in a trainer.

#include <trireme/reference.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

namespace kernels_concept_test {
using namespace trireme;

// [policy_archetype]
struct pairs { // a policy of the host, by itself: usually one derives from kernel_context
    static constexpr value_layout layout = value_layout::interleaved;
    static constexpr bool remote = false;
    static constexpr fusion fuses = fusion::nothing;
    template<class T>
    static constexpr std::size_t lanes = 2;
    template<class T>
    static constexpr std::size_t one_by_one = 0;
    template<class T>
    static constexpr bool computes = false;
    template<class T>
    using stored = T;
    using epilogue = identity_function;
};
template<>
inline constexpr bool pairs::computes<float> = true;
static_assert(kernel_policy<pairs>);
// [/policy_archetype]

// [kernel_archetype]
template<class G, std::size_t Lanes, class T>
void linear_forward(pairs, T const* x, T const* w, T const* b, T* y) { // found by its first argument
    for (std::size_t lane = 0; lane < Lanes; ++lane)
        for (std::size_t o = 0; o < G::outputs; ++o) {
            y[o * Lanes + lane] = b[o];
            for (std::size_t i = 0; i < G::inputs; ++i)
                y[o * Lanes + lane] += w[o * G::inputs + i] * x[i * Lanes + lane];
        }
}
// [/kernel_archetype]
template<class G, std::size_t Lanes, class T>
void linear_backward_input(pairs, T const* w, T const* dy, T* dx) {
    linear_backward_input<G, Lanes>(reference{}, w, dy, dx);
}
template<class G, std::size_t Lanes, class T>
void linear_backward_weights(pairs, T const* x, T const* dy, T* dw, T* db) {
    linear_backward_weights<G, Lanes>(reference{}, x, dy, dw, db);
}
template<std::size_t Classes, std::size_t Lanes, class T>
void softmax_cross_entropy(pairs, T const* logits, int const* labels, T const* weight, T* dlogits, T* loss) {
    softmax_cross_entropy<Classes, Lanes>(reference{}, logits, labels, weight, dlogits, loss);
}
template<std::size_t Classes, std::size_t Lanes, class T>
void softmax_cross_entropy_loss(pairs, T const* logits, int const* labels, T* loss, int* correct) {
    softmax_cross_entropy_loss<Classes, Lanes>(reference{}, logits, labels, loss, correct);
}
template<class T>
void sgd_update(pairs, T* w, T const* gradient, std::size_t n, sgd_numbers<T> k) {
    sgd_update(reference{}, w, gradient, n, k);
}

// A member of another kind under the name takes a requirement away.
struct without_layout : pairs {
    struct layout;
};
struct without_remote : pairs {
    struct remote;
};
struct without_fuses : pairs {
    struct fuses;
};
struct without_lanes : pairs {
    struct lanes;
};
struct without_one_by_one : pairs {
    struct one_by_one;
};
struct without_computes : pairs {
    struct computes;
};
struct without_stored : pairs {
    struct stored;
};
class without_epilogue : public pairs {
    using epilogue = void;
};
struct not_made_of_nothing : pairs {
    explicit not_made_of_nothing(int) {}
};
struct not_copied : pairs {
    not_copied() = default;
    not_copied(not_copied const&) = delete;
};
struct only_a_name;
static_assert(!kernel_policy<not_made_of_nothing> && !kernel_policy<not_copied>);
static_assert(!kernel_policy<without_layout> && !kernel_policy<without_remote> && !kernel_policy<without_fuses>);
static_assert(!kernel_policy<without_lanes> && !kernel_policy<without_one_by_one>);
static_assert(!kernel_policy<without_computes> && !kernel_policy<without_stored> && !kernel_policy<without_epilogue>);
static_assert(!kernel_policy<int> && !kernel_policy<only_a_name> && !kernels<only_a_name>::fits);
static_assert(kernel_policy<kernel_context> && kernel_policy<portable> && kernel_policy<reference>);

using net = network<input<4>, linear<3>>;
template<class Kernels, class... Policies>
std::vector<float> trained() {
    std::vector<float> numbers;
    std::vector<int> classes;
    for (int i = 0; i < 25; ++i) {
        for (int k = 0; k < 4; ++k) numbers.push_back(static_cast<float>((i * (k + 2)) % 5) / 5);
        classes.push_back(i % 3);
    }
    samples_in_memory const samples(numbers, make_shape(4), classes, 3);
    trainer<net, cross_entropy, sgd, kernels<Kernels>, Policies...> t{{.batch = 25, .seed = 4}};
    for (int i = 0; i < 5; ++i) t.step(samples);
    auto all = t.gather_parameters();
    all.push_back(static_cast<float>(t.evaluate(samples).loss));
    return all;
}

/// A family that has one kernel of its own, and the portable ones for everything else.
struct counting : portable {
    static inline std::size_t called = 0;
};
template<class G, std::size_t Lanes, class T>
void linear_forward(counting, T const* x, T const* w, T const* b, T* y) {
    ++counting::called;
    linear_forward<G, Lanes>(portable{}, x, w, b, y);
}
/// Likewise, with kernels for memory to work in.
struct counting_with_scratch;
struct counting_with_memory : counting {
    using with_scratch = counting_with_scratch;
};
struct counting_with_scratch : counting_with_memory {
    void* scratch = nullptr;
};
template<class G, std::size_t Lanes, class T>
void conv2d_forward(counting_with_scratch policy, T const* x, T const* w, T const* b, T* y) {
    counting::called += 1000;
    conv2d_forward<G, Lanes>(portable_with_scratch{{}, policy.scratch}, x, w, b, y);
}
using wide = network<input<32, 8, 8>, conv2d<32, kernel<3>, padding<1>>, flatten, linear<3>>;
/// Calls for each granule in a step of a network whose convolution would like to have memory.
template<class Kernels>
std::size_t calls() {
    constexpr std::size_t samples = 4 * portable::lanes<float>;
    std::vector<float> const numbers(samples * 32 * 64, 0.5f);
    std::vector<int> const classes(samples, 1);
    samples_in_memory const all(numbers, make_shape(32, 8, 8), classes, 3);
    trainer<wide, cross_entropy, sgd, kernels<Kernels>> t{{.batch = samples}};
    counting::called = 0;
    t.step(all);
    return counting::called / 4;
}
} // namespace kernels_concept_test

TEST_SUITE("concepts/kernels") {
    using namespace kernels_concept_test;

    TEST_CASE("the archetype of a family trains to what the reference trains to") {
        auto const expected = trained<reference>(), by_pairs = trained<pairs>(),
                   by_two = trained<pairs, on<mesh<host, dp<2>>>>();
        REQUIRE(by_pairs.size() == expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) {
            CHECK(by_pairs[i] == doctest::Approx(expected[i]).epsilon(1e-4));
            CHECK(by_two[i] == doctest::Approx(expected[i]).epsilon(1e-4));
        }
    }

    TEST_CASE("a family that derives from another keeps its own kernels where a layer would like to have memory") {
        using wide = network<input<32, 8, 8>, conv2d<32, kernel<3>, padding<1>>>;
        static_assert(detail::scratch_bytes<wide, portable, float, portable::lanes<float>>() != 0);
        CHECK(calls<counting>() == 1);
        CHECK(calls<counting_with_memory>() == 1001);
    }
}
