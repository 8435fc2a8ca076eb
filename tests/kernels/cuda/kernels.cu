// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Every kernel of every policy of GPUs against the textbook loops, in double, one sample at a time.

#include <trireme/device/cuda/device.hpp>
#include <trireme/kernels/activation_functions.hpp>
#include <trireme/kernels/blocks/activation.hpp>
#include <trireme/kernels/blocks/conv2d.hpp>
#include <trireme/kernels/blocks/linear.hpp>
#include <trireme/kernels/blocks/pool2d.hpp>
#include <trireme/kernels/blocks/samples.hpp>
#include <trireme/kernels/blocks/sgd.hpp>
#include <trireme/kernels/blocks/softmax_cross_entropy.hpp>
#include <trireme/kernels/reference/activation.hpp>
#include <trireme/kernels/reference/conv2d.hpp>
#include <trireme/kernels/reference/linear.hpp>
#include <trireme/kernels/reference/pool2d.hpp>
#include <trireme/kernels/reference/sgd.hpp>
#include <trireme/kernels/reference/softmax_cross_entropy.hpp>

#include "on_gpu.hpp"
#include <support/numbers.hpp>

#include <support/compare.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

using namespace trireme;
using numbers::unset;
using on_gpu::allowed;
using on_gpu::applied;
using on_gpu::array;
using on_gpu::distance;
using on_gpu::sloped;
using on_gpu::widened;

namespace cuda_test {

using test_support::same_bits;

/// A kernel leaves this in an array that began as `before`, after two runs that must agree in every bit. (Outlined, and
/// not a template by the kernel: compiling this file takes long enough.)
template<class T>
TRIREME_NOINLINE std::vector<T> left_by(on_gpu::rank& r, std::vector<T> const& before, std::size_t skip,
                                        std::function<void(T*)> const& run) {
    array<T> const to(r, before, skip);
    run(to.data());
    auto const first = to.read();
    to.write(before);
    run(to.data());
    CHECK(same_bits(to.read(), first));
    return first;
}

template<class T>
TRIREME_NOINLINE void check_near(std::vector<T> const& result, std::vector<double> const& truth, char const* what) {
    CAPTURE(what);
    CHECK(distance(result, truth) < allowed<T>);
}

/// Layers with weights and a bias share these checks. `Layer` says how to call its kernels. Parameters and gradients,
/// which are aligned by their size only, lie `skip` numbers behind an address that every kernel takes.
template<class Policy, class Layer, class T>
void weighted_layer_matches(std::size_t samples, std::size_t skip) {
    CAPTURE(Policy::name);
    CAPTURE(Layer::text());
    CAPTURE(sizeof(T));
    CAPTURE(samples);
    CAPTURE(skip);
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    constexpr std::size_t inputs = Layer::inputs, outputs = Layer::outputs, weights = Layer::weights,
                          biases = Layer::biases;
    auto const x = numbers::uniform<T>(0, samples * inputs), dy = numbers::uniform<T>(3, samples * outputs);
    auto const w = numbers::uniform<T>(1, weights), b = numbers::uniform<T>(2, biases);
    auto const dw = numbers::uniform<T>(4, weights), db = numbers::uniform<T>(5, biases);

    auto const wide_x = widened(x), wide_w = widened(w), wide_b = widened(b), wide_dy = widened(dy);
    std::vector<double> y(samples * outputs), dx(samples * inputs), true_dw = widened(dw), true_db = widened(db);
    for (std::size_t i = 0; i < samples; ++i) {
        Layer::forward(reference{}, &wide_x[i * inputs], wide_w.data(), wide_b.data(), &y[i * outputs]);
        Layer::backward_input(reference{}, wide_w.data(), &wide_dy[i * outputs], &dx[i * inputs]);
        Layer::backward_weights(reference{}, &wide_x[i * inputs], &wide_dy[i * outputs], true_dw.data(),
                                true_db.data());
    }

    on_gpu::staged<Policy> s(samples, {.count = static_cast<std::uint32_t>(samples)});
    auto& r = s.r;
    auto const& k = s.k;
    array<T> const at_x(r, x), at_dy(r, dy), at_w(r, w, skip), at_b(r, b, skip);
    auto const forward = [&](auto const& policy) {
        return left_by<T>(r, unset<T>(y.size()), 0,
                          [&](T* to) { Layer::forward(policy, at_x.data(), at_w.data(), at_b.data(), to); });
    };
    check_near<T>(forward(k), y, "forward");
    check_near<T>(forward(with_function<Policy, relu_function, T>(k)), applied<relu_function>(y), "forward with relu");
    check_near<T>(forward(with_function<Policy, sigmoid_function, T>(k)), applied<sigmoid_function>(y),
                  "forward with sigmoid");

    auto const backward_input = [&](auto const& policy) {
        return left_by<T>(r, unset<T>(dx.size()), 0,
                          [&](T* to) { Layer::backward_input(policy, at_w.data(), at_dy.data(), to); });
    };
    check_near<T>(backward_input(k), dx, "backward_input");
    check_near<T>(backward_input(with_function<Policy, sigmoid_function, T>(k, at_x.data())),
                  sloped<sigmoid_function>(dx, wide_x), "backward_input with sigmoid");

    array<T> const at_db(r, db, skip);
    auto const new_dw = left_by<T>(r, dw, skip, [&](T* to) {
        at_db.write(db);
        Layer::backward_weights(k, at_x.data(), at_dy.data(), to, at_db.data());
    });
    check_near<T>(new_dw, true_dw, "gradient of the weights");
    check_near<T>(at_db.read(), true_db, "gradient of the bias");
    if constexpr (Layer::template goes_to_cudnn<Policy, T>) { // else the block programs would have done it all
        if (skip != 0) CHECK(r.libraries.notes().size() == 3);
        if (skip == 0 && weights > cuda_runtime::most_weights_of_blocks) CHECK(r.libraries.notes().empty());
    }
}

template<class G>
struct conv2d_layer {
    static constexpr std::size_t inputs = G::channels * G::height * G::width;
    static constexpr std::size_t outputs = G::out_channels * G::out_height * G::out_width;
    static constexpr std::size_t weights = G::out_channels * G::channels * G::kernel * G::kernel;
    static constexpr std::size_t biases = G::out_channels;

    template<class Policy, class T>
    static constexpr bool goes_to_cudnn = std::is_same_v<Policy, cuda_library_kernels> ||
                                          (std::is_same_v<Policy, cuda_kernels> && cuda_runtime::goes_to_library<G, T>);

    static std::string text() { return cuda_runtime::convolution_sizes::of<G>(1).text(); }
    template<class K, class T>
    static void forward(K const& k, T const* x, T const* w, T const* b, T* y) {
        conv2d_forward<G, 1>(k, x, w, b, y);
    }
    template<class K, class T>
    static void backward_input(K const& k, T const* w, T const* dy, T* dx) {
        conv2d_backward_input<G, 1>(k, w, dy, dx);
    }
    template<class K, class T>
    static void backward_weights(K const& k, T const* x, T const* dy, T* dw, T* db) {
        conv2d_backward_weights<G, 1>(k, x, dy, dw, db);
    }
};

template<class G>
struct linear_layer {
    static constexpr std::size_t inputs = G::inputs, outputs = G::outputs, weights = G::inputs * G::outputs,
                                 biases = G::outputs;

    template<class Policy, class T>
    static constexpr bool goes_to_cudnn = false;

    static std::string text() { return cuda_runtime::linear_text<G>{"linear", 1}.text(); }
    template<class K, class T>
    static void forward(K const& k, T const* x, T const* w, T const* b, T* y) {
        linear_forward<G, 1>(k, x, w, b, y);
    }
    template<class K, class T>
    static void backward_input(K const& k, T const* w, T const* dy, T* dx) {
        linear_backward_input<G, 1>(k, w, dy, dx);
    }
    template<class K, class T>
    static void backward_weights(K const& k, T const* x, T const* dy, T* dw, T* db) {
        linear_backward_weights<G, 1>(k, x, dy, dw, db);
    }
};

/// Average and maximum pooling. Small whole numbers, so that many maxima are shared; one of them a NaN if asked for.
template<class Policy, class G, class T>
void pooling_matches(std::size_t samples, bool nan) {
    CAPTURE(Policy::name);
    CAPTURE(cuda_runtime::pooling_sizes::of<G>(samples, true).text());
    CAPTURE(sizeof(T));
    CAPTURE(nan);
    constexpr std::size_t inputs = G::channels * G::height * G::width;
    constexpr std::size_t outputs = G::channels * G::out_height * G::out_width;
    std::vector<T> x(samples * inputs);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i * 7919 % 5);
    if (nan) x[inputs + 1] = std::numeric_limits<T>::quiet_NaN();
    auto const dy = numbers::uniform<T>(3, samples * outputs);
    auto const wide_x = widened(x), wide_dy = widened(dy);
    std::vector<double> mean(samples * outputs), largest(mean), mean_dx(x.size()), largest_dx(x.size());
    for (std::size_t i = 0; i < samples; ++i) {
        avg_pool2d_forward<G, 1>(reference{}, &wide_x[i * inputs], &mean[i * outputs]);
        avg_pool2d_backward_input<G, 1>(reference{}, &wide_dy[i * outputs], &mean_dx[i * inputs]);
        max_pool2d_forward<G, 1>(reference{}, &wide_x[i * inputs], &largest[i * outputs]);
        max_pool2d_backward_input<G, 1>(reference{}, &wide_x[i * inputs], &largest[i * outputs], &wide_dy[i * outputs],
                                        &largest_dx[i * inputs]);
    }

    on_gpu::rank r;
    auto const k = r.policy<Policy>(samples);
    array<T> const at_x(r, x), at_dy(r, dy);
    auto const y =
        left_by<T>(r, unset<T>(largest.size()), 0, [&](T* to) { max_pool2d_forward<G, 1>(k, at_x.data(), to); });
    array<T> const at_y(r, y);
    auto const dx = left_by<T>(r, unset<T>(x.size()), 0, [&](T* to) {
        max_pool2d_backward_input<G, 1>(k, at_x.data(), at_y.data(), at_dy.data(), to);
    });
    check_near<T>(dx, largest_dx, "maximum, backward");
    if (nan) {
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < y.size(); ++i) wrong += std::isnan(y[i]) != std::isnan(largest[i]);
        CHECK(wrong == 0);
        return;
    }
    CHECK(distance(y, largest) == 0);
    auto const average =
        left_by<T>(r, unset<T>(mean.size()), 0, [&](T* to) { avg_pool2d_forward<G, 1>(k, at_x.data(), to); });
    check_near<T>(average, mean, "mean");
    auto const average_dx =
        left_by<T>(r, unset<T>(x.size()), 0, [&](T* to) { avg_pool2d_backward_input<G, 1>(k, at_dy.data(), to); });
    check_near<T>(average_dx, mean_dx, "mean, backward");

    with_function<Policy, sigmoid_function, T> const forward(k), backward(k, at_x.data());
    auto const curved =
        left_by<T>(r, unset<T>(mean.size()), 0, [&](T* to) { avg_pool2d_forward<G, 1>(forward, at_x.data(), to); });
    check_near<T>(curved, applied<sigmoid_function>(mean), "mean with sigmoid");
    auto const curved_y =
        left_by<T>(r, unset<T>(mean.size()), 0, [&](T* to) { max_pool2d_forward<G, 1>(forward, at_x.data(), to); });
    check_near<T>(curved_y, applied<sigmoid_function>(largest), "maximum with sigmoid");
    auto const curved_dx = left_by<T>(r, unset<T>(x.size()), 0,
                                      [&](T* to) { avg_pool2d_backward_input<G, 1>(backward, at_dy.data(), to); });
    check_near<T>(curved_dx, sloped<sigmoid_function>(mean_dx, wide_x), "mean with sigmoid, backward");
    auto const curved_largest = left_by<T>(r, unset<T>(x.size()), 0, [&](T* to) {
        max_pool2d_backward_input<G, 1>(backward, at_x.data(), at_y.data(), at_dy.data(), to);
    });
    check_near<T>(curved_largest, sloped<sigmoid_function>(largest_dx, wide_x), "maximum with sigmoid, backward");
}

template<class Policy, class F, class T>
void activation_matches() {
    CAPTURE(Policy::name);
    constexpr std::size_t samples = 3, n = 1001;
    auto const x = numbers::uniform<T>(0, samples * n, 4), dy = numbers::uniform<T>(1, samples * n);
    auto const wide_x = widened(x), wide_dy = widened(dy);
    std::vector<double> y(x.size()), dx(x.size());
    activation_forward<F>(reference{}, wide_x.data(), y.data(), y.size());
    activation_backward_input<F>(reference{}, wide_x.data(), y.data(), wide_dy.data(), dx.data(), dx.size());

    on_gpu::rank r;
    auto const k = r.policy<Policy>(samples);
    array<T> const at_x(r, x), at_dy(r, dy);
    auto const value =
        left_by<T>(r, unset<T>(x.size()), 0, [&](T* to) { activation_forward<F>(k, at_x.data(), to, n); });
    check_near<T>(value, y, "value");
    array<T> const at_y(r, value);
    auto const slope = left_by<T>(r, unset<T>(x.size()), 0, [&](T* to) {
        activation_backward_input<F>(k, at_x.data(), at_y.data(), at_dy.data(), to, n);
    });
    check_near<T>(slope, dx, "gradient");
    auto const in_place =
        left_by<T>(r, x, 0, [&](T* to) { activation_forward<F>(k, static_cast<T const*>(to), to, n); });
    CHECK(same_bits(in_place, value));
}

template<class Policy, std::size_t Classes, class T, class A = T> // A: as logits lie
void softmax_matches() {
    CAPTURE(Policy::name);
    CAPTURE(Classes);
    CAPTURE(sizeof(T));
    constexpr std::size_t samples = 130;
    auto logits = numbers::uniform<A>(0, samples * Classes, 8);
    auto const weight = numbers::uniform<T>(1, samples);
    std::vector<int> labels(samples);
    for (std::size_t i = 0; i < samples; ++i) labels[i] = static_cast<int>(i * 7919 % Classes);
    for (std::size_t i = 0; i < samples; i += 2) { // the label's is the largest, every second time not alone
        auto const label = static_cast<std::size_t>(labels[i]), other = (label + i * 31) % Classes;
        logits[i * Classes + label] = A(9);
        if (i % 4 == 0) logits[i * Classes + other] = A(9);
    }
    auto const wide_logits = widened(logits), wide_weight = widened(weight);
    std::vector<double> gradient(logits.size()), loss(samples), score(samples);
    std::vector<int> correct(samples);
    for (std::size_t i = 0; i < samples; ++i) {
        softmax_cross_entropy<Classes, 1>(reference{}, &wide_logits[i * Classes], &labels[i], &wide_weight[i],
                                          &gradient[i * Classes], &loss[i]);
        softmax_cross_entropy_loss<Classes, 1>(reference{}, &wide_logits[i * Classes], &labels[i], &score[i],
                                               &correct[i]);
    }

    on_gpu::rank r;
    auto const k = r.policy<Policy>(samples);
    array<A> const at_logits(r, logits);
    array<T> const at_weight(r, weight), at_loss(r, unset<T>(samples));
    array<int> const at_labels(r, labels), at_correct(r, std::vector<int>(samples, -1));
    auto const dlogits = left_by<A>(r, unset<A>(logits.size()), 0, [&](A* to) {
        softmax_cross_entropy<Classes, 1>(k, at_logits.data(), at_labels.data(), at_weight.data(), to, at_loss.data());
    });
    check_near<A>(dlogits, gradient, "gradient");
    auto const losses = at_loss.read();
    check_near<T>(losses, loss, "loss");
    auto const alone = left_by<T>(r, unset<T>(samples), 0, [&](T* to) {
        softmax_cross_entropy_loss<Classes, 1>(k, at_logits.data(), at_labels.data(), to, at_correct.data());
    });
    CHECK(same_bits(alone, losses));
    CHECK(at_correct.read() == correct);
}

/// A NaN counts as the largest logit, the first of several; the sample's numbers are NaN, all others are what they are.
template<class Policy, std::size_t Classes, class T>
void softmax_takes_nan_for_the_largest() {
    CAPTURE(Policy::name);
    CAPTURE(Classes);
    CAPTURE(sizeof(T));
    constexpr std::size_t samples = 6;
    auto const nan = std::numeric_limits<T>::quiet_NaN();
    auto logits = numbers::uniform<T>(0, samples * Classes, 8);
    std::size_t const places[] = {0, Classes - 1, Classes / 2, 1, Classes / 3};
    std::vector<int> labels(samples), correct(samples, 1);
    for (std::size_t i = 0; i < 5; ++i) {
        labels[i] = static_cast<int>(places[i]);
        logits[i * Classes + places[i]] = nan;
    }
    logits[3 * Classes + Classes - 2] = nan; // a second one, behind that of the label
    logits[4 * Classes] = nan;               // and before it
    correct[4] = 0;
    labels[5] = static_cast<int>(Classes) - 1;
    correct[5] = 0;
    logits[5 * Classes + 1] = T(9);

    on_gpu::rank r;
    auto const k = r.policy<Policy>(samples);
    array<T> const at_logits(r, logits), at_weight(r, std::vector<T>(samples, T(1))), at_loss(r, unset<T>(samples));
    array<T> const at_dlogits(r, std::vector<T>(logits.size(), T(7)));
    array<int> const at_labels(r, labels), at_correct(r, std::vector<int>(samples, -1));
    softmax_cross_entropy_loss<Classes, 1>(k, at_logits.data(), at_labels.data(), at_loss.data(), at_correct.data());
    CHECK(at_correct.read() == correct);
    softmax_cross_entropy<Classes, 1>(k, at_logits.data(), at_labels.data(), at_weight.data(), at_dlogits.data(),
                                      at_loss.data());
    auto const loss = at_loss.read(), dlogits = at_dlogits.read();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < samples; ++i) {
        wrong += std::isnan(loss[i]) != (i < 5);
        for (std::size_t c = 0; c < Classes; ++c) wrong += std::isnan(dlogits[i * Classes + c]) != (i < 5);
    }
    CHECK(wrong == 0);
}

/// The first `count` of more samples, added to what is there.
template<class Policy, class T>
void scores_are_added(std::uint32_t count) {
    CAPTURE(sizeof(T));
    CAPTURE(count);
    constexpr std::size_t samples = 1500;
    auto const loss = numbers::uniform<T>(0, samples);
    std::vector<int> correct(samples);
    sample_score expected{2, 7};
    for (std::size_t i = 0; i < samples; ++i) {
        correct[i] = i % 3 == 0 ? 1 : 0;
        if (i >= count) continue;
        expected.loss += static_cast<double>(static_cast<accumulate_t<T>>(loss[i]));
        expected.correct += static_cast<std::uint64_t>(correct[i]);
    }
    on_gpu::rank r;
    auto const k = r.policy<Policy>(samples);
    array<T> const at_loss(r, loss);
    array<int> const at_correct(r, correct);
    array<std::uint32_t> const at_count(r, {count});
    auto const sum = [&](int const* right) {
        return left_by<sample_score>(r, std::vector<sample_score>(1, {2, 7}), 0, [&](sample_score* to) {
            add_scores(k, static_cast<T const*>(at_loss.data()), right,
                       static_cast<std::uint32_t const*>(at_count.data()), to);
        })[0];
    };
    auto const both = sum(at_correct.data()), losses_alone = sum(nullptr);
    CHECK(both.loss == doctest::Approx(expected.loss).epsilon(1e-12));
    CHECK(both.correct == expected.correct);
    CHECK(losses_alone.loss == both.loss);
    CHECK(losses_alone.correct == 7);
}

template<class Policy, class T>
void sgd_matches() {
    CAPTURE(Policy::name);
    constexpr std::size_t n = 10'007;
    auto const w = numbers::uniform<T>(0, n), g = numbers::uniform<T>(1, n), v = numbers::uniform<T>(2, n);
    sgd_numbers<T> const numbers_of{T(0.1), T(0.01), T(0.9)};
    sgd_numbers<double> const wide_numbers{numbers_of.rate, numbers_of.decay, numbers_of.momentum};
    auto const wide_g = widened(g);

    on_gpu::rank r;
    auto const k = r.policy<Policy>(5); // which is not asked for
    array<T> const at_g(r, g, 1), at_v(r, v, 3);
    array<sgd_numbers<T>> const at_numbers(r, {numbers_of});

    auto plain = widened(w);
    sgd_update(reference{}, plain.data(), wide_g.data(), n, wide_numbers);
    auto const without = left_by<T>(r, w, 1, [&](T* to) { sgd_update(k, to, at_g.data(), n, at_numbers.data()); });
    check_near<T>(without, plain, "plain");

    auto momentum = widened(w), momentum_v = widened(v);
    sgd_momentum_update(reference{}, momentum.data(), momentum_v.data(), wide_g.data(), n, wide_numbers);
    auto const with_momentum = left_by<T>(r, w, 1, [&](T* to) {
        at_v.write(v);
        sgd_momentum_update(k, to, at_v.data(), at_g.data(), n, at_numbers.data());
    });
    check_near<T>(with_momentum, momentum, "momentum");
    check_near<T>(at_v.read(), momentum_v, "velocity of momentum");

    auto nesterov = widened(w), nesterov_v = widened(v);
    sgd_nesterov_update(reference{}, nesterov.data(), nesterov_v.data(), wide_g.data(), n, wide_numbers);
    auto const with_nesterov = left_by<T>(r, w, 1, [&](T* to) {
        at_v.write(v);
        sgd_nesterov_update(k, to, at_v.data(), at_g.data(), n, at_numbers.data());
    });
    check_near<T>(with_nesterov, nesterov, "nesterov");
    check_near<T>(at_v.read(), nesterov_v, "velocity of nesterov");
}

using first_of_lenet = conv2d_geometry<1, 28, 28, 6, 5, 2, 1>;
using second_of_lenet = conv2d_geometry<6, 14, 14, 16, 5, 0, 1>;
using odd = conv2d_geometry<3, 11, 10, 13, 4, 1, 2>;
using large = conv2d_geometry<32, 14, 14, 64, 3, 1, 1>;
static_assert(!cuda_runtime::goes_to_library<odd, float> && cuda_runtime::goes_to_library<odd, bf16>);
static_assert(!cuda_runtime::matrix_for_library<linear_geometry<400, 120>> &&
              cuda_runtime::matrix_for_library<linear_geometry<512, 128>>);
static_assert(!cuda_runtime::softmax_for_library<100> && cuda_runtime::softmax_for_library<128>);

// The default policy has no kernels of its own: it is enough to see that it chooses.

template<class Policy>
void convolutions_match(std::size_t skip) {
    weighted_layer_matches<Policy, conv2d_layer<second_of_lenet>, float>(64, skip);
    weighted_layer_matches<Policy, conv2d_layer<large>, float>(7, skip);
    if constexpr (!std::is_same_v<Policy, cuda_kernels>) {
        weighted_layer_matches<Policy, conv2d_layer<first_of_lenet>, float>(5, skip);
        weighted_layer_matches<Policy, conv2d_layer<odd>, float>(3, skip);
        weighted_layer_matches<Policy, conv2d_layer<odd>, double>(3, skip);
        weighted_layer_matches<Policy, conv2d_layer<large>, bf16>(4, skip);
    }
}

template<class Policy>
void matrices_match(std::size_t skip) {
    weighted_layer_matches<Policy, linear_layer<linear_geometry<400, 120>>, float>(64, skip);
    weighted_layer_matches<Policy, linear_layer<linear_geometry<84, 10>>, float>(33, skip);
    weighted_layer_matches<Policy, linear_layer<linear_geometry<512, 128>>, float>(17, skip);
    weighted_layer_matches<Policy, linear_layer<linear_geometry<512, 128, 1, false>>, float>(17, skip);
    weighted_layer_matches<Policy, linear_layer<linear_geometry<84, 10, 1, false>>, float>(33, skip);
    if constexpr (!std::is_same_v<Policy, cuda_kernels>) {
        weighted_layer_matches<Policy, linear_layer<linear_geometry<257, 129>>, float>(1, skip);
        weighted_layer_matches<Policy, linear_layer<linear_geometry<257, 129>>, double>(17, skip);
        weighted_layer_matches<Policy, linear_layer<linear_geometry<257, 129, 1, false>>, double>(17, skip);
        weighted_layer_matches<Policy, linear_layer<linear_geometry<256, 128>>, bf16>(40, skip);
    }
}

template<class Policy>
void pools_match() {
    using halves = pool2d_geometry<6, 28, 28, 2, 2>;
    using overlapping = pool2d_geometry<3, 9, 8, 3, 2>;
    for (bool const nan : {false, true}) {
        pooling_matches<Policy, halves, float>(5, nan);
        pooling_matches<Policy, overlapping, float>(3, nan);
        pooling_matches<Policy, overlapping, double>(3, nan);
    }
}

/// Kernels that every policy takes from the block programs.
template<class Policy>
void common_kernels_match() {
    activation_matches<Policy, sigmoid_function, float>();
    activation_matches<Policy, hyperbolic_tangent_function, float>();
    activation_matches<Policy, relu_function, float>();
    activation_matches<Policy, sigmoid_function, double>();
    activation_matches<Policy, sigmoid_function, bf16>();
    sgd_matches<Policy, float>();
    sgd_matches<Policy, double>();
}

template<class Policy>
void losses_match() {
    softmax_matches<Policy, 100, float>();
    softmax_matches<Policy, 128, float>();
    softmax_matches<Policy, 10, double>();
    softmax_takes_nan_for_the_largest<Policy, 10, float>();
    softmax_takes_nan_for_the_largest<Policy, 1000, float>();
    for (std::uint32_t const count : {0u, 1u, 255u, 512u, 513u, 1499u, 1500u}) scores_are_added<Policy, float>(count);
    if constexpr (!std::is_same_v<Policy, cuda_kernels>) {
        softmax_matches<Policy, 10, float>();
        softmax_matches<Policy, 1000, float>();
        softmax_matches<Policy, 1000, double>();
        softmax_matches<Policy, 1000, float, bf16>();
        softmax_takes_nan_for_the_largest<Policy, 1000, double>();
        for (std::uint32_t const count : {0u, 513u}) {
            scores_are_added<Policy, double>(count);
            scores_are_added<Policy, bf16>(count);
        }
    }
}

} // namespace cuda_test
using namespace cuda_test;

TEST_SUITE("kernels/cuda kernels") {

    TEST_CASE("convolutions by block programs") { convolutions_match<cuda_block_kernels>(0); }
    TEST_CASE("convolutions by cuDNN") { convolutions_match<cuda_library_kernels>(0); }
    TEST_CASE("convolutions by default") { convolutions_match<cuda_kernels>(0); }

    TEST_CASE("products of matrices by block programs") { matrices_match<cuda_block_kernels>(0); }
    TEST_CASE("products of matrices by cuBLASLt") { matrices_match<cuda_library_kernels>(0); }
    TEST_CASE("products of matrices by default") { matrices_match<cuda_kernels>(0); }

    // a wrong address ends CUDA for its process: these have one of their own
    TEST_CASE("parameters anywhere: convolutions by block programs") { convolutions_match<cuda_block_kernels>(1); }
    TEST_CASE("parameters anywhere: convolutions not by cuDNN") { convolutions_match<cuda_library_kernels>(1); }
    TEST_CASE("parameters anywhere: convolutions by default") { convolutions_match<cuda_kernels>(1); }
    TEST_CASE("parameters anywhere: matrices by block programs") { matrices_match<cuda_block_kernels>(1); }
    TEST_CASE("parameters anywhere: matrices by cuBLASLt") { matrices_match<cuda_library_kernels>(1); }

    TEST_CASE("pooling by block programs") { pools_match<cuda_block_kernels>(); }
    TEST_CASE("pooling by cuDNN") { pools_match<cuda_library_kernels>(); }

    TEST_CASE("activations and updates") { common_kernels_match<cuda_kernels>(); }

    TEST_CASE("losses and scores by block programs") { losses_match<cuda_block_kernels>(); }
    TEST_CASE("losses and scores by CUB") { losses_match<cuda_library_kernels>(); }
    TEST_CASE("losses and scores by default") { losses_match<cuda_kernels>(); }

    TEST_CASE("library calls can be captured once they have been made") {
        using layer = conv2d_layer<large>;
        constexpr std::size_t samples = 4;
        on_gpu::rank r;
        auto const k = r.policy<cuda_library_kernels>(samples);
        auto const x = numbers::uniform<float>(0, samples * layer::inputs);
        auto const w = numbers::uniform<float>(1, layer::weights), b = numbers::uniform<float>(2, layer::biases);
        using matrix = linear_layer<linear_geometry<layer::outputs, 10>>;
        auto const v = numbers::uniform<float>(3, matrix::weights), c = numbers::uniform<float>(4, matrix::biases);
        array<float> const at_x(r, x), at_w(r, w), at_b(r, b), at_v(r, v), at_c(r, c);
        array<float> const at_y(r, std::vector<float>(samples * layer::outputs));
        array<float> const at_z(r, std::vector<float>(samples * matrix::outputs));
        auto const step = [&] {
            layer::forward(k, at_x.data(), at_w.data(), at_b.data(), at_y.data());
            matrix::forward(k, at_y.data(), at_v.data(), at_c.data(), at_z.data());
        };
        step();
        auto const eager = at_z.read();
        at_z.write(std::vector<float>(samples * matrix::outputs));
        r.queue.begin_capture();
        step();
        auto g = r.queue.end_capture();
        r.queue.launch(g);
        CHECK(same_bits(at_z.read(), eager));
    }

    TEST_CASE("what cuDNN cannot do is noted once, with what it needs") {
        using layer = conv2d_layer<large>;
        constexpr std::size_t samples = 64, values = samples * (layer::inputs + layer::outputs) + 2 * layer::weights;
        on_gpu::rank r;
        constexpr std::size_t enough_for_one_part = 128 * 1024; // of a block program
        cuda_library_kernels const k(r.queue, samples, {r.scratch.data(), enough_for_one_part}, r.libraries);
        gpu::memory const some(0, values * sizeof(float), "arrays");
        auto* const x = static_cast<float*>(some.data());
        auto* const y = x + samples * layer::inputs;
        auto* const w = y + samples * layer::outputs;
        layer::backward_weights(k, x, y, w, w + layer::weights);
        for (auto const& note : r.libraries.notes()) // which are none if cuDNN needs as little
            CHECK(note.find("for cuDNN needs a workspace of ") != std::string::npos);
        auto const before = r.libraries.notes().size();
        for (int time = 0; time < 2; ++time) layer::backward_weights(k, x, y, w + 1, w + 1 + layer::weights);
        on_gpu::finish(r.queue);
        auto const notes = r.libraries.notes();
        REQUIRE(notes.size() == before + 1);
        CHECK(notes.back() ==
              "conv2d of 64 samples of 32 x 14 x 14 to 64 channels, kernel 3, padding 1, stride 1, gradient "
              "by the weights: computed by a block program on gpu 0, for cuDNN needs tensors that begin "
              "on 16 bytes");
    }
}
