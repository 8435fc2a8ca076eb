# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums up test logs.

summary.py FOLDER    reads every LABEL.json there (Meson's test logs) and LABEL.broken (one line for each thing that
                     was not built), prints what failed or was left out, and as the last line 'N passed, N failed',
                     and ', N skipped' if there are any
summary.py --built BUILD_FOLDER OPTIONS    of the tests that meson test would run with OPTIONS (--suite NAME,
                     --no-suite NAME, --setup nightly), prints those whose program exists
summary.py --timings NINJA_LOG SINCE    what took longest to make since then (seconds since 1970)
summary.py --timings TEST_LOGS          what took longest in Meson's test logs

A test that counts its own cases (doctest, the scripts here) counts as that many, any other as one. A test says that it
leaves out a part of itself by MESSAGE("left out: ...") in a doctest case, which passes, or by print('left out: ...') in
a script; each counts as skipped. A doctest program of which no case has run has failed: doctest itself ends with 0 where
no name matches. So has one that ends with 0 and says no counts: something has ended the process. A log that is cut short
is a failure.
"""
import json
import pathlib
import re
import sys

COUNTS = [re.compile(r'^\[doctest\] test cases: +\d+ \| +(\d+) passed \| +(\d+) failed', re.M),
          re.compile(r'^(\d+) passed, (\d+) failed(?:, \d+ skipped)?$', re.M)]
DOCTEST_PROGRAM = re.compile(r'/tests/(?:test|cu)_[^/ ]+$')
CASE = re.compile(r'^TEST CASE: +(.*)')
LEFT_OUT = re.compile(r'^(?:.*: MESSAGE: )?left out: *(.*)')


def plain(entry):
    """The standard output of one test, without colours."""
    return re.sub(r'\x1b\[[0-9;]*m', '', entry.get('stdout', ''))


def left_out(output):
    """What a test has left out, each once: the doctest case, if it is one, and the words."""
    case, found = '', {}
    for line in output.splitlines():
        if match := CASE.match(line):
            case = match[1].strip() + ': '
        elif match := LEFT_OUT.match(line):
            found[case + match[1].strip()] = None
    return list(found)


def is_doctest(command):
    """Whether it is a doctest program, with a wrapper or without, and no script that is told of one."""
    programs = [word for word in command if DOCTEST_PROGRAM.search(word)]
    return bool(programs) and not any(pathlib.Path(word).name.startswith('python') for word in command)


def count(entry):
    """Passed, failed, skipped cases of one test."""
    output = plain(entry)
    counted = [found for pattern in COUNTS if (found := pattern.search(output))]
    passed, failed = (int(counted[0][1]), int(counted[0][2])) if counted else (0, 0)
    if entry['result'] == 'OK':
        if not counted and is_doctest(entry.get('command') or ()):
            failed = 1 # the process has ended before doctest had
        elif not counted:
            passed = 1
        elif passed + failed == 0:
            failed = 1 # no case has the name that was asked for
        return passed, failed, len(left_out(output))
    if entry['result'] == 'SKIP':
        return 0, 0, 1
    return passed, max(failed, 1), 0 # a crash fails at least one


def built(folder, options):
    """Names of the tests that the options of meson test leave and whose program exists."""
    excluded = {options[i + 1] for i, option in enumerate(options) if option == '--no-suite'}
    wanted = {options[i + 1] for i, option in enumerate(options) if option == '--suite'}
    if '--setup' not in options:
        excluded.add('nightly')
    for test in json.loads((folder / 'meson-info' / 'intro-tests.json').read_text(encoding='utf-8')):
        suites = {suite.split(':')[-1] for suite in test['suite']}
        if not excluded & suites and (not wanted or wanted & suites) and (folder / test['cmd'][0]).exists():
            yield test['name']


def slowest(what, seconds, most=12):
    """Prints the sum of some (seconds, name), and the longest."""
    print(f'    {sum(took for took, _ in seconds):.0f} s in {len(seconds)} {what}' + (', the longest:' if seconds else ''))
    for took, name in sorted(seconds, reverse=True)[:most]:
        if took >= 1:
            print(f'    {took:7.1f} s  {name}')


def made(ninja_log, since):
    """Seconds and names of what Ninja made since then."""
    took = {} # a line: start and end in ms, when the output was written in ns, its name
    for line in ninja_log.read_text(encoding='utf-8').splitlines()[1:]:
        start, end, written, name = line.split('\t')[:4]
        if int(written) >= since * 10**9:
            took[name] = (int(end) - int(start)) / 1000
    return [(seconds, name) for name, seconds in took.items()]


if sys.argv[1:] and sys.argv[1] == '--timings':
    if sys.argv[2].endswith('.ninja_log'):
        slowest('files made', made(pathlib.Path(sys.argv[2]), int(sys.argv[3])))
    else:
        slowest('tests', [(test['duration'], test['name']) for log in sys.argv[2:]
                          for test in map(json.loads, pathlib.Path(log).read_text(encoding='utf-8').splitlines())])
    sys.exit()
if sys.argv[1] == '--built':
    print('\n'.join(built(pathlib.Path(sys.argv[2]), sys.argv[3:])))
    sys.exit()

total = [0, 0, 0]
folder = pathlib.Path(sys.argv[1])
for path in sorted(folder.glob('*.json')):
    for line in path.read_text(encoding='utf-8').splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            total[1] += 1
            print(f'---- {path.stem}: the log of its tests is cut short')
            continue
        counts = count(entry)
        total = [a + b for a, b in zip(total, counts)]
        if counts[1]:
            print(f'---- {path.stem}: {entry["name"]}: {entry["result"]}, exit code {entry.get("returncode")}')
            if entry['result'] == 'OK' and counts[0] == 0:
                print('no test case has run to its end: look for the names that the test is started with')
            output = (entry.get('stdout', '') + entry.get('stderr', '')).strip().splitlines()
            print('\n'.join(output[-60:]))
        if counts[2]:
            for why in left_out(plain(entry)) or ['']:
                print(f'skipped: {path.stem}: {entry["name"]}' + (f': {why}' if why else ''))
for path in sorted(folder.glob('*.broken')):
    for line in path.read_text(encoding='utf-8').splitlines():
        print(f'---- {path.stem}: {line}')
        total[1] += 1
passed, failed, skipped = total
print(f'{passed} passed, {failed} failed' + (f', {skipped} skipped' if skipped else ''))
sys.exit(1 if failed or not passed else 0)
