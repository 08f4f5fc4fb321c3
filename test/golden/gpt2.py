#!/usr/bin/env python3
# Writes gpt2.safetensors: a tiny GPT-2 (weights under the names of Hugging Face), two samples, and what PyTorch's own
# autograd says of logits, loss and every gradient, in double precision. Written from the paper's equations, with no
# library of models.   python3 test/golden/gpt2.py test/golden/gpt2.safetensors
import json
import math
import struct
import sys

import torch

V, T, C, H, L, B = 13, 5, 8, 2, 2, 2
torch.manual_seed(3)
weights = {}


def new(name, *shape, scale=0.4, mean=0.0):
    weights[name] = (mean + scale * torch.randn(*shape)).float().double().requires_grad_()


new("wte.weight", V, C)
new("wpe.weight", T, C)
for i in range(L):
    for norm in ("ln_1", "ln_2"):
        new(f"h.{i}.{norm}.weight", C, mean=1.0, scale=0.2)
        new(f"h.{i}.{norm}.bias", C, scale=0.2)
    for name, n_in, n_out in (("attn.c_attn", C, 3 * C), ("attn.c_proj", C, C), ("mlp.c_fc", C, 4 * C), ("mlp.c_proj", 4 * C, C)):
        new(f"h.{i}.{name}.weight", n_in, n_out)
        new(f"h.{i}.{name}.bias", n_out, scale=0.2)
new("ln_f.weight", C, mean=1.0, scale=0.2)
new("ln_f.bias", C, scale=0.2)


def norm(x, name):
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5) * weights[name + ".weight"] + weights[name + ".bias"]


def linear(x, name):  # Conv1D: [in, out]
    return x @ weights[name + ".weight"] + weights[name + ".bias"]


def attention(x, name):
    q, k, v = linear(x, name + ".c_attn").split(C, dim=-1)
    out = []
    for h in range(H):
        part = slice(h * C // H, (h + 1) * C // H)
        scores = q[..., part] @ k[..., part].transpose(1, 2) / math.sqrt(C // H)
        scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), -math.inf)
        out.append(torch.softmax(scores, -1) @ v[..., part])
    return linear(torch.cat(out, -1), name + ".c_proj")


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


tokens = torch.randint(V, (B, T + 1))
x = weights["wte.weight"][tokens[:, :-1]] + weights["wpe.weight"]
for i in range(L):
    x = x + attention(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn")
    x = x + linear(gelu(linear(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")), f"h.{i}.mlp.c_proj")
logits = norm(x, "ln_f") @ weights["wte.weight"].T
log_p = logits - torch.logsumexp(logits, -1, keepdim=True)
loss = -log_p.gather(-1, tokens[:, 1:, None]).mean()
loss.backward()

tensors = {name: w.detach() for name, w in weights.items()}
tensors |= {"golden.grad." + name: w.grad for name, w in weights.items()}
tensors |= {"golden.tokens": tokens, "golden.logits": logits.detach(), "golden.loss": loss.detach().reshape(1)}
header, blob = {}, b""
for name in sorted(tensors):
    data = tensors[name].float().contiguous().flatten().tolist()
    raw = struct.pack(f"<{len(data)}f", *data)
    header[name] = {"dtype": "F32", "shape": list(tensors[name].shape), "data_offsets": [len(blob), len(blob) + len(raw)]}
    blob += raw
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + blob)
