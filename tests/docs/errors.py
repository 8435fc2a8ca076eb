# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the code of docs/errors.md: what a section calls wrong gives its error, what it calls mended compiles. In every
section the first ```cpp block is the wrong one, the second the mended one; each is compiled behind the blocks of "The
prelude". All wrong ones are one program, because a compiler goes on after a failed assertion; how many errors each of
them gives alone is a matter of tests/compile_fail.

errors.py SOURCE_ROOT -- COMPILER [FLAGS]
"""
import pathlib
import re
import subprocess
import sys

BLOCK = re.compile(r'^```cpp\n(.*?)^```$', re.M | re.S)


def main():
    root = pathlib.Path(sys.argv[1])
    command = sys.argv[sys.argv.index('--') + 1:]
    page = (root / 'docs/errors.md').read_text(encoding='utf-8')
    prelude, sections = '', {}
    for section in re.split(r'^## ', page, flags=re.M)[1:]:
        found = BLOCK.findall(section)
        if section.startswith('TRI'):
            if len(found) != 2:
                sys.exit(f'docs/errors.md: {section[:7]} needs two blocks of code, it has {len(found)}')
            sections[section[:7]] = found
        elif section.startswith('The prelude'):
            prelude = ''.join(found)
    sections = dict(sorted(sections.items()))
    all_errors = '-ferror-limit=0' if any('clang' in word for word in command) else '-fmax-errors=0'

    def compiled(which, *more):
        """The exit code and the errors of one program made of one block of each section."""
        source = prelude.replace('\n\n', '\n')
        for code, found in sections.items():
            source += f'namespace {code} {{\n#line 1 "{code}"\n{found[which]}}}\n'
        ran = subprocess.run([*command, all_errors, *more, '-fsyntax-only', '-x', 'c++', '-'], input=source,
                             capture_output=True, text=True, timeout=600)
        return ran.returncode, ran.stderr

    faults = []
    # -ffast-math is what is wrong in one of the sections, and hides what is wrong in another
    said = compiled(0)[1] + compiled(0, '-ffast-math')[1]
    given = re.findall(r'error: .*?(TRI\d{4}): ', said)
    for name in sections:
        if name not in given:
            faults.append(f'{name}: what is wrong does not give this error')
    code, said = compiled(1)
    if code != 0:
        faults.append('the mended code does not compile:\n' + said)
    print('\n'.join([*faults, f'{len(sections) - len(faults)} passed, {len(faults)} failed']))
    sys.exit(1 if faults else 0)


main()
