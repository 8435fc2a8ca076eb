# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the suite counts: a test that has not run to its end has not passed, whoever ended it.

tests/summary.py reads logs as Meson writes them; tests/run.sh --quick runs in a copy of the scripts with a Meson and a
Ninja that are played; gpu.py and mutants.py judge what programs and compilers say.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path += [str(HERE), str(HERE / 'support')]
import gpu  # noqa: E402
import mutants  # noqa: E402
from checks import Checks  # noqa: E402

DOCTEST = '[doctest] test cases:  3 |  3 passed | 0 failed | 0 skipped'
# Plays Meson. What its test does is in $PLAYED: well, fails, killed (as for want of memory), or waits.
MESON = r'''#!/usr/bin/env python3
import json, os, pathlib, signal, sys, time
words = sys.argv[1:]
if words == ['--version']:
    print('1.0.1')
elif words[0] == 'setup':
    folder = pathlib.Path(words[2] if words[1] == '--reconfigure' else words[1])
    (folder / 'meson-logs').mkdir(parents=True, exist_ok=True)
    (folder / 'build.ninja').touch()
    with open(os.environ['SAID'], 'a') as said:
        print(' '.join(words), file=said)
else:
    log = open(pathlib.Path(words[words.index('-C') + 1]) / 'meson-logs' / (words[words.index('--logbase') + 1] + '.json'), 'w')
    def result(name, what, code):
        print(json.dumps({'name': name, 'result': what, 'returncode': code, 'command': ['sh'], 'stdout': '', 'stderr': ''}), file=log)
    result('one', 'OK', 0)
    played = os.environ['PLAYED']
    if played == 'fails':
        result('two', 'FAIL', 1)
        sys.exit(1)
    if played == 'killed':
        log.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    if played == 'waits':
        def stop(*_):
            time.sleep(0.5) # tests take a moment to end
            result('two', 'INTERRUPT', None)
            sys.exit(1)
        signal.signal(signal.SIGTERM, stop)
        pathlib.Path(os.environ['SAID'] + '.waits').touch()
        time.sleep(60)
'''
NINJA = '#!/bin/sh\nexit 0\n'


def check_summary(checks, at):
    def last_line(entries, cut=0):
        folder = at / 'logs'
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        text = ''.join(json.dumps({'name': 'a test', 'returncode': 0, 'stderr': '', **entry}) + '\n' for entry in entries)
        (folder / 'g++.json').write_text(text[:len(text) - cut], encoding='utf-8')
        done = subprocess.run([sys.executable, HERE / 'summary.py', folder], capture_output=True, text=True)
        return done.returncode, (done.stdout.splitlines() or [done.stderr])[-1]

    program = ['/b/tests/test_core', '--test-suite-exclude=nightly*']
    for what, entries, cut, wanted in (
            ('a doctest program', [{'result': 'OK', 'command': program, 'stdout': DOCTEST}], 0, (0, '3 passed, 0 failed')),
            ('one that ends before doctest does', [{'result': 'OK', 'command': program, 'stdout': ''}], 0,
             (1, '0 passed, 1 failed')),
            ('one in a wrapper', [{'result': 'OK', 'command': ['setarch', '-R', *program], 'stdout': ''}], 0,
             (1, '0 passed, 1 failed')),
            ('one without a case', [{'result': 'OK', 'command': program, 'stdout': DOCTEST.replace('3', '0')}], 0,
             (1, '0 passed, 1 failed')),
            ('one that crashes behind its summary', [{'result': 'FAIL', 'command': program, 'stdout': DOCTEST}], 0,
             (1, '3 passed, 1 failed')),
            ('a script that is told of a program', [{'result': 'OK', 'command': ['/usr/bin/python3', 's.py', program[0]],
                                                     'stdout': ''}], 0, (0, '1 passed, 0 failed')),
            ('a script that counts', [{'result': 'OK', 'command': ['sh'], 'stdout': '2 passed, 0 failed, 1 skipped\n'}], 0,
             (0, '2 passed, 0 failed')),
            ('what is left out', [{'result': 'OK', 'command': ['sh'], 'stdout': 'left out: x\n2 passed, 0 failed\n'}], 0,
             (0, '2 passed, 0 failed, 1 skipped')),
            ('nothing', [], 0, (1, '0 passed, 0 failed')),
            ('a log that is cut short', [{'result': 'OK', 'command': ['sh'], 'stdout': ''}] * 2, 9, (1, '1 passed, 1 failed'))):
        got = last_line(entries, cut)
        checks.expect(got == wanted, f'{what} is counted as {got}, not {wanted}')


def check_run(checks, at):
    """tests/run.sh with a played Meson."""
    tree, tools, said = at / 'tree', at / 'bin', at / 'said'
    for name in ('run.sh', 'setup.sh', 'summary.py', 'scan.py'):
        (tree / 'tests').mkdir(parents=True, exist_ok=True)
        shutil.copy2(HERE / name, tree / 'tests' / name)
    (tree / 'examples').mkdir()
    tools.mkdir()
    for name, text in (('meson', MESON), ('ninja', NINJA)):
        (tools / name).write_text(text, encoding='utf-8')
        (tools / name).chmod(0o755)
    # what run.sh would install is not what this asks
    header = '#include <doctest/doctest.h>\n#include <CLI/CLI.hpp>\n#include <zlib.h>\n'
    compiler = os.environ.get('CXX', 'g++').split()
    if subprocess.run([*compiler, '-std=c++20', '-E', '-x', 'c++', '-'], input=header, text=True,
                      capture_output=True).returncode or not shutil.which('ccache') \
            or not pathlib.Path('/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz').exists():
        print('left out: run.sh with a played Meson: it would install packages')
        return

    def start(played, *options):
        environment = {**os.environ, 'PATH': f'{tools}:{os.environ["PATH"]}', 'PLAYED': played, 'SAID': str(said),
                       'MESON': str(tools / 'meson')}
        return subprocess.Popen(['sh', tree / 'tests/run.sh', *(options or ['--quick'])], env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)

    for played, wanted in (('well', (0, '1 passed, 0 failed')), ('fails', (1, '1 passed, 1 failed')),
                           ('killed', (1, '1 passed, 1 failed'))):
        process = start(played)
        output = process.communicate(timeout=100)[0]
        got = process.returncode, output.splitlines()[-1]
        checks.expect(got == wanted, f'where Meson goes {played}: {got}, not {wanted}:\n{output}')
    setups = said.read_text(encoding='utf-8').splitlines()
    checks.expect(len(setups) == 1, f'nothing has changed, and it is configured again: {setups}')

    # what is given no more must not remain in the build folder
    with (tree / 'tests/run.sh').open(encoding='utf-8') as file:
        changed = file.read().replace('-Dmpi=disabled -Doptimization=1', '-Doptimization=1')
    (tree / 'tests/run.sh').write_text(changed, encoding='utf-8')
    start('well').communicate(timeout=100)
    setups = said.read_text(encoding='utf-8').splitlines()
    checks.expect(len(setups) == 2 and '--reconfigure' not in setups[1], f'other options, and the folder is kept: {setups}')

    for whom in ('run.sh alone', 'all of its processes'):
        waits = pathlib.Path(str(said) + '.waits')
        waits.unlink(missing_ok=True)
        process = start('waits')
        while not waits.exists() and process.poll() is None:
            time.sleep(0.05)
        if whom == 'run.sh alone':
            process.terminate()
        else:
            os.killpg(process.pid, signal.SIGTERM)
        output = process.communicate(timeout=30)[0]
        # stopped, and the test that was interrupted
        checks.expect(output.splitlines()[-1] == '1 passed, 2 failed', f'{whom} stopped: {output}')
        left = in_session(process.pid)
        checks.expect(not left, f'{whom} stopped, and these go on: {left}')
    output = start('well', '--only', 'nothing').communicate(timeout=100)[0]
    checks.expect(output.splitlines()[-1].startswith('usage') or '1 failed' in output.splitlines()[-1],
                  f'a stage that is none: {output}')


def in_session(number):
    """Processes of a session that have not ended."""
    found = []
    for entry in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            state, _, _, session = (entry / 'stat').read_text().rpartition(')')[2].split()[:4]
            if int(session) == number and state != 'Z':
                found.append((entry / 'cmdline').read_text().replace('\0', ' '))
        except OSError:
            pass # it has ended meanwhile
    return found


def check_verdicts(checks):
    hazards = 'RACECHECK SUMMARY: 3 hazards displayed (0 errors, 3 warnings)'
    for code, output, sanitized, wanted in ((0, DOCTEST, False, 'ok'), (0, '1 passed, 0 failed\n', False, 'ok'),
                                            (0, '', False, 'FAILED'), (1, DOCTEST, False, 'FAILED'),
                                            (77, '', False, 'FAILED'), (0, DOCTEST.replace('3', '0'), False, 'FAILED'),
                                            (0, f'{DOCTEST}\n{hazards}', True, 'FAILED'), (0, DOCTEST, True, 'FAILED'),
                                            (0, f'{DOCTEST}\nERROR SUMMARY: 0 errors', True, 'ok'),
                                            (None, '', False, 'too late')):
        got = gpu.verdict(code, output, sanitized)
        checks.expect(got[0] == wanted, f'gpu.py takes exit code {code} with "{output}" for {got}')
    for text in ("error: static_assert failed due to requirement 'x'", 'error: static assertion failed: TRI0012'):
        checks.expect(mutants.PROVED.search(text), f'mutants.py takes "{text}" for no C++')
    for text, broken in (('g++: fatal error: Killed signal terminated program cc1plus', True),
                         ('fatal error: error writing to x.s: No space left on device', True),
                         ('internal compiler error: in tsubst', True), ('error: no match for operator+', False),
                         ('fatal error: template instantiation depth exceeds maximum of 900', False)):
        checks.expect(bool(mutants.BROKEN.search(text)) == broken, f'mutants.py: is "{text}" what a mutation does?')


counted = Checks()
with tempfile.TemporaryDirectory() as folder:
    check_summary(counted, pathlib.Path(folder))
    check_run(counted, pathlib.Path(folder))
check_verdicts(counted)
counted.end()
