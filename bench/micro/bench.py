# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every kernel of LeNet beside the machine's best of the same minute: the roofline. The ratio is the share reached.

Convolutions and linear layers against the rate of multiply-adds on registers alone; FLOPs are counted as everywhere in
the field, with the taps that fall into the padding, so that a convolution which skips those may pass 1. Everything else
against a pass that reads two arrays of the size of the layer's output and writes one. `one sample/...` are the kernels
for batches of a few samples.
"""
import subprocess


def run(bench):
    rounds = 5 if bench.quick else 31
    output = subprocess.run([bench.program('micro'), str(rounds)], stdout=subprocess.PIPE, text=True, check=True).stdout
    cases = {}
    for line in output.splitlines():
        case, peer, ours, theirs, unit = line.split('\t')
        figures = cases.setdefault((case, peer, unit), ([], []))
        figures[0].append(float(ours))
        figures[1].append(float(theirs))
    for (case, peer, unit), (ours, theirs) in cases.items():
        bench.row(case, peer, ours, theirs, unit)
