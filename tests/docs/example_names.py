# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names, arguments and tools that examples/run.sh refuses before it builds anything."""
import os
import pathlib
import subprocess
import sys

from checked_program import CheckedProgram


class Script(CheckedProgram):
    def run(self, *arguments, **variables):
        return subprocess.run(['sh', self.path, *arguments], capture_output=True, text=True, check=False, timeout=60,
                              env=dict(os.environ, **variables))


checked = Script(pathlib.Path(sys.argv[1]) / 'examples' / 'run.sh')
listed = checked.run('--list')
names = listed.stdout.split()
checked.expect(listed.returncode == 0 and {'lenet', 'gpt', 'puzzles'} <= set(names), f'--list says {listed.stdout}')
checked.expect(not [name for name in names if name.endswith(('_flags', '_mpi'))], f'parts of examples are listed: {names}')
unknown = checked.run('lenett')
checked.expect(unknown.returncode == 2 and "no example 'lenett'" in unknown.stderr
               and unknown.stderr.split()[-len(names):] == names, f'an unknown name: {unknown}')
for name in ('first', 'regression', 'own_schedule'):
    checked.refuses([f'{name} takes no arguments, and was given: --epochs 3'], name, '--epochs', '3')
for meson in ('false', 'true'):
    told = checked.run('regression', MESON=meson, CXX='true')  # a compiler that finds every header: nothing is installed
    checked.expect(told.returncode == 3 and f"'{meson} --version' fails or says nothing" in told.stderr,
                   f'a Meson that is none: {told}')
checked.end()
