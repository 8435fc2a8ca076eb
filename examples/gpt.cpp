// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A transformer that reads a text byte by byte, learns to say the next one, and writes. Four blocks, 128 values for
// each byte, windows of 128 bytes. Exit codes: those in the README.

#include "epoch_log.hpp"
#include "gpt_flags.hpp"
#include "stages.hpp"
#include "trace_file.hpp"

#include <trireme/core/exit_code.hpp>
#include <trireme/readers.hpp>
#include <trireme/trireme.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

using namespace trireme;

constexpr std::size_t window = 128;
using small_gpt =
    gpt<gpt_sizes{.layers = 4, .width = 128, .heads = 4, .context = window, .vocabulary = byte_vocabulary}>;
using gpt_trainer = trainer<small_gpt, cross_entropy, adamw, on<mesh<host, dp<dynamic>, pp<dynamic>>>, clip_norm,
                            without_decay<biases, norms>, reproducible<fixed_tree, dynamic>>;

/// The mean cost of a byte whose share in the text is all that is known, in nats.
double unigram_entropy(std::string_view text) {
    std::array<double, byte_vocabulary> count{};
    for (char const c : text) ++count[static_cast<unsigned char>(c)];
    double entropy = 0;
    for (double const n : count)
        if (n > 0) entropy -= n / static_cast<double>(text.size()) * std::log(n / static_cast<double>(text.size()));
    return entropy;
}

/// One JSON object per step, on disk as soon as the step is over.
class step_log {
public:
    explicit step_log(std::string const& path) : file_("--log", path) {}
    /// `more`: further members of the object.
    void write(std::uint64_t step, double loss, double rate, double tokens_per_second, char const* more) {
        if (!file_.wanted()) return;
        char line[300];
        std::snprintf(line, sizeof line,
                      R"({"step": %llu, "loss": %.17g, "rate": %.17g, "tokens_per_second": %.17g%s})"
                      "\n",
                      static_cast<unsigned long long>(step), loss, rate, tokens_per_second, more);
        file_.write(line);
    }

private:
    result_file file_;
};

/// Byte after byte: each is drawn by the probabilities that the network gives behind those before it.
std::string written(gpt_trainer& t, std::string text, std::size_t characters, std::uint64_t seed) {
    auto const begin = text.size();
    random_stream const random(seed, random_purpose::user, 1);
    for (std::size_t n = 0; n < characters; ++n) {
        auto const known = std::min(text.size(), window);
        std::vector<std::uint8_t> tokens(window, 0); // those behind the last are not looked at
        std::copy(text.end() - static_cast<std::ptrdiff_t>(known), text.end(), tokens.begin());
        auto const p = t.predict(samples_in_memory(tokens, make_shape(window))).probabilities();
        double left = random.uniform(n);
        std::size_t byte = 0;
        for (; byte + 1 < byte_vocabulary; ++byte)
            if ((left -= double(p[(known - 1) * byte_vocabulary + byte])) < 0) break;
        text += static_cast<char>(byte);
    }
    return text.substr(begin);
}

int run(gpt_flags const& flags) {
    if (flags.text.empty())
        throw usage_error(
            "--text FILE is missing: name a text, or start with `sh examples/run.sh gpt`, which brings one");
    constexpr std::uint64_t warm_up = 100;
    gpt_trainer::options const training{.learning_rate = flags.learning_rate,
                                        .weight_decay = 0.1f,
                                        .max_norm = 1.0f,
                                        .rate =
                                            cosine_rate{.steps = flags.decay_steps, .warm_up = warm_up, .least = 0.1},
                                        .batch = flags.batch,
                                        .seed = flags.seed,
                                        .logical_shards = flags.reproducible};
    gpt_trainer::run_options where{.devices = flags.devices,
                                   .stages = flags.stages,
                                   .micro_batches = flags.micro_batches,
                                   .schedule = flags.turns,
                                   .deadline = std::chrono::duration<double>(flags.deadline)};
    where.trace = !flags.trace.empty();
    check_options<gpt_trainer>(training, where, flags.schedule);
    result_file trace("--trace", flags.trace);
    step_log log(flags.log);
    auto const text = read_text(flags.text);
    auto const samples = text_windows(text, window);
    auto const unigram = unigram_entropy(text);

    auto const layout = gpt_trainer::layout_of(training, where);
    auto const plan = gpt_trainer::plan(flags.batch, layout);
    std::printf("text              %zu bytes, %zu windows of %zu; a byte costs %.3f bits by the bytes' shares alone\n",
                text.size(), samples.size(), window, unigram / std::log(2.0));
    std::printf("instruction set   %s; processors: %d\n", instruction_set, host::processors());
    std::printf("devices           %d", layout.replicas);
    if (layout.stages > 1)
        std::printf(" x %s; a device waits %.1f%% of a step", stages_text(layout).c_str(), 100 * plan.bubble());
    std::printf("\nparameters        %s; %s bytes on the fullest device; %s FLOPs per step\n\n",
                with_commas(plan.parameters).c_str(), with_commas(plan.memory().total()).c_str(),
                with_commas(plan.flops_per_step()).c_str());
    std::fflush(stdout);

    gpt_trainer t(training, where);
    random_stream const random(flags.seed, random_purpose::user);
    std::vector<std::uint32_t> which(flags.batch);
    auto const begin = std::chrono::steady_clock::now();
    auto const seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    traced_into(&trace, t, [&] {
        double mean = 0, told = 0;
        std::uint64_t step = 0;
        for (bool last = false; !last; ++step) {
            for (std::size_t i = 0; i < which.size(); ++i)
                which[i] = static_cast<std::uint32_t>(
                    random.below(step * which.size() + i, static_cast<std::uint32_t>(samples.size())));
            auto const loss = t.step(copy_of(samples, which)).loss;
            auto const speed = static_cast<double>((step + 1) * flags.batch * window) / seconds();
            mean = step == 0 ? loss : 0.95 * mean + 0.05 * loss;
            last = flags.steps != 0 ? step + 1 == flags.steps : seconds() >= 60 * flags.minutes;
            auto const rate = double(flags.learning_rate) * training.rate.value.factor(step);
            char hash[48] = "";
            if (last)
                std::snprintf(hash, sizeof hash, R"(, "weights_hash": "%016llx")",
                              static_cast<unsigned long long>(weights_hash(t.gather_parameters())));
            log.write(step + 1, loss, rate, speed, hash);
            if (last || step == 0 || seconds() >= told + 5) {
                told = seconds();
                std::printf("step %-6llu loss %.4f  %.3f bits per byte  rate %.2g  %.0f tokens/s\n",
                            static_cast<unsigned long long>(step + 1), mean, mean / std::log(2.0), rate, speed);
                std::fflush(stdout);
            }
        }
        double const gained = (unigram - mean) / std::log(2.0);
        std::printf("\n%.3f bits per byte %s than by the bytes' shares alone\n", std::abs(gained),
                    gained < 0 ? "more" : "less");
    });
    if (flags.characters != 0)
        std::printf("\n%s\n",
                    written(t, text.substr(0, std::min(text.size(), window)), flags.characters, flags.seed).c_str());
    return 0;
}

int main(int argc, char** argv) {
    try {
        auto const flags = gpt_flags::parse(argc, argv);
        return flags ? run(*flags) : 0;
    } catch (std::exception const& e) {
        std::fprintf(stderr, "gpt: %s\n", e.what());
        bool const wrong = dynamic_cast<usage_error const*>(&e) || dynamic_cast<data_error const*>(&e);
        return wrong ? exit_code::usage : exit_code::failure;
    }
}
