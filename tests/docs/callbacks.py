# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs examples/callbacks.cpp and reads its logs as their users do: with json, with csv, and by TensorBoard's own reader.

callbacks.py PROGRAM [--tensorboard]

--tensorboard installs that reader from PyPI into build/tensorboard, unless it is there; where it cannot be had the test
is skipped (77). Without the flag event files are not read. Skipped, too, where the data set is missing.
"""
import csv
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
from checks import Checks, lacks_fashion_mnist  # noqa: E402

VERSION = '2.21.0'
PACKAGES = [f'tensorboard=={VERSION}', 'protobuf', 'numpy', 'absl-py', 'packaging'] # what its reader imports
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
READER = '''
import json, sys
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
found = {}
for event in EventFileLoader(sys.argv[1]).Load():
    for value in event.summary.value:
        found.setdefault(value.tag, []).append([event.step, value.tensor.float_val[0]])
print(json.dumps(found))
'''
checks = Checks()


def expect(holds, what):
    checks.expect(holds, f'failed: {what}')


def reader():
    """A Python that has TensorBoard."""
    own = ROOT / 'build' / 'tensorboard'
    python = own / 'bin' / 'python3'
    if not python.exists() or subprocess.run([python, '-c', 'import tensorboard'], capture_output=True).returncode != 0:
        for command in ([sys.executable, '-m', 'venv', '--clear', own],
                        [python, '-m', 'pip', 'install', '--quiet', '--no-deps', *PACKAGES]):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                print(f'TensorBoard {VERSION} is not here and PyPI does not give it\n' + done.stderr.strip())
                sys.exit(77)
    return python


def in_float(value):
    return struct.unpack('f', struct.pack('f', value))[0]


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    ran = subprocess.run([sys.argv[1], folder], capture_output=True, text=True, timeout=300)
    if ran.returncode != 0:
        print(f'{sys.argv[1]} ended with {ran.returncode}: {ran.stderr.strip()}')
        sys.exit(77 if lacks_fashion_mnist(ran.stderr) else 1)

    epochs = [json.loads(line) for line in (folder / 'epochs.jsonl').read_text().splitlines()]
    with open(folder / 'steps.csv', newline='') as file:
        steps = [{key: float(cell) for key, cell in row.items()} for row in csv.DictReader(file)]
    expect(ran.stdout.count('\nepoch ') + 1 == len(epochs), 'a line for each epoch is printed')
    expect([e['epoch'] for e in epochs] == list(range(1, len(epochs) + 1)), 'epochs are in order')
    expect(len(steps) == len(epochs) * steps[0]['batches'], 'a row for each step')
    for epoch in epochs:
        own = [s for s in steps if s['epoch'] == epoch['epoch']]
        before = [0] + [s['samples'] for s in own]
        mean = sum(s['loss'] * (s['samples'] - b) for s, b in zip(own, before)) / own[-1]['samples']
        expect(abs(mean - epoch['loss']) < 1e-6, 'the loss of an epoch is the mean of its steps')
    best = min(epochs, key=lambda e: e['test_loss'])
    expect(f'was that of epoch {best["epoch"]}, ' in ran.stdout, 'the best epoch is told')
    expect(f'loss {best["test_loss"]:.6g}, ' in ran.stdout, 'its weights are back')
    expect(best['best'] and not any(e['best'] for e in epochs[best['epoch']:]), 'it is marked as the best')
    expect(best['epoch'] < len(epochs) < 50, 'patience ends the training')

    events = list((folder / 'tensorboard').iterdir())
    expect(len(events) == 1, 'one event file')
    if '--tensorboard' in sys.argv:
        read = subprocess.run([reader(), '-c', READER, events[0]], capture_output=True, text=True)
        if read.returncode != 0:
            print(read.stderr.strip())
        found = json.loads(read.stdout or '{}')
        for tag, key in (('loss/train', 'loss'), ('loss/test', 'test_loss'), ('accuracy/test', 'test_accuracy'),
                         ('samples_per_second', 'samples_per_second')):
            expect(found.get(tag) == [[e['epoch'], in_float(e[key])] for e in epochs], tag)
        expect(found.get('loss/step') == [[i, in_float(s['loss'])] for i, s in enumerate(steps, 1)], 'loss/step')
        expect(len(found) == 5, 'no other tags')

checks.end()
