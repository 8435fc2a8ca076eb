// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A network like LeNet on the colour photographs of CIFAR-10: three channels instead of one, and adam. In
// every step photographs are moved and mirrored.
//
// The files are not part of any Debian package: without them the program says where they are to be had.
//
// Exit codes: 0; 2 for a wrong flag, missing data or a layout that cannot work; 3 for a failure while it runs.

#include "cifar_flags.hpp"

#include <trireme/data/cifar.hpp>
#include <trireme/trainer/progress_bar.hpp>
#include <trireme/trireme.hpp>

#include <algorithm>
#include <cstdio>

using namespace trireme;

using net = network<input<3, 32, 32>,                                       //
                    conv2d<16, kernel<5>, padding<2>>, relu, max_pool2d<2>, // 16 x 16 x 16
                    conv2d<32, kernel<5>, padding<2>>, relu, max_pool2d<2>, // 32 x 8 x 8
                    flatten, linear<120>, relu, linear<84>, relu, linear<cifar10::classes>>;
using net_trainer = trainer<net, cross_entropy, adam, on<mesh<host, dp<dynamic>>>>;

int train(cifar_flags const& flags) {
    net_trainer::options const options{.learning_rate = flags.learning_rate, .batch = flags.batch, .seed = flags.seed};
    net_trainer::run_options const where{.devices =
                                             flags.devices != 0 ? flags.devices : std::clamp(host::processors(), 1, 2)};
    net_trainer::check(options, where);
    auto const data = cifar10::load(flags.data);
    net_trainer t(options, where);
    std::printf("%s\n", network_table<net>().c_str());
    // photographs that are moved and mirrored anew in every step are learnt less by heart
    training_set const changing{augmented(data.train, {.crop_padding = 4, .flip = true}), data.test};
    t.train(changing, {.epochs = flags.epochs}, progress_bar());
    return 0;
}

int main(int argc, char** argv) {
    try {
        auto const flags = cifar_flags::parse(argc, argv);
        return flags ? train(*flags) : 0;
    } catch (std::exception const& e) {
        auto const code = exit_code::of(e);
        std::fprintf(stderr, "%scifar: %s\n", code == exit_code::failure ? "\n" : "", e.what()); // behind a bar
        return code;
    }
}
