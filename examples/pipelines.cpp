// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// All pipeline schedules that come with Trireme, drawn and priced.
//
// A schedule is an order of computing; sends, receives, memory and time follow from it. This program builds the step of
// each, proves it, plays it with forward, backward_input and backward_weights taking one unit each in a whole device's
// part of the network, and prints what it costs.
//
//     sh examples/run.sh pipelines --stages 4 --micro-batches 8 --svg pictures
//
// Exit codes: 0; 2 for a wrong flag or a folder that cannot be written.

#include "pipelines_flags.hpp"
#include "trace_file.hpp"

#include <trireme/core/exit_code.hpp>
#include <trireme/schedule/pipeline/draw.hpp>
#include <trireme/schedules.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

using namespace trireme;

namespace {

/// `interleaved<2>` is the file interleaved_2.svg.
std::string file_name(std::string name) {
    std::replace(name.begin(), name.end(), '<', '_');
    name.erase(std::remove(name.begin(), name.end(), '>'), name.end());
    return name;
}

/// The files of a run. All are opened, and so refused, before anything is computed.
class gallery {
public:
    gallery(std::string const& folder, std::span<schedule_choice const> schedules) {
        if (folder.empty()) return;
        std::error_code failed;
        std::filesystem::create_directories(folder, failed);
        if (failed)
            throw usage_error("--svg " + folder + ": the folder cannot be made (" + failed.message() +
                              "); name one that is yours");
        for (auto const& s : schedules)
            files_.push_back(std::make_unique<result_file>("--svg", folder + "/" + file_name(s.name) + ".svg"));
        index_ = std::make_unique<result_file>("--svg", folder + "/index.md");
    }
    bool wanted() const { return index_ != nullptr; }
    void picture(std::size_t schedule, std::string const& text) { files_[schedule]->write(text); }
    void index(std::string const& text) { index_->write(text); }

private:
    std::vector<std::unique_ptr<result_file>> files_;
    std::unique_ptr<result_file> index_;
};

/// A number as short as it is exact to two digits behind the point.
std::string number(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", x);
    std::string s = text;
    while (s.back() == '0') s.pop_back();
    if (s.back() == '.') s.pop_back();
    return s;
}
std::string percent(double part) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f %%", 100 * std::max(0.0, part));
    return text;
}

void run(pipelines_flags const& flags) {
    schedule_choice const schedules[] = {gpipe{},
                                         one_f_one_b{},
                                         interleaved<2>{},
                                         interleaved<3>{},
                                         breadth_first<2>{},
                                         zero_bubble_h1{},
                                         zero_bubble_h2{},
                                         zero_bubble_auto<1, 1, 1, 0, 16>{},
                                         zero_bubble_v{},
                                         v_half{},
                                         v_min{},
                                         dual_pipe_v{}};
    gallery files(flags.svg, schedules);
    std::string table = "| schedule | stages a role | bubble | in a role's own time | peak | tasks | over messages |\n"
                        "| --- | --- | --- | --- | --- | --- | --- |\n";
    std::string shown;
    for (std::size_t i = 0; i < std::size(schedules); ++i) {
        auto const& s = schedules[i];
        step_shape const shape{flags.stages, flags.micro_batches};
        std::vector<step_task> room(step_capacity(s, shape));
        auto const program = build_step(s, shape, room);
        if (program.tail[0] == 0) { // such a schedule says in its comment what it needs
            table += "| `" + std::string(s.name) + "` | " + std::to_string(s.chunks) +
                     " | needs more micro-batches | | | | |\n";
            if (files.wanted())
                files.picture(i, step_svg(std::string(s.name) + " needs more micro-batches", {}, "units", 1));
            continue;
        }
        if (auto const v = verify(program); !v.ok())
            throw std::logic_error(std::string(s.name) + " " + describe(v.fault));
        double const part = 1.0 / s.chunks; // a stage is that much of one of one_f_one_b
        stage_times const times{part, part, part};
        int peak = 0;
        std::size_t tasks = 0;
        for (int r = 0; r < flags.stages; ++r) {
            peak = std::max<int>(peak, program.frames[r]);
            tasks += program.tail[r];
        }
        table += "| `" + std::string(s.name) + "` | " + std::to_string(s.chunks) + " | " +
                 percent(bubble_fraction(program, times)) + " | " +
                 percent(1 - 3 * flags.micro_batches / busiest_role_span(program, times)) + " | " +
                 number(peak * part) + " | " + std::to_string(tasks) + " | " +
                 (verify(program, by_messages).ok() ? "yes" : "no") + " |\n";
        if (!files.wanted()) continue;
        auto const all = played_tasks(program, times);
        drawn_tasks const parts[] = {{s.name, all}};
        files.picture(i, step_svg(std::string(s.name) + ": " + std::to_string(flags.stages) + " roles, " +
                                      std::to_string(flags.micro_batches) + " micro-batches",
                                  parts, "units", 1));
        shown += "\n![" + std::string(s.name) + "](" + file_name(s.name) + ".svg)\n";
    }
    std::printf("%s", table.c_str());
    if (files.wanted()) files.index("# Pipeline schedules\n\n" + table + shown);
}

} // namespace

int main(int argc, char** argv) {
    try {
        if (auto const flags = pipelines_flags::parse(argc, argv)) run(*flags);
        return 0;
    } catch (usage_error const& e) {
        std::fprintf(stderr, "pipelines: %s\n", e.what());
        return exit_code::usage;
    } catch (std::exception const& e) {
        std::fprintf(stderr, "pipelines: %s\n", e.what());
        return exit_code::failure;
    }
}
