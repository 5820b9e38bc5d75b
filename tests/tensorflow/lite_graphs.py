# SPDX-License-Identifier: Apache-2.0
"""Runs with the Python that has TensorFlow: writes models of several operators as TensorFlow's converter makes them,
and LiteRT's answers. lite_graphs.py FOLDER"""
import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(5)
FOLDER = Path(sys.argv[1])


def plain_run(interpreter, inputs):
    """Runs a model without a signature; returns inputs and outputs by the names of their tensors."""
    for detail in interpreter.get_input_details():
        if tuple(detail["shape"]) != inputs[detail["name"]].shape:
            interpreter.resize_tensor_input(detail["index"], inputs[detail["name"]].shape)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], inputs[detail["name"]])
    interpreter.invoke()
    return {d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()}


def keep(name, model, runs):
    """Writes the file, and LiteRT's answers to each list of inputs, one run after the other."""
    (FOLDER / f"{name}.tflite").write_bytes(model)
    interpreter = tf.lite.Interpreter(model_content=model, num_threads=1)
    signatures = interpreter.get_signature_list()
    run = interpreter.get_signature_runner(next(iter(signatures))) if signatures else lambda **inputs: plain_run(interpreter, inputs)
    kept = {}
    for number, inputs in enumerate(runs):
        kept |= {f"{number} in {k}": v for k, v in inputs.items()}
        kept |= {f"{number} out {k}": v for k, v in run(**inputs).items()}
    np.savez(FOLDER / f"{name}.npz", **kept)


def convert(function, *specs, **settings):
    concrete = tf.function(function).get_concrete_function(*specs)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])
    for name, value in settings.items():
        setattr(converter, name, value)
    return converter.convert()


def floats(*shape):
    return rng.uniform(-2, 2, shape).astype(np.float32)


def spec(*shape, dtype=tf.float32, name="x"):
    return tf.TensorSpec(shape, dtype, name)


def control_flow():
    def grow(x):
        return tf.while_loop(lambda v: tf.reduce_sum(v) < 100.0, lambda v: [v * 2.0 + 1.0], [x])[0]

    def lengthen(x):
        shapes = [tf.TensorShape([None]), tf.TensorShape([])]
        return tf.while_loop(lambda v, n: n < 4, lambda v, n: [tf.concat([v, v[:1] + 1.0], 0), n + 1], [x, 0], shape_invariants=shapes)[0]

    def branch(x):
        return tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.sin(x), lambda: x - 3.0)

    keep("while", convert(grow, spec(None, 3)), [{"x": np.abs(floats(2, 3))}, {"x": np.full((1, 3), 90, np.float32)}])
    keep("while_lengthens", convert(lengthen, spec(None)), [{"x": floats(3)}, {"x": floats(1)}])
    keep("if", convert(branch, spec(None, 3)), [{"x": np.abs(floats(2, 3))}, {"x": -np.abs(floats(4, 3))}])


def spectra():
    def spectrum(x):
        return tf.abs(tf.signal.rfft(x, [16]))

    def parts(x):
        y = tf.reshape(tf.signal.rfft(x, [8]), [-1, 5])
        return tf.math.real(y) * 2.0 - tf.math.imag(y)

    keep("spectrum", convert(spectrum, spec(None, 16)), [{"x": floats(3, 16)}])
    keep("spectrum_parts", convert(parts, spec(None, 2, 9)), [{"x": floats(2, 2, 9)}])


class Two(tf.Module):
    @tf.function(input_signature=[spec(None, 3)])
    def doubled(self, x):
        return {"y": x * 2.0}

    @tf.function(input_signature=[spec(None, 3, name="a"), spec(3, name="b")])
    def shifted(self, a, b):
        return {"sum": a + b, "difference": tf.abs(a - b)}


def signatures():
    """Makes two graphs, each with a signature of its own."""
    two = Two()
    tf.saved_model.save(two, FOLDER / "two", signatures={"doubled": two.doubled, "shifted": two.shifted})
    model = tf.lite.TFLiteConverter.from_saved_model(str(FOLDER / "two"), signature_keys=["doubled", "shifted"]).convert()
    (FOLDER / "signatures.tflite").write_bytes(model)
    interpreter, a, b = tf.lite.Interpreter(model_content=model), floats(2, 3), floats(3)
    doubled, shifted = (interpreter.get_signature_runner(key) for key in ("doubled", "shifted"))
    kept = {"doubled in x": a, "shifted in a": a, "shifted in b": b, "doubled out y": doubled(x=a)["y"]}
    np.savez(FOLDER / "signatures.npz", **kept, **{f"shifted out {key}": y for key, y in shifted(a=a, b=b).items()})


class Counter(tf.Module):
    def __init__(self):
        super().__init__()
        self.total = tf.Variable(tf.zeros([3]), name="total")
        self.factor = tf.Variable(tf.fill([3], 2.0), name="factor")

    @tf.function(input_signature=[spec(3)])
    def __call__(self, x):
        self.total.assign(self.total * 0.5 + x * self.factor)
        return {"y": self.total + 1.0}

    @tf.function(input_signature=[spec(3)])
    def in_bodies(self, x):
        """Makes a graph whose branch and loop write variables; the loop's condition reads one."""

        def grow():
            self.factor.assign(self.factor + 0.5)
            return self.factor * x

        y = tf.cond(tf.reduce_sum(x) > 0.0, grow, lambda: x)
        while tf.reduce_sum(self.total) < 20.0:
            self.total.assign(self.total * 1.5 + tf.abs(x) * self.factor + 0.5)
            y += self.total
        self.total.assign(self.total * 0.25)
        return {"y": y}


def variables():
    counter = Counter()
    for name, function in {"variables": counter.__call__, "variables_in_bodies": counter.in_bodies}.items():
        converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()], counter)
        converter.experimental_enable_resource_variables = True
        keep(name, converter.convert(), [{"x": floats(3)} for _ in range(4)])


def network():
    w1, w2, w3 = floats(3, 3, 3, 8) * 0.3, floats(3, 3, 8, 2) * 0.3, floats(16, 5) * 0.3
    b1 = floats(8)

    def call(x):
        y = tf.nn.relu6(tf.nn.bias_add(tf.nn.conv2d(x, w1, 2, "SAME"), b1))
        y = tf.nn.max_pool2d(tf.nn.depthwise_conv2d(y, w2, [1, 1, 1, 1], "VALID"), 2, 2, "SAME")
        return tf.nn.softmax(tf.matmul(tf.reduce_mean(y, [1, 2]), w3))

    return call


def quantised():
    images = [rng.random((1, 12, 12, 3)).astype(np.float32) for _ in range(20)]
    call = network()
    runs = [{"x": image} for image in images[:3]]
    keep("network", convert(call, spec(None, 12, 12, 3)), runs + [{"x": rng.random((5, 12, 12, 3)).astype(np.float32)}])
    keep("network_f16", convert(call, spec(1, 12, 12, 3), optimizations=[tf.lite.Optimize.DEFAULT],
                                target_spec=tf.lite.TargetSpec(supported_types=[tf.float16])), runs)
    whole = dict(optimizations=[tf.lite.Optimize.DEFAULT], representative_dataset=lambda: ([image] for image in images))
    keep("network_int8", convert(call, spec(1, 12, 12, 3), **whole), runs)
    sixteen = tf.lite.TargetSpec([tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8])
    keep("network_int16", convert(call, spec(1, 12, 12, 3), target_spec=sixteen, **whole), runs)
    bytes_in = convert(call, spec(1, 12, 12, 3), inference_input_type=tf.int8, inference_output_type=tf.int8,
                       target_spec=tf.lite.TargetSpec([tf.lite.OpsSet.TFLITE_BUILTINS_INT8]), **whole)
    keep("network_bytes", bytes_in, [{"x": rng.integers(-128, 128, (1, 12, 12, 3)).astype(np.int8)} for _ in range(3)])


def refused():
    """Writes models that Weft refuses: a branch over complex numbers, and an operator of TensorFlow that the converter
    keeps as a custom operator."""
    def magnitude(x):
        z = tf.signal.rfft2d(x)
        return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.abs(z), lambda: tf.math.imag(z))

    (FOLDER / "complex_branch.tflite").write_bytes(convert(magnitude, spec(1, 8, 8)))
    (FOLDER / "custom.tflite").write_bytes(convert(
        lambda x: tf.linalg.inv(x), spec(3, 3), allow_custom_ops=True,
        target_spec=tf.lite.TargetSpec([tf.lite.OpsSet.TFLITE_BUILTINS])))


for make in [control_flow, spectra, variables, signatures, quantised, refused]:
    make()
