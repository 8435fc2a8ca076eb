# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The puzzles: compiles each, says what is missing, and draws what is solved.

sh examples/run.sh puzzles [--svg DIR] [NUMBERS]

--svg DIR    where the drawings go, build/puzzles if it is not given
NUMBERS      of the puzzles that are tried, all if none is given

CXX is the compiler. Exit codes: 0, whatever is solved; 2 for a wrong flag or a folder that cannot be written; 4 if the
compiler does not work.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = 'docs/puzzles.md'


def puzzles(folder=HERE):
    """The files of the puzzles, by their numbers."""
    return {int(path.name.split('_')[0]): path for path in sorted(folder.glob('[1-9]_*.cpp'))}


def flags():
    return ['-std=c++20', f'-I{ROOT / "include"}', f'-I{HERE}']


def ran(command):
    return subprocess.run([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors='replace', env={**os.environ, 'LC_ALL': 'C'}, check=False)


def sentences(said):
    """What a compiler has found: the sentence of each static_assert that failed; of any other error, its line."""
    for found in re.finditer(r'^(?:([^\s:]+):(\d+):(?:\d+:)? )?(?:fatal )?error: (.*)$', said, flags=re.M):
        file, line, text = found.groups()
        rule = re.search(r"""static assertion failed(?: due to requirement '.*')?: (.*)$|static_assert failed.* "(.*)"$""",
                         text)
        if rule:
            yield (rule[1] or rule[2]).strip('"')
        else:
            yield f'line {line} of {pathlib.Path(file).name} does not compile: {text}' if file else text


def words(said):
    """The words of each rule that does not hold: where it is broken."""
    for found in re.finditer(r"rule_holds<([^'\u2019]*)>['\u2019]", said):
        yield re.sub(r'(?:trireme|words|puzzle)::', '', found[1]).replace(' >', '>').strip()


def attempt(compiler, path, compiled):
    """Compiles a puzzle: the sentence that the compiler says first, and its words; nothing if it is solved. None
    with all that it says if that has no sentence: the compiler does not work."""
    done = ran([*compiler, *flags(), '-c', path, '-o', compiled])
    if done.returncode == 0:
        return '', ''
    sentence = next(sentences(done.stdout), None)
    return sentence, next(words(done.stdout), '') if sentence else done.stdout.strip()


def refuse(text):
    print(f'puzzles: {text}', file=sys.stderr)
    return 2


def draw(compiler, made, number, picture):
    """Links a solved puzzle with the drawings, which are compiled once, and runs it: its exit code, and what it says."""
    drawing, program = made / 'draw.o', made / str(number)
    if not drawing.exists():
        done = ran([*compiler, *flags(), '-c', HERE / 'draw.cpp', '-o', drawing])
        if done.returncode != 0:
            return 4, done.stdout
    done = ran([*compiler, made / f'{number}.o', drawing, '-o', program])
    if done.returncode != 0:
        return 4, done.stdout
    done = ran([program, picture])
    return done.returncode, done.stdout


def main(arguments, puzzle_folder=HERE):
    there, pictures, chosen = puzzles(puzzle_folder), pathlib.Path(os.path.relpath(ROOT / 'build' / 'puzzles')), []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ('-h', '--help'):
            print(__doc__.split('\n\n', 1)[1].strip())
            return 0
        if word == '--svg' or word.startswith('--svg='):
            value = word[6:] if '=' in word else rest.pop(0) if rest else ''
            if not value:
                return refuse('--svg wants a folder')
            pictures = pathlib.Path(value)
        elif word.isdecimal() and int(word) in there:
            chosen.append(int(word))
        else:
            return refuse(f"'{word}' is neither --svg DIR nor the number of a puzzle, {min(there)} to {max(there)}")
    try:
        pictures.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return refuse(f'--svg {pictures}: the folder cannot be made ({error.strerror}); name one that is yours')

    compiler, count = shlex.split(os.environ.get('CXX') or 'g++'), 0
    chosen = sorted(set(chosen)) or list(there)
    with tempfile.TemporaryDirectory() as made:
        for number in chosen:
            path = there[number]
            title = path.stem.split('_', 1)[1].replace('_', ' ')
            missing, where = attempt(compiler, path, pathlib.Path(made) / f'{number}.o')
            if missing is None:
                print(f"puzzles: '{shlex.join(compiler)}' does not compile: {where}", file=sys.stderr)
                return 4
            if missing:
                print(f'{number} {title}: not yet. {missing}' + (f'\n  {where}' if where else ''), flush=True)
                continue
            picture = pictures / f'{path.stem}.svg'
            code, said = draw(compiler, pathlib.Path(made), number, picture)
            if code != 0:
                print(f'puzzles: {said.strip()}', file=sys.stderr)
                return code
            count += 1
            print(f'{number} {title}: solved, {picture}\n{said}', end='', flush=True)
    print(f'{count} of {len(chosen)} solved; the puzzles are {os.path.relpath(HERE)}/*.cpp, {PAGE} ends with hints')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
