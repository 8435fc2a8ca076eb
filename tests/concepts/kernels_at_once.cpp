// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A family whose kernels take all samples of a shard at once, which models docs/concepts/kernels.md and nothing more.

#include <concepts/kernel_training.hpp>
#include <trireme/kernels/channels_last/activation.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>
#include <vector>

namespace kernels_at_once_test {
using namespace trireme;

// [at_once_archetype]
class ready_rows { // the context: what one device keeps for its kernels, in the memory that it asks for
public:
    static constexpr std::size_t bytes(layer_shapes const*, std::size_t count, std::size_t) {
        return count * sizeof(std::size_t); // planned before there is a device
    }
    ready_rows(layer_shapes const* rows, std::size_t count, std::size_t, void* memory)
        : rows_(rows), most_(static_cast<std::size_t*>(memory)) {
        for (std::size_t i = 0; i < count; ++i) most_[i] = 0;
    }
    struct of_a_step {};
    of_a_step begin() { return {}; } // of a step or an evaluation, for which parameters have changed
    void prepare(bool on) { preparing_ = on; }
    layer_shapes const& shapes(std::size_t row) const { return rows_[row]; }

    bool preparing() const { return preparing_; } // its kernels' own matter, as all that follows
    void make_ready(std::size_t row, std::size_t samples) {
        if (samples > most_[row]) most_[row] = samples;
    }
    bool is_ready(std::size_t row, std::size_t samples) const { return samples <= most_[row]; }

private:
    layer_shapes const* rows_;
    std::size_t* most_;
    bool preparing_ = false;
};

class by_shard { // the policy, an object that points to it
public:
    static constexpr value_layout layout = value_layout::channels_last;
    static constexpr bool remote = false;
    static constexpr fusion fuses = fusion::nothing;
    template<class T>
    static constexpr std::size_t lanes = 1;
    template<class T>
    static constexpr std::size_t one_by_one = 0;
    template<class T>
    static constexpr bool computes = std::is_same_v<T, float>;
    template<class T>
    using stored = T;
    using epilogue = identity_function;

    using sample_kernels = reference; // of the loss and the optimizer
    using context = ready_rows;

    explicit by_shard(context& c) : context_(&c) {}
    by_shard for_layer(std::size_t row, std::size_t samples) const {
        auto k = *this;
        k.row_ = row;
        k.samples_ = samples;
        return k;
    }
    std::size_t row() const { return row_; }
    std::size_t samples() const { return samples_; }
    context& state() const { return *context_; }
    bool computing() const { return !context_->preparing() && samples_ != 0; }

private:
    context* context_;
    std::size_t row_ = 0, samples_ = 0;
};
static_assert(channels_last_kernels<by_shard>);
// [/at_once_archetype]

/// True if a kernel is to compute; makes its row ready where it is not.
bool computes_now(by_shard const& k) {
    if (!k.computing()) k.state().make_ready(k.row(), k.samples());
    return k.computing();
}

// [at_once_kernel]
template<class G, std::size_t, class T>
void linear_forward(by_shard const& k, T const* x, T const* w, T const* b, T* y) { // of k.samples() samples
    if (!computes_now(k)) return;
    for (std::size_t n = 0; n < k.samples(); ++n)
        linear_forward<G, 1>(reference{}, x + n * G::inputs, w, b, y + n * G::outputs);
}
// [/at_once_kernel]
template<class G, std::size_t, class T>
void linear_backward_input(by_shard const& k, T const* w, T const* dy, T* dx) {
    if (!computes_now(k)) return;
    for (std::size_t n = 0; n < k.samples(); ++n)
        linear_backward_input<G, 1>(reference{}, w, dy + n * G::outputs, dx + n * G::inputs);
}
template<class G, std::size_t, class T>
void linear_backward_weights(by_shard const& k, T const* x, T const* dy, T* dw, T* db) {
    if (!computes_now(k)) return;
    CHECK(k.state().is_ready(k.row(), k.samples())); // with as many samples as any step has
    CHECK(k.state().shapes(k.row()).weights == make_shape(G::outputs, G::inputs));
    for (std::size_t n = 0; n < k.samples(); ++n)
        linear_backward_weights<G, 1>(reference{}, x + n * G::inputs, dy + n * G::outputs, dw, db);
}
// Kernels of the family channels_last, which takes any policy of the concept.
template<class F, class T>
void activation_forward(by_shard const& k, T const* x, T* y, std::size_t n) {
    trireme::activation_forward<F>(k, x, y, n);
}
template<class F, class T>
void activation_backward_input(by_shard const& k, T const* x, T const* y, T const* dy, T* dx, std::size_t n) {
    trireme::activation_backward_input<F>(k, x, y, dy, dx, n);
}

// A member of another kind under the name takes a requirement away, of the context
static_assert(channels_last_context<ready_rows>);
struct without_bytes : ready_rows {
    using ready_rows::ready_rows;
    struct bytes;
};
struct bytes_at_run_time : ready_rows {
    using ready_rows::ready_rows;
    static std::size_t bytes(layer_shapes const*, std::size_t, std::size_t) { return 0; }
};
struct made_of_nothing : ready_rows {
    made_of_nothing() : ready_rows(nullptr, 0, 0, nullptr) {}
};
struct without_begin : ready_rows {
    using ready_rows::ready_rows;
    struct begin;
};
struct begins_with_nothing : ready_rows {
    using ready_rows::ready_rows;
    void begin() {}
};
struct without_prepare : ready_rows {
    using ready_rows::ready_rows;
    struct prepare;
};
struct without_shapes : ready_rows {
    using ready_rows::ready_rows;
    struct shapes;
};
static_assert(!channels_last_context<without_bytes> && !channels_last_context<bytes_at_run_time>);
static_assert(!channels_last_context<made_of_nothing> && !channels_last_context<without_shapes>);
static_assert(!channels_last_context<without_begin> && !channels_last_context<begins_with_nothing>);
static_assert(!channels_last_context<without_prepare>);

// and of the policy.
struct as_it_is : by_shard {
    using by_shard::by_shard;
    as_it_is for_layer(std::size_t, std::size_t) const { return *this; }
};
struct without_lanes : as_it_is {
    using as_it_is::as_it_is;
    struct lanes;
};
struct interleaved : as_it_is {
    using as_it_is::as_it_is;
    static constexpr value_layout layout = value_layout::interleaved;
};
struct plain : as_it_is {
    using as_it_is::as_it_is;
    static constexpr value_layout layout = value_layout::plain;
};
class without_sample_kernels : public as_it_is {
    using sample_kernels = void;

public:
    using as_it_is::as_it_is;
};
struct sample_kernels_at_once : as_it_is {
    using as_it_is::as_it_is;
    using sample_kernels = by_shard;
};
struct no_sample_kernels : as_it_is {
    using as_it_is::as_it_is;
    struct sample_kernels : reference {
        struct lanes;
    };
};
class without_context : public as_it_is {
    using context = void;

public:
    using as_it_is::as_it_is;
};
struct with_less_of_a_context : as_it_is {
    using context = without_prepare;
    explicit with_less_of_a_context(context& c) : as_it_is(c) {}
    with_less_of_a_context for_layer(std::size_t, std::size_t) const { return *this; }
    context& state() const;
};
struct made_of_two : as_it_is {
    made_of_two(context& c, int) : as_it_is(c) {}
    made_of_two for_layer(std::size_t, std::size_t) const { return *this; }
};
struct without_for_layer : as_it_is {
    using as_it_is::as_it_is;
    struct for_layer;
};
struct another {
    explicit another(ready_rows&);
};
struct for_layer_of_another : as_it_is {
    using as_it_is::as_it_is;
    another for_layer(std::size_t, std::size_t) const;
};
struct without_row : as_it_is {
    using as_it_is::as_it_is;
    struct row;
};
struct without_samples : as_it_is {
    using as_it_is::as_it_is;
    struct samples;
};
struct without_state : as_it_is {
    using as_it_is::as_it_is;
    struct state;
};
struct without_computing : as_it_is {
    using as_it_is::as_it_is;
    struct computing;
};
struct not_copied : as_it_is {
    using as_it_is::as_it_is;
    not_copied(not_copied const&) = delete;
};
static_assert(channels_last_kernels<as_it_is>);
static_assert(channels_last_kernels<with_function<by_shard, relu_function, float>>); // an adapter, made of a policy
static_assert(!channels_last_kernels<without_lanes> && !channels_last_kernels<interleaved>);
static_assert(!channels_last_kernels<plain> && !channels_last_kernels<without_sample_kernels>);
static_assert(!channels_last_kernels<sample_kernels_at_once> && !channels_last_kernels<without_context>);
static_assert(!channels_last_kernels<with_less_of_a_context> && !channels_last_kernels<made_of_two>);
static_assert(!channels_last_kernels<without_for_layer> && !channels_last_kernels<for_layer_of_another>);
static_assert(!channels_last_kernels<without_row> && !channels_last_kernels<without_samples>);
static_assert(!channels_last_kernels<without_state> && !channels_last_kernels<without_computing>);
static_assert(!channels_last_kernels<not_copied> && !channels_last_kernels<no_sample_kernels>);
static_assert(!channels_last_kernels<portable> && !channels_last_kernels<kernel_context> &&
              !channels_last_kernels<int>);

} // namespace kernels_at_once_test

TEST_SUITE("concepts/kernels_at_once") {
    using namespace kernels_at_once_test;

    TEST_CASE("the archetype of a family for all samples at once trains to what the reference trains to") {
        kernel_training::trains_as_the_reference(kernel_training::trained<by_shard>());
        kernel_training::trains_as_the_reference(kernel_training::trained<by_shard, on<mesh<host, dp<2>>>>());
    }

    TEST_CASE("the context's memory is that of the plan") {
        using by_shards = trainer<kernel_training::net, cross_entropy, sgd, kernels<by_shard>>;
        CHECK(by_shards::plan(batch{25}).memory().workspace == cache_line);
    }
}
