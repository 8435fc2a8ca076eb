# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All-reduce of floats among processes by PyTorch's Gloo, as a worker of bench/harness.py: gloo_worker.py RANKS BYTES

The step and the clock are those of steps.hpp.
"""
import pathlib
import statistics
import sys
import time

import torch
from torch import distributed

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch_steps  # noqa: E402


def run(rank, ranks, buffer, steps):
    """Rank 0 returns the median time of an all-reduce in ns, from the coming of the last rank to the leaving of it."""
    came, left = torch.zeros(steps, dtype=torch.int64), torch.zeros(steps, dtype=torch.int64)
    for step in range(steps):
        buffer.fill_(step % 1000 + rank)
        start = time.monotonic_ns()
        distributed.all_reduce(buffer)
        end = time.monotonic_ns()
        low, high = torch.aminmax(buffer)
        if not low == high == ranks * (step % 1000) + ranks * (ranks - 1) // 2:
            sys.exit('the sum is wrong')
        came[step], left[step] = start, end
    distributed.reduce(came, 0, distributed.ReduceOp.MAX)
    distributed.reduce(left, 0, distributed.ReduceOp.MAX)
    return statistics.median((left - came).tolist())


def work(size, rank, ranks):
    torch_steps.begin(rank, ranks)
    buffer = torch.zeros(size // 4)
    steps_of_request = torch_steps.number_of_first(ranks)
    if rank != 0:
        while (n := steps_of_request(0)) > 0:
            run(rank, ranks, buffer, n)
        return
    start, done, n = time.perf_counter(), 0, 1
    while (spent := time.perf_counter() - start) < 0.05:
        run(rank, ranks, buffer, steps_of_request(n))
        done, n = done + n, 2 * n
    per_second = done / spent
    print('ready', f'PyTorch {torch.__version__.split("+")[0]} with Gloo', flush=True)
    for line in sys.stdin:
        n = steps_of_request(max(3, int(float(line) * per_second)))
        start = time.perf_counter()
        median = run(rank, ranks, buffer, n)
        per_second = n / (time.perf_counter() - start)
        print(1e9 / median, flush=True)
    steps_of_request(0)


if __name__ == '__main__':
    torch_steps.on_ranks(work, int(sys.argv[1]), int(sys.argv[2]))
