// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The code of the guide's chapter on watching and stopping; see guide.cpp.

#include <trireme/logs.hpp>
#include <trireme/weights.hpp>

#include <doctest/doctest.h>
#include <support/networks.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>

#include <unistd.h>

namespace docs_watching_test {
using namespace trireme;
using test_networks::made_up;
using small_trainer = trainer<test_networks::small, cross_entropy, sgd>;

TEST_CASE("watching and stopping") {
    auto const images = made_up(600);
    dataset const data{images.take(0, 500), images.take(500, 100)};
    small_trainer t{{.learning_rate = 0.5f, .batch = 64, .seed = 1}};
    auto const folder = (std::filesystem::temp_directory_path() / ("logs-" + std::to_string(getpid()))).string();
    std::filesystem::create_directory(folder);
    double slowest = 0;
    // [logs]
    json_lines_log const lines(folder + "/epochs.jsonl");
    csv_log const table(folder + "/steps.csv", {.steps = true});
    tensorboard_log const board(folder + "/board"); // tensorboard --logdir FOLDER/board
    auto const mine = [&](epoch_report const& epoch) { slowest = std::max(slowest, epoch.seconds); };
    t.train(data, {.epochs = 3}, observers(progress_bar(), lines, table, board, mine));
    // [/logs]
    CHECK(slowest > 0);
    CHECK(std::filesystem::file_size(folder + "/epochs.jsonl") > 100);
    CHECK(std::filesystem::file_size(folder + "/steps.csv") > 100);
    CHECK(!std::filesystem::is_empty(folder + "/board"));
    auto const path = folder + "/best.safetensors";
    std::ostringstream out;
    auto* const before = std::cout.rdbuf(out.rdbuf());
    // [patience]
    for (auto const& epoch : t.fit(data, {.epochs = 100, .patience = 5, .keep_best = true})) {
        std::cout << epoch << '\n';
        if (epoch.best) save_weights(t, path); // for the next program; this one keeps them anyway
    }
    // [/patience]
    std::cout.rdbuf(before);
    small_trainer other{{.batch = 64}};
    load_weights(other, path);
    CHECK(test_networks::same_bits(other.gather_parameters(), t.gather_parameters()));
    std::filesystem::remove_all(folder);
}

} // namespace docs_watching_test
