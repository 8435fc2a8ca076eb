// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A perceptron on a table of numbers, on two devices: mlp [FILE]. The file is a csv with a line of names, four columns
// of numbers, and the class in the last one, of three: like Fisher's irises. Without FILE one is made
// up, beside the program.
//
// Exit codes: 0; 2 for a file that is missing, damaged, or of other columns; 3 for a failure while it runs.

#include "standard_output.hpp"

#include <trireme/readers.hpp>
#include <trireme/trireme.hpp>

#include <cctype>
#include <filesystem>
#include <fstream>

using namespace trireme;

using perceptron = network<input<4>, linear<32>, relu, linear<32>, relu, linear<3>>;
using perceptron_trainer = trainer<perceptron, cross_entropy, adam, on<mesh<host, dp<2>>>>;

/// Three kinds of flowers, 100 of each; the same ones everywhere.
void make_up(std::filesystem::path const& file) {
    std::ofstream out(file);
    out << "sepal length,sepal width,petal length,petal width,species\n";
    double const mean[3][4] = {{5.0, 3.4, 1.5, 0.2}, {5.9, 2.8, 4.3, 1.3}, {6.6, 3.0, 5.6, 2.0}};
    random_stream const random(1, random_purpose::user);
    for (std::uint64_t i = 0; i < 300; ++i) {
        for (std::uint64_t c = 0; c < 4; ++c) out << mean[i % 3][c] + random.uniform(4 * i + c) - 0.5 << ',';
        out << (i % 3 == 0 ? "setosa" : i % 3 == 1 ? "versicolor" : "virginica") << '\n';
    }
    if (!out.flush()) throw data_error(file.string(), 0, "the file cannot be written: name one of yours, mlp FILE");
}

int main(int argc, char** argv) try {
    watch_standard_output();
    if (argc > 2) throw usage_error("usage: mlp [FILE]");
    auto const beside = std::filesystem::path(argv[0]).parent_path() / "flowers.csv"; // the program
    if (argc < 2) make_up(beside);
    auto const file = argc > 1 ? argv[1] : beside.string();
    auto const table = read_csv(file);
    for (auto const& name : table.names())
        if (std::isdigit(static_cast<unsigned char>(name[0])))
            throw data_error(file,
                             "line 1 names the columns, and " + name + " is no name: write a line of names above it");
    auto data = split(table.samples({.classes = table.names().back()}), 0.2, 1);
    standardisation const scale(data.train); // what is tested with has no part in it
    data = {scale(data.train), scale(data.test)};
    perceptron_trainer t{{.learning_rate = 0.005f, .batch = 24, .seed = 1}};
    for (auto const& epoch : t.fit(data, {.epochs = 10})) std::cout << epoch << std::endl;
} catch (std::exception const& e) {
    std::cerr << "mlp: " << e.what() << '\n';
    return exit_code::of(e);
}
