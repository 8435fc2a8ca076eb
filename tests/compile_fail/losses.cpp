// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Losses: what a network is trained by.
// On the page: options of losses
#include "prelude.hpp"

namespace tri0103 {
// A loss knows three options.
using net = network<input<4>, linear<3>>;
#if defined(SMOOTHED_COMPLETELY)
// SMOOTHED_COMPLETELY: TRI0103: cross_entropy_with takes label_smoothing<percent<P>> with P from 0 to 99
using my_loss = cross_entropy_with<label_smoothing<percent<100>>>;
#elif defined(LESS_THAN_NOTHING)
// LESS_THAN_NOTHING: TRI0103
using my_loss = cross_entropy_with<label_smoothing<percent<-1>>>;
#elif defined(A_BARE_NUMBER)
// A_BARE_NUMBER: TRI0103 | label_smoothing<10
using my_loss = cross_entropy_with<label_smoothing<10>>;
#elif defined(IGNORED_TWICE)
// IGNORED_TWICE: TRI0103 | ignoring<-1>
using my_loss = cross_entropy_with<ignoring<-1>, ignoring<-2>>;
#elif defined(NO_OPTION)
// NO_OPTION: TRI0103 | linear<3
using my_loss = cross_entropy_with<linear<3>>;
#else
// A part of each target is spread, from nothing to nearly all:
using my_loss = cross_entropy_with<label_smoothing<percent<10>>, ignoring<-1>>;
#endif
inline double learn(sample_set const& samples) {
    trainer<net, my_loss, sgd> t;
    return t.step(samples).loss;
}
} // namespace tri0103

namespace tri0104 {
// Each class has a weight.
struct importance {
#if defined(ONE_TOO_FEW)
    // ONE_TOO_FEW: TRI0104: class_weights takes a type with `static constexpr double of[]` | class_count<3
    static constexpr double of[] = {1, 2};
#elif defined(ONE_TOO_MANY)
    // ONE_TOO_MANY: TRI0104 | class_count<3
    static constexpr double of[] = {1, 2, 3, 4};
#elif defined(A_NEGATIVE_WEIGHT)
    // A_NEGATIVE_WEIGHT: TRI0104 | importance
    static constexpr double of[] = {1, -2, 3};
#elif defined(AN_INFINITE_WEIGHT)
    // AN_INFINITE_WEIGHT: TRI0104 | importance
    static constexpr double of[] = {1, __builtin_inf(), 3};
#elif defined(NOTHING_COUNTS)
    // NOTHING_COUNTS: TRI0104 | importance
    static constexpr double of[] = {0, 0, 0};
#elif defined(ANOTHER_NAME)
    // ANOTHER_NAME: TRI0104 | importance
    static constexpr double weights[] = {1, 2, 3};
#else
    // A weight may be 0, as long as another is not:
    static constexpr double of[] = {1, 0, 3};
#endif
};
using net = network<input<4>, linear<3>>;
inline double learn(sample_set const& samples) {
    trainer<net, cross_entropy_with<class_weights<importance>>, sgd> t;
    return t.step(samples).loss;
}
} // namespace tri0104

namespace tri0105 {
// A label that is to be ignored is no class, or samples of that class would be lost.
using net = network<input<4>, linear<3>>;
#if defined(THE_LAST_CLASS)
// THE_LAST_CLASS: TRI0105: ignoring takes a label that is no class of the network's | ignoring<2> | at_least<3
using my_loss = cross_entropy_with<ignoring<2>>;
#elif defined(THE_FIRST_CLASS)
// THE_FIRST_CLASS: TRI0105 | ignoring<0>
using my_loss = cross_entropy_with<ignoring<0>>;
#else
// Negative labels are no classes, nor are those behind the last:
using my_loss = cross_entropy_with<ignoring<3>>;
#endif
inline double learn(sample_set const& samples) {
    trainer<net, my_loss, sgd> t;
    return t.step(samples).loss;
}
} // namespace tri0105

namespace tri0137 {
// A layer says for each sample of a granule how much it adds to the loss.
using net = network<input<4>, linear<8>, activity_penalty<percent<10>>, linear<3>>;
#if defined(ADDED_BY_A_LIBRARY)
// ADDED_BY_A_LIBRARY: TRI0137 | leave out kernels | gets< | kernels<at_once>
// errors <= 1
using t = trainer<net, cross_entropy, sgd, kernels<at_once>>;
#else
using t = trainer<net, cross_entropy, sgd>;
#endif
auto const cost = t::plan(batch{64});
} // namespace tri0137

namespace tri0138 {
// A tenth of the mean square is added:
#if defined(A_BARE_SHARE)
// A_BARE_SHARE: TRI0138 | write activity_penalty<percent<10>> | activity_penalty<10
using net = network<input<4>, linear<8>, activity_penalty<10>, linear<3>>;
#elif defined(NO_SHARE)
// NO_SHARE: TRI0138
using net = network<input<4>, linear<8>, activity_penalty<percent<0>>, linear<3>>;
#else
using net = network<input<4>, linear<8>, activity_penalty<percent<10>>, linear<3>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace tri0138

namespace tri0153 {
// The second target of a sample is its weight.
struct trusting {
    static constexpr loss_description describe(shape) { return {.targets = make_shape(2)}; }
#if defined(OF_ANOTHER_PRECISION)
    // OF_ANOTHER_PRECISION: TRI0153: this loss has a member `weight` | auto const* targets | trusting | f64
    // errors <= 1
    static double weight(float const* targets) { return targets[1]; }
#elif defined(WEIGHT_OF_AN_OBJECT)
    // WEIGHT_OF_AN_OBJECT: TRI0153 | trusting
    double weight(auto const* targets) { return targets[1]; }
#elif defined(OF_A_SAMPLE)
    // OF_A_SAMPLE: TRI0153 | trusting
    static double weight(std::span<double const> targets) { return targets[1]; }
#elif defined(OF_A_NUMBER_OF_TARGETS)
    // OF_A_NUMBER_OF_TARGETS: TRI0153 | trusting
    static double weight(double const* targets, std::size_t) { return targets[1]; }
#elif defined(WRITES_TARGETS)
    // WRITES_TARGETS: TRI0153 | trusting
    static double weight(double* targets) { return targets[1]; }
#elif defined(OF_NO_NUMBER)
    // OF_NO_NUMBER: TRI0153 | trusting
    static void weight(auto const*) {}
#else
    // A weight takes targets of any precision, and belongs to no object; those of f64 are doubles:
    static auto weight(auto const* targets) { return std::clamp(targets[1], 0.0, 1.0); }
#endif
    static void forward(auto const& io) { io.loss[0] = io.target(0, 1) * (io.x(0, 0) - io.target(0, 0)); }
    static void backward(auto const& io) {
        forward(io);
        io.dx(0, 0) = io.weight[0] * io.target(0, 1);
    }
};
inline double learn(sample_set const& samples) {
    trainer<network<input<4>, linear<1>>, trusting, sgd, precision<f64>> t;
    return t.step(samples).loss;
}
} // namespace tri0153

namespace tri0154 {
// A loss computes its gradient, too.
struct distance {
    static constexpr loss_description describe(shape) { return {}; }
#if defined(MISSPELT)
    // MISSPELT: TRI0154: this loss has no `static void backward(auto const& io)` | distance
    // errors <= 1
    static void backwards(auto const& io) {
        forward(io);
        io.dx(0, 0) = 2 * io.weight[0] * (io.x(0, 0) - io.target(0, 0));
    }
#elif defined(BACKWARD_OF_AN_OBJECT)
    // BACKWARD_OF_AN_OBJECT: TRI0154 | distance
    void backward(auto const& io) const { io.dx(0, 0) = 2 * io.weight[0] * (io.x(0, 0) - io.target(0, 0)); }
#else
    // Both functions leave the loss:
    static void backward(auto const& io) {
        forward(io);
        io.dx(0, 0) = 2 * io.weight[0] * (io.x(0, 0) - io.target(0, 0));
    }
#endif
    static void forward(auto const& io) {
        auto const apart = io.x(0, 0) - io.target(0, 0);
        io.loss[0] = apart * apart;
    }
};
inline double learn(sample_set const& samples) {
    trainer<network<input<4>, linear<1>>, distance, sgd> t;
    return t.step(samples).loss;
}
} // namespace tri0154
