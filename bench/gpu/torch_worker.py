# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A training step in PyTorch on a GPU, as a worker of bench/harness.py: torch_worker.py NETWORK BATCH FEED MODE [DEVICE]

NETWORK  lenet, resnet18, or a GPT: width256 (windows of 256 bytes) or gpt2 (of 1024 tokens of 50,304).

FEED   resident: all images lie on the GPU as floats, and a batch is a piece of them: no time is spent on loading it.
       fed: images are bytes of the host, drawn in a shuffled order into one of two pinned buffers, copied by a stream
       of its own while the step before computes, and converted on the GPU; as Trireme does it. So are tokens.
MODE   eager; compile (torch.compile); autotune (its mode max-autotune-no-cudagraphs); reduce-overhead (its mode that
       makes CUDA graphs); graph (the eager step captured by hand); compile-graph (the compiled one captured by hand).
       Behind it may stand +channels-last and +bf16 (autocast).
DEVICE cuda, or cpu to try the program where there is no GPU; then nothing is captured or copied beside.

TF32 is off, as in Trireme.
"""
import contextlib
import functools
import logging
import pathlib
import sys
import time
import typing

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch_gpt  # noqa: E402
import torch_lenet  # noqa: E402
import torch_resnet18  # noqa: E402

MODES = ('eager', 'compile', 'autotune', 'reduce-overhead', 'graph', 'compile-graph')


def images(count):
    return torch.randint(256, (count, 1, 28, 28), dtype=torch.uint8), torch.randint(10, (count,))


def tokens(context, vocabulary, count):
    drawn = torch.randint(vocabulary, (count * context + 1,), dtype=torch.int32)
    return drawn[:-1].view(count, context).contiguous(), drawn[1:].view(count, context).long()


def pixels_of(x):
    return x.float().div_(255)


def gpt2():
    network = torch_gpt.gpt(12, 768, 12, 1024, 50304, bias=False)
    network[-1].weight = network[0].tokens.weight
    return network


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, fused=True)


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01, fused=True, capturable=True)


class Training(typing.NamedTuple):
    """What a worker trains: the module, the samples on the host, what makes them the module's input, the optimizer."""
    network: typing.Callable
    samples: typing.Callable
    input_of: typing.Callable = pixels_of
    optimizer: typing.Callable = sgd


def of_tokens(network, context, vocabulary, count):
    return Training(network, functools.partial(tokens, context, vocabulary, count), lambda x: x, adamw)


TRAININGS = {
    'lenet': Training(torch_lenet.lenet, functools.partial(images, 61440)),
    'resnet18': Training(torch_resnet18.resnet18, functools.partial(images, 16384)),
    'width256': of_tokens(functools.partial(torch_gpt.gpt, 6, 256, 8, 256), 256, 256, 4096),
    'gpt2': of_tokens(gpt2, 1024, 50304, 128),
}


class Work:
    def __init__(self, network, batch, feed, mode, device):
        training = TRAININGS[network]
        mode, *ways = mode.split('+')
        self.bf16 = 'bf16' in ways
        self.format = torch.channels_last if 'channels-last' in ways else torch.contiguous_format
        self.batch, self.fed, self.device = batch, feed == 'fed', torch.device(device)
        self.on_gpu = self.device.type == 'cuda'
        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        self.model = training.network().to(self.device, memory_format=self.format)
        self.optimizer = training.optimizer(self.model.parameters())
        self.input_of = training.input_of
        self.data = training.samples()
        self.count = len(self.data[0])
        if self.fed:
            self.order = torch.randperm(self.count)
            self.host = [tuple(torch.empty((batch, *t.shape[1:]), dtype=t.dtype, pin_memory=self.on_gpu)
                               for t in self.data) for _ in range(2)]
            self.slots = [tuple(t.to(self.device, copy=True) for t in pair) for pair in self.host]
        else:
            x, labels = (t.to(self.device) for t in self.data)
            self.data = self.input_of(x).contiguous(), labels
            self.slots = [tuple(t[:batch].clone() for t in self.data)]
        if self.on_gpu:
            self.copies = torch.cuda.Stream()
            self.copied = [torch.cuda.Event() for _ in self.slots]
            self.used = [torch.cuda.Event() for _ in self.slots]
        self.place = self.steps = 0
        forward = {'compile': {}, 'compile-graph': {}, 'autotune': {'mode': 'max-autotune-no-cudagraphs'},
                   'reduce-overhead': {'mode': 'reduce-overhead'}}.get(mode)
        self.forward = self.model if forward is None else torch.compile(self.model, **forward)
        self.graphs = None
        self.mark = torch.compiler.cudagraph_mark_step_begin if mode == 'reduce-overhead' else None
        if mode in ('graph', 'compile-graph') and self.on_gpu:
            self.capture()

    def train(self, x, labels):
        if self.mark:
            self.mark()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            x = self.input_of(x) if self.fed else x
            x = x.contiguous(memory_format=self.format) if x.dim() == 4 else x
            loss = nn.functional.cross_entropy(self.forward(x).flatten(0, -2), labels.flatten())
        loss.backward()
        self.optimizer.step()
        return loss

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(5):
                self.train(*self.slots[0])
        torch.cuda.current_stream().wait_stream(side)
        self.graphs, self.losses = [], []
        for slot in self.slots:
            graph = torch.cuda.CUDAGraph()
            self.optimizer.zero_grad(set_to_none=True)
            with torch.cuda.graph(graph):
                self.losses.append(self.train(*slot))
            self.graphs.append(graph)

    def next_batch(self):
        """Slot and tensors of the next batch, on their way at least."""
        begin = self.place
        self.place = begin + self.batch if begin + 2 * self.batch <= self.count else 0
        if not self.fed:
            part = slice(begin, begin + self.batch)
            return 0, tuple(t[part] for t in self.data)
        slot = self.steps % 2
        if self.on_gpu:
            self.copied[slot].synchronize()  # the buffer of the host may be written again
        which = self.order[begin:begin + self.batch]
        for all_of, to in zip(self.data, self.host[slot]):
            torch.index_select(all_of, 0, which, out=to)
        with torch.cuda.stream(self.copies) if self.on_gpu else contextlib.nullcontext():
            if self.on_gpu:
                self.copies.wait_event(self.used[slot])
            for to, source in zip(self.slots[slot], self.host[slot]):
                to.copy_(source, non_blocking=True)
            if self.on_gpu:
                self.copied[slot].record(self.copies)
        return slot, self.slots[slot]

    def step(self):
        slot, (x, labels) = self.next_batch()
        self.steps += 1
        if self.fed and self.on_gpu:
            torch.cuda.current_stream().wait_event(self.copied[slot])
        if self.graphs is not None:
            if not self.fed:  # the graph reads one place
                self.slots[0][0].copy_(x)
                self.slots[0][1].copy_(labels)
            self.graphs[slot].replay()
            loss = self.losses[slot]
        else:
            loss = self.train(x, labels)
        if self.fed and self.on_gpu:
            self.used[slot].record()
        return loss

    def run(self, n):
        """Seconds for n steps."""
        if self.on_gpu:
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(n):
            loss = self.step()
        loss.item()
        return time.perf_counter() - start


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    network, batch, feed, mode = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    known, *ways = mode.split('+')
    if (network not in TRAININGS or feed not in ('resident', 'fed') or known not in MODES
            or not set(ways) <= {'channels-last', 'bf16'}):
        sys.exit(__doc__)
    torch._logging.set_logs(all=logging.ERROR)
    work = Work(network, batch, feed, mode, sys.argv[5] if len(sys.argv) > 5 else 'cuda')
    work.run(20)
    per_second = 50 / work.run(50)
    print('ready', f'PyTorch {torch.__version__}', flush=True)
    for line in sys.stdin:
        n = max(1, round(float(line) * per_second))
        seconds = work.run(n)
        per_second = n / seconds
        print(n * batch / seconds, flush=True)


if __name__ == '__main__':
    main()
