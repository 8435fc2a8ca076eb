// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/checkpoints.hpp>
#include <trireme/weights.hpp>

#include <doctest/doctest.h>
#include <support/files.hpp>
#include <support/messages.hpp>

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace trainer_weights_not_finite_test {
using namespace trireme;

namespace {

using net = network<input<1, 4, 4>, conv2d<2, kernel<3>>, batch_norm<per_shard>, relu, flatten, linear<3>>;
template<class Dtype>
using trained = trainer<net, cross_entropy, sgd, precision<Dtype>>;

template<class T>
inline constexpr T nan = std::numeric_limits<T>::quiet_NaN();
template<class T>
inline constexpr T infinity = std::numeric_limits<T>::infinity();

/// The text of the data_error that f() throws; empty if it throws none.
template<class F>
std::string refusal(F const& f) {
    return test_support::text_of_error<data_error>(f, "");
}

/// The index of a value among the parameters or the buffers.
std::size_t index_of(std::string const& tensor, std::size_t value) {
    for (auto const& t : tensors_of<net>())
        if (t.name == tensor) return t.first + value;
    FAIL("no tensor ", tensor);
    return 0;
}

template<class Dtype>
void every_file_is_refused() {
    using T = typename Dtype::value_type;
    files::folder const folder;
    auto const path = folder.path("weights.safetensors");
    trained<Dtype> const right;
    auto const parameters = right.gather_parameters(), buffers = right.gather_buffers();
    auto const expect = [&](std::vector<T> const& p, std::vector<T> const& b, std::string const& text) {
        CAPTURE(text);
        trained<Dtype> from;
        from.load_parameters(p);
        from.load_buffers(b);
        save_weights(from, path);
        trained<Dtype> to({.seed = 2});
        auto const before = to.gather_parameters();
        auto const refused = refusal([&] { load_weights(to, path); });
        CAPTURE(refused);
        CHECK(refused.starts_with(path + ": " + text));
        CHECK(refused.ends_with("; pass weights of an earlier step, or read these by safetensors_file and set them by "
                                "load_parameters and load_buffers"));
        CHECK(to.gather_parameters() == before);
        CHECK(to.gather_buffers() == buffers);
        model<net> m;
        if constexpr (std::is_same_v<T, float>)
            CHECK(refusal([&] { load_weights(m, path); }).starts_with(path + ": " + text));
    };
    auto bad = parameters;
    bad[index_of("4.weight", 2 * 8 + 5)] = nan<T>;
    expect(bad, buffers, "tensor 4.weight has nan at [2, 5], and 1 of its 24 values are not finite: ");
    bad[index_of("4.weight", 1)] = -infinity<T>;
    expect(bad, buffers, "tensor 4.weight has -inf at [0, 1], and 2 of its 24 values are not finite: ");
    bad = parameters;
    bad[index_of("0.weight", 9 + 3 + 2)] = infinity<T>;
    expect(bad, buffers, "tensor 0.weight has inf at [1, 0, 1, 2], and 1 of its 18 values are not finite: ");
    auto bad_buffers = buffers;
    bad_buffers[index_of("1.running_var", 1)] = nan<T>;
    expect(parameters, bad_buffers, "tensor 1.running_var has nan at [1], and 1 of its 2 values are not finite: ");
}

} // namespace

TEST_SUITE("trainer/weights_not_finite") {
    TEST_CASE("weights that are not finite are refused with file, tensor and index, and nothing is changed") {
        every_file_is_refused<f32>();
        every_file_is_refused<f64>();
    }

    TEST_CASE("a transposed tensor is named with its index in the file") {
        files::folder const folder;
        auto const path = folder.path("weights.safetensors");
        std::vector<float> columns(4 * 3), biases(3);
        columns[2 * 3 + 1] = nan<float>;
        write_safetensors(path, {{"w", safetensors_dtype::f32, {4, 3}, std::as_bytes(std::span(columns))},
                                 {"b", safetensors_dtype::f32, {3}, std::as_bytes(std::span(biases))}});
        trainer<network<input<4>, linear<3>>, cross_entropy, sgd> t;
        auto const find = [](named_tensor const& n) {
            return n.name.ends_with("weight") ? file_tensor{"w", true} : file_tensor{"b"};
        };
        CHECK(refusal([&] {
                  load_weights(t, path, find);
              }).starts_with(path + ": tensor w has nan at [2, 1], and 1 of its 12 values are not finite: "));
    }

    TEST_CASE("a checkpoint of weights that are not finite is refused likewise") {
        files::folder const folder;
        trained<f32> from;
        save_checkpoint(from, folder.path());
        auto bad = from.gather_parameters();
        bad[index_of("4.bias", 2)] = nan<float>;
        from.load_parameters(bad);
        save_weights(from, folder.path("weights.a.safetensors")); // a checkpoint has none by itself
        trained<f32> to;
        auto const text = refusal([&] { load_checkpoint(to, folder.path()); });
        CAPTURE(text);
        CHECK(text.find("tensor 4.bias has nan at [2], and 1 of its 3 values are not finite: ") != std::string::npos);
        CHECK(text.ends_with("; load an earlier checkpoint"));
    }

    TEST_CASE("no checkpoint is made of weights that are not finite, and the one that is there stays") {
        files::folder const folder;
        trained<f32> t;
        auto const parameters = t.gather_parameters(), buffers = t.gather_buffers();
        auto const expect = [&](std::string const& path, std::string const& tensor) {
            auto const text = refusal([&] { save_checkpoint(t, path); });
            CAPTURE(text);
            CHECK(text.starts_with(path + ": tensor " + tensor));
            CHECK(text.find("no checkpoint of it is saved; go on from an earlier checkpoint") != std::string::npos);
        };
        auto const path = folder.path("kept"), none = folder.path("none");
        save_checkpoint(t, path);
        auto bad = parameters;
        bad[index_of("4.weight", 8)] = infinity<float>;
        t.load_parameters(bad);
        expect(path, "4.weight has inf at [1, 0], and 1 of its 24 values are not finite: ");
        expect(none, "4.weight has inf at [1, 0], and 1 of its 24 values are not finite: ");
        CHECK(!has_checkpoint(none));
        t.load_parameters(parameters);
        auto bad_buffers = buffers;
        bad_buffers[index_of("1.running_mean", 0)] = nan<float>;
        t.load_buffers(bad_buffers);
        expect(path, "1.running_mean has nan at [0], and 1 of its 2 values are not finite: ");
        load_checkpoint(t, path);
        CHECK(t.gather_parameters() == parameters);
        CHECK(t.gather_buffers() == buffers);
    }

    TEST_CASE("values that are not finite can be read and set by hand") {
        files::folder const folder;
        auto const path = folder.path("weights.safetensors");
        trained<f32> t;
        auto bad = t.gather_parameters();
        bad[index_of("4.weight", 0)] = infinity<float>;
        t.load_parameters(bad);
        save_weights(t, path);
        trained<f32> to({.seed = 2});
        std::vector<float> read(net::parameters);
        safetensors_file const file(path);
        for (auto const& tensor : tensors_of<net>()) {
            std::vector<std::size_t> const shape(tensor.shape.extent, tensor.shape.extent + tensor.shape.rank);
            if (!tensor.is_buffer)
                file.read(tensor.name, shape, std::span(read).subspan(tensor.first, tensor.shape.size()));
        }
        CHECK(to.gather_parameters() != bad);
        to.load_parameters(read);
        CHECK(to.gather_parameters() == bad);
    }
}

} // namespace trainer_weights_not_finite_test
