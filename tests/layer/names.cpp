// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <support/networks.hpp>

#include <trireme/layer/names.hpp>

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

namespace layer_names_test {
using namespace trireme;

namespace {

struct list : std::vector<std::string> {
    using vector::vector;
    friend std::ostream& operator<<(std::ostream& out, list const& names) {
        for (auto const& name : names) out << name << ' ';
        return out;
    }
};

template<class Network>
list names() {
    list all;
    for (auto const& tensor : tensors_of<Network>()) all.push_back(tensor.name);
    return all;
}

/// Names, shapes and places are the network's rows, one after the other, without a hole.
template<class Network>
void check_places() {
    std::size_t parameters = 0, buffers = 0;
    auto const tensors = tensors_of<Network>();
    std::size_t at = 0;
    for (std::size_t l = 0; l < Network::depth; ++l) {
        CAPTURE(l);
        auto const& d = Network::row(l).description;
        REQUIRE(at + static_cast<std::size_t>(d.parameter_count + d.buffer_count) <= tensors.size());
        for (int k = 0; k < d.parameter_count; ++k, ++at) {
            CHECK((tensors[at].name.ends_with(d.parameters[k].name) && !tensors[at].is_buffer));
            CHECK(tensors[at].shape == d.parameters[k].shape);
            CHECK(tensors[at].first == parameters);
            parameters += tensors[at].shape.size();
        }
        for (int k = 0; k < d.buffer_count; ++k, ++at) {
            CHECK((tensors[at].name.ends_with(d.buffers[k].name) && tensors[at].is_buffer));
            CHECK(tensors[at].shape == d.buffers[k].shape);
            CHECK(tensors[at].first == buffers);
            buffers += tensors[at].shape.size();
        }
    }
    CHECK(at == tensors.size());
    CHECK(parameters == Network::parameters);
    CHECK(buffers == Network::buffers);
    auto sorted = names<Network>();
    std::sort(sorted.begin(), sorted.end());
    CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
}

using resnet18 = test_networks::as_in_the_book::resnet<64, 128, 256, 512>;

/// The book's names of ResNet-18, written by loops over its module.
list names_in_the_book() {
    list all;
    auto const add = [&](std::string const& module, bool norm) {
        all.insert(all.end(), {module + ".weight", module + ".bias"});
        if (norm) all.insert(all.end(), {module + ".running_mean", module + ".running_var"});
    };
    add("0.0", false);
    add("0.1", true);
    for (int stage = 1; stage <= 4; ++stage)
        for (int block = 0; block < 2; ++block) {
            auto const here = std::to_string(stage) + "." + std::to_string(block) + ".";
            add(here + "conv1", false);
            add(here + "bn1", true);
            add(here + "conv2", false);
            add(here + "bn2", true);
            if (stage > 1 && block == 0) add(here + "conv3", false);
        }
    add("7", false);
    return all;
}

} // namespace

TEST_SUITE("layer/names") {
    TEST_CASE("a plain network's are those of nn.Sequential: layers without numbers count") {
        CHECK(names<test_networks::lenet>() == list{"0.weight", "0.bias", "3.weight", "3.bias", "7.weight", "7.bias",
                                                    "9.weight", "9.bias", "11.weight", "11.bias"});
        check_places<test_networks::lenet>();
        CHECK(names<network<input<4>, relu>>().empty());
        CHECK(names<network<input<4>, dropout<percent<50>>, batch_norm<>, linear<2>>>() ==
              list{"1.weight", "1.bias", "1.running_mean", "1.running_var", "2.weight", "2.bias"});
    }

    TEST_CASE("ResNet-18 of the book") {
        CHECK(names<resnet18>() == names_in_the_book());
        CHECK(resnet18::parameters == 11'175'818); // PyTorch's module has as many
        check_places<resnet18>();
    }

    TEST_CASE("children stand behind a point, each repetition is a module") {
        using block = sequential<linear<4>, relu>;
        CHECK(names<network<input<4>, block, linear<4>>>() == list{"0.0.weight", "0.0.bias", "1.weight", "1.bias"});
        CHECK(names<network<input<4>, relu, repeat<2, linear<4>, relu>, linear<4>>>() ==
              list{"1.0.weight", "1.0.bias", "2.0.weight", "2.0.bias", "3.weight", "3.bias"});
        CHECK(names<network<input<4>, repeat<2, linear<4>>>>() == list{"0.weight", "0.bias", "1.weight", "1.bias"});
        CHECK(names<network<input<4>, repeat<2, block>>>() == list{"0.0.weight", "0.0.bias", "1.0.weight", "1.0.bias"});
        CHECK(names<network<input<4>, residual<block, linear<4>>, linear<4>>>() ==
              list{"0.0.weight", "0.0.bias", "0.2.weight", "0.2.bias", "1.weight", "1.bias"});
        CHECK(names<network<input<4>, residual<linear<4>>, residual<residual<linear<4>>>>>() ==
              list{"0.0.weight", "0.0.bias", "1.0.0.weight", "1.0.0.bias"});
        check_places<network<input<4>, repeat<2, residual<sequential<block, batch_norm<>>, block>>, linear<2>>>();
    }

    TEST_CASE("names instead of numbers") {
        CHECK(
            names<network<input<4>, named<"fc", linear<4>>, linear<4>, named<"tail", sequential<relu, linear<2>>>>>() ==
            list{"fc.weight", "fc.bias", "1.weight", "1.bias", "tail.1.weight", "tail.1.bias"});
        CHECK(names<network<input<4>, named<"", sequential<linear<4>, relu>>, linear<4>>>() ==
              list{"0.weight", "0.bias", "2.weight", "2.bias"});
        CHECK(names<network<input<4>, named<"net", residual<named<"a", linear<4>>, named<"b", linear<4>>>>>>() ==
              list{"net.a.weight", "net.a.bias", "net.b.weight", "net.b.bias"});
    }

    TEST_CASE("a repeat under a name, and in a repeat, has all of its repetitions") {
        using under_a_name = network<input<4>, named<"blocks", repeat<2, linear<4>, relu>>>;
        CHECK(names<under_a_name>() ==
              list{"blocks.0.0.weight", "blocks.0.0.bias", "blocks.1.0.weight", "blocks.1.0.bias"});
        using spliced = network<input<4>, linear<4>, named<"", repeat<2, linear<4>>>>;
        CHECK(names<spliced>() == list{"0.weight", "0.bias", "1.weight", "1.bias", "2.weight", "2.bias"});
        using twice = network<input<4>, repeat<2, repeat<2, linear<4>>>>;
        CHECK(names<twice>() == list{"0.0.weight", "0.0.bias", "0.1.weight", "0.1.bias", "1.0.weight", "1.0.bias",
                                     "1.1.weight", "1.1.bias"});
    }

    TEST_CASE("a layer under the empty name has its tensors where it is, not at the top") {
        CHECK(names<network<input<4>, named<"", linear<2>>>>() == list{"weight", "bias"});
        CHECK(names<network<input<4>, named<"head", sequential<relu, named<"", linear<2>>>>>>() ==
              list{"head.weight", "head.bias"});
    }
}

} // namespace layer_names_test
