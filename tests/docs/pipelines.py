# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the pictures and the table of docs/pipelines.md with those that examples/pipelines makes, and tries what it
refuses. The pipeline that the guide shows by hand is that of examples/by_hand_pipeline.cpp.

pipelines.py SOURCE_ROOT PIPELINES [--mend]    --mend writes them

The pictures are docs/pictures/pipelines/*.svg; the table stands between <!-- prices --> and <!-- /prices -->. One more
picture, measured.svg, is of a step that has run, and is another one each time.
"""
import collections
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
import snippets  # noqa: E402
from gallery import gallery  # noqa: E402
from checks import ends  # noqa: E402


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


def measured(svg):
    """A step of eight micro-batches on two roles, as predicted and as it was: each task once in both."""
    wanted = collections.Counter((kind, m, stage) for kind in ('forward', 'backward') for m in range(8)
                                 for stage in (0, 1))
    for part, end in (('predicted', '>measured</text>'), ('measured', '</svg>')):
        begin = svg.find(f'>{part}</text>')
        if begin < 0 or end not in svg[begin:]:
            yield f'measured.svg: nothing is drawn as {part}'
            continue
        there = collections.Counter((kind, int(m), int(stage)) for kind, m, stage, length in re.findall(
            r'<title>(\w+) (\d+), stage (\d+): ([\d.]+) ms', svg[begin:svg.index(end, begin)])
            if kind in ('forward', 'backward') and float(length) > 0)
        if there != wanted:
            yield f'measured.svg: {part} tasks that are missing: {wanted - there}, that are too many: {there - wanted}'


def by_hand(root):
    """The training that the guide compares with the one by hand is the example's, word for word."""
    example = (root / 'examples/by_hand_pipeline.cpp').read_text(encoding='utf-8')
    shown, _ = snippets.regions(root / 'tests/docs/pipelines.cpp')
    if shown.get('concise', '\0') not in example:
        yield 'examples/by_hand_pipeline.cpp does not have the region concise of tests/docs/pipelines.cpp'


def refusals(program):
    """A file that cannot be written, and wrong flags, end it with 2 and one sentence, before anything else."""
    with tempfile.TemporaryDirectory() as folder:
        file, taken = pathlib.Path(folder) / 'file', pathlib.Path(folder) / 'taken'
        file.write_text('')
        (taken / 'v_min.svg').mkdir(parents=True)
        (taken / 'v_min.csv').mkdir()
        wrong, right = pathlib.Path(folder) / 'wrong.csv', pathlib.Path(folder) / 'right.csv'
        wrong.write_text('0F0,0B0\n1F0,1X0\n')
        right.write_text('0F0,0B0\n1F0,1B0\n')
        for arguments in (('--svg', file), ('--svg', file / 'below'), ('--svg', taken), ('--stages', 0),
                          ('--micro-batches', 129), ('--stages', '2x'), ('--svg', ''), ('--write-csv', file),
                          ('--write-csv', taken), ('--write-csv', ''), ('--csv', wrong), ('--csv', taken),
                          ('--csv', ''), ('--csv', right, '--stages', 2), ('--csv', right, '--micro-batches', 1)):
            ran = run(program, *arguments)
            told = shlex.join(map(str, ('pipelines', *arguments)))
            if ran.returncode != 2 or ran.stdout or not re.fullmatch(r'pipelines: [^\n]+\n', ran.stderr):
                yield f'{told} ended with {ran.returncode}: {ran.stdout[:200]}{ran.stderr[:200]}'
        own = pathlib.Path(folder) / 'own.csv' # the name that --write-csv gives it
        own.write_text(right.read_text())
        ran = run(program, '--csv', own, '--write-csv', folder)
        if ran.returncode != 2 or 'would be written over' not in ran.stderr or own.read_text() != right.read_text():
            yield f'--write-csv over --csv ended with {ran.returncode}: {ran.stderr[:200]}'
    with tempfile.TemporaryDirectory() as folder: # one schedule cannot do with so few
        small = run(program, '--stages', 3, '--micro-batches', 1, '--svg', folder)
        if small.returncode != 0 or small.stdout.count('needs more micro-batches') != 1:
            yield f'three stages and one micro-batch: {small.returncode}, {small.stdout}{small.stderr}'
        for path in pathlib.Path(folder).glob('*.svg'):
            if not path.read_text(encoding='utf-8').endswith('</svg>\n'):
                yield f'three stages and one micro-batch: {path.name} is no picture'


def files(program):
    """What it writes it reads again, judges and prices alike; what makes no step it shows, with the place."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        table = run(program, '--write-csv', folder).stdout.splitlines()
        for name in ('one_f_one_b', 'interleaved_3', 'v_half'):
            ran = run(program, '--csv', folder / f'{name}.csv', '--svg', folder / 'pictures')
            rows = ran.stdout.splitlines()
            ours = [row for row in table if file_name(row) == name]
            if ran.returncode or [row.replace(f'{name}.csv', ours[0].split('`')[1]) for row in rows[2:3]] != ours:
                yield f'--csv {name}.csv: {ran.returncode}, {rows[2:3]} where {ours} was written{ran.stderr}'
            if rows[3:] != table[2:] or not (folder / 'pictures/own.svg').is_file():
                yield f'--csv {name}.csv: the others are not beside it'
        wrong = folder / 'wrong.csv'
        wrong.write_text('0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n')
        ran = run(program, '--csv', wrong, '--svg', folder / 'drawn')
        if ran.returncode != 2 or ran.stdout or ran.stderr.count('>> 4 1B1') != 1 or 'refused.svg' not in ran.stderr:
            yield f'a file with a wrong order of gradients: {ran.returncode}, {ran.stdout}{ran.stderr}'
        pictures = [path.name for path in (folder / 'drawn').iterdir()]
        if pictures != ['refused.svg'] or 'stroke="#c62828"' not in (folder / 'drawn/refused.svg').read_text('utf-8'):
            yield f'a file with a wrong order of gradients is drawn as {pictures}'
        roles = 33 # more than the others are drawn for
        wrong.write_text(''.join(f'{r}F0,{r}B0\n' for r in range(roles)))
        ran = run(program, '--csv', wrong)
        if ran.returncode or len(ran.stdout.splitlines()) != 3:
            yield f'a file with {roles} roles: {ran.returncode}, {ran.stdout}{ran.stderr}'


def ranks(table):
    """What the page says of the order of schedules, by their bubbles, and on both machines."""
    rows = [[cell.strip(' `') for cell in row.split('|')[1:-1]] for row in table.splitlines()[2:]]
    bubble = {row[0]: float(row[2].split()[0]) for row in rows}
    peak, megabytes, near, far = ({row[0]: float(row[column]) for row in rows} for column in (4, 7, 8, 9))
    four, three = ([name for name in peak if peak[name] <= most] for most in (4, 3))
    least = min(bubble.values())
    said = {
        'near, dual_pipe_v is first, and it and zero_bubble_v wait least':
            min(near, key=near.get) == 'dual_pipe_v' and bubble['dual_pipe_v'] == bubble['zero_bubble_v'] == least,
        'far, zero_bubble_h2 is first':
            far['zero_bubble_h2'] == min(far.values()) and 1.8 * least < bubble['zero_bubble_h2'] < 2.2 * least,
        'gpipe waits longest, and far it passes one_f_one_b and interleaved<3>':
            bubble['gpipe'] == bubble['one_f_one_b'] == max(bubble.values()) > 2 * bubble['interleaved<3>']
            and far['gpipe'] < min(far['one_f_one_b'], far['interleaved<3>']) and near['gpipe'] > near['interleaved<3>'],
        'with room for four, zero_bubble_v is first near, and far zero_bubble_h1 is no slower':
            min(four, key=near.get) == 'zero_bubble_v' and min(four, key=far.get) == 'zero_bubble_h1'
            and 2 * megabytes['zero_bubble_h1'] < 1.01 * megabytes['zero_bubble_v'],
        'with room for three, v_half is first': min(three, key=near.get) == min(three, key=far.get) == 'v_half'}
    return [f'docs/pipelines.md says that {what}, and the table does not' for what, holds in said.items() if not holds]


def file_name(row):
    """The file of a row of the table."""
    return row.split('`')[1].replace('<', '_').replace('>', '') if '`' in row else ''


root, program = pathlib.Path(sys.argv[1]), sys.argv[2]
page = gallery(root, 'docs/pipelines.md', 'pictures/pipelines', '*.svg', 'prices')
pictures, table = drawn(program)
of_a_run = pictures.pop('measured.svg', b'').decode()
faults = page.compare(sys.argv, pictures, table)
faults += [*measured(of_a_run), *by_hand(root)]
faults += [*ranks(table), *refusals(program), *files(program)]
sys.exit(ends(faults, 1))
