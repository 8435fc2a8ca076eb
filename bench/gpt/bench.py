# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A GPT's training step beside PyTorch's, DistributedDataParallel's, FSDP2's and two of its pipelines, one thread per
device.

gpt/batchB/devicesN           tokens/s at the global batch B of windows of 128 bytes; 4 layers, width 128, 4 heads
gpt/width256/batch8/devices1  windows of 256 bytes; 6 layers, width 256, 8 heads
gpt/tokensT/devices1          windows of T bytes at 512 tokens per batch, beside our own rate with windows of 16
microgpt/batch1/devices1      Karpathy's microgpt, 4,192 parameters, a window of 16 letters per step
gpt/batch16/stages2           two stages, 8 micro-batches of 2 windows: the faster of our two schedules, beside each of
                              torch.distributed.pipelining, the network cut at the same place
speedup/gpt/batchB            the same global batch on two devices and on one

PyTorch runs in the fastest of its modes, chosen by a first measurement of each; the mode stands in the row.
"""
import pathlib

from pipeline.bench import facts_of, torch_modules, torch_names

folder = pathlib.Path(__file__).resolve().parent
modes = ['eager', 'compile']
contexts = {'width128': 128, 'width128-fsdp2': 128, 'width256': 256, 'micro': 16}
replicas = {'torch-ddp': 'width128', 'torch-fsdp2': 'width128-fsdp2'}


def run(bench):
    count = 3 if bench.quick else 7
    seconds = 0.5 if bench.quick else 2

    def trireme(batch, devices, net='width128'):
        return bench.worker(bench.program('gpt_' + net), batch, devices)

    def python(program, *arguments):
        return bench.worker(bench.peers / 'bin/python3', folder.parent / program, *arguments)

    def torch(batch, devices, mode, net='width128'):
        return python('gpt/torch_worker.py', net, mode, batch, devices)

    def fastest_mode(what, start, context=128):
        return bench.fastest(f'PyTorch, {what}, tokens/s', modes, start, seconds, context)

    def fastest_torch(batch, devices, net='width128'):
        return fastest_mode(f'{net}, batch {batch}, {devices} device(s)', lambda m: torch(batch, devices, m, net),
                            contexts[net])

    def columns(workers):
        return bench.columns(workers, count, seconds)

    def row(case, peer, ours, theirs, mode, context=128):
        """Workers count windows."""
        bench.row(case, peer, [context * x for x in ours], [context * x for x in theirs], 'tokens/s', mode=mode)
        bench.save()

    def one_device(case, batch, net='width128'):
        mode = fastest_torch(batch, 1, net)
        row(case, 'torch', *columns([trireme(batch, 1, net), torch(batch, 1, mode, net)]), mode, contexts[net])

    def two_devices(batch, peers=('torch-ddp',)):
        """All rows of one batch size on one device and on two: every contender takes its turn in every round."""
        alone, *together = fastest_torch(batch, 1), *(fastest_torch(batch, 2, replicas[peer]) for peer in peers)
        before = bench.cores()
        ours, ours_2, theirs, *theirs_2 = columns([
            trireme(batch, 1), trireme(batch, 2), torch(batch, 1, alone),
            *(torch(batch, 2, mode, replicas[peer]) for peer, mode in zip(peers, together))])
        bench.note(f'batch {batch}: two threads do the arithmetic of {before:.2f} before, of {bench.cores():.2f} after')
        row(f'gpt/batch{batch}/devices1', 'torch', ours, theirs, alone)
        for peer, mode, figures in zip(peers, together, theirs_2):
            row(f'gpt/batch{batch}/devices2', peer, ours_2, figures, mode)
        bench.row(f'speedup/gpt/batch{batch}', peers[0], [two / one for one, two in zip(ours, ours_2)],
                  [two / one for one, two in zip(theirs, theirs_2[0])], 'x', mode=together[0])
        bench.save()

    def stages(batch, micro_batches):
        program = bench.program('gpt_stages')
        cut = facts_of(program)[1]

        def ours(schedule):
            return bench.worker(program, 'steps', schedule, batch, micro_batches, 2, cut)

        def pipelining(schedule, mode):
            return python('pipeline/torch_worker.py', 'gpt', schedule, mode, batch, micro_batches, torch_modules['gpt'][cut])

        best = bench.fastest(f'two stages, cut before row {cut}, tokens/s',
                             ('one_f_one_b', 'zero_bubble_h1'), ours, seconds, 128)
        mode = {s: fastest_mode(f'{s} of two stages', lambda m, s=s: pipelining(s, m)) for s in torch_names.values()}
        us, *them = columns([ours(best), *(pipelining(s, m) for s, m in mode.items())])
        for (schedule, m), theirs in zip(mode.items(), them):
            row(f'gpt/batch{batch}/stages2', f'torch-{schedule}', us, theirs, m)

    def few_tokens(tokens=(1, 2, 4, 8, 16)):
        """Samples with few tokens do not fall off a cliff: tokens per second, whatever a window's length is."""
        program = bench.program('gpt_few_tokens')
        windows = columns([bench.worker(program, n, 512 // n, 1) for n in tokens])
        *few, last = [[n * x for x in rates] for n, rates in zip(tokens, windows)]
        for n, rates in zip(tokens, few):
            bench.row(f'gpt/tokens{n}/devices1', f'tokens{tokens[-1]}', rates, last, 'tokens/s')
        bench.save()

    two_devices(16, tuple(replicas))
    one_device('gpt/batch1/devices1', 1)
    stages(16, 8)
    one_device('gpt/width256/batch8/devices1', 8, 'width256')
    few_tokens()
    one_device('microgpt/batch1/devices1', 1, 'micro')
    two_devices(4)
