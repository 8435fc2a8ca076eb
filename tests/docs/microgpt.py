# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/microgpt on some names: it learns them, invents as many as it is told to, twice the same ones, and refuses what
are no names.

microgpt.py PROGRAM
"""
import pathlib
import re
import sys
import tempfile

from checked_program import CheckedProgram

program = sys.argv[1]
NAMES = ['Ada', 'Alan', 'Barbara', 'Charles', 'Donald', 'Edsger', 'Frances', 'Grace', 'John', 'Kathleen', 'Leslie',
         'Margaret', 'Niklaus', 'Radia', 'Tony', 'Maximilianatheodoralexandra']
checked = CheckedProgram(program)
expect, run, refuses = checked.expect, checked.run, checked.refuses

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    text = folder / 'names'
    text.write_text('\n'.join(NAMES) + '\n\n')
    done = run('--text', text, '--steps', 600, '--names', 30)
    expect(done.returncode == 0, f'microgpt ends with {done.returncode}: {done.stderr}')
    told = done.stdout.splitlines()
    expect(told[0] == '16 names, 4192 parameters', f'it begins with {told[0]}')
    losses = [float(re.search(r'loss ([\d.]+)', line)[1]) for line in told if line.startswith('step')]
    expect(len(losses) == 6 and losses[0] > 2 and losses[-1] < 1.2, f'it does not learn: {losses}')
    invented = told[told.index('') + 1:]
    expect(len(invented) == 30 and all(re.fullmatch('[a-z]{0,16}', word) for word in invented), f'no names: {invented}')
    learnt = {word.lower()[:16] for word in NAMES}
    expect(len(learnt & set(invented)) >= 5, f'sixteen names are not learnt by heart: {invented}')
    again = run('--text', text, '--steps', 600, '--names', 30).stdout.splitlines()
    expect(again[again.index('') + 1:] == invented, 'two runs invent other names')
    expect(run('--text', text, '--steps', 50, '--seed', 2, '--names', 30).stdout.splitlines()[-30:] != invented,
           'two seeds invent alike')

    refuses(['--text FILE is missing', 'sh examples/run.sh microgpt'])
    refuses(['nowhere', 'cannot be opened'], '--text', folder / 'nowhere')
    (folder / 'numbers').write_text('Ada\nR2D2\n')
    refuses(['line 2', 'no letter from a to z', 'byte 5'], '--text', folder / 'numbers')
    (folder / 'empty').write_text('\n\n')
    refuses(['there is no name'], '--text', folder / 'empty')
    for wrong in (['--steps', 0], ['--temperature', 0], ['--names', -1], ['--nonsense'], ['more']):
        refuses(['try --help'], '--text', text, *wrong)
    expect(run('--help').returncode == 0, 'microgpt --help fails')

checked.end()
