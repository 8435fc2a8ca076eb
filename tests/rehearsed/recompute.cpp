// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Values that accelerators drop and compute again, rehearsed on the host.

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>
#include <rehearsed/scale.hpp>
#include <rehearsed/trainings.hpp>
#include <support/described.hpp>
#include <support/recomputing.hpp>

namespace rehearsed_recompute_test {
using namespace trireme;
using namespace rehearsed;
using namespace test_recomputing;

namespace {

/// One block of several kinds of layers, and what follows.
using block = residual<sequential<conv2d<4, kernel<1>>, shard_norm, relu, conv2d<3, kernel<1>>, shard_norm>>;
using small_blocks = network<input<1, 28, 28>, avg_pool2d<4>, conv2d<3, kernel<1>>, relu, repeat<4, block>, sigmoid,
                             sequential<max_pool2d<2>, flatten, dropout<percent<20>>, linear<6>, relu>, linear<10>>;

struct copied {
    float const* from;
    float* to;
    void operator()(std::size_t i) const { to[i] = from[i]; }
};
struct one_more {
    float* number;
    void operator()(std::size_t) const { *number += 1; }
};
/// y = x; the running mean of 1, without an agreement.
struct counting {
    static constexpr layer_description describe(shape in) { return test_described::one_statistic(in); }
    static void forward(auto const& io) {
        if (io.place.statistics != nullptr) io.policy.each(1, one_more{io.place.statistics});
        io.policy.each(io.x.size() * io.policy.samples(), copied{io.x.data, io.y.data});
    }
    static void backward_input(auto const& io) {
        io.policy.each(io.x.size() * io.policy.samples(), copied{io.dy.data, io.dx.data});
    }
};

} // namespace

TEST_SUITE("rehearsed/recompute") {
    TEST_CASE("what is computed again leaves the bits as they are, however late or shuffled work is done") {
        {
            on_stage const late;
            has_the_bits_of_none<rehearsal, small_blocks, recompute<all>>(
                {one_f_one_b{}, zero_bubble_h1{}, interleaved<2>{}}, {1}, {1, 2}, as_planned);
        }
        on_stage const shuffled(timing::shuffled, 3);
        has_the_bits_of_none<rehearsal, small_blocks, recompute<block>>({gpipe{}}, {2}, {1, 2}, as_planned);
    }

    TEST_CASE("what a layer in place reads for its parameters stays, right behind a stretch, too") {
        using some = sequential<linear<100>, relu, linear<100>, hyperbolic_tangent>;
        using net = network<input<1, 28, 28>, avg_pool2d<4>, flatten, linear<100>, relu, some, some, scale<true>,
                            linear<100>, sigmoid, some, scale<true>, linear<10>>;
        for (auto const when : {timing::late, timing::shuffled}) {
            on_stage const how(when, 3);
            has_the_bits_of_none<rehearsal, net, recompute<some>>({gpipe{}}, {1}, {1}, as_planned);
        }
    }

    TEST_CASE("statistics that a layer adds as it goes forward are added once") {
        using block = sequential<counting, relu, linear<8>, relu>;
        using net = network<input<1, 28, 28>, flatten, linear<8>, block, linear<10>>;
        auto const seen = []<class... P>(pack<P...>) {
            on_stage const as_usual;
            trainer<net, cross_entropy, sgd, on<mesh<rehearsal, dp<1>>>, P...> t{{.batch = 8}};
            t.step(test_networks::made_up(8));
            return t.gather_buffers().front();
        };
        CHECK(seen(pack<>{}) == doctest::Approx(statistics_momentum));
        CHECK(seen(pack<recompute<block>>{}) == doctest::Approx(statistics_momentum));
    }

    TEST_CASE("numbers that devices add in the middle of a step they add once") {
        using norm = batch_norm<synchronised>;
        using part = sequential<conv2d<3, kernel<1>>, norm, relu, conv2d<3, kernel<1>>, norm, relu>;
        using net =
            network<input<1, 28, 28>, avg_pool2d<7>, conv2d<3, kernel<1>>, relu, part, part, flatten, linear<10>>;
        using kept_t = trainer<net, cross_entropy, sgd_momentum, on<mesh<rehearsal, dp<2>>>>;
        using again_t = trainer<net, cross_entropy, sgd_momentum, on<mesh<rehearsal, dp<2>>>, recompute<part>>;
        for (auto const when : {timing::late, timing::shuffled}) {
            on_stage const how(when, 3);
            kept_t kept({.batch = 24, .seed = 3});
            again_t again({.batch = 24, .seed = 3});
            for (std::size_t const n : {24u, 19u})
                CHECK(again.step(test_networks::made_up(n)).loss == kept.step(test_networks::made_up(n)).loss);
            CHECK(again.gather_parameters() == kept.gather_parameters());
            CHECK(again.gather_buffers() == kept.gather_buffers());
            CHECK(again.wire(0).bytes == kept.wire(0).bytes);
        }
    }

    TEST_CASE("every wait is needed, those before a stretch goes forward again, too") {
        using one = sequential<linear<6>, relu, linear<6>>;
        using other = sequential<linear<5>, relu, linear<5>>;
        using net = network<input<1, 28, 28>, avg_pool2d<14>, flatten, linear<3>, one, other, linear<10>>;
        using t = trainer<net, cross_entropy, sgd_momentum, on<mesh<rehearsal, dp<1>>>, recompute<one, other>>;
        every_wait_is_needed(0, [] {
            t again({.learning_rate = 0.1f, .batch = 8, .seed = 6});
            return epoch_of(again, 28);
        });
    }

    TEST_CASE("and where values lie narrow") {
        on_stage const how(timing::shuffled, 5);
        has_the_bits_of_none<rehearsal, small_blocks, recompute<all>, precision<bf16>>({one_f_one_b{}}, {1}, {2},
                                                                                       as_planned);
    }
}

} // namespace rehearsed_recompute_test
