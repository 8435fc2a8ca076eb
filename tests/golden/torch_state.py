#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that PyTorch reads the weights that Trireme writes, and Trireme those that PyTorch writes, to the last bit.

Run it against the tests of the trainer, which need no PyTorch themselves (some seconds):

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install torch numpy safetensors
    /tmp/golden/bin/python tests/golden/torch_state.py build/dev/tests/test_trainer [--data /usr/share/datasets/fashion-mnist]

1. The program, told a path by TRIREME_TEST_WEIGHTS, trains a small residual network and writes its weights there.
2. They are loaded into PyTorch's module of the same names, resnet([4, 8, 12]) of make_golden_residual.py, with
   strict=True: no tensor is missing, left over or of another shape. The module's tensors are compared with what
   safetensors.torch reads, and its loss on the first 256 training images, in evaluation, with the one that the program
   has written beside the weights: that running statistics and layouts mean the same on both sides.
3. PyTorch saves the module as PATH.torch; both files hold the same tensors, bit for bit. Bytes of the headers may
   differ by the metadata, and do not matter.
4. The program, which sees that PATH.torch exists, loads both files into trainers on one and on two devices, and
   compares all bits.

Made with torch 2.15.0 and safetensors 0.8.0. Exit code 0: all is equal; 1: something is not, and what is printed.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from make_golden import load_fashion_mnist
from make_golden_residual import resnet

TEST_CASE = "PyTorch's files, and those that it reads"


def run(program, path):
    """The program's test case; an error if there is none of that name, for doctest is content with that."""
    done = subprocess.run([program, f"--test-case={TEST_CASE.replace(',', chr(92) + ',')}"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env={**os.environ, "TRIREME_TEST_WEIGHTS": str(path)})
    if done.returncode != 0 or " 1 passed" not in done.stdout:
        sys.exit(f"{program} failed:\n{done.stdout}")


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()


def check_equal(what, a, b):
    wrong = sorted(set(a) ^ set(b)) + sorted(name for name in set(a) & set(b) if not same_bits(a[name], b[name]))
    if wrong:
        sys.exit(f"{what}: {len(wrong)} tensors differ: {', '.join(wrong[:8])}")


def main():
    parser = argparse.ArgumentParser(description="Exchanges weights between Trireme's tests and PyTorch.")
    parser.add_argument("program", help="the trainer's tests, as build/dev/tests/test_trainer")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        ours = pathlib.Path(folder) / "weights.safetensors"
        theirs = ours.with_name(ours.name + ".torch")
        run(options.program, ours)
        if not ours.exists():
            sys.exit(f"{options.program} has written no {ours.name}")
        with safe_open(ours, "pt") as file:
            loss_here = float(file.metadata()["loss"])

        net = resnet([4, 8, 12])
        net.load_state_dict(load_file(ours), strict=True)
        check_equal("what PyTorch has loaded", load_file(ours), dict(net.state_dict()))
        images, labels = load_fashion_mnist(options.data)
        net.eval()
        with torch.no_grad():
            loss_there = nn.CrossEntropyLoss()(net(images[:256]), labels[:256]).item()
        if not abs(loss_there - loss_here) < 1e-4 * loss_here:
            sys.exit(f"evaluation: the loss is {loss_here} here, {loss_there} in PyTorch")

        save_file(net.state_dict(), theirs)
        check_equal("the two files", load_file(ours), load_file(theirs))
        run(options.program, ours)
        state = net.state_dict()
        print(f"{len(state)} tensors, {sum(t.numel() for t in state.values())} values are equal bit for bit there and back; "
              f"loss {loss_here:.6f} here, {loss_there:.6f} in PyTorch")


if __name__ == "__main__":
    main()
