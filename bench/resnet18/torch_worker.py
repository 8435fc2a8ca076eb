# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ResNet-18 in PyTorch, as a worker of bench/harness.py; bench/torch_steps.py says how it is called."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch_resnet18  # noqa: E402
import torch_steps  # noqa: E402

if __name__ == '__main__':
    torch_steps.main(torch_resnet18.TRAINING)
