# SPDX-License-Identifier: Apache-2.0
"""Runs with the Python that has TensorFlow: writes each case of lite_cases.py as a .tflite file, once with fixed and
once with open sizes, and LiteRT's answers.  lite_models.py FOLDER"""
import dataclasses
import importlib.util
import json
import os
import sys
from pathlib import Path

import flatbuffers
import numpy as np
from flatbuffers import flexbuffers

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
sys.path.insert(0, str(Path(__file__).parent))
from lite_cases import CASES, CODES, Value, is_input, open_dims


def read_schema():
    """Returns TensorFlow's own Python classes for the schema, without importing the rest of TensorFlow."""
    package = Path(importlib.util.find_spec("tensorflow").origin).parent
    spec = importlib.util.spec_from_file_location("schema", package / "lite/python/schema_py_generated.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


schema = read_schema()


class Writer:
    """A model of one operator, which is built and then written as a .tflite file."""

    def __init__(self, is_open):
        self.is_open, self.has_rank = is_open, True
        self.buffers = [schema.BufferT()]
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.inputs, self.graph.outputs, self.graph.operators = [], [], [], []

    def tensor(self, name, dtype, shape, value=None, open_shape=None):
        t = schema.TensorT()
        t.name, t.type, t.shape, t.hasRank = name, CODES[np.dtype(dtype).type], list(shape) if self.has_rank else [], self.has_rank
        if value is not None and value.scales:
            t.quantization = schema.QuantizationParametersT()
            t.quantization.scale, t.quantization.zeroPoint = list(value.scales), list(value.zeros)
            t.quantization.quantizedDimension = value.axis
        if value is not None and value.constant:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(value.array.tobytes(), np.uint8)
            self.buffers.append(buffer)
            t.buffer = len(self.buffers) - 1
        elif open_shape is not None and self.is_open:
            t.shapeSignature = open_shape
        t.isVariable = value is not None and value.variable
        self.graph.tensors.append(t)
        return len(self.graph.tensors) - 1

    def add(self, case):
        op = schema.OperatorT()
        op.inputs, op.outputs = [], []
        for i, value in enumerate(case.inputs):
            if value is None:
                op.inputs.append(-1)
                continue
            op.inputs.append(self.tensor(f"x{i}", value.array.dtype, value.array.shape, value, open_dims(case, i)))
            if is_input(value):
                self.graph.inputs.append(op.inputs[-1])
        for i, output in enumerate(case.outputs):
            dtype, *steps = output if isinstance(output, tuple) else (output,)
            value = Value(np.zeros(0), False, (steps[0],), (steps[1],)) if steps else None
            op.outputs.append(self.tensor(f"y{i}", dtype, [], None))
            if value:
                q = self.graph.tensors[-1].quantization = schema.QuantizationParametersT()
                q.scale, q.zeroPoint = list(value.scales), list(value.zeros)
        self.graph.outputs = list(op.outputs)
        if case.options:
            op.builtinOptions = getattr(schema, case.options + "T")()
            op.builtinOptionsType = getattr(schema.BuiltinOptions, case.options)
            for name, value in case.fields.items():
                assert hasattr(op.builtinOptions, name), (case.options, name)
                setattr(op.builtinOptions, name, value)
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, case.operator)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 2 if case.operator == "BROADCAST_TO" else 1
        return self.finished(op, code)

    def finished(self, op, code):
        self.graph.operators.append(op)
        model = schema.ModelT()
        model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, [code], [self.graph], self.buffers
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def detections(folder):
    """Makes models of the custom operator that ends SSD networks, in both of its modes."""
    import tensorflow as tf

    rng = np.random.default_rng(9)
    anchors = np.concatenate([rng.random((40, 2)), rng.uniform(0.1, 0.3, (40, 2))], 1).astype(np.float32)
    values = {"x0": rng.normal(0, 1, (1, 40, 4)).astype(np.float32), "x1": rng.random((1, 40, 4)).astype(np.float32)}
    values["x1"][0, 7] = values["x1"][0, 9] = 0.875  # equal to the threshold
    for name, is_each in {"detections-0": False, "detections-1": True}.items():
        writer, op, code = Writer(False), schema.OperatorT(), schema.OperatorCodeT()
        arrays = [*values.values(), anchors]
        op.inputs = [writer.tensor(f"x{i}", x.dtype, x.shape, Value(x, i == 2)) for i, x in enumerate(arrays)]
        op.outputs = [writer.tensor(f"y{i}", np.float32, []) for i in range(4)]
        writer.graph.inputs, writer.graph.outputs = op.inputs[:2], list(op.outputs)
        options = {"max_detections": 24, "max_classes_per_detection": 1, "detections_per_class": 5, "use_regular_nms": is_each, "num_classes": 3,
                   "nms_score_threshold": 0.875, "nms_iou_threshold": 0.4, "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}
        op.customOptions = np.frombuffer(flexbuffers.Dumps(options), np.uint8)
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
        code.customCode, code.version = "TFLite_Detection_PostProcess", 1
        model = writer.finished(op, code)
        (folder / f"{name}.tflite").write_bytes(model)
        interpreter = tf.lite.Interpreter(model_content=model, num_threads=1)
        interpreter.allocate_tensors()
        for detail, x in zip(interpreter.get_input_details(), values.values()):
            interpreter.set_tensor(detail["index"], x)
        interpreter.invoke()
        found = {f"y{i}": interpreter.get_tensor(d["index"]) for i, d in enumerate(interpreter.get_output_details())}
        np.savez(folder / f"{name}.npz", **values, **found)


# LiteRT's reference kernels do not exist for these operators or, for LOCAL_RESPONSE_NORMALIZATION, leave out the last
# channel of a window.
LACKS_REFERENCE = ("CEIL", "ROUND", "ELU", "BROADCAST_TO", "LOCAL_RESPONSE_NORMALIZATION", "SUM", "SEGMENT_SUM")


def answers(model, case):
    import tensorflow as tf

    kernels = tf.lite.experimental.OpResolverType.BUILTIN_REF
    if case.operator in LACKS_REFERENCE:
        kernels = tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = tf.lite.Interpreter(model_content=model, num_threads=1, experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    values = [v.array for v in case.inputs if is_input(v)]
    for letter in "yz" if case.has_state else "y":  # a second run continues from the state of the first
        for detail, value in zip(interpreter.get_input_details(), values):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        # LiteRT cannot return a tensor that has no elements if its size became known only during the run.
        for i, d in enumerate(interpreter.get_output_details()):
            yield f"{letter}{i}", interpreter.get_tensor(d["index"]) if np.prod(d["shape"]) else np.zeros(d["shape"], d["dtype"])


def main(folder):
    index = {}
    for case in CASES:
        model = Writer(False).add(case)
        (folder / f"{case.name}.tflite").write_bytes(model)
        (folder / f"{case.name}-open.tflite").write_bytes(Writer(True).add(case))
        arrays = {f"x{i}": v.array for i, v in enumerate(v for v in case.inputs if is_input(v))}
        try:
            arrays |= dict(answers(model, case))
            index[case.name] = ""
        except (ValueError, RuntimeError) as error:
            index[case.name] = str(error)[:300]
        np.savez(folder / f"{case.name}.npz", **arrays)
    unknown = Writer(False)
    unknown.has_rank = False
    (folder / "unknown_rank.tflite").write_bytes(unknown.add(next(case for case in CASES if case.operator == "ABS")))
    detections(folder)
    pool = next(case for case in CASES if case.operator == "MAX_POOL_2D")
    huge = dataclasses.replace(pool, fields=pool.fields | {"filterWidth": 1_000_000})
    (folder / "huge_window.tflite").write_bytes(Writer(False).add(huge))
    (folder / "index.json").write_text(json.dumps(index))


main(Path(sys.argv[1]))
