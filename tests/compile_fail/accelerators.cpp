// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What only devices of one kind can do. `rehearsal` stands for every accelerator.
// On the page: devices of the host, and accelerators
#include "prelude.hpp"
#include <trireme/rehearsal.hpp>

namespace tri0054 {
// A layer that reads `io.x[i]` itself is a layer for the host. On an accelerator it says what is to be done with every
// value, and the accelerator does it later. The functor has a name and takes the index.
#if defined(LOOKS_AT_REMOTE_VALUES)
// LOOKS_AT_REMOTE_VALUES: TRI0054 | io.policy.each | gets<
// errors <= 4
struct doubled {
    static constexpr layer_description describe(shape in) noexcept {
        layer_description d;
        d.output = in;
        return d;
    }
    static void forward(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = 2 * io.x[i];
    }
    static void backward_input(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.dx[i] = 2 * io.dy[i];
    }
};
#else
struct doubling {
    float const* from;
    float* to;
    TRIREME_HOST_DEVICE void operator()(std::size_t i) const { to[i] = 2 * from[i]; }
};
struct doubled {
    static constexpr layer_description describe(shape in) noexcept {
        layer_description d;
        d.output = in;
        return d;
    }
    static void forward(auto const& io) {
        io.policy.each(io.x.size() * io.policy.samples(), doubling{io.x.data, io.y.data});
    }
    static void backward_input(auto const& io) {
        io.policy.each(io.x.size() * io.policy.samples(), doubling{io.dy.data, io.dx.data});
    }
};
#endif
using net = network<input<1, 28, 28>, flatten, linear<12>, doubled, linear<10>>;
trainer<net, cross_entropy, sgd, on<mesh<rehearsal, dp<2>>>> t;
} // namespace tri0054

namespace tri0055 {
#if defined(KERNELS_OF_THE_HOST)
// KERNELS_OF_THE_HOST: TRI0055 | portable | rehearsal
// errors <= 1
my_trainer<on<mesh<rehearsal, dp<2>>>, kernels<portable>> t;
#elif defined(KERNELS_OF_AN_ACCELERATOR)
// KERNELS_OF_AN_ACCELERATOR: TRI0055 | rehearsal::kernels | host
// errors <= 1
my_trainer<on<mesh<host, dp<2>>>, kernels<rehearsal::kernels>> t;
#else
my_trainer<on<mesh<rehearsal, dp<2>>>> t;
#endif
} // namespace tri0055

namespace tri0056 {
#if defined(WEIGHTS_IN_ONE_PLACE)
// WEIGHTS_IN_ONE_PLACE: TRI0056 | gets< | rehearsal
// errors <= 1
my_trainer<on<mesh<rehearsal, dp<2>>>, hold_weights<once>> t;
#else
my_trainer<on<mesh<rehearsal, dp<2>>>> t;
#endif
} // namespace tri0056

namespace tri0057 {
#if defined(TRANSPORT_OF_THREADS)
// TRANSPORT_OF_THREADS: TRI0057 | transport< | peer
// errors <= 1
my_trainer<on<mesh<host, dp<2>>>, transport<peer>> t;
#else
my_trainer<on<mesh<rehearsal, dp<2>>>, transport<peer>> t;
#endif
} // namespace tri0057

namespace tri0082 {
// Which of them joins which devices is another rule ([TRI0057](#tri0057)); which have a header of their own, too
// ([TRI0076](#tri0076)).
#if defined(NO_WAY)
// NO_WAY: TRI0082 | at_policy<1 | transport< | ring
// errors <= 1
using program = my_trainer<on<mesh<rehearsal, dp<2>>>, transport<ring>>;
#else
using program = my_trainer<on<mesh<rehearsal, dp<2>>>, transport<peer>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0082

namespace tri0058 {
// Two threads share a processor without being asked. Two ranks that share a GPU are for tests: they take turns, so it
// is an option.
#if defined(SHARED_PROCESSORS)
// SHARED_PROCESSORS: TRI0058 | leave them out on the host
// errors <= 1
my_trainer<on<mesh<host, dp<2>>>>::run_options given{.share_devices = true};
#else
my_trainer<on<mesh<rehearsal, dp<2>>>>::run_options given{.share_devices = true};
#endif
} // namespace tri0058

namespace tri0059 {
// `native` is the all-reduce of NCCL or of MPI themselves. Elsewhere nobody could run it, and another in its place
// would not be what was asked for.
struct telepathy {
    static constexpr char const* name = "telepathy";
    static constexpr bool of_a_transport = true;
    static constexpr schedule all_reduce(int ranks) { return ring::all_reduce(ranks); }
};
#if defined(STRATEGY_OF_ANOTHER_TRANSPORT)
// STRATEGY_OF_ANOTHER_TRANSPORT: TRI0059 | telepathy | rehearsal
// errors <= 1
my_trainer<on<mesh<rehearsal, dp<2>>>, reduce_by<telepathy>> t;
#elif defined(STRATEGY_OF_A_TRANSPORT_ON_THE_HOST)
// STRATEGY_OF_A_TRANSPORT_ON_THE_HOST: TRI0059 | telepathy | host
// errors <= 1
my_trainer<on<mesh<host, dp<2>>>, reduce_by<telepathy>> t;
#else
my_trainer<on<mesh<rehearsal, dp<2>>>, reduce_by<ring>> t;
#endif
} // namespace tri0059

namespace tri0128 {
// A compressing strategy is two passes of the host around a collective. Accelerators have no such passes.
#if defined(COMPRESSED_ON_ACCELERATORS)
// COMPRESSED_ON_ACCELERATORS: TRI0128 | reduce_by<trireme::compressed<trireme::bf16, trireme::ring> | rehearsal
// errors <= 1
my_trainer<on<mesh<rehearsal, dp<2>>>, reduce_by<compressed<bf16, ring>>> t;
#elif defined(TENSORS_COMPRESSED_ON_ACCELERATORS)
// TENSORS_COMPRESSED_ON_ACCELERATORS: TRI0128 | compressed<trireme::bf16, trireme::ring> | rehearsal
// errors <= 1
my_trainer<on<mesh<rehearsal, dp<2>>>, reduce_by<direct, for_tensors<biases, compressed<bf16, ring>>>> t;
#else
my_trainer<on<mesh<host, dp<2>>>, reduce_by<compressed<bf16, ring>>> t;
#endif
} // namespace tri0128
