# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the training that is written by hand and the one with Trireme, and compares the losses they print.

by_hand.py BY_HAND BY_HAND_WITH_TRIREME

Sums are taken in another order, so the losses are equal within 1e-4, relative. Skipped (77) where the data is missing.
"""
import pathlib
import re
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
from checks import lacks_fashion_mnist  # noqa: E402

LOSS = re.compile(r'^step (\d+) loss (\S+)$', re.M)


def losses(program):
    ran = subprocess.run([program], capture_output=True, text=True, timeout=300)
    if ran.returncode != 0:
        print(f'{program} ended with {ran.returncode}: {ran.stderr.strip()}')
        sys.exit(77 if lacks_fashion_mnist(ran.stderr) else 1)
    return [(int(step), float(loss)) for step, loss in LOSS.findall(ran.stdout)]


by_hand, with_trireme = map(losses, sys.argv[1:3])
equal = len(by_hand) == len(with_trireme) >= 10
for (step, a), (other, b) in zip(by_hand, with_trireme):
    close = step == other and abs(a - b) <= 1e-4 * abs(a)
    equal = equal and close
    print(f'step {step}: {a:.6f} by hand, {b:.6f} with Trireme' + ('' if close else '  <- not equal'))
if not equal:
    print(f'{len(by_hand)} and {len(with_trireme)} losses, at least 10 of each are wanted, and all equal')
sys.exit(0 if equal else 1)
