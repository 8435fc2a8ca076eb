# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What must not compile does not, and the compiler says why; what is right instead compiles. misuses.py has the form.

run.py [NAME.cpp ...] -- COMPILER [FLAGS]

A misuse is compiled as docs/errors.md shows it, behind the prelude and outside of its namespace. What is right instead is
one program for each file. The prelude is compiled once.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import misuses

PRELUDE = misuses.FOLDER / 'prelude.hpp'


class compiler:
    def __init__(self, command, folder):
        self.environment = {**os.environ, 'LC_ALL': 'C'}
        version = subprocess.run(command + ['--version'], stdout=subprocess.PIPE, text=True, env=self.environment).stdout
        is_clang = 'clang' in version
        # source lines that the compiler repeats are no messages
        no_source_lines = '-fno-caret-diagnostics' if is_clang else '-fno-diagnostics-show-caret'
        self.command = command + [no_source_lines, '-fdiagnostics-color=never']
        self.plain = ['-include', str(PRELUDE)]
        copy = folder / 'prelude.hpp' # g++ takes the compiled one beside it, if the flags are the same
        copy.write_bytes(PRELUDE.read_bytes())
        made = folder / ('prelude.pch' if is_clang else 'prelude.hpp.gch')
        at_once = ['-fpch-instantiate-templates'] if is_clang else [] # not again for every misuse
        done = subprocess.run([*self.command, *at_once, '-x', 'c++-header', str(copy), '-o', str(made)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace',
                              env=self.environment)
        if done.returncode != 0:
            sys.exit('the prelude does not compile:\n' + done.stdout)
        self.fast = ['-include-pch', str(made)] if is_clang else ['-include', str(copy)]

    def said(self, source, lines, flags):
        """The exit code and the messages for lines of a file, behind the headers that it includes."""
        text = '\n'.join([*source.headers, f'#line 1 "{source.path.name}"', *lines, ''])
        done = subprocess.run([*self.command, *flags, *(self.plain if flags else self.fast), '-fsyntax-only', '-x', 'c++',
                               '-'], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors='replace', env=self.environment)
        return done.returncode, done.stdout


def judge(use, source, part, misuse):
    """Compiles a misuse: what is wrong, if anything is, and the messages."""
    lines = [*[''] * part.start, *list(part.chosen(misuse.name))[1:-1]]
    code, said = use.said(source, lines, misuse.flags)
    errors = len(re.findall(r'(?:^|: )(?:fatal )?error: ', said, re.M))
    flat = ' '.join(said.split())
    missing = [fragment for fragment in misuse.fragments if fragment not in flat]
    if code == 0:
        return 'compiles', ''
    if code < 0 or 'internal compiler error' in said:
        return 'the compiler broke', said
    if missing:
        return 'the messages lack: ' + ' | '.join(missing), said
    if misuse.most is not None and errors > misuse.most:
        return f'{errors} errors, at most {misuse.most} expected', said
    return '', ''


def judge_right(use, source):
    lines = []
    for part in source.parts:
        lines += [*[''] * (part.start - 1 - len(lines)), *part.chosen(None)]
    code, said = use.said(source, lines, [])
    return ('does not compile, but no misuse is chosen', said) if code != 0 else ('', '')


def main():
    split = sys.argv.index('--')
    files, command = sys.argv[1:split], sys.argv[split + 1:]
    sources = misuses.sources([pathlib.Path(file) for file in files])
    faults = [fault for source in sources for fault in source.faults]
    if faults:
        sys.exit('\n'.join([*faults, f'0 passed, {len(faults)} failed']))
    with tempfile.TemporaryDirectory() as folder:
        use = compiler(command, pathlib.Path(folder))
        tasks = [(f'{source.path.name}, what is right', judge_right, (use, source)) for source in sources]
        tasks += [(f'{source.path.name} {misuse.name}', judge, (use, source, part, misuse))
                  for source in sources for part in source.parts for misuse in part.misuses.values()]
        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as workers:
            results = list(workers.map(lambda task: task[1](*task[2]), tasks))
    failed = 0
    for (name, _, _), (fault, said) in zip(tasks, results):
        failed += bool(fault)
        print(f'FAILED  {name}: {fault}' if fault else f'passed  {name}')
        if fault:
            print(said[:3000])
    print(f'{len(results) - failed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
