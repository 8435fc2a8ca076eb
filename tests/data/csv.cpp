// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "csv_tables.hpp"

#include <doctest/doctest.h>
#include <support/damaged_files.hpp>
#include <support/messages.hpp>

#include <clocale>
#include <cstring>
#include <filesystem>

namespace data_csv_test {
namespace {

using namespace trireme;
using namespace csv_tables;
using test_support::refusal;
using test_support::says;

std::string const flowers = "sepal length,sepal width,species\n"
                            "5.1,3.5,setosa\n"
                            "7.0,3.2,versicolor\n"
                            "6.3,3.3,virginica\n"
                            "4.9,3.0,setosa\n";

} // namespace

TEST_SUITE("data/csv") {
    TEST_CASE("a table of flowers becomes samples") {
        auto const t = table_of(flowers);
        CHECK(t.rows() == 4);
        CHECK(t.columns() == 3);
        CHECK(t.names() == strings{"sepal length", "sepal width", "species"});
        CHECK(t.text(2, 2) == "virginica");
        CHECK(t.numbers("sepal width") == doubles{3.5, 3.2, 3.3, 3.0});
        CHECK(t.column("species") == 2);

        auto const s = t.samples({.classes = "species"});
        CHECK(s.size() == 4);
        CHECK(s.inputs().shape == make_shape(2));
        CHECK(row<double>(s.inputs(), 1) == doubles{7.0, 3.2});
        CHECK(s.targets().shape == make_shape(1));
        CHECK(s.classes() == 3);
        CHECK(classes_of(s) == std::vector{0, 1, 2, 0});
        CHECK(names_of(s) == strings{"setosa", "versicolor", "virginica"});
        CHECK(s.holder() != nullptr);

        auto const chosen = t.samples({.inputs = {"sepal width"}, .classes = "species"});
        CHECK(row<double>(chosen.inputs(), 0) == doubles{3.5});
        auto const turned = t.samples({.inputs = {"sepal width", "sepal length"}, .classes = "species"});
        CHECK(row<double>(turned.inputs(), 0) == doubles{3.5, 5.1});
    }

    TEST_CASE("samples outlive their table, and targets may be numbers") {
        owned_samples s;
        {
            auto const t = table_of("a,b,price,tax\n1,2,10,0.5\n3,4,20,0.25\n");
            s = t.samples({.targets = {"price", "tax"}});
        }
        CHECK(s.classes() == 0);
        CHECK(s.class_names().empty());
        CHECK(row<double>(s.inputs(), 1) == doubles{3, 4});
        CHECK(row<double>(s.targets(), 1) == doubles{20, 0.25});
        CHECK(s.targets().shape == make_shape(2));
    }

    TEST_CASE("inputs alone become samples without targets") {
        auto const t = table_of("a;b\n1;2\n3;4\n", {.separator = ';'});
        auto const s = t.samples({.inputs = {"b"}});
        CHECK(s.size() == 2);
        CHECK(s.inputs().shape == make_shape(1));
        CHECK(row<double>(s.inputs(), 1) == doubles{4});
        CHECK(s.targets().data == nullptr);
        CHECK(s.classes() == 0);
        CHECK(s.class_names().empty());
        CHECK(s.holder() != nullptr);
        auto const all = t.samples({.inputs = t.names()});
        CHECK(row<double>(all.inputs(), 0) == doubles{1, 2});
        CHECK(row<double>(all.take(1, 1).inputs(), 0) == doubles{3, 4});
        // names and numbers of classes without a column of them are a slip
        CHECK(says(refusal([&] { (void)t.samples({.inputs = {"b"}, .class_names = {"x"}}); }), {".classes = "}));
        CHECK(says(refusal([&] { (void)t.samples({.inputs = {"b"}, .class_count = 2}); }), {".classes = "}));
        CHECK(says(fault_of([&] { (void)t.samples({.inputs = {"c"}}); }).what, {"no column 'c'"}));
        CHECK(says(refusal([&] { (void)t.samples({.inputs = {"a", "a"}}); }), {"'a' is asked for twice"}));
    }

    TEST_CASE("ways to write lines") {
        for (auto const* text : {"a,b\n1,2\n3,4\n", "a,b\n1,2\n3,4", "a,b\r\n1,2\r\n3,4\r\n", "a,b\r\n1,2\r\n3,4",
                                 "\xEF\xBB\xBF"
                                 "a,b\n1,2\n3,4\n",
                                 "\n\na,b\n\n1,2\r\n \t \n3,4\n\n\n  ", " a ,\tb\t\n 1,2 \n3  ,  4\n",
                                 "\"a\",\"b\"\n\"1\",\"2\"\n\"3\",\"4\"", " \"a\" , \"b\" \r\n1,\"2\" \r\n3,4"}) {
            CAPTURE(text);
            auto const t = table_of(text);
            CHECK(t.names() == strings{"a", "b"});
            CHECK(shown(t) == "[1][2][3][4]");
        }
    }

    TEST_CASE("quotes") {
        CHECK(shown(table_of("a,b\n\"x,y\",\"he said \"\"no\"\"\"\n")) == "[x,y][he said \"no\"]");
        CHECK(shown(table_of("a,b\n\"two\nlines\r\nand a third\",\"\"\n")) == "[two\nlines\r\nand a third][]");
        CHECK(shown(table_of("a,b\n\"\"\"\",\"\"\"\"\"\"\n")) == "[\"][\"\"]");
        CHECK(shown(table_of("a,b\n\"  blanks \",x y\n")) == "[  blanks ][x y]");
        CHECK(table_of("\"a\"\"b\",\"c\nd\"\n1,2\n").names() == strings{"a\"b", "c\nd"});
    }

    TEST_CASE("separators, and files without a header") {
        CHECK(shown(table_of("a;b\n1,5;2\n", {.separator = ';'})) == "[1,5][2]");
        CHECK(shown(table_of("a|b\n1|2\n", {.separator = '|'})) == "[1][2]");
        // a tabulator that separates is no blank
        CHECK(shown(table_of("a\tb\tc\n\t 2 \t\n", {.separator = '\t'})) == "[][2][]");
        auto const t = table_of("5,6,x\n7,8,y\n", {.header = false});
        CHECK(t.rows() == 2);
        CHECK(t.names() == strings{"1", "2", "3"});
        CHECK(t.numbers("2") == doubles{6, 8});
        CHECK(names_of(t.samples({.classes = "3"})) == strings{"x", "y"});
        for (char const bad : {'"', ' ', '\n', '\0', 'a', '1', '.'})
            CHECK(says(refusal([&] { table_of("a\n1\n", {.separator = bad}); }), {"separator", "tabulator"}));
    }

    TEST_CASE("numbers, as people and programs write them") {
        auto const t = table_of("x\n1\n-2\n+3\n.5\n5.\n-.25\n1e3\n1E-3\n+2.5e+2\n007\n\" 8 \"\n123456789012\n-0\n");
        CHECK(t.numbers("x") == doubles{1, -2, 3, 0.5, 5, -0.25, 1000, 0.001, 250, 7, 8, 123456789012.0, 0});
        // exact to the last bit, whatever the locale
        auto const* const before = std::setlocale(LC_NUMERIC, "de_DE.UTF-8"); // if it is there
        CHECK(table_of("x\n0.1\n1.7976931348623157e308\n").numbers("x") == doubles{0.1, 1.7976931348623157e308});
        if (before != nullptr) std::setlocale(LC_NUMERIC, "C");
    }

    TEST_CASE("what is no number is named with line and column") {
        for (auto const* bad : {"x",   "1.5x", "1,5", "1 2", "0x10", "inf", "-inf", "nan(1)", "infinity", "--1", "+-1",
                                "-+1", "+",    "-",   ".",   "e5",   "1e",  "1e+",  "1.2.3",  "NAN",      "\xFF"}) {
            CAPTURE(bad);
            auto const t = table_of("a;b\n1;2\n\"3\n\";" + std::string(bad) + "\n", {.separator = ';'});
            auto const f = fault_of([&] { (void)t.numbers("b"); });
            CHECK(says(f.what, {"line 3, column 2 ('b')", "no finite number", "1.5 or 1e-3"}));
            CHECK(f.byte == 8);
        }
        for (auto const* bad : {"1e309", "-1e999999999999", "1e-999"})
            CHECK(says(fault_of([&] { (void)table_of("a\n" + std::string(bad) + "\n").numbers("a"); }).what,
                       {"line 2, column 1 ('a')", "too large or too small"}));
        auto const text = fault_of([&] { (void)table_of(flowers).samples({.targets = {"sepal width"}}); });
        CHECK(says(text.what,
                   {"line 2, column 3 ('species')", "'setosa'", "columns that are inputs", ".classes = \"species\""}));
    }

    TEST_CASE("missing values") {
        for (auto const* gap : {"", "NA", "NaN", "nan", " ", " NA ", "\"\"", "\"NA\""}) {
            CAPTURE(gap);
            auto const text = "a,b\n1,2\n" + std::string(gap) + ",4\n";
            auto const f = fault_of([&] { (void)table_of(text).numbers("a"); });
            CHECK(says(f.what, {"line 3, column 1 ('a')", "a number is missing", "csv_options::missing"}));
            CHECK(f.byte == 8);
            CHECK(table_of(text, {.missing = -1}).numbers("a") == doubles{1, -1});
            CHECK(says(fault_of([&] { (void)table_of(text).samples({.inputs = {"b"}, .classes = "a"}); }).what,
                       {"line 3, column 1 ('a')", "a class is missing", "missing_words"}));
        }
        CHECK(table_of("a\n?\n2\n", {.missing = 0.5, .missing_words = {"?"}}).numbers("a") == doubles{0.5, 2});
        auto const states = table_of("x,state\n1,CA\n2,NA\n", {.missing_words = {}}).samples({.classes = "state"});
        CHECK(names_of(states) == strings{"CA", "NA"});
        CHECK(says(refusal([&] { table_of("a\n1\n", {.missing = std::nan("")}); }), {"missing is no finite number"}));
    }

    TEST_CASE("classes are sorted: as text, or by value if all are whole numbers") {
        auto const classes = [](std::string const& column, csv_columns const& how = {.classes = "c"}) {
            std::string text = "x,c\n";
            std::size_t from = 0;
            for (auto at = column.find(' '); from < column.size(); at = column.find(' ', from)) {
                text += "0," + column.substr(from, at - from) + "\n";
                from = at == std::string::npos ? column.size() : at + 1;
            }
            return table_of(text).samples(how);
        };
        CHECK(names_of(classes("b a c a")) == strings{"a", "b", "c"});
        CHECK(classes_of(classes("b a c a")) == std::vector{1, 0, 2, 0});
        CHECK(names_of(classes("10 2 -1 2")) == strings{"-1", "2", "10"});
        CHECK(classes_of(classes("10 2 -1 02")) == std::vector{2, 1, 0, 1});
        CHECK(names_of(classes("10 2 x")) == strings{"10", "2", "x"});
        CHECK(classes("5 5").classes() == 1);

        // another table, which lacks a class, by the names of the first
        csv_columns const known = {.classes = "c", .class_names = {"a", "b", "c"}};
        CHECK(classes_of(classes("c a", known)) == std::vector{2, 0});
        CHECK(classes("c a", known).classes() == 3);
        CHECK(classes_of(classes("07 9", {.classes = "c", .class_names = {"9", "7"}})) == std::vector{1, 0});
        CHECK(says(fault_of([&] { classes("a d", known); }).what,
                   {"line 3, column 2 ('c')", "'d' is none of the 3 classes 'a', 'b', 'c'"}));
        CHECK(says(refusal([&] { classes("a", {.classes = "c", .class_names = {"a", "a"}}); }), {"two classes"}));

        // a column that holds the numbers themselves
        auto const four = classes("3 0", {.classes = "c", .class_count = 4});
        CHECK(four.classes() == 4);
        CHECK(classes_of(four) == std::vector{3, 0});
        CHECK(four.class_names().empty());
        for (auto const* bad : {"4", "-1", "1.0", "x", "99999999999999999999"})
            CHECK(says(fault_of([&] { classes(std::string("0 ") + bad, {.classes = "c", .class_count = 4}); }).what,
                       {"line 3, column 2 ('c')", "no class in [0, 4)", "class_count"}));
        CHECK(says(refusal([&] { classes("0", {.classes = "c", .class_names = {"0"}, .class_count = 1}); }),
                   {"one of them"}));
        CHECK(says(refusal([&] { classes("0", {.classes = "c", .class_count = std::size_t{1} << 31}); }), {"2^31"}));
    }

    TEST_CASE("the names of one table number the classes of another") {
        auto const train = table_of(flowers).samples({.classes = "species"});
        auto const other =
            table_of("species;sepal width;sepal length\nvirginica;3.1;6.0\nvirginica;2.9;6.1\n", {.separator = ';'});
        auto const alone = other.samples({.classes = "species"});
        CHECK(alone.classes() == 1); // and virginica would be 0
        auto const test = other.samples(
            {.inputs = {"sepal length", "sepal width"}, .classes = "species", .class_names = names_of(train)});
        CHECK(test.classes() == train.classes());
        CHECK(classes_of(test) == std::vector{2, 2});
        CHECK(row<double>(test.inputs(), 1) == doubles{6.1, 2.9}); // in the order of the other table
    }

    TEST_CASE("columns that contradict one another") {
        auto const t = table_of("a,b,c\n1,2,3\n");
        auto const asked = [&](csv_columns const& how) { return [&t, how] { (void)t.samples(how); }; };
        CHECK(says(refusal(asked({})), {"either classes or targets", ".inputs alone"}));
        CHECK_FALSE(test_support::has(refusal(asked({})), "no name"));
        auto const pandas = table_of(",a,b\n0,1,2\n1,3,4\n"); // with index=True, its default
        CHECK(says(refusal([&] { (void)pandas.samples({.targets = {"b"}}); }),
                   {"column 1 of ", "has no name, as the index that pandas writes", ".inputs = {"}));
        CHECK(pandas.samples({.inputs = {"a"}, .targets = {"b"}}).size() == 2);
        auto const unnamed = table_of("a,\n1,2\n"); // as a separator at the end of each line makes it
        CHECK(says(refusal([&] { (void)unnamed.samples({.classes = unnamed.names().back()}); }),
                   {"either classes or targets", "column 2 of ", "has no name: give it one in the first line"}));
        CHECK(says(refusal(asked({.targets = {"a"}, .classes = "b"})), {"either classes or targets"}));
        CHECK(says(refusal(asked({.targets = {"a"}, .class_names = {"x", "y"}})), {"class_names", ".classes = "}));
        CHECK(says(refusal(asked({.targets = {"a"}, .class_count = 2})), {"class_count", ".classes = "}));
        CHECK(says(refusal(asked({.inputs = {"a", "b"}, .targets = {"b"}})), {"'b' is asked for twice"}));
        CHECK(says(refusal(asked({.inputs = {"a", "a"}, .targets = {"b"}})), {"'a' is asked for twice"}));
        CHECK(says(refusal(asked({.targets = {"a", "b", "c"}})), {"no column is left for the inputs"}));
        auto const f = fault_of(asked({.targets = {"d"}}));
        CHECK(says(f.what, {"no column 'd' among the 3: 'a', 'b', 'c'", "pass one of these"}));
        CHECK(says(fault_of([] { (void)table_of("a;b\n1;2\n").numbers("a"); }).what,
                   {"'a;b'", "csv_options::separator = ';'"}));
        std::string many;
        for (int i = 0; i < 30; ++i) many += (i == 0 ? "n" : ",n") + std::to_string(i);
        auto const wide = table_of(many + "\n" + many + "\n");
        auto const what = fault_of([&] { (void)wide.numbers("n"); }).what;
        CHECK(says(what, {"'n18', 'n19', ...;"}));
        CHECK_FALSE(test_support::has(what, "'n20'"));
        CHECK(says(refusal([&] { (void)t.text(1, 0); }), {"row 1", "1 rows"}));
        CHECK(says(refusal([&] { (void)t.text(0, 3); }), {"column 3", "3 columns"}));
    }

    TEST_CASE("what is no csv") {
        struct {
            char const* text;
            std::uint64_t byte;
            std::vector<char const*> words;
        } const all[] = {
            {"", 0, {"the file is empty"}},
            {"\xEF\xBB\xBF", 0, {"the file is empty"}},
            {"\n \r\n\t\n", 0, {"the file is empty"}},
            {"\na,b\n", 1, {"no line of values", ".header = false"}},
            {"a,b\n1,2,3\n", 4, {"line 2, column 3: a field too many", "has 3", "line 1 has 2", "in quotes"}},
            {"a,b\n1,2\n3\n", 8, {"line 3, column 2 ('b'): there is no such field", "has 1", "line 1 has 2"}},
            {"a,b\n1,2\n3,4,\n", 8, {"line 3, column 3: a field too many"}},
            {"a,b,a\n1,2,3\n", 0, {"line 1, column 3 ('a'): column 1 has the same name", ".header = false"}},
            {",b,\n1,2,3\n", 0, {"line 1, column 3 (''): column 1 has the same name"}},
            {"a,b\n1,\"2\n3,4\n", 6, {"line 2, column 2 ('b')", "never closed"}},
            {"a,\"b", 2, {"line 1, column 2", "never closed"}},
            {"a,b\n\"", 4, {"line 2, column 1 ('a')", "never closed"}},
            {"a,b\n1,\"2\"\"", 6, {"line 2, column 2 ('b')", "never closed"}},
            {"a,b\n1,\"2\"x\n", 6, {"line 2, column 2 ('b')", "follows the closing quote"}},
            {"a,b\n1,\"2\" \"3\"\n", 6, {"line 2, column 2 ('b')", "follows the closing quote"}},
            {"a,b\n1,2\"\n", 6, {"line 2, column 2 ('b')", "inside a field that begins without one"}},
            {"a,b\r1,2\r", 2, {"line 1, column 2", "carriage return", "newline"}},
            {"a,b\n1,2\r", 6, {"line 2, column 2 ('b')", "carriage return"}},
        };
        for (auto const& each : all) {
            CAPTURE(each.text);
            auto const f = fault_in(each.text);
            CHECK(f.byte == each.byte);
            for (auto const* word : each.words) CHECK(says(f.what, {word}));
        }
        using namespace std::string_literals;
        CHECK(says(fault_in("a,b\n1,\0\n"s).what, {"line 2, column 2 ('b')", "zero byte", "UTF-8"}));
        CHECK(says(fault_in("a,b\n\"1\n\0\",2\n"s).what, {"line 2, column 1 ('a')", "zero byte"}));
        CHECK(says(fault_in("\xFF\xFE"
                            "a\0,\0b\0\n\0"s)
                       .what,
                   {"line 1, column 1", "zero byte"}));
        // lines are counted inside of quotes and over empty ones, too
        CHECK(says(fault_in("a,b\n\"x\ny\",1\n\n\n1,2,3\n").what, {"line 6, column 3", "line 1 has 2"}));
        CHECK(says(fault_in("1,2\n3\n", {.header = false}).what, {"line 2, column 2: there is no such field"}));
    }

    TEST_CASE("only regular files, and none that is too large to hold") {
        files::folder const folder;
        files::expect_data_error([&] { read_csv(folder.path()); }, folder.path(), 0, "this is a folder");
        auto const none = folder.path("none");
        files::expect_data_error([&] { read_csv(none); }, none, 0, "cannot be opened");
        CHECK_THROWS_AS(read_csv(std::string("a\0b", 3)), usage_error);
        auto const large = folder.write("large", {});
        std::filesystem::resize_file(large, std::uint64_t{1} << 32); // takes no disk
        auto const before = files::address_space_peak();
        files::expect_data_error([&] { read_csv(large); }, large, 0, "at most 4294967294: split it");
        CHECK(files::address_space_peak() - before < std::uint64_t{64} << 20);
    }

    TEST_CASE("memory and time grow with the file") {
        // as many fields, lines and columns as a file of its size can have
        for (auto const& text :
             {std::string(2'000'000, ','), "a\n" + std::string(1'000'000, '\n') + "1\n", "a,b\n" + [] {
                  std::string lines;
                  for (int i = 0; i < 700'000; ++i) lines += ",\n";
                  return lines;
              }()}) {
            auto const before = files::address_space_peak();
            auto const t = table_of(text, {.header = text.front() == 'a'});
            CHECK(files::address_space_peak() - before < std::uint64_t{128} << 20);
            CHECK(t.rows() >= 1);
        }
        CHECK(table_of(std::string(2'000'000, ','), {.header = false}).columns() == 2'000'001);
        auto const quoted = "a\n\"" + std::string(4'000'000, '"') + "\"\n";
        CHECK(table_of(quoted).text(0, 0).size() == 2'000'000);
    }

    TEST_CASE("whatever is written is read again") {
        std::mt19937 random(test_seed());
        for (int i = 0; i < 300; ++i) {
            std::size_t const columns = 1 + random() % 5, rows = 1 + random() % 5;
            char const separator = ",;|\t"[random() % 4];
            std::string text = random() % 2 == 0 ? "\xEF\xBB\xBF" : "", wanted;
            auto const end = random() % 2 == 0 ? "\r\n" : "\n";
            for (std::size_t r = 0; r < rows; ++r) {
                for (std::size_t c = 0; c < columns; ++c) {
                    std::string field;
                    for (auto left = random() % 6; left > 0; --left) field += "a\" ,;|\t\r\n7"[random() % 10];
                    wanted += "[" + field + "]";
                    text += c == 0 ? "\"" : " \"";
                    for (char const letter : field) text += letter == '"' ? "\"\"" : std::string(1, letter);
                    text += c + 1 < columns ? std::string("\" ") + separator : "\"";
                }
                text += end;
            }
            if (random() % 2 == 0) text.resize(text.size() - std::strlen(end));
            CAPTURE(i);
            CHECK(shown(table_of(text, {.header = false, .separator = separator})) == wanted);
        }
    }

    TEST_CASE("damaged files are refused or read, and nothing else") {
        std::string text = "\xEF\xBB\xBFx,\"y, z\",class\r\n";
        for (int i = 0; i < 12; ++i)
            text += std::to_string(i) + ".5e1, \"-" + std::to_string(i) + "\" ," + (i % 3 == 0 ? "\"a \"\"b\"" : "c") +
                    "\r\n";
        auto const read = [](std::string const& path) {
            auto const t = read_csv(path);
            std::size_t letters = 0;
            for (std::size_t r = 0; r < t.rows(); ++r)
                for (std::size_t c = 0; c < t.columns(); ++c) letters += t.text(r, c).size();
            CHECK(letters <= std::filesystem::file_size(path));
            auto const s = t.samples({.classes = t.names().back()});
            for (auto const label : classes_of(s)) CHECK(static_cast<std::size_t>(label) < s.classes());
            CHECK(s.inputs().size() + 1 == t.columns());
        };
        using namespace std::string_view_literals;
        auto const refused = files::refused_when_damaged(300, files::bytes(text.begin(), text.end()),
                                                         "\"\",\n\r\t ;.-+eE0N\0\xFF\xEF"sv, read);
        CHECK(refused > 60);
        CHECK(refused < 300);
    }
}

} // namespace data_csv_test
