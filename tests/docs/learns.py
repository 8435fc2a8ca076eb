# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs an example that trains, and looks at what it has learnt.

learns.py PROGRAM PATTERN LEAST    the last number that PATTERN finds in its output is at least LEAST

Exit codes: 0; 1; 77 where Fashion-MNIST is not, which the example needs.
"""
import pathlib
import re
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
from checks import lacks_fashion_mnist  # noqa: E402

program, pattern, least = sys.argv[1], sys.argv[2], float(sys.argv[3])
ran = subprocess.run([program], capture_output=True, text=True, timeout=550)
print(ran.stdout + ran.stderr, end='')
if lacks_fashion_mnist(ran.stderr):
    sys.exit(77)
numbers = [float(number) for number in re.findall(pattern, ran.stdout)]
if ran.returncode != 0 or not numbers or numbers[-1] < least:
    sys.exit(f'exit code {ran.returncode}, {numbers[-1:]}: 0 and at least {least} are expected')
