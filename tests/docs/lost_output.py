# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An example says so, and ends with 3, if what it prints cannot be written.

lost_output.py PROGRAM ARGUMENTS...
"""
import pathlib
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
from checks import Checks  # noqa: E402

checks = Checks()
with open('/dev/full', 'w', encoding='utf-8') as full:
    done = subprocess.run(sys.argv[1:], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
checks.expect(done.returncode == 3 and done.stderr.count('standard output: writing failed') == 1,
              f'exit code {done.returncode}, not 3, with: {done.stderr}')
checks.end()
