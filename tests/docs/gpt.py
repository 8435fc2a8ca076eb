# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/gpt on a text of this tree: any number of devices and stages ends with the loss and the weights of one device,
its log has a line for each step, it writes as much as it is told to, and refuses what it cannot use.

gpt.py PROGRAM TEXT
"""
import json
import pathlib
import subprocess
import sys
import tempfile

program, text = sys.argv[1:]
passed = failed = 0


def expect(holds, what):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    if not holds:
        print(what)


def run(*arguments):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, errors='replace', check=False)


def refuses(words, *arguments):
    done = run(*arguments)
    said = done.stdout + done.stderr
    expect(done.returncode == 2 and all(word in said for word in words) and said.count('\n') == 1,
           f'gpt {arguments}: exit code {done.returncode}, not 2 and one line with {words}: {said}')


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)

    def logged(*arguments):
        log = folder / 'log'
        done = run('--text', text, '--steps', 3, '--batch', 8, '--reproducible', 4, '--characters', 0, '--log', log,
                   *arguments)
        expect(done.returncode == 0, f'gpt {arguments} ends with {done.returncode}: {done.stderr}')
        return [json.loads(line) for line in log.read_text().splitlines()]

    one = logged()
    expect([line['step'] for line in one] == [1, 2, 3], f'the log has no line for each step: {one}')
    expect(all(line['tokens_per_second'] > 0 for line in one), 'the log has no speed')
    expect(one[0]['rate'] < one[1]['rate'] < one[2]['rate'], 'the rate does not rise')
    expect('weights_hash' in one[2] and 'weights_hash' not in one[1], 'the last line has the hash of the weights, and no other')
    expect(5 < one[0]['loss'] < 7, 'the first loss is not about log 256')
    for layout in (['--devices', 2], ['--devices', 3], ['--stages', 2, '--micro-batches', 4],
                   ['--devices', 2, '--stages', 2, '--micro-batches', 2, '--schedule', 'zero_bubble_h1']):
        other = logged(*layout)
        expect([line['loss'] for line in other] == [line['loss'] for line in one], f'{layout}: other losses')
        expect(other[-1]['weights_hash'] == one[-1]['weights_hash'], f'{layout}: other weights')
    expect(logged('--seed', 2)[-1]['weights_hash'] != one[-1]['weights_hash'], 'two seeds train alike')

    short = folder / 'short'
    short.write_text('too short')
    writes = run('--text', text, '--steps', 1, '--batch', 1, '--characters', 7)
    expect(writes.returncode == 0 and 'bits per byte' in writes.stdout, f'gpt does not write: {writes.stderr}')
    refuses(['--text FILE is missing', 'sh examples/run.sh gpt'])
    refuses(['nowhere', 'cannot be opened'], '--text', folder / 'nowhere')
    refuses(['9 tokens', 'a window of 128'], '--text', short)
    refuses(['--log', 'cannot be written'], '--text', text, '--log', folder / 'no' / 'log')
    refuses(['stages'], '--text', text, '--stages', 64)
    for wrong in (['--steps', 0], ['--minutes', -1], ['--batch', 'many'], ['--schedule', 'none'], ['--nonsense'], ['more']):
        refuses(['try --help'], '--text', text, *wrong)
    expect(run('--help').returncode == 0, 'gpt --help fails')

print(f'{passed} passed, {failed} failed')
sys.exit(1 if failed or not passed else 0)
