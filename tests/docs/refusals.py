# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gives examples what they cannot use: each ends with exit code 2, and one line that has the thing and the remedy.

refusals.py PROGRAM ...    the programs mlp, use_weights, callbacks and cifar, or some of them

A program that is not given, and what needs Fashion-MNIST where that is not, is left out, and said to be.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
from checks import Checks, lacks_fashion_mnist  # noqa: E402

programs = {pathlib.Path(path).name: path for path in sys.argv[1:]}
environment = {name: value for name, value in os.environ.items() if name != 'TRIREME_CIFAR10'}
checks = Checks()
left_out = set()


def expect(code, words, name, *arguments):
    """Runs a program, if it is here; what it says on standard error has all words."""
    if name not in programs:
        left_out.add(f'{name} is not built')
        return
    ran = subprocess.run([programs[name], *map(str, arguments)], capture_output=True, text=True, timeout=300,
                         env=environment)
    if name in ('use_weights', 'callbacks') and lacks_fashion_mnist(ran.stderr):
        left_out.add(f'{name}: Fashion-MNIST is not there')
        return
    wrong = [word for word in words if word not in ran.stderr]
    if code == 2 and (not ran.stderr.startswith(name + ': ') or ran.stderr.count('\n') != 1):
        wrong.append(f'one line that begins with {name}:')
    checks.expect(ran.returncode == code and not wrong,
                  f'{name} {arguments}: exit code {ran.returncode}, without {wrong}: {ran.stderr}')


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)

    def table(*lines):
        path = folder / 'table.csv'
        path.write_text('\n'.join(lines) + '\n', encoding='utf-8')
        return path

    def flowers(last='a', count=30, columns=4):
        rows = [','.join([str(i)] * columns + ['abc'[i % 3]]) for i in range(count)]
        return [','.join([f'x{c}' for c in range(columns)] + ['kind']), *rows, ','.join(['1'] * columns + [last])]

    expect(0, [], 'mlp', table(*flowers()))
    for each in ('mlp', 'callbacks') if pathlib.Path('/dev/full').exists() else ():
        if each in programs:
            with open('/dev/full', 'w', encoding='utf-8') as full:
                lost = subprocess.run([programs[each], table(*flowers()) if each == 'mlp' else folder / 'nowhere'], stdout=full,
                                      stderr=subprocess.PIPE, text=True, timeout=300, env=environment)
            right = lost.returncode == (3 if each == 'mlp' else 2) # what is wrong before anything is printed comes first
            checks.expect(right, f'{each} loses its output: {lost.returncode}: {lost.stderr}')
    expect(2, ['nowhere.csv', 'cannot be opened', 'check the path'], 'mlp', folder / 'nowhere.csv')
    expect(2, [str(folder), 'this is a folder', 'pass the path of a file'], 'mlp', folder)
    expect(2, ['--help', 'cannot be opened'], 'mlp', '--help')
    expect(2, ['line 32, column 5', 'a class is missing', 'fill it in'], 'mlp', table(*flowers(last='')))
    expect(2, ['4 classes', '3 outputs'], 'mlp', table(*flowers(last='d')))
    expect(2, ['5 values', '4'], 'mlp', table(*flowers(columns=5)))
    expect(2, ['line 33, column 2', "'many'", 'no finite number', 'write it as'], 'mlp', table(*flowers(), '1,many,1,1,a'))
    expect(2, ['line 33', 'a field too many', 'give all lines'], 'mlp', table(*flowers(), '1,1,1,1,a,1'))
    expect(2, ['table.csv', 'the file is empty', 'write a line'], 'mlp', table())
    expect(2, ['line 1 names the columns, and 5.1 is no name', 'write a line of names'], 'mlp',
           table('5.1,3.5,1.4,0.2,a', *flowers()[1:]))

    expect(2, ['nowhere: the file cannot be opened', 'check the path'], 'use_weights', folder / 'nowhere')
    expect(2, ['table.csv', 'byte 0'], 'use_weights', table('these are no weights'))

    expect(2, ['nowhere/epochs.jsonl: the log cannot be opened', 'check that the folder exists'], 'callbacks', folder / 'nowhere')

    for each, argument in (('mlp', 'FILE'), ('use_weights', 'FILE'), ('callbacks', 'FOLDER')):
        expect(2, [f'usage: {each} [{argument}]'], each, folder / 'nowhere', 'more')

    fetch = ['fetch cifar-10-binary.tar.gz from https://', '--data DIR', 'TRIREME_CIFAR10']
    expect(2, ['CIFAR-10: nobody has said where the files are', *fetch], 'cifar')
    expect(2, ['nowhere: the folder is not there', *fetch], 'cifar', '--data', folder / 'nowhere')
    expect(2, ['data_batch_1.bin: there is no such file', *fetch], 'cifar', '--data', folder)
    for wrong in (['--epochs', '0'], ['--epochs', 'many'], ['--learning-rate', 'nan'], ['--batch', '-1'], ['--data', ''],
                  ['--nonsense'], ['more']):
        expect(2, ['try --help'], 'cifar', *wrong)
    expect(0, [], 'cifar', '--help')

for why in sorted(left_out):
    print('left out:', why)
checks.end()
