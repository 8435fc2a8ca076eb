# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pipelines of two stages, a thread on a core each: what they lose, and beside PyTorch's.

pipeline/move/SIZE            us of a move between two threads: beside a loop with two atomics (atomics), and beside the
                              copy alone (memcpy), which is the part that no protocol saves
pipeline/proof/SCHED          ms of the proof of a step of 64 stages and 512 micro-batches, beside building it (build)
pipeline/overhead/NET/SCHED   ms of a step, beside the span of its program if each task takes the median of its kind in
                              that same round, and moves take none (predicted); the ratio is the part that is reached
pipeline/order/NET/A-B        how many times as long a step is by schedule A as by B, measured and predicted, where the
                              prediction is more than 4 %: both must be above 1
pipeline/NET/SCHED            samples/s beside torch.distributed.pipelining over Gloo, the network cut at the same place
speedup/pipeline/resnet18/batch256   the best schedule and cut on two devices, beside one device in its fastest form (devices1)

Every schedule that our trainers execute takes part in `overhead`, `order` and `speedup`: bench/pipeline/worker.hpp lists
them. PyTorch runs in the fastest of its modes, chosen by a first measurement of each; the mode stands in the row.

Nothing else may run meanwhile: a round that something has disturbed is measured again, for some minutes in all.
"""
import contextlib
import itertools
import pathlib
import statistics
import subprocess

folder = pathlib.Path(__file__).resolve().parent
modes = ['eager', 'channels-last', 'compile', 'channels-last-compile']
torch_names = {'gpipe': 'gpipe', 'one_f_one_b': '1f1b'}  # of the schedules that both have
# by our row with which the second stage begins: PyTorch's module
torch_modules = {'gpt': dict(zip((*range(2, 59, 7), 59), range(1, 11))), 'lenet': {row: row for row in range(12)},
                 'resnet18': dict(zip((1, 3, 12, 21, 31, 40, 50, 59, 69, 78, 80), (1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13)))}


def facts_of(program):
    """What a worker lists: schedules, the row of the cut by FLOPs, all rows that a second stage can begin with."""
    lines = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    schedules, balanced, rows = (line.split()[1:] for line in lines)
    return schedules, int(balanced[0]), [int(row) for row in rows]


def run(bench):
    count = 3 if bench.quick else 7
    program = {name: bench.program('pipeline_' + name) for name in ('move', 'proof', 'lenet', 'resnet18', 'dense')}
    bench.note_peak()
    before = bench.cores()
    bench.note(f'two threads do the arithmetic of {before:.2f} before')

    def move(size):
        seconds = 0.05 if bench.quick else 0.3
        with contextlib.ExitStack() as stack:
            workers = [stack.enter_context(bench.worker(program['move'], way, size)) for way in ('moves', 'atomics', 'memcpy')]
            table = bench.quiet_rounds(workers, 3 if bench.quick else 21, seconds)
        ours, by_hand, copy = ([1e6 / line[i] for line in table] for i in range(3))
        bench.row(f'pipeline/move/{size >> 10}KB', 'atomics', ours, by_hand, 'us', lower_is_better=True)
        bench.row(f'pipeline/move/{size >> 10}KB', 'memcpy', ours, copy, 'us', lower_is_better=True)
        bench.save()

    def proof(schedule):
        seconds = 0.1 if bench.quick else 0.5
        with contextlib.ExitStack() as stack:
            workers = [stack.enter_context(bench.worker(program['proof'], way, schedule, 64, 512)) for way in ('verify', 'build')]
            table = bench.quiet_rounds(workers, 3 if bench.quick else 9, seconds)
        bench.row(f'pipeline/proof/{schedule}', 'build', *([1e3 / line[i] for line in table] for i in range(2)), 'ms',
                  lower_is_better=True)
        bench.save()

    def overhead(net, batch, micro_batches, seconds):
        schedules = facts_of(program[net])[0]
        with bench.worker(program[net], 'overhead', batch, micro_batches, 0) as worker:
            worker.ask(0)
            answers = bench.undisturbed(count, lambda _: [float(word) for word in worker.ask(seconds).split()])
        figure = {}
        for i, schedule in enumerate(schedules):
            measured, predicted, replayed, shortest = zip(*(line[4 * i:4 * i + 4] for line in answers))
            figure[schedule] = measured, predicted
            bench.row(f'pipeline/overhead/{net}/{schedule}', 'predicted', [1e3 * m for m in measured],
                      [1e3 * p for p in predicted], 'ms', lower_is_better=True)
            own = statistics.median(r / m for r, m in zip(replayed, measured))
            bench.note(f'{net}, {schedule}: {100 * own:.1f} % of the step if every task takes as long as it did; the '
                       f'shortest kind takes {1e3 * statistics.median(shortest):.2f} ms')
        pairs = 0
        for a, b in itertools.permutations(schedules, 2):
            measured, predicted = ([x / y for x, y in zip(figure[a][i], figure[b][i])] for i in range(2))
            if statistics.median(predicted) > 1.04:
                pairs += 1
                bench.row(f'pipeline/order/{net}/{a}-{b}', 'predicted', measured, predicted, 'x')
        if pairs == 0:
            bench.note(f'{net}: no two schedules have predicted spans that differ by more than 4 %')
        bench.save()

    def ours(net, schedule, batch, micro_batches, stages=2, row=0):
        return bench.worker(program[net], 'steps', schedule, batch, micro_batches, stages, row)

    def beside_torch(net, schedule, batch, micro_batches, seconds):
        """Both cut by the FLOPs."""
        row = facts_of(program[net])[1]
        arguments = net, torch_names[schedule], batch, micro_batches, torch_modules[net][row]

        def torch(mode):
            return bench.worker(bench.peers / 'bin/python3', folder / 'torch_worker.py', *arguments[:2], mode, *arguments[2:])

        what = f'PyTorch, {net}, {torch_names[schedule]}, cut before its module {arguments[-1]} (our row {row}), samples/s'
        mode = bench.fastest(what, modes, torch, seconds)
        with ours(net, schedule, batch, micro_batches, row=row) as us, torch(mode) as them:
            table = bench.quiet_rounds([us, them], count, seconds)
        bench.row(f'pipeline/{net}/{torch_names[schedule]}', 'torch', *([line[i] for line in table] for i in range(2)),
                  'samples/s', mode=mode)
        bench.save()

    def speedup(batch, micro_batches, seconds):
        net = 'resnet18'
        schedules, balanced, rows = facts_of(program[net])
        near = rows.index(balanced)
        alone = {'whole batch': lambda: ours(net, schedules[0], batch, 1, stages=1),
                 f'{micro_batches} parts': lambda: ours(net, schedules[0], batch, micro_batches, stages=1),
                 'without stages': lambda: bench.worker(bench.program('resnet18_trireme'), batch, 1)}
        alone = alone[bench.fastest('images/s', alone, lambda form: alone[form](), seconds)]
        row = bench.fastest('images/s, cut before row', rows[max(0, near - 2):near + 3],
                            lambda row: ours(net, schedules[-1], batch, micro_batches, row=row), seconds)
        best = bench.fastest('images/s', schedules, lambda s: ours(net, s, batch, micro_batches, row=row), seconds)
        with ours(net, best, batch, micro_batches, row=row) as two, alone() as one:
            table = bench.quiet_rounds([two, one], count, seconds)
        bench.row(f'speedup/pipeline/{net}/batch{batch}', 'devices1', [a / b for a, b in table], [1.0] * len(table), 'x',
                  mode=f'{best} cut before {row}')
        bench.save()

    move(64 << 10)
    for schedule in ('gpipe', 'one_f_one_b', 'interleaved:2', 'zero_bubble_h1', 'zero_bubble_v', 'v_min', 'dual_pipe_v'):
        proof(schedule)
    overhead('dense', 512, 8, 1 if bench.quick else 5)
    overhead('resnet18', 128, 8, 3 if bench.quick else 12)
    for schedule in ('one_f_one_b', 'gpipe'):
        beside_torch('resnet18', schedule, 128, 8, 3 if bench.quick else 10)
    beside_torch('lenet', 'one_f_one_b', 256, 8, 0.2 if bench.quick else 0.6)
    speedup(256, 16, 3 if bench.quick else 12)
    bench.note(f'two threads do the arithmetic of {bench.cores():.2f} after')
