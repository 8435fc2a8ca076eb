#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the golden values of trainings that clip gradients, follow a rate and have an optimizer with state, all at
once: PyTorch's losses and norms, step by step, and its last weights, in float64.

Rerun as make_golden.py, from which everything but the trainings comes; it takes seconds. The network is linear 8, Tanh,
linear 5, on samples of 6 numbers. Options are numbers that a float32 holds; so are the rates of the steps, each of
which is PyTorch's, rounded once.
"""

import argparse
import pathlib

import numpy as np
import torch
from torch import nn

from make_golden import hashed, set_parameters, write

SIZES, RATE, MOST_NORM = [12, 12, 5, 12, 1, 12], 0.0625, 1.0
COSINE = dict(steps=6, warm_up=2, least=0.125)
KINDS = {
    "adam": (torch.optim.Adam, dict(betas=(0.75, 0.875), eps=2.0**-10, weight_decay=0.125)),
    "adamw": (torch.optim.AdamW, dict(betas=(0.75, 0.875), eps=2.0**-10, weight_decay=0.125)),
    "rmsprop": (torch.optim.RMSprop, dict(alpha=0.75, eps=2.0**-10, weight_decay=0.125)),
    "rmsprop_momentum": (torch.optim.RMSprop, dict(alpha=0.75, eps=2.0**-10, momentum=0.5, weight_decay=0.125)),
    "adagrad": (torch.optim.Adagrad,
                dict(lr_decay=0.5, initial_accumulator_value=0.25, eps=2.0**-10, weight_decay=0.125)),
}


def rates():
    """The learning rate of each step, rounded to float32."""
    schedules, warm_up = torch.optim.lr_scheduler, COSINE["warm_up"]
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE)
    schedule = schedules.SequentialLR(optimizer, milestones=[warm_up], schedulers=[
        schedules.LinearLR(optimizer, 1 / warm_up, total_iters=warm_up - 1),
        schedules.CosineAnnealingLR(optimizer, COSINE["steps"] - warm_up, COSINE["least"] * RATE)])
    found = []
    for _ in SIZES:
        found.append(float(np.float32(optimizer.param_groups[0]["lr"])))
        optimizer.step()
        schedule.step()
    return found


def train(kind, options, x, labels):
    """Losses and norms of the gradients, each before its step's update, and the weights after the last."""
    net = set_parameters(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5))).double()
    optimizer = kind(net.parameters(), lr=RATE, **options)
    losses, norms, first = [], [], 0
    for size, rate in zip(SIZES, rates()):
        batch = slice(first, first + size)
        first += size
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        loss = nn.CrossEntropyLoss()(net(x[batch]), labels[batch])
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(net.parameters(), MOST_NORM).item())
        optimizer.step()
        losses.append(loss.item())
    return {"losses": np.array(losses), "norms": np.array(norms),
            "weights": torch.cat([p.detach().flatten() for p in net.parameters()]).numpy()}


def main():
    parser = argparse.ArgumentParser(description="Makes the golden values of trainings with all options.")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    x = hashed(460, (sum(SIZES), 6), 4.0).double()
    labels = ((hashed(461, (sum(SIZES),)).double() + 1) * 2.5).long()
    tensors = {"batch_sizes": np.array(SIZES, np.int64), "labels": labels.numpy(), "rates": np.array(rates())}
    for name, (kind, of_kind) in KINDS.items():
        found = train(kind, of_kind, x, labels)
        tensors |= {f"{name}.{key}": values for key, values in found.items()}
        print(f"{name}: losses {found['losses'].round(3)}, norms {found['norms'].round(3)}")
    about = (
        "Trainings of linear 8, Tanh, linear 5 in float64 from float32 weights. Step k uses the next batch_sizes[k] "
        "samples: 6 numbers each of hash tensor 460, bound 4, and a label here; its loss and the norm of its gradient "
        f"are taken before the gradient is clipped to {MOST_NORM} and used. The rate {RATE} rises in "
        f"{COSINE['warm_up']} steps and falls along half a cosine to {COSINE['least']} of it at step "
        f"{COSINE['steps']}; rates has PyTorch's, rounded to float32. weights are the last ones. Options: "
        + "; ".join(f"{name} {of_kind}" for name, (_, of_kind) in KINDS.items()))
    write(options.out / "trainings.safetensors", "make_golden_trainings.py", about, tensors)


if __name__ == "__main__":
    main()
