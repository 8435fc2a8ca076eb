// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "microgpt_flags.hpp"
#include "flag_values.hpp"

#include <limits>

std::optional<microgpt_flags> microgpt_flags::parse(int argc, char const* const* argv) {
    microgpt_flags f;
    constexpr auto most = std::numeric_limits<std::uint64_t>::max();
    CLI::App app("Trains the smallest GPT on names, and invents some.", "microgpt");
    app.add_option("--text", f.text, "names, one per line [default: those of Debian's package miscfiles]")
        ->check(some_name())
        ->type_name("FILE");
    app.add_option("--steps", f.steps, "steps of the training, a name each")
        ->check(whole_number<std::uint64_t>(1, most))
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--learning-rate", f.learning_rate, "step size of Adam, which falls to nothing")
        ->check(number(1e-6, 1e2, "number"))
        ->type_name("RATE")
        ->default_str("0.01");
    app.add_option("--temperature", f.temperature, "of the invented names: the lower, the more they are like others")
        ->check(number(0.01, 100.0, "number"))
        ->type_name("T")
        ->capture_default_str();
    app.add_option("--names", f.names, "how many it invents")
        ->check(whole_number<std::size_t>(0, 100000))
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--seed", f.seed, "of the initial weights, the order of the names, and what is invented")
        ->check(whole_number<std::uint64_t>(0, most))
        ->type_name("N")
        ->capture_default_str();
    if (!parse_flags(app, argc, argv)) return {};
    return f;
}
