// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A family of an accelerator that models docs/concepts/kernels.md and nothing more, in a rehearsal.

#include <concepts/kernel_training.hpp>
#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace kernels_on_streams_test {
using namespace trireme;

// [stream_archetype]
class queued { // the policy of an accelerator, by itself: usually one derives from block_kernels
public:
    static constexpr value_layout layout = value_layout::plain;
    static constexpr bool remote = true;
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

    using stream = rehearsal::stream;
    static constexpr std::uint64_t most_flops_beside = 1000;

    queued(stream& queue, std::size_t samples, workspace room, rehearsal::libraries&)
        : queue_(&queue), samples_(samples), room_(room) {}
    stream& queue() const { return *queue_; }
    std::size_t samples() const { return samples_; }
    void set_shard(staged_shard const* shard) { shard_ = shard; }
    staged_shard const* shard() const { return shard_; }

    workspace const& room() const { return room_; } // its kernels' own matter

private:
    stream* queue_;
    std::size_t samples_;
    workspace room_;
    staged_shard const* shard_ = nullptr;
};
static_assert(stream_kernels<queued, rehearsal>);
// [/stream_archetype]

// [stream_kernel]
template<class T>
struct one_step {
    T* w;
    T const* gradient;
    sgd_numbers<T> const* k; // in the accelerator's memory
    void operator()(std::size_t i) const { w[i] -= k->rate * (gradient[i] + k->decay * w[i]); }
};
template<class T>
void sgd_update(queued const& k, T* w, T const* gradient, std::size_t n, sgd_numbers<T> const* numbers) {
    index_program<one_step<T>> const program{{w, gradient, numbers}, n};
    if (n != 0) k.queue().launch(program, program.blocks()); // done later
}
// [/stream_kernel]

/// The library's block programs, handed to the same stream.
block_kernels<rehearsal::stream> blocks_of(queued const& k) {
    block_kernels<rehearsal::stream> blocks(k.queue(), k.samples(), k.room());
    blocks.set_shard(k.shard());
    return blocks;
}
template<class G, std::size_t Lanes, class T>
void linear_forward(queued const& k, T const* x, T const* w, T const* b, T* y) {
    linear_forward<G, Lanes>(blocks_of(k), x, w, b, y);
}
template<class G, std::size_t Lanes, class T>
void linear_backward_input(queued const& k, T const* w, T const* dy, T* dx) {
    linear_backward_input<G, Lanes>(blocks_of(k), w, dy, dx);
}
template<class G, std::size_t Lanes, class T>
void linear_backward_weights(queued const& k, T const* x, T const* dy, T* dw, T* db) {
    linear_backward_weights<G, Lanes>(blocks_of(k), x, dy, dw, db);
}
template<class F, class T>
void activation_forward(queued const& k, T const* x, T* y, std::size_t n) {
    activation_forward<F>(blocks_of(k), x, y, n);
}
template<class F, class T>
void activation_backward_input(queued const& k, T const* x, T const* y, T const* dy, T* dx, std::size_t n) {
    activation_backward_input<F>(blocks_of(k), x, y, dy, dx, n);
}
template<std::size_t Classes, std::size_t Lanes, class T>
void softmax_cross_entropy(queued const& k, T const* logits, int const* labels, T const* weight, T* dlogits, T* loss) {
    softmax_cross_entropy<Classes, Lanes>(blocks_of(k), logits, labels, weight, dlogits, loss);
}
template<std::size_t Classes, std::size_t Lanes, class T>
void softmax_cross_entropy_loss(queued const& k, T const* logits, int const* labels, T* loss, int* correct) {
    softmax_cross_entropy_loss<Classes, Lanes>(blocks_of(k), logits, labels, loss, correct);
}
// Kernels that steps call beside those of layers, loss and optimizer: samples on their way in, losses on their way out.
template<class T, class A, class Order>
void convert_inputs(queued const& k, staged_shard const* about, std::byte const* numbers, A* x, std::size_t n,
                    Order order) {
    convert_inputs<T>(blocks_of(k), about, numbers, x, n, order);
}
template<class T>
void add_scores(queued const& k, T const* loss, int const* correct, std::uint32_t const* count, sample_score* sum) {
    add_scores(blocks_of(k), loss, correct, count, sum);
}
// Kernels that compile for every network, and run for those with narrow parameters or running statistics.
template<class T, class A, class Order>
void round_values(queued const& k, rounded_array<T, A, Order> const* arrays, std::size_t count) {
    round_values(blocks_of(k), arrays, count);
}
template<class T>
void update_running(queued const& k, T* running, T const* now, T momentum, std::size_t n) {
    update_running(blocks_of(k), running, now, momentum, n);
}

// A member of another kind under the name takes a requirement away.
struct without_layout : queued {
    using queued::queued;
    struct layout;
};
struct on_the_host : queued {
    using queued::queued;
    static constexpr bool remote = false;
};
class without_stream : public queued {
    using stream = void;

public:
    using queued::queued;
};
struct other_stream {};
struct of_another_stream : queued {
    using stream = other_stream;
    of_another_stream(stream&, std::size_t, workspace, rehearsal::libraries&);
    stream& queue() const;
};
struct without_most_flops_beside : queued {
    using queued::queued;
    struct most_flops_beside;
};
struct made_without_libraries : queued {
    made_without_libraries(stream& s, std::size_t samples, workspace room, rehearsal::libraries& l, int)
        : queued(s, samples, room, l) {}
};
struct without_queue : queued {
    using queued::queued;
    struct queue;
};
struct without_samples : queued {
    using queued::queued;
    struct samples;
};
struct without_set_shard : queued {
    using queued::queued;
    struct set_shard;
};
struct without_shard : queued {
    using queued::queued;
    struct shard;
};
struct not_copied : queued {
    using queued::queued;
    not_copied(not_copied const&) = delete;
};
static_assert(!stream_kernels<without_layout, rehearsal> && !stream_kernels<on_the_host, rehearsal>);
static_assert(!stream_kernels<without_stream, rehearsal> && !stream_kernels<of_another_stream, rehearsal>);
static_assert(!stream_kernels<without_most_flops_beside, rehearsal>);
static_assert(!stream_kernels<made_without_libraries, rehearsal> && !stream_kernels<not_copied, rehearsal>);
static_assert(!stream_kernels<without_queue, rehearsal> && !stream_kernels<without_samples, rehearsal>);
static_assert(!stream_kernels<without_set_shard, rehearsal> && !stream_kernels<without_shard, rehearsal>);

// Policies that say more of themselves are asked for more.
struct fusing : queued {
    using queued::queued;
    static constexpr fusion fuses = fusion::on_both_sides;
};
struct fusing_with_addends : fusing {
    using fusing::fusing;
    void set_addend(void const*) {}
};
struct narrow : queued {
    using queued::queued;
    template<class>
    using stored = bf16;
};
struct narrow_with_new_gradients : narrow {
    using narrow::narrow;
    void set_gradients_are_new() {}
};
static_assert(!stream_kernels<fusing, rehearsal> && stream_kernels<fusing_with_addends, rehearsal>);
static_assert(!stream_kernels<narrow, rehearsal> && stream_kernels<narrow_with_new_gradients, rehearsal>);

// The library's own policies model it, too.
static_assert(stream_kernels<rehearsal::kernels, rehearsal>);
static_assert(stream_kernels<channels_last<rehearsal::kernels>, rehearsal>);
static_assert(stream_kernels<storing<rehearsal::kernels, bf16>::type, rehearsal>);
static_assert(!stream_kernels<portable, rehearsal> && !stream_kernels<int, rehearsal>);
static_assert(!stream_kernels<block_kernels<rehearsal::stream>, rehearsal>); // made without libraries

// A trainer refuses what does not model it by a rule, and not in the middle of a step.
static_assert(detail::runs_on<queued, rehearsal>() && !detail::runs_on<without_queue, rehearsal>());

} // namespace kernels_on_streams_test

TEST_SUITE("concepts/kernels_on_streams") {
    using namespace kernels_on_streams_test;

    TEST_CASE("the archetype of an accelerator's family trains to what the reference trains to") {
        using kernel_training::trained, kernel_training::trains_as_the_reference;
        trains_as_the_reference(trained<queued, on<mesh<rehearsal, dp<1>>>>());
        trains_as_the_reference(trained<queued, on<mesh<rehearsal, dp<2>>>>());
    }
}
