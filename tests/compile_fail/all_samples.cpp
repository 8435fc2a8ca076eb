// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels that take all samples of a shard at once, as kernels<onednn> do: the numbers they compute in, the order of
// values, and how a layer of one's own reaches them. The policy here only says that it is such a one.
#include <trireme/trireme.hpp>
using namespace trireme;

struct at_once {
    template<class T>
    static constexpr std::size_t lanes = 1;
    static constexpr bool all_samples = true;
    template<class T>
    static constexpr bool computes = std::is_same_v<T, float>;
    using sample_kernels = portable;
    struct context {
        static constexpr std::size_t bytes(layer_shapes const*, std::size_t, std::size_t) { return 64; }
    };
    std::size_t samples() const { return 1; }
    template<class F>
    void each(std::size_t n, F f) const {
        for (std::size_t i = 0; i < n; ++i) f(i);
    }
};

#if defined(DOUBLE_PRECISION)
// DOUBLE_PRECISION: TRI0067 | Choose another precision<dtype> | gets< | kernels<at_once> | precision< | f64
// errors <= 1
using precise = precision<f64>;
#else
using precise = precision<f32>;
#endif

#if defined(NORM_BEHIND_FLATTEN)
// NORM_BEHIND_FLATTEN: TRI0069 | global_avg_pool2d instead of flatten | at_layer<2, | batch_norm<
// errors <= 1
using net = network<input<1, 8, 8>, conv2d<4, kernel<3>>, flatten, batch_norm<per_shard>, linear<10>>;
#elif defined(LOSS_BEHIND_FLATTEN)
// LOSS_BEHIND_FLATTEN: TRI0069 | gets< | cross_entropy | extents<16>
// errors <= 1
using net = network<input<1, 8, 8>, conv2d<4, kernel<7>>, relu, flatten, relu>;
#elif defined(SUM_OF_TWO_ORDERS)
// SUM_OF_TWO_ORDERS: TRI0069 | at_layer<6, | residual< | linear<16>
// errors <= 1
using net = network<input<1, 8, 8>, conv2d<4, kernel<7>>, flatten, residual<sequential<relu, linear<16>>>, linear<10>>;
#else
using net = network<input<1, 8, 8>, batch_norm<per_shard>, conv2d<4, kernel<3>>, flatten, dropout<percent<10>>, relu,
                    residual<dropout<percent<20>>>, linear<10>, batch_norm<per_shard>>;
#endif

#if defined(VALUE_BY_INDEX)
// VALUE_BY_INDEX: TRI0068 | io.policy.each(n, functor) | gets< | extents<3>
// errors <= 1
float use(forward_io<float, extents<3>, extents<3>, 1, at_once> const& io) { return io.x[0]; }
#elif defined(VALUE_BY_PLACE)
// VALUE_BY_PLACE: TRI0068 | io.policy.each(n, functor) | gets< | extents<3>
// errors <= 1
void use(forward_io<float, extents<3>, extents<3>, 1, at_once> const& io) { io.y(0, 1) = 1; }
#else
struct twice {
    float const* from;
    float* to;
    void operator()(std::size_t i) const { to[i] = 2 * from[i]; }
};
void use(forward_io<float, extents<3>, extents<3>, 1, at_once> const& io) {
    io.policy.each(io.x.size() * io.policy.samples(), twice{io.x.data, io.y.data});
}
#endif

auto cost() { return trainer<net, cross_entropy, sgd, kernels<at_once>, precise>::plan(batch{64}).parameters; }
