# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds and runs a consumer's project as its author would: with Trireme as a subproject, installed, or as a package.

run.py KIND SOURCE_ROOT COMPILER

KIND is subproject, pkg-config or cmake; wrap, vcpkg or conan for a package manager's recipe, which takes an archive of
the sources that lies beside it. vcpkg itself is not needed: CMake plays its portfile through, with two of vcpkg's
functions replaced. Conan is installed from PyPI into build/conan, unless it is there.
Exit code 77 (skipped) if the tool that the consumer uses is not on this machine.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

CONAN = 'conan==2.34.0'
VCPKG = '''
function(vcpkg_extract_source_archive result)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "ARCHIVE" "")
    file(ARCHIVE_EXTRACT INPUT "${arg_ARCHIVE}" DESTINATION "${work}/sources")
    file(GLOB only_folder "${work}/sources/*")
    set(${result} "${only_folder}" PARENT_SCOPE)
endfunction()
function(vcpkg_install_copyright)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
    file(INSTALL ${arg_FILE_LIST} DESTINATION "${CURRENT_PACKAGES_DIR}/share/trireme")
endfunction()
include(${port}/portfile.cmake)
'''

kind, root, compiler = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), ' '.join(sys.argv[3:])
meson = os.environ.get('MESON', 'meson')
needed = {'subproject': [meson], 'wrap': [meson], 'pkg-config': [meson, 'pkg-config', 'make'],
          'cmake': [meson, 'cmake', 'ninja'], 'vcpkg': ['cmake', 'ninja'], 'conan': ['cmake', 'ninja']}[kind]
if missing := [tool for tool in needed if not shutil.which(tool)]:
    print('skipped, not on this machine:', *missing)
    sys.exit(77)

temporary = tempfile.TemporaryDirectory() # not in the build folder: pkg-config's flags suffer no space in a path
work = pathlib.Path(temporary.name)
project, prefix = work / 'project', work / 'prefix'
consumers = root / 'tests' / 'consumers'
shutil.copytree(consumers / kind, project)
shutil.copy(consumers / 'main.cpp', project)
environment = {**os.environ, 'CXX': compiler}


def run(*command, **variables):
    print('$', *command, flush=True)
    if subprocess.run([str(word) for word in command], cwd=project, env={**environment, **variables}).returncode:
        sys.exit('failed')


def files_of(top):
    return {path.relative_to(top).as_posix() for path in (top / 'trireme').rglob('*') if path.is_file()}


def expect_all_headers(top):
    assert files_of(root / 'include') == files_of(top), f'not installed: {files_of(root / "include") ^ files_of(top)}'


def install():
    run(meson, 'setup', work / 'build', root, '--prefix', prefix, '-Dtests=disabled', '-Dexamples=disabled')
    run(meson, 'install', '-C', work / 'build', '--quiet')
    expect_all_headers(prefix / 'include')


def version():
    text = (root / 'include/trireme/core/version.hpp').read_text(encoding='utf-8')
    return '.'.join(re.search(rf'TRIREME_VERSION_{part} (\d+)', text)[1] for part in ('MAJOR', 'MINOR', 'PATCH'))


def archive(folder, recipe):
    """Puts the sources beside a recipe, as `git archive` names them; the recipe must name this version."""
    name = f'trireme-{version()}'
    assert version() in recipe.read_text(encoding='utf-8'), f'{recipe} is not for version {version()}'
    folder.mkdir(exist_ok=True)
    with tarfile.open(folder / f'{name}.tar.gz', 'w:gz') as tar:
        for part in ('include', 'meson.build', 'meson_options.txt', 'LICENSE'):
            tar.add(root / part, f'{name}/{part}')


def find_conan():
    own = root / 'build' / 'conan'
    program = own / 'bin' / 'conan'
    if not program.exists() or subprocess.run([program, '--version'], capture_output=True).returncode != 0:
        for command in ([sys.executable, '-m', 'venv', '--clear', own],
                        [own / 'bin' / 'python3', '-m', 'pip', 'install', '--quiet', CONAN]):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                print(f'skipped: {CONAN} is not here and PyPI does not give it\n' + done.stderr.strip())
                sys.exit(77)
    environment['CONAN_HOME'] = str(work / 'conan') # nothing of the user's
    return program


def build_by_cmake(*options):
    run('cmake', '-G', 'Ninja', '-S', '.', '-B', 'build', *options)
    run('cmake', '--build', 'build')


if kind == 'subproject':
    (project / 'subprojects').mkdir()
    (project / 'subprojects' / 'trireme').symlink_to(root)
    run(meson, 'setup', 'build')
    run(meson, 'compile', '-C', 'build')
elif kind == 'wrap':
    shutil.copy(consumers / 'subproject' / 'meson.build', project)
    archive(project / 'subprojects' / 'packagefiles', project / 'subprojects' / 'trireme.wrap')
    run(meson, 'setup', 'build')
    run(meson, 'compile', '-C', 'build')
elif kind == 'pkg-config':
    install()
    run('make', PKG_CONFIG_PATH=f'{prefix / "share" / "pkgconfig"}:{os.environ.get("PKG_CONFIG_PATH", "")}')
elif kind == 'cmake':
    install()
    moved = prefix.rename(work / 'moved here') # CMake users move installed trees
    build_by_cmake(f'-DCMAKE_PREFIX_PATH={moved}')
elif kind == 'vcpkg':
    port = project / 'ports' / 'trireme'
    archive(port, port / 'vcpkg.json')
    (work / 'vcpkg.cmake').write_text(VCPKG, encoding='utf-8')
    run('cmake', f'-Dwork={work}', f'-Dport={port}', f'-DCURRENT_PACKAGES_DIR={prefix}',
        f'-DVERSION={json.loads((port / "vcpkg.json").read_text(encoding="utf-8"))["version"]}',
        '-P', work / 'vcpkg.cmake')
    expect_all_headers(prefix / 'include')
    shutil.copy(consumers / 'cmake' / 'CMakeLists.txt', project)
    build_by_cmake(f'-DCMAKE_PREFIX_PATH={prefix}')
else:
    conan = find_conan()
    recipe, standard = work / 'recipe', ['-s', 'compiler.cppstd=20']
    recipe.mkdir()
    shutil.move(project / 'conanfile.py', recipe)
    archive(recipe, recipe / 'conanfile.py')
    # Conan Center, which has zlib, may be out of reach, so this one is the system's
    alone = ['--no-remote', '-o', '*:system_zlib=True']
    run(conan, 'profile', 'detect', CXX=compiler.split()[-1])
    run(conan, 'create', recipe, *standard, *alone)
    shutil.copy(consumers / 'cmake' / 'CMakeLists.txt', project)
    run(conan, 'install', '.', *standard, *alone, '--output-folder', 'build')
    build_by_cmake('-DCMAKE_TOOLCHAIN_FILE=build/conan_toolchain.cmake', '-DCMAKE_BUILD_TYPE=Release')

program = project / 'mine' if kind == 'pkg-config' else project / 'build' / 'mine'
output = subprocess.run([str(program)], stdout=subprocess.PIPE, text=True, check=True).stdout
print(output, end='')
assert output.startswith(f'Trireme {version()}'), output
