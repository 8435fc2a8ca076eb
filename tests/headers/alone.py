# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every public header compiles alone and included twice, which few compilations prove (see `orders_of`); all together compile among hostile macros and link twice. In
C++17 every umbrella is one sentence.

alone.py SOURCE_ROOT WORK_FOLDER [mpi|onednn] -- COMPILER [FLAGS]
If the compiler is nvcc: only the headers that need it are compiled, alone and by the pass for the GPU. With `mpi` or
`onednn`: only those that need that library, for which the flags name its folder.
What has compiled is remembered by the contents of the headers, so a second run is quick, in another clone, too.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
import rules  # noqa: E402
import passed  # noqa: E402

# Names that other headers define as macros (<complex.h>, <termios.h>, <sys/sysmacros.h>, X11's): a header of ours that
# used one as a name would break for whoever includes those first.
TRAPS = '''I small B0 B50 major minor makedev unix linux ERROR DEBUG TRUE FALSE None Bool Status Success Always PI'''.split()


def is_nvcc(command):
    return pathlib.Path(command[0]).name == 'nvcc'


def compile_and_link(command, folder, name, text, extra):
    source = folder / f'{name}.{"cu" if is_nvcc(command) else "cpp"}'
    source.write_text(text, encoding='utf-8')
    done = subprocess.run(command + extra + [str(source)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors='replace', env={**os.environ, 'LC_ALL': 'C'})
    return '' if done.returncode == 0 else done.stdout


def orders_of(headers, everything):
    """Orders of includes, few of them, that prove each of the headers to compile alone.

    A header that is included behind some of those that it includes itself finds nothing that it would not have had
    alone. So each order is a chain, whose headers all include the one before, directly or not; a header is in one
    chain, and there are as few as can be: a matching of headers with those behind them (Kuhn's), as in Dilworth's
    theorem.
    """
    reached = {name: rules.reached(everything, name) - {name} for name in headers}
    by_size = sorted(headers, key=lambda name: (len(reached[name]), name))
    behind, before = {}, {}

    def matched(name, tried):
        for other in sorted(reached[name] & headers.keys(), key=lambda other: (-len(reached[other]), other)):
            if other not in tried:
                tried.add(other)
                if other not in behind or matched(behind[other], tried):
                    behind[other], before[name] = name, other
                    return True
        return False
    for name in by_size:
        matched(name, set())
    for name in reversed(by_size): # the longest first
        if name not in behind:
            order = [name]
            while order[-1] in before:
                order.append(before[order[-1]])
            yield order[::-1]


def main():
    split = sys.argv.index('--')
    root, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    libraries = {'mpi': rules.NEEDS_MPI, 'onednn': rules.NEEDS_ONEDNN}
    library = sys.argv[3] if split > 3 else ''
    command = sys.argv[split + 1:]
    folder.mkdir(parents=True, exist_ok=True)
    top = root / 'include'
    everything = {path.relative_to(top).as_posix(): path for path in sorted(top.rglob('*.hpp'))}
    def wanted(name):
        if name.startswith(rules.NEEDS_NVCC):
            return is_nvcc(command)
        needed = next((word for word, names in libraries.items() if name.startswith(names)), '')
        return not is_nvcc(command) and needed == library
    headers = {name: path for name, path in everything.items() if wanted(name)}

    def only_syntax(stem):
        return ['-ptx', '-o', str(folder / f'{stem}.ptx')] if is_nvcc(command) else ['-fsyntax-only']
    if is_nvcc(command) and compile_and_link(command, folder, 'nccl', '#include <nccl.h>\n', only_syntax('nccl')):
        headers = {name: path for name, path in headers.items() if 'nccl' not in name}
    orders = {order[-1]: order for order in orders_of(headers, everything)}
    def text_of(names): # that each says #pragma once is a rule
        return 2 * ''.join(f'#include <{name}>\n' for name in names)
    texts = {name: text_of(order) for name, order in orders.items()}

    system = sorted({target for path in headers.values() for _, mark, target in rules.includes(path)
                     if mark == '<' and not target.startswith('trireme/')})
    ours = ''.join(f'#include <{name}>\n' for name in headers)
    together = (''.join(f'#if __has_include(<{name}>)\n#include <{name}>\n#endif\n' for name in system)
                + ''.join(f'#undef {trap}\n#define {trap} the macro {trap} of others\n' for trap in TRAPS)
                + ours + 'int main() {}\n')
    if not is_nvcc(command) and not library: # which would have to be linked
        texts['together'] = together
    known = passed.of(command, root)

    def attempt(name):
        depends = [texts[name]]
        for other in sorted(rules.reached(everything, name)) if name in headers else headers:
            depends += [other, everything[other].read_bytes()]
        if known.knows(*depends):
            return name, ''
        stem = re.sub(r'\W', '_', name)
        if name in headers:
            output = compile_and_link(command, folder, stem, texts[name], only_syntax(stem))
            if output and len(orders[name]) > 1: # which of them?
                each = {other: compile_and_link(command, folder, stem, text_of([other]), only_syntax(stem))
                        for other in orders[name]}
                faults = {other: text for other, text in each.items() if text} or {name: output}
                return ', '.join(faults), ''.join(faults.values())
        else:
            other = folder / 'together_again.cpp'
            other.write_text(ours, encoding='utf-8')
            output = compile_and_link(command, folder, stem, texts[name],
                                      [str(other), '-o', str(folder / 'together'), '-pthread', '-lz'])
        if not output:
            known.note(*depends)
        return name, output

    failed = 0
    old = ['-std=c++17' if flag == '-std=c++20' else flag for flag in command]
    for name in rules.UMBRELLAS if old != command and not is_nvcc(command) else ():
        if name in headers:
            output = compile_and_link(old, folder, 'old_' + re.sub(r'\W', '_', name), text_of([name]), ['-fsyntax-only'])
            if 'compile with -std=c++20' not in output or len(re.findall('error: ', output)) > 2:
                failed += 1
                print(f'{name}: in C++17 it says more than that it needs C++20:\n{output[:2000]}')
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as workers:
        for name, output in workers.map(attempt, texts):
            failed += name.count(',') + 1 if output else 0
            if output:
                print(f'{name}: does not compile alone:\n{output[:4000]}' if name != 'together'
                      else f'all headers together, among macros of other headers:\n{output[:4000]}')
    known.forget_old()
    print(f'{max(0, len(headers) + ("together" in texts) - failed)} passed, {failed} failed')
    return 1 if failed else 0


sys.exit(main())
