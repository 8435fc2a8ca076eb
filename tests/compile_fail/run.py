# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What must not compile does not, and the compiler says why; what is right instead compiles. misuses.py has the form.

run.py [NAME.cpp ...] -- COMPILER [FLAGS]

A misuse is compiled as docs/errors.md shows it, behind the prelude and outside of its namespace. What is right instead is
one program for each file. The prelude is compiled once. What has passed is remembered by the contents of the headers.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import misuses

sys.path.append(str(misuses.FOLDER.parent / 'support'))
import passed  # noqa: E402
from checks import ends  # noqa: E402

PRELUDE = misuses.FOLDER / 'prelude.hpp'


class compiler:
    def __init__(self, command, folder):
        self.environment = {**os.environ, 'LC_ALL': 'C'}
        self.folder = folder
        include = misuses.FOLDER.parent.parent / 'include'
        self.known = passed.of(
            command, include.parent, pathlib.Path(__file__).read_bytes(), PRELUDE.read_bytes(),
            *(part for path in sorted(include.rglob('*.hpp')) for part in (path.relative_to(include), path.read_bytes())))
        self.is_clang = is_clang = b'clang' in passed.version_of(command)
        # source lines that the compiler repeats are no messages
        no_source_lines = '-fno-caret-diagnostics' if is_clang else '-fno-diagnostics-show-caret'
        self.command = command + [no_source_lines, '-fdiagnostics-color=never']
        self.plain = ['-include', str(PRELUDE)]

    def compile_prelude(self):
        is_clang, folder = self.is_clang, self.folder
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


def lines_of(part, misuse):
    return [*[''] * part.start, *list(part.chosen(misuse.name))[1:-1]]


def lines_of_right(source):
    lines = []
    for part in source.parts:
        lines += [*[''] * (part.start - 1 - len(lines)), *part.chosen(None)]
    return lines


def judge(use, source, lines, misuse):
    """Compiles a misuse: what is wrong, if anything is, and the messages."""
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


def judge_right(use, source, lines):
    code, said = use.said(source, lines, [])
    return ('does not compile, but no misuse is chosen', said) if code != 0 else ('', '')


def main():
    split = sys.argv.index('--')
    files, command = sys.argv[1:split], sys.argv[split + 1:]
    sources = misuses.sources([pathlib.Path(file) for file in files])
    faults = [fault for source in sources for fault in source.faults]
    if faults:
        return ends(faults, len(faults))
    with tempfile.TemporaryDirectory() as folder:
        use = compiler(command, pathlib.Path(folder))
        tasks = [] # the name, the call, and what the answer depends on
        for source in sources:
            lines = lines_of_right(source)
            tasks.append((f'{source.path.name}, what is right', judge_right, (use, source, lines),
                          repr((source.path.name, source.headers, lines))))
            for part, misuse in ((part, misuse) for part in source.parts for misuse in part.misuses.values()):
                lines = lines_of(part, misuse)
                tasks.append((f'{source.path.name} {misuse.name}', judge, (use, source, lines, misuse),
                              repr((source.path.name, source.headers, lines, vars(misuse)))))
        is_known = [use.known.knows(depends) for *_, depends in tasks]
        if not all(is_known):
            use.compile_prelude()

        def attempt(task, known):
            _, call, arguments, depends = task
            fault, said = ('', '') if known else call(*arguments)
            if not fault and not known:
                use.known.note(depends)
            return fault, said
        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as workers:
            results = list(workers.map(attempt, tasks, is_known))
    failed = []
    for (name, *_), (fault, said) in zip(tasks, results):
        if fault:
            failed.append(f'FAILED  {name}: {fault}\n{said[:3000]}')
        else:
            print(f'passed  {name}')
    use.known.forget_old()
    return ends(failed, len(results))


if __name__ == '__main__':
    sys.exit(main())
