# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the pictures and the table of docs/pipelines.md with those that examples/pipelines makes, and tries what it
refuses.

pipelines.py SOURCE_ROOT PIPELINES [--mend]    --mend writes them

The pictures are docs/pictures/pipelines/*.svg; the table stands between <!-- prices --> and <!-- /prices -->.
"""
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from gallery import gallery  # noqa: E402


def run(program, *arguments):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def drawn(program):
    """The pictures by name, and the table."""
    with tempfile.TemporaryDirectory() as folder:
        there = pathlib.Path(folder) / 'not' / 'there yet'
        ran = run(program, '--svg', there)
        if ran.returncode != 0:
            sys.exit(f'{program} ended with {ran.returncode}: {ran.stderr.strip()}')
        index = (there / 'index.md').read_text(encoding='utf-8')
        if ran.stdout not in index:
            sys.exit(f'{program}: the table in index.md is not the one that it prints')
        pictures = {path.name: path.read_bytes() for path in there.glob('*.svg')}
        unnamed = [name for name in pictures if f']({name})' not in index]
        if unnamed:
            sys.exit(f'{program}: index.md does not show {", ".join(unnamed)}')
        return pictures, ran.stdout


def refusals(program):
    """A file that cannot be written, and wrong flags, end it with 2 and one sentence, before anything else."""
    with tempfile.TemporaryDirectory() as folder:
        file, taken = pathlib.Path(folder) / 'file', pathlib.Path(folder) / 'taken'
        file.write_text('')
        (taken / 'v_min.svg').mkdir(parents=True)
        for arguments in (('--svg', file), ('--svg', file / 'below'), ('--svg', taken), ('--stages', 0),
                          ('--micro-batches', 129), ('--stages', '2x'), ('--svg', '')):
            ran = run(program, *arguments)
            told = shlex.join(map(str, ('pipelines', *arguments)))
            if ran.returncode != 2 or ran.stdout or not re.fullmatch(r'pipelines: [^\n]+\n', ran.stderr):
                yield f'{told} ended with {ran.returncode}: {ran.stdout[:200]}{ran.stderr[:200]}'
    with tempfile.TemporaryDirectory() as folder: # one schedule cannot do with so few
        small = run(program, '--stages', 3, '--micro-batches', 1, '--svg', folder)
        if small.returncode != 0 or small.stdout.count('needs more micro-batches') != 1:
            yield f'three stages and one micro-batch: {small.returncode}, {small.stdout}{small.stderr}'
        for path in pathlib.Path(folder).glob('*.svg'):
            if not path.read_text(encoding='utf-8').endswith('</svg>\n'):
                yield f'three stages and one micro-batch: {path.name} is no picture'


root, program = pathlib.Path(sys.argv[1]), sys.argv[2]
page = gallery(root, 'docs/pipelines.md', 'pictures/pipelines', '*.svg', 'prices')
faults = page.compare(sys.argv, *drawn(program))
faults += refusals(program)
print('\n'.join([*faults, f'{0 if faults else 1} passed, {len(faults)} failed']))
sys.exit(1 if faults else 0)
