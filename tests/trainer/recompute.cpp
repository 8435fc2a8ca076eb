// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Values that are dropped on the way there and computed again on the way back.

#include <doctest/doctest.h>
#include <support/arenas.hpp>
#include <support/described.hpp>
#include <support/recomputing.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace trainer_recompute_test {
using namespace trireme;
using namespace test_recomputing;
using test_networks::every_sum;
using test_networks::made_up;
using test_recomputing::blocks; // and not the namespace of block programs
using test_support::as_planned;

namespace {

using ranges = std::vector<std::pair<std::size_t, std::size_t>>;
ranges stretches_of(recomputed_rows rows) {
    ranges all;
    for (auto const& r : rows) all.push_back({r.begin, r.end});
    return all;
}

/// y = x; the running mean of 1, which each granule adds its share to in `forward`, without an agreement.
struct counting {
    static constexpr layer_description describe(shape in) { return test_described::one_statistic(in); }
    static void forward(auto const& io) {
        auto const& at = io.place.granule;
        if (io.place.statistics != nullptr)
            io.place.statistics[0] += static_cast<float>(at.count) / static_cast<float>(at.batch);
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = io.x[i];
    }
    static void backward_input(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.dx[i] = io.dy[i];
    }
};

// What is computed again is a value: the options, and the machine code that they are a key of, are the same.
using usual = trainer<blocks, cross_entropy, sgd>;
static_assert(std::is_same_v<trainer<blocks, cross_entropy, sgd, recompute<all>>::options, usual::options>);
static_assert(std::is_same_v<trainer<blocks, cross_entropy, sgd, on<mesh<host, dp<2>>>>::options, usual::options>);

} // namespace

TEST_SUITE("trainer/recompute") {
    TEST_CASE("blocks that are computed again leave the bits as they are, in less memory") {
        has_the_bits_of_none<host, blocks, any_blocks>({one_f_one_b{}, zero_bubble_h1{}, interleaved<2>{}}, {1, 2},
                                                       {1, 2}, as_planned);
        has_the_bits_of_none<host, every_layer, any_of_every_layer>({gpipe{}}, {1, 3}, {1, 2}, as_planned);
    }

    TEST_CASE("so does all that is between the ends of stages, or wherever the compiler cuts one") {
        has_the_bits_of_none<host, blocks, recompute<all>>(
            {one_f_one_b{}, gpipe{}, zero_bubble_h1{}, interleaved<2>{}, zero_bubble_v{}}, {1, 2}, {1, 2, 3},
            as_planned);
        has_the_bits_of_none<host, every_layer, recompute<all>>({one_f_one_b{}}, {1, 2}, {1, 2}, as_planned);
    }

    TEST_CASE("granules without norms, which go through all rows one behind the other, compute again, too") {
        using four = repeat<4, linear<24>, relu, linear<24>, hyperbolic_tangent>;
        using dense = network<input<1, 28, 28>, flatten, linear<24>, sigmoid, four, linear<10>>;
        has_the_bits_of_none<host, dense, recompute<all>>({gpipe{}}, {1, 2}, {1, 2}, as_planned);
        has_the_bits_of_none<host, dense, recompute<four>, accumulate<2>>({one_f_one_b{}}, {1}, {1, 2}, as_planned);
    }

    TEST_CASE("values that the loss's gradient finds as they were are not computed again") {
        using last = sequential<linear<30>, sigmoid, linear<30>, sigmoid, linear<10>>;
        using net = network<input<8>, linear<20>, last>;
        using again_t = trainer<net, cross_entropy, sgd, on<mesh<host, dp<1>, pp<dynamic>>>, recompute<last>>;
        auto const flops = [](int stages, int stage) {
            return again_t::plan(64, again_t::layout_of({.batch = 64}, {.stages = stages})).flops(stage).again;
        };
        CHECK(flops(1, 0) == 0);
        CHECK(flops(2, 1) > 0); // where they are tasks of their own others may come between
    }

    TEST_CASE("what devices agree on in the middle of a step they agree on once") {
        using kept_t = trainer<every_sum, cross_entropy, sgd_momentum, on<mesh<host, dp<dynamic>>>>;
        using again_t = trainer<every_sum, cross_entropy, sgd_momentum, on<mesh<host, dp<dynamic>>>, recompute<all>>;
        for (int const devices : {1, 2, 3}) {
            CAPTURE(devices);
            kept_t kept({.batch = 24, .seed = 3}, {.devices = devices});
            again_t again({.batch = 24, .seed = 3}, {.devices = devices});
            for (std::size_t const n : {24u, 19u, 24u})
                CHECK(again.step(made_up(n)).loss == kept.step(made_up(n)).loss);
            CHECK(again.gather_parameters() == kept.gather_parameters());
            CHECK(again.gather_buffers() == kept.gather_buffers());
            for (int rank = 0; rank < devices; ++rank) CHECK(again.wire(rank).bytes == kept.wire(rank).bytes);
            CHECK(again.plan().memory().activations < kept.plan().memory().activations);
        }
    }

    TEST_CASE("statistics that a layer adds as it goes forward are added once") {
        using block = sequential<counting, gelu, linear<8>, gelu>;
        using net = network<input<1, 28, 28>, flatten, linear<8>, block, linear<10>>;
        auto const seen = []<class... P>(pack<P...>) {
            trainer<net, cross_entropy, sgd, P...> t{{.batch = 24}};
            t.step(made_up(24));
            return t.gather_buffers().front();
        };
        using stages = on<mesh<host, dp<1>, pp<2>>>;
        auto const once = doctest::Approx(statistics_momentum);
        CHECK(seen(pack<>{}) == once);
        CHECK(seen(pack<recompute<block>>{}) == once);
        CHECK(seen(pack<recompute<all>, accumulate<2>, on<mesh<host, dp<2>>>>{}) == once);
        CHECK(seen(pack<recompute<all>, stages, pipeline<one_f_one_b, 4>>{}) == once);
        CHECK(seen(pack<recompute<all>, stages, pipeline<zero_bubble_h1, 4>>{}) == once);
    }

    TEST_CASE("stretches begin and end where a network can be cut, and a repeat is one after the other") {
        // 0 linear, 1 to 3 repeat, 4 to 6 repeat, 7 fork, 8 linear, 9 relu, 10 branch, 11 sum, 12 relu, 13 linear
        using way = sequential<linear<8>, relu>;
        using net = network<input<8>, linear<8>, repeat<2, linear<8>, relu, linear<8>>, residual<way>, relu, linear<3>>;
        auto const of = []<class... Block>(recompute<Block...>) {
            return stretches_of(recompute<Block...>::template rows<net>(1));
        };
        CHECK(of(recompute<repeat<2, linear<8>, relu, linear<8>>>{}) == ranges{{1, 4}, {4, 7}});
        CHECK(of(recompute<residual<way>>{}) == ranges{{7, 13}}); // with the function that its sum is computed with
        CHECK(of(recompute<way>{}).empty());
        CHECK(of(recompute<linear<3>>{}).empty());
        using named_net =
            network<input<8>, named<"first", sequential<linear<8>, named<"one", sequential<linear<7>, relu>>>>,
                    sequential<linear<6>, linear<5>>, linear<3>>;
        CHECK(stretches_of(recompute<named<"one", sequential<linear<7>, relu>>>::rows<named_net>(1)) == ranges{{1, 3}});
        CHECK(stretches_of(recompute<sequential<linear<7>, relu>, sequential<linear<6>, linear<5>>>::rows<named_net>(
                  1)) == ranges{{1, 3}, {3, 5}});
        CHECK(stretches_of(recompute<all>::rows<named_net>(2)) == ranges{{0, 6}});
        // the function at the beginning of a block is computed with the layer before it
        using behind = sequential<relu, linear<7>, linear<6>>;
        using net_of_functions = network<input<8>, linear<8>, behind, linear<3>>;
        CHECK(stretches_of(recompute<behind>::rows<net_of_functions>(1)) == ranges{{2, 4}});
    }
}

} // namespace trainer_recompute_test
