// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A transformer that reads a text byte by byte, learns to say the next one, and writes. Four blocks, 128 values for
// each byte, windows of 128 bytes. Exit codes: those in the README.

#include "epoch_log.hpp"
#include "gpt_flags.hpp"
#include "stages.hpp"
#include "step_log.hpp"
#include "strategies.hpp"
#include "trace_file.hpp"

#include <trireme/checkpoints.hpp>
#include <trireme/device/host/peak.hpp>
#include <trireme/readers.hpp>
#include <trireme/trainer/progress_bar.hpp>
#include <trireme/trireme.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

using namespace trireme;

constexpr std::size_t window = 128;
using small_gpt =
    gpt<gpt_sizes{.layers = 4, .width = 128, .heads = 4, .context = window, .vocabulary = byte_vocabulary}>;
using gpt_trainer =
    trainer<small_gpt, cross_entropy, adamw, on<mesh<host, dp<dynamic>, pp<dynamic>>>, clip_norm,
            without_decay<biases, norms, embeddings>, reduce_by<chosen_at_run_time>, reproducible<fixed_tree, dynamic>>;

/// The mean cost of a byte whose share in the text is all that is known, in nats.
double unigram_entropy(std::string_view text) {
    std::array<double, byte_vocabulary> count{};
    for (char const c : text) ++count[static_cast<unsigned char>(c)];
    double entropy = 0;
    for (double const n : count)
        if (n > 0) entropy -= n / static_cast<double>(text.size()) * std::log(n / static_cast<double>(text.size()));
    return entropy;
}

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

/// The text as a terminal takes it: a byte that is neither printable nor part of a character in UTF-8 becomes '?'.
std::string printable(std::string_view text) {
    std::string shown;
    for (std::size_t at = 0; at < text.size();) {
        std::uint32_t const first = static_cast<unsigned char>(text[at]);
        std::size_t const bytes = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
        std::uint32_t character = bytes == 1 ? first : first & (0x7fu >> bytes);
        bool whole = first < 0x80 || (first >= 0xc2 && first < 0xf5 && at + bytes <= text.size());
        for (std::size_t i = 1; whole && i < bytes; ++i) {
            std::uint32_t const next = static_cast<unsigned char>(text[at + i]);
            whole = (next & 0xc0) == 0x80;
            character = character << 6 | (next & 0x3f);
        }
        bool const control =
            (character < 0x20 && character != '\n' && character != '\t') || (character >= 0x7f && character < 0xa0);
        bool const longer_than_need_be = (bytes == 3 && character < 0x800) || (bytes == 4 && character < 0x10000);
        bool const none = (character >= 0xd800 && character < 0xe000) || character > 0x10ffff;
        if (whole && !control && !longer_than_need_be && !none) {
            shown += text.substr(at, bytes);
            at += bytes;
        } else {
            shown += '?';
            ++at;
        }
    }
    return shown;
}

/// SIGINT or SIGTERM, once one of them has come: the training is saved after the step at hand, and ends.
std::sig_atomic_t volatile signal_to_end = 0;

/// Lets a signal end the training so; a second one ends the process. A signal that is ignored remains so.
void save_on_signals() {
    for (int const signal : {SIGINT, SIGTERM}) {
        auto const before = std::signal(signal, [](int came) {
            signal_to_end = came;
            std::signal(came, SIG_DFL);
        });
        if (before == SIG_IGN) std::signal(signal, SIG_IGN);
    }
}

/// The words that a checkpoint keeps of a training, beside its numbers.
checkpoint_notes notes_of(gpt_flags flags, std::string const& text) {
    checkpoint_notes notes{{"text", digest_text(digest_of(std::as_bytes(std::span(text))))}};
    flags.for_each_kept([&](std::string const& name, auto const& value) {
        char word[32];
        notes[name] = {word, std::to_chars(word, word + sizeof word, value).ptr};
    });
    return notes;
}

/// Takes the flags that decide the numbers of a training from the checkpoint that it goes on from. Those that are on
/// the command line as well must be the same.
void take_kept(gpt_flags& flags, checkpoint_manifest const& m, std::string const& text) {
    auto const here = notes_of(flags, text);
    auto const kept = [&](std::string const& name) -> std::string const& {
        auto const at = m.notes.find(name);
        if (at == m.notes.end())
            throw data_error(flags.resume, "the checkpoint in this folder is none of gpt's: it has no " + name);
        return at->second;
    };
    if (kept("text") != here.at("text"))
        throw usage_error("--resume " + flags.resume + ": the training in this folder learns another text than " +
                          flags.text + ": pass that one, or begin a new training");
    flags.for_each_kept([&](std::string const& name, auto& value) {
        auto const& was = kept(name);
        if (flags.given.contains(name) && was != here.at(name))
            throw usage_error("--" + name + " " + here.at(name) + ": the training in " + flags.resume + " has " + was +
                              ", and goes on with it: leave out --" + name + ", or begin a new training");
        if (std::from_chars(was.data(), was.data() + was.size(), value).ec != std::errc())
            throw data_error(flags.resume, "the checkpoint in this folder has no number as its " + name);
    });
}

/// Refuses to save over a training that the run does not go on with. True if it goes on with the one that is there.
bool keep_other_training(std::string const& save, std::string const& resume) {
    std::error_code none;
    if (!resume.empty() && std::filesystem::equivalent(save, resume, none)) return true;
    std::uint64_t steps = 0;
    try {
        steps = read_checkpoint(save).steps;
    } catch (data_error const&) { // nothing that could be gone on with
        return false;
    }
    throw usage_error("--save " + save + ": the folder has a training of " + std::to_string(steps) +
                      (steps == 1 ? " step" : " steps") + ", which would be lost; go on with it by --resume " + save +
                      ", or name another folder");
}

int run(gpt_flags flags) {
    if (flags.text.empty())
        throw usage_error(
            "--text FILE is missing: name a text, or start with `sh examples/run.sh gpt`, which brings one");
    auto const text = read_text(flags.text);
    if (text.size() <= window)
        throw usage_error("--text " + flags.text + ": the file has " + std::to_string(text.size()) +
                          " bytes, and a window of " + std::to_string(window) +
                          " needs one more than that behind it: name a longer text");
    auto const samples = text_windows(text, window, drawn_each_epoch);
    std::uint64_t before = 0; // steps of the training that goes on
    if (!flags.resume.empty()) {
        auto const m = read_checkpoint(flags.resume);
        before = m.steps;
        take_kept(flags, m, text);
        if (flags.steps != 0 && before >= flags.steps)
            throw usage_error("--steps " + std::to_string(flags.steps) + ": the training in " + flags.resume +
                              " has made " + std::to_string(before) + " steps already; ask for more, all in all");
    }
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
                                   .strategy = strategy_of(flags.strategy),
                                   .deadline = std::chrono::duration<double>(flags.deadline)};
    where.trace = !flags.trace.empty();
    check_options<gpt_trainer>(training, where, flags.schedule);
    result_file trace("--trace", flags.trace);
    step_log log(flags.log, before);
    bool has_training = false; // whether the folder of --save has the training that this run goes on with, or saved
    if (!flags.save.empty()) {
        has_training = keep_other_training(flags.save, flags.resume);
        prepare_checkpoint(flags.save);
    }
    auto const unigram = unigram_entropy(text);

    auto const layout = gpt_trainer::layout_of(training, where);
    auto const plan = gpt_trainer::plan(flags.batch, layout);
    auto const peak = measured_peak_flops() * std::min(layout.devices(), host::processors());
    std::printf(
        "text              %zu bytes, %zu windows of %zu in an epoch, which leaves out %zu; a byte costs %.3f bits "
        "by the bytes' shares alone\n",
        text.size(), samples.size(), window, text.size() - samples.size() * window, unigram / std::log(2.0));
    std::printf("instruction set   %s; processors: %d; %.0f GFLOP/s at best\n", instruction_set, host::processors(),
                1e-9 * peak);
    std::printf("devices           %d", layout.replicas);
    if (layout.stages > 1)
        std::printf(" x %s; a device waits %.1f%% of a step", stages_text(layout).c_str(), 100 * plan.bubble());
    std::printf("\nparameters        %s; %s bytes on the fullest device; %s FLOPs per step\n",
                with_commas(plan.parameters).c_str(), with_commas(plan.memory().total()).c_str(),
                with_commas(plan.flops_per_step()).c_str());

    gpt_trainer t(training, where);
    if (!flags.resume.empty()) load_checkpoint(t, flags.resume);
    if (before != 0)
        std::printf("goes on           from step %llu, in %s\n", static_cast<unsigned long long>(before),
                    flags.resume.c_str());
    std::printf("\n");
    std::fflush(stdout);

    if (!flags.save.empty()) save_on_signals();
    bool all_saved = true;
    auto const notes = notes_of(flags, text);
    auto const save = [&] { // a training that cannot be saved goes on: it may be saved later
        try {
            save_checkpoint(t, flags.save, notes);
            has_training = true;
        } catch (data_error const& e) {
            all_saved = false;
            std::fprintf(stderr, "gpt: not saved after step %llu: %s\n", static_cast<unsigned long long>(t.steps()),
                         e.what());
        }
    };
    // A checkpoint that is there stays when the loss diverges: its weights are further from what went wrong.
    auto const end_of_diverged = [&](divergence_error const& e) -> std::string {
        if (flags.save.empty()) return {};
        auto const folder = "; --save " + flags.save + ": ";
        if (has_training) return folder + "the training that was saved there before stays";
        if (e.intact()) save();
        return folder + (has_training ? "saved as it was before this step" : "nothing was saved");
    };
    shuffled_batches batches(samples, flags.batch, flags.seed);
    progress_line line(stdout, 5);
    auto const begin = std::chrono::steady_clock::now();
    auto const seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    traced_into(&trace, t, [&] {
        double mean = 0; // of the last steps, mostly
        for (bool last = false; !last;) {
            double loss = 0;
            try {
                loss = t.step(batches.at(t.steps())).loss;
            } catch (divergence_error const& e) {
                throw std::runtime_error(e.what() + end_of_diverged(e));
            }
            auto const step = t.steps(), made = step - before;
            mean = made == 1 ? loss : 0.95 * mean + 0.05 * loss;
            auto const now = seconds();
            auto const speed = static_cast<double>(made * flags.batch * window) / now;
            last = signal_to_end != 0 || step == flags.steps || now >= 60 * flags.minutes;
            auto const rate = double(flags.learning_rate) * training.rate.value.factor(step - 1);
            char hash[48] = "";
            if (last)
                std::snprintf(hash, sizeof hash, R"(, "weights_hash": "%016llx")",
                              static_cast<unsigned long long>(weights_hash(t.gather_parameters())));
            log.write(step, loss, rate, speed, hash);
            if (last || made == 1 || line.is_due(now)) {
                char told[200];
                std::snprintf(
                    told, sizeof told,
                    "step %-6llu mean loss %.4f  %.3f bits per byte  rate %.2g  %.0f tokens/s  %.0f%% of the peak",
                    static_cast<unsigned long long>(step), mean, mean / std::log(2.0), rate, speed,
                    100 * static_cast<double>(plan.flops_per_step()) / static_cast<double>(flags.batch) / window *
                        speed / peak);
                auto const of_steps =
                    flags.steps != 0 ? static_cast<double>(made) / static_cast<double>(flags.steps - before) : 0;
                line.show(now, std::max(of_steps, now / (60 * flags.minutes)), told);
            }
            if (!flags.save.empty() && (last || (flags.every != 0 && step % flags.every == 0))) save();
        }
        double const gained = (unigram - mean) / std::log(2.0);
        std::printf("\n%s%.3f bits per byte %s than by the bytes' shares alone\n", line.on_terminal() ? "\n" : "",
                    std::abs(gained), gained < 0 ? "more" : "less");
    });
    if (int const signal = signal_to_end; signal != 0) {
        if (!all_saved || !log.whole()) return exit_code::failure;
        std::printf("ended by a signal; --resume %s goes on from step %llu\n", flags.save.c_str(),
                    static_cast<unsigned long long>(t.steps()));
        std::fflush(stdout);
        std::raise(signal); // by the default action: the handler has put it back
    }
    for (int const signal : {SIGINT, SIGTERM}) // there is nothing left to save
        if (std::signal(signal, SIG_DFL) == SIG_IGN) std::signal(signal, SIG_IGN);
    if (flags.characters != 0)
        std::printf(
            "\n%s\n",
            printable(written(t, text.substr(0, std::min(text.size(), window)), flags.characters, flags.seed)).c_str());
    return all_saved && log.whole() ? 0 : exit_code::failure;
}

int main(int argc, char** argv) {
    try {
        auto const flags = gpt_flags::parse(argc, argv);
        return flags ? run(*flags) : 0;
    } catch (std::exception const& e) {
        std::fprintf(stderr, "gpt: %s\n", e.what());
        return exit_code::of(e);
    }
}
