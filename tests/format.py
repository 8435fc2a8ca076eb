#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Formats the C++ of this tree, by one version of clang-format: others break lines elsewhere.

format.py [FILES]    formats all files that git knows, or these
format.py --check    names the files that formatting would change, as a test: the last line is 'N passed, N failed'

The version comes from PyPI into build/clang-format; CLANG_FORMAT may name another program of the same version. Where it
cannot be had, --check is skipped (exit code 77).
"""
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent / 'support'))
from checks import ends  # noqa: E402

VERSION = '23.1.5'
ROOT = pathlib.Path(__file__).resolve().parent.parent
ENDINGS = ('.cpp', '.hpp', '.cu', '.cuh')


def version_of(program):
    """The version of a clang-format, or nothing."""
    try:
        said = subprocess.run([program, '--version'], capture_output=True, text=True, check=False).stdout
    except OSError:
        return ''
    return said.rpartition('version ')[2].split(' ')[0].strip()


def installed():
    """A clang-format of our version, from PyPI if need be."""
    own = ROOT / 'build' / 'clang-format'
    for program in filter(None, [os.environ.get('CLANG_FORMAT'), str(own / 'bin' / 'clang-format'), 'clang-format']):
        if version_of(program) == VERSION:
            return program
    for command in ([sys.executable, '-m', 'venv', '--clear', own],
                    [own / 'bin' / 'python3', '-m', 'pip', 'install', '--quiet', f'clang-format=={VERSION}']):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f'clang-format {VERSION} is not here and PyPI does not give it: set CLANG_FORMAT to it\n'
                  + (done.stdout + done.stderr).strip(), file=sys.stderr)
            sys.exit(77)
    return str(own / 'bin' / 'clang-format')


def tracked():
    """All files of this tree that are formatted."""
    names = None
    if shutil.which('git'):
        listed = subprocess.run(['git', '-C', ROOT, 'ls-files', '-z'], capture_output=True, text=True, check=False)
        names = listed.stdout.split('\0') if listed.returncode == 0 else None
    if names is None: # a machine without git, or an archive
        names = [str(path.relative_to(ROOT)) for folder in ('include', 'examples', 'tests', 'bench')
                 for path in (ROOT / folder).rglob('*')]
    return sorted(str(ROOT / name) for name in names
                  if name.endswith(ENDINGS) and (ROOT / name).is_file())


if sys.argv[1:] == ['--check']:
    files = tracked()
    checked = subprocess.run([installed(), '--dry-run', '--ferror-limit=1', *files], capture_output=True, text=True,
                             check=False)
    wrong = sorted({line.split(':')[0] for line in checked.stderr.splitlines() if '-Wclang-format-violations' in line})
    faults = [f'{os.path.relpath(path, ROOT)}: formatting would change it; run python3 tests/format.py'
              for path in wrong]
    if checked.returncode != 0 and not wrong:
        faults = [checked.stderr]
    sys.exit(ends(faults, len(files)))
if any(name.startswith('-') for name in sys.argv[1:]):
    sys.exit(__doc__)
others = [name for name in sys.argv[1:] if not name.endswith(ENDINGS)]
if others: # clang-format would take it for C++
    sys.exit(f'{", ".join(others)}: no C++ ({", ".join(ENDINGS)}), nothing is formatted; name C++ files alone')
subprocess.run([installed(), '-i', *(sys.argv[1:] or tracked())], check=True)
