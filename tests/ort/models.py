# SPDX-License-Identifier: Apache-2.0
"""Small models, and sessions on Weft and on onnxruntime's own CPU provider."""
import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

NAME = "WeftExecutionProvider"
VERSION = tuple(int(part) for part in ort.__version__.split(".")[:2])
TAKES_NAMES = VERSION >= (1, 25)  # sessions find plug-ins by name, older versions by device
TAKES_OUTER_VALUES = VERSION >= (1, 27)  # a plug-in gets the outer values that an If, Loop or Scan reads


def model(nodes, inputs, outputs, weights=(), opset=21, **graph):
    """Makes a model from `inputs` and `outputs` (name, element type, dims) and `weights` (name, array)."""
    values = [[helper.make_tensor_value_info(*value) for value in values] for values in (inputs, outputs)]
    constants = [numpy_helper.from_array(array, name) for name, array in weights]
    made = helper.make_graph(nodes, "g", *values, constants, **graph)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def mlp(seed=0, width=64):
    """Makes a model of y[n,8] = relu(x[n,width] @ a) @ b + c; onnxruntime fuses the last two nodes."""
    random = np.random.default_rng(seed)
    weights = [("a", random.standard_normal((width, 32)).astype(np.float32)),
               ("b", random.standard_normal((32, 8)).astype(np.float32)),
               ("c", random.standard_normal(8).astype(np.float32))]
    nodes = [helper.make_node("MatMul", ["x", "a"], ["h"], "first"), helper.make_node("Relu", ["h"], ["r"], "relu"),
             helper.make_node("MatMul", ["r", "b"], ["s"], "second"), helper.make_node("Add", ["s", "c"], ["y"], "bias")]
    return model(nodes, [("x", TensorProto.FLOAT, ["n", width])], [("y", TensorProto.FLOAT, ["n", 8])], weights)


def convolution():
    """Makes a model of a 3 x 3 convolution, for which Weft has several kernels."""
    return model([helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[1, 1, 1, 1])],
                 [("x", TensorProto.FLOAT, [1, 32, 24, 24])], [("y", TensorProto.FLOAT, [1, 32, 24, 24])],
                 [("w", numbers(32, 32, 3, 3))])


def mixed():
    """Makes a model with two results: y = x @ w @ w, and the parts of x @ w as a sequence. onnxruntime does not accept
    sequences from a plug-in."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], "first"),
             helper.make_node("SplitToSequence", ["h"], ["pieces"], "split", axis=1),
             helper.make_node("MatMul", ["h", "w"], ["y"], "second")]
    made = model(nodes, [("x", TensorProto.FLOAT, ["n", 64])], [("y", TensorProto.FLOAT, ["n", 64])],
                 [("w", numbers(64, 64))])
    made.graph.output.append(helper.make_tensor_sequence_value_info("pieces", TensorProto.FLOAT, ["n", 1]))
    return made


def session(proto, options=None, entries=None, name=NAME, **settings):
    settings_ = ort.SessionOptions()
    for key, value in {"session.record_ep_graph_assignment_info": "1", **(entries or {})}.items():
        settings_.add_session_config_entry(key, value)
    for key, value in settings.items():
        setattr(settings_, key, value)
    bytes_or_path = proto if isinstance(proto, str) else proto.SerializeToString()
    if not TAKES_NAMES:
        devices = [device for device in ort.get_ep_devices() if device.ep_name == name]
        wanted = (options or {}).get("device_id", "0")
        chosen = [device for device in devices if device.ep_metadata["cuda_device_id"] == wanted] or devices
        settings_.add_provider_for_devices(chosen[:1], options or {})
        return ort.InferenceSession(bytes_or_path, settings_)
    return ort.InferenceSession(bytes_or_path, settings_, providers=[(name, options or {})])


def reference(proto):
    bytes_or_path = proto if isinstance(proto, str) else proto.SerializeToString()
    return ort.InferenceSession(bytes_or_path, providers=["CPUExecutionProvider"])


def assigned(session_):
    """Returns how many nodes of the graph each provider has."""
    counts = {}
    for part in session_.get_provider_graph_assignment_info():
        counts[part.ep_name] = counts.get(part.ep_name, 0) + len(part.get_nodes())
    return counts


def check_equal(proto, feeds, rtol=1e-4, atol=1e-5, **keys):
    """Compares the outputs of Weft and of onnxruntime's CPU provider; returns Weft's session."""
    ours, theirs = session(proto, **keys), reference(proto)
    for feed in feeds:
        for got, want in zip(ours.run(None, feed), theirs.run(None, feed), strict=True):
            np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
    return ours


def numbers(*dims, seed=0):
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)


IMAGE = {"x": numbers(1, 32, 24, 24)}
