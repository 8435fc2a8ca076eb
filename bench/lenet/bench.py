# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LeNet's training step beside PyTorch's, DistributedDataParallel's and dlib's, one thread per device; and its outputs.

lenet/batchB/devicesN  samples/s at the global batch B
speedup/batchB         the same global batch on two devices and on one
weak/batchB            batch 2 B on two devices and B on one
lenet/samplesN/devicesD  a batch of N on D devices, beside ours of 16 on one device
predict/lenet/batchB/devices1  samples/s of outputs alone: our model, PyTorch in inference mode

PyTorch runs in the fastest of its modes, chosen by a first measurement of each; the mode stands in the row. Its data and
dlib's are float tensors that are ready in memory; ours are bytes, gathered in a shuffled order and converted in the step.
"""
import contextlib
import pathlib

folder = pathlib.Path(__file__).resolve().parent
modes = ['eager', 'channels-last', 'compile', 'channels-last-compile']


def run(bench):
    count, seconds = (3, 0.2) if bench.quick else (11, 0.6)

    def trireme(batch, devices):
        return bench.worker(bench.program('lenet_trireme'), batch, devices)

    def torch(batch, devices, mode):
        return bench.worker(bench.peers / 'bin/python3', folder / 'torch_worker.py', mode, batch, devices)

    def fastest_torch(batch, devices):
        """The mode that is fastest here."""
        return bench.fastest(f'PyTorch, batch {batch}, {devices} device(s), samples/s', modes,
                             lambda mode: torch(batch, devices, mode), seconds, warm_up=1, measurements=3)

    def group(batch):
        """All rows of one batch size: every contender takes its turn in every round."""
        alone, together = fastest_torch(batch, 1), fastest_torch(batch, 2) if batch > 1 else None
        with contextlib.ExitStack() as stack:
            start = stack.enter_context
            ours = {'one': start(trireme(batch, 1))}
            theirs = {'one': start(torch(batch, 1, alone))}
            if batch > 1:
                ours |= {'two': start(trireme(batch, 2)), 'weak': start(trireme(2 * batch, 2))}
                theirs |= {'two': start(torch(batch, 2, together)), 'weak': start(torch(2 * batch, 2, together))}
            if batch in (1, 256):
                theirs['dlib'] = start(bench.worker(bench.program('lenet_dlib'), batch))
            names = [('ours', k) for k in ours] + [('theirs', k) for k in theirs]
            workers = list(ours.values()) + list(theirs.values())
            before = bench.cores()
            table = bench.rounds(workers, count, seconds)
            bench.note(f'batch {batch}: two threads do the arithmetic of {before:.2f} before, of {bench.cores():.2f} after')
        figure = {name: [line[i] for line in table] for i, name in enumerate(names)}

        def quotient(whose, above):
            return [a / b for a, b in zip(figure[whose, above], figure[whose, 'one'])]

        one_device = f'lenet/batch{batch}/devices1'
        bench.row(one_device, 'torch', figure['ours', 'one'], figure['theirs', 'one'], 'samples/s', mode=alone)
        if 'dlib' in theirs:
            bench.row(one_device, 'dlib', figure['ours', 'one'], figure['theirs', 'dlib'], 'samples/s')
        if batch > 1:
            bench.row(f'lenet/batch{batch}/devices2', 'torch-ddp', figure['ours', 'two'], figure['theirs', 'two'],
                      'samples/s', mode=together)
            for case, key in (('speedup', 'two'), ('weak', 'weak')):
                bench.row(f'{case}/batch{batch}', 'torch-ddp', quotient('ours', key), quotient('theirs', key), 'x',
                          mode=together)

    def few_samples():
        """Numbers of samples up to two granules, in turn, each beside one granule on one device."""
        cases = [(samples, devices) for samples in (1, 2, 4, 8, 12, 16, 24, 32) for devices in (1, 2)
                 if samples >= devices]
        figure = dict(zip(cases, bench.columns([trireme(*case) for case in cases], count, seconds)))
        for samples, devices in cases:
            bench.row(f'lenet/samples{samples}/devices{devices}', 'ours of 16', figure[samples, devices], figure[16, 1],
                      'samples/s')

    def predictions(batch):
        mode = bench.fastest(f'PyTorch, outputs of batch {batch}, samples/s',
                             [*modes, 'channels-last-compile', 'freeze'],
                             lambda mode: torch(batch, 1, 'predict-' + mode), seconds, warm_up=1, measurements=3)
        ours, theirs = bench.columns([bench.worker(bench.program('lenet_predict'), batch),
                                      torch(batch, 1, 'predict-' + mode)], count, seconds)
        bench.row(f'predict/lenet/batch{batch}/devices1', 'torch', ours, theirs, 'samples/s', mode=mode)

    for batch in (256, 64, 2, 1):
        group(batch)
    few_samples()
    for batch in (256, 1):
        predictions(batch)
