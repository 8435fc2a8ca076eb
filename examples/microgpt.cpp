// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Karpathy's microgpt: a transformer of 4,192 parameters learns names letter by letter, one name per step, and invents
// others. Source: Andrej Karpathy, "microgpt", 2026; his numbers are in there, and no code. Exit codes: those in the
// README.

#include "microgpt_flags.hpp"

#include <trireme/readers.hpp>
#include <trireme/trireme.hpp>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

using namespace trireme;

constexpr std::size_t window = 16, width = 16;
constexpr std::uint8_t edge = 26; // the token in front of a name, and behind it
constexpr std::size_t symbols = edge + 1;
constexpr int nothing = -1; // the target of tokens behind a name

using norm = rms_norm_without_weight;
using look_back = residual<
    sequential<norm, linear<3 * width, without_bias>, attention<heads<4>, causal>, linear<width, without_bias>>>;
using think = residual<sequential<norm, linear<4 * width, without_bias>, relu, linear<width, without_bias>>>;
using microgpt = network<input<window>, embedding<symbols, width>, learned_positions, norm, look_back, think,
                         linear<symbols, without_bias>>;
static_assert(microgpt::parameters == 4192);
using microgpt_trainer = trainer<microgpt, cross_entropy_with<ignoring<nothing>>, adam>;

/// Names as samples: the edge and the letters are the inputs, the token behind each is its target. Letters behind the
/// window are left out.
owned_samples names_in(std::string const& path) {
    std::vector<std::uint8_t> inputs;
    std::vector<std::int8_t> targets;
    std::vector<std::uint8_t> name;
    auto const text = read_text(path) + '\n';
    std::size_t line = 1;
    for (std::size_t i = 0; i < text.size(); ++i) {
        char const c = text[i];
        if (c >= 'a' && c <= 'z')
            name.push_back(static_cast<std::uint8_t>(c - 'a'));
        else if (c >= 'A' && c <= 'Z')
            name.push_back(static_cast<std::uint8_t>(c - 'A'));
        else if (c == '\n') {
            for (std::size_t t = 0; t < window && !name.empty(); ++t) {
                inputs.push_back(t == 0 || t > name.size() ? edge : name[t - 1]);
                targets.push_back(t > name.size()   ? std::int8_t{nothing}
                                  : t < name.size() ? static_cast<std::int8_t>(name[t])
                                                    : std::int8_t{edge});
            }
            name.clear();
            ++line;
        } else if (c != '\r') {
            throw data_error(path, i,
                             "line " + std::to_string(line) +
                                 " has something that is no letter from a to z: names have one line each, and no other "
                                 "letters");
        }
    }
    if (inputs.empty()) throw data_error(path, 0, "there is no name in this file: pass one with a name in each line");
    return {std::move(inputs), make_shape(window), std::move(targets), make_shape(window), symbols, nothing};
}

/// A name, letter after letter: each is drawn by the probabilities behind those before it.
std::string invented(microgpt_trainer& t, float temperature, random_stream const& random) {
    std::vector<std::uint8_t> tokens(window, edge);
    std::string name;
    for (std::size_t at = 0; at < window; ++at) {
        auto const scores = t.predict(samples_in_memory(tokens, make_shape(window))).values();
        auto const* const scored = scores.data() + at * symbols;
        double const most = *std::max_element(scored, scored + symbols);
        double weight[symbols], sum = 0;
        for (std::size_t k = 0; k < symbols; ++k)
            sum += weight[k] = std::exp((double(scored[k]) - most) / double(temperature));
        double left = random.uniform(at) * sum;
        std::size_t letter = 0;
        while (letter + 1 < symbols && (left -= weight[letter]) >= 0) ++letter;
        if (letter == edge) break;
        name += static_cast<char>('a' + letter);
        if (at + 1 < window) tokens[at + 1] = static_cast<std::uint8_t>(letter);
    }
    return name;
}

int run(microgpt_flags const& flags) {
    if (flags.text.empty())
        throw usage_error("--text FILE is missing: name a file with a name in each line, or start with `sh "
                          "examples/run.sh microgpt`, which brings one");
    auto const names = names_in(flags.text);
    microgpt_trainer t{{.learning_rate = flags.learning_rate,
                        .beta1 = 0.85f,
                        .beta2 = 0.99f,
                        .rate = cosine_rate{.steps = flags.steps},
                        .batch = 1,
                        .seed = flags.seed}};
    std::printf("%zu names, %zu parameters\n", names.size(), microgpt::parameters);
    shuffled_batches batches(names, 1, flags.seed);
    double mean = 0, seconds = 0;
    while (t.steps() < flags.steps) {
        auto const name = batches.at(t.steps());
        auto const begin = std::chrono::steady_clock::now();
        auto const loss = t.step(name).loss;
        seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        mean = t.steps() == 1 ? loss : 0.99 * mean + 0.01 * loss;
        if (t.steps() % 100 == 0 || t.steps() == flags.steps)
            std::printf("step %-6llu loss %.4f  %.1f us per step\n", static_cast<unsigned long long>(t.steps()), mean,
                        1e6 * seconds / static_cast<double>(t.steps()));
    }
    std::printf("\n");
    for (std::size_t i = 0; i < flags.names; ++i)
        std::printf("%s\n", invented(t, flags.temperature,
                                     random_stream(flags.seed, random_purpose::user, static_cast<std::uint32_t>(i)))
                                .c_str());
    return 0;
}

int main(int argc, char** argv) {
    try {
        auto const flags = microgpt_flags::parse(argc, argv);
        return flags ? run(*flags) : 0;
    } catch (std::exception const& e) {
        std::fprintf(stderr, "microgpt: %s\n", e.what());
        return exit_code::of(e);
    }
}
