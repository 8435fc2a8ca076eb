# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tests/gpu.py on a machine without a GPU: a played one, with played tests and a played sanitizer.

gpu_played.py GPU_PY
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent / 'support'))
from checks import ends  # noqa: E402

TEST = '''#!/bin/sh
case "$*" in *--list-test-cases*) printf '[doctest] listing all test case names\\n===\\none\\ntwo, in parts\\nthree\\n===\\n'; exit 0 ;; esac
echo "asked for: $* deadline: $TRIREME_TEST_DEADLINE"
case "$*" in
*one*) exit 1 ;;
*three*) echo '[doctest] test cases:  0 |  0 passed | 0 failed | 2 skipped'; exit 0 ;; # as where no case has the name
esac
echo '[doctest] test cases:  1 |  1 passed | 0 failed | 1 skipped'
'''
SMI = '''#!/bin/sh
echo "played, 1.0, 9.0, 1 MiB"
'''
SANITIZER = '''#!/bin/sh
case "$*" in *--help*) echo "  --report-api-errors arg  --kernel-regex arg"; exit 0 ;; esac
echo "sanitizer: $*"
for last; do :; done
"$last"
echo "========= $(case "$*" in *racecheck*cu_cuda_peer*) echo 'RACECHECK SUMMARY: 3 hazards displayed (0 errors, 3 warnings)' ;;
    *racecheck*) echo 'RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)' ;;
    *) echo 'ERROR SUMMARY: 0 errors' ;; esac)"
'''


def main():
    gpu = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        at = pathlib.Path(folder)
        for name, text in (('bin/nvidia-smi', SMI), ('bin/compute-sanitizer', SANITIZER),
                           ('work/tests/tests/cu_kernels_cuda_kernels', TEST), ('work/tests/tests/cu_cuda_peer', TEST)):
            path = at / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding='utf-8')
            path.chmod(0o755)
        env = {**os.environ, 'PATH': f'{at}/bin:{os.environ["PATH"]}'}

        def run(*arguments):
            return subprocess.run([sys.executable, gpu, '--work', at / 'work', '--out', at / 'out', *arguments], env=env,
                                  capture_output=True, text=True)
        done = run('--parts', 'sanitize,test', '--seconds', '60')
        if done.returncode == 3:
            print(done.stderr)
            return 77  # no nvcc here, or no cuDNN
        results = json.loads((at / 'out/results.json').read_text(encoding='utf-8'))
        log = (at / 'out/log.txt').read_text(encoding='utf-8')
        parts = [(part['part'], part['result']) for part in results['parts']]
        wanted = [('test kernels_cuda_kernels: one', 'FAILED'), ('test kernels_cuda_kernels: two, in parts', 'ok'),
                  ('test kernels_cuda_kernels: three', 'FAILED'),
                  ('test cuda_peer', 'ok')]
        wanted += [(f'{tool} {name}', 'FAILED' if (tool, name) == ('racecheck', 'cuda_peer') else 'ok') for tool in ('memcheck', 'racecheck', 'initcheck')
                   for name in ('kernels_cuda_kernels', 'cuda_peer')]
        faults = {
            f'exit code {done.returncode}, not 1: {done.stderr}': done.returncode != 1,
            f'these parts, in this order: {parts}': parts != wanted,
            'a case with a comma is not asked for as one': 'asked for: -tc=two* in parts deadline: \n' not in log,
            'the sanitizer looks at more than our kernels':
                'sanitizer: --tool memcheck --report-api-errors no --kernel-regex kns=trireme ' not in log,
            'under the sanitizer trainers have their usual deadline': 'asked for:  deadline: 600' not in log,
            'an unknown part is no wrong usage': run('--parts', 'build,tests').returncode != 2,
            'unknown rows are no wrong usage': run('--rows', 'vgg').returncode != 2,
        }
    failed = [fault for fault, is_one in faults.items() if is_one]
    return ends(failed, len(faults))


if __name__ == '__main__':
    sys.exit(main())
