// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What only devices of one kind can do. `rehearsal` stands for every accelerator.
#include <trireme/rehearsal.hpp>
using namespace trireme;

/// y = 2 x, written for the host: it looks at the values itself.
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

/// The same for accelerators: the policy does it for every value of every sample.
struct doubling {
    float const* from;
    float* to;
    void operator()(std::size_t i) const { to[i] = 2 * from[i]; }
};
struct doubled_there {
    static constexpr layer_description describe(shape in) noexcept { return doubled::describe(in); }
    static void forward(auto const& io) {
        io.policy.each(io.x.size() * io.policy.samples(), doubling{io.x.data, io.y.data});
    }
    static void backward_input(auto const& io) {
        io.policy.each(io.x.size() * io.policy.samples(), doubling{io.dy.data, io.dx.data});
    }
};

/// As a transport would have one.
struct telepathy {
    static constexpr char const* name = "telepathy";
    static constexpr bool of_a_transport = true;
    static constexpr schedule all_reduce(int ranks) { return ring::all_reduce(ranks); }
};

using net = network<input<1, 28, 28>, flatten, linear<10>>;
template<class Device, class... Policies>
using trainer_on = trainer<net, cross_entropy, sgd, on<mesh<Device, dp<2>>>, Policies...>;

#if defined(LOOKS_AT_REMOTE_VALUES)
// LOOKS_AT_REMOTE_VALUES: TRI0054 | io.policy.each | gets<
// errors <= 4
using program = trainer<network<input<1, 28, 28>, flatten, linear<12>, doubled, linear<10>>, cross_entropy, sgd,
                        on<mesh<rehearsal, dp<2>>>>;
#elif defined(KERNELS_OF_THE_HOST)
// KERNELS_OF_THE_HOST: TRI0055 | portable | rehearsal
// errors <= 1
using program = trainer_on<rehearsal, kernels<portable>>;
#elif defined(KERNELS_OF_AN_ACCELERATOR)
// KERNELS_OF_AN_ACCELERATOR: TRI0055 | rehearsal::kernels | host
// errors <= 1
using program = trainer_on<host, kernels<rehearsal::kernels>>;
#elif defined(WEIGHTS_IN_ONE_PLACE)
// WEIGHTS_IN_ONE_PLACE: TRI0056 | gets< | rehearsal
// errors <= 1
using program = trainer_on<rehearsal, hold_weights<once>>;
#elif defined(TRANSPORT_OF_THREADS)
// TRANSPORT_OF_THREADS: TRI0057 | transport< | peer
// errors <= 1
using program = trainer_on<host, transport<peer>>;
#elif defined(NO_WAY)
// NO_WAY: TRI0043 | at_policy<1 | transport< | ring
// errors <= 1
using program = trainer_on<rehearsal, transport<ring>>;
#elif defined(STRATEGY_OF_ANOTHER_TRANSPORT)
// STRATEGY_OF_ANOTHER_TRANSPORT: TRI0059 | telepathy | rehearsal
// errors <= 1
using program = trainer_on<rehearsal, reduce_by<telepathy>>;
#elif defined(STRATEGY_OF_A_TRANSPORT_ON_THE_HOST)
// STRATEGY_OF_A_TRANSPORT_ON_THE_HOST: TRI0059 | telepathy | host
// errors <= 1
using program = trainer_on<host, reduce_by<telepathy>>;
#elif defined(SHARED_PROCESSORS)
// SHARED_PROCESSORS: TRI0058 | leave them out on the host
// errors <= 1
using program = trainer_on<host>;
program::options given{.share_devices = true};
#else
using program = trainer<network<input<1, 28, 28>, flatten, linear<12>, doubled_there, linear<10>>, cross_entropy, sgd,
                        transport<peer>, on<mesh<rehearsal, dp<2>>>>;
#endif

auto use() {
    program t;
    return t.plan().parameters;
}
