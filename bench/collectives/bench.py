# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All-reduce of floats in place among the ranks of one machine: `direct` over threads and over processes, its peers, our
other strategies.

all_reduce/threads/SIZE/ranksN   us of one all-reduce: beside a loop of two threads that does nothing else (limit), Open
                                 MPI's and Gloo's, whose ranks are processes
all_reduce/mpi/SIZE/ranks2       `direct` and `hierarchical<direct, ring>` over processes, in windows, beside Open MPI's
all_reduce/messages/SIZE/ranks2  `ring` over processes, in messages of Open MPI, beside its own ring
lenet/processes/batchN/ranks2    LeNet's training step on two processes beside two threads
best_of/SIZE/ranksN              what `best_of` takes, beside the strategy that was fastest in this run

One step of a rank is a trainer's: it writes its whole buffer, all-reduces it, and reads it all. Without that each core
would keep its slice in its cache. The all-reduce alone is timed, on a clock that all ranks share: from the coming of the
last rank, for which the others can only wait, to the leaving of the last one; so there is no barrier whose time would
have to be taken off again. The clock's own, 20 ns or so, is in the figure. A figure is the median of a measurement's
steps, and what a rank does before the last has come is not counted, whoever does it.

Nothing else may run meanwhile: a round that something has disturbed is measured again, for some minutes in all.

Open MPI runs in the fastest of its algorithms, chosen by a first measurement of each; the mode stands in the row. Where
there are more ranks than processors its waits yield, and nothing is bound to a processor.
"""
import contextlib
import os
import pathlib
import shutil
import statistics
import subprocess

folder = pathlib.Path(__file__).resolve().parent
sizes = [1024 * 4 ** i for i in range(10)]
modes = {'default': 0, 'linear': 1, 'nonoverlapping': 2, 'doubling': 3, 'ring': 4, 'segmented': 5, 'rabenseifner': 6}


def name_of(size):
    return f'{size >> 20}MB' if size >= 1 << 20 else f'{size >> 10}KB'


def run(bench):
    count, seconds = (3, 0.03) if bench.quick else (11, 0.1)
    program = bench.program('collectives_trireme')
    strategies = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    mpirun = shutil.which('mpirun.openmpi') or shutil.which('mpirun')
    mpi = pathlib.Path(bench.program('collectives_mpi'))
    times = {}  # (ranks, size): {contender: its median time in us}

    def openmpi(ranks, size, mode, *ours, program=mpi):
        options = ['--allow-run-as-root', '--oversubscribe', '--bind-to', 'none', '--mca', 'pml', 'ob1',
                   '--mca', 'btl', 'self,vader']
        if ranks > len(os.sched_getaffinity(0)):
            options += ['--mca', 'mpi_yield_when_idle', 1]
        if modes[mode]:
            options += ['--mca', 'coll_tuned_use_dynamic_rules', 1, '--mca', 'coll_tuned_allreduce_algorithm',
                        modes[mode]]
        return bench.worker(mpirun, '-n', ranks, *options, program, size, *ours)

    def fastest_openmpi(ranks, size):
        speed = {}
        for mode in modes:
            bench.wait_for_quiet()
            with openmpi(ranks, size, mode) as worker:
                speed[mode] = max(worker.measure(seconds) for _ in range(2))
        bench.note(f'Open MPI, {name_of(size)}, {ranks} ranks, us: '
                   + ', '.join(f'{m} {1e6 / s:.4g}' for m, s in speed.items()))
        return max(speed, key=speed.get)

    def group(ranks, size, *peers):
        """All contenders of one size: each takes its turn in every round."""
        mode = {'openmpi': fastest_openmpi(ranks, size)} if 'openmpi' in peers else {}
        start = {'limit': lambda: bench.worker(program, 'limit', ranks, size),
                 'openmpi': lambda: openmpi(ranks, size, mode['openmpi']),
                 'gloo': lambda: bench.worker(bench.peers / 'bin/python3', folder / 'gloo_worker.py', ranks, size)}
        with contextlib.ExitStack() as stack:
            workers = {s: stack.enter_context(bench.worker(program, s, ranks, size)) for s in strategies}
            workers |= {p: stack.enter_context(start[p]()) for p in peers}
            table = bench.quiet_rounds(list(workers.values()), count, seconds)
        figure = {w: [1e6 / line[i] for line in table] for i, w in enumerate(workers)}
        for peer in peers:
            bench.row(f'all_reduce/threads/{name_of(size)}/ranks{ranks}', peer, figure['direct'], figure[peer], 'us',
                      lower_is_better=True, **({'mode': mode[peer]} if peer in mode else {}))
        alone = [s for s in strategies if s != 'best_of']
        best = min(alone, key=lambda s: statistics.median(figure[s]))
        bench.row(f'best_of/{name_of(size)}/ranks{ranks}', 'best', figure['best_of'], figure[best], 'us',
                  lower_is_better=True, mode=best)
        times[ranks, size] = {w: statistics.median(f) for w, f in figure.items()}

    def processes(size):
        """Two processes: ours in windows and in messages, Open MPI's fastest and its ring."""
        mode = fastest_openmpi(2, size)
        start = {'direct': ('default', 'direct', 'windows'), 'hierarchical': ('default', 'hierarchical', 'windows'),
                 'ring': ('default', 'ring', 'messages'), 'openmpi': (mode,), 'openmpi ring': ('ring',)}
        with contextlib.ExitStack() as stack:
            workers = [stack.enter_context(openmpi(2, size, *how)) for how in start.values()]
            table = bench.quiet_rounds(workers, count, seconds)
        figure = {who: [1e6 / line[i] for line in table] for i, who in enumerate(start)}
        for who in ('direct', 'hierarchical'):
            bench.row(f'all_reduce/mpi/{name_of(size)}/ranks2', 'openmpi', figure[who], figure['openmpi'], 'us',
                      lower_is_better=True, mode=f'{mode}, ours {who}')
        bench.row(f'all_reduce/messages/{name_of(size)}/ranks2', 'openmpi ring', figure['ring'],
                  figure['openmpi ring'], 'us', lower_is_better=True)

    def lenet(batch):
        with (openmpi(2, batch, 'default', program=bench.program('collectives_lenet')) as processes,
              bench.worker(bench.program('lenet_trireme'), batch, 2) as threads):
            table = bench.quiet_rounds([processes, threads], count, seconds)
        ours, theirs = ([line[i] for line in table] for i in range(2))
        bench.row(f'lenet/processes/batch{batch}/ranks2', 'threads', ours, theirs, 'samples/s')

    has_mpi = mpirun and mpi.exists()
    if not has_mpi:
        bench.note('Open MPI is not on this machine: left out')
    some_mpi = ['openmpi'] if has_mpi else []
    for size in sizes[:7] if bench.quick else sizes:
        group(2, size, 'limit', *some_mpi, 'gloo')
    if has_mpi:
        for size in (sizes[0], sizes[5]) if bench.quick else sizes:
            processes(size)
        for batch in (256,) if bench.quick else (256, 32, 2):
            lenet(batch)
    for size in [1 << 20] if bench.quick else sizes[:8]:
        group(4, size, *(some_mpi if size == 1 << 20 else []))
    group(8, 1 << 20, *some_mpi)

    print(f"\n{'ranks':>5} {'bytes':>10}  {'contender':10} {'us':>10} {'algbw GB/s':>11} {'busbw GB/s':>11}")
    for (ranks, size), figure in times.items():
        for who in ('direct', 'limit', 'openmpi', 'gloo'):
            if who in figure and len(figure) > len(strategies):
                rate = size / figure[who] / 1e3
                print(f'{ranks:5} {size:10}  {who:10} {figure[who]:10.4g} {rate:11.4g} '
                      f'{rate * 2 * (ranks - 1) / ranks:11.4g}')
    for ranks in (2, 4, 8):
        columns = [size for r, size in times if r == ranks]
        print(f"\n{f'us, {ranks} ranks':27}" + ''.join(f'{name_of(size):>10}' for size in columns))
        for who in times[ranks, columns[0]]:
            print(f'{who:27}' + ''.join(f'{times[ranks, size][who]:10.4g}' if who in times[ranks, size] else ' ' * 10
                                        for size in columns))
