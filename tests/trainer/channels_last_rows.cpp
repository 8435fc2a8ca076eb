// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The order of values where images are channels last, row by row; tests/compile_fail has what trainers refuse.

#include <trireme/trainer/channels_last_rows.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <cstddef>

namespace trainer_channels_last_rows_test {
using namespace trireme;

namespace {

/// A view of any values as values of another shape.
template<std::size_t... Extents>
struct as {
    static constexpr layer_description describe(shape in) noexcept {
        layer_description d;
        d.output = make_shape(Extents...);
        d.execution.view = true;
        d.accepts = in.size() == d.output.size();
        return d;
    }
    template<class Where, class In>
    using refusal = linear_input_rule<Where, gets<In>>;
};

/// The row that reads another order.
template<class... Layers>
std::size_t misread_of() {
    return channels_last_rows<network<Layers...>>().misread;
}

} // namespace

TEST_SUITE("trainer/channels_last_rows") {
    TEST_CASE("layers that need an order are given no image whose values lie in another one") {
        using of_four = conv2d<4, kernel<7>>; // of an image of 8 x 8: 4 channels, 2 x 2
        // an image that is a list by now
        CHECK(misread_of<input<1, 8, 8>, of_four, flatten, relu, linear<3>>() == npos);
        CHECK(misread_of<input<1, 8, 8>, of_four, flatten, batch_norm<per_shard>, linear<3>>() == 2);
        CHECK(misread_of<input<1, 8, 8>, of_four, flatten, relu>() == 3);
        CHECK(misread_of<input<1, 8, 8>, conv2d<4, kernel<8>>, flatten, batch_norm<per_shard>>() == npos);
        CHECK(misread_of<input<1, 8, 8>, conv2d<1, kernel<7>>, flatten, batch_norm<per_shard>>() == npos);
        // a list that is an image by now
        CHECK(misread_of<input<16>, as<4, 2, 2>, conv2d<2, kernel<2>>>() == 1);
        CHECK(misread_of<input<16>, as<4, 2, 2>, relu, max_pool2d<2>>() == 2);
        CHECK(misread_of<input<16>, as<4, 2, 2>, batch_norm<per_shard>>() == 1);
        CHECK(misread_of<input<16>, as<4, 2, 2>>() == 1);
        CHECK(misread_of<input<16>, as<1, 4, 4>, conv2d<2, kernel<2>>>() == npos);
        CHECK(misread_of<input<16>, as<16, 1, 1>, conv2d<2, kernel<1>>>() == npos);
        CHECK(misread_of<input<16>, as<4, 2, 2>, relu, flatten, batch_norm<per_shard>>() == npos);
        // an image that is another one by now
        CHECK(misread_of<input<4, 2, 2>, as<2, 4, 2>, conv2d<2, kernel<2>>>() == 1);
        CHECK(misread_of<input<4, 2, 2>, as<1, 4, 4>, conv2d<2, kernel<2>>>() == 1);
        CHECK(misread_of<input<4, 2, 2>, as<4, 4, 1>, global_avg_pool2d>() == 1);
        CHECK(misread_of<input<4, 2, 2>, as<2, 4, 2>>() == 1);
        CHECK(misread_of<input<4, 2, 2>, as<2, 4, 2>, relu, as<4, 2, 2>, conv2d<2, kernel<2>>>() == npos);
        CHECK(misread_of<input<4, 2, 2>, as<2, 4, 2>, relu, flatten, linear<3>>() == npos); // of the first image
        // an image that is tokens by now: linear weighs the values of each
        CHECK(misread_of<input<4, 2, 2>, as<4, 4>, linear<3>>() == 1);
        CHECK(misread_of<input<1, 4, 4>, as<4, 4>, linear<3>>() == npos);
        // two terms of a sum
        CHECK(misread_of<input<1, 8, 8>, of_four, flatten, residual<dropout<percent<10>>>, linear<3>>() == npos);
        CHECK(misread_of<input<1, 8, 8>, of_four, flatten, residual<sequential<relu, linear<16>>>>() == 6);
    }

    TEST_CASE("an output is an image for the loss where its values lie channels last") {
        auto const is_image = []<class... Layers>(network<Layers...>*) {
            return channels_last_rows<network<Layers...>>().image_to_loss;
        };
        CHECK(is_image(static_cast<network<input<2, 4, 4>, conv2d<3, kernel<1>>>*>(nullptr)));
        CHECK(is_image(static_cast<network<input<2, 4, 4>, conv2d<3, kernel<1>>, sigmoid>*>(nullptr)));
        CHECK_FALSE(is_image(static_cast<network<input<2, 4, 4>, conv2d<1, kernel<1>>>*>(nullptr)));
        CHECK_FALSE(is_image(static_cast<network<input<2, 4, 4>, conv2d<3, kernel<4>>>*>(nullptr)));
        CHECK_FALSE(is_image(static_cast<network<input<2, 4, 4>, global_avg_pool2d>*>(nullptr)));
        CHECK_FALSE(is_image(static_cast<network<input<2, 4, 4>, flatten, linear<3>>*>(nullptr)));
    }

    TEST_CASE("kernels are told of the image that a list lies as, and else of the row's own shape") {
        constexpr channels_last_rows<
            network<input<4, 2, 2>, flatten, relu, linear<16>, as<1, 4, 4>, conv2d<2, kernel<2>>>>
            rows;
        CHECK(rows.misread == npos);
        CHECK(rows.of[0].viewed == make_shape(4, 2, 2));
        CHECK(rows.of[1].viewed == make_shape(4, 2, 2));
        CHECK(rows.of[2].viewed == make_shape(4, 2, 2));
        CHECK(rows.of[3].viewed == make_shape(16));
        CHECK(rows.of[4].viewed == make_shape(1, 4, 4));
        CHECK(rows.of[4].weights == make_shape(2, 1, 2, 2));
    }
}

} // namespace trainer_channels_last_rows_test
