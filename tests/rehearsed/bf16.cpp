// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Training on accelerators with bf16 between the layers and float parameters, rehearsed on the host.

#include <rehearsed/trainings.hpp>
#include <support/compare.hpp>
#include <support/networks.hpp>

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

namespace rehearsed_bf16_test {
using namespace trireme;
using rehearsal_runtime::stage;
using rehearsal_runtime::timing;

using test_networks::made_up;

using test_networks::conv3;
using norm = batch_norm<per_shard>;
/// Layers that take their parameters as values lie, with and without a function behind them, and such as do not.
using net = network<input<1, 28, 28>, avg_pool2d<4>, conv3<3>, norm, relu,
                    residual<sequential<conv3<3>, relu, conv3<3>, norm>>, repeat<2, relu, conv3<3>>, max_pool2d<2>,
                    dropout<percent<20>>, flatten, linear<12>, sigmoid, norm, linear<10>>;

using plain = network<input<1, 28, 28>, avg_pool2d<4>, conv3<3>, relu, flatten, linear<10>>;
template<class... Policies>
using of_plain = trainer<plain, cross_entropy, sgd, on<mesh<rehearsal, dp<2>>>, precision<bf16>, Policies...>;

template<class Dtype, class... Policies>
using any = trainer<net, cross_entropy, sgd_momentum, on<mesh<rehearsal, dp<dynamic>>>,
                    reproducible<fixed_tree, dynamic>, precision<Dtype>, Policies...>;

using images_last = kernels<channels_last<rehearsal::kernels>>;

struct outcome {
    std::vector<double> losses;
    std::vector<float> numbers; ///< parameters and buffers of rank 0
    bool operator==(outcome const&) const = default;
};
template<class Trainer>
outcome trained(typename Trainer::options o, std::initializer_list<std::size_t> steps, timing when = timing::shuffled) {
    stage::here().clear();
    stage::here().play(when, 7);
    o.learning_rate = 0.03f;
    o.batch = *steps.begin();
    o.seed = 3;
    Trainer t(o);
    outcome r;
    for (auto const samples : steps) r.losses.push_back(t.step(made_up(samples, r.losses.size() + 1)).loss);
    r.losses.push_back(t.evaluate(made_up(40)).loss);
    r.numbers.assign(t.parameters().begin(), t.parameters().end());
    r.numbers.insert(r.numbers.end(), t.buffers().begin(), t.buffers().end());
    stage::here().clear();
    stage::here().play(timing::late);
    return r;
}

/// Kernels that ask for a workspace, note something, and take gradients that are zero for anything.
struct particular : rehearsal::kernels {
    static constexpr std::size_t workspace_bytes(shape const& weights) noexcept {
        return weights.rank == 4 ? 192 * 1024 : 64 * 1024;
    }
    static inline int written = 0;

    particular(stream& queue, std::size_t samples, workspace scratch, rehearsal::libraries& l)
        : kernels(queue, samples, scratch, l) {
        l.noted = {"conv2d: by a block program"};
    }
};
template<class G, std::size_t Lanes, class T>
void conv2d_backward_weights(particular const& k, T const* x, T const* dy, T* dw, T* db) {
    if (k.gradients_are_zero()) {
        ++particular::written;
        k.queue().zero(dw, G::out_channels * G::channels * G::kernel * G::kernel * sizeof(T));
    }
    conv2d_backward_weights<G, Lanes>(static_cast<rehearsal::kernels const&>(k), x, dy, dw, db);
}

/// Where the rows' parameters lie in the narrow copy, as libraries read them.
template<class Kernels>
void narrow_rows_are_aligned() {
    using pass = stream_pass<net, storing_bf16<Kernels>, float>;
    std::size_t end = 0;
    for (std::size_t row = 0; row < net::depth; ++row) {
        auto const& d = net::row(row).description;
        if (!d.parameters_as_values) continue;
        CAPTURE(row);
        auto const begin = pass::narrow_place(row);
        CHECK(begin * sizeof(bf16) % 256 == 0);
        CHECK(begin >= end);
        end = begin + d.parameter_elements();
    }
    CHECK(pass::narrow_place(net::depth) >= end);
    CHECK(pass::narrow_place(net::depth) * sizeof(bf16) % 256 == 0); // one layer's gradients follow
}

TEST_SUITE("rehearsed/bf16") {
    TEST_CASE("losses follow those in float, and parameters are not rounded") {
        for (int const devices : {1, 2})
            for (std::size_t const shards : {std::size_t{0}, std::size_t{4}}) {
                CAPTURE(devices);
                CAPTURE(shards);
                // not few samples: a variance of almost equal values is mostly rounding
                auto const steps = std::initializer_list<std::size_t>{64, 64, 64, 50};
                auto const is = trained<any<bf16>>({.devices = devices, .logical_shards = shards}, steps);
                auto const wanted = trained<any<f32>>({.devices = devices, .logical_shards = shards}, steps);
                CHECK(test_support::relatively_apart(is.losses, wanted.losses) < 0.03);
                CHECK(is.losses != wanted.losses);
                std::size_t finer = 0;
                for (float const p : is.numbers) finer += static_cast<float>(bf16(p)) != p ? 1 : 0;
                CHECK(finer > is.numbers.size() / 2);
            }
    }

    TEST_CASE("the same bits for any number of ranks, eager or captured, whenever work is done") {
        outcome first;
        for (int const ranks : {1, 2, 4})
            for (bool const eager : {false, true})
                for (auto const when : {timing::late, timing::eager, timing::shuffled}) {
                    CAPTURE(ranks);
                    CAPTURE(eager);
                    auto const got = trained<any<bf16>>({.devices = ranks, .logical_shards = 4, .eager = eager},
                                                        {12, 9, 8, 12}, when);
                    if (first.losses.empty()) first = got;
                    CHECK(got == first);
                }
    }

    TEST_CASE_TEMPLATE("parameters that are loaded are rounded anew", Trainer, any<bf16>, any<bf16, images_last>) {
        Trainer a({.batch = 12, .seed = 1}), b({.batch = 12, .seed = 2});
        auto const images = made_up(12);
        b.load_parameters(a.parameters());
        b.load_buffers(a.buffers());
        CHECK(a.evaluate(images).loss == b.evaluate(images).loss);
        CHECK(a.step(images).loss > 0);
    }

    TEST_CASE("channels last, the same network: parameters are found in the same order") {
        auto const steps = std::initializer_list<std::size_t>{64, 64, 64, 50};
        auto const before = test_networks::weights(any<bf16>({.seed = 3}));
        for (std::size_t const shards : {std::size_t{0}, std::size_t{4}}) {
            CAPTURE(shards);
            auto const is = trained<any<bf16, images_last>>({.devices = 2, .logical_shards = shards}, steps);
            auto const wanted = trained<any<bf16>>({.devices = 2, .logical_shards = shards}, steps);
            // statistics and gradients are added in another order
            CHECK(test_support::relatively_apart(is.losses, wanted.losses) < 0.01);
            CHECK(test_networks::moved_apart<net>(before, is.numbers, wanted.numbers) < 0.1);
        }
        auto const first = trained<any<bf16, images_last>>({.devices = 1, .logical_shards = 4}, {12, 9, 8, 12});
        for (int const ranks : {2, 4})
            for (bool const eager : {false, true})
                for (auto const when : {timing::eager, timing::shuffled})
                    CHECK(trained<any<bf16, images_last>>({.devices = ranks, .logical_shards = 4, .eager = eager},
                                                          {12, 9, 8, 12}, when) == first);
    }

    TEST_CASE("channels last, what is dropped of a flattened image is the same") {
        using dropping =
            network<input<1, 28, 28>, avg_pool2d<4>, conv3<5>, relu, flatten, dropout<percent<30>>, linear<10>>;
        using first = trainer<dropping, cross_entropy, sgd, on<mesh<rehearsal, dp<1>>>, precision<bf16>>;
        using last = trainer<dropping, cross_entropy, sgd, on<mesh<rehearsal, dp<1>>>, precision<bf16>, images_last>;
        first a({.learning_rate = 0.1f, .batch = 16, .seed = 5});
        last b({.learning_rate = 0.1f, .batch = 16, .seed = 5});
        for (std::size_t step = 0; step < 4; ++step) {
            auto const images = made_up(16, step);
            CHECK(b.step(images).loss == doctest::Approx(a.step(images).loss).epsilon(2e-3));
        }
    }

    TEST_CASE("parameters begin where libraries read many bytes at once, in either order") {
        narrow_rows_are_aligned<rehearsal::kernels>();
        narrow_rows_are_aligned<channels_last<rehearsal::kernels>>();
    }

    TEST_CASE("kernels say how much workspace they want, what they do without a library, and overwrite zeros") {
        of_plain<> wanted({.learning_rate = 0.03f, .batch = 12, .seed = 1});
        CHECK(wanted.notes().empty());
        rehearsed::memory_taken const taken;
        of_plain<kernels<particular>> t({.learning_rate = 0.03f, .batch = 12, .seed = 1});
        taken.is_planned(t);
        for (int rank : {0, 1}) CHECK(t.plan().memory(rank).workspace == 2 * 192 * 1024);
        CHECK(t.notes() == std::vector<std::string>{"conv2d: by a block program"}); // of both ranks
        auto const before = particular::written;
        for (std::size_t step = 0; step < 3; ++step)
            CHECK(t.step(made_up(50, step)).loss == wanted.step(made_up(50, step)).loss); // granule by granule
        CHECK(particular::written > before);
        CHECK(test_networks::weights(t) == test_networks::weights(wanted));
    }

    TEST_CASE("a step larger than the batch") {
        auto const images = made_up(50);
        of_plain<> whole({.learning_rate = 0.03f, .batch = 50, .seed = 1}),
            in_parts({.learning_rate = 0.03f, .batch = 7, .seed = 1});
        for (int step = 0; step < 3; ++step)
            CHECK(in_parts.step(images).loss == doctest::Approx(whole.step(images).loss).epsilon(1e-2));
    }

    TEST_CASE("the plan is what the devices are asked for, to the byte; values take half of it") {
        for (int const ranks : {1, 3}) {
            rehearsed::memory_taken const taken;
            any<bf16> t({.batch = 60, .devices = ranks});
            taken.is_planned(t);
            t.step(made_up(60));
            taken.is_planned(t);
            auto const wide = any<f32>::plan(batch{60}, any<f32>::layout_of({.batch = 60, .devices = ranks}));
            CHECK(2 * t.plan().memory(0).activations < wide.memory(0).activations + 1024);
            CHECK(t.plan().memory(0).parameters < wide.memory(0).parameters * 5 / 2);
            CHECK(t.plan().wire_bytes_per_step() == wide.wire_bytes_per_step());
        }
    }
}

} // namespace rehearsed_bf16_test
