# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs one benchmark and prints its table; bench/run.sh prepares what it needs.

A benchmark is bench/NAME/bench.py with `run(bench)`, which measures and calls `bench.row(...)` for each line.

A contender is a worker: a program that says 'ready WHAT IT IS' and then answers every line it is given, a number of
seconds, with the work per second of a measurement about that long. Contenders take turns, so that a machine's slow
minutes strike all of them; what is compared are the ratios of one round, and their median is the result.
"""
import argparse
import contextlib
import importlib.util
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

here = pathlib.Path(__file__).resolve().parent


class Worker:
    def __init__(self, command, env=None):
        self.command = command
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, 'OMP_NUM_THREADS': '1', 'OPENBLAS_NUM_THREADS': '1',
                                             **(env or {})})
        self.name = self.answer().removeprefix('ready ')

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{' '.join(map(str, self.command))} ended with {self.process.wait()} instead of answering")
        return line.strip()

    def ask(self, seconds):
        self.process.stdin.write(f'{seconds}\n')
        self.process.stdin.flush()
        return self.answer()

    def measure(self, seconds):
        return float(self.ask(seconds))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()


def busy():
    """Whether other programs want a processor, while our workers sleep. A contender that spins would be measured by
    what the scheduler makes of it."""
    def running():
        time.sleep(0.01)
        return int(pathlib.Path('/proc/loadavg').read_text(encoding='utf-8').split()[3].split('/')[0])
    return min(running() for _ in range(5)) > 1


class Bench:
    def __init__(self, name, build, cxx, quick, json_file=None):
        self.name, self.build, self.cxx, self.quick = name, pathlib.Path(build), cxx, quick
        self.json_file = json_file
        self.peers = pathlib.Path(os.environ['TRIREME_BENCH_PEERS'])
        self.rows = []
        self.seen = []  # contenders, in the order of their appearance
        self.patience = 0 if quick else 400  # seconds in all that may be spent on waiting for quiet

    def program(self, name):
        return str(self.build / 'bench' / name)

    def worker(self, *command, env=None):
        worker = Worker([str(word) for word in command], env)
        if worker.name not in self.seen:
            self.seen.append(worker.name)
        return worker

    def rounds(self, workers, count, seconds):
        """[round][worker]: what each worker measured. Every other round runs backwards, so that no worker always
        follows the same one."""
        return [self.round(workers, r, seconds) for r in range(count)]

    def round(self, workers, number, seconds):
        order = range(len(workers))
        measured = {w: workers[w].measure(seconds) for w in (order if number % 2 == 0 else reversed(order))}
        return [measured[w] for w in order]

    def wait_for_quiet(self):
        while self.patience > 0 and busy():
            time.sleep(1)
            self.patience -= 1

    def undisturbed(self, count, measure):
        """`count` answers of measure(number) in whose time nothing else ran, before or after; others count only when
        there is no patience left."""
        answers = []
        while len(answers) < count:
            self.wait_for_quiet()
            start = time.monotonic()
            answer = measure(len(answers))
            if self.patience <= 0 or not busy():
                answers.append(answer)
            else:
                self.patience -= time.monotonic() - start
        return answers

    def quiet_rounds(self, workers, count, seconds):
        """The rounds in which nothing else ran."""
        return self.undisturbed(count, lambda number: self.round(workers, number, seconds))

    def columns(self, workers, count, seconds):
        """[worker][round]: what each worker measured; they end behind the last round."""
        with contextlib.ExitStack() as stack:
            return list(zip(*self.rounds([stack.enter_context(worker) for worker in workers], count, seconds)))

    def fastest(self, what, contenders, start, seconds, scale=1, warm_up=0, measurements=2):
        """The fastest of some contenders by some first measurements of each, without those that warm it up;
        `start(contender)` starts its worker. A note has `scale` times their figures, and says which do not work."""
        speed, broken = {}, []
        for contender in contenders:
            self.wait_for_quiet()
            begin = time.monotonic()
            try:
                with start(contender) as worker:
                    took = time.monotonic() - begin
                    figures = [worker.measure(seconds) for _ in range(warm_up + measurements)]
                    speed[contender] = statistics.median(figures[warm_up:])
                if took > 60:
                    self.note(f'{contender}: {took:.0f} s until it was measured')
            except (SystemExit, OSError) as e:
                broken.append(f'{contender} does not work ({e})')
        self.note(f'{what}: ' + ', '.join([*(f'{c} {scale * s:.4g}' for c, s in speed.items()), *broken]))
        if not speed:
            sys.exit(f'{what}: no contender works')
        return max(speed, key=speed.get)

    def row(self, case, peer, ours, theirs, unit, lower_is_better=False, **more):
        """One line of the table: `ours` and `theirs` are lists, one figure per round."""
        ratios = [b / a if lower_is_better else a / b for a, b in zip(ours, theirs)]
        low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        ratio = statistics.median(ratios)
        self.rows.append({'case': case, 'peer': peer, 'ours': statistics.median(ours),
                          'theirs': statistics.median(theirs), 'unit': unit, 'ratio': ratio,
                          'spread': (high - low) / ratio, **more})
        self.print_row(self.rows[-1])

    head = f"{'case':34} {'peer':22} {'ours':>11} {'theirs':>11} {'unit':12} {'ratio':>7} {'spread':>7}"

    def print_row(self, row):
        if len(self.rows) == 1:
            print(self.head)
        peer = row['peer'] + (f" {row['mode']}" if 'mode' in row else '')
        print(f"{row['case']:34} {peer:22} {row['ours']:11.5g} {row['theirs']:11.5g} {row['unit']:12} "
              f"{row['ratio']:7.2f} {100 * row['spread']:6.1f}%", flush=True)

    def cores(self):
        """How many times the arithmetic of one thread two threads do: a machine may not give what it counts."""
        return float(self.core_facts()[0])

    def core_facts(self):
        return subprocess.run([self.program('cores')], capture_output=True, text=True, check=True).stdout.split(None, 4)

    def note_peak(self):
        """Says what one core does at best, beside which times of arithmetic are read."""
        _, _, peak, units, instruction_set = self.core_facts()
        self.note(f'{instruction_set.strip()}, {units} multiply-add unit(s) of full registers: {peak} GFLOP/s on one core')

    def note(self, text):
        print(f'  {text}', flush=True)

    def save(self):
        """Writes the rows so far; a benchmark that takes long may be stopped."""
        if self.json_file:
            self.json_file.write_text(json.dumps(self.rows, indent=1) + '\n', encoding='utf-8')


def machine():
    model = platform.machine()
    try:
        for line in open('/proc/cpuinfo', encoding='utf-8'):
            if line.startswith('model name'):
                model = line.split(':', 1)[1].strip()
                break
    except OSError:
        pass
    return f'{model}, {len(os.sched_getaffinity(0))} processors, {platform.system()} {platform.release()}'


def describe(bench):
    """Machine, compiler, flags: what a figure means nothing without."""
    def first_line(*command):
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split('\n')[0]
        except (OSError, subprocess.CalledProcessError):
            return 'unknown'
    flags = 'unknown'
    for command in json.loads((bench.build / 'compile_commands.json').read_text(encoding='utf-8')):
        if '/bench/' in command['file'] or command['file'].startswith('bench/'):
            flags = ' '.join(w for w in command['command'].split() if w.startswith(('-O', '-m', '-D', '-std', '-f')))
            break
    commit = first_line('git', '-C', str(here), 'describe', '--always', '--dirty')
    facts = {
        'machine': machine(),
        'compiler': first_line(*bench.cxx.split(), '--version'),
        'flags': flags,
        'assertions': 'off' if '-DNDEBUG' in flags else 'on',
        'commit': commit,
        'date': time.strftime('%Y-%m-%d'),
    }
    for key, value in facts.items():
        print(f'{key:11} {value}')
    print(flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument('name')
    arguments.add_argument('build')
    arguments.add_argument('cxx')
    arguments.add_argument('--quick', action='store_true')
    arguments.add_argument('--json')
    a = arguments.parse_args()
    json_file = a.json and pathlib.Path(a.json).resolve()
    bench = Bench(a.name, a.build, a.cxx, a.quick, json_file)
    describe(bench)
    spec = importlib.util.spec_from_file_location('bench_' + a.name, here / a.name / 'bench.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    bench.save() # a run that fails leaves no table of an earlier one
    module.run(bench)
    if bench.seen:
        print('\nmeasured: ' + '; '.join(bench.seen))
    bench.save()


if __name__ == '__main__':
    main()
