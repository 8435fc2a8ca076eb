// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once
#include <trireme/trireme.hpp>

using namespace trireme;

template<class... Policies>
using my_trainer = trainer<network<input<1, 28, 28>, flatten, linear<10>>, cross_entropy, sgd, Policies...>;

using deep = network<input<16>, linear<16>, relu, linear<16>, relu, linear<16>, relu, linear<4>>;
template<class... Policies>
using staged = trainer<deep, cross_entropy, sgd, Policies...>;

// A strategy made of a function: Strategy::step(ranks, rank, s) is what a rank does in its step s.
template<class Strategy, int Chunks, int Steps>
struct by_steps {
    static constexpr char const* name = "mine";
    static constexpr schedule all_reduce(int ranks) noexcept { return {name, ranks, Chunks, Steps, &Strategy::step}; }
};

struct centre : by_steps<centre, 1, 3> { // a right one
    static constexpr collective_step step(int n, int rank, int s) noexcept {
        bool const last = rank == n - 1;
        if (s == 0 && last) return {step_kind::reduce, 0, all_others(rank, n), 0}; // the last rank adds all numbers,
        if (s == 1 && !last) return {step_kind::copy, 0, one_rank(n - 1), 1};      // the other ranks copy the sum,
        if (s == 2 && last) return {step_kind::wait, 0, all_others(rank, n), 2};   // it stays until they have it
        return {};
    }
};

template<class Strategy, int Devices = 4>
using devices_by = my_trainer<on<mesh<host, dp<Devices>>>, reduce_by<Strategy>>;

// Kernels that take all samples of a shard at once, as kernels<onednn> do, and compute nothing.
struct at_once : kernel_context {
    static constexpr value_layout layout = value_layout::channels_last;
    template<class T>
    static constexpr bool computes = std::is_same_v<T, float>;
    using sample_kernels = portable;
    struct context {
        static constexpr std::size_t bytes(layer_shapes const*, std::size_t, std::size_t) { return 64; }
    };
    std::size_t samples() const { return 1; }
    template<class F>
    void each(std::size_t n, F f) const {
        for (std::size_t i = 0; i < n; ++i) f(i);
    }
};

/// A transport between machines, which share no memory.
struct pigeons : transport_traits {
    static constexpr bool joins_hosts = true;
    template<bool>
    using ranks = thread_ranks; // nothing is run
};
