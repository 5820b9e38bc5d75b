# SPDX-License-Identifier: Apache-2.0
"""Runs a model with Weft in one of three ways and compares its answers with those of onnxruntime's own CPU provider."""
import collections

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

import places  # noqa: F401
import weft

NAME = "WeftExecutionProvider"
WITHIN = 1e-3  # relative to the largest number of an output, in f32; as in ONNX's own tests


def options(**settings):
    made = ort.SessionOptions()
    made.intra_op_num_threads, made.log_severity_level = 1, 3
    for key, value in settings.items():
        made.add_session_config_entry(key, value)
    return made


def rounded(array):
    """Rounds to the 8 significant bits of bf16, ties to even."""
    bits = array.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def with_rounded_weights(model):
    proto = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    graphs = [proto.graph]
    for graph in graphs:
        tensors = list(graph.initializer)
        for node in graph.node:
            tensors += [a.t for a in node.attribute if node.op_type == "Constant" and a.name == "value"]
            graphs += [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
        for tensor in tensors:
            if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) > 1:
                tensor.CopyFrom(numpy_helper.from_array(rounded(numpy_helper.to_array(tensor)), tensor.name))
    return proto.SerializeToString()


def plain_judge(model):
    return ort.InferenceSession(model, options(), providers=["CPUExecutionProvider"])


def nudged(x):
    random = np.random.default_rng(0)
    return (x * (1 + 1e-6 * random.uniform(-1, 1, x.shape))).astype(x.dtype)


class Engine:
    """A model that runs in Weft and in onnxruntime. `within`: the tolerance in place of WITHIN; the caller gives the
    reason. `scale`: the least number that errors are relative to. `labels`: outputs that name classes. `steps`: the
    model rounds its values to 8 bits in each layer, so that a tiny difference may change elements by a whole
    quantisation step. The norm of the error may then exceed the tolerance by twice the change of onnxruntime's answer
    when inputs change by 1e-6.

    In bf16 the limit follows from the format. It includes four times the change in onnxruntime's answer when only the
    weights are rounded, because each layer also rounds the other operand of its products."""

    def __init__(self, mode, model, within=WITHIN, scale=1e-3, labels=(), steps=False):
        self.mode, self.labels, self.within, self.scale = mode, labels, within, scale
        self.steps = steps
        self.size = np.linalg.norm if steps else lambda x: np.abs(x).max(initial=0)
        self.judge = plain_judge(model)
        self.names = [output.name for output in self.judge.get_outputs()]
        self.worst = 0.0
        self.nodes = collections.Counter()
        if mode == "onnxruntime":
            record = options(**{"session.record_ep_graph_assignment_info": "1"})
            self.session = ort.InferenceSession(model, record, providers=[NAME], enable_fallback=0)
            for part in self.session.get_provider_graph_assignment_info():
                self.nodes[part.ep_name] += len(part.get_nodes())
            assert self.nodes[NAME] > 0, f"no node on Weft: {dict(self.nodes)}"
        else:
            self.model = weft.compile(model, device="cpu", precision=mode)
        self.rounded_judge = plain_judge(with_rounded_weights(model)) if mode == "bf16" else None

    def get_inputs(self):
        return self.judge.get_inputs()

    def run(self, names, inputs):
        """Runs the model by the interface of InferenceSession.run, which the code of packages calls."""
        want = self.judge.run(None, inputs)
        got = self.session.run(None, inputs) if self.mode == "onnxruntime" else list(self.model.run(inputs).values())
        coarse = self.rounded_judge.run(None, inputs) if self.rounded_judge else want
        moved = self.judge.run(None, {name: nudged(x) for name, x in inputs.items()}) if self.steps else want
        for name, a, b, c, d in zip(self.names, want, got, coarse, moved, strict=True):
            assert (b.shape, b.dtype) == (a.shape, a.dtype), name
            if name not in self.labels:
                self.compare(name, *(x.astype(np.float64).ravel() for x in (a, b, c, d)))
            elif self.mode != "bf16":
                np.testing.assert_array_equal(b, a, err_msg=name)
        return got if names is None else [got[self.names.index(name)] for name in names]

    def __call__(self, **inputs):
        return self.run(None, inputs)

    def compare(self, name, want, got, coarse, moved):
        scale = max(self.size(want), self.scale)
        error, limit = self.size(got - want) / scale, self.within + 2 * self.size(moved - want) / scale
        if self.mode == "bf16":
            limit = 2.0**-6 + 4 * (limit + self.size(coarse - want) / scale)
        self.worst = max(self.worst, error / limit)
        assert error <= limit, f"{name}: {error:.2e} from onnxruntime, {limit:.2e} is the most"
