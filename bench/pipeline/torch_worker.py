# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A training step in two stages by torch.distributed.pipelining, as a worker of bench/harness.py:

torch_worker.py NETWORK SCHEDULE MODE BATCH MICRO_BATCHES CUT

Two processes of one thread each, joined by Gloo. CUT is the module of the network with which the second stage begins.
MODE is eager, channels-last, compile or channels-last-compile. The data is ready in memory as tensors.
"""
import functools
import pathlib
import sys

import torch
from torch import nn
from torch.distributed import pipelining

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch_gpt  # noqa: E402
import torch_lenet  # noqa: E402
import torch_resnet18  # noqa: E402
import torch_steps  # noqa: E402

NETWORKS = {'gpt': torch_gpt.TRAININGS['width128'],
            **{name: training._replace(optimizer=functools.partial(torch.optim.SGD, lr=0.01, fused=True))
               for name, training in (('lenet', torch_lenet.TRAINING), ('resnet18', torch_resnet18.TRAINING))}}
SCHEDULES = {'gpipe': pipelining.ScheduleGPipe, '1f1b': pipelining.Schedule1F1B}


class Arrives(torch.autograd.Function):
    """Gives what arrives the layout that a stage computes with; the gradient that leaves is contiguous."""
    @staticmethod
    def forward(ctx, x, layout):
        return x.contiguous(memory_format=layout)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.contiguous(), None


class Stage(nn.Module):
    """A part of a network in one of its modes. Gloo sends only what is contiguous."""
    def __init__(self, part, mode):
        super().__init__()
        self.layout = torch.channels_last if 'channels-last' in mode else torch.contiguous_format
        self.part = part.to(memory_format=self.layout)
        self.run = torch.compile(part) if 'compile' in mode else part

    def forward(self, x):
        return self.run(Arrives.apply(x, self.layout)).contiguous()


def work(name, schedule, mode, batch, micro_batches, cut, rank, devices):
    torch_steps.begin(rank, devices)
    torch.manual_seed(0)
    training = NETWORKS[name]
    x, targets = training.data()
    network = training.network()
    part = Stage(network[:cut] if rank == 0 else network[cut:], mode)
    optimizer = training.optimizer(part.part.parameters())
    stage = pipelining.PipelineStage(part, rank, devices, torch.device('cpu'))
    runs = SCHEDULES[schedule](stage, micro_batches, loss_fn=training.loss_of)
    place = 0

    def step():
        nonlocal place
        optimizer.zero_grad(set_to_none=True)
        if rank == 0:
            runs.step(x[place:place + batch])
        else:
            runs.step(target=targets[place:place + batch])
        optimizer.step()
        place = place + batch if place + 2 * batch <= len(x) else 0

    torch_steps.answer(step, batch, training.warm_up, rank, devices)


if __name__ == '__main__':
    torch_steps.on_ranks(work, 2, *sys.argv[1:4], *map(int, sys.argv[4:7]))
