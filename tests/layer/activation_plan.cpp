// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <support/networks.hpp>

#include <trireme/parallel/recompute.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace layer_activation_plan_test {
using namespace trireme;

namespace {

/// Plays forward and backward on a map of who owns which element, and counts what is not whole when it is used. Knows
/// the rules of the passes (which row reads and writes what, and when), nothing of lifetimes or holes.
template<class Network>
class player {
public:
    static constexpr std::size_t depth = Network::depth, first_trainable = Network::first_trainable;

    /// With `granules` of them, of `lanes` samples each, one behind the other in every block.
    player(activation_plan<depth> const& plan, std::size_t lanes, std::size_t granules, std::size_t element_bytes)
        : plan_(plan), lanes_(lanes), granules_(granules), element_bytes_(element_bytes), owner_(plan.elements, -1) {
        for (std::size_t slot = 0; slot <= depth; ++slot) {
            value_of_[slot] = gradient_of_[slot] = slot;
            note(plan.again[slot] == npos); // kernels may load what they do not use
            if (slot > 0 && Network::row(slot - 1).description.execution.view) {
                auto const from = Network::row(slot - 1).from; // a view is what it views
                value_of_[slot] = value_of_[from];
                note(plan.value[slot] != plan.value[from]);
                note(plan.recomputed.twice[slot - 1] && plan.again[slot] != plan.again[from]);
            }
        }
        for (std::size_t i = depth; i-- > 0;) {
            auto const& row = Network::row(i);
            bool const plain_view =
                row.description.execution.view && !row.is_fork() && row.from == i; // flatten, no branch
            if (plain_view) pass_on(i, i + 1);
            if (row.is_sum()) { // its gradient is that of either way
                pass_on(row.from, i + 1);
                pass_on(row.other, i + 1);
            }
        }
    }

    /// All granules go through all layers together, or there is one.
    std::size_t together() {
        for (std::size_t g = 0; g < granules_; ++g) write(values, 0, g);
        for (std::size_t i = 0; i < depth; ++i)
            for (std::size_t g = 0; g < granules_; ++g) forward(i, g);
        other_tasks();
        back_ = true;
        for (std::size_t g = 0; g < granules_; ++g) loss(g);
        for (std::size_t i = depth; i-- > first_trainable;) {
            for (std::size_t g = 0; g < granules_; ++g) forward_again(i, g);
            for (std::size_t g = 0; g < granules_; ++g) backward(i, g);
        }
        return faults_;
    }

    /// Granule after granule as far as the next row that waits for all of them.
    std::size_t one_behind_the_other() {
        auto const waits = [](std::size_t i) { return i < depth && Network::row(i).description.whole_shard(); };
        for (std::size_t i = 0; i <= depth;) {
            auto end = i;
            for (std::size_t g = 0; g < granules_; ++g) {
                if (i == 0) write(values, 0, g);
                end = i;
                if (waits(end) && i != 0) forward(end++, g); // it knows all of them now
                for (; end < depth && !waits(end); ++end) forward(end, g);
                if (waits(end)) read(values, Network::row(end).from, g);
            }
            if (i == 0 && end == 0) { // the first row waits
                for (std::size_t g = 0; g < granules_; ++g) {
                    forward(0, g);
                    for (end = 1; end < depth && !waits(end); ++end) forward(end, g);
                    if (waits(end)) read(values, Network::row(end).from, g);
                }
            }
            i = end == depth ? depth + 1 : end;
        }
        other_tasks();
        back_ = true;
        auto begin = depth;
        for (auto end = depth + 1; end > first_trainable;) {
            for (std::size_t g = 0; g < granules_; ++g) {
                begin = end - 1; // below the row that has waited
                if (end == depth + 1)
                    loss(g);
                else
                    backward(begin, g);
                for (; begin > first_trainable && !waits(begin - 1); --begin) {
                    forward_again(begin - 1, g);
                    backward(begin - 1, g);
                }
                if (begin > first_trainable) { // backward_gather
                    forward_again(begin - 1, g);
                    read(values, Network::row(begin - 1).from, g);
                    read(gradients, begin, g);
                }
            }
            end = begin;
        }
        return faults_;
    }

    /// Values that weights read are whole at the end, too, or when values are computed again; a layer that needs the
    /// whole shard has them before its own way back.
    std::size_t lagging_weights() {
        lagging_ = true;
        together();
        reads_of_weights(first_trainable, unfinished_);
        return faults_;
    }

    /// Forward and the halves of backward are tasks: others, between them, write to all that lies outside of the frame.
    std::size_t halves(way_of_samples way) {
        apart_ = true;
        way == way_of_samples::together ? together() : one_behind_the_other();
        other_tasks();
        reads_of_weights(first_trainable, depth);
        return faults_;
    }

private:
    enum kind : std::size_t { values, gradients };

    void note(bool fault) { faults_ += fault ? 1 : 0; }
    void pass_on(std::size_t to, std::size_t from) {
        if (to <= first_trainable || to > depth) return; // nobody wants it
        gradient_of_[to] = gradient_of_[from];
        note(plan_.gradient[to] != plan_.gradient[from]);
    }
    std::size_t size(std::size_t slot) const {
        return lanes_ * (slot == 0 ? Network::row(0).input : Network::row(slot - 1).description.output).size();
    }
    std::size_t place(kind k, std::size_t slot, std::size_t g) const {
        auto const& of = k == gradients ? plan_.gradient : back_ ? plan_.again : plan_.value;
        return of[slot] + g * size(slot);
    }
    int id(kind k, std::size_t slot, std::size_t g) const {
        auto const whose = k == values ? value_of_[slot] : gradient_of_[slot];
        return static_cast<int>((g * (depth + 1) + whose) * 2 + k);
    }
    void write(kind k, std::size_t slot, std::size_t g) {
        auto const at = place(k, slot, g);
        REQUIRE(at < plan_.elements);
        REQUIRE(at + size(slot) <= plan_.elements);
        note(g == 0 && at * element_bytes_ % cache_line != 0);
        for (std::size_t i = 0; i < size(slot); ++i) owner_[at + i] = id(k, slot, g);
    }
    void read(kind k, std::size_t slot, std::size_t g) {
        auto const at = place(k, slot, g);
        REQUIRE(at < plan_.elements);
        bool whole = true;
        for (std::size_t i = 0; i < size(slot); ++i) whole = whole && owner_[at + i] == id(k, slot, g);
        note(!whole);
    }

    /// The bytes that a row saves for its way back, if it does, are written, or read.
    void bytes_of(std::size_t i, bool written) {
        auto const at = plan_.saved[i];
        if (at == npos) return;
        REQUIRE(granules_ == 1);
        auto const size = (lanes_ * Network::row(i).description.saved_bytes + element_bytes_ - 1) / element_bytes_;
        REQUIRE(at < plan_.elements);
        REQUIRE(at + size <= plan_.elements);
        note(at * element_bytes_ % cache_line != 0);
        int const mine = -2 - static_cast<int>(i);
        bool whole = true;
        for (auto k = at; k < at + size; ++k) {
            if (written) owner_[k] = mine;
            whole = whole && owner_[k] == mine;
        }
        note(!whole);
    }

    void forward(std::size_t i, std::size_t g) {
        auto const& row = Network::row(i);
        if (row.description.execution.view) return;
        for (bool const written : {false, true}) { // what does not work in place reads while it writes
            if (written) write(values, i + 1, g);
            if (written && (back_ || !plan_.recomputed.twice[i])) bytes_of(i, true);
            if (written && row.description.execution.in_place) break;
            read(values, row.from, g);
            if (row.is_sum()) read(values, row.other, g);
        }
    }
    void forward_again(std::size_t last, std::size_t g) {
        if (plan_.recomputed.from[last] == npos) return;
        if (lagging_) {
            reads_of_weights(std::max(first_trainable, last + 1), unfinished_);
            unfinished_ = last + 1;
        }
        for (auto i = plan_.recomputed.from[last]; i < last; ++i)
            if (plan_.recomputed.twice[i]) forward(i, g);
    }
    void loss(std::size_t g) {
        read(values, depth, g);
        write(gradients, depth, g);
        read(values, depth, g);
    }
    void reads_of_backward(std::size_t i, std::size_t g) {
        auto const& row = Network::row(i);
        read(gradients, i + 1, g);
        if (row.is_fork()) read(gradients, row.other, g);
        bytes_of(i, false);
        if (row.description.execution.backward_reads_input && plan_.saved[i] == npos) read(values, row.from, g);
        if (row.description.execution.backward_reads_output) read(values, i + 1, g);
    }
    void other_tasks() {
        if (apart_) std::fill(owner_.begin() + static_cast<std::ptrdiff_t>(plan_.kept), owner_.end(), -1);
    }
    void reads_of_weights(std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i)
            if (auto const& d = Network::row(i).description; d.parameter_count > 0 && d.backward.phases == 0)
                for (std::size_t g = 0; g < granules_; ++g) reads_of_backward(i, g);
    }
    void backward(std::size_t i, std::size_t g) {
        auto const& row = Network::row(i);
        if (row.is_sum() || (row.description.execution.view && !row.is_fork())) return;
        bool const passes_on = first_trainable < depth && i > first_trainable;
        if (passes_on || row.description.parameter_count > 0) reads_of_backward(i, g);
        if (!passes_on) return;
        write(gradients, i, g);
        if (!row.description.execution.in_place) reads_of_backward(i, g);
    }

    activation_plan<depth> plan_;
    std::size_t lanes_, granules_, element_bytes_;
    std::vector<int> owner_;
    std::size_t value_of_[depth + 1] = {}, gradient_of_[depth + 1] = {};
    std::size_t faults_ = 0;
    std::size_t unfinished_ = depth; // rows from here on have the gradients by their parameters
    bool apart_ = false, lagging_ = false;
    bool back_ = false; // on the way back
};

template<class Network>
player<Network> play(std::size_t lanes, std::size_t granules, std::size_t element_bytes, way_of_samples way,
                     weight_gradients when = weight_gradients::at_once, recomputed_rows recomputed = {},
                     bool saves_bytes = false) {
    auto const apart = when == weight_gradients::apart ? lanes * granules : 0;
    return {plan_activations<Network>(lanes * granules, element_bytes, when, way, {0, Network::depth}, apart, false,
                                      recomputed, saves_bytes),
            lanes, granules, element_bytes};
}

template<class Network>
void check_nothing_is_overwritten(std::size_t lanes, std::size_t element_bytes, recomputed_rows recomputed) {
    for (bool const saves_bytes : {false, true}) {
        CAPTURE(saves_bytes);
        auto const all = [&](weight_gradients when) {
            return play<Network>(lanes, 1, element_bytes, way_of_samples::together, when, recomputed, saves_bytes);
        };
        CHECK(all(weight_gradients::at_once).together() == 0);
        CHECK(all(weight_gradients::beside).lagging_weights() == 0);
        CHECK(all(weight_gradients::apart).halves(way_of_samples::together) == 0);
    }
    for (std::size_t const granules : {1u, 2u, 5u}) {
        CAPTURE(granules);
        CHECK(play<Network>(lanes, granules, element_bytes, way_of_samples::one_behind_the_other,
                            weight_gradients::at_once, recomputed)
                  .one_behind_the_other() == 0);
        for (auto const way : {way_of_samples::together, way_of_samples::one_behind_the_other})
            CHECK(play<Network>(lanes, granules, element_bytes, way, weight_gradients::apart, recomputed).halves(way) ==
                  0);
    }
}

/// All values are kept, or those of each `n`-th stretch between two cuts, or of all stretches, are computed again.
template<class Network>
void check_nothing_is_overwritten(std::size_t lanes, std::size_t element_bytes) {
    check_nothing_is_overwritten<Network>(lanes, element_bytes, {});
    check_nothing_is_overwritten<Network>(lanes, element_bytes,
                                          detail::stretches<detail::whole_stages<Network>>.rows());
    check_nothing_is_overwritten<Network>(lanes, element_bytes,
                                          detail::stretches<detail::stretches_in_parts<Network, 4>>.rows());
    auto const& segments = segments_of<Network>;
    for (std::size_t const long_ones : {1u, 2u, 3u})
        for (std::size_t const apart : {0u, 1u}) {
            CAPTURE(long_ones);
            CAPTURE(apart);
            detail::stretch_list<Network> some;
            for (std::size_t s = apart; s + long_ones <= segments.count; s += long_ones + apart)
                some.add({segments.begin[s], segments.begin[s + long_ones]});
            check_nothing_is_overwritten<Network>(lanes, element_bytes, some.rows());
        }
}

// Networks with residuals.

template<std::size_t C, std::size_t S = 1>
using conv3 = conv2d<C, kernel<3>, padding<1>, stride<S>>;
template<class Norm>
using narrow = residual<sequential<conv3<2>, Norm, relu, conv3<4>, Norm>>; // other shapes inside
template<std::size_t C, class Norm>
using halving = residual<sequential<conv3<C, 2>, Norm, relu, conv3<C>, Norm>, conv2d<C, kernel<1>, stride<2>>>;
template<class Norm>
using preactivated = residual<sequential<Norm, relu, conv3<4>, Norm, relu, conv3<4>>>;

template<class Norm>
using residuals = network<input<1, 8, 8>, conv3<4>, Norm, relu, repeat<2, narrow<Norm>, relu>, preactivated<Norm>,
                          halving<6, Norm>, relu, global_avg_pool2d, flatten, linear<3>>;
/// Before anything is trained, and of what is not trained at all.
using untrained_first = network<input<2, 6, 6>, residual<relu>, residual<sequential<sigmoid, relu>, sequential<relu>>,
                                max_pool2d<2>, residual<sequential<relu, conv3<2>, relu>, conv3<2>>, residual<relu>>;
using untrained = network<input<6>, residual<relu>, residual<sequential<relu, sigmoid>>>;
/// Ways without layers, residuals side by side and in ways, views on both sides of a fork.
template<class Norm>
using nested =
    network<input<2, 4, 4>, residual<sequential<>>, conv3<4>,
            residual<residual<sequential<relu, residual<Norm>, conv3<4>>>, residual<sequential<>, conv3<4>>>,
            residual<sequential<Norm, residual<relu, Norm>, relu>, sequential<Norm, dropout<percent<20>>>>, flatten,
            residual<sequential<flatten, linear<5>, relu, linear<64>>, sequential<flatten, relu>>, flatten, linear<3>>;
/// With parameters, and in place, reading its input for them.
struct own_scale {
    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
        d.parameter_count = 1;
        d.parameters[0] = {"weight", in, 1, 1, initial::ones};
        d.execution.in_place = true;
        d.execution.backward_reads_output = false;
        return d;
    }
    static void backward_weights(auto const&) {}
};
using in_place_behind =
    network<input<8>, linear<8>, relu, linear<8>, hyperbolic_tangent, own_scale, linear<8>, relu, own_scale, linear<4>>;
template<class Norm>
using norm_first = network<input<3, 4, 4>, Norm, residual<Norm>, Norm, conv3<2>, Norm>;

} // namespace

TEST_SUITE("layer/activation_plan") {
    TEST_CASE("nothing is overwritten before its last reading") {
        check_nothing_is_overwritten<test_networks::lenet>(16, 4);
        check_nothing_is_overwritten<test_networks::lenet>(1, 8);
        check_nothing_is_overwritten<test_networks::lenet_of<relu, max_pool2d<2>>>(8, 4);
        check_nothing_is_overwritten<test_networks::small>(4, 4);
        check_nothing_is_overwritten<test_networks::softmax_regression>(16, 4);
        check_nothing_is_overwritten<network<input<5>, flatten, flatten, relu, flatten, linear<3>, flatten>>(3, 4);
        check_nothing_is_overwritten<
            network<input<2, 6, 6>, conv2d<3, kernel<3>>, flatten, relu, linear<7>, flatten, sigmoid, linear<2>>>(16,
                                                                                                                  4);
        check_nothing_is_overwritten<network<input<3>, relu, relu>>(4, 4); // nothing to train
        check_nothing_is_overwritten<in_place_behind>(16, 4);
    }

    TEST_CASE("nothing is overwritten in networks with residuals") {
        check_nothing_is_overwritten<residuals<sigmoid>>(16, 4);
        check_nothing_is_overwritten<residuals<hyperbolic_tangent>>(1, 8);
        check_nothing_is_overwritten<residuals<batch_norm<>>>(4, 4); // as far as blocks go, wherever samples wait
        check_nothing_is_overwritten<untrained_first>(8, 4);
        check_nothing_is_overwritten<untrained>(4, 4);
        check_nothing_is_overwritten<nested<sigmoid>>(4, 4);
        check_nothing_is_overwritten<nested<relu>>(3, 8);
        check_nothing_is_overwritten<nested<batch_norm<>>>(2, 4);
        check_nothing_is_overwritten<norm_first<batch_norm<>>>(4, 8);
        check_nothing_is_overwritten<norm_first<relu>>(4, 8);
    }

    TEST_CASE("negative control: the player sees what a plan forgets") {
        using net = residuals<batch_norm<>>;
        auto const right = plan_activations<net>(16, 4);
        for (std::size_t i = 1; i <= net::depth; ++i) { // a value that lies where its predecessor does
            CAPTURE(i);
            auto wrong = right;
            wrong.value[i] = right.value[i - 1];
            if (net::row(i - 1).is_sum() || wrong.value[i] == right.value[i]) continue; // a sum may lie in either term
            CHECK(player<net>(wrong, 16, 1, 4).together() > 0);
        }
        // a plan for samples that go together, played with samples that do not
        auto const together = plan_activations<net>(16, 4);
        CHECK(player<net>(together, 4, 4, 4).together() == 0);
        CHECK(player<net>(together, 4, 4, 4).one_behind_the_other() > 0);
        CHECK(play<test_networks::lenet>(4, 4, 4, way_of_samples::together).one_behind_the_other() > 0);
        CHECK(play<test_networks::lenet>(4, 1, 4, way_of_samples::together).lagging_weights() > 0);
    }

    TEST_CASE("negative control: a value that is looked for where it was, or is not computed again, is missed") {
        using net = residuals<batch_norm<>>;
        constexpr auto all_of_it =
            detail::stretches_of_least_memory<net, weight_gradients::at_once, way_of_samples::together>();
        static_assert(!all_of_it.empty());
        auto const right = plan_activations<net>(4, 4, weight_gradients::at_once, way_of_samples::together,
                                                 {0, net::depth}, 0, false, all_of_it);
        CHECK(player<net>(right, 4, 1, 4).together() == 0);
        CHECK(right.elements < plan_activations<net>(4, 4).elements);
        std::size_t twice = 0;
        for (std::size_t i = 0; i < net::depth; ++i) {
            if (!right.recomputed.twice[i]) continue;
            CAPTURE(i);
            ++twice;
            auto wrong = right;
            wrong.again[i + 1] = right.value[i + 1];
            if (wrong.again[i + 1] != right.again[i + 1]) CHECK(player<net>(wrong, 4, 1, 4).together() > 0);
            wrong = right;
            wrong.recomputed.twice[i] = false;
            if (!net::row(i).description.execution.view) CHECK(player<net>(wrong, 4, 1, 4).together() > 0);
        }
        CHECK(twice > 5);
    }

    TEST_CASE("halves of backward never need more than without recomputation; a view is kept with what it views") {
        auto const check = []<class Net>(Net) {
            for (auto const rows : {detail::stretches<detail::whole_stages<Net>>.rows(),
                                    detail::stretches<detail::stretches_in_parts<Net, 3>>.rows()}) {
                auto const of = [](recomputed_rows some, bool saves_bytes) {
                    return plan_activations<Net>(64, 4, weight_gradients::apart, way_of_samples::together,
                                                 {0, Net::depth}, 64, false, some, saves_bytes);
                };
                auto const again = of(rows, false);
                CHECK(again.elements <= of({}, false).elements);
                CHECK(of(rows, true).elements <= of({}, true).elements);
                for (std::size_t i = 0; i < Net::depth; ++i)
                    if (Net::row(i).description.execution.view)
                        CHECK((again.recomputed.dropped[i + 1] || !again.recomputed.dropped[Net::row(i).from]));
            }
        };
        check(residuals<batch_norm<>>{});
        check(residuals<sigmoid>{});
        check(nested<relu>{});
        check(test_networks::every_layer{});
        check(network<input<1, 12, 12>, conv3<4>, relu, flatten, linear<9>, linear<10>>{});
    }

    TEST_CASE("a residual's sum takes the place of its body's end, and both ways' gradients are the sum's") {
        using net = network<input<4, 4, 4>, conv3<4>, residual<sequential<conv3<4>, relu, conv3<4>>>, conv3<4>>;
        constexpr auto plan = plan_activations<net>(4, 4); // conv, fork, conv, relu, conv, branch, sum, conv
        CHECK(plan.value[2] == plan.value[1]);             // the fork's output
        CHECK(plan.value[6] == plan.value[1]);             // the branch's
        CHECK(plan.value[7] == plan.value[5]);
        CHECK(plan.gradient[5] == plan.gradient[7]);
        CHECK(plan.gradient[6] == plan.gradient[7]);
    }

    TEST_CASE("layers that work in place share a block with their input, unless it is the caller's or read again") {
        using lenet = test_networks::lenet; // conv2d, sigmoid, ...
        constexpr auto plan = plan_activations<lenet>(16, 4);
        CHECK(plan.value[1] == plan.value[2]);
        CHECK(plan.gradient[1] == plan.gradient[2]);
        using first = network<input<3>, relu, linear<2>>;
        constexpr auto of_first = plan_activations<first>(4, 4);
        CHECK(of_first.value[0] != of_first.value[1]);
        using read_again = network<input<1, 4, 4>, conv2d<2, kernel<3>>, max_pool2d<2>, relu, flatten, linear<2>>;
        constexpr auto of_read = plan_activations<read_again>(4, 4); // not what max_pool2d gives
        static_assert(!read_again::row(1).description.execution.backward_reads_output);
        CHECK(of_read.value[2] == of_read.value[3]);
    }

    TEST_CASE("bytes that a layer saves are in the plan where it saves them, and its input need not last as long") {
        using net = network<input<1, 9, 9>, conv3<4>, max_pool2d<3, stride<2>>, relu, flatten, linear<2>>;
        constexpr auto usual = plan_activations<net>(16, 4);
        constexpr auto saving = plan_activations<net>(16, 4, weight_gradients::at_once, way_of_samples::together,
                                                      {0, net::depth}, 0, false, {}, true);
        constexpr auto stage = plan_activations<net>(16, 4, weight_gradients::at_once, way_of_samples::together,
                                                     {0, net::depth}, 16, false, {}, true);
        constexpr auto model = plan_activations<net>(16, 4, weight_gradients::at_once, way_of_samples::together,
                                                     {0, net::depth}, 0, true, {}, true);
        static_assert(net::row(1).description.saved_bytes == 4 * 4 * 4); // one for each output
        CHECK(saving.saved[1] != npos);
        CHECK(stage.saved[1] < stage.kept); // in the frame
        for (std::size_t i = 0; i <= net::depth; ++i) {
            CHECK(usual.saved[i] == npos);
            CHECK(model.saved[i] == npos);
            CHECK((saving.saved[i] == npos) == (i != 1));
        }
        CHECK(saving.elements < usual.elements); // less than the input of 4 x 9 x 9
        using untrained = network<input<1, 9, 9>, max_pool2d<3>, flatten, linear<2>>;
        CHECK(play<untrained>(4, 1, 4, way_of_samples::together, weight_gradients::at_once, {}, true).together() == 0);
        CHECK(plan_activations<untrained>(16, 4, weight_gradients::at_once, way_of_samples::together,
                                          {0, untrained::depth}, 0, false, {}, true)
                  .saved[0] == npos);
        auto wrong = saving;
        wrong.saved[1] = saving.value[2]; // negative control
        CHECK(player<net>(wrong, 16, 1, 4).together() > 0);
    }

    TEST_CASE("blocks are used again: the arena is smaller than the sum of its blocks") {
        constexpr auto plan = plan_activations<test_networks::lenet>(16, 4);
        std::size_t sum = 0;
        for (std::size_t i = 0; i <= test_networks::lenet::depth; ++i)
            sum += 2 * 16 * test_networks::lenet::row(i).input.size();
        CHECK(plan.elements < sum * 6 / 10);
    }
}

} // namespace layer_activation_plan_test
