# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/gpt on a text of this tree: any number of devices and stages ends with the loss and the weights of one device,
also if the training is saved and goes on elsewhere, by a signal, too; its log has a line for each step, it writes as much
as it is told to, loses no output in silence, and refuses what it cannot use.

gpt.py PROGRAM TEXT
"""
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from checked_program import CheckedProgram

program, text = sys.argv[1:]
checked = CheckedProgram(program)
expect, run, refuses = checked.expect, checked.run, checked.refuses

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)

    def logged(*arguments):
        log = folder / 'log'
        log.unlink(missing_ok=True)
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

    # ---- saved, and gone on with ----
    saved, every = folder / 'saved', folder / 'every'

    def steps(count, *arguments, behind=(), torn=''):
        log = folder / 'log'
        log.write_text(''.join(json.dumps(line) + '\n' for line in behind) + torn)
        done = run('--text', text, '--steps', count, '--batch', 8, '--characters', 0, '--log', log, *arguments)
        expect(done.returncode == 0, f'gpt to step {count} {arguments} ends with {done.returncode}: {done.stderr}')
        return [json.loads(line) for line in log.read_text().splitlines()]

    whole = steps(6, '--reproducible', 4, '--seed', 5)
    steps(3, '--reproducible', 4, '--seed', 5, '--devices', 2, '--save', saved)
    for layout in (['--devices', 3, '--reproducible', 4, '--seed', 5], ['--stages', 2], ['--devices', 2, '--stages', 2]):
        rest = steps(6, '--resume', saved, *layout)
        expect([line['step'] for line in rest] == [4, 5, 6], f'{layout}: other steps than 4 to 6')
        expect([(line['loss'], line['rate']) for line in rest] == [(line['loss'], line['rate']) for line in whole[3:]],
               f'{layout}: it does not go on as it would have')
        expect(rest[-1]['weights_hash'] == whole[-1]['weights_hash'], f'{layout}: other weights')
    piped = run('--text', text, '--steps', 4, '--batch', 8, '--reproducible', 4, '--seed', 5, '--characters', 0, '--resume',
                saved, '--log', '/dev/stdout') # in which no line is kept
    expect(piped.returncode == 0 and piped.stdout.count('{"step": 4,') == 1, f'a log into a pipe: {piped}')
    log = steps(4, '--resume', saved, '--reproducible', 4, '--seed', 5, behind=whole[:3])
    expect(log[:3] == whole[:3] and [line['step'] for line in log[3:]] == [4], 'a log is not gone on with')
    log = steps(4, '--resume', saved, '--reproducible', 4, '--seed', 5, behind=whole[:5], torn='{"step": 6, "lo')
    expect(log[:3] == whole[:3] and [line['step'] for line in log[3:]] == [4], 'steps that were not saved are logged twice')
    expect(len(steps(1, behind=whole)) == 1, 'the log of another training is kept')
    ended = steps(10**9, '--minutes', 0.005) # by what comes first
    expect(0 < len(ended) < 10**6 and 'weights_hash' in ended[-1], f'--minutes beside --steps: {len(ended)} steps')
    expect(len(steps(2, '--minutes', 1000)) == 2, '--steps beside --minutes')
    fast = steps(4, '--devices', 2)
    ring = steps(4, '--devices', 2, '--strategy', 'ring')
    expect(abs(ring[-1]['loss'] - fast[-1]['loss']) < 1e-3, 'another strategy trains otherwise')
    steps(2, '--devices', 2, '--save', every, '--every', 1)
    expect(steps(4, '--devices', 2, '--resume', every, '--save', every)[-1]['weights_hash'] == fast[-1]['weights_hash'],
           'on the same devices it goes on with other bits')
    near = steps(6, '--resume', every)
    expect([line['step'] for line in near] == [5, 6] and abs(near[0]['loss'] - fast[-1]['loss']) < 1,
           'it does not go on on another number of devices')

    before = {file.name: file.read_bytes() for file in every.iterdir()}
    full = run('--text', text, '--steps', 7, '--resume', every, '--save', every, '--every', 1, '--batch', 8,
               '--characters', 0, most_file_bytes=100_000)
    expect(full.returncode == 3 and full.stderr.count('not saved after step') == 3 and 'step 7' in full.stdout,
           f'a save that fails ends the training, or is not said: {full.returncode} {full.stderr}')
    expect({file.name: file.read_bytes() for file in every.iterdir()} == before, 'a save that fails loses the old one')

    for number in (signal.SIGINT, signal.SIGTERM): # the training is saved, and ends as the signal ends a process
        ended, log = folder / f'ended{number}', folder / f'log{number}'
        begun = subprocess.Popen([program, '--text', text, '--batch', '8', '--reproducible', '4', '--seed', '5', '--save',
                                  ended, '--log', log], stdout=subprocess.PIPE, text=True, errors='replace')
        while len(log.read_text().splitlines() if log.exists() else []) < 2 and begun.poll() is None:
            time.sleep(0.01)
        begun.send_signal(number)
        said = begun.communicate()[0]
        made = len(log.read_text().splitlines())
        expect(begun.returncode == -number and f'goes on from step {made}' in said,
               f'signal {number} ends it with {begun.returncode}: {said}')
        there, all_at_once = made + 2, steps(made + 2, '--reproducible', 4, '--seed', 5)
        rest = steps(there, '--resume', ended)
        expect(rest[-1]['step'] == there and rest[-1]['weights_hash'] == all_at_once[-1]['weights_hash'],
               f'after signal {number} it does not go on as it would have')

    refuses(['no checkpoint in this folder'], '--text', text, '--resume', folder / 'nowhere')
    empty = folder / 'empty'
    empty.mkdir()
    refuses(['no checkpoint in this folder'], '--text', text, '--resume', empty)
    refuses(['has made 3 steps already'], '--text', text, '--steps', 3, '--resume', saved)
    refuses(['--batch 16', 'has 8'], '--text', text, '--batch', 16, '--resume', saved)
    refuses(['--seed 6', 'has 5'], '--text', text, '--seed', 6, '--resume', saved)
    refuses(['fixed_tree fixes the order'], '--text', text, '--resume', saved, '--strategy', 'ring', '--devices', 2)
    refuses(['learns another text'], '--text', program, '--resume', saved)
    kept = {file.name: file.read_bytes() for file in saved.iterdir()}
    refuses([f'--save {saved}', 'a training of 3 steps', f'--resume {saved}'], '--text', text, '--steps', 5, '--save', saved)
    refuses(['would be lost'], '--text', text, '--steps', 9, '--resume', every, '--save', saved)
    expect({file.name: file.read_bytes() for file in saved.iterdir()} == kept, 'a refused run has changed a checkpoint')
    refuses(['--every requires --save'], '--text', text, '--every', 2)
    refuses(['cannot be opened'], '--text', text, '--save', folder / 'no' / 'such')
    damaged = folder / 'damaged'
    shutil.copytree(saved, damaged)
    weights = damaged / 'weights.a.safetensors'
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)

    refuses(['not those that were saved'], '--text', text, '--resume', damaged, at_once=False)
    (damaged / 'optimizer.a.safetensors').write_bytes(b'')
    refuses(['at least 10 bytes'], '--text', text, '--resume', damaged, at_once=False)
    (damaged / 'manifest.json').write_text('{"format":"of somebody else"}')
    refuses(['of somebody else'], '--text', text, '--resume', damaged, at_once=False)

    # ---- checkpoints of other networks ----
    foreign, wider = folder / 'foreign', folder / 'wider'
    for copy in (foreign, wider):
        shutil.copytree(saved, copy)
    manifest = json.loads((saved / 'manifest.json').read_text())
    for missing in ('text', 'batch'):
        (foreign / 'manifest.json').write_text(json.dumps({k: v for k, v in manifest.items() if k != f'note.{missing}'}))
        refuses([str(foreign), "none of gpt's", f'it has no {missing}'], '--text', text, '--resume', foreign)
    weights = wider / 'weights.a.safetensors'
    content = weights.read_bytes()
    header = json.loads(content[8:8 + int.from_bytes(content[:8], 'little')])
    tensor = next(name for name, about in header.items() if about.get('shape') == [256, 128])
    header[tensor]['shape'] = [128, 256] # as many numbers, of a vocabulary of 128 and a width of 256
    text_of_header = json.dumps(header, separators=(',', ':')).encode()
    text_of_header = text_of_header.ljust(-len(text_of_header) % 8 + len(text_of_header))
    weights.write_bytes(len(text_of_header).to_bytes(8, 'little') + text_of_header +
                        content[8 + int.from_bytes(content[:8], 'little'):])
    refuses([str(weights), tensor, '128, 256'], '--text', text, '--resume', wider, at_once=False)

    # ---- a loss that is not finite ----
    diverging = ('--text', text, '--steps', 300, '--batch', 1, '--learning-rate', 100, '--characters', 0)
    lost = run(*diverging)
    said = 'the weights are those of the step before. '
    expect(lost.returncode == 3 and said in lost.stderr and lost.stderr.count('\n') == 1 and '--save' not in lost.stderr,
           f'a loss that is not finite ends with {lost.returncode}: {lost.stderr}')
    step = int(re.search(r'the loss of training step (\d+) is', lost.stderr)[1])
    # Roundings decide, and so instructions, whether the update before it has left weights that are finite. If not, nobody
    # could go on from them.
    lost = run(*diverging, '--save', folder / 'not_finite')
    saved = folder / 'not_finite' / 'manifest.json'
    if saved.exists():
        kept = json.loads(saved.read_text())
        expect(lost.returncode == 3 and 'saved as it was before this step' in lost.stderr and
               (kept['steps'], kept['updates']) == (str(step), str(step - 1)), f'other weights are saved: {lost.stderr} {kept}')
    else:
        expect(lost.returncode == 3 and 'values are not finite' in lost.stderr and 'nothing was saved' in lost.stderr,
               f'weights that are not finite are saved: {lost.stderr}')
    every_few = folder / 'every_few'
    lost = run(*diverging, '--save', every_few, '--every', 5)
    kept_step = (step - 1) // 5 * 5
    if f'not saved after step {kept_step}: ' in lost.stderr: # it has left weights that are not finite
        kept_step -= 5
    expect(lost.returncode == 3 and 'the training that was saved there before stays' in lost.stderr and
           json.loads((every_few / 'manifest.json').read_text())['steps'] == str(kept_step),
           f'--every, and another checkpoint than the last is there: {lost.returncode} {lost.stderr}')
    kept = {file.name: file.read_bytes() for file in every_few.iterdir()}
    lost = run(*diverging, '--resume', every_few, '--save', every_few)
    expect(lost.returncode == 3 and 'the training that was saved there before stays' in lost.stderr and
           kept == {file.name: file.read_bytes() for file in every_few.iterdir()},
           f'a training that diverges again loses what was saved: {lost.returncode} {lost.stderr}')

    # ---- it learns ----
    letters = ''.join(chr(97 + 7 * i % 16) for i in range(16))
    (folder / 'letters').write_text(letters * 200)
    log = folder / 'learnt'
    done = run('--text', folder / 'letters', '--steps', 60, '--batch', 4, '--learning-rate', 0.01, '--characters', 0,
               '--log', log)
    last = [json.loads(line)['loss'] / math.log(2) for line in log.read_text().splitlines()][-1]
    shares = 4.0 # bits: 16 letters, all as often
    expect(done.returncode == 0 and f'{shares:.3f} bits by the bytes\' shares' in done.stdout and
           'less than by the bytes\' shares' in done.stdout and last <= shares - 1,
           f'after 60 steps a byte costs {last} bits, not 1 less than {shares}: {done.stdout} {done.stderr}')

    # ---- texts that are none ----
    short, nothing, pipe, huge = (folder / name for name in ('short', 'nothing', 'pipe', 'huge'))
    short.write_text('too short')
    nothing.write_text('')
    os.mkfifo(pipe)
    with open(huge, 'wb') as file:
        os.truncate(file.fileno(), 1 << 43) # a hole, which takes no room on the disk
    writes = run('--text', text, '--steps', 1, '--batch', 1, '--characters', 7)
    expect(writes.returncode == 0 and 'bits per byte' in writes.stdout, f'gpt does not write: {writes.stderr}')
    short_run = [program, '--text', text, '--steps', '1', '--batch', '1', '--characters', '1000', '--log', folder / 'log']
    shown = subprocess.run(short_run, stdout=subprocess.PIPE).stdout.decode() # all of it is UTF-8
    expect(all(c == '\n' or c == '\t' or c.isprintable() or c >= '\xa0' for c in shown), f'control bytes: {shown!r}')
    expect(len(shown) > 1000, 'it writes less than it is told to')
    checked.tells_lost_output(*short_run[1:])
    checked.tells_lost_output('--help')
    (folder / 'log').unlink(missing_ok=True)
    closed = subprocess.run(short_run, preexec_fn=lambda: os.close(1))
    expect(closed.returncode == 0 and [json.loads(line)['step'] for line in (folder / 'log').read_text().splitlines()] == [1],
           'what is printed to a standard output that is closed goes into the log')
    done = run('--text', text, '--steps', 3, '--batch', 1, '--characters', 0, '--log', '/dev/full', '--save', folder / 'kept')
    expect(done.returncode == 3 and done.stderr.count('--log /dev/full: writing failed') == 1 and done.stderr.count('\n') == 1,
           f'a log that cannot be written: {done.returncode} {done.stderr}')
    expect((folder / 'kept' / 'manifest.json').exists(), 'a training is not saved if its log cannot be written')
    (folder / 'old').write_text('old')
    refuses(['no such folder'], '--text', text, '--trace', folder / 'old', '--resume', folder / 'none', at_once=False)
    expect((folder / 'old').read_text() == 'old', 'a run that is refused has emptied a file')
    refuses(['--text FILE is missing', 'sh examples/run.sh gpt'])
    refuses(['nowhere', 'cannot be opened'], '--text', folder / 'nowhere')
    refuses([str(short), '9 bytes', 'a window of 128'], '--text', short)
    refuses([str(nothing), '0 bytes', 'a window of 128'], '--text', nothing)
    refuses([str(pipe), 'a pipe'], '--text', pipe)
    refuses([str(folder), 'a folder'], '--text', folder)
    if 'AddressSanitizer' in run('--text', huge).stderr:
        print('left out: a text that is larger than the memory: a sanitizer ends a process that asks for so much')
    else:
        refuses([str(huge), 'takes 8796093022208 bytes of memory', 'split the file'], '--text', huge)
    refuses(['--log', 'cannot be written'], '--text', text, '--log', folder / 'no' / 'log')
    once, linked = folder / 'once', folder / 'linked'
    once.write_text('of somebody')
    linked.symlink_to(once)
    refuses([f'--text {once} and --log {linked} are one file'], '--text', once, '--log', linked)
    refuses([f'--log {once} and --trace {linked} are one file'], '--text', text, '--log', once, '--trace', linked)
    refuses(['are one file'], '--text', text, '--log', folder / 'new', '--trace', folder / 'none' / '..' / 'new')
    expect(once.read_text() == 'of somebody' and not (folder / 'new').exists(), 'a refused run has changed a file')
    refuses(['stages'], '--text', text, '--stages', 64)
    refuses(['--schedule is for --stages of 2 or more: add that'], '--text', text, '--schedule', 'zero_bubble_v')
    refuses(["--steps: ", "'010' begins with 0"], '--text', text, '--steps', '010')
    for wrong in (['--steps', 0], ['--minutes', -1], ['--batch', 'many'], ['--schedule', 'none'], ['--nonsense'], ['more']):
        refuses(['try --help'], '--text', text, *wrong)
    expect(run('--help').returncode == 0, 'gpt --help fails')

checked.end()
