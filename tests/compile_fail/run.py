# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What must not compile does not, and the compiler says why.

run.py FILE.cpp -- COMPILER [FLAGS]

FILE.cpp holds one misuse per section and a program that compiles when none is chosen, which proves the rest sound:

    #if defined(ZERO_DEVICES)
    // ZERO_DEVICES: a mesh needs at least one device | gets<dp<0>>
    // errors <= 2
    using devices = mesh<host, dp<0>>;
    #else
    using devices = mesh<host, dp<1>>;
    #endif

All fragments between the bars must be in the compiler's messages (source lines that it repeats do not count). The
bound on the number of errors may be left out. A second comment line that begins with "// |" continues the fragments.
The headers that FILE.cpp includes before its first section are compiled once, for all cases.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def cases_of(text):
    """Name -> [fragments, most errors or None] of each commented case; names of the sections."""
    cases, name = {}, None
    sections = set(re.findall(r'^\s*#\s*(?:el)?if\s+defined\s*\(?\s*([A-Z][A-Z0-9_]*)', text, re.M))
    sections |= set(re.findall(r'^\s*#\s*(?:el)?ifdef\s+([A-Z][A-Z0-9_]*)', text, re.M))
    for line in text.splitlines():
        line = line.strip()
        if (found := re.match(r'// ([A-Z][A-Z0-9_]*): (.+)', line)) and found[1] in sections:
            name = found[1]
            cases[name] = [[part.strip() for part in found[2].split(' | ')], None]
        elif name and (found := re.match(r'// \| (.+)', line)):
            cases[name][0] += [part.strip() for part in found[1].split(' | ')]
        elif name and (found := re.match(r'// errors <= (\d+)', line)):
            cases[name][1] = int(found[1])
        elif not line.startswith('//'):
            name = None
    return cases, sections


def precompiled(text, command, is_clang, folder):
    """Compiler arguments that read the headers before the first section from a file made now; none if that fails."""
    head = re.split(r'^\s*#\s*if', text, maxsplit=1, flags=re.M)[0]
    source = folder / 'head.hpp'
    source.write_text('\n'.join(re.findall(r'^\s*#\s*include\s*<.*', head, re.M)) + '\n', encoding='utf-8')
    made = folder / ('head.pch' if is_clang else 'head.hpp.gch')
    done = subprocess.run(command + ['-x', 'c++-header', str(source), '-o', str(made)], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL)
    if done.returncode != 0:
        return []
    return ['-include-pch', str(made)] if is_clang else ['-include', str(source)]


def main():
    split = sys.argv.index('--')
    [path], command = sys.argv[1:split], sys.argv[split + 1:]
    text = pathlib.Path(path).read_text(encoding='utf-8')
    cases, sections = cases_of(text)
    with tempfile.TemporaryDirectory() as folder:
        return judge(path, text, cases, sections, command, pathlib.Path(folder))


def judge(path, text, cases, sections, command, folder):
    environment = {**os.environ, 'LC_ALL': 'C'}
    version = subprocess.run(command + ['--version'], stdout=subprocess.PIPE, text=True, env=environment).stdout
    is_clang = 'clang' in version
    no_source_lines = '-fno-caret-diagnostics' if is_clang else '-fno-diagnostics-show-caret'
    command = command + [no_source_lines, '-fdiagnostics-color=never']
    command += [*precompiled(text, command, is_clang, folder), '-fsyntax-only', path]

    def attempt(name):
        define = [f'-D{name}'] if name else []
        done = subprocess.run(command + define, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors='replace', env=environment)
        if not name:
            return name, done.returncode == 0, 'does not compile, but no misuse is chosen', done.stdout
        fragments, most = cases[name]
        errors = len(re.findall(r'(?:^|: )(?:fatal )?error: ', done.stdout, re.M))
        flat = ' '.join(done.stdout.split())
        missing = [part for part in fragments if part not in flat]
        if done.returncode == 0:
            return name, False, 'compiles', ''
        if done.returncode < 0 or 'internal compiler error' in done.stdout:
            return name, False, 'the compiler broke', done.stdout
        if missing:
            return name, False, 'the messages lack: ' + ' | '.join(missing), done.stdout
        if most is not None and errors > most:
            return name, False, f'{errors} errors, at most {most} expected', done.stdout
        return name, True, '', ''

    results = [(name, False, f'has no comment "// {name}: expected text"', '') for name in sorted(sections - set(cases))]
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as workers:
        results += workers.map(attempt, [None, *cases])
    failed = 0
    for name, passed, reason, output in results:
        failed += not passed
        print('passed ' if passed else 'FAILED ', name or 'no misuse: compiles', ': ' + reason if reason else '')
        if not passed:
            print(output[:3000])
    print(f'{len(results) - failed} passed, {failed} failed')
    return 1 if failed else 0


sys.exit(main())
