# SPDX-License-Identifier: Apache-2.0
"""weft.quantize and `weft quantize`: the contents of the file, its answers in stock onnxruntime, and refusals."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import weft
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "amdemu"))
import emulated

STATIC, WEIGHTS = ["int8", "fp8", "fp8-fnuz"], ["int8-weights", "int4"]


def rng(seed=0):
    return np.random.default_rng(seed)


def model_of(nodes, inputs, outputs, weights, opset=19):
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(w, n) for n, w in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def info(name, *dims):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


def convolutional(spread=1.0, opset=19):
    """Returns two convolutions, a residual sum, a mean and a Gemm. `spread`: first channel over last."""
    r = rng()

    def weight(*dims):
        scales = np.logspace(0, -np.log10(spread), dims[0]).reshape(-1, *[1] * (len(dims) - 1))
        return (r.standard_normal(dims) / np.sqrt(np.prod(dims[1:])) * scales).astype("f")

    weights = {"w1": weight(16, 3, 3, 3), "b1": r.standard_normal(16).astype("f"), "w2": weight(16, 16, 3, 3),
               "w3": weight(10, 16), "b3": (r.standard_normal(10) * np.logspace(0, -np.log10(spread), 10)).astype("f")}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], "second", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c2", "r1"], ["s"]),
        helper.make_node("GlobalAveragePool", ["s"], ["m"]),
        helper.make_node("Flatten", ["m"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], "last", transB=1),
    ]
    return model_of(nodes, [info("x", "n", 3, 8, 8)], [info("y", "n", 10)], weights, opset)


def products(k=64, n=48):
    r = rng(1)
    weights = {"w1": (r.standard_normal((k, n)) / 8).astype("f"), "w2": (r.standard_normal((n, 32)) / 8).astype("f")}
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w2"], ["y"], "second"),
    ]
    return model_of(nodes, [info("x", "n", k)], [info("y", "n", 32)], weights)


def pictures(count=8, seed=2):
    return [rng(seed + i).standard_normal((2, 3, 8, 8)).astype("f") for i in range(count)]


def rows(count=8, k=64, seed=3):
    """Returns rows whose neighbouring columns are correlated, as in trained networks."""
    mix = rng(9).standard_normal((k, k)) * np.logspace(0, -2, k)
    return [(rng(seed + i).standard_normal((16, k)) @ mix).astype("f") for i in range(count)]


def data_for(to):
    return rows() if to in (*WEIGHTS, "int8-dynamic") else pictures()


def saved(tmp_path, model, name="model.onnx"):
    onnx.save(model, tmp_path / name)
    return tmp_path / name


def peer(path, x, **others):
    """Returns the answers of onnxruntime without optimisations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x, **others})[0]


def error(got, wanted):
    return np.sqrt(((got - wanted) ** 2).mean() / (wanted**2).mean())


def weights_of(path):
    return {w.name: numpy_helper.to_array(w) for w in onnx.load(path).graph.initializer}


def operators(path):
    return [node.op_type for node in onnx.load(path).graph.node]


def quantized(tmp_path, model, data=None, **options):
    source, out = saved(tmp_path, model), tmp_path / "out.onnx"
    report = weft.quantize(source, data, out, **options)
    onnx.checker.check_model(str(out))
    return out, report


# --- Quantised files in Weft and ONNX Runtime -------------------------------------------------------------------------


@pytest.mark.parametrize("to", [*STATIC, "int8-dynamic", *WEIGHTS])
def test_weft_and_onnxruntime_agree_on_the_file(tmp_path, to):
    """Answers agree, except for single elements that differ by one quantisation step: f32 sums round differently."""
    model = products() if to in (*WEIGHTS, "int8-dynamic") else convolutional()
    data = data_for(to)
    out, report = quantized(tmp_path, model, data, to=to)
    x = np.concatenate(data)
    right, here, there = peer(tmp_path / "model.onnx", x), weft.compile(out, device="cpu")(x), peer(out, x)
    limit = {"int8": 0.02, "fp8": 0.06, "fp8-fnuz": 0.06, "int8-dynamic": 0.03, "int8-weights": 0.01, "int4": 0.12}[to]
    assert error(there, right) < limit and error(here, right) < limit
    assert error(here, there) < limit / 4
    assert error(here, right) == pytest.approx(report["loss"], rel=0.3)
    # fp8 leaves two of three layers in floats: the last one and the first one, which is small.
    assert report["floats"] == 2 * (to in ("fp8", "fp8-fnuz"))
    assert report["quantised"] + report["floats"] == len(report["layers"])


def test_ranges_and_weights_are_what_the_data_and_the_model_say(tmp_path):
    data = pictures()
    out, report = quantized(tmp_path, convolutional(), data, method="minmax", keep_bias=True)
    held, x = weights_of(out), np.stack(data)
    low, high = min(x.min(), 0), max(x.max(), 0)
    scale = np.float32((float(high) - float(low)) / 255)
    assert held["x_scale"] == scale and held["x_zero"] == round(-float(low) / float(scale))
    w = weights_of(tmp_path / "model.onnx")
    for name, axes in ("w1", (1, 2, 3)), ("w2", (1, 2, 3)), ("w3", (1,)):
        scales = (np.abs(w[name]).max(axes).astype("d") / 127).astype("f")
        np.testing.assert_array_equal(held[f"{name}_scale"], scales)
        steps = np.rint(w[name] / scales.astype("d").reshape(-1, *[1] * len(axes)))
        np.testing.assert_array_equal(held[f"{name}_quantized"], steps)
    bias = np.rint(w["b1"] / (scale * held["w1_scale"]).astype("d"))
    np.testing.assert_array_equal(held["b1_quantized"], bias)
    assert [layer["node"] for layer in report["layers"]] == ["first", "second", "last"]


def test_a_value_is_quantised_once_and_the_sum_reads_it(tmp_path):
    out, _ = quantized(tmp_path, convolutional(), pictures())
    nodes = onnx.load(out).graph.node
    assert [n.op_type for n in nodes].count("QuantizeLinear") == 3
    (total,) = [n for n in nodes if n.op_type == "Add"]
    assert total.input[1] == "r1_dequantized"


def test_old_operator_sets_take_microsofts_operators(tmp_path):
    out, _ = quantized(tmp_path, convolutional(opset=11), pictures())
    assert {n.domain for n in onnx.load(out).graph.node if n.op_type == "QuantizeLinear"} == {"com.microsoft"}
    x = np.concatenate(pictures())
    assert error(peer(out, x), peer(tmp_path / "model.onnx", x)) < 0.02


def test_reductions_and_splits_mean_the_same_in_the_newer_operator_set_of_fp8(tmp_path):
    model = convolutional(opset=13)
    nodes = model.graph.node
    nodes[4].CopyFrom(helper.make_node("ReduceMean", ["s"], ["m"], axes=[2, 3], keepdims=1))
    nodes.append(helper.make_node("Split", ["y"], ["left", "right"], axis=1))
    nodes.append(helper.make_node("Sub", ["left", "right"], ["z"]))
    model.graph.output[0].CopyFrom(info("z", "n", 5))
    out, _ = quantized(tmp_path, model, pictures(), to="fp8")
    x = np.concatenate(pictures())
    assert error(peer(out, x), peer(tmp_path / "model.onnx", x)) < 0.08


@pytest.mark.parametrize("to, more", [("fp8", {}), ("int4", {"qdq": True})])
def test_models_of_old_operator_sets_are_written_anew_for_types_that_these_lack(tmp_path, to, more):
    model = convolutional(opset=9)
    model.graph.node.append(helper.make_node("Clip", ["y"], ["z"], min=-1.0, max=1.0))
    model.graph.output[0].CopyFrom(info("z", "n", 10))
    out, report = quantized(tmp_path, model, pictures(), to=to, **more)
    assert onnx.load(out).opset_import[0].version >= 19 and report["quantised"] >= (1 if to == "fp8" else 2)
    assert [layer["node"] for layer in report["layers"] if layer["op"] == "Conv"][0].startswith("first")
    x = np.concatenate(pictures())
    assert error(weft.compile(out, device="cpu")(x), peer(tmp_path / "model.onnx", x)) < 0.12


@pytest.mark.parametrize("version", [3, 4, 9])
@pytest.mark.parametrize("to", ["int8", "fp8", "int4"])
def test_weights_that_are_declared_as_inputs(tmp_path, to, version):
    """Weights that are declared as inputs are quantised too, as older exporters write models. From IR version 4 on,
    callers may replace such weights until they are quantised."""
    model = convolutional(opset=9)
    model.ir_version = version
    model.graph.input.extend(info(w.name, *w.dims) for w in model.graph.initializer)
    source, out = saved(tmp_path, model), tmp_path / "out.onnx"
    weft.quantize(source, [{"x": x} for x in pictures()], out, to=to)
    x = np.concatenate(pictures())
    assert error(weft.compile(out, device="cpu").run({"x": x})["y"], peer(source, x)) < 0.08


def test_weights_beside_the_model_stay_beside_it(tmp_path):
    (tmp_path / "in").mkdir()
    source, out = tmp_path / "in" / "model.onnx", tmp_path / "out.onnx"
    onnx.save(products(), source, save_as_external_data=True, size_threshold=0, location="weights.bin")
    weft.quantize(source, rows(), out, keep=["first"])
    assert (tmp_path / "out.onnx.data").stat().st_size > 64 * 48 * 4
    x = np.concatenate(rows())
    assert error(peer(out, x), peer(source, x)) < 0.02


def test_weights_that_nodes_make(tmp_path):
    model = products()
    weight = model.graph.initializer[0]
    turned = numpy_helper.from_array(np.ascontiguousarray(numpy_helper.to_array(weight).T), "w1")
    model.graph.initializer[0].CopyFrom(turned)
    model.graph.node.insert(0, helper.make_node("Transpose", ["w1"], ["t"], perm=[1, 0]))
    model.graph.node[1].input[1] = "t"
    out, report = quantized(tmp_path, model, rows())
    assert report["quantised"] == 2 and "Transpose" not in operators(out)


# --- Methods ---------------------------------------------------------------------------------------------------------


def test_a_scale_for_each_channel_beats_one_for_all(tmp_path):
    """Scales for each channel more than halve the worst channel's loss, if channels differ by factors of up to 100."""
    x, worst = np.concatenate(pictures()), []
    for per_tensor in False, True:
        model = convolutional(spread=100)
        out, _ = quantized(tmp_path, model, pictures(), per_tensor=per_tensor, keep=["first", "second"])
        right, got = peer(tmp_path / "model.onnx", x), peer(out, x)
        worst.append(max(error(got[:, i], right[:, i]) for i in range(10)))
    assert worst[0] < worst[1] / 2, worst


@pytest.mark.parametrize("method", ["percentile", "entropy"])
def test_a_few_huge_values_do_not_cost_the_others_their_steps(tmp_path, method):
    data = rows(32)
    data[3][0, 5] = 300 * np.abs(data[3]).max()
    usual = rows(4, seed=90)
    losses = []
    for name in method, "minmax":
        out, _ = quantized(tmp_path, as_convolutions(products()), pixels(data), method=name, percentile=99.9)
        losses.append(max(error(peer(out, x), peer(tmp_path / "model.onnx", x)) for x in pixels(usual)))
    assert losses[0] < losses[1] / 2, losses


def as_convolutions(model):
    """Returns the same products as 1x1 convolutions."""
    for held in model.graph.initializer:
        held.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(held).T[:, :, None, None].copy(), held.name))
    for node in model.graph.node:
        node.op_type = "Conv" if node.op_type == "MatMul" else node.op_type
    model.graph.input[0].CopyFrom(info("x", "n", 64, "h", "w"))
    model.graph.output[0].CopyFrom(info("y", "n", 32, "h", "w"))
    return model


def pixels(data):
    return [np.ascontiguousarray(x.T[None, :, :, None]) for x in data]


def massive(count=8, k=64):
    """Returns items of 16 rows; the first row of each holds a massive value, as in language models."""
    data = [rng(70 + i).standard_normal((16, k)).astype("f") for i in range(count)]
    for x in data:
        x[0, 5] = 3000
    return data


def rest_of(y):
    """Returns the rows of `y` without the first row of each item."""
    return np.concatenate([part[1:] for part in np.split(y, len(y) // 16)])


@pytest.mark.parametrize("to, opset, kind", [("int8", 13, "MatMul"), ("int8", 19, "Gemm"), ("int8-dynamic", 11, "MatMul"),
                                             ("int8-dynamic", 19, "Gemm")])
def test_a_row_of_massive_values_costs_the_other_rows_nothing(tmp_path, to, opset, kind):
    """A layer with massive inputs gets a scale for each row in each run; with int8 the other layer's scale is fixed."""
    model = products()
    model.opset_import[0].version = opset
    w = numpy_helper.to_array(model.graph.initializer[0]).copy()
    w[5] /= 3000
    if kind == "Gemm":
        w = np.ascontiguousarray(w.T)
        model.graph.node[0].CopyFrom(helper.make_node("Gemm", ["x", "w1", "c"], ["a"], "first", transB=1))
        model.graph.initializer.append(numpy_helper.from_array(rng(5).standard_normal(48).astype("f"), "c"))
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(w, "w1"))
    out, report = quantized(tmp_path, model, massive(), to=to, smooth=None if to == "int8" else 0)
    assert [layer["becomes"] for layer in report["layers"]] == ["int8-dynamic", to]
    assert "far larger" in report["layers"][0].get("why", "") or to == "int8-dynamic"
    assert operators(out).count("MatMulInteger") == (1 if to == "int8" else 2)
    x = np.concatenate(massive(4))
    right, there, here = (rest_of(y) for y in (peer(tmp_path / "model.onnx", x), peer(out, x), weft.compile(out, device="cpu")(x)))
    assert error(there, right) < 0.02 and error(here, right) < 0.02 and error(here, there) < 0.004


def test_layers_that_read_one_value_share_the_steps_of_its_rows(tmp_path):
    model = chain("gated")
    out, _ = quantized(tmp_path, model, [x[:, :64] for x in rows()], to="int8-dynamic")
    assert [operators(out).count(op) for op in ("MatMulInteger", "QuantizeLinear", "ReduceMax")] == [3, 2, 2]


def test_rows_of_one_number_and_no_rows(tmp_path):
    out, _ = quantized(tmp_path, products(), rows(), to="int8-dynamic")
    x = np.stack([np.zeros(64), np.full(64, 7), np.full(64, -1e-20), np.full(64, 1e30)]).astype("f")
    right, there, here = peer(tmp_path / "model.onnx", x), peer(out, x), weft.compile(out, device="cpu")(x)
    for i in range(4):
        assert error(here[i], there[i]) < 1e-5 or not right[i].any()
        assert np.abs(here[i] - right[i]).max() <= 0.03 * np.abs(right[i]).max()
    assert weft.compile(out, device="cpu")(x[:0]).shape == (0, 32)


def test_the_least_squares_lose_less_than_the_whole_range(tmp_path):
    data = [rng(i).standard_t(3, (64, 64)).astype("f") for i in range(8)]
    kept = {m: quantized(tmp_path, products(), data, method=m)[1]["layers"][0]["input_db"] for m in ("mse", "minmax")}
    assert kept["mse"] > kept["minmax"] + 0.2, kept


def test_biases_correct_the_mean_rounding_error(tmp_path):
    model, data = convolutional(), [np.abs(p) + 1 for p in pictures()]
    shifts = []
    for keep_bias in False, True:
        out, _ = quantized(tmp_path, model, data, per_tensor=True, keep_bias=keep_bias)
        x = np.concatenate(data)
        shifts.append(np.abs((peer(out, x) - peer(tmp_path / "model.onnx", x)).mean(0)).max())
    assert shifts[0] < shifts[1] / 1.5, shifts


def test_gptq_beats_rounding_to_nearest_where_inputs_go_together(tmp_path):
    losses = {w: quantized(tmp_path, products(), rows(), to="int4", weights=w)[1]["loss"] for w in ("nearest", "gptq")}
    assert losses["gptq"] < 0.7 * losses["nearest"], losses


def outliers(count=8):
    """Returns rows in which the same few columns are always large, as in transformers."""
    data = [rng(50 + i).standard_normal((16, 64)).astype("f") for i in range(count)]
    for x in data:
        x[:, ::16] *= 60
    return data


def test_awq_beats_rounding_to_nearest_where_few_channels_matter(tmp_path):
    ways = ("nearest", "awq")
    losses = {w: quantized(tmp_path, products(), outliers(), to="int4", weights=w)[1]["loss"] for w in ways}
    assert losses["awq"] < 0.8 * losses["nearest"], losses


def test_data_teaches_the_rounding_of_four_bits_unless_told_otherwise(tmp_path):
    assert quantized(tmp_path, products(), rows(), to="int4")[1]["weights"] == "gptq"
    assert quantized(tmp_path, products(), rows(), to="int4", weights="nearest")[1]["weights"] == "nearest"
    assert quantized(tmp_path, products(), to="int4")[1]["weights"] == "nearest"
    assert quantized(tmp_path, products(), rows())[1]["weights"] == "nearest"


def test_the_last_of_many_layers_gets_eight_bits(tmp_path):
    model = products()
    model.graph.initializer.append(numpy_helper.from_array(rng(8).standard_normal((32, 40)).astype("f"), "w3"))
    model.graph.node[2].output[0] = "c"
    model.graph.node.append(helper.make_node("MatMul", ["c", "w3"], ["y"], "third"))
    model.graph.output[0].CopyFrom(info("y", "n", 40))
    out, report = quantized(tmp_path, model, rows(), to="int4")
    assert [layer["becomes"] for layer in report["layers"]] == ["int4", "int4", "int8-weights"]
    assert report["layers"][2]["why"] == "the last layer"
    nodes = [{a.name: a.i for a in n.attribute} for n in onnx.load(out).graph.node if n.op_type == "MatMulNBits"]
    assert [(n["bits"], n["accuracy_level"]) for n in nodes] == [(4, 4), (4, 4), (8, 4)]
    x = np.concatenate(rows())
    right, there, here = peer(tmp_path / "model.onnx", x), peer(out, x), weft.compile(out, device="cpu")(x)
    assert error(here, there) < 0.01 and error(here, right) < 0.12
    quantized(tmp_path, model, rows(), to="int8-weights")
    assert "accuracy_level" not in [a.name for n in onnx.load(out).graph.node for a in n.attribute]


def test_smoothing_moves_outliers_into_weights(tmp_path):
    model = products()
    w = numpy_helper.to_array(model.graph.initializer[0]).copy()
    w[::16] /= 60
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(w, "w1"))
    losses = [quantized(tmp_path, model, outliers(), method="minmax", smooth=s)[1]["loss"] for s in (0.5, 0)]
    assert losses[0] < losses[1] / 2, losses
    assert not [name for name in weights_of(tmp_path / "out.onnx") if "factors" in name]
    out, _ = quantized(tmp_path, model, outliers(), smooth=0.5)
    x = np.concatenate(outliers())
    # The factors of the second product are merged into the weights of the first product.
    assert len([name for name in weights_of(out) if "factors" in name]) == 1
    assert error(weft.compile(out, device="cpu")(x), peer(out, x)) < 5e-3


def uneven(*nodes, weights, output):
    """Returns a model of these nodes with an input x: 64 columns, or 8 x 6 x 6 if `output` has three sizes."""
    return model_of(list(nodes), [info("x", "n", *((64,) if len(output) == 1 else (8, 6, 6)))],
                    [info("y", "n", *output)], weights)


def chain(name):
    r, spread = rng(4), np.logspace(0, -2, 32).astype("f")
    if name == "convolutions":
        weights = {"w1": r.standard_normal((32, 8, 3, 3)).astype("f") * spread.reshape(-1, 1, 1, 1), "b1": spread,
                   "w2": r.standard_normal((32, 1, 3, 3)).astype("f"), "b2": spread,
                   "w3": r.standard_normal((8, 32, 1, 1)).astype("f") / spread.reshape(1, -1, 1, 1)}
        nodes = [helper.make_node("Conv", ["x", "w1", "b1"], ["a"], "first", pads=[1, 1, 1, 1]),
                 helper.make_node("Relu", ["a"], ["b"]), helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2]),
                 helper.make_node("Conv", ["c", "w2", "b2"], ["d"], "depthwise", group=32, pads=[1, 1, 1, 1]),
                 helper.make_node("LeakyRelu", ["d"], ["e"]), helper.make_node("Conv", ["e", "w3"], ["y"], "last")]
        return uneven(*nodes, weights=weights, output=(8, 5, 5))
    weights = {"w1": r.standard_normal((64, 32)).astype("f") * spread, "b1": spread, "w3": r.standard_normal((64, 32)).astype("f"),
               "scale": spread, "shift": spread, "w2": r.standard_normal((32, 24)).astype("f") / spread[:, None]}
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["a"], "first"), helper.make_node("Add", ["b1", "a"], ["b"]),
             helper.make_node("MatMul", ["b", "w2"], ["y"], "last")]
    if name == "normalised":
        nodes[1] = helper.make_node("LayerNormalization", ["a", "scale", "shift"], ["b"])
    if name == "gated":
        nodes[1:2] = [helper.make_node("MatMul", ["x", "w3"], ["g"], "gate"), helper.make_node("Sigmoid", ["g"], ["s"]),
                      helper.make_node("Mul", ["a", "s"], ["b"])]
    return uneven(*nodes, weights=weights, output=(24,))


@pytest.mark.parametrize("name", ["convolutions", "added", "normalised", "gated"])
def test_the_operator_before_an_input_absorbs_the_factors_of_its_channels(tmp_path, name):
    """Cross-layer equalisation: a Mul is added only for the factors of the model's own input."""
    shape = (16, 8, 6, 6) if name == "convolutions" else (16, 64)
    data = [rng(i).standard_normal(shape).astype("f") for i in range(6)]
    losses = [quantized(tmp_path, chain(name), data, method="minmax", smooth=s)[1]["loss"] for s in (0, 0.5)]
    assert losses[1] < losses[0] / 2, losses
    muls = [node for node in onnx.load(tmp_path / "out.onnx").graph.node if node.op_type == "Mul" and "scaled" in node.output[0]]
    assert [node.input[0] for node in muls] == ([] if name == "convolutions" else ["x"])
    x = np.concatenate(data)
    assert error(weft.compile(tmp_path / "out.onnx", device="cpu")(x), peer(tmp_path / "out.onnx", x)) < 5e-3


@pytest.mark.parametrize("name, to", [("convolutions", "int8"), *((name, to) for name in ("added", "normalised", "gated")
                                                               for to in ("int8", "int8-dynamic"))])
def test_int8_divides_channels_where_that_costs_nothing(tmp_path, name, to):
    shape = (16, 8, 6, 6) if name == "convolutions" else (16, 64)
    data = [rng(i).standard_normal(shape).astype("f") for i in range(6)]
    losses = [quantized(tmp_path, chain(name), data, to=to, method="minmax", smooth=s)[1]["loss"] for s in (0, None)]
    assert losses[1] < losses[0] / 2, losses
    assert not [node for node in onnx.load(tmp_path / "out.onnx").graph.node if node.op_type == "Mul" and node.output[0].endswith("_scaled")]
    x = np.concatenate(data)
    assert error(weft.compile(tmp_path / "out.onnx", device="cpu")(x), peer(tmp_path / "out.onnx", x)) < 5e-3


def test_a_value_that_others_read_keeps_its_channels(tmp_path):
    model = chain("added")
    model.graph.output.append(info("b", "n", 32))
    data = [rng(i).standard_normal((16, 64)).astype("f") for i in range(6)]
    out, _ = quantized(tmp_path, model, data, smooth=0.5)
    assert operators(out).count("Mul") == 2
    x = np.concatenate(data)
    right, got = (weft.compile(path, device="cpu").run({"x": x})["b"] for path in (tmp_path / "model.onnx", out))
    assert error(got, right) < 0.02


def test_an_add_after_a_product_corrects_the_mean_rounding_error(tmp_path):
    shifts = []
    for keep_bias in False, True:
        data = [np.abs(rng(i).standard_normal((64, 64))).astype("f") + 1 for i in range(6)]
        out, _ = quantized(tmp_path, chain("added"), data, per_tensor=True, keep_bias=keep_bias, keep=["last"])
        x = np.concatenate(data)
        shifts.append(np.abs((peer(out, x) - peer(tmp_path / "model.onnx", x)).mean(0)).max())
    assert shifts[0] < shifts[1] / 1.5, shifts


@pytest.mark.parametrize("build", [products, lambda: chain("added"), lambda: narrowed(products(), TensorProto.FLOAT16)])
def test_fp8_takes_the_mean_of_each_channel_away(tmp_path, build):
    """The input minus its mean is quantised; the mean times the weights is added to the bias."""
    model = build()
    dtype = helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type)
    means = rng(70).standard_normal(64) * 8
    data = [(rng(i).standard_normal((64, 64)) + means).astype(dtype) for i in range(8)]
    losses = [quantized(tmp_path, model, data, to="fp8", weights="nearest", keep=["second", "last"], keep_bias=kept)[1]["loss"]
              for kept in (True, False)]
    assert losses[1] < losses[0] / 3, losses
    assert operators(tmp_path / "out.onnx").count("Sub") == 1
    x = np.concatenate(data)
    there, right = (peer(tmp_path / name, x).astype("f") for name in ("out.onnx", "model.onnx"))
    assert error(there, right) < 1.5 * losses[1] + 1e-3


def test_fp8_keeps_few_layers_in_floats_that_lose_most_for_their_size(tmp_path):
    r = rng(4)
    sizes = {"w1": (64, 32), "w2": (64, 128), "w3": (128, 32), "w4": (32, 16)}
    weights = {name: (r.standard_normal(dims) / dims[0] ** 0.5).astype("f") for name, dims in sizes.items()}
    weights["w1"] *= 100
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["a"], "large"), helper.make_node("MatMul", ["x", "w2"], ["b"], "wide"),
             helper.make_node("Relu", ["b"], ["c"]), helper.make_node("MatMul", ["c", "w3"], ["d"], "narrow"),
             helper.make_node("Add", ["a", "d"], ["e"]), helper.make_node("MatMul", ["e", "w4"], ["y"], "last")]
    model = model_of(nodes, [info("x", "n", 64)], [info("y", "n", 16)], weights)
    out, report = quantized(tmp_path, model, rows(), to="fp8")
    forms = {layer["node"]: (layer["becomes"], layer.get("why")) for layer in report["layers"]}
    assert forms["large"] == ("float", "it loses most for its size") and forms["wide"][0] == forms["narrow"][0] == "fp8"
    assert report["loss"] < report["evaluations"][0]["loss"] / 5
    x = np.concatenate(rows())
    right = peer(tmp_path / "model.onnx", x)
    assert error(weft.compile(out, device="cpu")(x), right) == pytest.approx(report["loss"], rel=0.3)


def test_int4_gives_few_layers_eight_bits_that_lose_most_for_their_size(tmp_path):
    """Of a chain of six products two get eight bits: the last, and the one that loses most for its size."""
    r, nodes, weights, value = rng(4), [], {}, "x"
    for i in range(6):
        weights[f"w{i}"] = (r.standard_normal((64, 64 if i < 5 else 48)) / 8).astype("f")
        nodes += [helper.make_node("MatMul", [value, f"w{i}"], [f"v{i}"], f"n{i}")]
        value = f"v{i}"
    weights["w1"] = np.diag(np.sign(r.standard_normal(64)) * r.uniform(0.1, 1, 64)).astype("f") + weights["w1"] / 100
    nodes[-1].output[0] = "y"
    model = model_of(nodes, [info("x", "n", 64)], [info("y", "n", 48)], weights)
    out, report = quantized(tmp_path, model, rows(), to="int4")
    spared = [layer["node"] for layer in report["layers"] if layer.get("why") == "it loses most for its size"]
    assert len(spared) == 1 and report["loss"] < report["evaluations"][0]["loss"] and len(report["evaluations"]) >= 3
    bits = {n.input[1]: a.i for n in onnx.load(out).graph.node if n.op_type == "MatMulNBits" for a in n.attribute if a.name == "bits"}
    assert sorted(bits.values()) == [4, 4, 4, 4, 8, 8]
    assert all(layer["becomes"] == "int8-weights" for layer in report["layers"] if layer["node"] in (spared[0], "n5"))


def test_hqq_counts_a_few_large_errors_less(tmp_path):
    """For weights with outliers, HQQ has a smaller error than rounding to nearest, in the norm that HQQ minimises."""
    model = products()
    w = numpy_helper.to_array(model.graph.initializer[0]).copy()
    w[::17, ::5] *= 8
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(w, "w1"))
    norms = {}
    for way in "nearest", "hqq":
        out, _ = quantized(tmp_path, model, to="int4", weights=way)
        held = weights_of(out)
        steps, zeros = held["w1_quantized"], held["w1_zero"].reshape(48, 1)
        steps = np.stack([steps & 15, steps >> 4], -1).reshape(48, 2, 32).astype("d")
        zeros = np.stack([zeros & 15, zeros >> 4], -1).reshape(48, 2, 1).astype("d")
        back = (steps - zeros) * held["w1_scale"].reshape(48, 2, 1)
        norms[way] = (np.abs(back.reshape(48, 64) - w.T) ** 0.7).sum()
    assert norms["hqq"] < norms["nearest"], norms


@pytest.mark.parametrize("block", [16, 64, 128])
def test_blocks_that_do_not_fill_the_rows(tmp_path, block):
    model, data = products(k=72, n=40), rows(k=72)
    out, _ = quantized(tmp_path, model, to="int4", block=block, symmetric=block == 64)
    x = np.concatenate(data)
    assert error(weft.compile(out, device="cpu")(x), peer(out, x)) < 1e-5


def test_symmetric_ranges(tmp_path):
    out, _ = quantized(tmp_path, convolutional(), pictures(), symmetric=True)
    assert weights_of(out)["x_zero"].dtype == np.int8 and weights_of(out)["x_zero"] == 0


@pytest.mark.parametrize("weights", ["nearest", "gptq"])
def test_weights_of_seven_bits_keep_sums_of_pairs_within_16_bits(tmp_path, weights):
    """onnxruntime sums pairs of u8 by i8 in 16 bits on processors without VNNI. With inputs at the end of their range
    and weights of one sign, such sums exceed 16 bits unless weights have seven bits."""
    model = products()
    for held in model.graph.initializer:
        held.CopyFrom(numpy_helper.from_array(np.abs(numpy_helper.to_array(held)) ** 0.1, held.name))
    data = [np.abs(x) ** 0.1 for x in rows()]
    out, _ = quantized(tmp_path, model, data, weights=weights, reduce_range=True, smooth=0)
    steps = [w for w in weights_of(out).values() if w.dtype == np.int8 and w.ndim == 2]
    assert len(steps) == 2 and max(np.abs(w.astype(int)).max() for w in steps) == 64
    x = np.concatenate(data)
    right = peer(tmp_path / "model.onnx", x)
    there = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    assert error(there, right) < 0.01 and error(weft.compile(out, device="cpu")(x), right) < 0.01


def test_the_same_data_gives_the_same_file(tmp_path):
    files = [quantized(tmp_path, convolutional(), pictures())[0].read_bytes() for _ in range(2)]
    assert files[0] == files[1]


# A script that makes the quantised tensors outputs and prints a digest of them.
DIGEST = """
import hashlib, sys, numpy as np, weft
y = weft.compile(sys.argv[1], device=sys.argv[2], threads=int(sys.argv[3])).run(dict(np.load(sys.argv[4])))
whole = [np.asarray(y[name]) for name in sorted(y) if np.asarray(y[name]).dtype.kind in "iu"]
print(len(whole), hashlib.sha256(b"".join(x.tobytes() for x in whole)).hexdigest())
"""


def steps_as_outputs(path):
    model = onnx.load(path)
    types = {w.name: w.data_type for w in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            model.graph.output.append(helper.make_tensor_value_info(node.output[0], types[node.input[2]], None))
    onnx.save(model, path)


@pytest.mark.parametrize("symmetric", [False, True])
def test_whole_numbers_are_equal_bit_by_bit_on_every_device(tmp_path, symmetric):
    """The reference, the processor (with one thread, two threads, or fewer features) and a GPU with matrix instructions
    for bytes give the same bits."""
    out, _ = quantized(tmp_path, convolutional(), pictures(), symmetric=symmetric)
    steps_as_outputs(out)
    np.savez(tmp_path / "x.npz", x=pictures()[0])

    def digest(device, threads=1, **variables):
        words = [sys.executable, "-c", DIGEST, out, device, str(threads), tmp_path / "x.npz"]
        done = subprocess.run(words, env=os.environ | variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    right = digest("ref")
    assert right.startswith("3 ")
    assert digest("cpu") == digest("cpu", 2) == digest("cpu", WEFT_CPU="x86-64-v3") == right
    assert digest("amd:0", WEFT_HIP_LIBRARY=str(emulated.LIBRARY), AMDEMU_CHIPS="gfx1100") == right


# --- Models in f16 and bf16 ------------------------------------------------------------------------------------------


def narrowed(model, kind):
    """Returns the model with weights, inputs and results of another type."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    for held in model.graph.initializer:
        held.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(held).astype(dtype), held.name))
    for port in (*model.graph.input, *model.graph.output):
        port.type.tensor_type.elem_type = kind
    return model


NARROW = [("int8", {}), ("int8", {"smooth": 0.5}), ("fp8", {}), ("int8-dynamic", {}), ("int8-weights", {}), ("int4", {}),
          ("int4", {"qdq": True}), ("int4", {"weights": "awq"})]


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
@pytest.mark.parametrize("to, more", NARROW)
@pytest.mark.parametrize("build", [convolutional, products])
def test_models_in_16_bits(tmp_path, build, to, more, kind):
    """Inputs and results keep their types, and the error is about that of the same model quantised from f32."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    data = pictures() if build is convolutional else rows()
    source, out = saved(tmp_path, narrowed(build(), kind)), tmp_path / "out.onnx"
    report = weft.quantize(source, [x.astype(dtype) for x in data], out, to=to, **more)
    onnx.checker.check_model(str(out))
    assert report["quantised"] + report["floats"] == len(report["layers"]) and report["quantised"] >= (1 if build is convolutional else 2)
    graph = onnx.load(out).graph
    assert {port.type.tensor_type.elem_type for port in (*graph.input, *graph.output)} == {kind}
    x = np.concatenate(data).astype(dtype)
    right, here = (np.asarray(weft.compile(path, device="cpu")(x)).astype("f") for path in (source, out))
    loss = weft.quantize(saved(tmp_path, build(), "f32.onnx"), data, tmp_path / "f32_out.onnx", to=to, **more)["loss"]
    limit = 1.2 * loss + (2e-3 if kind == TensorProto.FLOAT16 else 1e-2)
    assert error(here, right) < limit
    if kind == TensorProto.FLOAT16:
        assert error(peer(out, x).astype("f"), right) < limit


def test_layers_of_16_bits_that_stay_in_floats_keep_their_weights(tmp_path):
    model = narrowed(convolutional(), TensorProto.FLOAT16)
    data = [x.astype(np.float16) for x in pictures()]
    out, _ = quantized(tmp_path, model, data, keep=["second"], smooth=0.5)
    held = weights_of(out)
    assert held["w1_scaled_quantized" if "w1_scaled_quantized" in held else "w1_quantized"].dtype == np.int8
    assert {value.dtype for name, value in held.items() if name.startswith("w2")} == {np.dtype(np.float16)}


# --- Weights of recurrent layers, convolutions and bodies ---------------------------------------------------------------


def with_bodies(opset=19):
    """Returns a convolution, a bidirectional LSTM, and an If with three products in its branches. One product's weight
    is in the branch, one in the main graph, one from a Constant node."""
    r = rng(6)

    def weight(*dims):
        return (r.standard_normal(dims) / np.sqrt(dims[-1])).astype("f")

    held = numpy_helper.from_array(weight(16, 16), "value")
    then = [helper.make_node("MatMul", ["f", "own"], ["t"], "inner"), helper.make_node("Constant", [], ["k"], value=held),
            helper.make_node("MatMul", ["t", "k"], ["then"])]
    branches = [helper.make_graph(then, "then", [], [info("then", None, None)], [numpy_helper.from_array(weight(16, 16), "own")]),
                helper.make_graph([helper.make_node("MatMul", ["f", "shared"], ["else"])], "else", [], [info("else", None, None)])]
    nodes = [helper.make_node("Conv", ["x", "c"], ["v"], "conv", pads=[1, 1]),
             helper.make_node("Transpose", ["v"], ["s"], perm=[2, 0, 1]),
             helper.make_node("LSTM", ["s", "w", "r", "b"], ["", "h"], "lstm", hidden_size=8, direction="bidirectional"),
             helper.make_node("Transpose", ["h"], ["z"], perm=[1, 0, 2]), helper.make_node("Flatten", ["z"], ["f"]),
             helper.make_node("If", ["is_first"], ["y"], "choice", then_branch=branches[0], else_branch=branches[1])]
    weights = {"c": weight(24, 4, 3), "w": weight(2, 32, 24), "r": weight(2, 32, 8), "b": weight(2, 64), "shared": weight(16, 16)}
    inputs = [info("x", "n", 4, 10), helper.make_tensor_value_info("is_first", TensorProto.BOOL, [])]
    return model_of(nodes, inputs, [info("y", None, None)], weights, opset)


@pytest.mark.parametrize("opset", [11, 19])
@pytest.mark.parametrize("to", WEIGHTS)
def test_weights_of_recurrent_layers_and_of_bodies(tmp_path, to, opset):
    out, report = quantized(tmp_path, with_bodies(opset), to=to, keep=["nothing"])
    held = weights_of(out)
    assert {"c", "w", "r", "shared"}.isdisjoint(held) and held["b"].dtype == np.float32
    assert {held[f"{name}_quantized"].dtype for name in ("c", "w", "r", "shared")} == {np.dtype(np.int8)}
    choice = next(node for node in onnx.load(out).graph.node if node.op_type == "If")
    (inner,) = [a.g for a in choice.attribute if a.name == "then_branch"]
    assert [n.op_type for n in inner.node].count("DequantizeLinear") == 2 and "Constant" not in {n.op_type for n in inner.node}
    assert {w.data_type for w in inner.initializer} == {TensorProto.INT8, TensorProto.FLOAT}
    assert report["quantised"] == len(report["layers"]) == 6 and report["floats"] == 0
    x = rng(7).standard_normal((3, 4, 10)).astype("f")
    for first in True, False:
        feeds = {"x": x, "is_first": np.array(first)}
        right, there = (peer(file, **feeds) for file in (tmp_path / "model.onnx", out))
        here = weft.compile(out, device="cpu").run(feeds)["y"]
        assert 0 < error(there, right) < 0.02 and error(here, there) < 1e-4


def test_stored_weights_that_nodes_make(tmp_path):
    """A weight that a Transpose makes is quantised in its result's layout; the halves of a Split stay in floats."""
    r = rng(11)
    weights = {"t": r.standard_normal((3, 3, 8, 8)).astype("f") / 8, "both": r.standard_normal((16, 8, 3, 3)).astype("f") / 8}
    nodes = [helper.make_node("Transpose", ["t"], ["w"], perm=[3, 2, 0, 1]), helper.make_node("Split", ["both"], ["a", "b"], axis=0, num_outputs=2),
             helper.make_node("Conv", ["x", "w"], ["v"]), helper.make_node("Conv", ["v", "a"], ["u"]), helper.make_node("Conv", ["v", "b"], ["q"]),
             helper.make_node("Add", ["u", "q"], ["y"])]
    model = model_of(nodes, [info("x", "n", 8, 7, 7)], [info("y", "n", 8, 3, 3)], weights)
    out, report = quantized(tmp_path, model, to="int8-weights")
    assert report["quantised"] == 1 and {"w_quantized", "both"} <= set(weights_of(out)) and "Transpose" not in operators(out)
    x = r.standard_normal((2, 8, 7, 7)).astype("f")
    assert 0 < error(peer(out, x), peer(tmp_path / "model.onnx", x)) < 0.02


def test_weights_that_are_to_stay_and_those_that_others_read_stay(tmp_path):
    model = with_bodies()
    model.graph.node.append(helper.make_node("Identity", ["shared"], ["copy"]))
    model.graph.output.append(info("copy", 16, 16))
    out, report = quantized(tmp_path, model, to="int8-weights", keep=["lstm", "then/*"])
    assert {"w", "r", "shared"} <= set(weights_of(out)) and "c" not in weights_of(out)
    becomes = {layer["node"]: layer["becomes"] for layer in report["layers"]}
    assert becomes == {"conv": "8-bit storage", "lstm": "float"}


# --- Ranges from a table, scales of each run, blocks as pairs -----------------------------------------------------------


def test_a_calibration_table_in_place_of_data(tmp_path):
    """Weft's own table gives the same scales as the data that made it; a layer that it omits stays in floats."""
    from_data, _ = quantized(tmp_path, convolutional(), pictures(), method="minmax", symmetric=True, keep_bias=True)
    held = weights_of(from_data)
    ranges = {name: [-127 * float(held[f"{name}_scale"]), 127 * float(held[f"{name}_scale"])] for name in ("x", "r1")}
    text = "TRT-8601-EntropyCalibration2\n" + "".join(f"{n}: {held[f'{n}_scale'].view(np.uint32):08x}\n" for n in ranges)
    for name, table in ("t.json", json.dumps(ranges)), ("t.txt", text):
        (tmp_path / name).write_text(table)
        out, report = quantized(tmp_path, convolutional(), symmetric=True, keep_bias=True, ranges=tmp_path / name)
        again = weights_of(out)
        np.testing.assert_allclose([again["x_scale"], again["r1_scale"]], [held["x_scale"], held["r1_scale"]], rtol=1e-6)
        (left,) = [layer for layer in report["layers"] if layer["becomes"] == "float"]
        assert left["node"] == "last" and "lacks its input" in left["why"] and report["loss"] is None


def test_a_calibration_table_beside_data(tmp_path):
    """The table gives the ranges of the inputs that it names, the data those of the other inputs."""
    (tmp_path / "t.json").write_text('{"x": [-8, 8]}')
    out, report = quantized(tmp_path, convolutional(), pictures(), ranges=tmp_path / "t.json")
    assert report["floats"] == 0 and weights_of(out)["x_scale"] == np.float32(16 / 255)


@pytest.mark.parametrize("text, words", [("", "no scale above 0"), ("x: zz", "8 hex digits"), ('{"x": 0}', "no scale above 0"),
                                         ('{"x": []}', "has no range"), ('{"x": ', "not a JSON object")])
def test_tables_that_are_none(tmp_path, text, words):
    (tmp_path / "table").write_text(text)
    with pytest.raises(weft.UsageError, match=words):
        quantized(tmp_path, convolutional(), ranges=tmp_path / "table")
    assert not (tmp_path / "out.onnx").exists()


def test_fp8_without_data_is_scaled_by_each_run(tmp_path):
    out, report = quantized(tmp_path, products(), to="fp8")
    assert report["quantised"] == 2 and report["loss"] is None
    for size in 1e-3, 1, 1e3:
        x = rows()[0] * np.float32(size)
        right = peer(tmp_path / "model.onnx", x)
        assert error(peer(out, x), right) < 0.06 and error(weft.compile(out, device="cpu")(x), right) < 0.06
    assert not weft.compile(out, device="cpu")(np.zeros((2, 64), "f")).any()


@pytest.mark.parametrize("to", WEIGHTS)
def test_blocks_as_dequantize_linear(tmp_path, to):
    """ONNX's own operators give the answers of MatMulNBits."""
    x, model = np.concatenate(rows(k=72)), products(k=72, n=40)
    pairs, _ = quantized(tmp_path, model, to=to, qdq=True)
    assert operators(pairs) == ["DequantizeLinear", "DequantizeLinear", "MatMul", "Relu", "MatMul"]
    assert onnx.load(pairs).opset_import[0].version == 21
    both = [peer(pairs, x), weft.compile(pairs, device="cpu")(x)]
    out, _ = quantized(tmp_path, model, to=to)
    for got in both:
        assert error(got, peer(out, x)) < (1e-2 if to == "int4" else 1e-3)  # MatMulNBits may round rows to 8 bits


class Endless:
    """Calibration data of 400 MiB, more than the memory that the test allows."""

    def __iter__(self):
        return (rng(i).standard_normal((4096, 64), np.float32) for i in range(400))


def test_memory_does_not_grow_with_the_data(tmp_path):
    import resource

    source = saved(tmp_path, products())
    weft.quantize(source, rows(), tmp_path / "out.onnx", threads=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    weft.quantize(source, Endless(), tmp_path / "out.onnx", threads=1)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10  # KiB


# --- Budgets ---------------------------------------------------------------------------------------------------------


def test_a_budget_keeps_the_layers_in_floats_that_cost_most(tmp_path):
    _, whole = quantized(tmp_path, convolutional(), pictures(), method="minmax")
    budget = whole["loss"] * 0.8
    out, report = quantized(tmp_path, convolutional(), pictures(), method="minmax", budget=budget)
    assert report["loss"] <= budget and 0 < report["quantised"] < 3 and len(report["evaluations"]) <= 20
    kept = [layer["node"] for layer in report["layers"] if layer.get("why") == "the budget"]
    assert len(kept) == report["floats"]
    x = np.concatenate(pictures())
    assert error(peer(out, x), peer(tmp_path / "model.onnx", x)) < budget * 1.2


def test_layers_that_four_bits_cost_too_much_get_eight(tmp_path):
    _, whole = quantized(tmp_path, products(), rows(), to="int4")
    out, report = quantized(tmp_path, products(), rows(), to="int4", budget=whole["loss"] * 0.9)
    assert report["loss"] <= whole["loss"] * 0.9 and (report["quantised"], report["floats"]) == (2, 0)
    forms = sorted(layer["becomes"] for layer in report["layers"])
    assert forms == ["int4", "int8-weights"]
    assert sorted(n.attribute[2].i for n in onnx.load(out).graph.node if n.op_type == "MatMulNBits") == [4, 8]
    x = np.concatenate(rows())
    assert error(weft.compile(out, device="cpu")(x), peer(out, x)) < 1e-2  # onnxruntime rounds rows to 8 bits in its own way


def test_a_budget_that_cannot_be_met_says_by_how_much(tmp_path):
    with pytest.raises(weft.UsageError, match="least loss found") as caught:
        quantized(tmp_path, convolutional(), pictures(), budget=1e-9)
    assert caught.value.code == "E221"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx"]


@pytest.mark.parametrize("share", [1.5, 0.9, 0.5, 0.1, 1e-6])
@pytest.mark.parametrize("to", ["int8", "fp8", "int8-dynamic", *WEIGHTS])
def test_budgets_of_every_target(tmp_path, to, share):
    """Either the answers of the file are within the budget, or the error states the least loss and no file is left."""
    model, data = products() if to in (*WEIGHTS, "int8-dynamic") else convolutional(), data_for(to)
    out, whole = quantized(tmp_path, model, data, to=to)
    out.unlink()
    budget, x = whole["loss"] * share, np.concatenate(data)
    try:
        out, report = quantized(tmp_path, model, data, to=to, budget=budget)
    except weft.UsageError as refused:
        least = re.search(r"budget of \S+ %: the least loss found is (\S+) %", str(refused))
        assert refused.code == "E221" and share < 1 and float(least[1]) / 100 > budget
        assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx"]
    else:
        assert report["loss"] <= budget and len(report["evaluations"]) <= 20
        assert error(weft.compile(out, device="cpu")(x), peer(tmp_path / "model.onnx", x)) < budget * 1.2


def test_a_metric_of_the_users(tmp_path):
    x, tried = np.concatenate(pictures()), []

    def metric(path):
        tried.append(path)
        return 1 - error(peer(path, x), right)

    right = peer(saved(tmp_path, convolutional()), x)
    _, report = quantized(tmp_path, convolutional(), pictures(), metric=metric, budget=0.5)
    assert len(tried) == 2 and 0 < report["loss"] < 0.05
    with pytest.raises(ZeroDivisionError):
        quantized(tmp_path, convolutional(), pictures(), metric=lambda path: 1 // 0, budget=0.5)
    assert not [p for p in tmp_path.iterdir() if "trial" in p.name]


# --- Refusals --------------------------------------------------------------------------------------------------------

BAD_DATA = {
    "no data": (None, "E220", "needs data"),
    "no item": ([], "E220", "no item"),
    "another rank": ([np.zeros((3, 8, 8), "f")], "E310", "item 0"),
    "another size": ([np.zeros((1, 3, 8, 8), "f"), np.zeros((1, 4, 8, 8), "f")], "E311", "item 1"),
    "another type": ([np.zeros((1, 3, 8, 8), "d")], "E310", "item 0"),
    "a NaN": ([np.zeros((1, 3, 8, 8), "f"), np.full((1, 3, 8, 8), np.nan, "f")], "E220", "item 1"),
    "another name": ([{"z": np.zeros((1, 3, 8, 8), "f")}], "E310", "no input 'z'"),
}


@pytest.mark.parametrize("to, case", [(to, case) for to in ("int8", "fp8", "int8-dynamic", "int4") for case in BAD_DATA
                                      if case != "no data" or to == "int8"])
def test_useless_data_is_refused(tmp_path, to, case):
    data, code, words = BAD_DATA[case]
    with pytest.raises(weft.UsageError, match=words) as caught:
        quantized(tmp_path, convolutional(), data, to=to)
    assert caught.value.code == code
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx"]


def test_a_model_that_is_quantised_already(tmp_path):
    out, _ = quantized(tmp_path, convolutional(), pictures())
    with pytest.raises(weft.UsageError, match="quantised already") as caught:
        weft.quantize(out, pictures(), tmp_path / "twice.onnx")
    assert caught.value.code == "E222" and not (tmp_path / "twice.onnx").exists()


def test_a_model_whose_products_are_all_in_bodies(tmp_path):
    model = with_bodies()
    del model.graph.node[:5], model.graph.initializer[:4]
    model.graph.input[0].CopyFrom(info("f", "n", 16))
    out, report = quantized(tmp_path, model, to="int4")
    assert report["quantised"] == 3 and onnx.load(out).graph.initializer[0].name == "shared_quantized"
    with pytest.raises(weft.UsageError, match="int8-weights takes weights in bodies"):
        quantized(tmp_path, model, [{"f": np.zeros((1, 16), "f"), "is_first": np.array(True)}])


def test_a_model_without_products(tmp_path):
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], [info("x", 2)], [info("y", 2)], {})
    with pytest.raises(weft.UsageError, match="no Conv, MatMul or Gemm"):
        quantized(tmp_path, model, [np.zeros(2, "f")])


def test_layers_that_are_always_zero(tmp_path):
    """Weights and inputs that are all 0 give exact results."""
    model = products()
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.zeros((64, 48), "f"), "w1"))
    out, report = quantized(tmp_path, model, rows())
    assert report["loss"] == 0 and not weft.compile(out, device="cpu")(rows()[0]).any()


@pytest.mark.parametrize("option, words", [({"to": "int7"}, "int7"), ({"method": "guess"}, "guess"),
                                           ({"weights": "awful"}, "awful"), ({"block": 48}, "48"),
                                           ({"percentile": 101.0}, "101"), ({"smooth": 1.5}, "1.5"),
                                           ({"weights": "awq"}, "awq"), ({"to": "int8-dynamic", "weights": "gptq"}, "gptq")])
def test_choices_that_there_are_not(tmp_path, option, words):
    with pytest.raises(weft.UsageError, match=words) as caught:
        quantized(tmp_path, convolutional(), pictures(), **option)
    assert caught.value.code == "E203"


def test_an_infinite_value_leaves_its_layer_in_floats(tmp_path):
    model = products()
    model.graph.node[1].CopyFrom(helper.make_node("Reciprocal", ["a"], ["b"]))
    data = [np.zeros((1, 64), "f")]
    _, report = quantized(tmp_path, model, data)
    assert [(layer["node"], layer["becomes"]) for layer in report["layers"]] == [("first", "int8"), ("second", "float")]
    assert "infinite" in report["layers"][1]["why"]


# --- The command line ------------------------------------------------------------------------------------------------


def test_the_command_reads_folders_and_stacked_arrays(tmp_path, weft_command):
    source, out = saved(tmp_path, convolutional()), tmp_path / "out.onnx"
    (tmp_path / "data").mkdir()
    for i, x in enumerate(pictures()):
        np.save(tmp_path / "data" / f"{i}.npy", x)
    np.savez(tmp_path / "all.npz", x=np.stack(pictures()))
    files = []
    for data in tmp_path / "data", tmp_path / "all.npz":
        done = weft_command("quantize", source, "-o", out, "--data", data, "--report", tmp_path / "r.json")
        assert done.returncode == 0, done.stderr
        assert "3 layers in int8, 0 in float" in done.stdout
        assert json.loads((tmp_path / "r.json").read_text())["quantised"] == 3
        files.append(out.read_bytes())
    assert files[0] == files[1]
    weft.quantize(source, pictures(), out)
    assert out.read_bytes() == files[0]


def test_the_command_writes_a_page_and_calibration_tables(tmp_path, weft_command):
    source = saved(tmp_path, convolutional())
    np.savez(tmp_path / "all.npz", x=np.stack(pictures()))
    files = {name: tmp_path / name for name in ("r.html", "t.json", "t.txt")}
    for report, table in ("r.html", "t.json"), ("r.html", "t.txt"):
        words = "-o", tmp_path / "out.onnx", "--data", tmp_path / "all.npz", "--method", "minmax", "--budget", "0.3%"
        done = weft_command("quantize", source, *words, "--report", files[report], "--table", files[table])
        assert done.returncode == 0, done.stderr
    page = files["r.html"].read_text()
    assert page.count("<svg") >= 7 and "second" in page and "What the search tried" in page and "<script" not in page
    x = np.stack(pictures())
    low, high = json.loads(files["t.json"].read_text())["x"]
    assert low == pytest.approx(x.min(), abs=0.03) and high == pytest.approx(x.max(), abs=0.03)
    (line,) = [text for text in files["t.txt"].read_text().splitlines() if text.startswith("x: ")]
    scale = np.array([int(line[3:], 16)], np.uint32).view("f")[0]
    assert scale == pytest.approx(max(-low, high) / 127)


def test_the_command_says_what_the_data_lacks(tmp_path, weft_command):
    source = saved(tmp_path, convolutional())
    np.savez(tmp_path / "bad.npz", x=np.zeros((3, 8), "f"))
    done = weft_command("quantize", source, "-o", tmp_path / "out.onnx", "--data", tmp_path / "bad.npz")
    assert done.returncode == 2 and "bad.npz holds f32[3,8], input 'x' is f32[n,3,8,8]" in done.stderr
    done = weft_command("quantize", source, "-o", tmp_path / "out.onnx")
    assert done.returncode == 2 and "E220" in done.stderr
    assert not (tmp_path / "out.onnx").exists()


def test_the_command_asks_a_metric(tmp_path, weft_command):
    source = saved(tmp_path, convolutional())
    np.savez(tmp_path / "all.npz", x=np.stack(pictures()))
    words = "quantize", source, "-o", tmp_path / "out.onnx", "--data", tmp_path / "all.npz", "--budget", "0.5%"
    done = weft_command(*words, "--metric", "wc -c <")
    assert done.returncode in (0, 2) and ("loss of the metric" in done.stdout or "E221" in done.stderr)
    done = weft_command(*words, "--metric", "echo no number; true")
    assert done.returncode == 2 and "E220" in done.stderr
