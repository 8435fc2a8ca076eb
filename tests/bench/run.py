# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""run.py ROOT LENET_WORKER MICRO COLLECTIVES_WORKER PIPELINE_MOVE PIPELINE_LENET CORES: the benchmarks' own machinery,
without peers. Nothing here looks at how fast it is."""
import contextlib
import io
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

root = pathlib.Path(sys.argv[1])
lenet, micro, collectives, move, pipeline, cores = sys.argv[2:]
sys.path[:0] = [str(root / 'bench'), str(root / 'tests/support')]
import harness  # noqa: E402
from checks import ends  # noqa: E402

checks = []


def check(what, holds):
    checks.append((what, holds))


def exit_code(*command):
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, 'XDG_CACHE_HOME': '/nowhere'})


def quiet(f, *arguments, **named):
    with contextlib.redirect_stdout(io.StringIO()):
        return f(*arguments, **named)


# workers: ours answers, one that dies is named, contenders take turns
with harness.Worker([lenet, '64', '2']) as two, harness.Worker([lenet, '1', '1']) as one:
    check('a worker says what it is', two.name.startswith('Trireme '))
    check('a worker measures', two.measure(0.01) > 0 and one.measure(0.01) > 0)
try:
    harness.Worker([lenet, '0', '1'])
    check('a worker that ends is an error', False)
except SystemExit as e:
    check('a worker that ends is named', lenet in str(e))

strategies = exit_code(collectives).stdout.split()
check('collectives lists its strategies', 'direct' in strategies and len(set(strategies)) == len(strategies) > 1)
for strategy in (*strategies, 'limit'):  # each looks at the sums itself
    with harness.Worker([collectives, strategy, '2', '1024']) as worker:
        check(f'collectives measures {strategy}', worker.measure(0.001) > 0)
with harness.Worker([collectives, 'direct', '3', '4004']) as worker:
    check('collectives measures other sizes', worker.measure(0.001) > 0)
check('collectives refuses', exit_code(collectives, 'no such strategy', '2', '1024').returncode == 2)

# pipelines: moves check what has come; each schedule trains, on one device too; its predictions are of tasks that ran
for way in ('moves', 'atomics', 'memcpy'):
    with harness.Worker([move, way, '1024']) as worker:
        check(f'pipeline measures {way}', worker.measure(0.001) > 0)
check('pipeline moves refuse', [exit_code(move, *wrong).returncode for wrong in ((), ('moves', '0'), ('no way', '8'))]
      == [2, 2, 2])
schedules, balanced, rows = (line.split() for line in exit_code(pipeline).stdout.splitlines())
check('pipeline lists', (schedules[0], balanced[0], rows[0]) == ('schedules', 'balanced', 'rows'))
check('pipeline lists its schedules', {'gpipe', 'one_f_one_b'} <= set(schedules[1:]))
check('pipeline lists its cuts', balanced[1] in rows[1:] and '1' not in rows[1:])  # not between a layer and its function
for schedule in schedules[1:]:
    for stages, row in (('1', '0'), ('2', '0'), ('2', rows[1])):
        with harness.Worker([pipeline, 'steps', schedule, '64', '4', stages, row]) as worker:
            check(f'pipeline trains {schedule} on {stages}, cut before {row}', worker.measure(0.01) > 0)
with harness.Worker([pipeline, 'overhead', '64', '4', '0']) as worker:
    for _ in range(3):
        figures = [float(word) for word in worker.ask(0.01).split()]
        check('pipeline predicts each schedule', len(figures) == 4 * len(schedules[1:]) and min(figures) > 0)
        for i in range(0, len(figures), 4):
            check('a step takes longer than any of its tasks', figures[i + 3] < min(figures[i:i + 3]))
for wrong in (['steps', 'no such schedule', '64', '4', '2', '0'], ['steps', 'gpipe', '64', '4', '2', '1'],
              ['steps', 'gpipe', '0', '4', '2', '0'], ['overhead', '64', '4'], ['other'], ['overhead', '10000', '4', '0']):
    answer = exit_code(pipeline, *wrong)
    check(f'pipeline refuses {wrong}', answer.returncode == 2 and answer.stderr != '')
facts = exit_code(cores).stdout.split(None, 4)
check('cores says what a core does', len(facts) == 5 and float(facts[0]) > 0 and float(facts[2]) > 0 and int(facts[3]) >= 0)


class Counter:
    def __init__(self, turns, name):
        self.turns, self.name = turns, name

    def measure(self, seconds):
        self.turns.append(self.name)
        return len(self.turns)


os.environ.setdefault('TRIREME_BENCH_PEERS', '/nowhere')
bench = harness.Bench('test', '/nowhere', 'g++', True)
turns = []
table = bench.rounds([Counter(turns, 'a'), Counter(turns, 'b')], 3, 0.1)
check('turns', turns == ['a', 'b', 'b', 'a', 'a', 'b'])
check('figures stand in the order of the workers', table == [[1, 2], [4, 3], [5, 6]])

# the fastest by a first measurement; a contender that does not start is named
def start(name):
    if name == 'broken':
        sys.exit('it ended')
    return contextlib.nullcontext(Counter(turns, name))


with contextlib.redirect_stdout(io.StringIO()) as printed:
    check('fastest', bench.fastest('some', ['a', 'broken', 'b'], start, 0.1, 10) == 'b')
    try:
        bench.fastest('none', ['broken'], start, 0.1)
        check('no contender works: an error', False)
    except SystemExit as e:
        check('no contender works', 'none' in str(e))
    turns.clear()
    bench.fastest('warm', ['a', 'b'], start, 0.1, warm_up=1, measurements=2)
    turns.clear()
    check('columns of figures', bench.columns([start('a'), start('b')], 2, 0.1) == [(1, 4), (2, 3)])
check('figures that warm up do not count', '  warm: a 2.5, b 5.5\n' in printed.getvalue())
check('a note of the contenders', '  some: a 75, b 95, broken does not work (it ended)\n' in printed.getvalue())

# what something has disturbed is measured again, until there is no patience left
states = iter([True, False, True, False, False])  # before the first, then before and after each
really, harness.busy = (harness.busy, harness.time.sleep), lambda: next(states)
harness.time.sleep = lambda _: None
bench.patience = 100
check('disturbed answers are measured again', bench.undisturbed(1, lambda number: turns.append(number) or number) == [0])
check('how often', turns[-2:] == [0, 0] and next(states, None) is None and 98 < bench.patience <= 99)
harness.busy, harness.time.sleep = really
bench.patience = 0
check('without patience all count', bench.undisturbed(2, lambda number: number) == [0, 1])

# rows: medians, the direction of better, the spread
quiet(bench.row, 'case', 'peer', [2.0, 4.0, 9.0], [1.0, 2.0, 3.0], 'x')
quiet(bench.row, 'time', 'peer', [1.0, 2.0, 4.0], [3.0, 4.0, 12.0], 's', lower_is_better=True, mode='fast')
up, down = bench.rows
check('keys', set(up) == {'case', 'peer', 'ours', 'theirs', 'unit', 'ratio', 'spread'})
check('medians', (up['ours'], up['theirs'], up['ratio']) == (4.0, 2.0, 2.0))
low, _, high = statistics.quantiles([2.0, 2.0, 3.0], n=4)
check('spread', abs(up['spread'] - (high - low) / 2) < 1e-12)
check('less is better', down['ratio'] == 3.0 and down['mode'] == 'fast')

with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    # micro prints what its bench.py reads
    lines = subprocess.run([micro, '1'], capture_output=True, text=True, check=True).stdout.splitlines()
    check('micro has a line per kernel', len(lines) > 40)
    fields = [line.split('\t') for line in lines]
    check('micro prints six fields', all(len(f) == 6 for f in fields))
    check('micro measures', all(float(x) > 0 for f in fields for x in (*f[2:4], f[5])))

    # plot
    results = folder / 'some.json'
    results.write_text(json.dumps(bench.rows), encoding='utf-8')
    plot = [sys.executable, str(root / 'bench/plot')]
    check('plot draws', exit_code(*plot, str(results)).returncode == 0)
    picture = xml.etree.ElementTree.parse(folder / 'some.svg').getroot()
    check('plot has a bar per row', len([e for e in picture.iter() if e.tag.endswith('rect')]) == 1 + len(bench.rows))
    lines = exit_code(*plot, str(results), '--table', '--only', 'time').stdout.splitlines()
    check('plot prints a table', len(lines) == 3 and lines[2].startswith('| time | peer fast |') and '| 3.00 |' in lines[2])
    (folder / 'wrong.json').write_text('[{"case": 1}]', encoding='utf-8')
    for wrong in ('wrong.json', 'absent.json'):
        answer = exit_code(*plot, str(folder / wrong))
        check(f'plot refuses {wrong}', answer.returncode == 1 and wrong in answer.stderr)
    check('plot says that no case is left', 'nothing like this' in
          exit_code(*plot, str(results), '--only', 'nothing like this').stderr)

    # run.sh refuses before it measures
    script = ['sh', str(root / 'bench/run.sh')]
    check('run.sh lists', exit_code(*script, '--list').stdout.split()
          == sorted(path.parent.name for path in root.glob('bench/*/bench.py')))
    for wrong in ([], ['no-such-benchmark'], ['../lenet'], ['lenet', '--unknown'], ['lenet', 'micro'], ['lenet', '--json'],
                  ['micro', '--json', str(folder / 'no-such-folder/out.json')]):
        answer = exit_code(*script, *wrong)
        check(f'run.sh refuses {wrong}', answer.returncode == 2 and answer.stderr != '')

sys.exit(ends([f'FAILED: {what}' for what, holds in checks if not holds], len(checks)))
