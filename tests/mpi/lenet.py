# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LeNet is one program: over threads and over processes it writes the same log; ranks that differ are refused. lenet.py openmpi|mpich PROGRAM
OTHER, a program of the same library that trains another network by OTHER rate"""
import pathlib
import re
import subprocess
import sys
import tempfile

from launch import Run, expect, finish, mpirun

lenet, other = sys.argv[2:]
if not mpirun:
    print(f'left out: there is no mpirun of {sys.argv[1]}')
    sys.exit(77)
if not pathlib.Path('/usr/share/datasets/fashion-mnist').exists():
    print('left out: Fashion-MNIST is not there')
    sys.exit(77)

with tempfile.TemporaryDirectory() as folder:
    logs = [pathlib.Path(folder) / name for name in ('threads', 'processes')]
    common = ['--epochs', '1', '--batch', '2000', '--reproducible', '8']
    subprocess.run([lenet, *common, '--devices', '3', '--log', logs[0]], check=True, capture_output=True)
    run = Run(3, lenet, *common, '--transport', 'mpi', '--log', logs[1])
    keys = [re.findall(r'"(?:loss|test_accuracy|weights_hash)": [^,}]*', log.read_text())
            for log in logs if log.exists()]
    expect('LeNet on 3 threads and on 3 processes', run,
           {'succeeds': run.code == 0, 'the same log': len(keys) == 2 and keys[0] == keys[1] and len(keys[0]) == 3,
            'one rank speaks': run.output.count('test accuracy') == 1})
    for schedule in ('one_f_one_b', 'zero_bubble_v'):
        staged = logs[1].with_name(schedule)
        run = Run(4, lenet, *common, '--transport', 'mpi', '--devices', '2', '--stages', '2', '--micro-batches', '4',
                  '--schedule', schedule, '--log', staged)
        told = re.findall(r'"(?:loss|test_accuracy|weights_hash)": [^,}]*', staged.read_text()) if staged.exists() else None
        expect(f'LeNet on 2 x 2 processes, in stages, by {schedule}', run,
               {'succeeds': run.code == 0, 'the same log as on threads': told == keys[0]})
    staged = logs[1].with_name('machines')
    for processes in (2, 4): # one replica, and as many as there are processes for
        run = Run(processes, lenet, *common, '--transport', 'mpi', '--stages', '2', '--ranks-per-machine', '1', '--log', staged)
        told = re.findall(r'"(?:loss|test_accuracy|weights_hash)": [^,}]*', staged.read_text()) if staged.exists() else None
        expect(f'LeNet in two stages, on {processes} machines', run,
               {'succeeds': run.code == 0, 'the same log as on threads': told == keys[0],
                'all processes': f'{processes // 2} x 2 devices' in run.output})
    for processes, wanted in ((1, 2), (3, 2), (5, 4)):
        run = Run(processes, lenet, *common, '--transport', 'mpi', '--stages', '2', limit=60)
        expect(f'LeNet in two stages, on {processes} processes', run,
               {'exit code 4': run.code == 4, 'no epoch': 'test accuracy' not in run.output,
                'says what to do': f'mpirun -n {wanted}' in run.output})
    run = Run(2, lenet, *common)
    expect('LeNet over threads, by mpirun', run,
           {'exit code 4': run.code == 4, 'says what to do': '--transport mpi' in run.output})
    here = [lenet, *common, '--transport', 'mpi', '--devices', '2']
    run = Run(1, *here, '--seed', '1', ':', '-n', '1', *here, '--seed', '2', limit=60)
    expect('one flag that differs', run,
           {'exit code 4': run.code == 4, 'both are told': 'has seed 1' in run.output and 'has seed 2' in run.output,
            'no epoch': 'test accuracy' not in run.output})
    run = Run(1, *here, ':', '-n', '1', other, 'rate', limit=60)
    expect('two programs', run,
           {'exit code 4': run.code == 4, 'no epoch': 'test accuracy' not in run.output,
            'both networks are told': 'conv2d<16, kernel<5>>' in run.output and 'max_pool2d<2>' in run.output})
finish()
