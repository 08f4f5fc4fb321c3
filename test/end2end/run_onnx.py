#!/usr/bin/python3
"""Runs an ONNX model in numpy, as the specification of the operators says: for tests, which must not depend on muster's own
idea of them. Where onnx and onnxruntime are installed, the model is also checked and run by these.

usage: run_onnx.py MODEL INPUT.npy PREDICTIONS.csv [--softmax | --raw]
PREDICTIONS: what `muster predict` printed for the input. Ends with code 1 where they differ by more than 1e-5.
"""
import csv
import math
import struct
import sys

import numpy as np


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value - (1 << 64) if value >= 1 << 63 else value), at


def message(data):
    """{field: [values]}: integers, floats, or bytes."""
    fields, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        elif kind == 5:
            value, at = struct.unpack_from('<f', data, at)[0], at + 4
        else:
            raise ValueError(f'kind {kind}')
        fields.setdefault(key >> 3, []).append(value)
    return fields


def text(values):
    return [v.decode() for v in values]


def tensor(data):
    fields = message(data)
    kind = {1: np.float32, 7: np.int64}[fields[2][0]]
    return fields[8][0].decode(), np.frombuffer(fields[9][0], kind).reshape(fields.get(1, []))


def attribute(data):
    fields = message(data)
    kind = fields[20][0]
    return fields[1][0].decode(), {1: lambda: fields[2][0], 2: lambda: fields[3][0], 7: lambda: fields[8]}[kind]()


def windows(x, kernel, strides, dilations, pads, fill):
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=fill)
    extent = [(x.shape[2 + d] - dilations[d] * (kernel[d] - 1) - 1) // strides[d] + 1 for d in (0, 1)]
    return np.stack([x[:, :, a * dilations[0]:a * dilations[0] + strides[0] * (extent[0] - 1) + 1:strides[0],
                       b * dilations[1]:b * dilations[1] + strides[1] * (extent[1] - 1) + 1:strides[1]]
                     for a in range(kernel[0]) for b in range(kernel[1])], axis=-1)


def conv(a, x, w, b=None):
    kernel, group = a['kernel_shape'], a['group']
    taps = windows(x, kernel, a['strides'], a['dilations'], a['pads'], 0)
    n, c, h, wd, k = taps.shape
    taps = taps.reshape(n, group, c // group, h, wd, k)
    weight = w.reshape(group, w.shape[0] // group, w.shape[1], k)
    y = np.einsum('ngchwk,gfck->ngfhw', taps, weight).reshape(n, w.shape[0], h, wd)
    return y if b is None else y + b[:, None, None]


def pool(a, x, kind):
    taps = windows(x, a['kernel_shape'], a['strides'], [1, 1], a['pads'], np.nan)
    return np.nanmax(taps, -1) if kind == 'max' else np.nanmean(taps, -1)


def normalised(x, axis, epsilon, gamma, beta):
    axes = tuple(range(axis % x.ndim, x.ndim))
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred ** 2).mean(axes, keepdims=True) + epsilon) * gamma + beta


def batch_norm(a, x, gamma, beta, mean, var):
    shape = (-1,) + (1,) * (x.ndim - 2)
    scale = gamma / np.sqrt(var + a['epsilon'])
    return (x - mean.reshape(shape)) * scale.reshape(shape) + beta.reshape(shape)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


OPS = {
    'Identity': lambda a, x: x,
    'Relu': lambda a, x: np.maximum(x, 0),
    'LeakyRelu': lambda a, x: np.where(x >= 0, x, a['alpha'] * x),
    'Sigmoid': lambda a, x: 1 / (1 + np.exp(-x)),
    'Tanh': lambda a, x: np.tanh(x),
    'Erf': lambda a, x: np.vectorize(math.erf)(x),
    'Sqrt': lambda a, x: np.sqrt(x),
    'Add': lambda a, x, y: x + y,
    'Sub': lambda a, x, y: x - y,
    'Mul': lambda a, x, y: x * y,
    'Div': lambda a, x, y: x / y,
    'MatMul': lambda a, x, y: x @ y,
    'Gemm': lambda a, x, w, b=0: x @ (w.T if a.get('transB') else w) + b,
    'Conv': conv,
    'MaxPool': lambda a, x: pool(a, x, 'max'),
    'AveragePool': lambda a, x: pool(a, x, 'average'),
    'GlobalMaxPool': lambda a, x: x.max((2, 3), keepdims=True),
    'GlobalAveragePool': lambda a, x: x.mean((2, 3), keepdims=True),
    'BatchNormalization': batch_norm,
    'LayerNormalization': lambda a, x, g, b: normalised(x, a['axis'], a['epsilon'], g, b),
    'ReduceMean': lambda a, x: x.mean(tuple(a['axes']), keepdims=True),
    'Softmax': lambda a, x: softmax(x, a['axis']),
    'Flatten': lambda a, x: x.reshape(x.shape[0], -1),
    'Reshape': lambda a, x, shape: x.reshape([x.shape[i] if d == 0 else d for i, d in enumerate(shape)]),
    'Transpose': lambda a, x: x.transpose(a['perm']),
    'Concat': lambda a, *x: np.concatenate(x, a['axis']),
    'Split': lambda a, x, parts: np.split(x, np.cumsum(parts)[:-1], a['axis']),
    'Gather': lambda a, table, ids: table[ids],
}


def run(path, given):
    model = message(open(path, 'rb').read())
    assert model[1] == [8] and message(model[8][0])[2] == [17], 'IR version and opset'
    graph = message(model[7][0])
    values = {name: array.astype(np.float64) if array.dtype == np.float32 else array
              for name, array in map(tensor, graph[5])}
    values['input'] = given
    for node in map(message, graph[1]):
        inputs = [values[name] for name in text(node[1])]
        result = OPS[node[4][0].decode()](dict(map(attribute, node.get(5, []))), *inputs)
        for name, value in zip(text(node[2]), result if len(node[2]) > 1 else [result]):
            assert name not in values, f'{name} is written twice'
            values[name] = value
    return values['output']


def main():
    path, given, predictions, mode = sys.argv[1:]
    given = np.load(given)
    finish = softmax if mode == '--softmax' else (lambda x: x)
    rows = [row for row in csv.reader(open(predictions))]

    def differs(name, output):
        output = finish(np.asarray(output, dtype=np.float64).reshape(-1, output.shape[-1]))
        expected = np.array([[float(v) for v in row[-output.shape[1]:]] for row in rows])
        worst = np.max(np.abs(output - expected) / (1 + np.abs(expected)))
        print(f'{name}: {output.shape}, largest difference {worst:.1e}')
        return output.shape != expected.shape or not worst < 1e-5

    tokens = given.dtype.kind == 'i'
    bad = differs('numpy', run(path, given.astype(np.int64 if tokens else np.float64)))
    try:
        import onnx
        import onnxruntime
    except ImportError:
        print('onnxruntime is not installed')
        sys.exit(bad)
    onnx.checker.check_model(path, full_check=True)
    session = onnxruntime.InferenceSession(path, providers=['CPUExecutionProvider'])
    output = session.run(None, {'input': given.astype(np.int64 if tokens else np.float32)})[0]
    sys.exit(bad or differs('onnxruntime', output))


main()
