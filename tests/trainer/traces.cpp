// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Traces with the exchanges that rows make inside of tasks, traces after errors, and the files that examples write them
// into.

#include "../../examples/trace_file.hpp"

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/described.hpp>
#include <support/files.hpp>
#include <support/messages.hpp>
#include <support/networks.hpp>
#include <support/traces.hpp>
#include <trainer/planned_faults.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace trainer_traces_test {
using namespace trireme;
using namespace test_networks;
using namespace test_faults;
using test_support::count_of;
using test_support::has;
using test_traces::trace_is_program;

namespace {

/// A layer of a user's own that takes the mean over the samples of all devices from its input, and gives the gradient
/// on as it is, after numbers of all devices have been added there, too.
struct centred {
    static constexpr layer_description describe(shape in) { return test_described::sums_both_ways(in); }
    static void forward_gather(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        for (std::size_t i = 0; i < io_t::input::size; ++i) {
            if (io.place.granule.first == 0) io.place.kept[i] = 0;
            for (std::size_t lane = 0; lane < io.place.granule.count; ++lane)
                io.place.kept[i] += io.x[i * io_t::lanes + lane];
        }
    }
    static void forward_agree(auto const& io, int phase) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        for (std::size_t i = 0; i < io_t::input::size && phase == 1; ++i)
            io.place.kept[i] /= static_cast<typename io_t::value_type>(io.place.granule.batch);
    }
    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        for (std::size_t i = 0; i < io_t::input::size; ++i)
            for (std::size_t lane = 0; lane < io_t::lanes; ++lane)
                io.y[i * io_t::lanes + lane] = io.x[i * io_t::lanes + lane] - io.place.kept[i];
    }
    static void evaluate(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = io.x[i];
    }
    static void backward_gather(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        if (io.place.granule.first == 0) std::fill_n(io.place.kept + io_t::input::size, io_t::input::size, 0);
    }
    static void backward_agree(auto const&, int) {}
    static void backward_input(auto const& io) {
        for (std::size_t i = 0; i < io.dy.size(); ++i) io.dx[i] = io.dy[i];
    }
};
/// One of them is before all weights, so that it takes no part in the way back.
using own_sums = network<input<1, 28, 28>, centred, avg_pool2d<4>, flatten, linear<6>, centred, relu, linear<10>>;

template<class Network, class... Policies>
using replicated = trainer<Network, cross_entropy, sgd, on<mesh<host, dp<dynamic>>>, Policies...>;

template<class Trace>
std::size_t exchanges_of(Trace const& all, std::uint64_t step, int rank = -1) {
    return static_cast<std::size_t>(std::ranges::count_if(
        all, [&](timed_task const& t) { return t.exchange >= 0 && t.step == step && (rank < 0 || t.rank == rank); }));
}

/// A reader of JSON by the letter of RFC 8259, which keeps nothing.
class json_reader {
public:
    explicit json_reader(std::string_view text) : rest_(text) {}

    bool reads_all() { return value() && rest_.empty(); }

private:
    bool take(std::string_view word) {
        bool const found = rest_.starts_with(word);
        if (found) rest_.remove_prefix(word.size());
        return found;
    }
    std::size_t take_any_of(std::string_view letters) {
        auto const n = std::min(rest_.find_first_not_of(letters), rest_.size());
        rest_.remove_prefix(n);
        return n;
    }
    void space() { take_any_of(" \t\r\n"); }
    bool digits() { return take_any_of("0123456789") != 0; }

    bool value() {
        space();
        bool const well = rest_.starts_with('{')   ? list('{', '}', [this] { return string() && colon() && value(); })
                          : rest_.starts_with('[') ? list('[', ']', [this] { return value(); })
                          : rest_.starts_with('"') ? string()
                                                   : take("true") || take("false") || take("null") || number();
        space();
        return well;
    }
    template<class Element>
    bool list(char begin, char end, Element const& element) {
        take({&begin, 1});
        space();
        if (take({&end, 1})) return true;
        do {
            space();
            if (!element()) return false;
        } while (take(","));
        return take({&end, 1});
    }
    bool colon() {
        space();
        return take(":");
    }
    bool string() {
        if (!take("\"")) return false;
        while (!take("\"")) {
            if (rest_.empty() || static_cast<unsigned char>(rest_[0]) < 0x20) return false;
            if (!take("\\")) {
                rest_.remove_prefix(1);
            } else if (take("u")) {
                auto const hex = rest_.substr(0, 4);
                if (hex.size() < 4 || hex.find_first_not_of("0123456789abcdefABCDEF") != hex.npos) return false;
                rest_.remove_prefix(4);
            } else {
                if (rest_.empty() || std::string_view("\"\\/bfnrt").find(rest_[0]) == rest_.npos) return false;
                rest_.remove_prefix(1);
            }
        }
        return true;
    }
    bool number() {
        take("-");
        if (!take("0") && !digits()) return false;
        if (take(".") && !digits()) return false;
        if (take("e") || take("E")) return (take("+") || take("-"), digits());
        return true;
    }

    std::string_view rest_;
};
bool is_json(std::string_view text) { return json_reader(text).reads_all(); }

/// The trace has all exchanges of each step on each of several devices, and its file has all lines.
template<class Network>
void has_exchanges(std::size_t in_a_step) {
    for (int const devices : {1, 2, 3}) {
        CAPTURE(devices);
        replicated<Network> t({.batch = 24}, {.devices = devices, .trace = true});
        for (std::size_t const n : {24u, 7u, 24u}) t.step(made_up(n));
        t.evaluate(made_up(40));
        CHECK(trace_is_program(t, devices, 3) >= 1);
        auto const all = t.traced();
        for (std::uint64_t step = 0; step <= 3; ++step)
            for (int rank = 0; rank < devices; ++rank)
                CHECK(exchanges_of(all, step, rank) == (devices == 1 || step == 0 ? 0 : in_a_step));
        auto const json = trace_json(all);
        CHECK(count_of(json, R"("name": "exchange")") == (devices == 1 ? 0 : 3 * in_a_step * std::size_t(devices)));
        CHECK(count_of(json, R"("exchange": )") == count_of(json, R"("name": "exchange")"));
        CHECK(count_of(json, "{") == 1 + 2 * (all.size() + std::size_t(devices)));
        CHECK(is_json(json));
        for (int const k : {0, 2}) CHECK(has(json, R"("exchange": )" + std::to_string(k) + "}") == (devices > 1));
    }
}

/// A trainer whose trace is another.
struct altered {
    using network_type = every_sum;
    replicated<every_sum> const& trained;
    std::vector<timed_task> tasks;

    int rank() const { return 0; }
    training_plan plan() const { return trained.plan(); }
    step_program const& program(int rank) const { return trained.program(rank); }
    std::vector<timed_task> traced() const { return tasks; }
};

/// A trace as the examples write it, with this many tasks in it.
bool is_trace(std::string const& text, std::size_t tasks) {
    return text.starts_with("{\"displayTimeUnit\"") && text.ends_with("]}\n") &&
           count_of(text, R"("ph": "X")") == tasks && is_json(text);
}

} // namespace

TEST_SUITE("trainer/traces") {
    TEST_CASE("JSON is read by its letter") {
        for (auto const* const text : {"{}", " [ ] ", R"({"a": [1, -0.5e+3, "\u00fc\n", true, null], "b": {}})", "0"})
            CHECK_MESSAGE(is_json(text), text);
        for (auto const* const text : {"",
                                       "{",
                                       "\"",
                                       "[\"\\",
                                       "[1,]",
                                       "[,1]",
                                       "[1 2]",
                                       R"({"a": 1,})",
                                       R"({"a" 1})",
                                       R"({a: 1})",
                                       R"(["a)",
                                       R"(["\x"])",
                                       "[01]",
                                       "[1.]",
                                       "[.5]",
                                       "[nan]",
                                       "[+1]",
                                       "[1e]",
                                       "[1]]",
                                       "[1}",
                                       R"({"a": 1]})",
                                       R"(["\u00g0"])",
                                       "[\"\n\"]"})
            CHECK_FALSE_MESSAGE(is_json(text), text);
    }

    TEST_CASE("the trace of a run has the exchanges inside of tasks, as the expanded view of the program has them") {
        has_exchanges<every_sum>(every_sum::exchanges.count);
        has_exchanges<own_sums>(own_sums::exchanges.count - 1);
    }

    TEST_CASE("a trace without an exchange, or with one more, is not the program") {
        replicated<every_sum> trained({.batch = 24}, {.devices = 2, .trace = true});
        trained.step(made_up(24));
        auto const whole = trained.traced();
        altered t{trained, whole};
        CHECK_NOTHROW(trace_is_program(t, 2, 1));
        for (std::size_t k = 0; k < whole.size(); ++k) {
            CAPTURE(k);
            t.tasks = whole;
            t.tasks.erase(t.tasks.begin() + static_cast<std::ptrdiff_t>(k));
            CHECK_THROWS_AS(trace_is_program(t, 2, 1), std::runtime_error);
            if (whole[k].exchange < 0) continue;
            t.tasks = whole;
            t.tasks.insert(t.tasks.begin() + static_cast<std::ptrdiff_t>(k), whole[k]);
            CHECK_THROWS_AS(trace_is_program(t, 2, 1), std::runtime_error);
            t.tasks = whole;
            t.tasks[k].end = 1e9; // behind its task
            CHECK_THROWS_AS(trace_is_program(t, 2, 1), std::runtime_error);
        }
    }

    TEST_CASE("after an error the trace has the exchanges that were complete, and no task that the error ended") {
        watchdog const guard("traces after errors");
        plan_fault({fault_point::backward, 1, 2, 0});
        replicated<every_sum, with_faults<planned_faults>> t({.batch = 24}, {.devices = 2, .trace = true});
        t.step(made_up(24));
        CHECK_THROWS_AS(t.step(made_up(24)), device_error);
        plan_fault();
        auto const all = t.traced();
        std::size_t forward = 0;
        detail::for_exchanges(every_sum::rows, {0, every_sum::depth}, task_kind::forward, [&](int) { ++forward; });
        CHECK(exchanges_of(all, 1, 1) == every_sum::exchanges.count);
        CHECK(exchanges_of(all, 2, 1) == forward);
        CHECK(exchanges_of(all, 2, 0) <= forward);
        for (auto const& task : all) CHECK((task.step == 1 || task.exchange >= 0));
    }

    TEST_CASE("a file for a trace is not there, or as it was, until the trace is written") {
        files::folder const folder;
        auto const fresh = folder.path("fresh"), old = folder.path("old"), linked = folder.path("linked");
        std::ofstream(old) << "old words, longer than any trace of nothing whatever that is written here";
        auto const before = files::text_of(old);
        std::filesystem::create_symlink("target", linked);
        {
            result_file never("--trace", fresh), kept("--trace", old), link("--trace", linked);
            CHECK_FALSE(std::filesystem::exists(fresh));
            CHECK(files::text_of(old) == before);
            CHECK_FALSE(std::filesystem::exists(folder.path("target")));
            CHECK(std::filesystem::is_symlink(linked));
        } // an error while a trainer is being made
        CHECK_FALSE(std::filesystem::exists(fresh));
        CHECK(files::text_of(old) == before);
        result_file trace("--trace", fresh), other("--trace", old), link("--trace", linked);
        for (auto* file : {&trace, &other, &link}) file->write(trace_json({}));
        for (auto const& path : {fresh, old, folder.path("target")}) CHECK(is_trace(files::text_of(path), 0));
        CHECK(std::filesystem::is_symlink(linked));
        auto const empty = folder.path("empty");
        std::ofstream(empty).flush();
        { result_file const kept("--trace", empty); } // it is not this run's, and stays
        CHECK(std::filesystem::exists(empty));
        CHECK_THROWS_AS(result_file("--trace", folder.path("none") + "/trace"), usage_error);
    }

    TEST_CASE("a device that throws, or stalls, leaves a file with the tasks that were complete") {
        watchdog const guard("files of traces after errors");
        files::folder const folder;
        for (double const sleep : {0.0, 1.5})
            for (bool const is_new : {true, false}) {
                CAPTURE(sleep);
                CAPTURE(is_new);
                auto const path = folder.path("trace");
                std::filesystem::remove(path);
                if (!is_new) std::ofstream(path) << std::string(1 << 20, ' ');
                plan_fault({fault_point::backward, 1, 3, sleep});
                result_file file("--trace", path);
                replicated<small, with_faults<planned_faults>> t(
                    {.batch = 24},
                    {.devices = 2, .deadline = std::chrono::duration<double>(sleep == 0 ? 60 : 0.5), .trace = true});
                auto const in_a_step = t.program(0).list(0).size() + t.program(1).list(0).size();
                auto const train = [&] {
                    for (int k = 0; k < 4; ++k) t.step(made_up(24));
                };
                if (sleep == 0)
                    CHECK_THROWS_AS(traced_into(&file, t, train), device_error);
                else
                    CHECK_THROWS_AS(traced_into(&file, t, train), deadline_error);
                plan_fault();
                auto const text = files::text_of(path);
                CHECK(is_trace(text, t.traced().size()));
                CHECK_FALSE(has(text, R"("step": 4)"));
                if (sleep != 0) continue; // devices of a busy machine may be late before
                for (auto const* const step : {R"("step": 1,)", R"("step": 2,)"})
                    CHECK(count_of(text, step) == in_a_step);
                CHECK(count_of(text, R"("step": 3,)") <= 1); // of the other device, which may have trained
            }
        until_all_awake();
    }
}

} // namespace trainer_traces_test
