# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training steps of LeNet, ResNet-18 and GPTs on one GPU beside PyTorch's, and what LeNet's is made of.

lenet-gpu/batchB         samples/s while fitting, samples on the host: beside PyTorch that is fed the same way
lenet-gpu/batchB/resident  the same beside PyTorch whose samples lie on the GPU as floats: it has nothing to bring
lenet-gpu/batchB/WAY     the same beside ourselves: without a graph, by block programs alone, by libraries everywhere
step/batchB              us of the step's graph beside an empty kernel for every node of it
all_reduce/gpu/SIZE      us of an all-reduce between two ranks of the GPU beside CUDA's copy of as many bytes
resnet18-gpu/DTYPE/batchB  images/s while fitting, in f32 and in bf16 beside PyTorch's autocast, both fed from the host
resnet18-gpu/bf16/batchB/channels-first  the same in bf16, whose images lie channels last, beside ourselves
gpt-gpu/NETWORK/DTYPE/batchB  tokens/s while fitting, adamw, PyTorch fed from the host as we are: width256 is a network of
                         bytes with 6 layers and windows of 256, gpt2 GPT-2 with 124 million parameters and 1024 tokens
kernel/...               us of block programs beside cuBLASLt and cuDNN, or beside an empty kernel

PyTorch runs in the fastest of its modes, chosen by a first measurement of each (with --quick it is compiled, and captured
as a graph by hand); the mode stands in the row. It is measured by the host's clock over many steps that it does not wait
for, we by the seconds of whole epochs. TRIREME_BENCH_ROWS: how the names of the wanted rows begin; without it all are measured.
"""
import os
import pathlib
import statistics
import subprocess

folder = pathlib.Path(__file__).resolve().parent
modes = ['eager', 'compile', 'autotune', 'reduce-overhead', 'graph', 'compile-graph']
quick_mode = 'compile-graph'
contexts = {'width256': 256, 'gpt2': 1024}
ways = ['fit-eager', 'fit-blocks', 'fit-libraries']


def name_of(size):
    return f'{size >> 20}MB' if size >= 1 << 20 else f'{size >> 10}KB'


def run(bench):
    count, seconds = (5, 0.3) if bench.quick else (11, 1.0)
    failed = []
    python = bench.peers / 'bin/python3'

    def facts():
        def told(*command):
            try:
                return subprocess.run(command, capture_output=True, text=True).stdout.strip() or 'unknown'
            except OSError:
                return 'unknown'
        bench.note('GPU, driver, compute capability, clocks: '
                   + told('nvidia-smi', '--query-gpu=name,driver_version,compute_cap,clocks.sm,clocks.mem',
                          '--format=csv,noheader'))
        code = 'import torch; print(torch.__version__, torch.version.cuda, torch.backends.cudnn.version())'
        bench.note('PyTorch, its CUDA, its cuDNN: ' + told(python, '-c', code))

    def lines(program, *arguments):
        output = subprocess.run([bench.program(program), *map(str, arguments)], stdout=subprocess.PIPE, text=True,
                                check=True).stdout
        return [line.split('\t') for line in output.splitlines()]

    def torch(batch, feed, mode, network='lenet'):
        return bench.worker(python, folder / 'torch_worker.py', network, batch, feed, mode)

    def fastest_torch(batch, feed, network='lenet', ways=('',)):
        """The mode that is fastest here; the modes that do not work are named."""
        if bench.quick:
            return quick_mode + ways[0]
        return bench.fastest(f'PyTorch {network} {feed}, batch {batch}, samples/s',
                             [mode + way for mode in modes for way in ways],
                             lambda mode: torch(batch, feed, mode, network), seconds, warm_up=1, measurements=3)

    def lenet(batch):
        """All rows of one batch size: every contender takes its turn in every round."""
        mode = {}
        for feed in ('fed', 'resident'):
            try:
                mode[feed] = fastest_torch(batch, feed)
            except SystemExit: # no mode works, which is noted; our own rows need none
                failed.append(f'lenet-gpu/batch{batch}: PyTorch {feed}')
        own = ['fit', *ways, 'step']
        workers = [bench.worker(bench.program('gpu_trireme'), batch, way) for way in own]
        workers += [torch(batch, feed, m) for feed, m in mode.items()]
        figure = dict(zip([*own, *mode], bench.columns(workers, count, seconds)))
        case = f'lenet-gpu/batch{batch}'
        for feed in mode:
            bench.row(case + ('/resident' if feed == 'resident' else ''), 'torch', figure['fit'], figure[feed],
                      'samples/s', mode=mode[feed])
        for way in ways:
            bench.row(f'{case}/{way}', 'itself', figure['fit'], figure[way], 'samples/s')
        micros = {name: 1e6 * batch / statistics.median(f) for name, f in figure.items()}
        bench.note(f'batch {batch}, us per step: ' + ', '.join(f'{n} {m:.1f}' for n, m in micros.items()))

    def resnet18(batch, dtype):
        precision = '' if dtype == 'f32' else '+bf16'
        mode = fastest_torch(batch, 'fed', 'resnet18', ('+channels-last' + precision, precision))
        ours, theirs = bench.columns([bench.worker(bench.program('gpu_resnet18'), batch, dtype),
                                      torch(batch, 'fed', mode, 'resnet18')], count, seconds)
        bench.row(f'resnet18-gpu/{dtype}/batch{batch}', 'torch', ours, theirs, 'images/s', mode=mode)

    def gpt(network, batch, dtype):
        mode = fastest_torch(batch, 'fed', network, ('' if dtype == 'f32' else '+bf16',))
        columns = bench.columns([bench.worker(bench.program('gpu_gpt'), network, batch, dtype),
                                 torch(batch, 'fed', mode, network)], count, seconds)
        ours, theirs = ([contexts[network] * x for x in column] for column in columns)
        bench.row(f'gpt-gpu/{network}/{dtype}/batch{batch}', 'torch', ours, theirs, 'tokens/s', mode=mode)

    def orders(batch):
        last, first = bench.columns([bench.worker(bench.program('gpu_resnet18'), batch, way)
                                     for way in ('bf16', 'bf16-first')], count, seconds)
        bench.row(f'resnet18-gpu/bf16/batch{batch}/channels-first', 'itself', last, first, 'images/s')

    def nodes(batch):
        found = lines('gpu_nodes', batch, count)
        rounds = [[float(x) for x in fields] for kind, *fields in found if kind == 'round']
        bench.row(f'step/batch{batch}', 'empty kernels', [r[1] for r in rounds], [r[3] for r in rounds], 'us',
                  lower_is_better=True)
        n, graph, total, empty = (statistics.median(column) for column in zip(*rounds))
        bench.note(f'batch {batch}: {n:.0f} nodes, {graph:.1f} us; one after the other they take {total:.1f} us, '
                   f'as many empty kernels {empty:.1f} us; beside its work a node costs '
                   f'{(graph - (total - empty)) / n:.2f} us, an empty one {empty / n:.2f} us')
        for _, name, micros in sorted((f for f in found if f[0] == 'node'), key=lambda f: -float(f[2])):
            bench.note(f'  {float(micros):7.2f} us  {name}')

    def tabulated(program, *arguments, case):
        cases = {}
        for *key, ours, theirs in lines(program, *arguments):
            figures = cases.setdefault(tuple(key), ([], []))
            figures[0].append(float(ours))
            figures[1].append(float(theirs))
        for key, (ours, theirs) in cases.items():
            bench.row(*case(key), ours, theirs, 'us', lower_is_better=True)

    def peer():
        tabulated('gpu_peer', count, case=lambda key: (f'all_reduce/gpu/{name_of(int(key[0]))}/ranks2', 'copy'))

    def micro():
        tabulated('gpu_micro', 256, count, case=lambda key: (f'kernel/{key[0]}', key[1]))

    facts()
    wanted = tuple(os.environ.get('TRIREME_BENCH_ROWS', '').split()) or ('',)
    # what is most wanted comes first: it may take long, and be stopped; the rest goes on where a part fails
    for name, job in (('lenet-gpu/batch256', lambda: lenet(256)),
                      ('resnet18-gpu/bf16', lambda: resnet18(256, 'bf16')),
                      ('gpt-gpu/gpt2', lambda: gpt('gpt2', 16, 'bf16')), ('step/batch256', lambda: nodes(256)),
                      ('all_reduce', peer), ('kernel', micro), ('lenet-gpu/batch32', lambda: lenet(32)),
                      ('step/batch32', lambda: nodes(32)), ('resnet18-gpu/orders', lambda: orders(256)),
                      ('resnet18-gpu/f32', lambda: resnet18(256, 'f32')),
                      ('gpt-gpu/width256', lambda: gpt('width256', 64, 'bf16'))):
        if not name.startswith(wanted):
            continue
        try:
            job()
        except (SystemExit, OSError, subprocess.CalledProcessError, ValueError) as e:
            failed.append(name)
            bench.note(f'{name} failed: {e}')
        bench.save()
    if failed:
        raise SystemExit('not measured: ' + ', '.join(failed))
