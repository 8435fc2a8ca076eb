// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Tables whose inputs hold words, and tables of spreadsheets that write 3,14.

#include "csv_tables.hpp"

#include <support/damaged_files.hpp>
#include <support/messages.hpp>
#include <support/seed.hpp>

#include <bit>
#include <cstdio>
#include <random>

namespace data_csv_words_test {
namespace {

using namespace trireme;
using namespace csv_tables;
using test_support::has;
using test_support::refusal;
using test_support::says;

std::string const shirts = "size,colour,city,sold\n"
                           "38,red,Berlin,yes\n"
                           "40,green,\"Paris, France\",no\n"
                           "42,red,Rome,yes\n"
                           "44,blue,Berlin,no\n";

using dictionary = std::map<std::string, strings>;

} // namespace

TEST_SUITE("data/csv_words") {
    TEST_CASE("each word becomes an input of its own") {
        auto const t = table_of(shirts);
        auto const words = t.words({"colour", "city"});
        CHECK(words == dictionary{{"colour", {"blue", "green", "red"}}, {"city", {"Berlin", "Paris, France", "Rome"}}});
        auto const s = t.samples({.words = words, .classes = "sold"});
        CHECK(s.inputs().shape == make_shape(7));
        CHECK(row<double>(s.inputs(), 0) == doubles{38, 0, 0, 1, 1, 0, 0});
        CHECK(row<double>(s.inputs(), 1) == doubles{40, 0, 1, 0, 0, 1, 0});
        CHECK(row<double>(s.inputs(), 2) == doubles{42, 0, 0, 1, 0, 0, 1});
        CHECK(row<double>(s.inputs(), 3) == doubles{44, 1, 0, 0, 1, 0, 0});
        CHECK(names_of(s) == strings{"no", "yes"});
        // in the order of the columns that are asked for, and beside targets that are values
        auto const turned = t.samples({.inputs = {"colour"}, .words = t.words({"colour"}), .targets = {"size"}});
        CHECK(row<double>(turned.inputs(), 1) == doubles{0, 1, 0});
        CHECK(row<double>(turned.targets(), 1) == doubles{40});
        auto const last = t.samples({.inputs = {"colour", "size"}, .words = t.words({"colour"})});
        CHECK(row<double>(last.inputs(), 3) == doubles{1, 0, 0, 44});
    }

    TEST_CASE("another table is encoded by the words of the first") {
        auto const words = table_of(shirts).words({"colour"});
        auto const other = table_of("colour;size\ngreen;50\n\" red \";51\n", {.separator = ';'});
        auto const s = other.samples({.inputs = {"size", "colour"}, .words = words});
        CHECK(row<double>(s.inputs(), 0) == doubles{50, 0, 1, 0});
        CHECK(row<double>(s.inputs(), 1) == doubles{51, 0, 0, 1});
        auto const strange = table_of("size,colour\n50,red\n51,\"\nmauve\"\n");
        auto const f = fault_of([&] { (void)strange.samples({.inputs = {"colour"}, .words = words}); });
        CHECK(says(f.what,
                   {"table.csv", "line 3, column 2 ('colour')", "mauve' is none of the 3 words 'blue', 'green', 'red'",
                    "take the words from a table that has all of them"}));
        CHECK(f.byte == 19);
        // words that a program writes down, in an order of its own
        auto const own = other.samples({.inputs = {"colour"}, .words = {{"colour", {"red", "green", "black"}}}});
        CHECK(row<double>(own.inputs(), 0) == doubles{0, 1, 0});
    }

    TEST_CASE("blanks around a word, and zeros before a whole number, make no other word") {
        auto const t = table_of("a,b\n red ,07\n\"red\",7\n\" red\t\", 10\ndark red,\"9 \"\n");
        auto const words = t.words({"a", "b"});
        CHECK(words == dictionary{{"a", {"dark red", "red"}}, {"b", {"7", "9", "10"}}});
        auto const s = t.samples({.inputs = {"b", "a"}, .words = words});
        CHECK(row<double>(s.inputs(), 0) == doubles{1, 0, 0, 0, 1});
        CHECK(row<double>(s.inputs(), 1) == doubles{1, 0, 0, 0, 1});
        CHECK(row<double>(s.inputs(), 2) == doubles{0, 0, 1, 0, 1});
        CHECK(row<double>(s.inputs(), 3) == doubles{0, 1, 0, 1, 0});
        CHECK(table_of("a\n07\n7\nx\n").words({"a"}) == dictionary{{"a", {"07", "7", "x"}}});
        CHECK(table_of("a\nRed\nred\n").words({"a"}) == dictionary{{"a", {"Red", "red"}}});
    }

    TEST_CASE("a word that is missing is named with line and column") {
        for (auto const* gap : {"", "NA", "\"\"", "\"  \"", "nan"}) {
            CAPTURE(gap);
            auto const t = table_of("x,colour\n1,red\n2," + std::string(gap) + "\n", {.missing = 0});
            for (auto const& f : {fault_of([&] { (void)t.words({"colour"}); }), fault_of([&] {
                                      (void)t.samples({.inputs = {"colour"}, .words = {{"colour", {"red"}}}});
                                  })})
                CHECK(says(f.what, {"line 3, column 2 ('colour')", "a word is missing", "'unknown'", "missing_words"}));
        }
        auto const states = table_of("state\nCA\nNA\n", {.missing_words = {}});
        CHECK(states.words({"state"}) == dictionary{{"state", {"CA", "NA"}}});
    }

    TEST_CASE("a column of identifiers is no column of words") {
        auto const table = [](int different) {
            std::string text = "x,id\n";
            for (int i = 0; i < 10'000; ++i) text += "1,n" + std::to_string(i % different) + "\n";
            return table_of(text);
        };
        auto const many = table(10'000);
        CHECK(says(
            fault_of([&] { (void)many.words({"id"}); }).what,
            {"line 1, column 2 ('id')", "10000 different words", "at most 1000", "leave the column out", "'other'"}));
        CHECK_FALSE(fault_of([&] { (void)table(1001).words({"id"}); }).what.empty());
        CHECK(table(1000).words({"id"}).at("id").size() == 1000);
    }

    TEST_CASE("words that contradict the columns") {
        auto const t = table_of(shirts);
        CHECK(says(refusal([&] { (void)t.samples({.inputs = {"size"}, .words = {{"colour", {"red"}}}}); }),
                   {"'colour' has .words, and is no input", "name it in .inputs"}));
        CHECK(says(refusal([&] { (void)t.samples({.words = {{"sold", {"yes", "no"}}}, .classes = "sold"}); }),
                   {"'sold' has .words, and is no input"}));
        CHECK(says(refusal([&] { (void)t.samples({.inputs = {"colour"}, .words = {{"colour", {}}}}); }),
                   {"'colour' has an empty list of words", "csv_table::words()"}));
        CHECK(says(
            refusal([&] { (void)t.samples({.inputs = {"colour"}, .words = {{"colour", {"red", "blue", "red"}}}}); }),
            {"two words of 'colour' are named 'red'"}));
        CHECK(says(fault_of([&] { (void)t.words({"color"}); }).what, {"no column 'color'", "'colour'"}));
        CHECK(says(fault_of([&] { (void)t.samples({.inputs = {"size"}, .words = {{"color", {"red"}}}}); }).what,
                   {"no column 'color'"}));
        CHECK(says(fault_of([&] { (void)t.samples({.classes = "sold"}); }).what,
                   {"line 2, column 2 ('colour')", "'red' is no finite number", ".words = table.words({\"colour\"})"}));
    }

    TEST_CASE("commas before fractions, as spreadsheets write them in German and French") {
        csv_options const german{.separator = ';', .decimal = ','};
        auto const t = table_of("x\n3,14\n-0,5\n,25\n5,\n+2,5e+2\n1e-3\n007\n12\n\" 8,5 \"\n", german);
        CHECK(t.numbers("x") == doubles{3.14, -0.5, 0.25, 5, 250, 0.001, 7, 12, 8.5});
        CHECK(table_of("a,b\n\"3,14\",\"2,5\"\n", {.decimal = ','}).numbers("b") == doubles{2.5});
        CHECK(table_of("a;b\n1,5;NA\n", {.separator = ';', .decimal = ',', .missing = 0}).numbers("b") == doubles{0});
        for (auto const* bad : {"1.5", "1.234,5", "1,234,5", "1,5x", ",", "-,", "1 234,5", "inf", "0x1,8"}) {
            CAPTURE(bad);
            auto const f = fault_of([&] { (void)table_of("a;b\n1;" + std::string(bad) + "\n", german).numbers("b"); });
            CHECK(says(f.what,
                       {"line 2, column 2 ('b')", "no finite number", "csv_options::decimal = ',' write it as 1,5"}));
        }
        CHECK(says(fault_of([&] { (void)table_of("a\n1e999\n1,5\n", german).numbers("a"); }).what, {"too large"}));
        for (auto const* with_comma : {"3,14", "-0,5", "1,5e3"})
            CHECK(says(fault_of([&] {
                           (void)table_of("a;b\n1;" + std::string(with_comma) + "\n", {.separator = ';'}).numbers("b");
                       }).what,
                       {"line 2, column 2 ('b')", "no finite number", "pass csv_options::decimal = ','"}));
        for (char const bad : {';', ' ', '\0', '1', '\''})
            CHECK(says(refusal([&] { table_of("a\n1\n", {.decimal = bad}); }), {"decimal", "'.' or ','"}));
        // separators that split the numbers are refused: a comma is part of a number in quotes alone
        csv_options const both{.header = false, .decimal = ','};
        for (auto const* split : {"3,14\n2,5\n", "\"3\",\"14\"\n"})
            CHECK(says(refusal([&] { table_of(split, both); }),
                       {"decimal and csv_options::separator are both ','", "separator = ';'"}));
        CHECK(table_of("\"3,14\",2\n", both).columns() == 2);
        // words and classes are texts, whatever they hold
        auto const s = table_of("size;w\n1,5;a\n2,5;b\n", german)
                           .samples({.inputs = {"size"}, .words = {{"size", {"1,5", "2,5"}}}, .classes = "w"});
        CHECK(row<double>(s.inputs(), 1) == doubles{0, 1});
    }

    TEST_CASE("a comma is read to the bits of a point") {
        std::mt19937_64 random(test_seed());
        std::string points = "x\n", commas = "x\n";
        for (int i = 0; i < 2000; ++i) {
            auto const value = std::bit_cast<double>(random() >> 2 | random() << 63); // below 2, so that it is finite
            char text[40];
            std::snprintf(text, sizeof text, "%.*g", static_cast<int>(1 + random() % 17), value);
            std::string line(text);
            if (std::bit_cast<std::uint64_t>(value) << 1 < std::uint64_t{1} << 60) line = "0.5";
            points += line + "\n";
            for (auto& letter : line) letter = letter == '.' ? ',' : letter;
            commas += line + "\n";
        }
        CHECK(table_of(points).numbers("x") == table_of(commas, {.separator = ';', .decimal = ','}).numbers("x"));
    }

    TEST_CASE("a file of another separator is told so") {
        CHECK(says(fault_in("a;b\n1,5;2\n").what,
                   {"line 2, column 2", "line 1 has 1", "pass csv_options::separator = ';', which stands in line 1"}));
        CHECK(says(fault_in("\n\na\tb\n1,5\t2\n").what,
                   {R"(pass csv_options::separator = '\t', which stands in line 3)"}));
        auto const of_two = fault_in("a,b;c\n1,2,3\n").what;
        CHECK(says(of_two, {"a field too many"}));
        CHECK_FALSE(has(of_two, "csv_options::separator"));
        // no line has another number of fields
        auto const t = table_of("a;b\n1;2\n");
        for (auto const& what :
             {fault_of([&] { (void)t.numbers("a;b"); }).what,
              fault_of([&] { (void)t.samples({.inputs = {"a;b"}}); }).what,
              fault_of([&] { (void)t.numbers("a"); }).what, refusal([&] { (void)t.samples({.classes = "a;b"}); })}) {
            CHECK(says(what, {"pass csv_options::separator = ';', which stands in line 1"}));
            CHECK_FALSE(has(what, "table.words"));
        }
        // neither a separator that the first line lacks nor that of the file itself, in quotes
        CHECK_FALSE(has(fault_of([] { (void)table_of("x\n1;2\n").numbers("x"); }).what, "separator"));
        CHECK_FALSE(has(fault_of([] { (void)table_of("\"a,b\"\n\"x,y\"\n").numbers("a,b"); }).what, "separator"));
    }

    TEST_CASE("a comma that splits numbers is named as a decimal comma") {
        CHECK(says(fault_in("x\n3,14\n").what,
                   {"line 2, column 2: a field too many", "if a comma stands before fractions",
                    "pass csv_options::decimal = ',' and csv_options::separator = ';'"}));
        CHECK(says(fault_in("a\tb\nred\t3,14\n").what, {R"(decimal = ',' and csv_options::separator = '\t')"}));
        for (auto const* other : {"name\nSmith, John\n", "x\n3,\n", "a,b\n1,2,3\n"})
            CHECK_FALSE(has(fault_in(other).what, "decimal"));
        CHECK_FALSE(has(fault_in("x\n3;14\n", {.separator = ';'}).what, "decimal"));
    }

    TEST_CASE("a comma that may separate thousands is read in neither way") {
        auto const what = [](std::string const& text, csv_options const& options) {
            return fault_of([&] { (void)table_of("x;y\n" + text + ";1\n", options).numbers("x"); }).what;
        };
        csv_options const points{.separator = ';'}, commas{.separator = ';', .decimal = ','};
        CHECK(
            says(what("1,234", points), {"'1,234' is no finite number", "decimal = ',' if the comma stands before the",
                                         "leave the comma out if it separates thousands"}));
        CHECK(
            says(what("1.234", commas), {"'1.234' is no finite number", "decimal = '.' if the point stands before the",
                                         "leave the point out if it separates thousands"}));
        for (auto const* text : {"1,234,567", "1,234.5"}) {
            CHECK(says(what(text, points), {"write it as 1.5 or 1e-3, without commas between thousands"}));
            CHECK_FALSE(has(what(text, points), "csv_options::decimal"));
        }
        CHECK(says(what("1.234,5", commas), {"write it as 1,5 or 1e-3, without points between thousands"}));
    }

    TEST_CASE("a column of words is offered as classes and as inputs, by its name and where it may be one") {
        for (char const decimal : {'.', ','}) {
            CAPTURE(decimal);
            auto const t = table_of("x;species\n1;setosa\n", {.separator = ';', .decimal = decimal});
            CHECK(says(fault_of([&] { (void)t.samples({.inputs = t.names()}); }).what,
                       {".classes = \"species\" in place of other targets if it is the answer",
                        ".words = table.words({\"species\"}), each of which becomes an input, only if it is not"}));
            auto const target = fault_of([&] { (void)t.samples({.targets = {"species"}}); }).what;
            CHECK(says(target, {".classes = \"species\" instead of .targets"}));
            CHECK_FALSE(has(target, "words"));
            auto const numbers = fault_of([&] { (void)t.numbers("species"); }).what;
            CHECK(says(numbers, {"csv_table::text()"}));
            CHECK_FALSE(has(numbers, "words"));
            CHECK_FALSE(has(numbers, ".classes"));
        }
        auto const unnamed = table_of(",x\na,1\n");
        CHECK(says(fault_of([&] { (void)unnamed.samples({.inputs = unnamed.names()}); }).what,
                   {".classes, once it has a name,", ".words = table.words({\"\"})"}));
    }

    TEST_CASE("the first line with an error is named, whatever its column") {
        auto const t = table_of("x,colour,y,class\n1,red,a,k\n2,mauve,3,k\nb,red,4,k\n");
        csv_columns const wanted{.words = {{"colour", {"red"}}}, .classes = "class"};
        CHECK(says(fault_of([&] { (void)t.samples(wanted); }).what, {"line 2, column 3 ('y')"}));
    }

    TEST_CASE("damaged tables of words are refused or read, and nothing else") {
        std::string text = "n;colour;\"other; colour\"\r\n";
        for (int i = 0; i < 12; ++i)
            text += std::to_string(i) + ",5e1; \" " + (i % 3 == 0 ? "red" : "dark \"\"blue\"\"") + "\" ;" +
                    std::to_string(i % 4) + "\r\n";
        auto const read = [](std::string const& path) {
            auto const t = read_csv(path, {.separator = ';', .decimal = ','});
            auto names = t.names();
            names.erase(names.begin());
            auto const words = t.words(names);
            auto const s = t.samples({.inputs = t.names(), .words = words});
            std::size_t width = 1;
            for (auto const& [name, list] : words) width += list.size();
            CHECK(s.inputs().size() == width);
            for (std::size_t i = 0; i < s.size(); ++i) {
                auto const numbers = row<double>(s.inputs(), i);
                double ones = 0;
                for (std::size_t k = 1; k < numbers.size(); ++k) ones += numbers[k];
                CHECK(ones == static_cast<double>(names.size()));
            }
        };
        using namespace std::string_view_literals;
        auto const refused = files::refused_when_damaged(300, files::bytes(text.begin(), text.end()),
                                                         "\"\";;\n\r\t ,.-+e0N\0\xFF"sv, read);
        CHECK(refused > 60);
        CHECK(refused < 300);
    }
}

} // namespace data_csv_words_test
