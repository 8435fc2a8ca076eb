# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every kernel of LeNet and of a GPT beside the machine's best of the same minute: the roofline. The ratio is the share
reached.

Convolutions and linear layers against the rate of multiply-adds on registers alone; FLOPs are counted as everywhere in
the field, with the taps that fall into the padding, so that a convolution which skips those may pass 1. Everything else
against a pass that reads two arrays of the size of the layer's output and writes one. `one sample/...` are the kernels
for batches of a few samples. `adamw/64M` is AdamW on 64 million parameters, against a loop that reads and writes three
such arrays and reads a fourth.

gpt/TxI-O/...     linear over a sample of T tokens, with I inputs and O outputs each, beside a library's matrix product:
                  the fastest of oneDNN's matmul, oneDNN's gemm and OpenBLAS's, one thread each
gpt/attentionW    attention of W tokens of W values, 4 or 8 heads, beside the rate of our own product of W x W-3W; what
                  the mask hides is not counted
gpt/layer_normW   beside a loop that reads and writes as many arrays of that size
gpt/gelu_tanhW    beside our own sigmoid, in values; also its slopes
"""
import os
import statistics
import subprocess


def run(bench):
    rounds = 5 if bench.quick else 31
    cases = {}

    def measure(name, env=None):
        output = subprocess.run([bench.program(name), str(rounds)], stdout=subprocess.PIPE, text=True, check=True,
                                env={**os.environ, 'OMP_NUM_THREADS': '1', 'OPENBLAS_NUM_THREADS': '1', **(env or {})})
        for line in output.stdout.splitlines():
            case, peer, ours, theirs, unit, microseconds = line.split('\t')
            figures = cases.setdefault((case, unit), {}).setdefault(peer, ([], [], []))
            for figure, text in zip(figures, (ours, theirs, microseconds)):
                figure.append(float(text))

    measure('micro')
    if os.path.exists(bench.program('micro_gpt')):
        # OpenBLAS 0.3.21 does not know the newest of the processors with AVX-512, and takes AVX2 there
        wide = 'AVX-512' in bench.core_facts()[4]
        measure('micro_gpt', {'OPENBLAS_CORETYPE': 'SKYLAKEX'} if wide else {})
    else:
        bench.note('the kernels of a GPT are left out: their peers are oneDNN and OpenBLAS')
    for (case, unit), peers in cases.items():
        peer = max(peers, key=lambda name: statistics.median(peers[name][1]))
        bench.row(case, peer, *peers[peer][:2], unit)

    # where the time of a step goes
    for what, belongs in (('one granule', lambda case: '/' in case and not case.startswith(('one sample/', 'gpt/'))),
                          ('one sample', lambda case: case.startswith('one sample/'))):
        times = {case.removeprefix('one sample/'): statistics.median(figures[2])
                 for (case, _), peers in cases.items() if belongs(case) for figures in peers.values()}
        total = sum(times.values())
        bench.note(f'{what}: {total:.1f} us in all; ' + ', '.join(
            f'{case} {100 * t / total:.0f}%' for case, t in sorted(times.items(), key=lambda item: -item[1])
            if t > 0.01 * total))
