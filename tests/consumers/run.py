# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds and runs a consumer's project as its author would: with Trireme as a subproject, or installed.

run.py subproject|pkg-config|cmake SOURCE_ROOT COMPILER
Exit code 77 (skipped) if the tool that the consumer uses is not on this machine.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

kind, root, compiler = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), ' '.join(sys.argv[3:])
meson = os.environ.get('MESON', 'meson')
needed = {'subproject': [meson], 'pkg-config': [meson, 'pkg-config', 'make'], 'cmake': [meson, 'cmake', 'ninja']}[kind]
if missing := [tool for tool in needed if not shutil.which(tool)]:
    print('skipped, not on this machine:', *missing)
    sys.exit(77)

temporary = tempfile.TemporaryDirectory() # not in the build folder: pkg-config's flags suffer no space in a path
work = pathlib.Path(temporary.name)
project, prefix = work / 'project', work / 'prefix'
shutil.copytree(root / 'tests' / 'consumers' / kind, project)
shutil.copy(root / 'tests' / 'consumers' / 'main.cpp', project)
environment = {**os.environ, 'CXX': compiler}


def run(*command, **variables):
    print('$', *command, flush=True)
    if subprocess.run([str(word) for word in command], cwd=project, env={**environment, **variables}).returncode:
        sys.exit('failed')


def install():
    run(meson, 'setup', work / 'build', root, '--prefix', prefix, '-Dtests=disabled', '-Dexamples=disabled')
    run(meson, 'install', '-C', work / 'build', '--quiet')
    headers = [{path.relative_to(top).as_posix() for path in (top / 'trireme').rglob('*') if path.is_file()}
               for top in (root / 'include', prefix / 'include')]
    assert headers[0] == headers[1], f'not installed: {headers[0] ^ headers[1]}'


if kind == 'subproject':
    (project / 'subprojects').mkdir()
    (project / 'subprojects' / 'trireme').symlink_to(root)
    run(meson, 'setup', 'build')
    run(meson, 'compile', '-C', 'build')
elif kind == 'pkg-config':
    install()
    run('make', PKG_CONFIG_PATH=f'{prefix / "share" / "pkgconfig"}:{os.environ.get("PKG_CONFIG_PATH", "")}')
else:
    install()
    moved = prefix.rename(work / 'moved here') # CMake users move installed trees
    run('cmake', '-G', 'Ninja', '-S', '.', '-B', 'build', f'-DCMAKE_PREFIX_PATH={moved}')
    run('cmake', '--build', 'build')

program = project / 'mine' if kind == 'pkg-config' else project / 'build' / 'mine'
output = subprocess.run([str(program)], stdout=subprocess.PIPE, text=True, check=True).stdout
print(output, end='')
assert output.startswith('Trireme '), output
