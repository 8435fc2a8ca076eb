# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the files of misuses, NAME.cpp of this folder. One of them:

    // On the page: the trainer and its policies
    #include "prelude.hpp"

    namespace tri0020 {
    // Somebody has to compute.
    #if defined(ZERO_DEVICES)
    // ZERO_DEVICES: TRI0020: an axis of a mesh needs at least one device | devices<0>
    // | at_least<1>
    // errors <= 1
    using program = my_trainer<on<mesh<host, dp<0>>>>;
    #elif defined(LESS_THAN_NONE)
    ...
    #else
    // One is enough:
    using program = my_trainer<on<mesh<host, dp<1>>>>;
    #endif
    auto const cost = program::plan(batch{64});
    } // namespace tri0020

Each namespace is a part that needs nothing but the prelude, and the headers that the file includes behind it. Each
`#if defined` or `#elif defined` of a part is a misuse: all fragments between the bars must be in the compiler's messages,
"// |" continues them, the bound on the number of errors may be left out, and "// flags: FLAGS" adds to the command.
Without any misuse the part compiles.

A part that is named after a code is its section in docs/errors.md: the comment that it begins with, its first misuse, the
comment that #else begins with, and what is right. "On the page" is what the index says of the file's codes.
"""
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parent
DIRECTIVE = re.compile(r'#(?:(if|elif) defined\(([A-Z][A-Z0-9_]*)\)|(else|endif))$')
EXPECTED = re.compile(r'\s*// (?:\| |errors <= \d|flags: )')


class misuse:
    """A name, the fragments that the messages must have, the most errors or None, and flags for the compiler."""

    def __init__(self, name):
        self.name, self.fragments, self.most, self.flags = name, [], None, []


class part:
    """The lines of a namespace, and its misuses by name. `start` is the number of its first line, that of its name."""

    def __init__(self, path, start, lines):
        self.path, self.start, self.lines, self.misuses = path, start, lines, {}
        self.name = lines[0].split()[1]
        self.code = self.name.upper() if re.fullmatch(r'tri\d{4}', self.name) else None

    def chosen(self, name):
        """The lines that a compiler sees if the misuse of that name is chosen, or none is: the others are empty."""
        seen, shown = False, True
        for line in self.lines:
            directive = DIRECTIVE.match(line)
            if not directive:
                yield line if shown else ''
                continue
            yield ''
            if directive[1] == 'if':
                seen = shown = directive[2] == name
            elif directive[1] == 'elif':
                shown = directive[2] == name
                seen = seen or shown
            elif directive[3] == 'else':
                shown = not seen
            else:
                shown = True

    def read(self):
        """Finds the misuses. Complaints are returned."""
        inside, last = None, None
        for number, line in enumerate(self.lines, self.start):
            at = f'{self.path.name}:{number}'
            if line.startswith('#') and not line.startswith('#pragma'):
                found = DIRECTIVE.match(line)
                if not found or (found[1] == 'if') != (inside is None):
                    yield f'{at}: write #if defined(NAME), #elif defined(NAME), #else and #endif, none in another'
                    return
                inside = None if found[3] == 'endif' else line
                if found[2] in self.misuses:
                    yield f'{at}: {found[2]} is there already'
                last = None
                if found[2]:
                    self.misuses[found[2]] = last = misuse(found[2])
                continue
            line = line.strip()
            if last and (found := re.match(rf'// {last.name}: (.+)', line) or re.match(r'// \| (.+)', line)):
                last.fragments += [fragment.strip() for fragment in found[1].split(' | ')]
            elif last and (found := re.match(r'// errors <= (\d+)', line)):
                last.most = int(found[1])
            elif last and (found := re.match(r'// flags: (.+)', line)):
                last.flags = found[1].split()
            elif not line.startswith('//'):
                last = None
        yield from (f'{self.path.name}: {one.name} has no comment "// {one.name}: expected text"'
                    for one in self.misuses.values() if not one.fragments)

    def is_expected(self, line):
        """Whether a line says what is expected of a misuse, and is no code."""
        return bool(EXPECTED.match(line)) or any(line.strip().startswith(f'// {name}: ') for name in self.misuses)


class source:
    """A file: its parts, the headers that they need, what the index says of it, and complaints about its form."""

    def __init__(self, path):
        self.path, self.parts, self.headers, self.about, self.faults = path, [], [], None, []
        begin = None
        lines = path.read_text(encoding='utf-8').splitlines()
        for i, line in enumerate(lines):
            if begin is None and re.match(r'namespace \w+ \{$', line):
                begin = i
            elif begin is not None and re.match(r'\} // namespace ', line):
                self.parts.append(part(path, begin + 1, lines[begin:i + 1]))
                begin = None
            elif begin is None and (found := re.match(r'// On the page: (.+)', line)):
                self.about = found[1]
            elif begin is None and re.match(r'#include <.+>$', line):
                self.headers.append(line)
            elif begin is None and line and not line.startswith('//') and line != '#include "prelude.hpp"':
                self.faults.append(f'{path.name}:{i + 1}: this belongs into a namespace, or into prelude.hpp')
        if begin is not None:
            self.faults.append(f'{path.name}:{begin + 1}: this namespace does not end')
        for one in self.parts:
            self.faults += one.read()
        names = [name for one in self.parts for name in one.misuses]
        self.faults += [f'{path.name}: {name} is there twice' for name in sorted(set(names)) if names.count(name) > 1]


def sources(paths=None):
    return [source(path) for path in paths or sorted(FOLDER.glob('*.cpp'))]
