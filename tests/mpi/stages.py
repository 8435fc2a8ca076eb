# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tests of pipelines over one MPI library: stages.py openmpi|mpich PROGRAM. Starts tests/mpi/stages.cpp by the
library's mpirun, on one machine that plays several, and looks at what the ranks say, how long they take, and how they
end.

Exit codes: 0; 1 if a test fails; 77 if there is no such mpirun, or it starts nothing here.
"""
import re
import subprocess
import sys
import tempfile

from launch import Run, expect, finish, library, mpirun

program = sys.argv[2]


def stages(name, replicas, stages, windows='automatic', per_machine=0, *arguments, **options):
    return Run(replicas * stages, program, name, replicas, stages, windows, per_machine, *arguments, **options)


def on_threads(*arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def place(replicas, stages, windows, per_machine):
    machines = -(-replicas * stages // per_machine) if per_machine else 1
    return f'{replicas} x {stages} ranks, {machines} machine' + ('s' if machines > 1 else '') + \
        (', without windows' if windows == 'off' else '')


if not mpirun or Run(1, '/bin/true').code != 0:
    print(f'there is no mpirun of {library}, or it starts nothing here')
    sys.exit(77)

# ---- what is computed ----

want = on_threads('one_device')
for layout in [(1, 2, 'required', 0), (1, 2, 'automatic', 1), (1, 2, 'off', 0), (1, 3, 'automatic', 1),
               (1, 3, 'automatic', 2), (2, 2, 'required', 0), (2, 2, 'automatic', 2), (2, 2, 'automatic', 1),
               (2, 2, 'off', 0), (3, 2, 'automatic', 2)]:
    run = stages('bits', *layout, limit=200)
    told = [line.split(': ', 1) for line in run.output.splitlines() if ': last loss' in line]
    expect(f'the bits of one device: {place(*layout)}', run,
           {'succeeds': run.code == 0, 'several schedules': len(told) >= 4,
            'the same losses and weights': all(left == want for _, left in told)})
for layout in [(1, 2), (1, 3), (2, 2)]:
    run = stages('traffic', *layout)
    expect(f'bytes by pair and kind: {layout[0]} x {layout[1]} ranks', run,
           {'succeeds': run.code == 0 and 'fine' in run.output})
for layout in [(2, 2, 'automatic', 2), (2, 2, 'off', 0), (1, 3, 'automatic', 2)]:
    run = stages('programs', *layout)
    expect(f'steps of programs, and parts: {place(*layout)}', run, {'succeeds': run.code == 0 and 'fine' in run.output})
for layout in [(2, 1, 'required', 0), (3, 1, 'automatic', 2), (2, 1, 'off', 0)]:
    run = stages('exchanges', *layout)
    expect(f'exchanges inside of tasks in the trace: {place(*layout)}', run,
           {'succeeds': run.code == 0 and 'fine' in run.output})
run = stages('pieces', 1, 2, 'off')
expect('messages in pieces', run, {'succeeds': run.code == 0 and 'fine' in run.output})

# ---- checkpoints ----

with tempfile.TemporaryDirectory() as folder:
    run = stages('save', 2, 2, 'automatic', 2, folder)
    left = [line for line in run.output.splitlines() if line.startswith('last loss')]
    expect('a checkpoint of two machines', run,
           {'succeeds': run.code == 0 and len(left) == 1, 'threads go on': on_threads('resume', folder) in left})
    run = stages('load', 1, 3, 'automatic', 1, folder)
    expect('and three go on', run, {'succeeds': run.code == 0, 'the same': left[0] in run.output})

# ---- failures ----

# MPICH's launcher ends all others the moment a rank dies: most often they have no time to say anything. Open MPI's gives
# them a second, in which those of its machine notice it; where that has one rank, nobody does
for layout in [(2, 2, 'automatic', 2), (2, 2, 'off', 0), (1, 3, 'automatic', 1)]:
    ranks = layout[0] * layout[1]
    for victim in (0, ranks - 1):
        here = place(*layout)
        run = stages('fails', *layout, f'kill {victim}', limit=40)
        soon = [s for s in run.said if f'rank {victim} ' in s and 'step 3' in s]
        blamed = {int(rank) for s in run.said
                  for rank in re.findall(r'rank (\d+) (?:\(process \d+\) died|did not arrive)', s)}
        conditions = {'fails': run.code not in (0, None), 'soon': run.seconds < 12,
                      'no other is blamed': blamed <= {victim}}
        if library == 'openmpi' and layout[3] != 1:  # a survivor is on the victim's machine, and has the time
            conditions['survivors say who, and in which step'] = len(soon) >= 1
        expect(f'rank {victim} is killed in its stage, {here}', run, conditions)
        for how in ('stop', 'stall'):
            run = stages('fails', *layout, f'{how} {victim}', limit=40)
            named = [s for s in run.said if f'rank {victim} did not arrive' in s]
            expect(f'rank {victim} {"is stopped" if how == "stop" else "stalls"} in its stage, {here}', run,
                   {'fails': run.code not in (0, None), 'soon': run.seconds < 20,
                    'it is named by all': len(named) >= 1 and named == run.said,
                    'with what waits, and the step': all(
                        re.search(r'rank \d waited for rank \d in (move \(one_f_one_b|all_reduce \(direct), schedule '
                                  r'step .*training step 3', s) for s in named)})
        run = stages('fails', *layout, f'throw {victim}', limit=40)
        expect(f'rank {victim} throws in its stage, {here}', run,
               {'fails': run.code not in (0, None), 'soon': run.seconds < 12,
                'all know it': sum(f'device {victim}: the oar is broken' in s for s in run.said) >= ranks - 1})

finish()
