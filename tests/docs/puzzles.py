# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the puzzles of examples/puzzles. Each has one error, its own sentence; each solution, which is the puzzle with
other lines in the gap, compiles without a warning; what a reader may write on the way has one error, too. Two solutions
are drawn, and wrong flags refused.

puzzles.py SOURCE_ROOT -- COMPILER [FLAGS]
"""
import concurrent.futures
import contextlib
import io
import os
import pathlib
import re
import sys
import tempfile

sys.dont_write_bytecode = True
root = pathlib.Path(sys.argv[1])
sys.path += [str(root / 'tests' / 'support'), str(root / 'examples' / 'puzzles')]
import passed  # noqa: E402
import run  # noqa: E402
from checks import ends  # noqa: E402

INCLUDE = '#include "puzzle.hpp"\n'
GAP = re.compile(r'(?<=// your code\n).*?(?=^ *// until here\n)', re.M | re.S)
WARNINGS = ['-Wall', '-Wextra', '-Wpedantic', '-Wconversion', '-Wshadow', '-Werror']

# What the compiler says of each puzzle as it is, and the words that say where.
UNSOLVED = {
    1: ('TRI0033: this reduction schedule ends without every contribution', 'on_rank<0>, at_step<7>, of_chunk<0>'),
    2: ('this takes too long: a rank reads one message', 'devices<8>, wants<at_most<3>>, gets<units<7>>'),
    3: ('this role keeps the values of too many', 'on_role<0>, wants<at_most<4>>, gets<frames<8>>'),
    4: ('this formula does not say', 'roles<1>, micro_batches<1>, on_role<0>, wants<frames<1>>, gets<frames<2>>'),
    5: ('this step takes too long, because roles wait', 'wants<at_most<27>>, gets<units<30>>'),
    6: ('this is no V', 'on_role<0>, gets<of_stage<0>>, gets<of_stage<4>>'),
    7: ('TRI0031: this reduction schedule deadlocks', 'on_rank<0>, at_step<0>'),
    8: ('a gradient is lost', 'roles<4>, micro_batches<6>, on_role<3>, at_task<16>'),
}
# What a reader may write into a gap on the way to a solution, and what is said of it.
ON_THE_WAY = [
    (1, 'int const from = s < n - 1 ? (rank + 1) % n : (rank + 1) % n;'
        'return {s < n - 1 ? step_kind::reduce : step_kind::copy, (rank + s + 2) % n, one_rank(from), s};',
     'TRI0035', 'on_rank<'),
    (1, 'if (s == 0) return {step_kind::reduce, rank, all_others(rank, n), 0};'
        'if (s < n) return {step_kind::copy, (rank + s) % n, one_rank((rank + s) % n), 1};'
        'if (s == n) return {step_kind::wait, 0, all_others(rank, n), n}; return {};',
     'in a ring a rank reads from the rank before it', 'on_rank<0>, at_step<0>'),
    (2, 'static constexpr int steps(int) { return 1; }'
        'static constexpr collective_step step(int n, int rank, int) { return rank != 0 ? collective_step{} :'
        ' collective_step{step_kind::reduce, 0, all_others(0, n), 0}; }', 'TRI0035', 'on_rank<0>'),
    (3, 'while (f < micro_batches) { forward(); backward(); }', 'this step takes too long', 'gets<units<'),
    (3, 'while (f <= micro_batches) forward(); while (b < micro_batches) backward();',
     'this role writes a task that does not exist', 'on_role<0>'),
    (3, 'while (b < micro_batches) backward(); while (f < micro_batches) forward();', 'this role goes back before',
     'on_role<3>, at_task<0>'),
    (3, 'forward(); f = 0; for (int i = 1; i < micro_batches; ++i) forward(); while (b < micro_batches) backward();',
     'this role sends a micro-batch the same way twice', 'at_task<'),
    (3, 'while (f < micro_batches) forward(); b = micro_batches; while (b > 0) { b -= 1; backward(); b -= 1; }',
     'this role adds gradients in another order', 'on_role<3>, at_task<16>'),
    (3, 'while (f < micro_batches) { forward(); if (role + 1 < roles || f % 2 == 0) backward(); }'
        'while (b < micro_batches) backward();', 'this role waits for ever', 'on_role<0>, at_task<1>'),
    (3, 'while (f < micro_batches) forward(); if (role == 0) b = 1; while (b < micro_batches) backward();',
     'this role and its neighbour send and receive different micro-batches', ''),
    (4, 'return p - r;', 'this formula does not say', 'roles<2>, micro_batches<1>, on_role<0>, wants<frames<1>>'),
    (5, '', 'this role keeps the values of too many', 'gets<frames<8>>'),
    (6, 'return chunk == 0 ? role : role;', 'this is no V', 'on_role<0>'),
    (7, 'int const after = 0;', 'TRI0047', 'on_rank<'),
    (8, 'while (f < micro_batches) forward(); while (b < micro_batches) backward();', 'too many micro-batches',
     'on_role<0>, wants<at_most<4>>, gets<frames<6>>'),
]


command = sys.argv[sys.argv.index('--') + 1:]
include = root / 'include/trireme'
known = passed.of(
    command, root, pathlib.Path(__file__).read_bytes(),
    *((root / 'examples/puzzles' / name).read_bytes() for name in ('puzzle.hpp', 'draw.cpp', 'run.py')),
    *(path.read_bytes() for folder in ('core', 'schedule') for path in sorted((include / folder).rglob('*.hpp'))))


def together(texts):
    """One program of several, each in a namespace, behind the headers that they share."""
    return '#include "puzzle.hpp"\n' + '\n'.join(
        f'namespace part_{i} {{\n#line 1 "part_{i}.cpp"\n{text.replace(INCLUDE, "")}}}\n' for i, text in enumerate(texts))


def said_of(text, *more):
    """The exit code of the compiler, and what it says of a program."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'puzzle.cpp'
        path.write_text(text, encoding='utf-8')
        done = run.ran([*command, *run.flags(), *more, '-fsyntax-only', path])
    return done.returncode, done.stdout


def refused(text, expected):
    """What is wrong with the errors of a program that must not compile: one for each that is expected, in this order."""
    _, said = said_of(text)
    found, words = list(run.sentences(said)), list(run.words(said))
    if len(found) != len(expected) or len(words) != len(expected):
        return f'{len(found)} errors, {len(words)} with words, {len(expected)} expected: {found} {words}'
    return '\n'.join(f'it says "{is_found}" ({its_words}), not "{sentence}" ({where})'
                     for is_found, its_words, (sentence, where) in zip(found, words, expected)
                     if sentence not in is_found or where not in its_words)


def accepted(text):
    code, said = said_of(text, *WARNINGS)
    return '' if code == 0 else f'it does not compile: {said[:2000]}'


def same_but_for_the_gap(puzzle, solution):
    gaps = [len(GAP.findall(text)) for text in (puzzle, solution)]
    if gaps != [1, 1]:
        return f'the puzzle and its solution have {gaps} gaps, not one each'
    if GAP.sub('', puzzle) != GAP.sub('', solution):
        return 'the solution differs from the puzzle outside of the gap'
    return 'the solution is the puzzle' if puzzle == solution else ''


def called(*arguments, folder=run.HERE):
    said, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
        code = run.main(arguments, folder)
    return code, said.getvalue(), errors.getvalue()


def drawn():
    """Two solutions and a puzzle are told apart, and drawn in a folder that is not there yet."""
    os.environ['CXX'] = command[0] if pathlib.Path(command[0]).name != 'ccache' else ' '.join(command[:2])
    with tempfile.TemporaryDirectory() as folder:
        there = pathlib.Path(folder) / 'not' / 'there'
        code, said, _ = called('1', '4', '--svg', str(there), folder=run.HERE / 'solutions')
        pictures = {path.name: path.read_text(encoding='utf-8') for path in there.iterdir()}
        if code != 0 or '2 of 2 solved' not in said or sorted(pictures) != ['1_ring.svg', '4_frames.svg']:
            return f'two solutions: {code}, {sorted(pictures)}, {said}'
        if not all(text.startswith('<svg') and text.endswith('</svg>\n') for text in pictures.values()):
            return 'the pictures are none'
        for line in ('rank 1  +3<0 +2<0 +1<0 =0<0 =3<0 =2<0', 'role 3  .  .  .  F0 B0 -  F1 B1 -', '3 (the formula: 3)'):
            if line not in said:
                return f'"{line}" is not drawn in: {said}'
        code, said, _ = called('7', f'--svg={there}')
        if code != 0 or not said.startswith('7 deadlock: not yet. TRI0031') or '0 of 1 solved' not in said:
            return f'a puzzle: {code}, {said}'
    return ''


def flags():
    """Wrong ones end it with 2 and one sentence, before anything is compiled."""
    with tempfile.NamedTemporaryFile() as file:
        for arguments in (['--svg'], ['--svg='], ['--wrong'], ['9'], ['0'], ['one'], ['--svg', file.name]):
            code, said, errors = called(*arguments)
            if code != 2 or said or not re.fullmatch(r'puzzles: [^\n]+\n', errors):
                return f'{arguments}: {code}, {said}{errors}'
    compiler = os.environ.get('CXX')
    os.environ['CXX'] = (command[0] if pathlib.Path(command[0]).name != 'ccache' else ' '.join(command[:2])) + ' -fno-such-flag'
    code, said, errors = called('1')
    os.environ.pop('CXX') if compiler is None else os.environ.update(CXX=compiler)
    if code != 4 or said or 'does not compile' not in errors or '-fno-such-flag' not in errors:
        return f'a compiler that does not work: {code}, {said}{errors}'
    code, said, _ = called('--help')
    return '' if code == 0 and '--svg DIR' in said else f'--help: {code}, {said}'


def main():
    puzzles = {number: path.read_text(encoding='utf-8') for number, path in run.puzzles().items()}
    solutions = {number: path.read_text(encoding='utf-8') for number, path in run.puzzles(run.HERE / 'solutions').items()}
    if not puzzles.keys() == solutions.keys() == UNSOLVED.keys():
        sys.exit(f'puzzles {list(puzzles)}, solutions {list(solutions)}, sentences {list(UNSOLVED)}')
    checks = [('wrong flags', flags, ()), ('drawings', drawn, ())]
    checks += [(f'puzzle {n}', refused, (puzzles[n], [UNSOLVED[n]])) for n in puzzles]
    checks += [('what readers write on the way', refused, (
        together(GAP.sub(lambda _, c=code: f'{c}\n', puzzles[n]) for n, code, *_ in ON_THE_WAY),
        [said for _, _, *said in ON_THE_WAY]))]
    checks += [('all solutions', accepted, (together(solutions.values()),))]
    checks += [(f'gap {n}', same_but_for_the_gap, (puzzles[n], solutions[n])) for n in puzzles]

    def judge(check):
        name, call, arguments = check
        depends = (name, *arguments, *((*puzzles.values(), *solutions.values()) if call is drawn else ()))
        if known.knows(*depends):
            return ''
        fault = call(*arguments)
        if not fault:
            known.note(*depends)
        return fault
    # what replaces the standard output comes before there are threads
    faults = [judge(check) for check in checks[:2]]
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as workers:
        faults += workers.map(judge, checks[2:])
    failed = [f'FAILED  {name}: {fault}' for (name, *_), fault in zip(checks, faults) if fault]
    return ends(failed, len(checks))


if __name__ == '__main__':
    sys.exit(main())
