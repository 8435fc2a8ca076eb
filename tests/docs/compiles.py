# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Examples and the documents' programs compile without a warning, with a compiler that does not build them.

compiles.py SOURCE_ROOT -- COMPILER [FLAGS]
A program of a library that this machine lacks is left out, and named. What has compiled is remembered by the contents of
the headers.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
import passed  # noqa: E402
from checks import ends  # noqa: E402

# What a program includes: the library's own header, and its package if that is in no usual place.
LIBRARIES = {'trireme/mpi.hpp': ('mpi.h', 'ompi-cxx'), 'CLI/CLI.hpp': ('CLI/CLI.hpp', ''),
             'doctest/doctest.h': ('doctest/doctest.h', '')}


def flags_of(package):
    """Flags for the headers of a library, whose warnings are its own."""
    if not package:
        return []
    asked = subprocess.run(['pkg-config', '--cflags-only-I', package], stdout=subprocess.PIPE, text=True, check=False)
    return ['-isystem' + word[2:] for word in asked.stdout.split()]


def compiled(command):
    done = subprocess.run([*command, '-fsyntax-only'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors='replace', env={**os.environ, 'LC_ALL': 'C'})
    return '' if done.returncode == 0 else done.stdout or f'exit code {done.returncode}'


def main():
    split = sys.argv.index('--')
    root, command = pathlib.Path(sys.argv[1]).resolve(), sys.argv[split + 1:]
    command += ['-I' + str(root / folder) for folder in ('tests', 'examples')]
    headers = [path for folder in ('include', 'tests', 'examples') for path in sorted((root / folder).rglob('*.hpp'))]
    known = passed.of(command, root,
                      *(part for path in headers for part in (path.relative_to(root), path.read_bytes())))
    missing, flags = {}, {}
    for header, (needed, package) in LIBRARIES.items():
        flags[header] = flags_of(package)
        include = subprocess.run([*command, *flags[header], '-fsyntax-only', '-x', 'c++', '-'], text=True, check=False,
                                 input=f'#include <{needed}>\n', stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        missing[header] = include.returncode != 0

    sources = []
    for path in sorted([*(root / 'examples').glob('*.cpp'), *(root / 'tests' / 'docs').glob('*.cpp')]):
        needs = [header for header in LIBRARIES if f'#include <{header}>' in path.read_text(encoding='utf-8')]
        lacks = [header for header in needs if missing[header]]
        if lacks:
            print(f'left out: {path.relative_to(root)}: no {LIBRARIES[lacks[0]][0]}')
        else:
            sources.append((path, [flag for header in needs for flag in flags[header]]))

    def attempt(source):
        path, more = source
        depends = path.relative_to(root), path.read_bytes(), *more
        said = '' if known.knows(*depends) else compiled([*command, *more, str(path)])
        if not said:
            known.note(*depends)
        return path.relative_to(root), said

    faults = []
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as workers:
        for name, said in workers.map(attempt, sources):
            if said:
                faults.append(f'{name}: does not compile:\n{said[:4000]}')
    known.forget_old()
    return ends(faults, len(sources))


sys.exit(main())
