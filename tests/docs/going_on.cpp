// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The code of the guide's chapter on saving a training; see guide.cpp.

#include <trireme/checkpoints.hpp>

#include <doctest/doctest.h>
#include <support/files.hpp>
#include <support/networks.hpp>

namespace docs_going_on_test {
using namespace trireme;
using test_networks::made_up;
using net = test_networks::small;

TEST_CASE("saving a training, and going on") {
    files::folder const temporary;
    auto const folder = temporary.path("run");
    auto const images = made_up(200);
    // [save_checkpoint]
    using any =
        trainer<net, cross_entropy, adam, on<mesh<host, dp<dynamic>, pp<dynamic>>>, reproducible<fixed_tree, 8>>;
    any t{{.batch = 64, .seed = 1}, {.devices = 2, .stages = 2}};
    t.train(dataset{images, images}, {.epochs = 1});
    save_checkpoint(t, folder, {{"data", "made up"}}); // the words are yours
    // [/save_checkpoint]
    // [load_checkpoint]
    any other{{.batch = 64, .seed = 1}, {.devices = 3}}; // another day, another machine
    auto const about = load_checkpoint(other, folder);
    CHECK(about.notes.at("data") == "made up");
    CHECK(other.epochs() == 1); // what it trains now is the second epoch
    // [/load_checkpoint]
    dataset const data{images, images};
    CHECK(t.train(data, {.epochs = 1}).loss == other.train(data, {.epochs = 1}).loss);
}

} // namespace docs_going_on_test
