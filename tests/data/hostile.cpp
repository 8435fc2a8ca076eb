// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files that are wrong on purpose: tables and arrays that are written by their formats' rules but for one or two of
// them. csv.cpp and npy.cpp damage bytes at random; here what is read must be what was written, and what is refused
// must be refused in words that help.

#include "files.hpp"
#include "npy_files.hpp"

#include <trireme/data/csv.hpp>
#include <trireme/data/npy.hpp>

#include <doctest/doctest.h>
#include <support/left_out.hpp>
#include <support/sanitizers.hpp>
#include <support/seed.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace data_hostile_test {
namespace {

using namespace trireme;
using test_support::left_out;

/// The byte in front of a message's sentence, and that sentence, which names a rule and, behind a colon, semicolon or
/// comma, tells what to do.
void check_message(data_error const& e, std::string const& path) {
    std::string const what = e.what();
    CAPTURE(what);
    CHECK(e.path() == path);
    auto const prefix = path + ", byte " + std::to_string(e.offset()) + ": ";
    REQUIRE(what.starts_with(prefix));
    CHECK(e.offset() <= std::filesystem::file_size(path));
    auto const sentence = what.substr(prefix.size());
    CHECK(sentence.size() < 4000);
    for (char const c : sentence) CHECK((static_cast<unsigned char>(c) >= 0x20 && c != 0x7F));
    bool helps = false;
    for (auto const* remedy : {"save", "fetch", "write", "give", "pass", "put", "end lines", "fill", "correct", "close",
                               "scale", "split", "use read_npy"})
        for (auto const* mark : {": ", "; ", ", "})
            helps = helps || sentence.find(mark + std::string(remedy)) != std::string::npos;
    CHECK(helps);
}

struct dice {
    std::mt19937 random;

    std::size_t below(std::size_t n) { return n == 0 ? 0 : std::size_t{random()} % n; }
    bool one_in(std::size_t n) { return below(n) == 0; }
    template<class T, std::size_t N>
    T const& of(std::array<T, N> const& all) {
        return all[below(N)];
    }
};

// ---- tables ----

/// A table by the rules: names, a column of classes, columns of numbers. Then some of its rules are broken.
struct table {
    std::vector<std::vector<std::string>> lines; // of fields as they are written, quotes included
    std::string separator, end, begin;

    std::string text() const {
        auto all = begin;
        for (auto const& line : lines)
            for (std::size_t c = 0; c < line.size(); ++c) all += line[c] + (c + 1 < line.size() ? separator : end);
        return all;
    }
};

table by_the_rules(dice& d, char separator) {
    table made{{}, std::string(1, separator), d.one_in(2) ? "\n" : "\r\n", d.one_in(3) ? "\xEF\xBB\xBF" : ""};
    std::size_t const columns = 1 + d.below(4), rows = 1 + d.below(8);
    made.lines.push_back({"class"});
    for (std::size_t c = 1; c <= columns; ++c)
        made.lines[0].push_back(d.one_in(3) ? "\"x " + std::to_string(c) + "\"" : "x" + std::to_string(c));
    static constexpr std::array<char const*, 5> classes{"a", "\"b \"\"c\"\"\"", " d", "\"e\nf\"", "7"};
    for (std::size_t r = 0; r < rows; ++r) {
        made.lines.push_back({d.of(classes)});
        for (std::size_t c = 0; c < columns; ++c) made.lines.back().push_back(std::to_string(int(d.below(200)) - 100));
    }
    return made;
}

/// The ways to break a table, by their names, so that a failure says which one it was. Those of the whole text come as
/// text -> text.
std::string broken(dice& d, table t, std::string& how) {
    for (auto& each : t.lines)
        if (each.empty()) each.push_back({});
    auto& line = t.lines[d.below(t.lines.size())];
    auto& field = line[d.below(line.size())];
    static constexpr std::array<char const*, 16> numbers{
        "1e999", "-1e999", "1e-999", "inf", "-nan", "nan(7)", "0x1p3", "1,5",
        "1.2.3", "--1",    "+",      "1e",  "NA",   "",       "1 2",   "99999999999999999999999999999999"};
    auto const whole = [&](char const* name, auto const& change) {
        how += name;
        auto text = t.text();
        change(text);
        return text;
    };
    using namespace std::string_literals;
    switch (d.below(24)) {
    case 0:
        how += "number ";
        field = d.of(numbers);
        break;
    case 1:
        how += "quote that never ends ";
        field = "\"" + field;
        break;
    case 2:
        how += "quote inside ";
        field += "\"x";
        break;
    case 3:
        how += "zero byte ";
        field += "\0"s;
        break;
    case 4:
        how += "zero byte in quotes ";
        field = "\"\0\""s;
        break;
    case 5:
        how += "field less ";
        line.pop_back();
        break;
    case 6:
        how += "field more ";
        line.push_back("1");
        break;
    case 7:
        how += "many fields ";
        line.insert(line.end(), 20'000, "1");
        break;
    case 8:
        how += "long field ";
        field = std::string(50'000, '7');
        break;
    case 9:
        how += "long number ";
        field = "0." + std::string(50'000, '3') + "e-5";
        break;
    case 10:
        how += "two names ";
        t.lines[0].back() = t.lines[0].front();
        break;
    case 11:
        how += "control characters ";
        field = "\x1B[31m\x07";
        break;
    case 12:
        how += "lone carriage return ";
        field = "1\r2";
        break;
    case 13:
        how += "carriage returns ";
        t.end = "\r";
        break;
    case 14:
        how += "no UTF-8 ";
        field = "\xFF\xC3\xC0\x80";
        break;
    case 15:
        how += "mark inside ";
        field = "\xEF\xBB\xBF" + field;
        break;
    case 16:
        how += "half a mark ";
        t.begin = "\xEF\xBB";
        break;
    case 17:
        how += "another separator ";
        t.separator = t.separator == ";" ? "|" : ";";
        break;
    case 18:
        how += "names alone ";
        t.lines.resize(1);
        break;
    case 19:
        how += "blanks ";
        t.begin += " \t\n\r\n  ";
        t.lines[0][0] = " \t" + t.lines[0][0] + "  ";
        break;
    case 20:
        return whole("cut off ", [&](std::string& text) { text.resize(d.below(text.size())); });
    case 21:
        return whole("twice ", [](std::string& text) { text += text; });
    case 22:
        return whole("UTF-16 ", [](std::string& text) {
            std::string wide = "\xFF\xFE";
            for (char const c : text) wide += {c, '\0'};
            text = wide;
        });
    default:
        return whole("nothing there ", [&](std::string& text) { text.assign(d.below(3), "\n \r"[d.below(3)]); });
    }
    return d.one_in(3) ? broken(d, std::move(t), how) : t.text();
}

/// Asks a table for everything. True if something is refused.
bool asked(std::string const& path, csv_options const& options) {
    bool refused = false;
    auto const ask = [&](auto const& f) {
        try {
            f();
        } catch (data_error const& e) {
            check_message(e, path);
            auto const what = std::string(e.what());
            bool const whole_file = what.find("the file is empty") != std::string::npos ||
                                    what.find("the file has a line of names") != std::string::npos;
            CHECK((whole_file || what.find(": line ") != std::string::npos));
            refused = true;
        }
    };
    std::optional<csv_table> read;
    ask([&] { read.emplace(read_csv(path, options)); });
    if (!read) return true;
    CHECK(read->rows() * read->columns() <= std::filesystem::file_size(path) + 1);
    auto const names = read->names();
    for (auto const& name : {names.front(), names.back()})
        ask([&] {
            auto const all = read->numbers(name);
            CHECK(all.size() == read->rows());
            for (auto const x : all) CHECK(std::isfinite(x));
        });
    if (names.size() == 1 || names[0].empty()) return refused; // a column of classes needs a name
    if (std::ranges::find(names, "") != names.end()) {         // inputs that nobody names need names, too
        ask([&] {
            files::expect_usage_error([&] { (void)read->samples({.classes = names[0]}); },
                                      " of " + path + " has no name");
        });
        return true;
    }
    ask([&] {
        auto const s = read->samples({.classes = names[0]});
        CHECK(s.size() == read->rows());
        CHECK(s.class_names().size() == s.classes());
        for (std::size_t i = 0; i < s.size(); ++i) {
            std::int32_t label = -1;
            std::memcpy(&label, s.targets().of(i), sizeof label);
            CHECK((label >= 0 && static_cast<std::size_t>(label) < s.classes()));
        }
    });
    ask([&] { (void)read->samples({.classes = names[0], .class_names = {"a", "d"}}); });
    ask([&] { (void)read->samples({.targets = {names.back()}}); });
    return refused;
}

// ---- arrays ----

/// A file of an array has this content; rules that are written here once more tell whether it is right.
struct array_file {
    files::bytes content;
    bool right = true;
    std::string how;
};

struct type {
    char const* name;
    std::size_t bytes; // 0: not read
};

array_file array_of(dice& d) {
    static constexpr std::array<type, 12> good{{{"|u1", 1},
                                                {"|i1", 1},
                                                {"|b1", 1},
                                                {"<u2", 2},
                                                {"<u4", 4},
                                                {"<u8", 8},
                                                {"<i2", 2},
                                                {"<i4", 4},
                                                {"<i8", 8},
                                                {"<f4", 4},
                                                {"<f8", 8},
                                                {"=f4", 4}}};
    static constexpr std::array<char const*, 16> bad{">f4", ">i8", "<f2", "<f16", "<c8",  "|O",  "<U3", "|S0",
                                                     "|V4", "",    "<",   "f4",   "<f4 ", "|f4", "<u3", "<M8[us]"};
    static constexpr std::array<char const*, 12> extents{"-1",
                                                         "-9223372036854775808",
                                                         "9223372036854775807",
                                                         "9223372036854775808",
                                                         "18446744073709551615",
                                                         "18446744073709551616",
                                                         "4294967296",
                                                         "4294967295",
                                                         "2305843009213693952",
                                                         "0x4",
                                                         "1.5",
                                                         "1e3"};
    array_file made;
    auto const wrong = [&](char const* how) {
        made.right = false;
        made.how += how + std::string(" ");
    };
    auto const kind = d.of(good);
    std::string type_name = kind.name;
    if (d.one_in(6)) {
        wrong("type");
        type_name = d.of(bad);
    }
    std::size_t const rank = d.one_in(10) ? 6 + d.below(20) : d.below(6);
    if (rank > 5) wrong("dimensions");
    std::string shape = "(";
    std::size_t numbers = 1;
    bool fits = true; // the extents are small, so that the product is one
    for (std::size_t i = 0; i < rank; ++i) {
        if (d.one_in(8)) {
            std::string const extent = d.of(extents);
            fits = false;
            shape += extent;
        } else {
            auto const extent = d.one_in(12) ? 0 : 1 + d.below(4);
            if (rank <= 5) numbers *= extent;
            shape += std::to_string(extent);
        }
        shape += i + 1 < rank || rank == 1 ? ", " : "";
    }
    if (!fits) wrong("extent"); // or, where another one is 0, 8 bytes too many
    bool const fortran = d.one_in(5);
    if (fortran && rank > 1) wrong("order");
    std::array<std::string, 3> parts{"'descr': '" + type_name + "'",
                                     std::string("'fortran_order': ") + (fortran ? "True" : "False"),
                                     "'shape': " + shape + ")"};
    std::swap(parts[d.below(3)], parts[d.below(3)]); // in any order
    std::vector<std::string> entries(parts.begin(), parts.end());
    if (d.one_in(20)) entries.erase(entries.begin() + std::ptrdiff_t(d.below(3)));
    if (d.one_in(20)) entries.push_back(d.one_in(2) ? "'x': 1" : parts[d.below(3)]);
    if (!std::ranges::is_permutation(entries, parts)) wrong("keys");
    std::string header = "{";
    for (std::size_t i = 0; i < entries.size(); ++i)
        header += entries[i] + (i + 1 < entries.size() || d.one_in(2) ? ", " : "");
    header += "}";
    if (d.one_in(20)) {
        wrong("zero byte");
        header.insert(header.begin() + std::ptrdiff_t(d.below(header.size())), '\0');
    }
    if (d.one_in(25)) {
        wrong("string without an end");
        header.erase(std::min(header.rfind('\''), header.size() - 1));
    }
    if (d.one_in(30)) {
        wrong("brackets");
        header.insert(d.below(2), std::string(30'000, "({["[d.below(3)]));
    }
    header += std::string(d.below(70), ' ') + "\n";
    std::size_t version = 1 + d.below(3);
    auto length = header.size();
    if (d.one_in(12)) {
        wrong("header's length");
        length = d.one_in(2) ? length + 1 + d.below(0xF000) : d.below(header.find('}') + 1);
    }
    files::bytes& all = made.content;
    if (d.one_in(25)) {
        wrong("version");
        version = d.one_in(2) ? 0 : 4 + d.below(252);
    }
    all = {0x93, 'N', 'U', 'M', 'P', 'Y', static_cast<std::uint8_t>(version), 0};
    if (d.one_in(30)) {
        wrong("magic");
        all[d.below(6)] ^= 0x20;
    }
    for (std::size_t i = 0; i < (version == 1 ? 2u : 4u); ++i)
        all.push_back(static_cast<std::uint8_t>(length >> 8 * i));
    all.insert(all.end(), header.begin(), header.end());
    auto bytes = fits && rank <= 5 ? numbers * kind.bytes : 8;
    if (fits && d.one_in(8)) {
        wrong("bytes of the numbers");
        bytes = bytes != 0 && d.one_in(2) ? d.below(bytes) : bytes + 1 + d.below(9);
    }
    for (std::size_t i = 0; i < bytes; ++i) all.push_back(static_cast<std::uint8_t>(d.below(2)));
    if (d.one_in(25)) {
        wrong("cut off");
        all.resize(d.below(all.size() - bytes));
    }
    return made;
}

} // namespace

TEST_SUITE("data/hostile") {
    TEST_CASE("tables that break a rule or two are refused in words that help, or read") {
        dice d{std::mt19937(test_seed())};
        files::folder const folder;
        int refused = 0;
        std::map<std::string, int> ways;
        for (int i = 0; i < 800; ++i) {
            CAPTURE(i);
            csv_options options{.header = !d.one_in(4), .separator = ",;|\t"[d.below(4)]};
            if (d.one_in(4)) options.missing = 0;
            auto const whole = by_the_rules(d, options.separator);
            std::string how;
            auto const text = i % 8 == 0 ? whole.text() : broken(d, whole, how);
            CAPTURE(how);
            auto const path = folder.write("table", files::bytes(text.begin(), text.end()));
            bool const any = asked(path, options);
            refused += any ? 1 : 0;
            ++ways[how.substr(0, how.find(' '))];
            // a table by the rules is one: 'x' is asked for as numbers there, the class as classes
            if (how.empty()) CHECK(read_csv(path, options).columns() == whole.lines[0].size());
        }
        CHECK(refused > 300);
        CHECK(ways.size() > 12);
    }

    TEST_CASE("arrays are read if their files keep all rules, and else refused in words that help") {
        dice d{std::mt19937(test_seed())};
        files::folder const folder;
        int read = 0, refused = 0;
        auto const before = files::address_space_peak();
        for (int i = 0; i < 1200; ++i) {
            CAPTURE(i);
            auto const made = array_of(d);
            CAPTURE(made.how);
            auto const path = folder.write("array", made.content);
            bool accepted = true;
            std::string said;
            try {
                auto const a = read_npy(path);
                if (a.size() != 0 && !a.shape().empty()) CHECK(npy_samples(a, a).size() == a.shape()[0]);
            } catch (data_error const& e) {
                check_message(e, path);
                accepted = false;
                said = e.what();
            }
            CAPTURE(said);
            CHECK(accepted == made.right);
            ++(accepted ? read : refused);
            try {
                auto const a = map_npy(path);
                CHECK(accepted);
                if (a.size() != 0 && !a.shape().empty()) (void)npy_samples(a, a);
            } catch (data_error const& e) {
                check_message(e, path); // what is read may lie where it cannot be mapped
                CHECK((!accepted || std::string(e.what()).find("use read_npy") != std::string::npos));
            }
        }
        CHECK(read > 100);
        CHECK(refused > 500);
        CHECK(files::address_space_peak() - before < std::uint64_t{1} << 30);
    }

    TEST_CASE("a file that gets shorter while it is read") {
        files::folder const folder;
        auto const path = folder.write("file", files::bytes(1000));
        detail::regular_file const file(path);
        std::filesystem::resize_file(path, 600);
        std::vector<std::byte> all(1000);
        files::expect_data_error([&] { file.read(0, all); }, path, 600, "had 1000 bytes when it was opened");
        files::expect_data_error([&] { file.read(800, std::span(all).first(1)); }, path, 800, "now ends here");
        file.read(599, std::span(all).first(1));
    }

    TEST_CASE("a mapped file that gets shorter ends the process, as map_npy says") {
        files::folder const folder;
        std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (100000,), }";
        header.resize(117, ' ');
        files::bytes content{0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0};
        content.insert(content.end(), header.begin(), header.end());
        content.push_back('\n');
        content.resize(128 + 100'000, 1);
        auto const path = folder.write("array", content);
        auto const child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            std::signal(SIGBUS, [](int) { ::_exit(42); });
            auto const a = map_npy(path);
            if (::truncate(path.c_str(), 5000) != 0) ::_exit(1);
            ::_exit(a.numbers<std::uint8_t>().front() == 1 && a.numbers<std::uint8_t>().back() == 1 ? 2 : 3);
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == 42);
    }

    TEST_CASE("pipes are no tables") {
        files::folder const folder;
        auto const pipe = folder.path("pipe");
        REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
        files::expect_data_error([&] { (void)read_csv(pipe); }, pipe, 0, "this is a pipe; save its content");
        files::expect_data_error([&] { (void)read_npy(pipe); }, pipe, 0, "this is a pipe; save its content");
        files::expect_data_error([&] { (void)read_csv("/dev/zero"); }, "/dev/zero", 0, "a device or socket");
    }

    TEST_CASE("an array that memory does not hold is refused, with the way to map it") {
        if (left_out(sanitized, "a sanitizer reserves more address space than the test allows")) return;
        files::folder const folder;
        auto const path = files::write_npy(folder, "large", "|u1", {std::size_t{1} << 32}, 1, {});
        auto const child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            struct ::rlimit const little = {std::uint64_t{1} << 31, std::uint64_t{1} << 31};
            if (::setrlimit(RLIMIT_AS, &little) != 0) ::_exit(1);
            try {
                (void)read_npy(path);
            } catch (data_error const& e) {
                bool const said = std::string(e.what()).find("4294967296 bytes of memory") != std::string::npos &&
                                  std::string(e.what()).find("use map_npy") != std::string::npos;
                ::_exit(said ? 42 : 2);
            }
            ::_exit(3);
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == 42);
    }
}

} // namespace data_hostile_test
