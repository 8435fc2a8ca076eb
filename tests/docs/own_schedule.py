# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes the slashes from the line of examples/own_schedule.cpp that does not compile, and compares what the compiler says
with the comment below it: one error, and every part of the comment between "...".

own_schedule.py SOURCE_ROOT -- COMPILER [FLAGS]
"""
import os
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(sys.argv[1])
sys.path.append(str(root / 'tests' / 'support'))
import passed  # noqa: E402
from checks import ends  # noqa: E402

command = sys.argv[sys.argv.index('--') + 1:]
program = (root / 'examples/own_schedule.cpp').read_text(encoding='utf-8')
found = re.search(r'^// (constexpr auto never [^\n]*)\n((?:// [^\n]+\n)+)', program, flags=re.M)
if not found:
    sys.exit('examples/own_schedule.cpp: there is no line "// constexpr auto never ..." with a comment below it')
told = ' '.join(re.sub(r'^// ', '', found[2], flags=re.M).split())
wrong = program[:found.start()] + found[1] + '\n' + program[found.end(2):]
parts = [part.strip() for part in told.split('...')]

known = passed.of(command, root, pathlib.Path(__file__).read_bytes(), wrong, *parts,
                  *(path.read_bytes() for path in sorted((root / 'include').rglob('*.hpp'))))
faults = []
if not known.knows():
    done = subprocess.run([*command, '-fsyntax-only', '-fdiagnostics-color=never', '-x', 'c++', '-'], input=wrong,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace',
                          env={**os.environ, 'LC_ALL': 'C'}, check=False)
    flat = ' '.join(done.stdout.split())
    errors = len(re.findall(r'(?:^|: )(?:fatal )?error: ', done.stdout, re.M))
    if done.returncode == 0 or errors != 1:
        faults.append(f'the line without its slashes has {errors} errors, not one')
    faults += [f'the comment says "{part}", the compiler does not' for part in parts if part not in flat]
    if faults:
        print(done.stdout[:3000])
    else:
        known.note()
sys.exit(ends(faults, len(parts) + 1))
