# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every kernel of LeNet beside the machine's best of the same minute: the roofline. The ratio is the share reached.

Convolutions and linear layers against the rate of multiply-adds on registers alone; FLOPs are counted as everywhere in
the field, with the taps that fall into the padding, so that a convolution which skips those may pass 1. Everything else
against a pass that reads two arrays of the size of the layer's output and writes one. `one sample/...` are the kernels
for batches of a few samples. `adamw/64M` is AdamW on 64 million parameters, against a loop that reads and writes three such arrays and
reads a fourth.
"""
import statistics
import subprocess


def run(bench):
    rounds = 5 if bench.quick else 31
    output = subprocess.run([bench.program('micro'), str(rounds)], stdout=subprocess.PIPE, text=True, check=True).stdout
    cases = {}
    for line in output.splitlines():
        case, peer, ours, theirs, unit, microseconds = line.split('\t')
        figures = cases.setdefault((case, peer, unit), ([], [], []))
        for figure, text in zip(figures, (ours, theirs, microseconds)):
            figure.append(float(text))
    for (case, peer, unit), (ours, theirs, _) in cases.items():
        bench.row(case, peer, ours, theirs, unit)

    # where the time of a step goes
    for what, belongs in (('one granule', lambda case: '/' in case and not case.startswith('one sample/')),
                          ('one sample', lambda case: case.startswith('one sample/'))):
        times = {case.removeprefix('one sample/'): statistics.median(t) for (case, _, _), (_, _, t) in cases.items()
                 if belongs(case)}
        total = sum(times.values())
        bench.note(f'{what}: {total:.1f} us in all; ' + ', '.join(
            f'{case} {100 * t / total:.0f}%' for case, t in sorted(times.items(), key=lambda item: -item[1])
            if t > 0.01 * total))
