// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Rows that compute with the parameters of another row, on streams.

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>
#include <rehearsed/scale.hpp>
#include <rehearsed/trainings.hpp>
#include <support/compare.hpp>
#include <support/tying.hpp>

#include <cstddef>

namespace rehearsed_tied_test {
using namespace trireme;
using namespace rehearsed;
using namespace test_tying;

TEST_SUITE("rehearsed/tied") {
    TEST_CASE("tied rows have the bits of one device on any stages, however late or shuffled work is done") {
        {
            on_stage const late;
            has_the_bits_of_one_device<rehearsal, first_and_last>({one_f_one_b{}, zero_bubble_h1{}}, {1, 2}, {1, 2, 3},
                                                                  as_planned);
        }
        on_stage const shuffled(timing::shuffled, 3);
        has_the_bits_of_one_device<rehearsal, first_and_last>({zero_bubble_v{}, interleaved<2>{}}, {1, 2}, {2},
                                                              as_planned);
        has_the_bits_of_one_device<rehearsal, several>({gpipe{}, interleaved<2>{}}, {1, 2}, {1, 2}, as_planned);
    }
    TEST_CASE("so do those whose parameters have a narrow copy") {
        on_stage const late;
        has_the_bits_of_one_device<rehearsal, first_and_last, precision<bf16>>({one_f_one_b{}}, {1, 2}, {1, 2, 3},
                                                                               as_planned);
    }
    TEST_CASE("and those whose reductions begin while backward goes on, in parts, and whose gradients are clipped") {
        on_stage const late;
        using early = network<input<1, 28, 28>, avg_pool2d<4>, flatten, linear<49>, hyperbolic_tangent, tied<2>,
                              sigmoid, linear<49>, relu, linear<10>>; // the last reduction's own rows are done before
        using trainer_t = trainer<early, cross_entropy, sgd_momentum, on<mesh<rehearsal, dp<dynamic>>>,
                                  reduce_by<direct, bucket<1_KiB>>, clip_norm>;
        using host_t = trainer<early, cross_entropy, sgd_momentum, on<mesh<host, dp<dynamic>>>,
                               reduce_by<direct, bucket<1_KiB>>, clip_norm>;
        auto const trained = []<class T>(pack<T>) {
            T t({.learning_rate = 0.5f, .max_norm = 0.5f, .batch = 50, .seed = 3}, {.devices = 2});
            for (std::size_t i = 0; i < 3; ++i) t.step(made_up(50, i));
            return t.gather_parameters();
        };
        CHECK(test_support::apart(trained(pack<trainer_t>{}), trained(pack<host_t>{})) < 1e-3);
    }
}

} // namespace rehearsed_tied_test
