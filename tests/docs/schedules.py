# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the pictures and the table of docs/schedules.md with those that examples/draw_schedules makes.

schedules.py SOURCE_ROOT DRAW_SCHEDULES [--mend]    --mend writes them

The pictures are docs/pictures/schedule-*.svg; the table stands between <!-- costs --> and <!-- /costs -->.
"""
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

TABLE = re.compile(r'(?<=^<!-- costs -->\n).*?(?=^<!-- /costs -->$)', re.M | re.S)


def drawn(program):
    """The pictures by name, and the table."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run([program, folder], capture_output=True, text=True, timeout=300)
        if ran.returncode != 0:
            sys.exit(f'{program} ended with {ran.returncode}: {ran.stderr.strip()}')
        return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}, ran.stdout


def complaints(pictures, folder, page, table):
    there = {path.name: path for path in folder.glob('schedule-*.svg')}
    for name in sorted(pictures.keys() - there.keys()):
        yield f'docs/pictures/{name} is missing'
    for name in sorted(there.keys() - pictures.keys()):
        yield f'docs/pictures/{name} is left over'
    for name in sorted(there.keys() & pictures.keys()):
        if there[name].read_bytes() != pictures[name]:
            yield f'docs/pictures/{name} differs from the schedule'
    text = page.read_text(encoding='utf-8')
    if TABLE.findall(text) != [table]:
        yield 'docs/schedules.md: the table of costs differs from that of the schedules'
    for name in sorted(pictures):
        if f'](pictures/{name})' not in text:
            yield f'docs/schedules.md does not show pictures/{name}'


def mend(pictures, folder, page, table):
    for path in folder.glob('schedule-*.svg'):
        path.unlink()
    for name, picture in pictures.items():
        (folder / name).write_bytes(picture)
    page.write_text(TABLE.sub(lambda _: table, page.read_text(encoding='utf-8')), encoding='utf-8')


root, program = pathlib.Path(sys.argv[1]), sys.argv[2]
pictures, table = drawn(program)
where = root / 'docs/pictures', root / 'docs/schedules.md', table
if '--mend' in sys.argv:
    mend(pictures, *where)
faults = list(complaints(pictures, *where))
if faults:
    script = root / 'tests/docs/schedules.py'
    faults.append('to mend: ' + shlex.join(['python3', str(script), str(root), program, '--mend']))
print('\n'.join([*faults, f'{0 if faults else 1} passed, {max(0, len(faults) - 1)} failed']))
sys.exit(1 if faults else 0)
