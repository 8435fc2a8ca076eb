// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// callbacks [FOLDER]    watching a training, and ending it when it gains no more
//
// LeNet on the first few thousand pictures of Fashion-MNIST. FOLDER gets the logs: epochs.jsonl, steps.csv, and a
// folder that TensorBoard shows; it is that of this program unless another one is named.

#include "result_file.hpp"
#include "standard_output.hpp"

#include <trireme/core/exit_code.hpp>
#include <trireme/logs.hpp>
#include <trireme/weights.hpp>

#include <filesystem>

using namespace trireme;

// clang-format off
using lenet = network<input<1, 28, 28>,
    conv2d<6, kernel<5>, padding<2>>, relu, max_pool2d<2>,
    conv2d<16, kernel<5>>,            relu, max_pool2d<2>,
    flatten, linear<120>, relu, linear<84>, relu, linear<10>>;
// clang-format on

int main(int argc, char** argv) try {
    watch_standard_output();
    if (argc > 2) throw usage_error("usage: callbacks [FOLDER]");
    auto const beside = std::filesystem::path(argv[0]).parent_path() / "."; // the program
    std::string const folder = argc > 1 ? argv[1] : beside.string();
    auto const all = fashion_mnist::load();
    dataset const data{all.train.take(0, 4000), all.test.take(0, 1000)};

    // each of them is refused here, before the training, if its file cannot be written
    json_lines_log const epochs(folder + "/epochs.jsonl");
    csv_log const steps(folder + "/steps.csv", {.steps = true});
    tensorboard_log const board(folder + "/tensorboard", {.steps = true});

    double largest = 0; // an observer of one's own: whatever can be called with the report of a step or of an epoch
    auto const mine = [&](progress_report const& step) { largest = std::max(largest, step.loss); };

    trainer<lenet, cross_entropy, adam, on<mesh<host, dp<2>>>> t{{.learning_rate = 0.003f, .batch = 64, .seed = 1}};
    auto const best = t.train(data, {.epochs = 50, .patience = 3, .least_gain = 0.001, .keep_best = true},
                              observers(progress_bar(), epochs, steps, board, mine));

    std::cout << "the largest loss of a step was " << largest << '\n'
              << "the best test was that of epoch " << best.epoch << ", whose weights are back: loss "
              << t.evaluate(data.test).loss << ", accuracy " << best.test.accuracy << '\n'
              << "logs: " << folder << '\n';
    saving([&] { save_weights(t, folder + "/best.safetensors"); });
    return 0;
} catch (std::exception const& e) {
    std::cerr << "callbacks: " << e.what() << '\n';
    return exit_code::of(e);
}
