// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// calibrate [RANKS [BYTES]]    measures alpha, beta and gamma of the cost model on this machine
//
// Prints a description to paste into a program, `best_of<...>::on<here>`, and what it predicts beside what is measured.
// RANKS are threads, as many as there are processors by default (at least 2); BYTES is the buffer that beta and gamma
// are measured with, 1 MiB by default: large buffers that leave the caches have a larger beta.

#include "calibration.hpp"
#include "standard_output.hpp"

#include <trireme/collective/all_reduce.hpp>
#include <trireme/core/exit_code.hpp>
#include <trireme/schedule/collective/best_of.hpp>
#include <trireme/schedule/collective/chain.hpp>
#include <trireme/schedule/collective/recursive_halving_doubling.hpp>
#include <trireme/schedule/collective/ring.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <span>
#include <string>

using namespace trireme;
using calibration::measured, calibration::seconds_of_call;

namespace {

/// One line of the table: what the model says and what the clock says.
template<class S>
void compare(threads::group& group, std::size_t bytes, machine const& here) {
    auto const s = schedule_of<S, collective::all_reduce>(group.size());
    auto const clock = seconds_of_call(group, bytes, [](auto& me, auto x) { all_reduce<S>(me, x); });
    std::printf("//   %9zu  %-28s %12.2f %12.2f\n", bytes, S::name, 1e6 * seconds_of(s, {bytes, 1, s.chunks}, here),
                1e6 * clock);
}

std::size_t number(char const* text, std::size_t least, std::size_t most, char const* what) {
    std::size_t n = 0;
    auto const* const end = text + std::strlen(text);
    if (auto const read = std::from_chars(text, end, n);
        read.ec != std::errc{} || read.ptr != end || n < least || n > most)
        throw usage_error(std::string(what) + " = '" + text + "': it is a number from " + std::to_string(least) +
                          " to " + std::to_string(most));
    return n;
}

} // namespace

int main(int argc, char** argv) try {
    watch_standard_output();
    if (argc > 3) throw usage_error("usage: calibrate [RANKS [BYTES]]");
    auto const ranks =
        argc > 1 ? static_cast<int>(number(argv[1], 2, 64, "RANKS")) : std::clamp(patience::processors(), 2, 64);
    auto const wanted = argc > 2 ? number(argv[2], 4096, 1 << 30, "BYTES") : std::size_t{1} << 20;
    auto const unit = static_cast<std::size_t>(ranks) * cache_line; // so that all ranks have equal parts
    auto const bytes = (wanted + unit - 1) / unit * unit;

    threads::group group(ranks);
    machine here;
    here.links[0] = measured(group, bytes);
    if (ranks > patience::processors()) here.at_once = patience::processors();

    auto const& l = here.links[0];
    std::printf("// %d threads on %d processors; beta and gamma with %zu bytes\n", ranks, patience::processors(),
                bytes);
    std::printf(
        "struct here {\n    static constexpr trireme::machine description{{{%.3g, %.3g, %.3g, %.3g}}, {}, %d};\n};\n",
        l.alpha, l.beta, l.gamma, l.overhead, here.at_once);
    std::printf("\n// all_reduce    bytes                           predicted us  measured us\n");
    for (std::size_t const size : {std::size_t{1} << 10, std::size_t{1} << 16, bytes}) {
        compare<direct>(group, size, here);
        compare<ring>(group, size, here);
        compare<recursive_halving_doubling>(group, size, here);
        compare<chain>(group, size, here);
    }
} catch (std::exception const& e) {
    std::fprintf(stderr, "calibrate: %s\n", e.what());
    return exit_code::of(e);
}
