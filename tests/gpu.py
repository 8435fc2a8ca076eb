# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds and runs everything that needs a GPU, part by part, and prints one table; see gpu.sh.

A part that fails, or takes too long, does not keep the others from running. Each part has a limit, and all of them
together the one of --seconds.
"""
import argparse
import concurrent.futures
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time

root = pathlib.Path(__file__).resolve().parent.parent
# In this order: what was learnt when the time is over should be most of it.
PARTS = ['build', 'test', 'example', 'micro', 'bench', 'sanitize']
# What bench/gpu/bench.py calls its rows.
MICRO_ROWS = ['step', 'all_reduce', 'kernel']
BENCH_ROWS = {'lenet': 'lenet-gpu', 'resnet': 'resnet18-gpu', 'gpt': 'gpt-gpu'}
COUNTED = re.compile(r'(?:test cases: +\d+ \| +|^)(\d+) passed(?: \||,) +(\d+) failed', re.M)
SUMMARY = re.compile(r'ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard')
LOG_CHARACTERS = 200_000  # of one command


class Stopped(Exception):
    """Whoever started this wants it to end."""


class Report:
    """What was done: printed as it comes, and kept for the table, the log and the JSON."""

    def __init__(self, out, seconds):
        self.out, self.begin, self.end = out, time.monotonic(), time.monotonic() + seconds
        self.parts, self.facts, self.rows = [], {}, []
        self.running = []
        out.mkdir(parents=True, exist_ok=True)
        self.log = open(out / 'log.txt', 'w', encoding='utf-8')

    def left(self):
        return self.end - time.monotonic()

    def run(self, command, limit, env=None, cwd=None):
        """Exit code, None if it was too late, and output. Whatever it has started ends with it."""
        limit = min(limit, self.left())
        command = [str(word) for word in command]
        if limit <= 0:
            return None, 'no time was left for it'
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   text=True, errors='replace', env=env, cwd=cwd, start_new_session=True)
        self.running.append(process)
        begin = time.monotonic()
        try:
            output, _ = process.communicate(timeout=limit)
            code = process.returncode
        except subprocess.TimeoutExpired:
            self.end_group(process)
            try:
                output, _ = process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                output = ''
            code = None
        self.running.remove(process)
        self.log.write(f'==== {" ".join(command)}\n==== {time.monotonic() - begin:.1f} s, '
                       f'{"too late" if code is None else f"exit code {code}"}\n{output[-LOG_CHARACTERS:]}\n')
        self.log.flush()
        return code, output

    @staticmethod
    def end_group(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def part(self, name, result, begin, note='', end=None):
        self.parts.append({'part': name, 'result': result,
                           'seconds': round((end or time.monotonic()) - begin, 1), 'note': note})
        print(f'{name}: {result}, {self.parts[-1]["seconds"]} s {note}', flush=True)
        self.save()

    def save(self):
        (self.out / 'results.json').write_text(json.dumps(
            {'facts': self.facts, 'parts': self.parts, 'benchmarks': self.rows}, indent=1) + '\n', encoding='utf-8')

    def table(self):
        print('\n' + '\n'.join(f'{key:12} {value}' for key, value in self.facts.items()))
        print(f'\n{"part":44} {"result":12} {"seconds":>8}')
        for part in self.parts:
            print(f'{part["part"][:44]:44} {part["result"]:12} {part["seconds"]:8.1f}  {part["note"]}')
        if self.rows:
            print(f'\n{"benchmark (ratio > 1: we are better)":44} {"peer":24} {"ours":>10} {"theirs":>10} '
                  f'{"unit":9} {"ratio":>6} {"spread":>7}')
            for row in self.rows:
                peer = row['peer'] + (f" {row['mode']}" if 'mode' in row else '')
                print(f'{row["case"][:44]:44} {peer:24} {row["ours"]:10.5g} {row["theirs"]:10.5g} {row["unit"]:9} '
                      f'{row["ratio"]:6.2f} {100 * row["spread"]:6.1f}%')
        failed = [p for p in self.parts if p['result'] not in ('ok', 'skipped', 'out of time')]
        passed = sum(p['result'] == 'ok' for p in self.parts)
        skipped = len(self.parts) - len(failed) - passed
        print(f'\n{passed} passed, {len(failed)} failed' + (f', {skipped} skipped' if skipped else ''), flush=True)
        return 1 if failed or not passed else 0


def missing(what, remedy):
    print(f'{what} is missing: {remedy}', file=sys.stderr)
    sys.exit(3)


class Tools:
    """Compilers and libraries, from the system, the packed folder, or Python's packages of NVIDIA's libraries."""

    def __init__(self, work, packed):
        self.env = dict(os.environ)
        self.jobs, self.patient = None, False
        self.compiler = os.environ.get('CXX', 'c++').split()
        if not shutil.which(self.compiler[0]):
            missing(self.compiler[0], 'install g++, or set CXX')
        for folder in [os.environ.get('CUDA_HOME', ''), '/usr/local/cuda', *sorted(glob.glob('/usr/local/cuda-*'))]:
            if shutil.which('nvcc', path=self.env['PATH']):
                break
            self.env['PATH'] += os.pathsep + os.path.join(folder, 'bin')
        self.nvcc = shutil.which('nvcc', path=self.env['PATH'])
        if not self.nvcc:
            missing('nvcc', 'install the CUDA toolkit, or set CUDA_HOME')
        self.cuda = pathlib.Path(self.nvcc).resolve().parent.parent
        for tool in ('compute-sanitizer',):
            if not shutil.which(tool, path=self.env['PATH']):
                for place in (self.cuda / 'bin', self.cuda / 'compute-sanitizer'):
                    if (place / tool).exists():
                        self.env['PATH'] += os.pathsep + str(place)
        if packed and (packed / 'python').is_dir():
            self.env['PYTHONPATH'] = os.pathsep.join(filter(None, [self.env.get('PYTHONPATH'), str(packed / 'python')]))
        self.meson = self.python_tool('meson', 'mesonbuild.mesonmain')
        self.ninja = self.python_tool('ninja', 'ninja')

        self.include, self.lib = work / 'sdk/include', work / 'sdk/lib'
        shutil.rmtree(work / 'sdk', ignore_errors=True)
        self.include.mkdir(parents=True)
        self.lib.mkdir(parents=True)
        for variable, folder in (('CPLUS_INCLUDE_PATH', self.include), ('C_INCLUDE_PATH', self.include),
                                 ('LIBRARY_PATH', self.lib), ('LD_LIBRARY_PATH', self.lib)):
            self.env[variable] = os.pathsep.join(filter(None, [str(folder), self.env.get(variable)]))
        for header, folder in (('doctest/doctest.h', 'doctest'), ('CLI/CLI.hpp', 'CLI'), ('zlib.h', 'zlib.h'),
                               ('zconf.h', 'zconf.h')):
            if not self.has_header(header) and packed and (packed / 'include' / folder).exists():
                (self.include / folder).symlink_to(packed / 'include' / folder)
        if not self.links('-lz'):
            system = [found for found in self.shared_libraries('libz.so.1')]
            archive = packed / 'lib/libz.a' if packed else None
            if system:
                (self.lib / 'libz.so').symlink_to(system[0])
            elif archive and archive.exists():
                (self.lib / 'libz.a').symlink_to(archive)
        for header, library, names in (('cublasLt.h', 'cublasLt', 'cublas*'), ('cudnn.h', 'cudnn', 'cudnn*'),
                                       ('nccl.h', 'nccl', 'nccl*'), ('cuda.h', 'cudart_static', 'cuda*'),
                                       ('nvtx3/nvtx3.hpp', None, 'nvtx3')):
            self.from_python(header, library, names)
        for header, remedy in (('doctest/doctest.h', 'doctest'), ('zlib.h', 'zlib'), ('cublasLt.h', 'cuBLASLt'),
                               ('cudnn.h', 'cuDNN')):
            if not self.has_header(header):
                missing(header, f'install {remedy}' + (', or pack it elsewhere (gpu.sh --pack DIR) and give --with DIR'
                                                       if remedy in ('doctest', 'zlib') else ''))

    def python_tool(self, name, module):
        if path := shutil.which(name, path=self.env['PATH']):
            return [path]
        beside = pathlib.Path(sys.executable).parent / name
        if beside.exists():
            return [str(beside)]
        if subprocess.run([sys.executable, '-c', f'import {module}'], capture_output=True, env=self.env).returncode == 0:
            return [sys.executable, '-m', module]
        missing(name, f'python3 -m pip install {name}, or pack it elsewhere (gpu.sh --pack DIR) and give --with DIR')

    def has_header(self, name):
        return subprocess.run([*self.compiler, '-std=c++20', '-x', 'c++', '-E', '-', f'-isystem{self.cuda}/include'],
                              input=f'#include <{name}>\n', text=True, capture_output=True,
                              env=self.env).returncode == 0

    def links(self, *libraries):
        target = self.lib / 'probe'
        code = subprocess.run([*self.compiler, '-x', 'c++', '-', '-o', str(target), f'-L{self.cuda}/lib64', *libraries],
                              input='int main() {}\n', text=True, capture_output=True, env=self.env).returncode
        target.unlink(missing_ok=True)
        return code == 0

    @staticmethod
    def shared_libraries(name):
        found = subprocess.run(['ldconfig', '-p'], capture_output=True, text=True).stdout if shutil.which(
            'ldconfig', path=os.environ.get('PATH', '') + ':/sbin:/usr/sbin') else ''
        for line in found.splitlines():
            if line.strip().startswith(name + ' '):
                yield line.split('=>')[-1].strip()

    def from_python(self, header, library, names):
        """A library that the system has not may have come with PyTorch; then its names for linking are missing.
        `names`: of what belongs to it in that package's folder of headers; without `library` it is headers alone."""
        if self.has_header(header) and (library is None or self.links('-l' + library)):
            return
        for site in {sysconfig.get_path('purelib'), sysconfig.get_path('platlib'), *sys.path}:
            for path in glob.glob(f'{site}/nvidia/*/include/{header}'):
                home = pathlib.Path(path[:-len(f'/include/{header}')])
                for source in (home / 'include').glob(names):
                    self.link(source, self.include / source.name)
                for source in [*(home / 'lib').glob('lib*.so*'), *(home / 'lib').glob('lib*.a')]:
                    if library and source.name.startswith(f'lib{names.split("*")[0]}'):
                        self.link(source, self.lib / source.name)
                        if '.so' in source.name:
                            self.link(source, self.lib / (source.name.split('.so')[0] + '.so'))
                return

    @staticmethod
    def link(source, to):
        if not to.is_symlink():
            to.symlink_to(source)


def first_line(command, env):
    try:
        lines = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60).stdout.strip().splitlines()
        return lines[-1] if lines else 'unknown'
    except (OSError, subprocess.SubprocessError):
        return 'unknown'


def configure_and_build(report, tools, folder, options, target, name, limit=280):
    begin = time.monotonic()
    env = {**tools.env, 'CXX': ' '.join(tools.compiler)}
    again = ['--reconfigure'] if (folder / 'build.ninja').exists() else []
    code, output = report.run([*tools.meson, 'setup', *again, folder, root, *options], limit, env)
    if code != 0:
        error = [line for line in output.splitlines() if 'ERROR' in line]
        report.part(f'configuring {name}', 'FAILED', begin, error[0].strip() if error else '')
        return
    summary = re.search(r'^ *CUDA *: (.*)', output, re.M)
    report.facts['nvcc'] = summary[1] if summary else 'unknown'
    jobs = ['-j', tools.jobs] if tools.jobs else []
    code, output = report.run([*tools.ninja, '-k', '0', *jobs, '-C', folder, target],
                              max(limit - (time.monotonic() - begin), report.left() if tools.patient else 0), env)
    broken = re.findall(r'^FAILED: *(?:\[[^]]*\] *)*(\S+)', output, re.M)
    report.part(f'building {name}', 'ok' if code == 0 else 'out of time' if code is None else 'FAILED', begin,
                ' '.join(pathlib.Path(b).name for b in broken[:3]))


def forget_stale(report, tools, folder):
    """Removes the programs of tests that this tree has no more, or whose build has not come to its end: an old one must
    not stand for them."""
    tests = folder / 'meson-info/intro-tests.json'
    known = {pathlib.Path(test['cmd'][0]).name for test in json.loads(tests.read_text(encoding='utf-8'))} \
        if tests.exists() else set()
    _, missing = report.run([*tools.ninja, '-n', '-v', '-C', folder, 'cuda'], 30, tools.env)
    for program in (folder / 'tests').glob('cu_*'):
        if program.is_file() and (program.name not in known or re.search(rf'-o tests/{program.name}\s', missing)):
            program.unlink()


def verdict(code, output, sanitized=False):
    """Result and note of a test's program."""
    if code is None:
        return 'too late', output if 'no time' in output else ''
    counted = COUNTED.search(re.sub(r'\x1b\[[0-9;]*m', '', output))
    errors = SUMMARY.findall(output)
    note = f'{counted[1]} passed, {counted[2]} failed' if counted else ''
    if code == 77:
        return 'FAILED', 'nvidia-smi finds a GPU, and the program none that it can use: is the driver as new as the toolkit?'
    if errors and (n := max(int(a or b) for a, b in errors)):
        return 'FAILED', f'{n} errors of the sanitizer; {note}'
    if code != 0:
        return 'FAILED', note or f'exit code {code}'
    if not counted or counted[1] == counted[2] == '0':
        return 'FAILED', 'no test case has run to its end'  # doctest ends with 0 where no case has the name
    return ('FAILED', 'the sanitizer says nothing') if sanitized and not errors else ('ok', note)


def cases_of(report, tools, program):
    """Its test cases by name; a wrong address is the end of a process's CUDA, so each has one of its own."""
    code, output = report.run([program, '--list-test-cases', '--no-colors'], 30, tools.env, root)
    names = [line for line in output.splitlines() if line and not line.startswith(('[doctest]', '==='))]
    return [(program, name) for name in names] if code == 0 and names else [(program, None)]


def run_tests(report, tools, programs, limit, prefix=(), label='', workers=1, env=None):
    """`programs`: each with a test case, or None for all. Together they take `limit` seconds."""
    end = time.monotonic() + min(limit, report.left())

    def one(job):
        program, case = job
        begin = time.monotonic()
        name = program.name.removeprefix('cu_') + (f': {case}' if case else '')
        if begin >= end:
            return name, 'out of time', begin, begin, ''
        # doctest takes commas for the ends of patterns, and * for anything
        chosen = ['-tc=' + case.replace(',', '*')] if case else []
        done = report.run([*prefix, program, *chosen], end - begin, env or tools.env, root)
        return name, None, begin, time.monotonic(), done

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for name, result, begin, ended, done in pool.map(one, programs):
            note = ''
            if result is None:
                result, note = verdict(*done, sanitized=bool(label))
                # under a sanitizer everything is slow: what did not end in time has not failed
                result = 'out of time' if result == 'too late' and label else result
                if result == 'FAILED':
                    print('\n'.join(done[1].strip().splitlines()[-40:]))
            report.part(f'{label or "test"} {name}', result, begin, note, ended)


def sanitizer_flags(report, tools, sanitizer):
    """What makes it look at our kernels alone, as far as this version of it knows how."""
    _, text = report.run([sanitizer, '--help'], 20, tools.env)
    known = [['--report-api-errors', 'no'],  # tests make calls fail, and ask events that are not ready
             ['--kernel-regex', 'kns=trireme']]  # the kernels of libraries take most of the time
    return [word for flag in known if flag[0] in text for word in flag]


def benchmarks(report, tools, work, limit, name, wanted):
    begin = time.monotonic()
    rows = work / f'{name}.json'
    rows.unlink(missing_ok=True)
    peers = work / 'peers/bin'
    peers.mkdir(parents=True, exist_ok=True)
    (peers / 'python3').write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding='utf-8')
    (peers / 'python3').chmod(0o755)
    code, output = report.run([sys.executable, root / 'bench/harness.py', 'gpu', work / 'bench',
                               ' '.join(tools.compiler), '--quick', '--json', rows], limit,
                              {**tools.env, 'TRIREME_BENCH_PEERS': str(work / 'peers'),
                               'TRIREME_BENCH_ROWS': ' '.join(wanted)})
    print(output, flush=True)
    (report.out / f'{name}.txt').write_text(output, encoding='utf-8')
    measured = []
    if rows.exists():
        try:
            measured = json.loads(rows.read_text(encoding='utf-8'))
        except ValueError:  # it was stopped while it wrote
            pass
    report.rows += measured
    report.part(name, 'ok' if code == 0 else 'out of time' if code is None else 'FAILED', begin,
                f'{len(measured)} rows' + ('' if code == 0 else '; ' + (output.strip().splitlines() or [''])[-1]))


def example(report, tools, work, packed, limit):
    begin = time.monotonic()
    program = work / 'bench/examples/lenet'
    data = packed / 'data' if packed else None
    if not program.exists():
        return report.part('example lenet', 'skipped', begin, 'not built: CLI11 is missing, or it failed')
    command = [program, '--device', 'gpu', '--share-devices', '--epochs', 3]
    if data and any(data.glob('*.gz')):
        command += ['--data', data]
    code, output = report.run(command, limit, tools.env)
    losses = [line.strip() for line in output.splitlines() if line.startswith('epoch')]
    report.part('example lenet', 'ok' if code == 0 else 'too late' if code is None else 'FAILED', begin,
                losses[-1] if code == 0 and losses else (output.strip().splitlines() or [''])[-1])


def main():
    arguments = argparse.ArgumentParser(prog='gpu.sh')
    arguments.add_argument('--with', dest='packed', type=pathlib.Path, metavar='DIR')
    arguments.add_argument('--out', type=pathlib.Path, default=root / 'build/gpu/out', metavar='OUT')
    arguments.add_argument('--seconds', type=float, default=570)
    arguments.add_argument('--parts', default=','.join(PARTS), metavar='PART,...',
                           help=f'which, in this order: {",".join(PARTS)}; what is left out must have been built before')
    arguments.add_argument('--rows', default=','.join(BENCH_ROWS), metavar='ROW,...',
                           help=f'of the part bench: {",".join(BENCH_ROWS)}')
    arguments.add_argument('--build-only', action='store_true', help='--parts build, which needs no GPU')
    arguments.add_argument('--jobs', type=int, help='of each of the two builds that run at once')
    arguments.add_argument('--work', type=pathlib.Path, default=root / 'build/gpu', metavar='DIR',
                           help='where to build (build/gpu)')
    a = arguments.parse_args()
    a.parts, a.rows = ['build'] if a.build_only else a.parts.split(','), a.rows.split(',')
    for given, known in ((a.parts, PARTS), (a.rows, BENCH_ROWS)):
        if unknown := [word for word in given if word not in known]:
            arguments.error(f'{",".join(unknown)}: there are {",".join(known)}')
    a.build_only = a.parts == ['build']
    packed = a.packed.resolve() if a.packed else None
    if packed and not (packed / 'include').is_dir():
        print(f'gpu.sh: {a.packed} holds nothing: fill it with gpu.sh --pack {a.packed}', file=sys.stderr)
        return 2
    smi = first_line(['nvidia-smi', '--query-gpu=name,driver_version,compute_cap,memory.total',
                      '--format=csv,noheader'], os.environ)
    has_gpu = re.search(r', \d+\.\d+,', smi) is not None
    if not has_gpu and not a.build_only:
        print('there is no GPU here, or no driver for it: nvidia-smi names none. '
              'To see whether everything builds: gpu.sh --build-only')
        return 77

    work = a.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    report = Report(a.out.resolve(), a.seconds)

    def stop(*_):
        report.end = time.monotonic()  # nothing is begun any more
        for process in list(report.running):
            report.end_group(process)
        raise Stopped
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        tools = Tools(work, packed)
        tools.jobs, tools.patient = a.jobs, a.build_only
        parts(report, tools, work, packed, has_gpu, smi, a.parts, a.rows)
    except Stopped:
        report.part('stopped from outside', 'FAILED', report.begin)
    except Exception as e:  # a mistake here must not hide what was learnt
        report.part('gpu.py itself', 'FAILED', report.begin, repr(e))
    return report.table()


def parts(report, tools, work, packed, has_gpu, smi, wanted, rows):
    code = 'import torch; print(torch.__version__, torch.version.cuda, torch.backends.cudnn.version())'
    report.facts |= {
        'GPU': smi if has_gpu else 'none',
        'compiler': subprocess.run([*tools.compiler, '--version'], capture_output=True,
                                   text=True).stdout.split('\n')[0],
        'CUDA': first_line([tools.nvcc, '--version'], tools.env),
        'Meson': first_line([*tools.meson, '--version'], tools.env),
        'PyTorch': first_line([sys.executable, '-c', code], tools.env) if 'bench' in wanted else 'not asked',
        'processors': str(len(os.sched_getaffinity(0))),
        'date': time.strftime('%Y-%m-%d'),
    }
    if 'build' in wanted:
        build(report, tools, work, has_gpu)
        forget_stale(report, tools, work / 'tests')
    programs = [p for p in sorted((work / 'tests/tests').glob('cu_*')) if p.is_file() and os.access(p, os.X_OK)]
    # kernels first: there a wrong address is most likely, and the rest of the library stands on them
    order = ['device_cuda_runtime', 'kernels_cuda_kernels', 'kernels_cuda', 'cuda_samples', 'cuda_peer', 'cuda_promises']
    programs.sort(key=lambda p: next((i for i, name in enumerate(order) if name in p.name), len(order)))
    if not programs and {'test', 'sanitize'} & set(wanted):
        report.part('tests', 'FAILED', time.monotonic(), 'none is built: --parts build,...')

    def jobs_of():
        for program in programs:
            by_case = re.search('(device|kernels)_cuda|promises', program.name)
            yield from cases_of(report, tools, program) if by_case else [(program, None)]
    if 'test' in wanted:
        run_tests(report, tools, list(jobs_of()), 240, workers=2)
    if 'example' in wanted:
        example(report, tools, work, packed, 40)
    if 'micro' in wanted:
        benchmarks(report, tools, work, 90, 'micro', MICRO_ROWS)
    if 'bench' in wanted:
        benchmarks(report, tools, work, report.left() - 10, 'bench', [BENCH_ROWS[row] for row in rows])
    if 'sanitize' in wanted:
        sanitize(report, tools, [p for p in programs if 'umbrella' not in p.name])


def build(report, tools, work, has_gpu):
    knows_cuda = [int(n) for n in re.findall(r'\d+', report.facts['Meson'])[:2]] >= [1, 4]
    usual = ['-Dcuda=enabled' if knows_cuda else '-Dcuda=auto'] + ([] if has_gpu else ['-Dgpu_arch=90'])
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [ # with -lineinfo sanitizers can name the line of a kernel
            pool.submit(configure_and_build, report, tools, work / 'tests',
                        usual + ['-Dtests=enabled', '-Dexamples=disabled', '-Ddebug=false', '-Doptimization=1']
                        + ['-Dcuda_args=-lineinfo'] * knows_cuda, 'cuda', 'tests'),
            pool.submit(configure_and_build, report, tools, work / 'bench',
                        usual + ['-Dtests=disabled', '-Dexamples=auto', '-Dbench=enabled', '--buildtype=release'],
                        'cuda', 'benchmarks and examples')]
        for job in jobs:
            job.result()


def sanitize(report, tools, programs):
    """Each tool on all programs, as far as the time reaches."""
    sanitizer = shutil.which('compute-sanitizer', path=tools.env['PATH'])
    if sanitizer is None:
        return report.part('sanitizers', 'skipped', time.monotonic(), 'there is no compute-sanitizer')
    flags = sanitizer_flags(report, tools, sanitizer)
    env = {**tools.env, 'TRIREME_TEST_DEADLINE': '600'}  # of trainers, whose kernels are slow now
    for tool in ('memcheck', 'racecheck', 'initcheck'):
        if report.left() > 20:
            run_tests(report, tools, [(p, None) for p in programs], report.left() - 5,
                      (sanitizer, '--tool', tool, *flags, '--error-exitcode', '1'), tool, workers=4, env=env)


if __name__ == '__main__':
    sys.exit(main())
