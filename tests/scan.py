# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lists the sources of a folder, so that adding one needs no edit of a meson.build.

scan.py FOLDER               each .cpp and .cu below it, relative to it, one a line; ' nightly' follows those that have
                             a test suite of that name
scan.py FOLDER --same LIST   fails if that differs from LIST, which was seen when the build was configured
"""
import pathlib
import sys


def scan(folder):
    for path in sorted(folder.rglob('*')):
        if path.suffix in ('.cpp', '.cu') and not path.name.startswith('.'):
            nightly = 'TEST_SUITE("nightly' in path.read_text(encoding='utf-8')
            yield path.relative_to(folder).as_posix() + (' nightly' if nightly else '')


lines = list(scan(pathlib.Path(sys.argv[1])))
if len(sys.argv) == 2:
    print('\n'.join(lines))
else:
    known = sys.argv[3:]
    for line in sorted(set(lines) ^ set(known)):
        print(line, 'is', 'new' if line in lines else 'gone')
    if lines != known:
        sys.exit('the build does not know its sources: run meson setup --reconfigure BUILD_FOLDER')
