#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a GPT-2 of two blocks as Hugging Face's transformers save it, and what it says of two sequences.

    pip install torch transformers safetensors
    make_golden_gpt2.py

Some seconds. Writes gpt2.safetensors, with the names and layouts of the published files (weights of linear layers lie
transposed, queries, keys and values are one tensor, and masks are tensors, too), and gpt2_says.safetensors: tokens and
logits.
"""
import pathlib

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY = 2, 16, 2, 8, 17
SEED = 7


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
    save_file({'tokens': tokens.float(), 'logits': logits.contiguous()}, folder / 'gpt2_says.safetensors')


if __name__ == '__main__':
    main()
