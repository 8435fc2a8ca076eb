// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The code of docs/guide.md and docs/schedules.md. What stands between "// [name]" and "// [/name]" is printed there
// word for word, which snippets.py checks; what stands around it proves what the pages say about it.

#include <doctest/doctest.h>
#include <support/networks.hpp>
#include <trireme/schedule/draw.hpp>
#include <trireme/schedule/pipeline/print.hpp>
#include <trireme/schedules.hpp>
#include <trireme/weights.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

using namespace trireme;
using test_networks::held;
using test_networks::made_up;

namespace {

// [network]
using net = network<input<1, 28, 28>, conv2d<6, kernel<5>, padding<2>>, sigmoid, avg_pool2d<2>, flatten, linear<10>>;

static_assert(net::row(2).description.output == make_shape(6, 14, 14)); // what the pooling layer makes
static_assert(net::row(4).input == make_shape(6 * 14 * 14));            // what the linear layer gets
static_assert(net::parameters == (6 * 25 + 6) + (1176 * 10 + 10));
// [/network]
static_assert(net::row(3).description.execution.view && net::depth == 5);

// [own_layer]
struct gain {
    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
        d.forward_flops = in.size(); // of one sample; the plan adds them up
        d.backward_input_flops = in.size();
        d.backward_weights_flops = 2 * in.size();
        d.parameter_count = 1;
        d.parameters[0] = {.name = "factor", .shape = make_shape(1), .init = initial::ones};
        d.execution.backward_reads_output = false; // so that its memory is free sooner
        return d;
    }
    static void forward(auto const& io) { // y = factor * x
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = io.parameter(0)[0] * io.x[i];
    }
    static void backward_input(auto const& io) { // writes dx
        for (std::size_t i = 0; i < io.x.size(); ++i) io.dx[i] = io.parameter(0)[0] * io.dy[i];
    }
    static void backward_weights(auto const& io) { // adds to the gradient: other samples have added before
        for (std::size_t i = 0; i < io.x.size(); ++i) io.gradient(0)[0] += io.x[i] * io.dy[i];
    }
};
// [/own_layer]

// [wrong_layer]
struct gain_that_forgets : gain {
    static void backward_weights(auto const& io) {
        io.gradient(0)[0] = 0; // "begin with nothing": what other samples have added is lost
        gain::backward_weights(io);
    }
};
// [/wrong_layer]

// [plan]
using small_trainer = trainer<net, cross_entropy, sgd>; // one device of this process
constexpr auto cost = small_trainer::plan(batch{256});

static_assert(cost.parameters == 11'926);
static_assert(cost.memory(0).optimizer_state == 0); // plain SGD keeps none
static_assert(cost.wire_bytes_per_step() == 0);     // nobody to talk to
static_assert(cost.bytes_per_device() < 2_MiB);
// [/plan]
static_assert(cost.memory(0).parameters == 47'744 && cost.memory(0).gradients == 47'744);

// [two_devices]
using two = data_parallel_trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>>;
// [/two_devices]

// [strategies]
template<class Strategy>
using eight = data_parallel_trainer<net, cross_entropy, sgd, on<mesh<host, dp<8>>>, reduce_by<Strategy>>;

constexpr auto by_ring = eight<ring>::plan(batch{256}).wire(3); // what device 3 exchanges with the others per step
constexpr auto by_tree = eight<double_binary_tree>::plan(batch{256}).wire(3);
constexpr auto by_exchange = eight<direct>::plan(batch{256}).wire(3);

static_assert(by_ring.messages == 14 && by_exchange.messages == 14 && by_tree.messages == 16);
static_assert(by_ring.bytes < by_tree.bytes && by_exchange.bytes < by_tree.bytes);
// [/strategies]
static_assert(ring::all_reduce(8).steps == 15 && direct::all_reduce(8).steps == 2);

// [best_of]
using choice = best_of<direct, ring, recursive_halving_doubling>;

// two boxes of four processors: near links, and a wire between them that is slower
struct two_boxes {
    static constexpr machine description{{{1e-6, 1e-10, 2e-11, 1e-7}, {2e-5, 1e-9, 2e-11, 5e-6}}, levels(4, 2)};
};
using wired = best_of<direct, ring, hierarchical<direct, ring>>::on<two_boxes>;

static_assert(choice::prices<collective::all_reduce>(8, 1_MiB).name() == direct::name);
static_assert(wired::prices<collective::all_reduce>(8, 16_MiB).name() == hierarchical<direct, ring>::name);

using by_size = data_parallel_trainer<net, cross_entropy, sgd, on<mesh<host, dp<8>>>, reduce_by<choice>>;
// [/best_of]
static_assert(by_size::plan(batch{256}).layout.reduction(0, by_size::plan(batch{256}).arena_elements, 4).name ==
              direct::name);

// [by_tensor]
// the biases and small weights directly, the large weights by a ring
using by_tensor = data_parallel_trainer<net, cross_entropy, sgd, on<mesh<host, dp<8>>>,
                                        reduce_by<direct, for_tensors<of_at_least<16_KiB>, ring>>>;

constexpr auto mixed = by_tensor::plan(batch{256});
static_assert(mixed.layout.reductions() == 3); // collectives per step: tensors side by side travel together
// [/by_tensor]

// [compressed]
constexpr auto half = eight<compressed<bf16, ring>>::plan(batch{256});
static_assert(half.wire_bytes_per_step() == 668'416 / 2 && half.memory(3).strategy_state == 71'616);
// [/compressed]

// [held_once]
using two_sharing = data_parallel_trainer<net, cross_entropy, sgd_momentum, on<mesh<host, dp<2>>>, hold_weights<once>>;
using two_apart = data_parallel_trainer<net, cross_entropy, sgd_momentum, on<mesh<host, dp<2>>>>;

constexpr auto sharing = two_sharing::plan(batch{256}), apart = two_apart::plan(batch{256});

static_assert(sharing.memory(1).parameters == 0);                                               // device 0 has them
static_assert(sharing.memory(0).optimizer_state + sharing.memory(1).optimizer_state == 47'744); // each its slice
static_assert(2 * sharing.wire_bytes_per_step() == apart.wire_bytes_per_step());
// [/held_once]

// [star]
struct star {
    static constexpr char const* name = "star";

    static constexpr schedule all_reduce(int ranks) noexcept { return {name, ranks, 1, ranks > 1 ? 3 : 0, &step}; }

    static constexpr collective_step step(int ranks, int rank, int s) noexcept {
        if (rank == 0 && s == 0) return {step_kind::reduce, 0, all_others(0, ranks), 0}; // 0 adds everybody's numbers,
        if (rank != 0 && s == 1) return {step_kind::copy, 0, one_rank(0), 1};            // the others copy the sum,
        if (rank == 0 && s == 2) return {step_kind::wait, 0, all_others(0, ranks), 2};   // 0 stays until they have it
        return {};
    }
};
static_assert(verify(collective::all_reduce, star::all_reduce(8)).ok());

using star_trainer = data_parallel_trainer<net, cross_entropy, sgd, on<mesh<host, dp<3>>>, reduce_by<star>>;
// [/star]

// [impatient]
struct impatient {
    static constexpr schedule all_reduce(int ranks) noexcept { return {"impatient", ranks, 1, 3, &step}; }
    static constexpr collective_step step(int ranks, int rank, int s) noexcept {
        return s == 2 ? collective_step{} : star::step(ranks, rank, s); // without the last wait
    }
};
constexpr auto found = verify(collective::all_reduce, impatient::all_reduce(4));
static_assert(found.fault == schedule_fault::overwritten);
// [/impatient]
static_assert(found.rank == 1 && found.step == 1 && found.chunk == 0);

// [impatient_ring]
struct impatient_ring {
    static constexpr schedule all_reduce(int ranks) noexcept {
        return {"impatient_ring", ranks, ranks, 2 * ranks - 1, &step};
    }
    static constexpr collective_step step(int ranks, int rank, int s) noexcept {
        bool const leaves = rank == 2 && s == 2 * ranks - 2; // without the last wait
        return leaves ? collective_step{} : ring::all_reduce(ranks).at(rank, s);
    }
};
// [/impatient_ring]

// [same_bits]
template<int Devices>
using steady = data_parallel_trainer<net, cross_entropy, sgd, on<mesh<host, dp<Devices>>>, reproducible<fixed_tree, 8>>;

template<int Devices>
std::vector<float> trained(dataset const& data) {
    steady<Devices> t{{.learning_rate = 0.5f, .batch = 100, .seed = 4}};
    for (auto const& epoch : t.fit(data, {.epochs = 2})) std::cout << epoch << '\n';
    return t.gather_parameters();
}
// [/same_bits]

// [broken_oar]
struct broken_oar { // a policy for tests: called at fixed points of every step, on every device
    static void at(fault_point where, int device, std::uint64_t step) {
        if (where == fault_point::backward && device == 1 && step == 2) throw std::runtime_error("the oar is broken");
    }
};
using fragile = data_parallel_trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>, with_faults<broken_oar>>;
// [/broken_oar]

/// Device 1 does not come back before it is told to.
struct asleep {
    static inline std::atomic<bool> wake{false};
    static void at(fault_point where, int device, std::uint64_t) {
        if (where != fault_point::forward || device != 1) return;
        while (!wake) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
};
using sleepy = data_parallel_trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>, with_faults<asleep>>;

// [at_run_time]
using any_trainer = data_parallel_trainer<net, cross_entropy, sgd, on<mesh<host, dp<dynamic>>>,
                                          reduce_by<chosen_at_run_time>, reproducible<fixed_tree, dynamic>>;
// [/at_run_time]

bool alike(std::span<float const> a, std::span<float const> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](float x, float y) { return std::abs(x - y) <= 1e-4f * std::max(1.0f, std::abs(x)); });
}

bool same_bits(std::vector<float> const& a, std::vector<float> const& b) { return test_networks::same_bits(a, b); }

bool contains(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

// [residual]
template<std::size_t Channels>
using block = sequential<residual<sequential<conv2d<Channels, kernel<3>, padding<1>>, batch_norm<per_shard>, relu,
                                             conv2d<Channels, kernel<3>, padding<1>>, batch_norm<per_shard>>>,
                         relu>;
template<std::size_t Channels>
using narrowing = residual<conv2d<Channels, kernel<3>, padding<1>, stride<2>>, // half as high and wide, and beside it
                           conv2d<Channels, kernel<1>, stride<2>>>;            // a shortcut that does the same

using residual_net = network<input<1, 28, 28>, conv2d<4, kernel<3>, padding<1>>, repeat<3, block<4>>, narrowing<8>,
                             global_avg_pool2d, linear<10>>;

static_assert(residual_net::parameters == 40 + 3 * 2 * (4 * 36 + 4 + 8) + (8 * 36 + 8) + (8 * 4 + 8) + 90);
static_assert(residual_net::buffers == 3 * 2 * 8);
// [/residual]

// [scopes]
template<class Norm>
using normed = network<input<1, 28, 28>, conv2d<4, kernel<3>, stride<2>>, Norm, relu, global_avg_pool2d, linear<10>>;
template<class Norm, int Devices>
using normed_trainer = data_parallel_trainer<normed<Norm>, cross_entropy, sgd, on<mesh<host, dp<Devices>>>>;

// what devices must tell each other in a step: gradients and statistics, and for `synchronised` sums on the way
static_assert(normed_trainer<batch_norm<synchronised>, 2>::plan(batch{64}).wire_bytes_per_step() >
              normed_trainer<batch_norm<per_shard>, 2>::plan(batch{64}).wire_bytes_per_step());
// [/scopes]

// [piped]
using piped = trainer<net, cross_entropy, sgd_momentum, on<mesh<host, dp<2>, pp<2>>>, pipeline<one_f_one_b, 4>,
                      reproducible<fixed_tree, 8>>;

constexpr auto in_stages = piped::plan(batch{256});
static_assert(in_stages.devices() == 4 && in_stages.bubble(in_stages.equal_stages) < 0.21); // if they were equal
static_assert(in_stages.imbalance() > 1.5 && in_stages.bubble() > 0.4);                     // which they are not
static_assert(in_stages.memory(0).parameters + in_stages.memory(1).parameters < 47'872);    // 11,926 numbers, held once
// [/piped]

// [piped_traffic]
static_assert(in_stages.wire_along("dp").bytes + in_stages.wire_along("pp").bytes == in_stages.wire_bytes_per_step());
static_assert(in_stages.wire(0, 1).bytes > 0);     // device 0 has gradients from the stage behind it,
static_assert(in_stages.wire(0, 2).bytes > 0);     // and adds those of its weights with the other replica;
static_assert(in_stages.wire(0, 3).messages == 0); // with the other's second stage it has nothing to do
// [/piped_traffic]

} // namespace

TEST_SUITE("docs/guide") {
    TEST_CASE("a network is a type") {
        std::ostringstream out;
        auto* const before = std::cout.rdbuf(out.rdbuf());
        // [table]
        std::cout << network_table<net>();
        // [/table]
        std::cout.rdbuf(before);
        auto const text = out.str();
        CAPTURE(text);
        CHECK(contains(text, "avg_pool2d<2>                           6 x 14 x 14"));
        CHECK(contains(text, "11,926"));
    }

    TEST_CASE("a layer of one's own, and its gradients") {
        // [check_gradients]
        auto const report = check_gradients<gain, input<3, 5, 4>>();
        auto const wrong = check_gradients<gain_that_forgets, input<3, 5, 4>>();
        // [/check_gradients]
        CHECK(report.ok());
        CHECK(report.derivatives > 60);
        CHECK(!wrong.ok());
        CHECK(!wrong.adds_parameter_gradients);
        CHECK(wrong.parameter_error < 1e-6); // alone the wrong layer's derivatives are right

        // [use_own_layer]
        using louder = network<input<1, 28, 28>, avg_pool2d<4>, gain, flatten, linear<10>>;
        static_assert(louder::parameters == 1 + 49 * 10 + 10);
        // [/use_own_layer]
        trainer<louder, cross_entropy, sgd> t{{.learning_rate = 0.1f, .batch = 64}};
        auto const images = made_up(64);
        auto const first = t.step(images).loss;
        for (int i = 0; i < 20; ++i) t.step(images);
        CHECK(t.step(images).loss < first);
        CHECK(t.gather_parameters()[0] != 1.0f);
    }

    TEST_CASE("images") {
        // [images]
        std::vector<std::uint8_t> pixels(3 * 28 * 28), labels{7, 0, 2};
        labelled_images const three(pixels, labels, 28, 28, 10); // 28 rows of 28 pixels, 10 classes
        // [/images]
        CHECK(three.size() == 3);
        CHECK(three.label(0) == 7);
        CHECK(three.image(2).size() == 784);
    }

    TEST_CASE("one device") {
        auto const images = made_up(600);
        // [one_device]
        small_trainer t{{.learning_rate = 0.5f, .batch = 64, .seed = 1}};
        auto const first = t.step(images.take(0, 64)); // forward, backward, update
        for (int i = 0; i < 40; ++i) t.step(images.take(0, 64));
        auto const last = t.step(images.take(0, 64));
        auto const before = t.gather_parameters()[0];
        auto const test = t.evaluate(images); // forward only
        // [/one_device]
        CHECK(first.step == 1);
        CHECK(last.step == 42);
        CHECK(first.samples == 64);
        CHECK(last.loss < first.loss);
        CHECK(test.samples == 600);
        CHECK(test.accuracy > 0.1);
        CHECK(t.gather_parameters()[0] == before);
        CHECK(t.plan().bytes_per_device() == cost.bytes_per_device()); // the batch is not in it
    }

    TEST_CASE("epochs") {
        auto const images = made_up(600);
        std::ostringstream out;
        auto* const before = std::cout.rdbuf(out.rdbuf());
        small_trainer t{{.learning_rate = 0.5f, .batch = 64, .seed = 1}};
        std::vector<std::size_t> done;
        // [fit]
        dataset const data{images.take(0, 500), images.take(500, 100)}; // to learn from, to be judged by
        auto const watch = [&](progress_report const& p) { done.push_back(p.samples); };
        for (auto const& epoch : t.fit(data, {.epochs = 3}, watch)) std::cout << epoch << '\n';
        // [/fit]
        CHECK(contains(out.str(), "epoch 3  loss "));
        CHECK(contains(out.str(), "test accuracy"));
        // [learning_rate]
        for (auto const& epoch : t.fit(data, {.epochs = 4}))
            if (epoch.epoch % 2 == 0)
                t.set_learning_rate(t.current_options().learning_rate / 2); // holds for all further steps
        // [/learning_rate]
        CHECK(t.current_options().learning_rate == 0.125f);
        // [train]
        auto const report = t.train(data, {.epochs = 2});
        std::cout << report.loss << ", " << report.test.accuracy << '\n';
        // [/train]
        std::cout.rdbuf(before);
        CHECK(report.epoch == 2);
        CHECK(report.tested);
        CHECK(report.test.samples == 100);
        CHECK(report.devices == 1);
        REQUIRE(done.size() == 3 * 8); // 7 batches of 64 and one of 52
        CHECK(done[6] == 448);
        CHECK(done[7] == 500);
        CHECK(done[8] == 64);
    }

    TEST_CASE("two devices do the work of one") {
        auto const images = made_up(64);
        // [compare]
        small_trainer alone{{.learning_rate = 0.5f, .batch = 64, .seed = 1}};
        two together{{.learning_rate = 0.5f, .batch = 64, .seed = 1}};
        auto const one_loss = alone.step(images).loss;
        auto const two_loss = together.step(images).loss;
        // [/compare]
        CHECK(one_loss == doctest::Approx(two_loss).epsilon(1e-5));
        CHECK(alike(alone.gather_parameters(), together.gather_parameters()));
        CHECK(held(together, 0) == held(together, 1)); // bit for bit: they added alike

        // [wire]
        constexpr auto promised = two::plan(batch{64}).wire(1); // a constant
        auto const counted = together.wire(1);                  // what device 1 has moved so far: one step
        // [/wire]
        CHECK(counted.bytes == promised.bytes);
        CHECK(counted.messages == promised.messages);
        CHECK(promised.bytes == 47'744); // half a buffer read, half a buffer written
    }

    TEST_CASE("all-reduce on numbers of one's own") {
        // [collective]
        threads::group group(4);
        std::vector<float> sums(4);
        group.run([&](threads::communicator& me) { // the same function on every rank, in a thread of its own
            std::vector<float> mine(100, static_cast<float>(me.rank() + 1)), largest(100);
            all_reduce<ring>(me, mine, largest, op::max{});
            all_reduce(me, mine); // in place; by the strategy that is the cheapest for this size and these ranks
            sums[static_cast<std::size_t>(me.rank())] = mine[99] + largest[99];
        });
        // [/collective]
        CHECK(sums == std::vector<float>(4, 1 + 2 + 3 + 4 + 4));
    }

    TEST_CASE("a schedule is a value") {
        // [ask_a_schedule]
        constexpr auto s = ring::all_reduce(4);
        constexpr auto first = s.at(2, 0); // what rank 2 does in its first step
        static_assert(first.kind == step_kind::reduce && first.chunk.first == 0 && first.sources.first == 1);
        static_assert(traffic_of(s, 2, 1'000'000, sizeof(float)).messages == 6);
        // [/ask_a_schedule]
        CHECK(s.steps == 7);

        auto const images = made_up(64);
        small_trainer alone{{.learning_rate = 0.5f, .batch = 64}};
        star_trainer t{{.learning_rate = 0.5f, .batch = 64}};
        CHECK(alone.step(images).loss == doctest::Approx(t.step(images).loss).epsilon(1e-5));
        CHECK(alike(alone.gather_parameters(), held(t, 2)));
    }

    TEST_CASE("a step is a value") {
        std::ostringstream file;
        // [show_step]
        steady<3> const shared{{.batch = 100}};
        file << table_of(shared.program(0));
        // [/show_step]
        CHECK(file.str() == "role 0: 1 frame\n"
                            "  0   train             micro-batch 0, stage 0, frame 0\n"
                            "  1   train             micro-batch 1, stage 0, frame 0\n"
                            "  2   collective        slice 0\n"
                            "  3   update            slice 0\n");
    }

    TEST_CASE("a pipeline of stages") {
        auto const images = made_up(64);
        std::ostringstream file;
        // [piped_bits]
        piped t{{.learning_rate = 0.5f, .batch = 64}};
        trainer<net, cross_entropy, sgd_momentum, reproducible<fixed_tree, 8>> alone{
            {.learning_rate = 0.5f, .batch = 64}};
        bool const same = t.step(images).loss == alone.step(images).loss &&
                          same_bits(t.gather_parameters(), alone.gather_parameters());
        file << table_of(t.program(0));
        // [/piped_bits]
        CHECK(same);
        // [halves]
        using in_halves = trainer<net, cross_entropy, sgd_momentum, on<mesh<host, dp<2>, pp<2>>>,
                                  pipeline<zero_bubble_h1, 4>, reproducible<fixed_tree, 8>>;
        in_halves h{{.learning_rate = 0.5f, .batch = 64}};
        h.step(images);
        bool const as_well = same_bits(h.gather_parameters(), alone.gather_parameters());
        // [/halves]
        CHECK(as_well);
        CHECK(file.str().starts_with("role 0: 2 frames\n"
                                     "  0   forward           micro-batch 0, stage 0, frame 0\n"
                                     "  1   move              sends values of micro-batch 0 to role 1\n"
                                     "  2   forward           micro-batch 1, stage 0, frame 1\n"
                                     "  3   move              sends values of micro-batch 1 to role 1, receives "
                                     "gradients of micro-batch 0 from role "
                                     "1\n"
                                     "  4   backward          micro-batch 0, stage 0, frame 0\n"));
    }

    TEST_CASE("a proof that fails is drawn") {
        std::ostringstream file;
        // [draw]
        auto const wrong = impatient_ring::all_reduce(4);
        auto const why = verify(collective::all_reduce, wrong);
        file << schedule_svg(wrong, "a ring whose rank 2 does not wait at the end", why);
        // [/draw]
        CHECK(why.fault == schedule_fault::overwritten);
        CHECK((why.rank == 3 && why.step == 3 && why.chunk == 2));
        CHECK(file.str().find("found at rank 3, step 3, chunk 2") != std::string::npos);
    }

    TEST_CASE("batches of any size") {
        auto const images = made_up(64);
        // [last_batch]
        data_parallel_trainer<net, cross_entropy, sgd, on<mesh<host, dp<3>>>> t{{.learning_rate = 0.5f, .batch = 64}};
        small_trainer alone{{.learning_rate = 0.5f, .batch = 64}};
        for (std::size_t const n : {std::size_t{64}, std::size_t{7}, std::size_t{1}}) {
            auto const shared_loss = t.step(images.take(0, n)).loss;
            auto const own_loss = alone.step(images.take(0, n)).loss;
            CHECK(shared_loss == doctest::Approx(own_loss).epsilon(1e-4));
        }
        // [/last_batch]
        CHECK(alike(alone.gather_parameters(), t.gather_parameters()));
    }

    TEST_CASE("the same bits") {
        dataset const data{made_up(250), {}};
        std::ostringstream out;
        auto* const before = std::cout.rdbuf(out.rdbuf());
        // [compare_bits]
        auto const one = trained<1>(data), three = trained<3>(data), eight_of_them = trained<8>(data);
        bool const equal = same_bits(one, three) && same_bits(one, eight_of_them);
        // [/compare_bits]
        std::cout.rdbuf(before);
        CHECK(equal);
    }

    TEST_CASE("a device that fails") {
        auto const images = made_up(64);
        std::string said, afterwards;
        int device = -1;
        // [device_error]
        fragile t{{.learning_rate = 0.5f, .batch = 64}};
        t.step(images);
        try {
            t.step(images);
        } catch (device_error const& e) {
            device = e.device(); // 1
            said = e.what();     // "device 1: the oar is broken (train of micro-batch 0 in stage 0, training step 2)"
        }
        // [/device_error]
        CHECK(device == 1);
        CHECK(said == "device 1: the oar is broken (train of micro-batch 0 in stage 0, training step 2)");
        CHECK_THROWS_AS(t.step(images), usage_error);
    }

    TEST_CASE("a device that does not come") {
        auto const images = made_up(64);
        std::string said;
        auto const t = std::make_unique<sleepy>(sleepy::options{.batch = 64},
                                                sleepy::run_options{.deadline = std::chrono::seconds(1)});
        try {
            t->step(images);
        } catch (deadline_error const& e) {
            CHECK(e.device() == 1);
            said = e.what();
        }
        CHECK(contains(said, "device 1 did not arrive within the deadline of 1 s: device 0 waited for device 1 in "
                             "all_reduce (direct, schedule step 0) of training step 1"));
        asleep::wake = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(150)); // it wakes, and leaves by itself
    }

    TEST_CASE("chosen when the program runs") {
        int const devices = 3; // say, from a flag
        // [options]
        any_trainer::options const o{.learning_rate = 0.5f, .batch = 64};
        any_trainer::run_options const r{.devices = devices, .strategy = ring{}};
        auto const plan = any_trainer::plan(o.batch, any_trainer::layout_of(o, r));
        any_trainer t{o, r};
        // [/options]
        CHECK(plan.devices() == 3);
        CHECK(t.devices() == 3);
        CHECK(t.plan().wire_bytes_per_step() == plan.wire_bytes_per_step());

        std::string said;
        // [too_many_devices]
        try {
            any_trainer const crowd{{.batch = 2}, {.devices = 3}};
        } catch (usage_error const& e) {
            said = e.what();
        }
        // [/too_many_devices]
        CHECK(said == "batch = 2 on 3 devices: a batch needs at least one sample per device; use a larger batch or no "
                      "more devices than 2");
    }

    TEST_CASE("residual networks and batch norm") {
        auto const images = made_up(64);
        // [normed]
        normed_trainer<batch_norm<synchronised>, 1> one{{.learning_rate = 0.5f, .batch = 64}};
        normed_trainer<batch_norm<synchronised>, 2> two{{.learning_rate = 0.5f, .batch = 64}};
        CHECK(two.step(images).loss == doctest::Approx(one.step(images).loss).epsilon(1e-5));

        normed_trainer<batch_norm<per_shard>, 2> apart{{.learning_rate = 0.5f, .batch = 64}};
        CHECK(apart.step(images).loss != doctest::Approx(one.step(images).loss).epsilon(1e-5));
        // [/normed]
        data_parallel_trainer<residual_net, cross_entropy, sgd> t{{.learning_rate = 0.1f, .batch = 64}};
        auto const first = t.step(images).loss;
        for (int i = 0; i < 10; ++i) t.step(images);
        CHECK(t.step(images).loss < first);

        auto const path = (std::filesystem::temp_directory_path() / ("guide-" + std::to_string(getpid()))).string();
        // [weights]
        save_weights(t, path);
        data_parallel_trainer<residual_net, cross_entropy, sgd, on<mesh<host, dp<2>>>> other{{.batch = 64, .seed = 9}};
        load_weights(other, path);
        CHECK(other.evaluate(images).loss == doctest::Approx(t.evaluate(images).loss));
        // [/weights]
        std::filesystem::remove(path);
    }
}
