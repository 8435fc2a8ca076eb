// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// All pipeline schedules that come with Trireme, drawn and priced.
//
// A schedule is an order of computing; sends, receives, memory and time follow from it. This program builds the step of
// each, proves it, plays it with forward, backward_input and backward_weights taking one unit each in a whole device's
// part of the network, and prints what it costs. Then it plans a training with it, and prices a step on two described
// machines, in which values and gradients take their time, too.
//
//     sh examples/run.sh pipelines --stages 4 --micro-batches 8 --svg pictures
//     sh examples/run.sh pipelines --csv mine.csv
//
// The second has a schedule of yours beside them, in a file as PyTorch keeps its own. Beside the pictures of schedules
// the folder gets one of a step that has run: measured.svg has what was predicted above what was measured.
//
// Exit codes: 0; 2 for a wrong flag, a folder that cannot be written, or a file that holds no schedule, or one that
// makes no training step; 3 for a failure while it runs.

#include "pipelines_flags.hpp"
#include "trace_file.hpp"

#include <trireme/schedule/pipeline/draw.hpp>
#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace trireme;

namespace {

/// `interleaved<2>` is the file interleaved_2.svg.
std::string file_name(std::string name) {
    std::replace(name.begin(), name.end(), '<', '_');
    name.erase(std::remove(name.begin(), name.end(), '>'), name.end());
    return name;
}

/// Files of a run in one folder. All are opened, and so refused, before anything is computed.
class folder_of_files {
public:
    folder_of_files(char const* flag, std::string folder) : flag_(flag), folder_(std::move(folder)) {
        if (!wanted()) return;
        std::error_code failed;
        std::filesystem::create_directories(folder_, failed);
        if (failed)
            throw usage_error(flag_ + ' ' + folder_ + ": the folder cannot be made (" + failed.message() +
                              "); name one that is yours");
    }
    bool wanted() const { return !folder_.empty(); }
    /// Refuses to write over a file that was read.
    void refuse_to_replace(std::string const& name, std::string const& read) const {
        std::error_code none;
        if (wanted() && !read.empty() && std::filesystem::equivalent(folder_ + "/" + name, read, none))
            throw usage_error(flag_ + ' ' + folder_ + ": " + read +
                              " is read, and would be written over; name another folder");
    }
    void open(std::string const& name) {
        if (wanted()) files_[name] = std::make_unique<result_file>(flag_.c_str(), folder_ + "/" + name);
    }
    void write(std::string const& name, std::string const& text) {
        if (wanted()) files_.at(name)->write(text);
    }

private:
    std::string flag_, folder_;
    std::map<std::string, std::unique_ptr<result_file>> files_;
};

/// A schedule with the numbers of this run: its step, in its room.
struct made_schedule {
    std::string name, file;
    std::vector<step_task> room;
    step_program step;
    schedule_choice choice;

    made_schedule(std::string called, std::string in_file, schedule_choice const& s, step_shape const& shape)
        : name(std::move(called)), file(std::move(in_file)), room(step_capacity(s, shape)),
          step(build_step(s, shape, room)), choice(s) {}
    made_schedule(made_schedule&&) = default;
};

/// Refuses the schedule of a file if it makes no training step, and draws what is wrong.
void judge(schedule_orders const& orders, std::string const& path, folder_of_files& pictures) {
    made_schedule const made(path, "", orders, orders.shape());
    auto const v = verify(made.step);
    if (v.ok()) return;
    pictures.open("refused.svg");
    pictures.write("refused.svg", refused_svg(std::filesystem::path(path).filename().string(), made.step, v));
    throw usage_error("--csv " + path + ": its step " + marked_lists(made.step, v) +
                      "make it a training step: docs/pipelines.md says what is proved" +
                      (pictures.wanted() ? ", and refused.svg in the folder of --svg shows where it goes wrong" : ""));
}

/// A number as short as it is exact to two digits behind the point.
std::string number(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", x);
    std::string s = text;
    while (s.back() == '0') s.pop_back();
    if (s.back() == '.') s.pop_back();
    return s;
}
std::string two_digits(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", x);
    return text;
}
std::string percent(double part) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f %%", 100 * std::max(0.0, part));
    return text;
}

// ---- a training, and two machines ----

using trained = network<input<2048>, repeat<24, linear<2048>, relu>, linear<10>>;
using staged = trainer<trained, cross_entropy, sgd, on<mesh<host, pp<dynamic>>>>;
constexpr std::size_t micro_batch = 64; // samples
constexpr double flops_per_second = 50e12;
/// The devices of one machine, and a machine for each device; their links carry 300 and 25 GB/s.
constexpr machine near{{{2e-6, 1 / 300e9, 1 / 1e12, 1e-6}}}, far{{{5e-6, 1 / 25e9, 1 / 1e12, 2e-6}}};

/// The cells of a step in stages of that network: bytes between the roles, and times on both machines. Empty if it has
/// not so many stages.
std::string priced(schedule_choice const& s, step_shape const& shape) {
    auto const micro_batches = static_cast<std::size_t>(shape.micro_batches);
    if (static_cast<std::size_t>(shape.roles * s.chunks) > segments_of<trained>.count || shape.roles == 1)
        return " | | |";
    auto const batch = micro_batch * micro_batches;
    auto const plan =
        staged::plan(batch, staged::layout_of({.batch = batch},
                                              {.stages = shape.roles, .micro_batches = micro_batches, .schedule = s}));
    auto const milliseconds = [&](machine const& m) {
        return two_digits(1e3 * seconds_of(plan, m, flops_per_second).seconds);
    };
    return ' ' + two_digits(1e-6 * static_cast<double>(plan.wire_along("pp").bytes)) + " | " + milliseconds(near) +
           " | " + milliseconds(far) + " |";
}

// ---- a training that runs ----

using ten_layers = network<input<1, 28, 28>, flatten, linear<256>, repeat<8, relu, linear<256>>, relu, linear<10>>;
using two_stages = trainer<ten_layers, cross_entropy, sgd, on<mesh<host, pp<2>>>, pipeline<one_f_one_b, 8>>;

double span_of(std::vector<timed_task> const& tasks) { return tasks.back().end - tasks.front().begin; }

/// The picture of one step on two threads of this machine, the quickest: as its program has it if a stage needs as long
/// for a FLOP as one device alone, and as it was.
std::string measured_step() {
    constexpr std::size_t samples = 256, steps = 20;
    std::vector<std::uint8_t> const pixels(samples * 28 * 28, 99), labels(samples, 7);
    labelled_images const images(pixels, labels, 28, 28, 10);
    trainer<ten_layers, cross_entropy, sgd> alone({.batch = samples});
    two_stages t({.batch = samples}, {.trace = true});
    double seconds = 1e9; // of a step of one device
    for (std::size_t k = 0; k < steps; ++k) {
        auto const begin = std::chrono::steady_clock::now();
        alone.step(images);
        seconds = std::min(seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        t.step(images);
    }
    std::vector<std::vector<timed_task>> measured(steps);
    for (auto const& task : t.traced()) measured[task.step - 1].push_back(task);
    for (auto& tasks : measured) std::ranges::sort(tasks, {}, &timed_task::begin);

    auto const of_flop = seconds / static_cast<double>(alone.plan().flops_per_step()) * (samples / 8.0);
    std::vector<timed_task> predicted;
    auto const& program = t.program(0);
    play_step(
        program, [&](task_kind kind, int stage) { return t.plan().times(stage, of_flop).of(kind); },
        [&](int role, std::size_t task, double begin, double end) {
            auto const& what = program.list(role)[task];
            if (what.computes()) predicted.push_back({role, 1, what.kind, role, what.micro_batch, begin, end});
        });
    drawn_tasks const parts[] = {{"predicted", predicted},
                                 {"measured", *std::ranges::min_element(measured, {}, span_of)}};
    return step_svg("a step of ten layers on this machine: 2 roles, 8 micro-batches, one_f_one_b", parts);
}

void run(pipelines_flags const& flags) {
    std::optional<schedule_orders> own;
    if (!flags.csv.empty()) own = read_schedule_csv(flags.csv);
    step_shape const shape = own ? own->shape() : step_shape{flags.stages, flags.micro_batches};

    folder_of_files pictures("--svg", flags.svg);
    if (own) judge(*own, flags.csv, pictures);
    folder_of_files texts("--write-csv", flags.write_csv);
    std::vector<made_schedule> all;
    if (own) all.emplace_back(std::filesystem::path(flags.csv).filename().string(), "own", *own, shape);
    schedule_choice const built_in[] = {
        gpipe{},          one_f_one_b{},    interleaved<2>{},     interleaved<3>{}, breadth_first<2>{},
        zero_bubble_h1{}, zero_bubble_h2{}, zero_bubble_auto<>{}, zero_bubble_v{},  v_half{},
        v_min{},          dual_pipe_v{}};
    bool const beside = shape.roles <= flags.most_stages && shape.micro_batches <= flags.most_micro_batches;
    for (auto const& s : built_in)
        if (beside) all.emplace_back(s.name, file_name(s.name), s, shape);
    for (auto const& s : all) {
        pictures.open(s.file + ".svg");
        texts.refuse_to_replace(s.file + ".csv", flags.csv);
        texts.open(s.file + ".csv");
    }
    pictures.open("measured.svg");
    pictures.open("index.md");

    std::string table =
        "| schedule | stages a role | bubble | in a role's own time | peak | tasks | in one queue | MB | "
        "near, ms | far, ms |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
    std::string shown;
    for (auto const& [name, file, room, program, choice] : all) {
        auto const begin = "| `" + name + "` | " + std::to_string(program.chunks) + " | ";
        if (program.tail[0] == 0) { // such a schedule says in its comment what it needs
            table += begin + "needs more micro-batches | | | | | | | |\n";
            pictures.write(file + ".svg", step_svg(name + " needs more micro-batches", {}, "units", 1));
            continue;
        }
        if (auto const v = verify(program); !v.ok()) throw std::logic_error(name + " " + marked_lists(program, v));
        double const part = 1.0 / program.chunks; // a stage is that much of one of one_f_one_b
        stage_times const times{part, part, part};
        int peak = 0;
        std::size_t tasks = 0;
        for (int r = 0; r < shape.roles; ++r) {
            peak = std::max<int>(peak, program.frames[r]);
            tasks += program.tail[r];
        }
        table += begin + percent(bubble_fraction(program, times)) + " | " +
                 percent(1 - 3 * shape.micro_batches / busiest_role_span(program, times)) + " | " +
                 number(peak * part) + " | " + std::to_string(tasks) + " | " +
                 (verify(program, by_messages).ok() ? "yes" : "no") + " |" + priced(choice, shape) + '\n';
        texts.write(file + ".csv", schedule_csv(program));
        if (!pictures.wanted()) continue;
        auto const played = played_tasks(program, times);
        drawn_tasks const parts[] = {{name.c_str(), played}};
        pictures.write(file + ".svg", step_svg(name + ": " + std::to_string(shape.roles) + " roles, " +
                                                   std::to_string(shape.micro_batches) + " micro-batches",
                                               parts, "units", 1));
        shown += "\n![" + name + "](" + file + ".svg)\n";
    }
    std::printf("%s", table.c_str());
    if (!pictures.wanted()) return;
    pictures.write("measured.svg", measured_step());
    pictures.write("index.md", "# Pipeline schedules\n\n" + table + shown +
                                   "\nA step that has run, predicted above measured; `step --svg FILE` draws one of "
                                   "your layout:\n\n![measured](measured.svg)\n");
}

} // namespace

int main(int argc, char** argv) {
    try {
        if (auto const flags = pipelines_flags::parse(argc, argv)) run(*flags);
        return 0;
    } catch (std::exception const& e) {
        std::fprintf(stderr, "pipelines: %s\n", e.what());
        return exit_code::of(e);
    }
}
