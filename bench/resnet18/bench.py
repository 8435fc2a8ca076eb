# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ResNet-18's training step beside PyTorch's and DistributedDataParallel's, one thread per device.

resnet18/f32/batchB/devicesN  images/s at the global batch B
resnet18-onednn/...           the same with kernels<onednn>, where the build has found oneDNN
resnet18/bf16/...             kernels<onednn> and precision<bf16> beside PyTorch's autocast, likewise
speedup/resnet18/batchB       the same global batch on two devices and on one

PyTorch runs in the fastest of its modes, chosen by a first measurement of each; the mode stands in the row.
"""
import contextlib
import pathlib

folder = pathlib.Path(__file__).resolve().parent
modes = ['eager', 'channels-last', 'compile', 'channels-last-compile']


def run(bench):
    count = 3 if bench.quick else 7

    def trireme(batch, devices, program='resnet18_trireme'):
        return bench.worker(bench.program(program), batch, devices)

    def torch(batch, devices, mode):
        return bench.worker(bench.peers / 'bin/python3', folder / 'torch_worker.py', mode, batch, devices)

    def fastest_torch(batch, devices, precision=''):
        """The mode that is fastest here."""
        return bench.fastest(f'PyTorch, batch {batch}, {devices} device(s), images/s', [m + precision for m in modes],
                             lambda mode: torch(batch, devices, mode), batch / 20)

    alone, together = fastest_torch(128, 1), fastest_torch(256, 2)

    def beside_torch(case, peer, batch, devices, mode, program='resnet18_trireme'):
        ours, theirs = bench.columns([trireme(batch, devices, program), torch(batch, devices, mode)], count,
                                     batch / 40 / devices)
        bench.row(case, peer, ours, theirs, 'images/s', mode=mode)
        bench.save()

    beside_torch('resnet18/f32/batch128/devices1', 'torch', 128, 1, alone)
    if pathlib.Path(bench.program('resnet18_onednn')).exists():
        beside_torch('resnet18-onednn/f32/batch128/devices1', 'torch', 128, 1, alone, 'resnet18_onednn')
        for batch, devices, peer in ((128, 1, 'torch'), (256, 2, 'torch-ddp')):
            beside_torch(f'resnet18/bf16/batch{batch}/devices{devices}', peer, batch, devices,
                         fastest_torch(batch, devices, '-bf16'), 'resnet18_bf16')
    beside_torch('resnet18/f32/batch256/devices2', 'torch-ddp', 256, 2, together)
    beside_torch('resnet18/f32/batch64/devices2', 'torch-ddp', 64, 2, together)

    for batch in (256, 64):
        with contextlib.ExitStack() as stack:
            workers = [stack.enter_context(w) for w in (trireme(batch, 1), trireme(batch, 2),
                                                        torch(batch, 1, alone), torch(batch, 2, together))]
            before = bench.cores()
            table = bench.rounds(workers, count, batch / 60)
            bench.note(f'batch {batch}: two threads do the arithmetic of {before:.2f} before, of {bench.cores():.2f} after')
        bench.row(f'speedup/resnet18/batch{batch}', 'torch-ddp', [two / one for one, two, _, _ in table],
                  [two / one for _, _, one, two in table], 'x', mode=together)
        bench.save()
