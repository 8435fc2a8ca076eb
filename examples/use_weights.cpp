// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A network that is asked: LeNet is trained for an epoch and saved as safetensors, which PyTorch reads as well. Then a
// `model` loads the file, which has no gradients and no optimizer, and tells what it sees. `use_weights FILE` asks the
// weights in FILE instead. Exit codes: those in the README.

#include "result_file.hpp"
#include "standard_output.hpp"

#include <trireme/trireme.hpp>
#include <trireme/weights.hpp>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

using namespace trireme;

using lenet = network<input<1, 28, 28>, conv2d<6, kernel<5>, padding<2>>, sigmoid, avg_pool2d<2>, conv2d<16, kernel<5>>,
                      sigmoid, avg_pool2d<2>, flatten, linear<120>, sigmoid, linear<84>, sigmoid, linear<10>>;

int main(int argc, char** argv) try {
    watch_standard_output();
    if (argc > 2) throw usage_error("usage: use_weights [FILE]");
    auto const data = fashion_mnist::load();
    auto const beside = std::filesystem::path(argv[0]).parent_path() / "lenet.safetensors"; // the program
    std::string const path = argc > 1 ? argv[1] : beside.string();
    if (argc < 2) {
        trainer<lenet, cross_entropy, adam, on<mesh<host, dp<2>>>> t{
            {.learning_rate = 0.003f, .batch = 256, .seed = 1}};
        std::printf("trained for an epoch: test accuracy %.3f\n", t.train(data, {.epochs = 1}).test.accuracy);
        saving([&] { save_weights(t, path); });
    }
    model<lenet, on<mesh<host, dp<2>>>> m;
    load_weights(m, path);
    std::printf("%s: %zu bytes per device, gradients %zu\n", path.c_str(),
                static_cast<std::size_t>(m.plan().bytes_per_device()),
                static_cast<std::size_t>(m.plan().memory().gradients));

    auto const said = m.predict(data.test);
    confusion_matrix const matrix(said, data.test);
    std::printf("right: %.3f, among the first three: %.3f\n", matrix.accuracy(), top_k_accuracy(said, data.test, 3));
    std::printf("image 0 is of class %zu, the network says %zu, with a probability of %.2f\n",
                static_cast<std::size_t>(data.test.label(0)), said.class_of(0),
                double(said.probabilities()[said.class_of(0)]));
    for (std::size_t c = 0; c < matrix.classes(); ++c)
        std::printf("class %zu: %.2f of them found\n", c, matrix.recall(c));
} catch (std::exception const& e) {
    std::fprintf(stderr, "use_weights: %s\n", e.what());
    return exit_code::of(e);
}
