#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the golden values of residual networks: PyTorch's losses, step by step, and its running statistics.

Rerun as make_golden.py, from which everything but the networks comes; --only NAME makes one of them. resnet18 takes
some ten minutes on one core. The layers are those of "Dive into Deep Learning", chapter 8.6.
"""

import argparse
import pathlib

import numpy as np
import torch
from torch import nn

from make_golden import Residual, load_fashion_mnist, run_values, set_parameters, write


def resnet(widths):
    """A stem and two residuals per width; from the second width on the first of them halves the image."""
    parts = [nn.Sequential(nn.Conv2d(1, widths[0], 3, padding=1), nn.BatchNorm2d(widths[0]), nn.ReLU())]
    before = widths[0]
    for width in widths:
        parts.append(nn.Sequential(Residual(before, width, 1 if width == before else 2), Residual(width, width)))
        before = width
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))


RUNS = {
    "small_resnet": dict(widths=[4, 8, 12], sizes=[64] * 4 + [33, 1, 64, 7, 64, 64, 40, 64] + [64] * 8, lr=0.1),
    "resnet18": dict(widths=[64, 128, 256, 512], sizes=[256] * 20, lr=0.1),
    "resnet18_small_steps": dict(widths=[64, 128, 256, 512], sizes=[256] * 20, lr=0.01),
}


def train(run, data, dtype):
    images, labels = data
    if dtype == torch.float64:  # a product in float64, as on the other side
        images = torch.round(images * 255).double() * (1.0 / 255.0)
    net = set_parameters(resnet(run["widths"])).to(dtype).train()
    sgd = torch.optim.SGD(net.parameters(), lr=float(np.float32(run["lr"])))  # what a float holds
    criterion = nn.CrossEntropyLoss()
    losses, first = [], 0
    for size in run["sizes"]:
        batch = slice(first, first + size)
        first += size
        sgd.zero_grad()
        loss = criterion(net(images[batch].to(dtype)), labels[batch])
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    statistics = [v for name, v in net.state_dict().items() if "running" in name]
    net.eval()
    with torch.no_grad():
        evaluated = criterion(net(images[:256].to(dtype)), labels[:256]).item()
    return losses, torch.stack([statistics[0], statistics[1]]), evaluated


def main():
    parser = argparse.ArgumentParser(description="Makes the golden values of residual networks.")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent)
    parser.add_argument("--only", choices=RUNS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = load_fashion_mnist(options.data)
    for name, run in RUNS.items():
        if options.only not in (None, name):
            continue
        loss64, statistics, evaluated = train(run, data, torch.float64)
        loss32, _, evaluated32 = train(run, data, torch.float32)
        about = (
            f"A residual network of widths {run['widths']}. Step k uses the next batch_sizes[k] Fashion-MNIST training "
            "images in file order; its loss is taken before its update. loss_f64: PyTorch in float64 from the float32 "
            "weights, with pixels in float64. loss_f32: PyTorch in float32. first_statistics: running_mean and "
            "running_var of the first batch norm after the last step. evaluated: the loss of the first 256 training "
            "images then.")
        write(options.out / f"{name}.safetensors", "make_golden_residual.py", about,
              {**run_values(run, loss64, loss32), "first_statistics": statistics.numpy(),
               "evaluated": np.float64(evaluated)})
        apart = [abs(b - a) / abs(a) for a, b in zip(loss64, loss32)]
        print(f"{name}: loss {loss64[0]:.6f} -> {loss64[-1]:.6f}; float32 off by at most {max(apart):.2e} relative, "
              f"evaluation {abs(evaluated32 - evaluated) / evaluated:.2e}; {[f'{a:.1e}' for a in apart]}", flush=True)


if __name__ == "__main__":
    main()
