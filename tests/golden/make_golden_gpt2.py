#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a GPT-2 of two blocks as Hugging Face's transformers save it, what it says of two sequences, and the state of a
GPT that is an nn.Sequential.

    pip install torch transformers safetensors
    make_golden_gpt2.py

Some seconds. Writes gpt2.safetensors, with the names and layouts of the published files (weights of linear layers lie
transposed, queries, keys and values are one tensor, and masks are tensors, too), and gpt2_says.safetensors: tokens and
logits. Writes gpt_state.safetensors: the state_dict of the layers that the library's gpt is made of.
"""
import pathlib

import torch
from make_golden_tokens import Attention, Positions
from safetensors.torch import save_file
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY = 2, 16, 2, 8, 17
SEED = 7


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


def gpt():
    """Of the same sizes; its end is not tied."""
    blocks = [nn.Sequential(Residual(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), Attention(HEADS, True),
                                     nn.Linear(WIDTH, WIDTH)),
                            Residual(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU('tanh'),
                                     nn.Linear(4 * WIDTH, WIDTH))) for _ in range(LAYERS)]
    net = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), Positions(CONTEXT, WIDTH), *blocks, nn.LayerNorm(WIDTH),
                        nn.Linear(WIDTH, VOCABULARY))
    nn.init.normal_(net[1].weight)
    return net


def main():
    torch.manual_seed(SEED)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS,
                                       n_head=HEADS)).eval()
    with torch.no_grad():
        for parameter in model.parameters(): # large enough that every one matters
            parameter += 0.2 * torch.randn_like(parameter)
        tokens = torch.randint(0, VOCABULARY, (2, CONTEXT))
        logits = model(tokens).logits
    published = {name.removeprefix('transformer.'): tensor.contiguous()
                 for name, tensor in model.state_dict().items() if name != 'lm_head.weight'}
    for layer in range(LAYERS):
        published[f'h.{layer}.attn.bias'] = torch.tril(torch.ones(1, 1, CONTEXT, CONTEXT))
    folder = pathlib.Path(__file__).parent
    save_file(published, folder / 'gpt2.safetensors')
    net = gpt()
    with torch.no_grad():
        of_sequential = net(tokens)
    save_file({'tokens': tokens.float(), 'logits': logits.contiguous(), 'logits_of_sequential': of_sequential.contiguous()},
              folder / 'gpt2_says.safetensors')
    save_file(net.state_dict(), folder / 'gpt_state.safetensors')


if __name__ == '__main__':
    main()
