# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes Trireme as one file, for Compiler Explorer and the like: trireme.hpp with its headers in the place of their
includes, each once, in the order in which a compiler reads them. Includes of the system stay.

single.py SOURCE_ROOT OUT                             writes the file
single.py SOURCE_ROOT OUT --check COMPILER [FLAGS]    and compiles examples/first.cpp with it and no other header of ours
"""
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
import rules  # noqa: E402
from checks import ends  # noqa: E402


def inlined(top, name, seen):
    """The lines of a header and of those of ours that it includes, without licence and #pragma once."""
    seen.add(name)
    lines = [f'// ---- {name} ----', '']
    for line in (top / name).read_text(encoding='utf-8').splitlines():
        found = rules.INCLUDE.match(line)
        if found and found[2].startswith('trireme/'):
            if found[2] not in seen:
                lines += inlined(top, found[2], seen)
        elif line not in rules.LICENCE and line != '#pragma once':
            lines.append(line)
    return lines


def single(root):
    text = '\n'.join(inlined(root / 'include', rules.UMBRELLA, set()))
    head = [*rules.LICENCE, '#pragma once', '',
            '// Trireme as one file: trireme/trireme.hpp and all that it includes, written by tests/headers/single.py.', '', '']
    return '\n'.join(head) + re.sub(r'\n{3,}', '\n\n', text) + '\n'


def check(root, path, command):
    text = path.read_text(encoding='utf-8')
    for number, line in enumerate(text.splitlines(), 1):
        if (found := rules.INCLUDE.match(line)) and (found[1] == '"' or found[2].startswith('trireme/')):
            yield f'{path.name}:{number}: it still includes {found[2]}'
    for line in [*rules.LICENCE, '#pragma once']:
        if text.splitlines().count(line) != 1:
            yield f'{path.name}: "{line}" is there {text.splitlines().count(line)} times'
    example = (root / 'examples/first.cpp').read_text(encoding='utf-8')
    with tempfile.TemporaryDirectory() as folder: # in which no other header of ours is found
        source = pathlib.Path(folder) / 'first.cpp'
        source.write_text(example.replace('#include <trireme/trireme.hpp>', f'#include "{path.name}"'), encoding='utf-8')
        (pathlib.Path(folder) / path.name).write_text(text, encoding='utf-8')
        done = subprocess.run([*command, '-fsyntax-only', source.name], cwd=folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors='replace')
    if done.returncode != 0:
        yield f'examples/first.cpp does not compile with {path.name}:\n{done.stdout[:4000]}'


def main():
    root, path = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(single(root), encoding='utf-8')
    if sys.argv[3:4] != ['--check']:
        return 0
    faults = list(check(root, path, sys.argv[4:]))
    return ends(faults, 1)


if __name__ == '__main__':
    sys.exit(main())
