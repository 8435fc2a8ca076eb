# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names and arguments that examples/run.sh refuses before it builds anything."""
import pathlib
import subprocess
import sys

from checked_program import CheckedProgram


class Script(CheckedProgram):
    def run(self, *arguments):
        return subprocess.run(['sh', self.path, *arguments], capture_output=True, text=True, check=False, timeout=60)


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
checked.end()
