#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the golden values of layers of tokens: PyTorch's outputs and gradients, and the losses of a small transformer.

Rerun as make_golden.py, from which hash tensors and files come; some seconds on one core. Writes tokens.safetensors.
Parameters count t = 0, 1, 2, ... over weight, bias of each layer that has them, in the order in which a block runs:
norm, queries with keys and values, projection, norm, and both linear layers. The bound of an embedding's weight, and
of the positions', is sqrt(6 / (2 * width)); a norm has 1 + its weight's tensor and its bias, if any, both with a bound of
0.05. Token i of sequence t is (splitmix64(t * 2^32 + i) >> 40) modulo the vocabulary.
"""

import argparse
import math
import pathlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from make_golden import BIAS_BOUND, hashed, splitmix64, write

SAMPLES = 2             # of a layer
FIRST_X, FIRST_DY = 600, 650
TOKEN_SEQUENCE = 700    # of embeddings and cross-entropy, + case number; that of the training
TRAINED_SEQUENCE = 750


def hashed_tokens(t, count, vocabulary):
    numbers = splitmix64(np.uint64(t << 32) + np.arange(count, dtype=np.uint64)) >> np.uint64(40)
    return torch.from_numpy((numbers % np.uint64(vocabulary)).astype(np.int64))


# ---- layers ---------------------------------------------------------------------------------------------------------


class Positions(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(tokens, width))

    def forward(self, x):
        return x + self.weight


class Attention(nn.Module):
    def __init__(self, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal

    def forward(self, x):
        samples, tokens, width = x.shape[0], x.shape[1], x.shape[2] // 3
        q, k, v = (part.reshape(samples, tokens, self.heads, width // self.heads).transpose(1, 2)
                   for part in x.split(width, dim=2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return y.transpose(1, 2).reshape(samples, tokens, width)


class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.layers(x)


def block(width, heads):
    return nn.Sequential(
        Residual(nn.LayerNorm(width), nn.Linear(width, 3 * width), Attention(heads, True), nn.Linear(width, width)),
        Residual(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)))


def gpt(layers, width, heads, context, vocabulary, tied=False):
    net = nn.Sequential(
        nn.Embedding(vocabulary, width), Positions(context, width), *(block(width, heads) for _ in range(layers)),
        nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=not tied))
    if tied:
        net[-1].weight = net[0].weight
    return net


def set_parameters(net):
    """Fills every parameter by the rule at the top of this file."""
    t, filled = 0, set()
    for layer in net.modules():
        base = 0.0
        if getattr(layer, "weight", None) is None or layer.weight in filled:
            continue
        filled.add(layer.weight)
        if isinstance(layer, (nn.Embedding, Positions)):
            bound = math.sqrt(6.0 / (2 * layer.weight.shape[1]))
        elif isinstance(layer, nn.Linear):
            bound = math.sqrt(6.0 / (layer.weight.shape[0] + layer.weight.shape[1]))
        elif isinstance(layer, (nn.LayerNorm, nn.RMSNorm)):
            base, bound = 1.0, BIAS_BOUND
        else:
            continue
        with torch.no_grad():
            layer.weight.copy_(base + hashed(t, layer.weight.shape, bound))
            t += 1
            if getattr(layer, "bias", None) is not None:
                layer.bias.copy_(hashed(t, layer.bias.shape, BIAS_BOUND))
                t += 1
    return net


CLASS_WEIGHTS = torch.tensor([0.25, 1.0, 2.0, 0.0, 0.5, 1.5, 3.0, 0.75, 1.25, 0.1], dtype=torch.float64)
# name, layer, tokens and values of a sample, bound of the input. The place in the list is the case number.
LAYERS = [
    ("attention_5", lambda: Attention(1, False), (5, 27), 3.0),
    ("attention_5_causal", lambda: Attention(2, True), (5, 36), 3.0),
    ("attention_37", lambda: Attention(3, False), (37, 45), 3.0),
    ("attention_37_causal", lambda: Attention(3, True), (37, 45), 3.0),
    ("attention_16_causal", lambda: Attention(4, True), (16, 48), 6.0),
    ("layer_norm_9", lambda: nn.LayerNorm(9), (5, 9), 1.0),
    ("layer_norm_37", lambda: nn.LayerNorm(37), (3, 37), 4.0),
    ("layer_norm_of_little", lambda: nn.LayerNorm(8), (3, 8), 0.01),  # where epsilon matters
    ("linear_tokens", lambda: nn.Linear(7, 5), (6, 7), 1.0),
    ("linear_more_tokens", lambda: nn.Linear(19, 37), (5, 19), 1.0),
    ("linear_without_bias", lambda: nn.Linear(7, 5, bias=False), (6, 7), 1.0),
    ("rms_norm_9", lambda: nn.RMSNorm(9), (5, 9), 1.0),
    ("rms_norm_of_little", lambda: nn.RMSNorm(37), (3, 37), 1e-7),  # where epsilon matters
    ("rms_norm_without_weight", lambda: nn.RMSNorm(8, elementwise_affine=False), (3, 8), 4.0),
]
CROSS_ENTROPIES = [("cross_entropy_5", 5, 11), ("cross_entropy_7", 7, 64)]  # tokens, classes
# The same with options; where a label is to be ignored, it is that of every third token. Their case numbers come last.
SOFT_CROSS_ENTROPIES = [
    ("ignoring", 5, 10, dict(ignore_index=-1)),
    ("smooth", 4, 10, dict(label_smoothing=0.1)),
    ("weighted_ignoring", 7, 10, dict(weight=CLASS_WEIGHTS, ignore_index=-1)),
    ("all", 6, 10, dict(weight=CLASS_WEIGHTS, ignore_index=-1, label_smoothing=0.1)),
]
LOGITS_BOUND = 5.0
# name, network, tokens of a sample, vocabulary, values of an output's token
NETWORKS = [
    ("embedding_positions", lambda: nn.Sequential(nn.Embedding(6, 9), Positions(7, 9)), 7, 6, 9),
    ("small_gpt", lambda: gpt(1, 12, 3, 7, 11), 7, 11, 11),
    ("small_tied_gpt", lambda: gpt(1, 12, 3, 7, 11, tied=True), 7, 11, 11),
]


def gradients(net):
    return torch.cat([p.grad.reshape(-1) for p in net.parameters()]).numpy()


def layer_values():
    tensors = {}
    for case, (name, make, shape, bound) in enumerate(LAYERS):
        layer = set_parameters(make()).double()
        x = hashed(FIRST_X + case, (SAMPLES, *shape), bound).double().requires_grad_()
        y = layer(x)
        y.backward(hashed(FIRST_DY + case, y.shape).double())
        tensors |= {f"{name}.case_number": np.int64(case), f"{name}.bound": np.float64(bound),
                    f"{name}.y": y.detach().numpy(), f"{name}.dx": x.grad.numpy()}
        if list(layer.parameters()):
            tensors[f"{name}.dp"] = gradients(layer)
    for case, (name, tokens, classes) in enumerate(CROSS_ENTROPIES, len(LAYERS)):
        x = hashed(FIRST_X + case, (SAMPLES, tokens, classes), LOGITS_BOUND).double().requires_grad_()
        targets = hashed_tokens(TOKEN_SEQUENCE + case, SAMPLES * tokens, classes)
        y = functional.cross_entropy(x.reshape(-1, classes), targets)
        y.backward()
        tensors |= {f"{name}.case_number": np.int64(case), f"{name}.y": y.detach().numpy(), f"{name}.dx": x.grad.numpy(),
                    f"{name}.correct": np.int64((x.reshape(-1, classes).argmax(1) == targets).sum())}
    for case, (name, make, tokens, vocabulary, width) in enumerate(NETWORKS, len(LAYERS) + len(CROSS_ENTROPIES)):
        net = set_parameters(make()).double()
        y = net(hashed_tokens(TOKEN_SEQUENCE + case, SAMPLES * tokens, vocabulary).reshape(SAMPLES, tokens))
        y.backward(hashed(FIRST_DY + case, y.shape).double())
        tensors |= {f"{name}.case_number": np.int64(case), f"{name}.y": y.detach().numpy(), f"{name}.dp": gradients(net)}
    first_soft = len(LAYERS) + len(CROSS_ENTROPIES) + len(NETWORKS)
    for case, (name, tokens, classes, options) in enumerate(SOFT_CROSS_ENTROPIES, first_soft):
        x = hashed(FIRST_X + case, (SAMPLES, tokens, classes), LOGITS_BOUND).double().requires_grad_()
        targets = hashed_tokens(TOKEN_SEQUENCE + case, SAMPLES * tokens, classes)
        if "ignore_index" in options:
            targets[::3] = options["ignore_index"]
        y = functional.cross_entropy(x.reshape(-1, classes), targets, **options)
        y.backward()
        tensors |= {f"{name}.case_number": np.int64(case), f"{name}.y": y.detach().numpy(), f"{name}.dx": x.grad.numpy()}
    return tensors


# ---- training -------------------------------------------------------------------------------------------------------

# Windows of the sequence side by side, again from the first one after the last: losses fall, since they are learnt by
# heart. Options are what a float holds.
TRAINED = dict(layers=2, width=32, heads=4, context=16, vocabulary=64)
STEPS, BATCH, WINDOWS = 20, 4, 12
OPTIONS = {"learning_rate": 3e-3, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
OPTIONS = {name: float(np.float32(value)) for name, value in OPTIONS.items()}


def train(dtype, tied=False):
    """The losses of all steps, each before its update. Biases and norms do not decay."""
    context, vocabulary = TRAINED["context"], TRAINED["vocabulary"]
    sequence = hashed_tokens(TRAINED_SEQUENCE, WINDOWS * context + 1, vocabulary)
    inputs, targets = sequence[:-1].reshape(WINDOWS, context), sequence[1:].reshape(WINDOWS, context)
    net = set_parameters(gpt(**TRAINED, tied=tied)).to(dtype)
    decayed = [p for p in net.parameters() if p.dim() == 2]
    others = [p for p in net.parameters() if p.dim() != 2]
    adamw = torch.optim.AdamW(
        [dict(params=decayed, weight_decay=OPTIONS["weight_decay"]), dict(params=others, weight_decay=0.0)],
        lr=OPTIONS["learning_rate"], betas=(OPTIONS["beta1"], OPTIONS["beta2"]), eps=OPTIONS["epsilon"])
    losses = []
    for step in range(STEPS):
        first = step * BATCH % WINDOWS
        batch = slice(first, first + BATCH)
        adamw.zero_grad()
        loss = functional.cross_entropy(net(inputs[batch]).reshape(-1, vocabulary), targets[batch].reshape(-1))
        loss.backward()
        adamw.step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description="Makes the golden values of layers of tokens.")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    tensors = layer_values()
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        by_definition = layer_values()
    apart = max(np.abs(tensors[name] - by_definition[name]).max() for name in tensors if name.endswith((".y", ".dx", ".dp")))
    loss64, loss32, tied64 = train(torch.float64), train(torch.float32), train(torch.float64, tied=True)
    for name, value in OPTIONS.items():
        tensors[f"trained.{name}"] = np.float64(value)
    tensors |= {"trained.batch": np.int64(BATCH), "trained.windows": np.int64(WINDOWS),
                "trained.loss_f64": np.array(loss64, np.float64), "trained.loss_f32": np.array(loss32, np.float32),
                "trained.tied_loss_f64": np.array(tied64, np.float64)}
    about = (
        f"Layers of tokens in float64, {SAMPLES} samples: the input x is hash tensor {FIRST_X} + case_number with the bound "
        f"given, the gradient of the output y is hash tensor {FIRST_DY} + case_number with bound 1, parameters are hash "
        "tensors 0, 1, ... with their usual bounds; dx is the gradient by the input, dp that by all parameters in order. "
        "attention_T has T tokens, and heads 1, 2, 3, 3, 4 by case number. cross_entropy: x has bound "
        f"{LOGITS_BOUND:g}, targets are token sequence {TOKEN_SEQUENCE} + case_number, y is the mean over all tokens of all "
        "samples, correct how many have the largest logit; every third target is ignored, if any. Networks: their input is token sequence "
        f"{TOKEN_SEQUENCE} + case_number; small_gpt has 1 block, width 12, 3 heads, context 7, vocabulary 11. trained: 20 "
        f"losses, each before its update, of a gpt of {', '.join(f'{k} {v}' for k, v in TRAINED.items())}, by AdamW, where "
        f"biases and norms do not decay; step k takes batch windows of token sequence {TRAINED_SEQUENCE} from window "
        "k * batch modulo windows on. loss_f64: PyTorch in float64 from float32 weights. loss_f32: PyTorch in float32. "
        "tied: the last layer has the embedding's weight and no bias.")
    path = options.out / "tokens.safetensors"
    write(path, "make_golden_tokens.py", about, tensors)
    apart32 = [abs(b - a) / abs(a) for a, b in zip(loss64, loss32)]
    print(f"scaled_dot_product_attention is at most {apart:.1e} from its definition; loss {loss64[0]:.6f} -> "
          f"{loss64[-1]:.6f}, float32 off by at most {max(apart32):.2e} relative; {path.stat().st_size} bytes")
    print([f"{loss:.4f}" for loss in loss64 + tied64])


if __name__ == "__main__":
    main()
