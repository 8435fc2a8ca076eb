# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A program that a script runs and judges: what holds is counted, what does not is said."""
import pathlib
import resource
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
from checks import Checks  # noqa: E402


class CheckedProgram(Checks):
    def __init__(self, path):
        super().__init__()
        self.path, self.name = path, pathlib.Path(path).name

    def run(self, *arguments, most_file_bytes=None):
        """`most_file_bytes`: files may not grow larger; that is an error of the write then, and no signal."""
        def limited():
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_file_bytes, most_file_bytes))
        return subprocess.run([self.path, *map(str, arguments)], capture_output=True, text=True, errors='replace',
                              check=False, preexec_fn=limited if most_file_bytes else None)

    def tells_lost_output(self, *arguments):
        """It says so, and ends with 3, if what it prints cannot be written."""
        with open('/dev/full', 'w', encoding='utf-8') as full:
            done = subprocess.run([self.path, *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.expect(done.returncode == 3 and done.stderr.count('standard output: writing failed') == 1,
                    f'{self.name} {arguments}: output is lost in silence: {done.returncode} {done.stderr}')

    def refuses(self, words, *arguments, at_once=True):
        """It ends with code 2, and a sentence with all words; `at_once`: before it has said anything else."""
        done = self.run(*arguments)
        said = done.stdout * at_once + done.stderr
        self.expect(done.returncode == 2 and all(word in said for word in words) and said.count('\n') == 1,
                    f'{self.name} {arguments}: exit code {done.returncode}, not 2 and one line with {words}: {said}')
