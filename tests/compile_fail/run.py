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
"""
import concurrent.futures
import os
import re
import subprocess
import sys


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


def main():
    split = sys.argv.index('--')
    [path], command = sys.argv[1:split], sys.argv[split + 1:]
    with open(path, encoding='utf-8') as file:
        cases, sections = cases_of(file.read())
    environment = {**os.environ, 'LC_ALL': 'C'}
    version = subprocess.run(command + ['--version'], stdout=subprocess.PIPE, text=True, env=environment).stdout
    no_source_lines = '-fno-caret-diagnostics' if 'clang' in version else '-fno-diagnostics-show-caret'
    command = command + ['-fsyntax-only', no_source_lines, '-fdiagnostics-color=never', path]

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
