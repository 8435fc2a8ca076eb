# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All-reduce of floats among processes by PyTorch's Gloo, as a worker of bench/harness.py: gloo_worker.py RANKS BYTES

The step and the clock are those of steps.hpp.
"""
import os
import random
import statistics
import sys
import time

import torch
from torch import distributed


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


def work(rank, ranks, size):
    torch.set_num_threads(1)
    distributed.init_process_group('gloo', rank=rank, world_size=ranks)
    buffer = torch.zeros(size // 4)
    request = torch.zeros(1)

    def steps_of_request(n):  # rank 0 tells the others how many steps come next
        request[0] = n
        distributed.broadcast(request, 0)
        return int(request.item())

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


def main():
    ranks, size = int(sys.argv[1]), int(sys.argv[2])
    os.environ.setdefault('MASTER_ADDR', '127.0.0.1')
    os.environ.setdefault('MASTER_PORT', str(random.randint(20000, 60000)))
    os.environ['GLOO_SOCKET_IFNAME'] = 'lo'
    context = torch.multiprocessing.get_context('spawn')
    for rank in range(1, ranks):
        context.Process(target=work, args=(rank, ranks, size), daemon=True).start()
    work(0, ranks, size)


if __name__ == '__main__':
    main()
