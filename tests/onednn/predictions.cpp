// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <onednn/by_onednn.hpp>
#include <support/predicting.hpp>

#include <doctest/doctest.h>

namespace onednn_predictions_test {
using namespace trireme;
using namespace test_predicting;

TEST_SUITE("onednn/predictions") {
    TEST_CASE("outputs are those of other kernels, and images stay [channel][row][column]") {
        using of_classes = promises::by_onednn<f32>::layers;
        using of_images = network<input<1, 28, 28>, conv2d<6, kernel<5>>, relu, max_pool2d<2>>;
        auto const check = []<class Network>(std::type_identity<Network>) {
            trainer<Network, std::conditional_t<Network::output_extents::rank == 1, cross_entropy, mean_squared_error>,
                    sgd>
                t{{.batch = 16}};
            model<Network> plain;
            model<Network, kernels<onednn>, on<mesh<host, dp<2>>>> by_onednn{{.batch = 16}};
            for (auto const load : {true, false}) {
                if (load) plain.load_parameters(t.gather_parameters());
                if (load) by_onednn.load_parameters(t.gather_parameters());
                if (!load) plain.load_buffers(t.gather_buffers());
                if (!load) by_onednn.load_buffers(t.gather_buffers());
            }
            auto const asked = made_up(77, 4);
            CHECK(test_support::apart(values_of(by_onednn.predict(asked)), values_of(plain.predict(asked))) < 1e-4);
            CHECK(by_onednn.plan().memory().gradients == 0);
        };
        check(std::type_identity<of_classes>{});
        check(std::type_identity<of_images>{});
    }
}

} // namespace onednn_predictions_test
