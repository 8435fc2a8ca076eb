# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The byte-level GPT of trireme/layer/gpt.hpp in PyTorch, and how bench/gpt trains it."""
import functools

import torch
import torch_steps
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional

VOCABULARY = 256


class Embedding(nn.Module):
    """A token's values, and those of its position."""
    def __init__(self, width, context, vocabulary=VOCABULARY):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(0.02 * torch.randn(context, width))

    def forward(self, x):
        return self.tokens(x) + self.positions


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.inward, self.outward = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        qkv = self.inward(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(*qkv.unbind(), is_causal=True)
        return x + self.outward(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(approximate='tanh'),
                                    nn.Linear(4 * width, width))

    def forward(self, x):
        return x + self.layers(x)


def gpt(layers, width, heads, context, vocabulary=VOCABULARY, bias=True):
    """Its modules are the parts that a stage may begin with. `bias`: of the layer at the end."""
    blocks = [part for _ in range(layers) for part in (Attention(width, heads), FeedForward(width))]
    return nn.Sequential(Embedding(width, context, vocabulary), *blocks, nn.LayerNorm(width),
                         nn.Linear(width, vocabulary, bias=bias))


class MicroBlock(nn.Module):
    """A block of Karpathy's microgpt: no biases, norms without weights, relu."""
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.inward, self.outward = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        def norm(x):
            return functional.rms_norm(x, x.shape[-1:])
        x = norm(x)
        qkv = self.inward(norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(*qkv.unbind(), is_causal=True)
        x = x + self.outward(y.transpose(1, 2).flatten(2))
        return x + self.down(functional.relu(self.up(norm(x))))


def microgpt():
    return nn.Sequential(Embedding(16, 16, 27), MicroBlock(16, 4), nn.Linear(16, 27, bias=False))


def windows(count, context, vocabulary=VOCABULARY):
    """Windows of a made-up text, side by side, and the token behind each of their tokens."""
    text = torch.randint(vocabulary, (count * context + 1,))
    return text[:-1].view(count, context), text[1:].view(count, context)


def loss_of(scores, targets):
    return functional.cross_entropy(scores.flatten(0, 1), targets.flatten())


def fully_sharded(network):
    """FSDP2, a group of parameters for each block and one for the rest: every process holds its share of them, and has
    all of a block's from its forward pass to its backward pass, which is faster here than to bring them twice."""
    mesh = init_device_mesh('cpu', (torch.distributed.get_world_size(),))
    _, *parts, _, _ = network
    for block in zip(parts[::2], parts[1::2]):
        fully_shard(list(block), mesh=mesh, reshard_after_forward=False)
    return fully_shard(network, mesh=mesh)


def training(network, data):
    return torch_steps.Training(network, data, warm_up=2, loss_of=loss_of,
                                optimizer=functools.partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.01, fused=True))


def training_of_bytes(layers, width, heads, context):
    return training(functools.partial(gpt, layers, width, heads, context), functools.partial(windows, 1024, context))


TRAININGS = {'width128': training_of_bytes(4, 128, 4, 128), 'width256': training_of_bytes(6, 256, 8, 256),
             'micro': training(microgpt, functools.partial(windows, 1024, 16, 27))}
TRAININGS['width128-fsdp2'] = TRAININGS['width128']._replace(replicas=fully_sharded)
