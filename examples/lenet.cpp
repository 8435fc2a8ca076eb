// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// LeNet on Fashion-MNIST: the smallest real training there is, first on one device, then on two.
//
// LeNet is the network of the textbooks (here with sigmoids, as in "Dive into Deep Learning", chapter 7.6): 61,706
// parameters, a few milliseconds per step. It is the hard case for data parallelism, because so little work hides so
// little overhead: frameworks that dispatch every operation lose here what the second device brings.
//
// The program prints what it is about to run (the network, its memory, its traffic: all known before the first step),
// trains, tests after every epoch, and compares the two speeds. The devices of one run hold the same weights at all
// times; with --reproducible V even both runs end with the same bits: compare weights_hash in the file of --log.
//
// With --stages P each replica of the network is a pipeline of P devices, which take turns by --schedule.
//
// With --device gpu the same program runs on GPUs, if it was built where CUDA is; with --transport mpi its devices are
// processes: mpirun -n 4 PROGRAM --transport mpi. There, too, it can be cut into stages.
//
// Exit codes: 0; 2 for a wrong flag, missing data or a layout that cannot work; 3 for a failure while it runs; 4 for a
// launch that does not fit; 5 if the watchdog has ended a process that was stuck in MPI.

#include "lenet.hpp"

#include <trireme/core/exit_code.hpp>

/// The program for GPUs: lenet_gpu.cu, where there is CUDA; elsewhere nothing.
[[gnu::weak]] int run_lenet_on_gpu(lenet_flags const& flags);
/// The program for processes: lenet_mpi.cpp, where there is MPI.
[[gnu::weak]] int run_lenet_over_mpi(lenet_flags const& flags);

int run(lenet_flags const& flags) {
    bool const pipelined = flags.stages != 1 || flags.micro_batches != 0;
    if (pipelined && flags.device != "host")
        throw usage_error("--stages and --micro-batches are for devices of the host: leave out --device " +
                          flags.device + ", or these");
    if (flags.transport == "mpi") {
        if (flags.device != "host")
            throw usage_error("--transport mpi joins devices of the host: leave out --device " + flags.device);
        if (run_lenet_over_mpi != nullptr) return run_lenet_over_mpi(flags);
        throw usage_error(
            "--transport mpi: this program was built without MPI; install libopenmpi-dev or libmpich-dev, "
            "and configure the build again");
    }
    if (flags.device == "host") {
        if (auto const by = launch::discover(); by.size > 1)
            throw launch_error(by.source + ", and --transport threads trains in one process: add --transport mpi, or "
                                           "start it without a launcher");
        return run_lenet<lenet_trainer<mesh<host, dp<dynamic>, pp<dynamic>>>>(flags);
    }
    if (run_lenet_on_gpu != nullptr) return run_lenet_on_gpu(flags);
    throw usage_error("--device gpu: this program was built without CUDA; build it where nvcc, Meson 1.4 or newer and "
                      "cuDNN are, with -Dcuda=enabled");
}

int main(int argc, char** argv) {
    try {
        auto const flags = lenet_flags::parse(argc, argv);
        return flags ? run(*flags) : 0;
    } catch (std::exception const& e) {
        auto const code = trireme::exit_code::of(e);
        std::fprintf(stderr, "%slenet: %s\n", code == trireme::exit_code::failure ? "\n" : "",
                     e.what()); // behind a bar
        return code;
    }
}
