# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A network's training step in PyTorch, as a worker of bench/harness.py: what a benchmark's torch_worker.py calls.

torch_worker.py MODE BATCH DEVICES. MODE is eager, channels-last, compile or channels-last-compile, -bf16 behind it for
autocast to bfloat16; predict- before it (also predict-freeze) for outputs alone, in inference mode. With more than one device every device is a process of one thread, joined by
Training.replicas over Gloo, and BATCH is the global batch. The data is ready in memory as tensors in the layout
that the mode wants: no time is spent on loading it.
"""
import functools
import logging
import os
import random
import sys
import time
import typing

import torch
from torch import nn


def images(count):
    """Images of 28 x 28 and their labels."""
    return torch.rand(count, 1, 28, 28), torch.randint(10, (count,))


class Training(typing.NamedTuple):
    """What a worker trains: `network()` makes the module and `data()` the inputs and targets, which are drawn batch by
    batch; `warm_up` steps come first. `replicas(module)` joins the processes' modules."""
    network: typing.Callable
    data: typing.Callable
    warm_up: int = 10
    loss_of: typing.Callable = nn.functional.cross_entropy
    optimizer: typing.Callable = functools.partial(torch.optim.SGD, lr=0.1, fused=True)
    replicas: typing.Callable = nn.parallel.DistributedDataParallel


def stepper(training, mode, batch, rank, devices):
    """A function that trains one step and returns the loss."""
    torch.manual_seed(0)
    x, targets = training.data()
    model = training.network()
    if 'channels-last' in mode:
        x, model = x.to(memory_format=torch.channels_last), model.to(memory_format=torch.channels_last)
    if devices > 1:
        model = training.replicas(model)
    if 'compile' in mode:
        model = torch.compile(model)
    optimizer = training.optimizer(model.parameters())
    share = batch // devices
    place = rank * share

    def step():
        nonlocal place
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast('cpu', dtype=torch.bfloat16, enabled='bf16' in mode):
            loss = training.loss_of(model(x[place:place + share]), targets[place:place + share])
        loss.backward()
        optimizer.step()
        place = place + batch if place + 2 * batch <= len(x) else rank * share
        return loss

    return step


def predictor(training, mode, batch):
    """A function that tells the outputs of the next batch."""
    torch.manual_seed(0)
    x, model = training.data()[0], training.network().eval()
    if 'channels-last' in mode:
        x, model = x.to(memory_format=torch.channels_last), model.to(memory_format=torch.channels_last)
    if 'compile' in mode:
        model = torch.compile(model)
    if 'freeze' in mode:
        model = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(model, x[:batch])))
    batches, place = x.split(batch), -1

    def step():
        nonlocal place
        place = (place + 1) % (len(x) // batch)
        with torch.inference_mode():
            return model(batches[place])[0, 0]

    return step


def number_of_first(devices):
    """A function that returns rank 0's number on every rank."""
    request = torch.zeros(1)

    def number(n):
        request[0] = n
        if devices > 1:
            torch.distributed.broadcast(request, 0)
        return int(request.item())

    return number


def answer(step, batch, warm_up, rank, devices):
    """The dialogue of a worker: `step()` trains one step and returns its loss, if this rank has it. Every rank calls it."""
    steps_of_request = number_of_first(devices)
    if rank != 0:
        while (n := steps_of_request(0)) > 0:
            for _ in range(n):
                step()
        return
    for _ in range(steps_of_request(warm_up)):
        step()
    start, n = time.perf_counter(), steps_of_request(2 * warm_up)
    for _ in range(n):
        step()
    per_second = n / (time.perf_counter() - start)
    print('ready', f'PyTorch {torch.__version__.split("+")[0]}', flush=True)
    for line in sys.stdin:
        n = steps_of_request(max(1, round(float(line) * per_second)))
        start = time.perf_counter()
        for _ in range(n):
            loss = step()
        if loss is not None:
            loss.item()
        seconds = time.perf_counter() - start
        per_second = n / seconds
        print(n * batch / seconds, flush=True)
    steps_of_request(0)


def begin(rank, devices):
    """One thread for each rank, and a group of them."""
    torch.set_num_threads(1)
    torch._logging.set_logs(all=logging.ERROR)  # else torch.compile tells of the CUDA that is not there
    if devices > 1:
        torch.distributed.init_process_group('gloo', rank=rank, world_size=devices)


def work(training, mode, batch, rank, devices):
    begin(rank, devices)
    if mode.startswith('predict-'):
        step = predictor(training, mode, batch)
    else:
        step = stepper(training, mode, batch, rank, devices)
    answer(step, batch, training.warm_up, rank, devices)


def on_ranks(work, devices, *arguments):
    """work(*arguments, rank, devices) in a process for each rank; this one is rank 0."""
    if devices > 1:
        os.environ.setdefault('MASTER_ADDR', '127.0.0.1')
        os.environ.setdefault('MASTER_PORT', str(random.randint(20000, 60000)))
        os.environ['GLOO_SOCKET_IFNAME'] = 'lo'
        context = torch.multiprocessing.get_context('spawn')
        for rank in range(1, devices):
            context.Process(target=work, args=(*arguments, rank, devices), daemon=True).start()
    work(*arguments, 0, devices)


def main(training):
    mode, batch, devices = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    on_ranks(work, devices, training, mode, batch)
