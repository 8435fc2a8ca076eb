// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LeNet's training step in dlib, as a worker of bench/harness.py. dlib_worker BATCH
// The batches are ready in memory as tensors; forward, backward and update run on the caller's thread.

#include <dlib/dnn.h>
#include <dlib/revision.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

template<long Channels, int Padding, class Below>
using convolution = dlib::add_layer<dlib::con_<Channels, 5, 5, 1, 1, Padding, Padding>, Below>;
template<class Below>
using pool = dlib::avg_pool<2, 2, 2, 2, Below>;

using features =
    pool<dlib::sig<convolution<16, 0, pool<dlib::sig<convolution<6, 2, dlib::input<dlib::matrix<float>>>>>>>>;
using lenet = dlib::loss_multiclass_log<dlib::fc<10, dlib::sig<dlib::fc<84, dlib::sig<dlib::fc<120, features>>>>>>;

constexpr std::size_t images = 8192;

int work(std::size_t batch) {
    using clock = std::chrono::steady_clock;
    lenet net;
    dlib::rand random;
    std::vector<dlib::resizable_tensor> batches(images / batch);
    std::vector<std::vector<unsigned long>> labels(batches.size());
    for (std::size_t b = 0; b < batches.size(); ++b) {
        std::vector<dlib::matrix<float>> some(batch, dlib::matrix<float>(28, 28));
        for (auto& image : some) {
            for (auto& pixel : image) pixel = random.get_random_float();
            labels[b].push_back(random.get_integer(10));
        }
        net.to_tensor(some.begin(), some.end(), batches[b]);
    }
    std::vector<dlib::sgd> solvers(lenet::num_computational_layers, dlib::sgd(0, 0));
    std::size_t next = 0;
    auto const steps = [&](std::size_t n) {
        auto const start = clock::now();
        for (std::size_t i = 0; i < n; ++i, next = (next + 1) % batches.size()) {
            net.compute_parameter_gradients(batches[next], labels[next].begin());
            net.update_parameters(dlib::make_sstack(solvers), 0.1);
        }
        return std::chrono::duration<double>(clock::now() - start).count();
    };
    steps(5);
    double per_second = 10 / steps(10);
    std::printf("ready dlib %d.%d\n", DLIB_MAJOR_VERSION, DLIB_MINOR_VERSION);
    std::fflush(stdout);
    for (double seconds = 0; std::scanf("%lf", &seconds) == 1;) {
        auto const n = static_cast<std::size_t>(std::max(1.0, seconds * per_second));
        auto const spent = steps(n);
        per_second = static_cast<double>(n) / spent;
        std::printf("%.17g\n", static_cast<double>(n * batch) / spent);
        std::fflush(stdout);
    }
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    auto const batch = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
    if (batch > 0 && batch <= images) return work(batch);
    std::fprintf(stderr, "usage: dlib_worker BATCH\n");
    return 2;
}
