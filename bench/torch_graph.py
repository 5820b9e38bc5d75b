# SPDX-License-Identifier: Apache-2.0
"""Runs an ONNX graph node by node in PyTorch, with floats of any type. bench/gpu_right.py runs the bench models this
way in float64 on a GPU, to check Weft's answers for large batches.

    graph = Graph(path, torch.float64, "cuda")
    outputs = graph.run({"image": array})           # name -> numpy array

Supports only the operators of bench/models; another one is an error.
"""

import numpy as np
import onnx
import torch
from onnx import numpy_helper

# ONNX's number of an element type -> torch's type; None: the float type of the run.
TYPES = {1: None, 6: torch.int32, 7: torch.int64, 9: torch.bool, 10: None, 11: None}
LIMITS = {np.dtype("uint8"): (0, 255), np.dtype("int8"): (-128, 127)}


def numbers(x):
    return [int(value) for value in x.flatten().tolist()]


def spread(x, axis, rank):
    """Returns a vector along an axis, reshaped to broadcast against a tensor of this rank."""
    return x if x.numel() == 1 else x.reshape([-1 if at == axis % rank else 1 for at in range(rank)])


def padded(x, pads, value):
    half = len(pads) // 2
    pairs = [side for at in reversed(range(half)) for side in (pads[at], pads[half + at])]
    return torch.nn.functional.pad(x, pairs, value=value)


def conv(x, w, b=None, *, kernel_shape=None, strides=(1, 1), dilations=(1, 1), group=1, pads=(0, 0, 0, 0), auto_pad=None):
    rank = w.dim() - 2
    run = {1: torch.nn.functional.conv1d, 2: torch.nn.functional.conv2d}[rank]
    strides, dilations, pads = strides[:rank], dilations[:rank], pads[: 2 * rank]
    return run(padded(x, list(pads), 0.0), w, b, list(strides), 0, list(dilations), group)


def max_pool(x, *, kernel_shape, strides, pads=(0, 0, 0, 0), ceil_mode=0, dilations=(1, 1), auto_pad=None, storage_order=0):
    return torch.nn.functional.max_pool2d(padded(x, list(pads), -float("inf")), kernel_shape, strides, 0, dilations)


def gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    y = alpha * ((a.T if transA else a) @ (b.T if transB else b))
    return y if c is None else y + beta * c


def sliced(x, starts, ends, axes=None, steps=None):
    axes = numbers(axes) if axes is not None else list(range(starts.numel()))
    steps = numbers(steps) if steps is not None else [1] * len(axes)
    for start, end, axis, step in zip(numbers(starts), numbers(ends), axes, steps, strict=True):
        size = x.shape[axis]
        first, last, step = slice(start, end, step).indices(size)
        x = x.index_select(axis, torch.arange(first, last, step, device=x.device))
    return x


def gathered(x, at, *, axis=0):
    index = torch.where(at < 0, at + x.shape[axis], at)
    y = x.index_select(axis, index.flatten())
    return y.reshape([*x.shape[: axis % x.dim()], *index.shape, *x.shape[axis % x.dim() + 1 :]])


def gathered_nd(x, at, *, batch_dims=0):
    if batch_dims:
        return torch.stack([gathered_nd(a, i, batch_dims=batch_dims - 1) for a, i in zip(x, at, strict=True)])
    return x[tuple(at.unbind(-1))]


def reshaped(x, dims, *, allowzero=0):
    wanted = [x.shape[at] if size == 0 and not allowzero else size for at, size in enumerate(numbers(dims))]
    return x.reshape(wanted)


def split(x, sizes=None, *, axis=0, num_outputs=None):
    if sizes is None:
        return torch.split(x, -(-x.shape[axis] // num_outputs), axis)
    return torch.split(x, numbers(sizes), axis)


def reduced(run):
    def reduce(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
        return run(x, numbers(axes) if axes is not None else list(range(x.dim())), bool(keepdims))

    return reduce


def resized(x, roi=None, scales=None, sizes=None, *, mode, nearest_mode="round_prefer_floor", **ignored):
    if mode != "nearest" or nearest_mode != "floor":
        raise NotImplementedError(f"Resize {mode} {nearest_mode}")
    wanted = numbers(sizes)[2:] if sizes is not None else None
    factors = None if wanted else scales.flatten().tolist()[2:]
    return torch.nn.functional.interpolate(x, size=wanted, scale_factor=factors, mode="nearest")


def cumulative(x, axis, *, exclusive=0, reverse=0):
    if exclusive or reverse:
        raise NotImplementedError("CumSum exclusive or reverse")
    return torch.cumsum(x, int(axis))


def squeezed(x, axes=None):
    if axes is None:
        return x.squeeze()
    for axis in sorted((a % x.dim() for a in numbers(axes)), reverse=True):
        x = x.squeeze(axis)
    return x


def unsqueezed(x, axes):
    rank = x.dim() + axes.numel()
    for axis in sorted(a % rank for a in numbers(axes)):
        x = x.unsqueeze(axis)
    return x


SIMPLE = {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Pow": torch.pow, "Max": torch.maximum, "And": torch.logical_and,
    "Not": torch.logical_not, "Equal": torch.eq, "LessOrEqual": torch.le, "GreaterOrEqual": torch.ge, "Where": torch.where,
    "IsNaN": torch.isnan, "Erf": torch.erf, "Tanh": torch.tanh, "Sqrt": torch.sqrt, "Reciprocal": torch.reciprocal,
    "Relu": torch.relu, "Sigmoid": torch.sigmoid, "Cos": torch.cos, "Sin": torch.sin, "MatMul": torch.matmul,
    "HardSwish": torch.nn.functional.hardswish, "Conv": conv, "MaxPool": max_pool, "Gemm": gemm, "Slice": sliced,
    "Gather": gathered, "GatherND": gathered_nd, "Reshape": reshaped, "Split": split, "Resize": resized,
    "CumSum": cumulative, "Squeeze": squeezed, "Unsqueeze": unsqueezed, "ReduceMean": reduced(torch.mean),
    "ReduceSum": reduced(torch.sum),
    "Div": lambda a, b: a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc"),
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: torch.clamp(alpha * x + beta, 0, 1),
    "Transpose": lambda x, perm: x.permute(perm),
    "Concat": lambda *x, axis: torch.cat(x, axis),
    "Softmax": lambda x, axis=-1: torch.softmax(x, axis),
    "Expand": lambda x, dims: x.expand(torch.broadcast_shapes(x.shape, tuple(numbers(dims)))),
    "LayerNormalization": lambda x, scale, bias=None, axis=-1, epsilon=1e-5, stash_type=1: torch.nn.functional.layer_norm(
        x, x.shape[axis:], scale, bias, epsilon),
}


class Graph:
    def __init__(self, path, floats, device):
        model = onnx.load(path)
        self.graph, self.floats, self.device = model.graph, floats, device
        self.weights = {w.name: self.tensor(numpy_helper.to_array(w)) for w in model.graph.initializer}
        self.outputs = [value.name for value in model.graph.output]

    def tensor(self, array):
        """Returns the array on the device; floats get the type of this run."""
        x = torch.from_numpy(np.array(array)).to(self.device)
        return x.to(self.floats) if x.is_floating_point() else x

    def quantized(self, x, scale, zero=None, *, axis=1, **ignored):
        low, high = (-128, 127) if zero is not None and zero.dtype == torch.int8 else (0, 255)
        shift = 0 if zero is None else spread(zero.to(self.floats), axis, x.dim())
        steps = torch.round(x / spread(scale, axis, x.dim())) + shift
        return steps.clamp(low, high).to(torch.int8 if low else torch.uint8)

    def dequantized(self, x, scale, zero=None, *, axis=1, **ignored):
        shift = 0 if zero is None else spread(zero.to(self.floats), axis, x.dim())
        return (x.to(self.floats) - shift) * spread(scale, axis, x.dim())

    def cast(self, x, *, to, **ignored):
        return x.to(TYPES[to] or self.floats)

    def run_node(self, node, inputs):
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        attributes = {k: v.decode() if isinstance(v, bytes) else v for k, v in attributes.items()}
        op = node.op_type
        if op == "Shape":
            size = torch.tensor(inputs[0].shape, device=self.device)
            return size[slice(attributes.get("start", 0), attributes.get("end"))]
        if op == "Range":
            return torch.arange(*(x.item() for x in inputs), device=self.device, dtype=inputs[0].dtype)
        own = {"QuantizeLinear": self.quantized, "DequantizeLinear": self.dequantized, "Cast": self.cast}
        if op not in own and op not in SIMPLE:
            raise NotImplementedError(op)
        return (own.get(op) or SIMPLE[op])(*inputs, **attributes)

    @torch.no_grad()
    def run(self, feeds):
        values = dict(self.weights) | {name: self.tensor(array) for name, array in feeds.items()} | {"": None}
        for node in self.graph.node:
            results = self.run_node(node, [values[name] for name in node.input])
            results = results if isinstance(results, tuple | list) else [results]
            values.update(zip(node.output, results))
        return {name: values[name].cpu().numpy() for name in self.outputs}
