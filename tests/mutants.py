#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutation tests: the suite notices small mistakes in the headers, those of mutants.txt.

mutants.py                    makes each mistake, first with the tests named beside it, then, where it survives them, with
                              the rest of the quick suite
mutants.py --sample 20        with 20 of them at random, spread over the folders; --seed N chooses the same ones again
mutants.py --only TEXT...     with those whose header or description contains one of the texts
mutants.py --first-only       without the rest of the suite
mutants.py --json AFTER --compare BEFORE
                              writes what became of each, and names what an earlier run noticed and this one does not: for
                              a suite before and after it is reorganised
mutants.py --check            that the table fits the headers, without compiling anything

The last line is 'N noticed, M survived of K (P %)'. The exit code is 0 if at least 95 % are noticed, each survivor has a
reason in the table and nothing is lost since BEFORE; 2 if the table or the suite itself is wrong. CXX chooses the compiler.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent / 'support'))
from checks import ends  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = pathlib.Path('include/trireme')
TABLE = ROOT / 'tests' / 'mutants.txt'
FOLDERS = ('schedule', 'collective', 'group', 'layer', 'optimizer', 'parallel', 'trainer', 'data') # each has mutations
LEAST = 80         # mutations
LEAST_NOTICED = 95 # of a hundred
COMPILE_LIMIT = 1200 # seconds; machines may be shared
RUN_LIMIT = 120      # seconds: a program that takes longer hangs
SUPPORT = ('support/golden', 'support/allocation_hook') # linked to tests that need them
PROVED = re.compile(r'static[ _]assert|constant expression|constexpr|overflow') # what a compiler finds wrong in C++
BROKEN = re.compile(r'Killed|[Nn]o space left|[Ii]nternal compiler error|[Oo]ut of memory') # says nothing of C++


class Wrong(Exception):
    """The table, or the suite without any mutation, is wrong."""


@dataclasses.dataclass
class Mutation:
    """One mistake: `text` of a header becomes `replacement`."""
    header: str
    what: str
    text: str = ''
    replacement: str = ''
    tests: list = dataclasses.field(default_factory=list)
    why: str = '' # it may survive
    line: int = 0 # of the table

    @property
    def name(self):
        return f'{self.header}: {self.what}'

    @property
    def folder(self):
        return self.header.split('/')[0]


@dataclasses.dataclass
class Verdict:
    noticed: bool
    by: str = ''
    seconds: float = 0


# ---- the table ----

def read_table(path):
    """The mutations of a table; mutants.txt begins with its form."""
    found = []
    for number, line in enumerate(path.read_text(encoding='ascii').splitlines(), 1):
        word, _, rest = line.strip().partition(' ')
        if not word or word.startswith('#'):
            continue
        if not line.startswith(' '):
            header, separator, what = line.partition(': ')
            if not separator:
                raise Wrong(f'{path.name}:{number}: a mutation begins with HEADER: WHAT')
            found.append(Mutation(header, what.strip(), line=number))
        elif not found:
            raise Wrong(f'{path.name}:{number}: a mutation begins with HEADER: WHAT')
        elif word == '-':
            found[-1].text += rest + '\n'
        elif word == '+':
            found[-1].replacement += rest + '\n'
        elif word == 'by':
            found[-1].tests += rest.split()
        elif word == 'why':
            found[-1].why = f'{found[-1].why} {rest}'.strip()
        else:
            raise Wrong(f'{path.name}:{number}: a line of a mutation begins with -, +, by or why')
    for mutation in found:
        if not mutation.tests:
            mutation.tests = [mutation.header.removesuffix('.hpp')]
    return found


def mutated(mutation, source):
    """The header's text with the mistake in it. Space does not count, so that formatting leaves the table true."""
    places = [i for i, letter in enumerate(source) if not letter.isspace()]
    wanted = ''.join(mutation.text.split())
    dense = ''.join(source[i] for i in places)
    times = dense.count(wanted) if wanted else 0
    if times != 1:
        raise Wrong(f'its text is {times} times in the header, and must be there once')
    at = dense.index(wanted)
    return source[:places[at]] + mutation.replacement.rstrip('\n') + source[places[at + len(wanted) - 1] + 1:]


def faults_of(mutations, root):
    """What is wrong with a table, seen without a compiler."""
    def at(mutation):
        return f'{TABLE.name}:{mutation.line}: {mutation.name}'
    names = collections.Counter(mutation.name for mutation in mutations)
    for mutation in mutations:
        if names[mutation.name] > 1:
            yield f'{at(mutation)}: it stands there twice'
        header = root / HEADERS / mutation.header
        if not header.is_file():
            yield f'{at(mutation)}: there is no such header'
            continue
        try:
            source = header.read_text(encoding='ascii')
            if ''.join(mutated(mutation, source).split()) == ''.join(source.split()):
                yield f'{at(mutation)}: it changes nothing'
        except Wrong as fault:
            yield f'{at(mutation)}: {fault}'
        if not 1 <= len(mutation.tests) <= 3:
            yield f'{at(mutation)}: it is for one to three tests'
        for test in mutation.tests:
            if not (root / 'tests' / f'{test}.cpp').is_file():
                yield f'{at(mutation)}: there is no tests/{test}.cpp'
    if len(mutations) < LEAST:
        yield f'{TABLE.name}: {len(mutations)} mutations, and at least {LEAST} are wanted'
    for folder in FOLDERS:
        if not any(mutation.folder == folder for mutation in mutations):
            yield f'{TABLE.name}: none in {folder}'


def quick_suite(root):
    """What run.sh --quick configures and tests: the options of meson setup, and those of meson test."""
    text = (root / 'tests' / 'run.sh').read_text(encoding='utf-8')
    found = [re.search(rf"^{name}='([^']*)'", text, re.M) for name in ('quick_build', 'quick_tests')]
    if not all(found):
        raise Wrong('tests/run.sh: the lines that set quick_build and quick_tests are gone')
    return [line[1].split() for line in found]


# ---- programs ----

def run(command, folder, output, limit):
    """The exit code of a command, None if it is not over in time; what it leaves behind is killed."""
    with output.open('wb') as out:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True, env={**os.environ, 'LC_ALL': 'C'})
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def checked(command, folder, output, what):
    if run(command, folder, output, None) != 0:
        text = output.read_text(encoding='utf-8', errors='replace')
        raise Wrong(f'{what} fails:\n{text[-3000:]}')


class Workshop:
    """A copy of the tree, configured as run.sh --quick does, in which mutations are compiled and tested."""

    def __init__(self, root, base):
        self.base = base
        self.tree = base / 'tree'
        self.build = self.tree / 'build' / 'mutants'
        listed = subprocess.run(['git', '-C', root, 'ls-files', '-z', '-co', '--exclude-standard'], check=True,
                                capture_output=True, text=True).stdout
        for name in filter(None, listed.split('\0')):
            if (root / name).is_file():
                (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, self.tree / name)
        self.options, self.chosen = quick_suite(root)
        self.chosen += ['--no-suite', 'house'] # which sees that headers differ from the table
        compiler = os.environ.get('CXX', 'g++')
        if shutil.which('ccache') and 'CCACHE_DISABLE' not in os.environ:
            compiler = 'ccache ' + compiler.removeprefix('ccache ')
            # addresses below `base` are taken relatively: a second run finds what the first has compiled
            os.environ.update(CCACHE_BASEDIR=str(base), CCACHE_NOHASHDIR='1',
                              CCACHE_SLOPPINESS='include_file_mtime,include_file_ctime')
        os.environ['CXX'] = compiler
        self.meson = os.environ.get('MESON', 'meson')
        checked([self.meson, 'setup', self.build, self.tree, '-Dtests=enabled', '-Ddebug=false', *self.options], base,
                base / 'setup.log', 'meson setup')
        commands = json.loads((self.build / 'compile_commands.json').read_text(encoding='utf-8'))
        self.commands = {}
        for entry in commands: # the first is that for this machine
            source = (pathlib.Path(entry['directory']) / entry['file']).resolve()
            self.commands.setdefault(source.relative_to(self.tree.resolve()).as_posix(), shlex.split(entry['command']))
        objects = {name: self.compiled(name, base, None) for name in ('main', *SUPPORT)}
        for name, made in objects.items():
            if made is None:
                raise Wrong(f'tests/{name}.cpp does not compile:\n' + self.log(base / f'{name.replace("/", "-")}.log'))
        self.main, self.support = objects['main'], base / 'libsupport.a' # a test's own functions go first
        checked(['ar', 'rcs', self.support, *(objects[name] for name in SUPPORT)], base, base / 'ar.log', 'ar')
        self.running = threading.Lock() # one program at a time: many have more threads than there are processors
        self.fit, self.locks = {}, collections.defaultdict(threading.Lock)

    @staticmethod
    def log(path):
        return path.read_text(encoding='utf-8', errors='replace')

    def compiled(self, test, folder, headers):
        """The object of tests/TEST.cpp, none if it does not compile. `headers`: what is found before the tree's."""
        if f'tests/{test}.cpp' not in self.commands:
            raise Wrong(f'tests/{test}.cpp is not compiled on this machine')
        words, kept = iter(self.commands[f'tests/{test}.cpp']), []
        for word in words:
            if word in ('-o', '-MF', '-MQ'):
                next(words)
            elif word != '-MD' and not word.startswith(('-W', '-fdiagnostics')):
                kept.append(word)
        name = test.replace('/', '-')
        own = [] if headers is None else ['-I' + os.path.relpath(headers, self.build)]
        at = 2 if kept[0] == 'ccache' else 1
        made = folder / f'{name}.o'
        command = [*kept[:at], *own, '-w', '-o', made, *kept[at:]]
        return made if run(command, self.build, folder / f'{name}.log', COMPILE_LIMIT) == 0 else None

    def tried(self, test, folder, headers):
        """What notices, in words, if tests/TEST.cpp does not pass with these headers; else nothing."""
        name = test.replace('/', '-')
        made = self.compiled(test, folder, headers)
        if made is None:
            errors = [line for line in self.log(folder / f'{name}.log').splitlines() if 'error: ' in line]
            place, _, first = errors[0].partition('error: ') if errors else ('', '', 'no error')
            if not errors or BROKEN.search(self.log(folder / f'{name}.log')):
                raise Wrong(f'the compiler has not come to an end with tests/{test}.cpp: {first[:200]}')
            if headers is not None and f'{folder.name}/' in place and not PROVED.search(first):
                raise Wrong(f'the replacement is no C++ here: {first}')
            return f'the compiler: {first[:100]}'
        program = folder / name
        needed = [self.support, *(['-ldnnl'] if test.startswith('onednn/') else [])]
        checked([*shlex.split(os.environ['CXX']), made, self.main, '-o', program, *needed, '-pthread', '-lz', '-ldl'],
                folder, folder / f'{name}.link', 'linking ' + test)
        made.unlink()
        with self.running:
            code = run([program, '--test-suite-exclude=nightly*', '--abort-after=1', '--no-colors=true'], folder,
                       folder / f'{name}.out', RUN_LIMIT)
        program.unlink()
        if code == 0:
            return ''
        cases = re.findall(r'^TEST CASE: +(.+)', self.log(folder / f'{name}.out'), re.M)
        case = f'{test}: {cases[-1].strip()}' if cases else test
        return f'{case} (hangs)' if code is None else f'{case} (signal {-code})' if code < 0 else case

    def require_fit(self, test):
        """A test says something of a mutation only if it passes without one."""
        with self.locks[test]:
            if test not in self.fit:
                folder = self.base / 'without' / test.replace('/', '-')
                folder.mkdir(parents=True)
                self.fit[test] = self.tried(test, folder, None)
        if self.fit[test]:
            raise Wrong(f'tests/{test}.cpp does not pass without a mutation: {self.fit[test]}')

    def first_stage(self, mutation):
        """With the tests of its header."""
        begin = time.monotonic()
        folder = self.base / hashlib.sha256(mutation.name.encode()).hexdigest()[:16]
        headers = folder / 'include'
        changed = headers / 'trireme' / mutation.header
        changed.parent.mkdir(parents=True)
        source = (self.tree / HEADERS / mutation.header).read_text(encoding='ascii')
        changed.write_text(mutated(mutation, source), encoding='ascii')
        verdict = Verdict(False)
        for test in mutation.tests:
            self.require_fit(test)
            if noticed := self.tried(test, folder, headers):
                verdict = Verdict(True, noticed)
                break
        shutil.rmtree(folder)
        verdict.seconds = time.monotonic() - begin
        return verdict

    def suite(self):
        """What of the quick suite fails, as the tree is now."""
        ninja = shutil.which('ninja') or 'ninja-build'
        log = self.base / 'suite.log'
        if run([ninja, '-k', '0', '-C', self.build, 'quick'], self.base, log, None) != 0:
            if BROKEN.search(self.log(log)):
                raise Wrong(f'the suite is not built, and not for its C++: {log}')
            return re.findall(r'^FAILED: *(?:\[[^]]*\] *)?(\S+)', self.log(log), re.M) or ['ninja quick']
        logs = self.build / 'meson-logs'
        for old in logs.glob('mutants*.json'): # Meson may append the setup's name
            old.unlink()
        if run([self.meson, 'test', '-C', self.build, '--no-rebuild', '--logbase', 'mutants', *self.chosen], self.base,
               log, None) == 0:
            return []
        entries = [json.loads(line) for results in logs.glob('mutants*.json') for line in self.log(results).splitlines()]
        return [entry['name'] for entry in entries if entry['result'] not in ('OK', 'SKIP')] or ['meson test']

    def second_stage(self, mutation):
        """With the quick suite."""
        begin = time.monotonic()
        header = self.tree / HEADERS / mutation.header
        source = header.read_text(encoding='ascii')
        header.write_text(mutated(mutation, source), encoding='ascii')
        try:
            failed = self.suite()
        finally:
            header.write_text(source, encoding='ascii')
        return Verdict(bool(failed), ', '.join(failed[:3]), time.monotonic() - begin)


# ---- a run ----

def sampled(mutations, count, seed):
    """Some mutations at random, of all folders as evenly as it goes."""
    draw = random.Random(seed)
    by_folder = collections.defaultdict(list)
    for mutation in draw.sample(mutations, len(mutations)):
        by_folder[mutation.folder].append(mutation)
    chosen = []
    while len(chosen) < count and any(by_folder.values()):
        for folder in draw.sample(sorted(by_folder), len(by_folder)):
            if by_folder[folder] and len(chosen) < count:
                chosen.append(by_folder[folder].pop())
    return sorted(chosen, key=lambda mutation: mutation.line)


def say(mutation, verdict):
    print(f'{"noticed " if verdict.noticed else "SURVIVED"} {verdict.seconds:4.0f} s  {mutation.name}'
          + (f'  <- {verdict.by}' if verdict.noticed else ''), flush=True)


def tell(mutations, verdicts):
    """The summary; whether the suite is good enough."""
    print()
    for folder in sorted({mutation.folder for mutation in mutations}):
        here = [verdicts[mutation.name] for mutation in mutations if mutation.folder == folder]
        print(f'{folder + ":":12} {sum(v.noticed for v in here):3} of {len(here):3} noticed, '
              f'{sum(v.by.startswith("the compiler") for v in here)} of them by the compiler')
    good = True
    for mutation in mutations:
        noticed = verdicts[mutation.name].noticed
        if not noticed and mutation.why:
            print(f'survived, as expected: {mutation.name}: {mutation.why}')
        elif not noticed:
            print(f'SURVIVED: {mutation.name} ({TABLE.name}:{mutation.line})')
            good = False
        elif mutation.why:
            print(f'noticed, though the table says why it would not be: {mutation.name}')
    noticed = sum(verdict.noticed for verdict in verdicts.values())
    share = 100 * noticed / len(verdicts)
    last = f'{noticed} noticed, {len(verdicts) - noticed} survived of {len(verdicts)} ({share:.1f} %)'
    return good and share >= LEAST_NOTICED, last


def lost_since(before, verdicts):
    """What an earlier run noticed and this one does not, of those that both have met."""
    for name, earlier in sorted(before.items()):
        if earlier['noticed'] and name in verdicts and not verdicts[name].noticed:
            yield f'{name}  <- {earlier["by"]}'


def main():
    parser = argparse.ArgumentParser(usage=__doc__.replace('%', '%%'))
    parser.add_argument('--check', action='store_true')
    parser.add_argument('--sample', type=int, metavar='N')
    parser.add_argument('--seed', type=int, default=random.randrange(10**6))
    parser.add_argument('--only', nargs='+', default=[''], metavar='TEXT')
    parser.add_argument('--first-only', action='store_true')
    parser.add_argument('--json', type=pathlib.Path, metavar='FILE')
    parser.add_argument('--compare', type=pathlib.Path, metavar='BEFORE')
    parser.add_argument('-j', type=int, default=os.cpu_count(), dest='jobs', metavar='N')
    asked = parser.parse_args()

    mutations = read_table(TABLE)
    faults = list(faults_of(mutations, ROOT))
    quick_suite(ROOT)
    if asked.check or faults:
        return 2 * ends(faults, len(mutations))
    before = json.loads(asked.compare.read_text(encoding='utf-8')) if asked.compare else {}
    chosen = [mutation for mutation in mutations if any(text in mutation.name for text in asked.only)]
    if asked.sample:
        print(f'a sample of {min(asked.sample, len(chosen))}: --sample {asked.sample} --seed {asked.seed}')
        chosen = sampled(chosen, asked.sample, asked.seed)
    if not chosen:
        raise Wrong('no mutation contains ' + ' or '.join(asked.only))

    begin = time.monotonic()
    verdicts, wrong, telling = {}, [], threading.Lock()

    def decide(mutation, judge):
        try:
            verdicts[mutation.name] = judge(mutation)
        except Wrong as fault:
            wrong.append(f'{TABLE.name}:{mutation.line}: {mutation.name}: {fault}')
            print(f'WRONG {wrong[-1]}', flush=True)
            return
        with telling: # after each, so that a run which is interrupted has told what it knew
            say(mutation, verdicts[mutation.name])
            if asked.json:
                known = {name: dataclasses.asdict(verdict) for name, verdict in sorted(verdicts.copy().items())}
                asked.json.write_text(json.dumps(known, indent=1) + '\n', encoding='utf-8')

    with tempfile.TemporaryDirectory(prefix='mutants-') as base:
        workshop = Workshop(ROOT, pathlib.Path(base).resolve())
        with concurrent.futures.ThreadPoolExecutor(asked.jobs) as workers:
            under_way = [workers.submit(decide, mutation, workshop.first_stage) for mutation in chosen]
            try:
                for done in under_way:
                    done.result()
            finally:
                workers.shutdown(cancel_futures=True)
        print(f'first stage: {(time.monotonic() - begin) / 60:.1f} min', flush=True)
        left = [mutation for mutation in chosen if mutation.name in verdicts and not verdicts[mutation.name].noticed
                and not mutation.why]
        if left and not asked.first_only:
            print(f'the rest of the quick suite, for {len(left)}', flush=True)
            if failed := workshop.suite():
                raise Wrong('the quick suite does not pass without a mutation: ' + ', '.join(failed))
            for mutation in left:
                decide(mutation, workshop.second_stage)
    if wrong:
        raise Wrong('\n'.join(['', *wrong]))
    good, last = tell(chosen, verdicts)
    lost = list(lost_since(before, verdicts))
    for line in lost:
        print('LOST:', line)
    print(f'{(time.monotonic() - begin) / 60:.1f} min')
    print(last)
    return 0 if good and not lost else 1


if __name__ == '__main__':
    try:
        sys.exit(main())
    except Wrong as fault:
        print(fault, file=sys.stderr)
        sys.exit(2)
