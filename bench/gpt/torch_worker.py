# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A GPT in PyTorch, as a worker of bench/harness.py: torch_worker.py NETWORK, and what bench/torch_steps.py says."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch_gpt  # noqa: E402
import torch_steps  # noqa: E402

if __name__ == '__main__':
    torch_steps.main(torch_gpt.TRAININGS[sys.argv.pop(1)])
