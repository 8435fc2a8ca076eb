# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Starts programs by the mpirun of one MPI library, and counts what is as it should be."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
from checks import Checks  # noqa: E402

library = sys.argv[1]
mpirun = shutil.which(f'mpirun.{library}') or shutil.which('mpirun')
environment = dict(os.environ,
                   OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1',
                   OMPI_MCA_rmaps_base_oversubscribe='1', OMPI_MCA_mpi_yield_when_idle='1',
                   PRTE_MCA_rmaps_default_mapping_policy=':oversubscribe',  # Open MPI 5
                   OMPI_MCA_btl_vader_single_copy_mechanism='none')  # containers often forbid the other
over_tcp = {'OMPI_MCA_pml': 'ob1', 'OMPI_MCA_btl': 'self,tcp', 'OMPI_MCA_btl_tcp_if_include': 'lo',
            'OMPI_MCA_oob_tcp_if_include': 'lo', 'UCX_TLS': 'tcp,self', 'UCX_NET_DEVICES': 'lo'}
has_networks = subprocess.run(['unshare', '-n', 'ip', 'link', 'set', 'lo', 'up'], capture_output=True).returncode == 0 \
    if shutil.which('unshare') and shutil.which('ip') else False
environment['TRIREME_TEST_LAUNCHER'] = str(os.getpid())  # so that one test takes no rank of another for its own
checks = Checks()


class Run:
    """A program on so many ranks; on none: without a launcher. `network`: in a network of their own, over TCP, in which
    these shell commands are run meanwhile."""
    def __init__(self, ranks, *arguments, limit=100, variables={}, network=None):
        launcher = [mpirun, '-n', str(ranks)] if ranks else []
        if network is not None:
            launcher = ['unshare', '-n', 'sh', '-c', f'ip link set lo up; ({network}) & exec "$0" "$@"', *launcher]
            variables = dict(variables, **over_tcp)
        command = [*launcher, *map(str, arguments)]
        self.start(command, variables, limit)
        crashes = 0
        while launcher and self.code == -signal.SIGSEGV and crashes < 5:
            # Open MPI 4.1's launcher itself now and then ends so where all ranks fail at once, more often where the
            # machine is busy; a rank that does would have it return a number above 0
            crashes += 1
            print(f'mpirun has crashed, once more: {command}', flush=True)
            orphans(arguments[0])
            self.start(command, variables, limit)
        self.said = re.findall(r'^.*?SAID (.*)$', self.output, re.MULTILINE)
        self.orphans = orphans(arguments[0])

    def start(self, command, variables, limit):
        start = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, env=dict(environment, **variables), start_new_session=True)
        try:
            self.output = process.communicate(timeout=limit)[0]
            self.code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            self.output = process.communicate()[0] + f'\nnot over after {limit} s'
            self.code = None
        self.seconds = time.monotonic() - start


def orphans(path):
    """Processes of the program that have outlived its launcher by more than a moment; they are ended."""
    wanted, marker = os.path.realpath(path), f'TRIREME_TEST_LAUNCHER={os.getpid()}'.encode()
    for attempt in range(20):
        left = []
        for entry in pathlib.Path('/proc').glob('[0-9]*'):
            try:
                if os.readlink(entry / 'exe') == wanted and marker in (entry / 'environ').read_bytes().split(b'\0'):
                    left.append(int(entry.name))
            except OSError:
                pass
        if not left:
            return []
        time.sleep(0.1)
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return left


def expect(name, run, conditions):
    """`conditions`: what has to hold, in words. A run's processes must all be gone, too."""
    conditions = dict(conditions, **{'no process is left behind': not run.orphans})
    broken = [what for what, holds in conditions.items() if not holds]
    print(f"{'FAILED' if broken else 'ok':6} {name} ({run.seconds:.1f} s)", flush=True)
    checks.expect(not broken, f'       not so: {"; ".join(broken)}\n       exit code {run.code}; output:\n{run.output}')


def finish():
    checks.end()
