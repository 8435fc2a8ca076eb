// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What observers write: JSON lines, tables, event files, progress.

#include <trireme/logs.hpp>

#include <doctest/doctest.h>
#include <support/allocation_hook.hpp>
#include <support/files.hpp>
#include <support/messages.hpp>
#include <support/networks.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace trainer_logs_test {
using namespace trireme;
using namespace test_networks;

namespace {

constexpr auto nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
constexpr double awkward = 0.1 + 0.2, tiny = 5e-324, huge = -1.7976931348623157e308;

std::vector<std::string> split(std::string const& text, char at) {
    std::vector<std::string> parts;
    std::stringstream in(text);
    for (std::string part; std::getline(in, part, at);) parts.push_back(part);
    return parts;
}

epoch_report epoch(int number, double loss, bool tested = true) {
    epoch_report e;
    e.epoch = number;
    e.loss = loss;
    e.tested = tested;
    if (tested) e.test = {awkward, 0.75, 40};
    e.seconds = 2.5;
    e.samples_per_second = 1e6 / 3;
    e.devices = 2;
    e.sync_share = nan; // as on accelerators
    e.data_share = tiny;
    e.best = tested;
    return e;
}
progress_report step(std::size_t batch, double loss) {
    progress_report p;
    p.epoch = 1;
    p.epochs = 2;
    p.batch = batch;
    p.batches = 3;
    p.loss = loss;
    p.seconds = 0.5 * static_cast<double>(batch);
    p.samples = 10 * batch;
    p.samples_per_epoch = 30;
    return p;
}

/// One object of JSON whose values are numbers, true, false and null, and nothing else: the texts of its values by key.
std::map<std::string, std::string> object(std::string const& text) {
    std::map<std::string, std::string> all;
    std::size_t at = 0;
    auto const take = [&](std::string_view wanted) {
        REQUIRE(text.compare(at, wanted.size(), wanted) == 0);
        at += wanted.size();
    };
    take("{");
    for (;;) {
        take("\"");
        auto const end = text.find("\": ", at);
        REQUIRE(end != std::string::npos);
        auto const key = text.substr(at, end - at);
        at = end + 3;
        auto const stop = text.find_first_of(",}", at);
        REQUIRE(stop != std::string::npos);
        auto const value = text.substr(at, stop - at);
        if (value != "null" && value != "true" && value != "false") { // a number, as JSON has it
            char* rest = nullptr;
            std::strtod(value.c_str(), &rest);
            CHECK(*rest == '\0');
            CHECK(value.find_first_not_of("0123456789+-.e") == std::string::npos);
            CHECK((std::isdigit(static_cast<unsigned char>(value[0])) || value[0] == '-'));
        }
        CHECK(all.emplace(key, value).second);
        at = stop;
        if (text[at] == '}') break;
        take(", ");
    }
    take("}");
    CHECK(at == text.size());
    return all;
}
double number(std::string const& text) { return std::strtod(text.c_str(), nullptr); }

template<class Log>
void refused_at_construction(std::string const& path, char const* words) {
    files::expect_data_error([&] { Log const log(path); }, path, 0, words);
}

/// A terminal of so many columns that is written to instead of the user's.
class terminal {
public:
    explicit terminal(unsigned short columns) : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
        REQUIRE(master_ >= 0);
        REQUIRE(::grantpt(master_) == 0);
        REQUIRE(::unlockpt(master_) == 0);
        out = std::fopen(::ptsname(master_), "w");
        REQUIRE(out != nullptr);
        struct ::winsize size = {};
        size.ws_col = columns;
        REQUIRE(::ioctl(::fileno(out), TIOCSWINSZ, &size) == 0);
        ::fcntl(master_, F_SETFL, O_NONBLOCK);
    }
    terminal(terminal const&) = delete;
    terminal& operator=(terminal const&) = delete;
    ~terminal() {
        std::fclose(out);
        ::close(master_);
    }
    /// Everything shown since the last call.
    std::string shown() const {
        std::string all;
        char some[4096];
        for (::ssize_t n; (n = ::read(master_, some, sizeof some)) > 0;) all.append(some, static_cast<std::size_t>(n));
        return all;
    }

    std::FILE* out = nullptr;

private:
    int master_;
};

} // namespace

TEST_SUITE("trainer/logs") {
    TEST_CASE("JSON lines: every number comes back, and what is no number is null") {
        files::folder const folder;
        auto const path = folder.path("log");
        {
            json_lines_log log(path, {.steps = true});
            auto copy = log; // of one file
            log(step(1, awkward));
            copy(step(2, -inf));
            copy(epoch(1, huge));
            log(epoch(2, nan, false));
        }
        auto const lines = split(files::text_of(path), '\n');
        REQUIRE(lines.size() == 4);
        auto const first = object(lines[0]), second = object(lines[1]), third = object(lines[2]),
                   fourth = object(lines[3]);
        CHECK(first.size() == 6);
        CHECK(first.at("epoch") == "1");
        CHECK(first.at("batch") == "1");
        CHECK(first.at("batches") == "3");
        CHECK(number(first.at("loss")) == awkward);
        CHECK(first.at("samples") == "10");
        CHECK(number(first.at("seconds")) == 0.5);
        CHECK(second.at("loss") == "null");
        CHECK(third.size() == 10);
        CHECK(third.count("batch") == 0);
        CHECK(number(third.at("loss")) == huge);
        CHECK(number(third.at("test_loss")) == awkward);
        CHECK(third.at("test_accuracy") == "0.75");
        CHECK(third.at("best") == "true");
        CHECK(third.at("seconds") == "2.5");
        CHECK(number(third.at("samples_per_second")) == 1e6 / 3);
        CHECK(third.at("devices") == "2");
        CHECK(third.at("sync_share") == "null");
        CHECK(number(third.at("data_share")) == tiny);
        CHECK(fourth.at("loss") == "null");
        CHECK(fourth.at("test_loss") == "null");
        CHECK(fourth.at("test_accuracy") == "null");
        CHECK(fourth.at("best") == "false");
    }

    TEST_CASE("a table has a line of names, and a number in each cell of every row") {
        files::folder const folder;
        auto const of_epochs = folder.path("epochs"), of_steps = folder.path("steps");
        {
            csv_log epochs(of_epochs), steps(of_steps, {.steps = true});
            for (auto* log : {&epochs, &steps}) {
                (*log)(step(1, awkward));
                (*log)(step(2, inf));
                (*log)(epoch(1, huge));
                (*log)(epoch(2, -inf, false));
            }
        }
        auto const rows = split(files::text_of(of_epochs), '\n');
        REQUIRE(rows.size() == 3);
        CHECK(rows[0] ==
              "epoch,loss,test_loss,test_accuracy,best,seconds,samples_per_second,devices,sync_share,data_share");
        auto const one = split(rows[1], ','), two = split(rows[2], ',');
        REQUIRE(one.size() == 10);
        REQUIRE(two.size() == 10);
        double const wanted[] = {1, huge, awkward, 0.75, 1, 2.5, 1e6 / 3, 2, nan, tiny};
        for (std::size_t i = 0; i < 10; ++i) {
            CAPTURE(i);
            if (std::isnan(wanted[i]))
                CHECK(one[i] == "nan");
            else
                CHECK(number(one[i]) == wanted[i]);
        }
        CHECK(two[1] == "-inf");
        CHECK(two[2] == "nan");
        CHECK(two[3] == "nan");
        CHECK(two[4] == "0");
        CHECK(files::text_of(of_steps) == "epoch,batch,batches,loss,samples,seconds\n"
                                          "1,1,3,0.30000000000000004,10,0.5\n1,2,3,inf,20,1\n");
    }

    TEST_CASE("a log replaces the file when it writes, not when it is made; or it goes on in it") {
        files::folder const folder;
        auto const path = folder.write("log", files::bytes(500, 'x')); // more than what replaces it
        std::string const before(500, 'x');
        {
            csv_log log(path);
            CHECK(files::text_of(path) == before);
            log(step(1, 1)); // nothing to write
            CHECK(files::text_of(path) == before);
        }
        csv_log(path, {.steps = true})(step(1, 1));
        auto const once = files::text_of(path);
        CHECK(once == "epoch,batch,batches,loss,samples,seconds\n1,1,3,1,10,0.5\n");
        csv_log(path, {.steps = true, .append = true})(step(2, 2));
        CHECK(files::text_of(path) == once + "1,2,3,2,20,1\n");
        csv_log(folder.path("new"), {.steps = true, .append = true})(step(1, 1));
        CHECK(files::text_of(folder.path("new")) == once);
        json_lines_log(path, {.append = true})(epoch(1, 1));
        CHECK(files::text_of(path).find(once) == 0);
    }

    TEST_CASE("a file that another log writes is refused at the first record, and keeps its own") {
        files::folder const folder;
        auto const path = folder.path("log");
        std::string const names = "epoch,batch,batches,loss,samples,seconds\n";
        {
            csv_log epochs(path), steps(path, {.steps = true});
            json_lines_log lines(path, {.steps = true, .append = true});
            steps(step(1, 1));
            files::expect_data_error([&] { epochs(epoch(1, 1)); }, path, 0, "another log writes this file");
            files::expect_data_error([&] { lines(step(1, 1)); }, path, 0, "pass a path of its own");
            auto copy = steps; // of the log that writes
            copy(step(2, 2));
        }
        CHECK(files::text_of(path) == names + "1,1,3,1,10,0.5\n1,2,3,2,20,1\n");
        csv_log first(path, {.steps = true, .append = true}), second(path, {.steps = true, .append = true});
        first(step(1, 3)); // whole records of both, in turn
        second(step(1, 4));
        first(step(1, 5));
        CHECK(files::text_of(path) ==
              names + "1,1,3,1,10,0.5\n1,2,3,2,20,1\n1,1,3,3,10,0.5\n1,1,3,4,10,0.5\n1,1,3,5,10,0.5\n");
        files::expect_data_error([&] { csv_log(path, {.steps = true})(step(1, 1)); }, path, 0, "another log");
    }

    TEST_CASE("a log whose process was forked meanwhile gives its file to the next one") {
        files::folder const folder;
        auto const path = folder.path("log");
        int held[2];
        REQUIRE(::pipe(held) == 0);
        ::pid_t child = 0;
        {
            json_lines_log log(path);
            log(epoch(1, 1));
            child = ::fork();
            if (child == 0) { // ends its copy of the log
                {
                    auto const copy = std::move(log);
                }
                ::_exit(0);
            }
            REQUIRE(::waitpid(child, nullptr, 0) == child);
            files::expect_data_error([&] { json_lines_log{path}(epoch(9, 9)); }, path, 0, "another log writes");
            log(epoch(2, 2));
            CHECK(split(files::text_of(path), '\n').size() == 2);
            child = ::fork();
            if (child == 0) { // has the file open until the test is over
                char end;
                ::close(held[1]);
                ::_exit(::read(held[0], &end, 1) == 0 ? 0 : 1);
            }
        }
        json_lines_log next(path);
        CHECK_NOTHROW(next(epoch(2, 2)));
        ::close(held[0]), ::close(held[1]);
        REQUIRE(child > 0);
        CHECK(::waitpid(child, nullptr, 0) == child);
    }

    TEST_CASE("logs that begin to append to an empty file at once write one line of names") {
        files::folder const folder;
        constexpr int logs = 3, rounds = 300;
        std::vector<std::string> paths;
        for (int i = 0; i < rounds; ++i) paths.push_back(folder.path("log" + std::to_string(i)));
        std::atomic<int> ready = 0;
        std::vector<std::string> said(logs);
        auto const append = [&](int thread) {
            auto const fault = test_support::fault_of([&] {
                for (int i = 0; i < rounds; ++i) {
                    csv_log log(paths[static_cast<std::size_t>(i)], {.steps = true, .append = true});
                    ++ready;
                    while (ready < logs * (i + 1)) std::this_thread::yield();
                    log(step(1, 1));
                }
            });
            said[static_cast<std::size_t>(thread)] = fault.what;
        };
        std::vector<std::thread> threads;
        for (int i = 0; i < logs; ++i) threads.emplace_back(append, i);
        for (auto& thread : threads) thread.join();
        for (auto const& text : said) CHECK(text == "");
        std::string wanted = "epoch,batch,batches,loss,samples,seconds\n";
        for (int i = 0; i < logs; ++i) wanted += "1,1,3,1,10,0.5\n";
        CHECK(
            std::all_of(paths.begin(), paths.end(), [&](auto const& path) { return files::text_of(path) == wanted; }));
    }

    TEST_CASE("a log goes on behind whole lines, and a table behind rows of its own columns") {
        files::folder const folder;
        auto const path = folder.path("log");
        csv_log epochs(path, {.append = true}), steps(path, {.steps = true, .append = true}); // there is nothing yet
        epochs(epoch(1, 1));
        auto const once = files::text_of(path);
        for (int again = 0; again < 2; ++again)
            files::expect_data_error([&] { steps(step(1, 1)); }, path, 0, "does not begin with the line epoch,batch,");
        CHECK(files::text_of(path) == once);
        files::expect_data_error([&] { csv_log(path, {.steps = true, .append = true}); }, path, 0, "pass another path");
        csv_log(path, {.append = true})(epoch(2, 2));
        CHECK(files::text_of(path).find(once + "2,2,") == 0);
        auto const cut = folder.write("cut", {'{', '}', '\n', '{', '"'});
        for (auto const& make : {+[](std::string const& at) { json_lines_log(at, {.append = true}); },
                                 +[](std::string const& at) { csv_log(at, {.append = true}); }})
            files::expect_data_error([&] { make(cut); }, cut, 5, "ends in the midst of a line");
        json_lines_log{cut}(epoch(1, 1)); // replaces it
        CHECK(split(files::text_of(cut), '\n').size() == 1);
    }

    TEST_CASE("what cannot be written is refused before the training, with the remedy") {
        files::folder const folder;
        auto const nowhere = folder.path("no/such/folder/log");
        refused_at_construction<json_lines_log>(nowhere, "check that the folder exists");
        refused_at_construction<csv_log>(nowhere, "No such file or directory");
        refused_at_construction<csv_log>(folder.path(), "Is a directory");
        refused_at_construction<json_lines_log>("/dev/null", "pass another path");
        auto const file = folder.write("file", {1, 2, 3});
        refused_at_construction<tensorboard_log>(file, "Not a directory");
        refused_at_construction<tensorboard_log>(file + "/below", "Not a directory");
        refused_at_construction<tensorboard_log>("/proc/events", "name a folder that may be written");
        CHECK(test_support::says(test_support::refusal([] { csv_log(std::string("a\0b", 3)); }), {"zero byte"}));
        if (::access("/dev/full", W_OK) == 0) {
            auto const link = folder.path("link");
            std::filesystem::create_symlink("/dev/full", link);
            refused_at_construction<csv_log>(link, "a pipe or device is there");
        }
    }

    TEST_CASE("on a full disk a log says so, and holds whole records") {
        files::folder const folder;
        auto const text = "1,2,3,0.5,20,1\n";
        for (bool const append : {false, true})
            for (::rlim_t const room : {60u, 71u, 72u, 86u, 87u}) { // of a line of names with 41 bytes, and rows of 15
                CAPTURE(append);
                CAPTURE(room);
                auto const path = folder.write("log", {});
                csv_log log(path, {.steps = true, .append = append});
                std::size_t rows = 0;
                {
                    files::file_limit const little(room);
                    try {
                        for (; rows < 10; ++rows) log(step(2, 0.5));
                    } catch (data_error const& e) {
                        CHECK(e.path() == path);
                        CHECK(e.offset() == 41 + 15 * rows);
                        CHECK(test_support::says(e.what(), {"writing the log fails (File too large)", "has room"}));
                    }
                }
                CHECK(rows == (room - 41) / 15);
                CHECK(files::text_of(path).size() == 41 + 15 * rows);
                log(step(2, 0.5)); // there is room again
                auto const lines = split(files::text_of(path), '\n');
                REQUIRE(lines.size() == rows + 2);
                for (std::size_t i = 1; i < lines.size(); ++i) CHECK(lines[i] + "\n" == text);
            }
        auto const shared = folder.path("shared");
        csv_log first(shared, {.steps = true, .append = true}), second(shared, {.steps = true, .append = true});
        first(step(2, 0.5)), second(step(2, 0.5));
        {
            files::file_limit const little(41 + 2 * 15 + 4);
            files::expect_data_error([&] { first(step(2, 0.5)); }, shared, 41 + 2 * 15, "has room");
        }
        second(step(2, 0.5));
        CHECK(split(files::text_of(shared), '\n') ==
              std::vector<std::string>{"epoch,batch,batches,loss,samples,seconds", "1,2,3,0.5,20,1", "1,2,3,0.5,20,1",
                                       "1,2,3,0.5,20,1"});
        files::folder const other;
        tensorboard_log board(other.path(), {.steps = true});
        board(step(1, 1));
        files::file_limit const none(10);
        CHECK_THROWS_AS(board(step(1, 1)), data_error);
    }

    TEST_CASE("checksums, messages and records are those of TensorBoard, byte for byte") {
        namespace tb = detail::tensorboard;
        static_assert(tb::crc32c("") == 0 && tb::crc32c("123456789") == 0xE3069283u); // RFC 3720's
        static_assert(tb::crc32c({"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32}) ==
                      0x8A9136AAu);
        auto const hex = [](std::string_view bytes) {
            std::string text;
            char two[3];
            for (char const c : bytes) {
                std::snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(c));
                text += two;
            }
            return text;
        };
        // written by TensorBoard 2.21's RecordWriter and protobuf
        CHECK(hex(tb::record(tb::first_event(1.5).view()).view()) ==
              "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c");
        tb::summary s;
        s.add("loss/train", 0.5);
        s.add("accuracy/test", 0.25);
        CHECK(
            hex(tb::record(tb::scalars_event(2.25, 300, s).view()).view()) ==
            "3700000000000000e7e8ca5909000000000000024010ac022a290a110a0a6c6f73732f747261696e150000003f0a140a0d6163637"
            "5726163792f74657374150000803e55496e97");
    }

    TEST_CASE("an event file appears with the first event, in a folder of its own; steps and epochs are counted on") {
        files::folder const folder;
        auto const path = folder.path("runs/one/");
        auto const found = [&] {
            std::vector<std::string> names;
            for (auto const& entry : std::filesystem::directory_iterator(path)) names.push_back(entry.path().string());
            return names;
        };
        tensorboard_log log(path, {.steps = true});
        tensorboard_log const silent(path); // as on ranks that nobody calls
        CHECK(found().empty());
        for (int fit = 0; fit < 2; ++fit) {
            log(step(1, 1));
            log(step(2, 2));
            log(epoch(1, 3, fit == 0));
        }
        REQUIRE(found().size() == 1);
        auto const name = found()[0];
        CHECK(name.find("/events.out.tfevents.") != std::string::npos);
        auto const all = files::text_of(name);
        // each record in turn; behind the time, field 2 is the step
        std::vector<int> steps;
        std::string tags;
        for (std::size_t at = 0; at < all.size();) {
            auto const length = static_cast<std::size_t>(static_cast<unsigned char>(all[at])) +
                                256 * static_cast<std::size_t>(static_cast<unsigned char>(all[at + 1]));
            auto const message = all.substr(at + 12, length);
            if (message[9] == 0x10) steps.push_back(message[10]);
            for (auto const* tag : {"loss/step", "loss/train", "loss/test", "accuracy/test", "samples_per_second"})
                if (message.find(tag) != std::string::npos) tags += std::string(tag) + ' ';
            at += length + 16;
        }
        CHECK(steps == std::vector{1, 2, 1, 3, 4, 2});
        CHECK(tags == "loss/step loss/step loss/train loss/test accuracy/test samples_per_second "
                      "loss/step loss/step loss/train samples_per_second ");
    }

    TEST_CASE("values have no accuracy: null, nan, and no scalar") {
        files::folder const folder;
        json_lines_log json(folder.path("json"));
        csv_log csv(folder.path("csv"));
        tensorboard_log board(folder.path("board"));
        auto report = epoch(1, 3, true);
        report.test.accuracy = std::numeric_limits<double>::quiet_NaN();
        report.of_values = true;
        json(report), csv(report), board(report);
        CHECK(object(split(files::text_of(folder.path("json")), '\n')[0]).at("test_accuracy") == "null");
        CHECK(split(split(files::text_of(folder.path("csv")), '\n')[1], ',')[3] == "nan");
        for (auto const& entry : std::filesystem::directory_iterator(folder.path("board"))) {
            auto const all = files::text_of(entry.path().string());
            CHECK(all.find("loss/test") != std::string::npos);
            CHECK(all.find("accuracy") == std::string::npos);
        }
        CHECK(to_string(report).find("accuracy") == std::string::npos);
    }

    TEST_CASE("logs of a training hold its losses; nothing is allocated for a step") {
        files::folder const folder;
        auto const images = made_up(100);
        any_layout<softmax_regression> t({.batch = 32, .seed = 3}, {.devices = 2});
        json_lines_log json(folder.path("json"), {.steps = true});
        csv_log const csv(folder.path("csv"));
        tensorboard_log board(folder.path("board"), {.steps = true});
        board(step(1, 1));
        json(step(1, 1));
        std::vector<double> losses;
        std::vector<std::size_t> allocations;
        losses.reserve(100), allocations.reserve(100);
        auto const report =
            t.train({images, images}, {.epochs = 2}, observers(json, csv, board, [&](progress_report const& p) {
                        losses.push_back(p.loss);
                        allocations.push_back(allocation_hook::allocations.load());
                    }));
        REQUIRE(allocations.size() == 8);
        CHECK(allocations[3] == allocations[0]);
        CHECK(allocations[7] == allocations[4]);
        auto const lines = split(files::text_of(folder.path("json")), '\n');
        REQUIRE(lines.size() == 1 + 2 * 5);
        for (std::size_t i = 0; i < 8; ++i) CHECK(number(object(lines[1 + i + i / 4]).at("loss")) == losses[i]);
        CHECK(number(object(lines[10]).at("test_loss")) == report.test.loss);
        auto const rows = split(files::text_of(folder.path("csv")), '\n');
        REQUIRE(rows.size() == 3);
        CHECK(number(split(rows[2], ',')[1]) == report.loss);
        CHECK(number(split(rows[2], ',')[3]) == report.test.accuracy);
        CHECK(to_string(t.train({images, images}, {.epochs = 0})) == "no epoch was trained");
    }
}

TEST_SUITE("trainer/progress_bar") {
    TEST_CASE("where there is no terminal, a line for each epoch, and in a long one now and then") {
        files::folder const folder;
        auto const path = folder.path("out");
        auto* const out = std::fopen(path.c_str(), "w");
        REQUIRE(out != nullptr);
        progress_bar bar({.out = out, .every = 1});
        for (std::size_t batch : {1u, 2u, 3u}) bar(step(batch, 0.5)); // 0.5, 1, 1.5 seconds
        bar(epoch(1, 0.25));
        for (std::size_t batch : {1u, 2u}) bar(step(batch, 0.5)); // counted from the epoch's beginning
        progress_bar quiet({.out = out, .epochs = false});
        quiet(step(3, 0.5));
        quiet(epoch(2, 0.25));
        std::fclose(out);
        auto const lines = split(files::text_of(path), '\n');
        std::string const middle = "epoch 1 of 2  step 2 of 3  loss 0.5000  20 samples/s  2 s left";
        REQUIRE(lines.size() == 3);
        CHECK(lines[0] == middle);
        CHECK(lines[1] == to_string(epoch(1, 0.25)));
        CHECK(lines[2] == middle);
    }

    TEST_CASE("on a terminal a bar that fits its line, redrawn now and then, and gone when the epoch is over") {
        terminal const wide(100), narrow(30);
        auto const text = [](std::size_t batch) {
            return "epoch 1 of 2  step " + std::to_string(batch) + " of 3  loss 0.5000  20 samples/s  ";
        };
        progress_bar bar({.out = wide.out, .redraw = 0.75});
        bar(step(1, 0.5)); // 62 columns of text and 4 around the bar leave 33 of 99
        CHECK(wide.shown() == "\r[" + std::string(11, '=') + std::string(22, ' ') + "]  " + text(1) + "3 s left\033[K");
        bar(step(2, 0.5)); // half a second later
        CHECK(wide.shown().empty());
        bar(step(3, 0.5)); // the last of the epoch
        CHECK(wide.shown() == "\r[" + std::string(33, '=') + "]  " + text(3) + "2 s left\033[K");
        bar(epoch(1, 0.25));
        CHECK(wide.shown() == "\r\033[K" + to_string(epoch(1, 0.25)) + "\r\n");

        progress_bar small({.out = narrow.out, .epochs = false});
        small(step(2, 0.5));
        CHECK(narrow.shown() == "\r" + text(2).substr(0, 29) + "\033[K");
        small(epoch(1, 0.25));
        CHECK(narrow.shown() == "\r\033[K");
    }
}

} // namespace trainer_logs_test
