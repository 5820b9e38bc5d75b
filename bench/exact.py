# SPDX-License-Identifier: Apache-2.0
"""Answers in double precision, to measure the errors of engines that compute in single precision.

`run(path, feeds)` evaluates an ONNX file with onnx's own reference evaluator, with 64-bit floats in place of 32-bit
ones. The evaluator's convolutions, poolings and resizings are slow loops over single elements. Those that the
benchmark's models need are reimplemented here with numpy; so is quantisation, with 64-bit scales."""

import itertools

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun


def windows(x, kernel, strides, dilations, pads, fill):
    """Yields (position in the kernel, the elements of x at that position of every window); x is [batch, channel,
    ...]."""
    rank = len(kernel)
    around = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:])]
    x = np.pad(x, around, constant_values=fill)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    sizes = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, strides)]
    for place in itertools.product(*map(range, kernel)):
        cut = [slice(p * d, p * d + (n - 1) * s + 1, s) for p, d, n, s in zip(place, dilations, sizes, strides)]
        yield place, x[(..., *cut)]


def explicit(pads, auto_pad, rank):
    if auto_pad not in (None, "NOTSET"):
        raise NotImplementedError(f"auto_pad {auto_pad}")
    return pads or [0] * 2 * rank


class Conv(OpRun):
    op_domain = ""

    def _run(self, x, w, bias=None, auto_pad=None, dilations=None, group=1, kernel_shape=None, pads=None, strides=None):
        rank = x.ndim - 2
        batch, channels = x.shape[0], w.shape[0]
        pads, ones = explicit(pads, auto_pad, rank), [1] * rank
        weight = w.reshape(group, channels // group, w.shape[1], *w.shape[2:])
        out = 0
        for place, part in windows(x, w.shape[2:], strides or ones, dilations or ones, pads, 0):
            columns = part.reshape(batch, group, w.shape[1], -1)
            out = out + weight[(slice(None), slice(None), slice(None), *place)] @ columns
        out = out.reshape(batch, channels, *part.shape[2:])
        return (out if bias is None else out + bias.reshape(-1, *ones),)


class MaxPool(OpRun):
    op_domain = ""

    def _run(
        self, x, auto_pad=None, ceil_mode=0, dilations=None, kernel_shape=None, pads=None, storage_order=0, strides=None
    ):
        if ceil_mode:
            raise NotImplementedError("ceil_mode")
        rank = len(kernel_shape)
        ones, pads = [1] * rank, explicit(pads, auto_pad, rank)
        parts = windows(x, kernel_shape, strides or ones, dilations or ones, pads, -np.inf)
        out = None
        for _, part in parts:
            out = part.copy() if out is None else np.maximum(out, part, out=out)
        return (out,)


class Resize(OpRun):
    op_domain = ""

    def _run(self, x, roi=None, scales=None, sizes=None, mode=None, **_):
        if mode != "nearest" or scales is None or not np.array_equal(scales, np.rint(scales)):
            raise NotImplementedError("only nearest by whole factors")
        for axis, factor in enumerate(scales):
            x = np.repeat(x, int(factor), axis)
        return (x,)


def along(scale, axis, rank):
    """Returns `scale`, one number or a vector along `axis`, reshaped to broadcast against a tensor of this rank."""
    return scale if scale.ndim == 0 else scale.reshape([-1 if at == axis % rank else 1 for at in range(rank)])


def only_per_axis(attributes):
    if any(attributes.get(name) for name in ("block_size", "output_dtype")):
        raise NotImplementedError(f"quantising with {attributes}")


class QuantizeLinear(OpRun):
    op_domain = ""

    def _run(self, x, scale, zero=np.uint8(0), axis=1, **attributes):
        only_per_axis(attributes)
        zero = np.asarray(zero)
        limits = np.iinfo(zero.dtype)
        steps = np.rint(x / along(scale, axis, x.ndim)) + along(zero, axis, x.ndim).astype(np.float64)
        return (np.clip(steps, limits.min, limits.max).astype(zero.dtype),)


class DequantizeLinear(OpRun):
    op_domain = ""

    def _run(self, x, scale, zero=np.int32(0), axis=1, **attributes):
        only_per_axis(attributes)
        steps = x.astype(np.float64) - along(np.asarray(zero), axis, x.ndim)
        return (steps * along(scale, axis, x.ndim),)


OURS = [Conv, MaxPool, Resize, QuantizeLinear, DequantizeLinear]


def doubled(tensor):
    if tensor.data_type != TensorProto.FLOAT:
        return tensor
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name)


def double_attribute(node, attribute):
    if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
        attribute.i = TensorProto.DOUBLE
    if attribute.HasField("t"):
        attribute.t.CopyFrom(doubled(attribute.t))
    if attribute.name in ("value_float", "value_floats"):
        values = attribute.f if attribute.name == "value_float" else list(attribute.floats)
        attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(np.array(values, np.float64))))
    if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
        raise NotImplementedError(f"{node.op_type}: a graph inside a node")


def as_double(model):
    """Returns the model with 64-bit floats in place of 32-bit ones, including the scales of Resize and of
    quantisation."""
    graph = model.graph
    weights = [doubled(weight) for weight in graph.initializer]
    del graph.initializer[:]
    graph.initializer.extend(weights)
    for node in graph.node:
        for attribute in node.attribute:
            double_attribute(node, attribute)
    for value in [*graph.input, *graph.output]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    return model


def run(path, feeds):
    """Runs the model in 64-bit floats; returns {output name: array}."""
    model = as_double(onnx.load(path))
    evaluator = ReferenceEvaluator(model, new_ops=OURS)
    feeds = {name: value.astype(np.float64) if value.dtype == np.float32 else value for name, value in feeds.items()}
    return dict(zip((output.name for output in model.graph.output), evaluator.run(None, feeds)))
