#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the golden values in this folder: what PyTorch computes for nets, layers and updates that Trireme also has.

Rerun (writes *.safetensors beside this file, prints how far float32 lies from float64; half a minute on one core):

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install torch numpy
    /tmp/golden/bin/python tests/golden/make_golden.py [--data /usr/share/datasets/fashion-mnist] [--out tests/golden]

The committed values were made with torch 2.15.0 (the wheel 2.15.0+cu132, CPU only), numpy 2.4.6 and Python 3.11.7.
The images are those of the Debian package dataset-fashion-mnist. float64 values should come back to about 1e-13
anywhere; float32 values depend on which kernels PyTorch picks for the processor, and on another one may differ by as
much as the deviations printed here.

Files, which tests read by tests/support/golden.hpp. Their metadata name the program, the version of PyTorch and the
day, and say what the tensors are:
    lenet_*   one training run each: its options, and the loss of every step, taken before that step's update.
    layers    output and gradients of single layers, float64.
    sgd       five updates of a vector of four values for each kind of SGD, float64.
    adam      the same for Adam and AdamW, and for gradients that are clipped before.
    rmsprop   the same for RMSprop, with and without momentum.
    adagrad   the same for Adagrad.
    losses    losses of values, and cross-entropies with options: the loss of a batch and its gradient, float64.
    rates     learning rates of schedules, step by step, for a first rate of 1, float64.
    predictions  outputs, classes and probabilities of two whole networks, float64.

No weights and no data are stored. Both sides make them from splitmix64: element i (row-major, PyTorch's layout) of
tensor t is
    u     = splitmix64(t * 2^32 + i) >> 40                             24 bits
    value = float32((u / 2^23 - 1) * bound)                            computed in float64, rounded once
Parameters of a net count t = 0, 1, 2, ... over weight, bias of each layer that has them, in order. Their bound is
sqrt(6 / (fan_in + fan_out)) for a weight, fans of a convolution being channels * kernel area, and 0.05 for a bias.
Layers count as they run: a residual is conv1, bn1, conv2, bn2 and, if it has one, the shortcut's conv3. A batch norm has
1 + its weight's tensor and its bias, both with a bound of 0.05. Running statistics that are no training's own count
t = 500, 501, ... over mean, 1 + variance of each batch norm, with a bound of 0.5.
Everything else has bound 1 and a tensor number named in the file that uses it.

Training images are taken in file order, unshuffled, each step continuing where the last one stopped; a pixel is
float32(byte) * float32(1 / 255), a product and not a quotient. The loss is the batch's mean cross-entropy. The runs
in float64 start from the same float32 weights and pixels.
"""

import argparse
import datetime
import gzip
import json
import math
import pathlib

import numpy as np
import torch
from torch import nn

BIAS_BOUND = 0.05
STATISTICS_BOUND, FIRST_STATISTIC = 0.5, 500
IMAGE_SIDE = 28

# One training run each. `sizes` are the batch sizes, step by step. Max pooling and ReLU choose: where two values almost
# tie, float32 chooses otherwise than float64 and the runs part by a jump, the further the larger the learning rate.
# The rates of those two runs are low enough to leave float32, in any order of summation tried, within 2e-5 of float64.
RUNS = {
    "lenet_sigmoid": dict(
        act=nn.Sigmoid, pool=nn.AvgPool2d, sizes=[256] * 50, lr=0.9, momentum=0.0, nesterov=False, weight_decay=0.0),
    "lenet_tanh_max": dict(
        act=nn.Tanh, pool=nn.MaxPool2d, sizes=[256] * 50, lr=0.01, momentum=0.9, nesterov=False, weight_decay=0.0),
    "lenet_relu_nesterov": dict(
        act=nn.ReLU, pool=nn.MaxPool2d, sizes=[256] * 50, lr=0.0005, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "lenet_sigmoid_wd": dict(
        act=nn.Sigmoid, pool=nn.AvgPool2d,
        sizes=[256, 96, 1, 7, 255, 256, 2, 128, 3, 250, 64, 256, 5, 33, 256, 100, 1, 17, 192, 256],
        lr=0.9, momentum=0.0, nesterov=False, weight_decay=1e-3),
}


# ---- numbers both sides can make ------------------------------------------------------------------------------------


def splitmix64(x):
    """The finaliser of SplitMix64, elementwise over an array of uint64 (which wraps, as wanted)."""
    z = x + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def hashed(t, shape, bound=1.0):
    """Tensor number t as a float32 tensor."""
    i = np.arange(math.prod(shape), dtype=np.uint64)
    u = splitmix64(np.uint64(t << 32) + i) >> np.uint64(40)
    values = (u.astype(np.float64) / 2.0**23 - 1.0) * bound
    return torch.from_numpy(values.astype(np.float32)).reshape(shape)


def set_parameters(net):
    """Fills every parameter by the rule at the top of this file."""
    t = 0
    for layer in net.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            area = math.prod(layer.kernel_size) if isinstance(layer, nn.Conv2d) else 1
            fans = (layer.weight.shape[0] + layer.weight.shape[1]) * area
            base, bound = 0.0, math.sqrt(6.0 / fans)
        elif isinstance(layer, nn.BatchNorm2d):
            base, bound = 1.0, BIAS_BOUND
        else:
            continue
        with torch.no_grad():
            layer.weight.copy_(base + hashed(t, layer.weight.shape, bound))
            layer.bias.copy_(hashed(t + 1, layer.bias.shape, BIAS_BOUND))
        t += 2
    return net


def set_statistics(net):
    """Fills the running statistics of every batch norm by the rule at the top of this file."""
    t = FIRST_STATISTIC
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.copy_(hashed(t, layer.running_mean.shape, STATISTICS_BOUND))
            layer.running_var.copy_(1.0 + hashed(t + 1, layer.running_var.shape, STATISTICS_BOUND))
            t += 2
    return net


def load_fashion_mnist(folder):
    """The training set: float32 images of N x 1 x 28 x 28 and int64 labels."""
    def body(name, header):
        with gzip.open(folder / name, "rb") as file:
            return np.frombuffer(file.read(), dtype=np.uint8, offset=header)

    pixels = body("train-images-idx3-ubyte.gz", 16).astype(np.float32) * np.float32(1.0 / 255.0)
    labels = body("train-labels-idx1-ubyte.gz", 8).astype(np.int64)
    return torch.from_numpy(pixels).reshape(-1, 1, IMAGE_SIDE, IMAGE_SIDE), torch.from_numpy(labels)


# ---- training runs --------------------------------------------------------------------------------------------------


def lenet(act, pool):
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), act(), pool(2, 2),
        nn.Conv2d(6, 16, 5), act(), pool(2, 2), nn.Flatten(),
        nn.Linear(16 * 5 * 5, 120), act(), nn.Linear(120, 84), act(), nn.Linear(84, 10))


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, stride=stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv3 = nn.Conv2d(inputs, outputs, 1, stride=stride) if stride != 1 or inputs != outputs else None

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return torch.relu(y + (x if self.conv3 is None else self.conv3(x)))


def train(run, data, dtype):
    """The losses of one run, each before its step's update."""
    images, labels = data
    net = set_parameters(lenet(run["act"], run["pool"])).to(dtype)
    sgd = torch.optim.SGD(net.parameters(), lr=run["lr"], momentum=run["momentum"], nesterov=run["nesterov"],
                          weight_decay=run["weight_decay"])
    criterion = nn.CrossEntropyLoss()
    losses, first = [], 0
    for size in run["sizes"]:
        batch = slice(first, first + size)
        first += size
        sgd.zero_grad()
        loss = criterion(net(images[batch].to(dtype)), labels[batch])
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    return losses


# ---- single layers --------------------------------------------------------------------------------------------------

# name, layer, shape of the input with its batch of 3. The place in the list is the case number.
LAYERS = [
    ("conv2d_k3_p1_s2", lambda: nn.Conv2d(3, 4, 3, padding=1, stride=2), (3, 3, 7, 6)),
    ("conv2d_k5_p2_s1", lambda: nn.Conv2d(3, 4, 5, padding=2, stride=1), (3, 3, 7, 6)),
    ("avg_pool2d_k2_s2", lambda: nn.AvgPool2d(2, 2), (3, 2, 5, 6)),
    ("max_pool2d_k2_s2", lambda: nn.MaxPool2d(2, 2), (3, 2, 5, 6)),
    ("max_pool2d_k3_s2", lambda: nn.MaxPool2d(3, 2), (3, 2, 7, 6)),
    ("sigmoid", nn.Sigmoid, (3, 8)),
    ("tanh", nn.Tanh, (3, 8)),
    ("relu", nn.ReLU, (3, 8)),
    ("linear", lambda: nn.Linear(7, 5), (3, 7)),
    ("cross_entropy", nn.CrossEntropyLoss, (3, 10)),
]
CROSS_ENTROPY_LABELS = [3, 0, 9]


def layer_values(case, make, shape):
    """Output and gradients of one layer in float64, as a dict of name to tensor."""
    layer = set_parameters(make()).double()
    x = hashed(100 + case, shape).double().requires_grad_()
    if isinstance(layer, nn.CrossEntropyLoss):
        y = layer(x, torch.tensor(CROSS_ENTROPY_LABELS))
        y.backward()
    else:
        y = layer(x)
        y.backward(hashed(200 + case, y.shape).double())
    values = {"y": y.detach(), "dx": x.grad}
    for name, parameter in layer.named_parameters():
        values["d" + name] = parameter.grad
    return values


# ---- updates --------------------------------------------------------------------------------------------------------

SGD_LR, SGD_UPDATES, SGD_LENGTH = 0.1, 5, 4
SGD_KINDS = [
    ("plain", dict(momentum=0.0, nesterov=False, weight_decay=0.0)),
    ("plain_wd", dict(momentum=0.0, nesterov=False, weight_decay=0.01)),
    ("momentum", dict(momentum=0.9, nesterov=False, weight_decay=0.0)),
    ("momentum_wd", dict(momentum=0.9, nesterov=False, weight_decay=0.01)),
    ("nesterov", dict(momentum=0.9, nesterov=True, weight_decay=0.0)),
    ("nesterov_wd", dict(momentum=0.9, nesterov=True, weight_decay=0.01)),
]


def sgd_values(options):
    """The vector after each of the updates, float64."""
    w = hashed(300, (SGD_LENGTH,)).double().requires_grad_()
    sgd = torch.optim.SGD([w], lr=SGD_LR, dampening=0.0, **options)
    after = []
    for update in range(SGD_UPDATES):
        w.grad = hashed(301 + update, (SGD_LENGTH,)).double()
        sgd.step()
        after.append(w.detach().clone())
    return torch.stack(after)


ADAM_KINDS = [
    ("adam", torch.optim.Adam, dict(weight_decay=0.0)),
    ("adam_wd", torch.optim.Adam, dict(weight_decay=0.1)),
    ("adamw", torch.optim.AdamW, dict(weight_decay=0.0)),
    ("adamw_wd", torch.optim.AdamW, dict(weight_decay=0.1)),
]
ADAM_RATES = dict(lr=0.05, betas=(0.8, 0.95), eps=1e-6)
MOST_NORM = 1.0


def adam_values(kind, options, clips):
    """The vector after each of the updates, and the norm of each gradient, float64."""
    w = hashed(300, (SGD_LENGTH,)).double().requires_grad_()
    optimizer = kind([w], **ADAM_RATES, **options)
    after, norms = [], []
    for update in range(SGD_UPDATES):
        w.grad = hashed(301 + update, (SGD_LENGTH,)).double()
        norms.append(w.grad.norm())
        if clips:
            torch.nn.utils.clip_grad_norm_([w], MOST_NORM)
        optimizer.step()
        after.append(w.detach().clone())
    return torch.stack(after), torch.stack(norms)


RMSPROP_RATES = dict(lr=0.05, alpha=0.9, eps=1e-6)
RMSPROP_KINDS = [
    ("plain", dict(momentum=0.0, weight_decay=0.0)),
    ("plain_wd", dict(momentum=0.0, weight_decay=0.1)),
    ("momentum", dict(momentum=0.8, weight_decay=0.0)),
    ("momentum_wd", dict(momentum=0.8, weight_decay=0.1)),
]
ADAGRAD_RATES = dict(lr=0.05, eps=1e-6)
ADAGRAD_KINDS = [
    ("plain", dict(lr_decay=0.0, initial_accumulator_value=0.0, weight_decay=0.0)),
    ("slower", dict(lr_decay=0.1, initial_accumulator_value=0.0, weight_decay=0.0)),
    ("begun", dict(lr_decay=0.0, initial_accumulator_value=0.2, weight_decay=0.0)),
    ("all", dict(lr_decay=0.1, initial_accumulator_value=0.2, weight_decay=0.1)),
]


def updated_values(kind, **options):
    """The vector after each of the updates, float64."""
    w = hashed(300, (SGD_LENGTH,)).double().requires_grad_()
    optimizer = kind([w], **options)
    after = []
    for update in range(SGD_UPDATES):
        w.grad = hashed(301 + update, (SGD_LENGTH,)).double()
        optimizer.step()
        after.append(w.detach().clone())
    return torch.stack(after).numpy()


# ---- files ----------------------------------------------------------------------------------------------------------

DTYPES = {"int64": "I64", "float64": "F64", "float32": "F32"}  # in the order of the format's reference implementation


def write(path, program, about, tensors):
    """A safetensors file. Equal tensors and metadata give equal bytes, those of trireme::write_safetensors."""
    metadata = {"about": about, "date": datetime.date.today().isoformat(), "program": f"tests/golden/{program}",
                "torch": torch.__version__}
    order = list(DTYPES)
    arrays = sorted(((name, np.asarray(values)) for name, values in tensors.items()),
                    key=lambda item: (order.index(item[1].dtype.name), item[0]))
    header, data = {"__metadata__": metadata}, b""
    for name, values in arrays:
        raw = values.astype(values.dtype.newbyteorder("<")).tobytes()
        header[name] = dict(dtype=DTYPES[values.dtype.name], shape=list(values.shape),
                            data_offsets=[len(data), len(data) + len(raw)])
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def run_values(run, loss64, loss32):
    """What both sides of a training run are told, and the losses."""
    names = {"learning_rate": "lr", "momentum": "momentum", "weight_decay": "weight_decay"}
    return {**{name: np.float64(run[key]) for name, key in names.items() if key in run},
            "batch_sizes": np.array(run["sizes"], np.int64),
            "loss_f64": np.array(loss64, np.float64), "loss_f32": np.array(loss32, np.float32)}


def write_run(path, run, loss64, loss32):
    act, pool = run["act"].__name__, run["pool"].__name__
    about = (
        f"LeNet with {act} and {pool}(2, 2): conv 6@5x5 pad 2, conv 16@5x5, linear 120, 84, 10. SGD, nesterov "
        f"{run['nesterov']}. Step k uses the next batch_sizes[k] Fashion-MNIST training images in file order; its loss "
        "is taken before its update. loss_f64: PyTorch in float64 from the float32 weights and pixels. loss_f32: "
        "PyTorch in float32.")
    write(path, "make_golden.py", about, run_values(run, loss64, loss32))


def write_layers(path):
    about = (
        "Single layers in float64, a batch of 3. The input x is hash tensor 100 + case_number, the gradient of the "
        "output y is hash tensor 200 + case_number, both with bound 1 (cross_entropy: y is the mean loss, its gradient "
        "is 1). Weight and bias are hash tensors 0 and 1 with a parameter's usual bounds. dx, dweight and dbias are "
        "gradients.")
    tensors = {"cross_entropy.labels": np.array(CROSS_ENTROPY_LABELS, np.int64)}
    for case, (name, make, shape) in enumerate(LAYERS):
        tensors[f"{name}.case_number"] = np.int64(case)
        for key, value in layer_values(case, make, shape).items():
            tensors[f"{name}.{key}"] = value.numpy()
    write(path, "make_golden.py", about, tensors)


def write_sgd(path):
    about = (
        f"torch.optim.SGD in float64 with dampening 0: {SGD_UPDATES} updates of {SGD_LENGTH} values for each kind. The "
        "start is hash tensor 300, the gradient of update k (from 0) is hash tensor 301 + k, all with bound 1. w holds "
        "the vector after each update, one row per update.")
    tensors = {"learning_rate": np.float64(SGD_LR)}
    for name, options in SGD_KINDS:
        for key in ("momentum", "weight_decay"):
            tensors[f"{name}.{key}"] = np.float64(options[key])
        tensors[f"{name}.w"] = sgd_values(options).numpy()
    write(path, "make_golden.py", about, tensors)


def write_adam(path):
    about = (
        f"torch.optim.Adam and AdamW in float64: {SGD_UPDATES} updates of {SGD_LENGTH} values for each kind, on the numbers "
        "of sgd. w holds the vector after each update, one row per update; clipped.w likewise, of adamw_wd with each gradient "
        "clipped to max_norm before, and clipped.norms the gradients' norms.")
    tensors = {"learning_rate": np.float64(ADAM_RATES["lr"]), "beta1": np.float64(ADAM_RATES["betas"][0]),
               "beta2": np.float64(ADAM_RATES["betas"][1]), "epsilon": np.float64(ADAM_RATES["eps"]),
               "max_norm": np.float64(MOST_NORM)}
    for name, kind, options in ADAM_KINDS:
        tensors[f"{name}.weight_decay"] = np.float64(options["weight_decay"])
        tensors[f"{name}.w"] = adam_values(kind, options, False)[0].numpy()
    after, norms = adam_values(*ADAM_KINDS[-1][1:], True)
    tensors |= {"clipped.w": after.numpy(), "clipped.norms": norms.numpy()}
    write(path, "make_golden.py", about, tensors)


def write_rmsprop(path):
    about = (
        f"torch.optim.RMSprop in float64: {SGD_UPDATES} updates of {SGD_LENGTH} values for each kind, on the numbers of sgd. "
        "w holds the vector after each update, one row per update; smoothing is alpha.")
    tensors = {"learning_rate": np.float64(RMSPROP_RATES["lr"]), "smoothing": np.float64(RMSPROP_RATES["alpha"]),
               "epsilon": np.float64(RMSPROP_RATES["eps"])}
    for name, options in RMSPROP_KINDS:
        tensors |= {f"{name}.{option}": np.float64(value) for option, value in options.items()}
        tensors[f"{name}.w"] = updated_values(torch.optim.RMSprop, **RMSPROP_RATES, **options)
    write(path, "make_golden.py", about, tensors)


def write_adagrad(path):
    about = (
        f"torch.optim.Adagrad in float64: {SGD_UPDATES} updates of {SGD_LENGTH} values for each kind, on the numbers of sgd. "
        "w holds the vector after each update, one row per update; rate_decay is lr_decay, initial_accumulator is "
        "initial_accumulator_value.")
    names = {"lr_decay": "rate_decay", "initial_accumulator_value": "initial_accumulator", "weight_decay": "weight_decay"}
    tensors = {"learning_rate": np.float64(ADAGRAD_RATES["lr"]), "epsilon": np.float64(ADAGRAD_RATES["eps"])}
    for name, options in ADAGRAD_KINDS:
        tensors |= {f"{name}.{names[option]}": np.float64(value) for option, value in options.items()}
        tensors[f"{name}.w"] = updated_values(torch.optim.Adagrad, **ADAGRAD_RATES, **options)
    write(path, "make_golden.py", about, tensors)


CLASS_WEIGHTS = [0.25, 1.0, 2.0, 0.0, 0.5, 1.5, 3.0, 0.75, 1.25, 0.1]
LABELS, IGNORED = [3, 0, 9, 6, 2, 6, 1], 255
LABELS_SOME_IGNORED = [3, 0, IGNORED, 6, IGNORED, 6, 1]
CROSS_ENTROPIES = {
    "plain": {}, "smooth": dict(label_smoothing=0.1), "weighted": dict(weight=torch.tensor(CLASS_WEIGHTS, dtype=torch.float64)),
    "ignoring": dict(ignore_index=IGNORED)}
CROSS_ENTROPIES |= {
    "smooth_weighted": CROSS_ENTROPIES["smooth"] | CROSS_ENTROPIES["weighted"],
    "smooth_ignoring": CROSS_ENTROPIES["smooth"] | CROSS_ENTROPIES["ignoring"],
    "weighted_ignoring": CROSS_ENTROPIES["weighted"] | CROSS_ENTROPIES["ignoring"]}
CROSS_ENTROPIES["all"] = CROSS_ENTROPIES["smooth_weighted"] | CROSS_ENTROPIES["ignoring"]


def write_losses(path):
    about = (
        f"Losses in float64, a batch of {len(LABELS)}: y is the loss, dx its gradient by the input x. CrossEntropyLoss on x of 10 "
        "classes, hash tensor 400 with bound 4, and the labels here; smooth has label_smoothing 0.1, weighted the class "
        "weights here, ignoring ignore_index 255 and the labels of which some are that. MSELoss and BCEWithLogitsLoss on x of "
        "shape 2 x 3, hash tensor 401 with bound 4, and targets that are hash tensor 402 with bound 1, of the second (t + 1) / 2.")
    tensors = {"labels": np.array(LABELS, np.int64), "labels_some_ignored": np.array(LABELS_SOME_IGNORED, np.int64),
               "class_weights": np.array(CLASS_WEIGHTS, np.float64)}
    def add(name, loss, x, targets):
        x = x.double().requires_grad_()
        y = loss(x, targets)
        y.backward()
        tensors[f"{name}.y"], tensors[f"{name}.dx"] = y.detach().numpy(), x.grad.numpy()
    for name, options in CROSS_ENTROPIES.items():
        labels = LABELS_SOME_IGNORED if "ignore_index" in options else LABELS
        add(name, nn.CrossEntropyLoss(**options), hashed(400, (len(LABELS), 10), 4.0), torch.tensor(labels))
    shape = (len(LABELS), 2, 3)
    x, targets = hashed(401, shape, 4.0), hashed(402, shape).double()
    add("squared", nn.MSELoss(), x, targets)
    add("logistic", nn.BCEWithLogitsLoss(), x, (targets + 1) / 2)
    write(path, "make_golden.py", about, tensors)


def write_rates(path):
    about = ("torch.optim.lr_scheduler for a learning rate of 1: step has StepLR(3, 0.5), cosine CosineAnnealingLR(10, 0.1), "
             "one_cycle OneCycleLR(1, total_steps=12), the others' steps too.")
    def rates(make, steps=12):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        schedule, found = make(optimizer), []
        for step in range(steps):
            found.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            if step + 1 < steps:
                schedule.step()
        return np.array(found, np.float64)
    schedules = torch.optim.lr_scheduler
    write(path, "make_golden.py", about, {
        "step": rates(lambda o: schedules.StepLR(o, 3, 0.5)),
        "cosine": rates(lambda o: schedules.CosineAnnealingLR(o, 10, 0.1), 11),
        "one_cycle": rates(lambda o: schedules.OneCycleLR(o, 1.0, total_steps=12, cycle_momentum=False))})


# name, network, and of the hash tensor that is its input: number, bound, and shape with its 12 samples.
PREDICTIONS = [
    ("lenet", lambda: lenet(nn.Tanh, nn.MaxPool2d), 450, 1.0, (12, 1, IMAGE_SIDE, IMAGE_SIDE)),
    ("residual", lambda: nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), Residual(4, 4), Residual(4, 8, 2), nn.Flatten(),
        nn.Linear(8 * 4 * 4, 10)), 451, 4.0, (12, 1, 8, 8)),
]


def write_predictions(path):
    about = (
        "What two networks predict for 12 samples, in float64 from float32 weights: y are the outputs, classes the index of "
        "each sample's largest one, probabilities the softmax of y. lenet has Tanh and MaxPool2d(2, 2); residual is conv 4@3x3 "
        "pad 1, batch norm, relu, two residuals of widths 4 and 8, of which the second halves the image, and linear 10; its "
        "batch norms are in evaluation mode, with running statistics that are hash tensors from 500 on, bound 0.5. The inputs "
        "are hash tensor input_number with bound input_bound, of shape 12 x 1 x 28 x 28 and 12 x 1 x 8 x 8.")
    tensors = {}
    for name, make, number, bound, shape in PREDICTIONS:
        net = set_statistics(set_parameters(make())).double().eval()
        with torch.no_grad():
            y = net(hashed(number, shape, bound).double())
        tensors |= {f"{name}.input_number": np.int64(number), f"{name}.input_bound": np.float64(bound), f"{name}.y": y.numpy(),
                    f"{name}.classes": y.argmax(1).numpy(), f"{name}.probabilities": y.softmax(1).numpy()}
        first, second = y.topk(2).values.T
        print(f"predictions, {name}: classes {sorted(set(y.argmax(1).tolist()))}, the two best at least "
              f"{(first - second).min():.1e} apart")
    write(path, "make_golden.py", about, tensors)


def main():
    parser = argparse.ArgumentParser(description="Makes the golden values of the C++ tests.")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent)
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    write_layers(options.out / "layers.safetensors")
    write_sgd(options.out / "sgd.safetensors")
    write_adam(options.out / "adam.safetensors")
    write_rmsprop(options.out / "rmsprop.safetensors")
    write_adagrad(options.out / "adagrad.safetensors")
    write_losses(options.out / "losses.safetensors")
    write_rates(options.out / "rates.safetensors")
    write_predictions(options.out / "predictions.safetensors")
    data = load_fashion_mnist(options.data)
    for name, run in RUNS.items():
        loss64, loss32 = train(run, data, torch.float64), train(run, data, torch.float32)
        write_run(options.out / f"{name}.safetensors", run, loss64, loss32)
        apart = [abs(b - a) / abs(a) for a, b in zip(loss64, loss32)]
        worst = max(range(len(apart)), key=apart.__getitem__)
        print(f"{name}: loss {loss64[0]:.6f} -> {loss64[-1]:.6f}, least {min(loss64):.6f}; "
              f"float32 off by at most {apart[worst]:.2e} relative (step {worst}), {apart[-1]:.2e} at the last step")


if __name__ == "__main__":
    main()
