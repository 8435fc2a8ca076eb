# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The MPI tests of one library: run.py openmpi|mpich PROGRAM. Starts tests/mpi/ranks.cpp by the library's mpirun, and
looks at what the ranks say, how long they take, how they end, and what is left of them.

Exit codes: 0; 1 if a test fails; 77 if there is no such mpirun, or it starts nothing here.
"""
import re
import subprocess
import sys

from launch import Run, expect, finish, has_networks, library, mpirun, over_tcp

program = sys.argv[2]


def ranks(count, *arguments, **options):
    return Run(count, program, *arguments, **options)


if not mpirun:
    print(f'there is no mpirun of {library}')
    sys.exit(77)
first = Run(1, '/bin/true')
if first.code != 0:
    print(f'{mpirun} starts nothing here:\n{first.output}')
    sys.exit(77)

ways = [('automatic', 0), ('off', 0), ('automatic', 2)]
run = ranks(2, 'axes', 'required')
no_windows = run.code == 4 and 'the processes of a machine cannot share memory' in run.output
if no_windows:
    print(f'left out: windows, which no ranks can make here: {run.said[:1]}', flush=True)
else:
    expect('windows are required', run, {'succeeds': run.code == 0 and 'fine' in run.output})


def joined(count, windows, per_machine):
    """The words of a group that says how its ranks are joined."""
    if windows == 'off':
        return 'which send messages (windows are off)'
    if no_windows:
        return 'which send messages ('
    return 'which share the memory of a machine and send' if 0 < per_machine < count else 'which share memory'


# ---- what is computed ----

for n in (1, 2, 3, 4, 5, 8):
    for windows, per_machine in ways:
        if per_machine == 0 or n > per_machine:
            run = ranks(n, 'matrix', windows, per_machine)
            expect(f'every collective: {n} ranks, windows {windows}, {per_machine or "all"} on a machine', run,
                   {'succeeds': run.code == 0, 'says how many ranks there are': f'{n} process' in run.output,
                    'says how they are joined': n == 1 or joined(n, windows, per_machine) in run.output})

for n in (1, 2, 3, 4):
    want = subprocess.run([program, 'threads', str(n)], capture_output=True, text=True, check=True).stdout
    for windows, per_machine in ways:
        if per_machine == 0 or n > per_machine:
            run = ranks(n, 'bits', windows, per_machine)
            expect(f'bits of threads: {n} ranks, windows {windows}, {per_machine or "all"} on a machine', run,
                   {'succeeds': run.code == 0, 'the same losses and weights': want in run.output})

run = ranks(6, 'axes', 'automatic', 2)
expect('sums along the axes of a mesh', run, {'succeeds': run.code == 0 and 'fine' in run.output})
for windows, per_machine in ways:
    name = f'windows {windows}, {per_machine or "all"} on a machine'
    run = ranks(4, 'parts', windows, per_machine, limit=60)
    expect(f'calls that a group and its parts refuse, {name}', run,
           {'succeeds': run.code == 0 and 'fine' in run.output})
    refused = [('native_part', 'MPI knows the whole group alone'),
               ('numbers', 'MPI adds float, double and int32_t'),
               ('goes_on', 'was given up after an exception: make a new group')]
    for case, words in refused:
        run = ranks(4, case, windows, per_machine, limit=60)
        expect(f'refused with "{words}", {name}', run,
               {'fails': run.code not in (0, None), 'in these words': run.said and all(words in s for s in run.said)})
run = ranks(2, 'wraps')
expect('messages whose numbers begin again', run, {'succeeds': run.code == 0 and 'fine' in run.output})
run = ranks(3, 'share')
expect('what process 0 knows is known to all', run, {'succeeds': run.code == 0 and 'fine' in run.output})
run = ranks(3, 'borrowed')
expect("a program's own MPI and communicator", run, {'succeeds': run.code == 0 and 'fine' in run.output})

# ---- a network between "machines", where this user may make one ----

if has_networks:
    # Not every kernel can delay and lose packets. MPICH is left out: over TCP its MPI_Finalize (4.0, UCX) hangs now and
    # then after any program, a bare all-reduce of its own, too.
    slow = 'tc qdisc add dev lo root netem delay 1ms 1ms loss 1% 2>/dev/null && echo slow network'
    if library == 'openmpi':
        want = subprocess.run([program, 'threads', '4'], capture_output=True, text=True, check=True).stdout
        run = ranks(4, 'bits', 'automatic', 2, network=slow)
        expect('bits of threads over TCP' + (', delayed and lossy' if 'slow network' in run.output else ''), run,
               {'succeeds': run.code == 0, 'the same losses and weights': want in run.output})
    run = ranks(4, 'long', 'automatic', 2, network='sleep 2; ip link set lo down', limit=40)
    expect('the network fails', run,
           {'fails': run.code not in (0, None), 'soon': run.seconds < 30,
            'the deadline says so, or MPI': any('did not arrive' in s or 'failed on rank' in s for s in run.said)})
else:
    print('left out: networks of their own (unshare -n is not allowed here)', flush=True)

# ---- launches that do not fit ----

run = ranks(3, 'mesh')
expect('a mesh of four devices, three processes', run,
       {'exit code 4': run.code == 4,
        'both are told': any('4 devices' in s and '3 processes' in s for s in run.said)})
run = ranks(2, 'programs')
expect('ranks of two programs', run,
       {'exit code 4': run.code == 4,
        'both are told': any('dp<2>, ring' in s and 'dp<2>, direct' in s for s in run.said)})
run = ranks(3, 'rate')
expect('a flag that one rank was given otherwise', run,
       {'exit code 4': run.code == 4, 'soon': run.seconds < 10,
        'both are told': any('learning_rate 0.1, ' in s and 'learning_rate 0.2;' in s for s in run.said)})
if library == 'openmpi': # MPICH's own memory is in files, too
    without_files = ['sh', '-c', 'trap "" XFSZ; ulimit -f 0; exec "$0" "$@"', program]
    run = Run(2, *without_files, 'matrix', 'required', 0, variables=over_tcp)
    expect('windows are required where none can be made', run,
           {'exit code 4': run.code == 4, 'no group begins': '2 processes' not in run.output,
            'all say so': run.said and all('shared windows are required, and the processes of a machine cannot' in s
                                           for s in run.said)})
    run = Run(2, *without_files, 'matrix', 'automatic', 0, variables=over_tcp)
    expect('messages where no windows can be made', run,
           {'succeeds': run.code == 0, 'says why': re.search('which send messages .*ftruncate failed', run.output)})
for windows, per_machine in ways:
    run = ranks(3, 'samples', windows, per_machine, limit=30)
    expect(f'other samples on one rank, windows {windows}, {per_machine or "all"} on a machine', run,
           {'fails': run.code not in (0, None), 'soon': run.seconds < 10, 'in the same step': 'trained' not in run.output,
            'both are told': any(s.count('200 samples with digest') == 2 for s in run.said)})
for variables, hint in [({}, 'mpirun -n 4'), ({'RANK': '0', 'WORLD_SIZE': '4'}, 'torchrun'),
                        ({'SLURM_PROCID': '0', 'SLURM_NTASKS': '4', 'SLURM_STEP_ID': '0'}, 'srun --mpi=pmix'),
                        ({'SLURM_JOB_ID': '7'}, 'srun was not used')]:
    run = ranks(0, 'mesh', variables=variables)
    expect(f'a hint at {hint}', run, {'exit code 4': run.code == 4, 'it is there': hint in run.output})

# ---- failures ----

for windows, per_machine in ways:
    name = f'windows {windows}, {per_machine or "all"} on a machine'
    run = ranks(4, 'different', windows, per_machine, limit=30)
    expect(f'different calls, {name}', run,
           {'fails': run.code not in (0, None),
            'both calls are told': any('10 x f32' in s and '11 x f32' in s for s in run.said)})
    run = ranks(4, 'throw', windows, per_machine, limit=30)
    expect(f'an exception on a rank, {name}', run,
           {'fails': run.code not in (0, None),
            'others know it': sum('device 1: the oar is broken' in s for s in run.said) >= 2})
    run = ranks(4, 'sum', windows, per_machine, limit=30)
    expect(f'an exception in the middle of a sum, {name}', run,
           {'fails': run.code not in (0, None), 'soon': run.seconds < 10,
            'others know it': sum('device 1: the oar is broken' in s for s in run.said) >= 2})
    run = ranks(3, 'native', windows, per_machine, limit=30)
    expect(f"late for MPI's own all-reduce, {name}", run,
           {'fails': run.code not in (0, None),
            'it is named': run.said and all('rank 1 did not arrive' in s for s in run.said)})
    run = ranks(3, 'stopped', windows, per_machine, limit=60)
    expect(f'all ranks are stopped for a while, {name}', run, {'succeeds': run.code == 0 and 'fine' in run.output})
    for victim in (0, 3):
        # MPICH's launcher ends all others the moment a rank dies: most often they have no time to say anything
        least = 0 if library == 'mpich' else 2
        run = ranks(4, 'kill', windows, per_machine, victim, limit=30)
        expect(f'rank {victim} is killed, {name}', run,
               {'fails': run.code not in (0, None), 'soon': run.seconds < 8,
                'survivors say who, and where it was':
                    sum(f'rank {victim} (process' in s and 'training step 3' in s for s in run.said) >= least})
    run = ranks(4, 'stop', windows, per_machine, 2, limit=40)
    expect(f'rank 2 is stopped, {name}', run,
           {'fails': run.code not in (0, None),
            'it is named': len(run.said) >= 1 and all('rank 2 did not arrive' in s for s in run.said)})
for windows, per_machine in ways:
    name = f'windows {windows}, {per_machine or "all"} on a machine'
    run = ranks(4, 'kill_sum', windows, per_machine, 3, limit=30)
    expect(f'rank 3 is killed in the midst of messages, {name}', run,
           {'fails': run.code not in (0, None), 'soon': run.seconds < 8,
            'survivors say who': sum('rank 3 (process' in s for s in run.said) >= (0 if library == 'mpich' else 2)})
    run = ranks(4, 'stop_sum', windows, per_machine, 2, limit=30)
    expect(f'rank 2 is stopped in the midst of messages, {name}', run,
           {'fails': run.code not in (0, None), 'it is named, in one deadline':
               len(run.said) >= 1 and all('rank 2 did not arrive' in s for s in run.said) and '(in time)' in run.said[0]})
for step in (0, 1, 5):
    run = ranks(3, 'incomplete', 'automatic', 0, step, limit=30)
    others = [s for s in run.said if not s.startswith('rank 1 ')] # which the launcher continues, to end it
    words = ('absent: 1;', 'to blame: 1') if step else ('not known yet', 'to blame: -1')
    expect(f'rank 1 is stopped in meeting {step} of a group that begins' if step else 'rank 1 does not make a group', run,
           {'fails': run.code not in (0, None), 'the others say so': len(others) >= 1,
            'it is named, if ranks have spoken': all(w in s for s in others for w in words),
            'in one deadline': all('(in time)' in s for s in others)})
for n, stages in ((3, 1), (4, 2)):
    for windows, per_machine in ways:
        run = ranks(n, 'diverges', windows, per_machine, stages, limit=60)
        expect(f'a loss that is not finite: {n} ranks, {stages} to a replica, windows {windows}, '
               f'{per_machine or "all"} on a machine', run,
               {'exit code 3': run.code == 3, 'all ranks say so': len(run.said) == n,
                'of one step, whose weights they do not have': len(set(run.said)) == 1
                and 'is nan: the weights are those of the step before' in run.said[0]})
run = ranks(3, 'last', limit=30)
expect('a rank works on when the others have finished', run, {'succeeds': run.code == 0 and 'fine' in run.output})
run = ranks(1, 'guards', limit=30)
expect('guards of several threads', run, {'succeeds': run.code == 0 and 'fine' in run.output})
run = ranks(4, 'early', limit=30)
expect('a rank ends before the others', run,
       {'fails': run.code is not None and run.code > 0, 'soon': run.seconds < 15,
        'the others say so': sum('has left the group' in s for s in run.said) >= 1})
for deadline, windows, per_machine in [(20, *way) for way in ways] + [(1, 'automatic', 0)]:
    run = ranks(3, 'outside', windows, per_machine, deadline, limit=30)
    expect(f'an exception outside of the group, windows {windows}, {per_machine or "all"} on a machine, '
           f'deadline {deadline} s', run,
           {'exit code 3': run.code == 3, 'soon': run.seconds < 15, 'the rank says it': 'the oar is broken' in run.said,
            'others hear of it': sum('device 1: an exception outside of its group' in s for s in run.said) >= 1})
run = ranks(2, 'forked', limit=40)
expect("a fork's copy of a group", run, {'succeeds': run.code == 0 and 'fine' in run.output})
run = ranks(2, 'no_mpi', limit=30)
expect('a rank that does not begin MPI', run,
       {'fails': run.code not in (0, None), 'soon': run.seconds < 15,
        'the other is ended by the watchdog, which knows its rank': 'rank 0 is stuck in MPI_Init_thread' in run.output})
for n in (1, 2): # of two ranks MPICH kills the other, and now and then its launcher ends by that signal
    run = ranks(n, 'stuck', limit=30)
    expect(f'a rank that is stuck in MPI is ended by the watchdog, {n} in all', run,
           {'exit code 5': run.code == 5 or (n == 2 and library == 'mpich' and run.code != 0),
            'it says so': 'is stuck in MPI_Recv' in run.output, 'soon': run.seconds < 10})

finish()
