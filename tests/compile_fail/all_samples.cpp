// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels that take all samples of a shard at once: the numbers they compute in, the order of values, and how a layer
// of one's own reaches them.
// On the page: kernels for all samples at once, and orders of values
#include "prelude.hpp"

namespace precisions {
#if defined(DOUBLE_PRECISION)
// DOUBLE_PRECISION: TRI0067 | Choose another precision<dtype> | gets< | kernels<at_once> | precision< | f64
// errors <= 1
auto const cost = my_trainer<kernels<at_once>, precision<f64>>::plan(batch{64});
#else
auto const cost = my_trainer<kernels<at_once>, precision<f32>>::plan(batch{64});
#endif
} // namespace precisions

namespace tri0068 {
// `kernels<onednn>` is such a policy, and so is any of the host that keeps images channels last. What is about each
// value by itself is one functor over an index, as on accelerators ([TRI0054](#tri0054)), and then runs on those, too.
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
} // namespace tri0068

namespace tri0069 {
// `flatten` costs nothing because it moves nothing. Under `kernels<onednn>`, and under `kernels<channels_last<...>>` of
// accelerators, the values of a flattened image lie pixel by pixel, while PyTorch's order, that of all weights here, is
// channel by channel. `linear` reads its weights accordingly, and activations and dropout mind no order; a batch_norm
// or a loss right behind flatten would take one value for another. So would a loss on an image of several channels,
// whose targets come channel by channel, and a convolution behind a view of one's own that makes such an image of a
// list: a trainer without `kernels<...>` takes both. A model, which has no loss, predicts images with any kernels.
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
using net = network<input<1, 8, 8>, conv2d<4, kernel<3>>, flatten, linear<32>, batch_norm<per_shard>, linear<10>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd, kernels<at_once>>::plan(batch{64});
} // namespace tri0069

namespace no_order {
using net = network<input<1, 8, 8>, batch_norm<per_shard>, conv2d<4, kernel<3>>, flatten, dropout<percent<10>>, relu,
                    residual<dropout<percent<20>>>, linear<10>, batch_norm<per_shard>>;
auto const cost = trainer<net, cross_entropy, sgd, kernels<at_once>>::plan(batch{64});
} // namespace no_order

namespace losses {
#if defined(LOSS_ON_AN_IMAGE)
// LOSS_ON_AN_IMAGE: TRI0069 | a loss on an image needs other kernels | gets< | mean_squared_error | extents<4, 2, 2>
// errors <= 1
using net = network<input<1, 8, 8>, conv2d<4, kernel<7>>>;
#elif defined(OWN_LOSS_ON_AN_IMAGE)
// OWN_LOSS_ON_AN_IMAGE: TRI0069 | a loss on an image needs other kernels | gets< | squares | extents<4, 2, 2>
// errors <= 1
struct squares : value_loss_of<squared_error_function> {};
auto const more =
    trainer<network<input<1, 8, 8>, conv2d<4, kernel<7>>>, squares, sgd, kernels<at_once>>::plan(batch{64});
using net = network<input<1, 8, 8>, conv2d<1, kernel<7>>>;
#else
using net = network<input<1, 8, 8>, conv2d<1, kernel<7>>>; // one channel lies in one order
using one_pixel = network<input<1, 8, 8>, conv2d<4, kernel<8>>>;
auto const more = trainer<one_pixel, mean_squared_error, sgd, kernels<at_once>>::plan(batch{64});
using predicted = network<input<1, 8, 8>, conv2d<4, kernel<7>>>;
auto const of_model = model<predicted, kernels<at_once>>::plan(batch{64});
#endif
auto const cost = trainer<net, mean_squared_error, sgd, kernels<at_once>>::plan(batch{64});
} // namespace losses

namespace views {
template<std::size_t Channels, std::size_t Rows, std::size_t Columns>
struct as_image {
    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = make_shape(Channels, Rows, Columns);
        d.execution.view = true;
        d.accepts = in.size() == d.output.size();
        return d;
    }
    template<class Where, class In>
    using refusal = linear_input_rule<Where, gets<In>>;
};
#if defined(LIST_AS_AN_IMAGE)
// LIST_AS_AN_IMAGE: TRI0069 | a view between other shapes | at_layer<2, | conv2d<2
// errors <= 1
using net = network<input<5>, linear<16>, as_image<4, 2, 2>, conv2d<2, kernel<2>>, flatten, linear<10>>;
#elif defined(IMAGE_AS_ANOTHER)
// IMAGE_AS_ANOTHER: TRI0069 | a view between other shapes | at_layer<2, | max_pool2d<
// errors <= 1
using net = network<input<1, 8, 8>, conv2d<4, kernel<7>>, as_image<1, 4, 4>, max_pool2d<2>, flatten, linear<10>>;
#elif defined(VIEW_BEFORE_THE_LOSS)
// VIEW_BEFORE_THE_LOSS: TRI0069 | a view between other shapes | gets< | mean_squared_error | extents<1, 4, 4>
// errors <= 1
using net = network<input<1, 8, 8>, conv2d<4, kernel<7>>, as_image<1, 4, 4>>;
#else
using net = network<input<5>, linear<16>, as_image<1, 4, 4>, conv2d<4, kernel<3>>, as_image<2, 4, 2>, relu, flatten,
                    linear<10>>; // the list and the image of one channel are in one order, and linear reads the other
#endif
using objective = std::conditional_t<net::output_extents::rank == 1, cross_entropy, mean_squared_error>;
auto const cost = trainer<net, objective, sgd, kernels<at_once>>::plan(batch{64});
} // namespace views
