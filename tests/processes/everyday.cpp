// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Optimizers, rates, losses and image changes over processes have the bits of one device.

#include <trireme/processes.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/changing.hpp>
#include <support/in_ranks.hpp>
#include <support/rates.hpp>
#include <support/weighing.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace processes_everyday_test {
namespace {

using namespace trireme;

/// Weights, biases, a norm and running statistics, for images of several channels.
using net = network<input<test_changing::channels, test_changing::height, test_changing::width>, flatten, linear<6>,
                    batch_norm<per_shard>, relu, linear<5>>;
template<class Optimizer, class Loss, class... Policies>
using any =
    trainer<net, Loss, Optimizer, on<mesh<host, dp<dynamic>, pp<dynamic>>>, reproducible<fixed_tree, 8>, Policies...>;

/// Images with a label each, some of which no loss counts, and with five targets between 0 and 1.
struct table {
    std::vector<std::uint8_t> pixels;
    std::vector<int> labels, some_labels;
    std::vector<float> targets;

    explicit table(std::size_t n) : pixels(test_changing::images<std::uint8_t>(n).numbers) {
        for (std::size_t i = 0; i < n; ++i) {
            labels.push_back(static_cast<int>(i % 5));
            some_labels.push_back(i % 7 == 3 ? test_weighing::left_out : labels.back());
        }
        for (std::size_t i = 0; i < 5 * n; ++i) targets.push_back(static_cast<float>(i * 3 % 11) / 11);
    }
    sample_set with_labels() const { return samples_in_memory(pixels, image, labels, 5).scaled(scale); }
    sample_set with_some_labels() const {
        return samples_in_memory(pixels, image, some_labels, 5, test_weighing::left_out).scaled(scale);
    }
    sample_set with_targets() const { return samples_in_memory(pixels, image, targets, make_shape(5)).scaled(scale); }
    sample_set changed() const { return augmented(with_labels(), image_changes{.crop_padding = 2, .flip = true}); }

private:
    static constexpr shape image = make_shape(test_changing::channels, test_changing::height, test_changing::width);
    static constexpr double scale = 1.0 / 128;
};

struct result {
    std::array<double, 5> losses;
    std::uint64_t weights, statistics; ///< digests
    bool operator==(result const&) const = default;
};

using samples_of = sample_set (table::*)() const;

/// Three steps, one of them on fewer samples than a batch; a test; a step.
result trained(auto& t, samples_of samples) {
    table const all(24), few(17);
    sample_set const full = (all.*samples)(), short_of = (few.*samples)();
    result r = {};
    std::size_t next = 0;
    for (auto const* set : {&full, &short_of, &full}) r.losses[next++] = t.step(*set).loss;
    r.losses[next++] = t.evaluate(full).loss;
    r.losses[next++] = t.step(full).loss;
    auto const weights = t.gather_parameters(), statistics = t.gather_buffers();
    r.weights = digest_of(std::as_bytes(std::span(weights)));
    r.statistics = digest_of(std::as_bytes(std::span(statistics)));
    return r;
}

template<class Trainer>
typename Trainer::options training(rate_schedule const& rate) {
    typename Trainer::options o{.learning_rate = 0.05f, .rate = rate};
    o.weight_decay = 0.1f;
    o.batch = 24;
    o.seed = 11;
    return o;
}

/// A row of the table: types that a trainer has.
template<class Optimizer, class Loss = cross_entropy, class... Policies>
struct with {};

/// Forked ranks come to the result of one device in this process, which is returned.
template<class Optimizer, class Loss, class... Policies>
result same_everywhere(std::string const& what, with<Optimizer, Loss, Policies...>, samples_of samples,
                       rate_schedule const& rate = {}) {
    using over_threads = any<Optimizer, Loss, Policies...>;
    using over_processes = any<Optimizer, Loss, Policies..., transport<shared_windows>>;
    CAPTURE(what);
    over_threads one(training<over_threads>(rate), {.devices = 1, .stages = 1});
    auto const wanted = trained(one, samples);
    for (auto const& [devices, stages] : {std::pair{2, 1}, {3, 1}, {1, 2}})
        test_ranks::come_to<over_processes>(wanted, training<over_processes>(rate),
                                            {.devices = devices, .stages = stages},
                                            [&](auto& t) { return trained(t, samples); });
    return wanted;
}

} // namespace

TEST_SUITE("processes/everyday") {
    TEST_CASE("replicas and stages that are processes have the bits of one device, whatever they train with") {
        watchdog const guard("what is trained with every day");
        std::vector found{
            same_everywhere("rmsprop", with<rmsprop>{}, &table::with_labels),
            same_everywhere("augmented", with<rmsprop>{}, &table::changed),
            same_everywhere("adagrad", with<adagrad>{}, &table::with_labels),
            same_everywhere("without_decay", with<adagrad, cross_entropy, without_decay<biases, norms>>{},
                            &table::with_labels),
            same_everywhere("rmsprop_momentum, binary_cross_entropy", with<rmsprop_momentum, binary_cross_entropy>{},
                            &table::with_targets),
            same_everywhere("cross_entropy_with", with<rmsprop, test_weighing::weighing>{}, &table::with_some_labels)};
        for (auto const& [name, rate] : test_rates::one_of_each_kind())
            found.push_back(same_everywhere(name, with<rmsprop>{}, &table::with_labels, rate));
        for (std::size_t a = 0; a < found.size(); ++a) // each row changes the training
            for (std::size_t b = 0; b < a; ++b) CHECK(found[a].weights != found[b].weights);
    }
}

} // namespace processes_everyday_test
