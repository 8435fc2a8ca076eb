// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cifar_flags.hpp"
#include "flag_values.hpp"

#include <trireme/parallel/layout.hpp>

std::optional<cifar_flags> cifar_flags::parse(int argc, char const* const* argv) {
    cifar_flags f;
    CLI::App app("Trains a network like LeNet on CIFAR-10.", "cifar");
    app.add_option("--epochs", f.epochs, "how often each training image is seen")
        ->check(whole_number(1, 1000000))
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--batch", f.batch, "images per step, over all devices")
        ->check(whole_number<std::size_t>(1, 50000))
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--devices", f.devices, "threads that share the batch [default: one per processor, at most 2]")
        ->check(whole_number(1, trireme::max_devices))
        ->type_name("N");
    app.add_option("--learning-rate", f.learning_rate, "learning rate of adam")
        ->check(number(0.0f, 10.0f, "number"))
        ->type_name("R")
        ->capture_default_str();
    app.add_option("--seed", f.seed, "of the weights and of the order of the images")
        ->check(whole_number<std::uint64_t>(0, ~std::uint64_t{0}))
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--data", f.data, "folder of the six CIFAR-10 files [default: the one in TRIREME_CIFAR10]")
        ->check(some_name())
        ->type_name("DIR");
    if (!parse_flags(app, argc, argv)) return {};
    return f;
}
