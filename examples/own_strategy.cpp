// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A reduction strategy of one's own: the ring once more, from what the library offers to everybody. The compiler proves
// it; LeNet is trained with it, and ends with the weights that the library's ring leads to, bit for bit.

#include "standard_output.hpp"

#include <trireme/trireme.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>

using namespace trireme;

struct my_ring {
    static constexpr char const* name = "my_ring";

    /// The buffer is cut into one chunk per rank; every rank does 2 n - 1 steps.
    static constexpr schedule all_reduce(int ranks) noexcept {
        return {name, ranks, ranks, ranks > 1 ? 2 * ranks - 1 : 0, &step};
    }

    /// Step s of `rank` among `n`: first every chunk goes round once and is added up, then once more, complete.
    static constexpr collective_step step(int n, int rank, int s) noexcept {
        int const before = (rank + n - 1) % n, after = (rank + 1) % n;
        if (s == 2 * n - 2) return {step_kind::wait, 0, one_rank(after), s}; // until the successor has read it
        int const chunk = (rank + 2 * n - 2 - s) % n;
        return {s < n - 1 ? step_kind::reduce : step_kind::copy, chunk, one_rank(before), s};
    }
};

// Each of these is a proof: it ends, adds every contribution once, leaves all with the same bits, and has no race.
// Change a number in `step` and see.
static_assert(proves<my_ring, collective::all_reduce, 2>);
static_assert(proves<my_ring, collective::all_reduce, 3>);
static_assert(proves<my_ring, collective::all_reduce, 16>);

using lenet = network<input<1, 28, 28>, conv2d<6, kernel<5>, padding<2>>, sigmoid, avg_pool2d<2>, conv2d<16, kernel<5>>,
                      sigmoid, avg_pool2d<2>, flatten, linear<120>, sigmoid, linear<84>, sigmoid, linear<10>>;

template<class Strategy>
using trainer_by = data_parallel_trainer<lenet, cross_entropy, sgd, on<mesh<host, dp<3>>>, reduce_by<Strategy>>;

int main() try {
    watch_standard_output();
    auto const data = fashion_mnist::load();
    trainer_by<my_ring> mine{{.learning_rate = 0.9f, .batch = 256, .seed = 1}};
    trainer_by<ring> theirs{{.learning_rate = 0.9f, .batch = 256, .seed = 1}};
    for (auto const& epoch : mine.fit(data, {.epochs = 1})) std::cout << "by my_ring: " << epoch << '\n';
    for (auto const& epoch : theirs.fit(data, {.epochs = 1})) std::cout << "by ring:    " << epoch << '\n';
    bool const same = mine.gather_parameters() == theirs.gather_parameters();
    std::printf("the weights are %s\n", same ? "the same, bit for bit" : "not the same");
    return same ? 0 : 1;
} catch (std::exception const& e) {
    std::fprintf(stderr, "own_strategy: %s\n", e.what());
    return exit_code::of(e);
}
