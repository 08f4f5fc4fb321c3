"""Writes test/golden/optimizers.txt: weights after each of five steps, by implementations other than muster's.

    python3 test/golden/optimizers.py > test/golden/optimizers.txt        (PyTorch 1.13 and numpy)

sgd ... adamw come from torch.optim in float32; lars and lamb, which PyTorch lacks, from their papers' equations in float64
numpy below. Each case has one parameter of 7 elements with weight decay and layer-wise scaling, and one of 3 elements
without. A line is a word and its numbers: `case` kind key=value ..., `start` weights, then per step `grads` and `weights`.
"""

import numpy
import torch

SIZES = (7, 3)
STEPS = 5

CASES = [
    ("sgd", dict(lr=0.1)),
    ("sgd", dict(lr=0.1, weight_decay=0.05)),
    ("momentum", dict(lr=0.1, momentum=0.9)),
    ("momentum", dict(lr=0.05, momentum=0.5, weight_decay=0.1)),
    ("nesterov", dict(lr=0.1, momentum=0.9)),
    ("nesterov", dict(lr=0.05, momentum=0.8, weight_decay=0.1)),
    ("rmsprop", dict(lr=0.01)),
    ("rmsprop", dict(lr=0.02, decay_rate=0.9, epsilon=1e-3, weight_decay=0.1)),
    ("adam", dict(lr=0.001)),
    ("adam", dict(lr=0.02, beta1=0.8, beta2=0.95, epsilon=1e-3, weight_decay=0.1)),
    ("adamw", dict(lr=0.001, weight_decay=0.01)),
    ("adamw", dict(lr=0.02, beta1=0.8, beta2=0.95, epsilon=1e-3, weight_decay=0.3)),
    ("lars", dict(lr=1.0, momentum=0.9, trust_coefficient=0.001)),
    ("lars", dict(lr=0.5, momentum=0.6, trust_coefficient=0.02, weight_decay=0.1)),
    ("lamb", dict(lr=0.01)),
    ("lamb", dict(lr=0.02, beta1=0.8, beta2=0.95, epsilon=1e-3, weight_decay=0.1)),
]


def torch_optimizer(kind, options, params):
    groups = [dict(params=[params[0]], weight_decay=options.get("weight_decay", 0.0)), dict(params=[params[1]], weight_decay=0.0)]
    lr = options["lr"]
    if kind in ("sgd", "momentum", "nesterov"):
        return torch.optim.SGD(groups, lr=lr, momentum=options.get("momentum", 0.0), nesterov=kind == "nesterov")
    if kind == "rmsprop":
        return torch.optim.RMSprop(groups, lr=lr, alpha=options.get("decay_rate", 0.99), eps=options.get("epsilon", 1e-8))
    make = torch.optim.Adam if kind == "adam" else torch.optim.AdamW
    betas = (options.get("beta1", 0.9), options.get("beta2", 0.999))
    return make(groups, lr=lr, betas=betas, eps=options.get("epsilon", 1e-8))


def by_torch(kind, options, start, grads):
    params = [torch.nn.Parameter(torch.tensor(part, dtype=torch.float32)) for part in start]
    optimizer = torch_optimizer(kind, options, params)
    for step in grads:
        for param, grad in zip(params, step):
            param.grad = torch.tensor(grad, dtype=torch.float32)
        optimizer.step()
        yield [param.detach().numpy().copy() for param in params]


def norm(x):
    return numpy.sqrt(numpy.sum(x * x))


def lars_step(w, g, state, t, o, is_scaled):
    decay = o.get("weight_decay", 0.0) if is_scaled else 0.0
    local = 1.0
    if is_scaled and norm(w) > 0 and norm(g) > 0:
        local = o["trust_coefficient"] * norm(w) / (norm(g) + decay * norm(w))
    state["v"] = o["momentum"] * state.get("v", 0.0) + o["lr"] * local * (g + decay * w)
    return w - state["v"]


def lamb_step(w, g, state, t, o, is_scaled):
    beta1, beta2 = o.get("beta1", 0.9), o.get("beta2", 0.999)
    state["m"] = beta1 * state.get("m", 0.0) + (1 - beta1) * g
    state["v"] = beta2 * state.get("v", 0.0) + (1 - beta2) * g**2
    r = state["m"] / (1 - beta1**t) / (numpy.sqrt(state["v"] / (1 - beta2**t)) + o.get("epsilon", 1e-8))
    if is_scaled:
        r = r + o.get("weight_decay", 0.0) * w
    ratio = norm(w) / norm(r) if is_scaled and norm(w) > 0 and norm(r) > 0 else 1.0
    return w - o["lr"] * ratio * r


def by_numpy(step_function, options, start, grads):
    weights, states = [part.astype(numpy.float64) for part in start], [{} for _ in start]
    for t, step in enumerate(grads, 1):
        for p, grad in enumerate(step):
            weights[p] = step_function(weights[p], grad.astype(numpy.float64), states[p], t, options, p == 0)
        yield [w.astype(numpy.float32) for w in weights]


def line(word, parts):
    print(word, " ".join(format(float(x), ".9g") for part in parts for x in part))


def main():
    random = numpy.random.default_rng(1234)
    for kind, options in CASES:
        draw = lambda: [random.normal(size=n).astype(numpy.float32) for n in SIZES]
        start, grads = draw(), [draw() for _ in range(STEPS)]
        own = {"lars": lars_step, "lamb": lamb_step}.get(kind)
        results = by_numpy(own, options, start, grads) if own else by_torch(kind, options, start, grads)
        print("case", kind, " ".join(f"{key}={value!r}" for key, value in options.items()))
        line("start", start)
        for grad, weights in zip(grads, results):
            line("grads", grad)
            line("weights", weights)


main()
