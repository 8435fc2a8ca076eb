// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every kernel of LeNet's step on a GPU: block programs beside cuBLASLt and cuDNN, with larger layers to see from which
// size on a library is faster. What only block programs do stands beside an empty kernel.
//
// micro BATCH ROUNDS prints a line per round and case: case, peer, microseconds of ours, of the peer's.

#include "timing.hpp"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

namespace {

using namespace trireme;

__global__ void nothing() {}

constexpr int repetitions = 20; // in a graph, so that launching it does not count

struct card {
    gpu::stream queue{0};
    gpu::memory scratch{0, cuda_runtime::workspace_of_cudnn, "workspace"};
    gpu::libraries libraries{0};
    gpu::memory about{0, sizeof(staged_shard), "what the samples are"};
    bench::stopwatch watch{queue.handle()};
    std::size_t samples;

    explicit card(std::size_t batch) : samples(batch) {
        staged_shard const all{.count = static_cast<std::uint32_t>(batch)};
        queue.copy(about.data(), &all, sizeof all);
        gpu::event copied(0);
        queue.record(copied);
        while (!copied.reached()) {}
    }

    template<class Policy>
    Policy kernels() {
        Policy k(queue, samples, {scratch.data(), scratch.bytes()}, libraries);
        k.set_shard(static_cast<staged_shard const*>(about.data()));
        return k;
    }
    template<class Work>
    double microseconds(Work const& work) {
        work(); // libraries choose their algorithms
        bench::runnable const graph(bench::noted(queue, [&] {
            for (int i = 0; i < repetitions; ++i) work();
        }));
        return watch.of(graph, 1) / repetitions;
    }
    double empty() {
        return microseconds([&] { nothing<<<1, 1, 0, queue.handle()>>>(); });
    }
};

/// Numbers that are not zero, with which libraries could be faster than with others.
class numbers {
public:
    numbers(card& m, std::size_t size) : memory_(0, size * sizeof(float), "numbers") {
        random_stream const random(7, random_purpose::user);
        std::vector<float> values(size);
        for (std::size_t i = 0; i < size; ++i) values[i] = 0.01f * static_cast<float>(random.below(i, 201)) - 1.0f;
        m.queue.copy(memory_.data(), values.data(), size * sizeof(float));
        gpu::event copied(0);
        m.queue.record(copied);
        while (!copied.reached()) {}
    }
    float* data() const { return static_cast<float*>(memory_.data()); }
    float const* read() const { return data(); }

private:
    gpu::memory memory_;
};

void print(std::string const& name, char const* peer, double ours, double theirs) {
    std::printf("%s\t%s\t%.5g\t%.5g\n", name.c_str(), peer, ours, theirs);
    std::fflush(stdout);
}

/// f(kernels) by block programs and by libraries.
template<class F>
void beside_libraries(card& m, std::string const& name, F const& f) {
    auto const blocks = m.kernels<cuda_block_kernels>();
    auto const libraries = m.kernels<cuda_library_kernels>();
    double const ours = m.microseconds([&] { f(blocks); });
    print(name, "libraries", ours, m.microseconds([&] { f(libraries); }));
}
template<class F>
void beside_nothing(card& m, std::string const& name, F const& f) {
    auto const k = m.kernels<cuda_kernels>();
    print(name, "empty kernel", m.microseconds([&] { f(k); }), m.empty());
}

template<class G>
void convolution(card& m, std::string const& name) {
    numbers const x(m, m.samples * G::channels * G::height * G::width),
        w(m, G::out_channels * G::channels * G::kernel * G::kernel), b(m, G::out_channels),
        y(m, m.samples * G::out_channels * G::out_height * G::out_width);
    numbers const dx(m, m.samples * G::channels * G::height * G::width),
        dw(m, G::out_channels * G::channels * G::kernel * G::kernel), db(m, G::out_channels);
    using F = sigmoid_function;
    beside_libraries(m, name + "/forward", [&]<class K>(K const& k) {
        conv2d_forward<G, 1>(with_function<K, F, float>(k), x.read(), w.read(), b.read(), y.data());
    });
    beside_libraries(m, name + "/backward_input",
                     [&](auto const& k) { conv2d_backward_input<G, 1>(k, w.read(), y.read(), dx.data()); });
    beside_libraries(m, name + "/backward_weights", [&](auto const& k) {
        conv2d_backward_weights<G, 1>(k, x.read(), y.read(), dw.data(), db.data());
    });
}

template<class G>
void product(card& m, std::string const& name) {
    numbers const x(m, m.samples * G::inputs), w(m, G::inputs * G::outputs), b(m, G::outputs),
        y(m, m.samples * G::outputs), dx(m, m.samples * G::inputs), dw(m, G::inputs * G::outputs), db(m, G::outputs);
    using F = sigmoid_function;
    beside_libraries(m, name + "/forward", [&]<class K>(K const& k) {
        linear_forward<G, 1>(with_function<K, F, float>(k), x.read(), w.read(), b.read(), y.data());
    });
    beside_libraries(m, name + "/backward_input",
                     [&](auto const& k) { linear_backward_input<G, 1>(k, w.read(), y.read(), dx.data()); });
    beside_libraries(m, name + "/backward_weights", [&](auto const& k) {
        linear_backward_weights<G, 1>(k, x.read(), y.read(), dw.data(), db.data());
    });
}

template<class G>
void pooling(card& m, std::string const& name) {
    numbers const x(m, m.samples * G::channels * G::height * G::width),
        y(m, m.samples * G::channels * G::out_height * G::out_width),
        dx(m, m.samples * G::channels * G::height * G::width);
    beside_libraries(m, name + "/forward", [&](auto const& k) { avg_pool2d_forward<G, 1>(k, x.read(), y.data()); });
    beside_libraries(m, name + "/backward_input",
                     [&](auto const& k) { avg_pool2d_backward_input<G, 1>(k, y.read(), dx.data()); });
}

void all_else(card& m) {
    constexpr std::size_t parameters = 61712;
    numbers const weights(m, parameters), gradients(m, parameters), pixels(m, m.samples * 784),
        logits(m, m.samples * 10), dlogits(m, m.samples * 10), loss(m, m.samples), sample_weights(m, m.samples);
    gpu::memory const labels(0, m.samples * sizeof(int), "labels"), bytes(0, m.samples * 784, "pixels"),
        small(0, 1024, "numbers"); // of zeros
    auto* const rates = static_cast<sgd_numbers<float> const*>(small.data());
    auto* const score = reinterpret_cast<sample_score*>(static_cast<std::byte*>(small.data()) + 256);
    auto* const count = reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(small.data()) + 512);
    auto const all_samples = static_cast<std::uint32_t>(m.samples);
    m.queue.copy(count, &all_samples, sizeof all_samples);
    auto* const about = reinterpret_cast<staged_shard*>(static_cast<std::byte*>(small.data()) + 768);
    staged_shard const of_bytes{.scale = 1.0 / 255, .bytes = true};
    m.queue.copy(about, &of_bytes, sizeof of_bytes);
    beside_nothing(m, "convert_inputs", [&](auto const& k) {
        convert_inputs<float>(k, about, static_cast<std::byte const*>(bytes.data()), pixels.data(), 784);
    });
    beside_nothing(m, "softmax_cross_entropy", [&](auto const& k) {
        softmax_cross_entropy<10, 1>(k, logits.read(), static_cast<int const*>(labels.data()), sample_weights.read(),
                                     dlogits.data(), loss.data());
    });
    beside_nothing(m, "add_scores", [&](auto const& k) {
        add_scores(k, loss.read(), static_cast<int const*>(nullptr), static_cast<std::uint32_t const*>(count), score);
    });
    beside_nothing(m, "sgd_update",
                   [&](auto const& k) { sgd_update(k, weights.data(), gradients.read(), parameters, rates); });
}

} // namespace

int main(int argc, char** argv) try {
    std::size_t const batch = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
    int const rounds = argc > 2 ? std::atoi(argv[2]) : 0;
    if (batch == 0 || rounds < 1) {
        std::fprintf(stderr, "usage: micro BATCH ROUNDS\n");
        return 2;
    }
    gpu::count();
    card m(batch);
    for (int r = 0; r < rounds; ++r) {
        convolution<conv2d_geometry<1, 28, 28, 6, 5, 2, 1>>(m, "lenet/conv1");
        convolution<conv2d_geometry<6, 14, 14, 16, 5, 0, 1>>(m, "lenet/conv2");
        pooling<pool2d_geometry<6, 28, 28, 2, 2>>(m, "lenet/pool1");
        pooling<pool2d_geometry<16, 10, 10, 2, 2>>(m, "lenet/pool2");
        product<linear_geometry<400, 120>>(m, "lenet/linear1");
        product<linear_geometry<120, 84>>(m, "lenet/linear2");
        product<linear_geometry<84, 10>>(m, "lenet/linear3");
        all_else(m);
        convolution<conv2d_geometry<16, 14, 14, 32, 3, 1, 1>>(m, "conv16to32");
        convolution<conv2d_geometry<32, 14, 14, 64, 3, 1, 1>>(m, "conv32to64");
        convolution<conv2d_geometry<64, 14, 14, 128, 3, 1, 1>>(m, "conv64to128");
        product<linear_geometry<256, 128>>(m, "linear256to128");
        product<linear_geometry<512, 512>>(m, "linear512to512");
        product<linear_geometry<1024, 1024>>(m, "linear1024to1024");
    }
    for (auto const& note : m.libraries.notes()) std::fprintf(stderr, "%s\n", note.c_str());
    return 0;
} catch (std::exception const& e) {
    std::fprintf(stderr, "micro: %s\n", e.what());
    return 1;
}
