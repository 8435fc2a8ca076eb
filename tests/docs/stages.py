# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Examples in stages: by every schedule LeNet ends an epoch with the bits of one device, and ResNet-18 by some; a drawn
step has all tasks, predicted and measured; what cannot work is refused before data is read; a training that diverges
ends alike whatever the layout.

stages.py PROGRAM ...    the programs lenet, step and resnet18, or some of them

The images are few, and made here: random bytes, the same ones in every run.
"""
import collections
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
from checks import Checks  # noqa: E402

programs = {pathlib.Path(path).name: path for path in sys.argv[1:]}
checks = Checks()
expect = checks.expect


def run(name, *arguments):
    return subprocess.run([programs[name], *map(str, arguments)], capture_output=True, text=True, timeout=300)


def write_images(folder, train, test):
    """The four files of Fashion-MNIST, with so many images."""
    numbers = random.Random(1)
    for part, count in (('train', train), ('t10k', test)):
        (folder / f'{part}-images-idx3-ubyte').write_bytes(struct.pack('>4I', 2051, count, 28, 28) +
                                                           numbers.randbytes(count * 28 * 28))
        (folder / f'{part}-labels-idx1-ubyte').write_bytes(struct.pack('>2I', 2049, count) +
                                                           bytes(numbers.randrange(10) for _ in range(count)))


def refuses(words, name, *arguments):
    """With a folder of data that is not there: a refusal that comes first does not name it."""
    if name not in programs:
        return
    ran = run(name, '--data', 'nowhere', *arguments)
    wrong = [word for word in words if word not in ran.stderr]
    right = (ran.returncode == 2 and ran.stdout == '' and not wrong and 'nowhere' not in ran.stderr
             and re.fullmatch(name + r': [^\n]+\n', ran.stderr))
    expect(right, f'{name} {arguments}: exit code {ran.returncode}, without {wrong}: {ran.stdout[:200]}{ran.stderr}')


def names_of(name):
    """The schedules that a program lists when it is given none of them, C as it stands."""
    refused = run(name, '--schedule', 'none')
    listed = re.search(r"no schedule 'none'; choose one of (.*) \(C: 1 to (\d+) ", refused.stderr)
    expect(refused.returncode == 2 and listed, f'{name} --schedule none: {refused.stderr}')
    if listed is None:
        return []
    shown = ' '.join(run(name, '--help').stdout.split())
    expect(all(each in shown for each in listed[1].split(', ')), f'{name} --help does not list the schedules: {shown}')
    return listed[1].split(', ')


def logged(folder, name, *arguments):
    """The log of an epoch, and what in it must not depend on the layout."""
    log = folder / 'log'
    log.unlink(missing_ok=True)
    ran = run(name, '--data', folder, '--epochs', 1, '--log', log, *arguments)
    if ran.returncode != 0:
        expect(False, f'{name} {arguments}: exit code {ran.returncode}: {ran.stderr}')
        return {}, ()
    lines = log.read_text(encoding='utf-8').splitlines()
    expect(len(lines) == 1, f'{name} {arguments}: {len(lines)} lines of log')
    fields = json.loads(lines[0])
    return fields, (fields['loss'], fields['test_accuracy'], fields['weights_hash'])


def same_bits(folder, name, wanted, schedule, *arguments, layout):
    fields, bits = logged(folder, name, '--schedule', schedule, *arguments)
    of = tuple(fields.get(key) for key in ('devices', 'stages', 'micro_batches', 'schedule'))
    expect(bits == wanted and of == (*layout, schedule), f'{name} {schedule} {arguments}: {of} {bits}, not {wanted}')


def lenet(folder):
    names = [each.replace(':C', f':{chunks}') for each in names_of('lenet')
             for chunks in (range(1, 4) if ':C' in each else [0])]
    expect(len(names) >= 15, f'lenet has {names}')
    common = ['--batch', 240, '--reproducible', 8]
    _, wanted = logged(folder, 'lenet', *common, '--devices', 1)
    expect(logged(folder, 'lenet', *common, '--devices', 1, '--seed', 2)[1] != wanted, 'two seeds train alike')
    for each in names:
        same_bits(folder, 'lenet', wanted, each, *common, '--stages', 2, '--micro-batches', 8, layout=(1, 2, 8))
    same_bits(folder, 'lenet', wanted, 'zero_bubble_v', *common, '--devices', 2, '--stages', 2, layout=(2, 2, 4))
    orders = folder / 'mine.csv'  # as PyTorch writes it: a line of stages, ways and micro-batches for each device
    orders.write_text('0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n', encoding='utf-8')
    same_bits(folder, 'lenet', wanted, str(orders), *common, '--devices', 2, '--stages', 2, layout=(2, 2, 4))
    refuses([f'stages = 3: the schedule {orders} was read for 2 devices of each replica; set it to 2'],
            'lenet', '--stages', 3, '--schedule', orders)
    refuses([f'micro_batches = 8: the schedule {orders} was read for 4; set logical_shards to 4'],
            'lenet', '--stages', 2, '--reproducible', 8, '--schedule', orders)
    refuses([f'--schedule {orders} and --trace {orders} are one file'],
            'lenet', '--stages', 2, '--schedule', orders, '--trace', orders)
    for number in ('0100', '00'):
        refuses(['--batch: ', f"'{number}' begins with 0", 'try --help'], 'lenet', '--batch', number)
    orders.write_text('0F0,0B0\n1F0,1X0\n', encoding='utf-8')
    refuses(['--schedule: ', str(orders), '1X0', 'try --help'], 'lenet', '--stages', 2, '--schedule', orders)
    refuses(['--schedule: ', 'none.csv', 'try --help'], 'lenet', '--stages', 2, '--schedule', folder / 'none.csv')
    shown = run('lenet', '--data', folder, '--epochs', 1, '--batch', 240, '--stages', 2, '--schedule', 'zero_bubble_v')
    expect(re.search(r'2 devices of 2 stages, layers 0 to \d+ and \d+( to \d+)?, \d+( to \d+)? and \d+( to \d+)?; 8 micro',
                     shown.stdout), f'lenet does not say what its devices have: {shown.stdout}{shown.stderr}')


def lenet_refuses():
    for each in ('none', 'interleaved', 'interleaved:0', 'interleaved:9', 'GPipe', ''):
        refuses([f"--schedule: there is no schedule '{each}'", 'choose one of gpipe, one_f_one_b, interleaved:C', 'try --help'],
                'lenet', '--stages', 2, '--schedule', each)
    refuses(['stages = 9', 'into at most 7 stages'], 'lenet', '--stages', 9)
    refuses(['stages = 2, each in 5 by the schedule interleaved<5>', 'into at most 7 stages'],
            'lenet', '--stages', 2, '--schedule', 'interleaved:5')
    refuses(['stages = 5, each in 2 by the schedule v_min', 'into at most 7 stages'],
            'lenet', '--stages', 5, '--schedule', 'v_min')
    refuses(['from 1 to 64', 'try --help'], 'lenet', '--stages', 65)
    refuses(['micro_batches = 3 of 1 replica with logical_shards = 8', 'set it to 8'],
            'lenet', '--stages', 2, '--micro-batches', 3, '--reproducible', 8)
    few = ['--schedule dual_pipe_v with --stages 2', 'it takes at least 4']
    refuses(['3 micro-batches', 'with --micro-batches 4', *few],
            'lenet', '--stages', 2, '--micro-batches', 3, '--schedule', 'dual_pipe_v')
    refuses(['2 micro-batches', 'with --reproducible 8', *few],
            'lenet', '--devices', 2, '--stages', 2, '--reproducible', 4, '--schedule', 'dual_pipe_v')
    refuses(['leave out --device gpu'], 'lenet', '--device', 'gpu', '--stages', 2, '--schedule', 'zero_bubble_v')


def resnet18(folder):
    names_of('resnet18')
    common = ['--images', 2, '--batch', 2, '--reproducible', 2]
    _, wanted = logged(folder, 'resnet18', *common, '--devices', 1)
    trace = folder / 'trace.json'
    same_bits(folder, 'resnet18', wanted, 'zero_bubble_h1', *common, '--stages', 2, '--trace', trace, layout=(1, 2, 2))
    tasks = collections.Counter(each['name'] for each in json.loads(trace.read_text(encoding='utf-8'))['traceEvents'])
    expect(all(tasks[kind] >= 4 for kind in ('forward', 'backward_input', 'backward_weights')), f'resnet18 traced {tasks}')
    same_bits(folder, 'resnet18', wanted, 'interleaved:2', *common, '--stages', 2, layout=(1, 2, 2))


def resnet18_diverges(folder):
    """By a rate that is far too high: exit code 3, and one step of all layouts that is not in the weights."""
    common = ['--data', folder, '--epochs', 1, '--images', 12, '--batch', 2, '--reproducible', 2, '--learning-rate', 1e6]
    steps = set()
    for layout in (['--devices', 1], ['--devices', 2], ['--stages', 2]):
        ran = run('resnet18', *common, *layout)
        told = re.fullmatch(r'\n?resnet18: the loss of training step (\d+) is (?:nan|inf): the weights are those of the '
                            r'step before\. [^\n]+\n', ran.stderr)
        expect(ran.returncode == 3 and told, f'resnet18 {layout} diverges: exit code {ran.returncode}: {ran.stderr}')
        steps.add(told and told[1])
    expect(len(steps) == 1, f'resnet18 diverges in steps {steps}')


def resnet18_refuses():
    refuses(['--save /no/weights: cannot be written', 'name a file in a folder'], 'resnet18', '--save', '/no/weights')
    refuses(['--save /: cannot be written'], 'resnet18', '--save', '/')
    refuses(['--epochs 0 tests the weights of --load FILE'], 'resnet18', '--epochs', 0)
    refuses(["there is no schedule 'none'", 'choose one of gpipe'], 'resnet18', '--stages', 2, '--schedule', 'none')
    refuses(['stages = 40', 'can be cut at', 'into at most'], 'resnet18', '--stages', 40)
    refuses(['stages = 8, each in 8 by the schedule interleaved<8>', 'into at most'],
            'resnet18', '--stages', 8, '--schedule', 'interleaved:8')
    refuses(['micro_batches = 3 of 1 replica with logical_shards = 8', 'set it to 8'],
            'resnet18', '--stages', 2, '--micro-batches', 3, '--reproducible', 8)
    refuses(['3 micro-batches', 'at least 4', 'with --micro-batches 4'],
            'resnet18', '--stages', 2, '--micro-batches', 3, '--schedule', 'dual_pipe_v')
    refuses(['--synchronised with --stages', 'per micro-batch'], 'resnet18', '--synchronised', '--stages', 2)
    refuses(['--synchronised with --micro-batches', 'per micro-batch'], 'resnet18', '--synchronised', '--micro-batches', 2)


def drawn(svg, part, end):
    """The computing tasks of a part of a picture: kind, micro-batch, stage and colour of each, by lane."""
    text = svg[svg.index(f'>{part}</text>'):svg.index(end)]
    lanes = collections.defaultdict(list)
    for y, colour, kind, micro_batch, stage in re.findall(
            r'<rect x="[^"]*" y="(\d+)"[^>]* fill="(#\w+)"[^>]*><title>(\w+) (\d+), stage (\d+):', text):
        if kind in ('forward', 'backward', 'backward_input', 'backward_weights'):
            lanes[int(y)].append((kind, int(micro_batch), int(stage), colour))
    return [lanes[y] for y in sorted(lanes)]


def step(folder, schedule, stages_of, kinds):
    """The picture has each task of each stage of each device twice, in one order, and a rank's second stage is paler."""
    path = folder / 'step.svg'
    path.unlink(missing_ok=True)
    ran = run('step', '--data', folder, '--batch', 16, '--stages', 2, '--micro-batches', 4, '--schedule', schedule,
              '--svg', path)
    expect(ran.returncode == 0 and f', {schedule}\n' in ran.stdout, f'step {schedule}: {ran.returncode} {ran.stderr}')
    if ran.returncode != 0:
        return
    svg = path.read_text(encoding='utf-8')
    predicted, measured = drawn(svg, 'predicted', '>measured</text>'), drawn(svg, 'measured', '</svg>')
    expect(predicted == measured, f'step {schedule}: other tasks were measured than predicted')
    expect([sorted({task[2] for task in lane}) for lane in predicted] == stages_of, f'step {schedule}: stages {predicted}')
    for lane, stages in zip(predicted, stages_of):
        wanted = {(kind, m, stage) for kind in kinds for m in range(4) for stage in stages}
        got = {(kind.split('_')[0] if kinds == ['forward', 'backward'] else kind, m, stage) for kind, m, stage, _ in lane}
        expect(got == wanted and len(lane) == len(wanted), f'step {schedule}: tasks {sorted(got ^ wanted)}')
        light = [sum(int(colour[i:i + 2], 16) for i in (1, 3, 5))
                 for stage in stages for colour in {task[3] for task in lane if task[0] == 'forward' and task[2] == stage}]
        expect(light == sorted(set(light)) and len(light) == len(stages), f'step {schedule}: colours {light}')


with tempfile.TemporaryDirectory() as name:
    where = pathlib.Path(name)
    write_images(where, 960, 50)
    lenet_refuses()
    resnet18_refuses()
    refuses(["there is no schedule 'none'", 'choose one of gpipe'], 'step', '--schedule', 'none')
    refuses(['stages = 3, each in 4 by the schedule interleaved<4>', 'into at most 11 stages'],
            'step', '--stages', 3, '--schedule', 'interleaved:4')
    refuses(['3 micro-batches', 'with --micro-batches 4'], 'step', '--micro-batches', 3, '--schedule', 'dual_pipe_v')
    for layout in ([], ['--stages', 1]):
        for name in ('lenet', 'resnet18'):
            refuses(['--schedule is for --stages of 2 or more: add that, or leave out --schedule'],
                    name, *layout, '--schedule', 'zero_bubble_v')
    refuses(['--schedule is for --stages of 2 or more'], 'step', '--stages', 1, '--schedule', 'zero_bubble_v')
    refuses(['--schedule is for --stages'], 'lenet', '--device', 'gpu', '--schedule', 'zero_bubble_v')
    refuses(['--windows is for --transport mpi: add that, or leave out --windows'], 'lenet', '--windows', 'off')
    refuses(['--ranks-per-machine is for --transport mpi: add that'], 'lenet', '--ranks-per-machine', 1)
    refuses(['--share-devices is for --device gpu: add that, or leave out'], 'lenet', '--share-devices')
    for name, flag in (('lenet', '--log'), ('lenet', '--trace'), ('resnet18', '--trace'), ('step', '--svg')):
        kept, pipe = where / 'kept', where / 'pipe'
        kept.write_text('old', encoding='utf-8')
        if not pipe.exists():
            os.mkfifo(pipe)
        if name in programs:
            refused = run(name, '--data', 'nowhere', flag, kept)
            expect(refused.returncode == 2 and kept.read_text(encoding='utf-8') == 'old',
                   f'{name} {flag}: a run that is refused has emptied a file: {refused.stderr}')
        if flag != '--log': # which is opened behind the data
            refuses([f'{flag} {pipe}: cannot be written (a pipe that nobody reads)'], name, flag, pipe)
    if 'lenet' in programs:
        lenet(where)
    if 'step' in programs:
        halves = ['forward', 'backward_input', 'backward_weights']
        step(where, 'one_f_one_b', [[0], [1]], ['forward', 'backward'])
        step(where, 'interleaved:2', [[0, 2], [1, 3]], ['forward', 'backward'])
        step(where, 'zero_bubble_h1', [[0], [1]], halves)
        step(where, 'zero_bubble_v', [[0, 3], [1, 2]], halves)
    if 'resnet18' in programs:
        write_images(where, 2, 1)
        resnet18(where)
        write_images(where, 12, 1)
        resnet18_diverges(where)

checks.end()
