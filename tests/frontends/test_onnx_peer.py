# SPDX-License-Identifier: Apache-2.0
"""Forms of ONNX's operators that its own cases leave out: ref and cpu give the answers of onnxruntime's CPU
provider."""
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.numpy_helper import to_float8e8m0
from onnx.reference import ReferenceEvaluator

from test_microsoft import QUIET, floats, i32, weft


def judge(op, inputs, attributes=None, outputs=("y",), opset=21, domain="", free=(), tolerance=1e-4, constants=(), devices=("ref", "cpu")):
    """Compares an operator with onnxruntime. `free`: {(input, axis): name} for the sizes that stay open."""
    names = [f"i{i}" if value is not None else "" for i, value in enumerate(inputs)]
    feed = {name: np.asarray(value) for name, value in zip(names, inputs) if name}
    weights = [numpy_helper.from_array(feed.pop(f"i{i}"), f"i{i}") for i in constants]
    dims = {name: [dict(free).get((name, axis), size) for axis, size in enumerate(value.shape)] for name, value in feed.items()}
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), dims[name])
             for name, value in feed.items()]
    node = helper.make_node(op, names, outputs, "node", domain=domain, **(attributes or {}))
    graph = helper.make_graph([node], "graph", infos, [helper.make_empty_tensor_value_info(o) for o in outputs], weights)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    wanted = onnxruntime.InferenceSession(model, QUIET, providers=["CPUExecutionProvider"]).run(None, feed)
    for device in devices:
        answers = weft.compile(model, device=device).run(feed)
        for name, expected in zip(outputs, wanted):
            np.testing.assert_allclose(answers[name], expected, tolerance, tolerance, err_msg=f"{op} {name} on {device}")


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("pixels", ["half_pixel", "output_half_pixel"])
def test_regions_cut_as_fine_as_they_are_large(mode, pixels):
    boxes = np.array([[1, 1, 9, 6], [0, 0, 2.5, 3], [3, 2, 3.2, 9], [0, 0, 11, 9]], np.float32)
    judge("RoiAlign", [floats(2, 3, 10, 12), boxes, np.array([0, 1, 1, 0])],
          {"mode": mode, "output_height": 3, "output_width": 2, "sampling_ratio": 0, "coordinate_transformation_mode": pixels})


def test_largest_of_regions():
    boxes = np.array([[0, 1, 1, 9, 6], [1, 0, 0, 2.5, 3], [1, 3, 2, 3.2, 9], [0, -3, 0, 30, 9]], np.float32)
    judge("MaxRoiPool", [floats(2, 3, 10, 12), boxes], {"pooled_shape": [3, 4], "spatial_scale": 0.7})


@pytest.mark.parametrize("shape, axis", [((2, 4, 0), 1), ((4, 0), 0)])
def test_rows_of_no_columns_are_equal(shape, axis):
    from onnx.reference import ReferenceEvaluator

    x = np.zeros(shape, np.float32)
    node = helper.make_node("Unique", ["x"], ["y", "first", "inverse", "count"], axis=axis)
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None] * x.ndim)
    graph = helper.make_graph([node], "graph", [info], [helper.make_empty_tensor_value_info(o) for o in node.output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    wanted = ReferenceEvaluator(model).run(None, {"x": x})
    for device in ("ref", "cpu"):
        answers = weft.compile(model.SerializeToString(), device=device).run({"x": x})
        for name, expected in zip(node.output, wanted):
            np.testing.assert_array_equal(answers[name], expected, err_msg=f"{name} on {device}")


@pytest.mark.parametrize("size", [1, 2, 7, 30])
def test_determinants_and_inverses(size):
    matrices = floats(3, size, size)
    if size == 2:
        matrices[1, 0] = matrices[1, 1]  # singular
    judge("Det", [matrices / size**0.5], tolerance=1e-3)
    judge("Inverse", [floats(3, size, size)], domain="com.microsoft", tolerance=1e-2)


@pytest.mark.parametrize("groups, parts", [(1, 1), (2, 3)])
@pytest.mark.parametrize("masked", [False, True])
def test_deformed_convolution(groups, parts, masked):
    x, w = floats(2, 6, 9, 8), floats(4, 6 // groups, 3, 2)
    out = (2, 5)
    offset = floats(2, parts * 3 * 2 * 2, *out) * 2
    mask = floats(2, parts * 3 * 2, *out) if masked else None
    judge("DeformConv", [x, w, offset, floats(4), mask][:5 if masked else 4],
          {"group": groups, "offset_group": parts, "strides": [3, 2], "pads": [0, 1, 1, 2], "dilations": [2, 1]}, opset=22)


@pytest.mark.parametrize("cell, gates", [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_long_recurrences(cell, gates, direction):
    """Recurrences whose number of steps is known only in the run (300) match onnxruntime."""
    steps, batch, inputs, hidden = 300, 2, 5, 7
    directions = 2 if direction == "bidirectional" else 1
    judge(cell, [floats(steps, batch, inputs), floats(directions, gates * hidden, inputs) / 3,
                 floats(directions, gates * hidden, hidden) / 3, floats(directions, 2 * gates * hidden), i32(steps, 40)],
          {"hidden_size": hidden, "direction": direction}, ["y", "last"], free={("i0", 0): "steps", ("i0", 1): "batch", ("i4", 0): "batch"})


@pytest.mark.parametrize("cell, functions, alphas, betas", [
    ("LSTM", ["ScaledTanh", "Tanh", "HardSigmoid"], [1.2, 0.3], [0.7, 0.4]),
    ("LSTM", ["LeakyRelu", "HardSigmoid", "Affine"], [0.1, 0.3, 0.7], [0.4, 0.2]),
    ("LSTM", ["Sigmoid", "Softsign", "Elu"], [0.3], []),
    ("GRU", ["Sigmoid", "LeakyRelu"], [0.3], []),
    ("RNN", ["ThresholdedRelu"], [0.2], []),
], ids=lambda value: str(value))
@pytest.mark.parametrize("ways", [1, 2])
def test_parameters_of_activations(cell, functions, alphas, betas, ways):
    """Only functions that have a parameter take one from its list."""
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[cell]
    words = {"activation_beta": betas * ways} if betas else {}
    judge(cell, [floats(4, 2, 3), floats(ways, gates * 5, 3) / 3, floats(ways, gates * 5, 5) / 3, floats(ways, 2 * gates * 5)],
          {"hidden_size": 5, "activations": functions * ways, "activation_alpha": alphas * ways,
           "direction": "bidirectional" if ways == 2 else "forward", **words}, ["y", "h"])


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 2**62 + 1, 2**63 - 1, -(2**63)])
def test_integers_beyond_those_of_f64(value):
    nodes = [helper.make_node("Constant", [], ["c"], value_int=value), helper.make_node("Add", ["x", "c"], ["y"])]
    infos = [helper.make_tensor_value_info(name, TensorProto.INT64, [1]) for name in "xy"]
    model = helper.make_model(helper.make_graph(nodes, "graph", infos[:1], infos[1:]), opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    for device in "ref", "cpu":
        assert weft.compile(model.SerializeToString(), device=device).run({"x": np.zeros(1, np.int64)})["y"].tolist() == [value]


@pytest.mark.parametrize("constants, free", [([1, 2, 3, 4], {}), ([1, 2, 3, 4], {("i0", 0): "n"}), ([3, 4], {})], ids=["known", "free", "data"])
@pytest.mark.parametrize("size", [0, 5])
@pytest.mark.parametrize("start, end, step", [(-6, -100, -1), (-7, -10, -2), (-5, -100, -1), (-100, 100, -1), (-100, 3, 2), (7, -100, -3)])
def test_slices_that_start_outside(start, end, step, size, constants, free):
    """ONNX's text, unlike numpy, clamps a start before the first element to the first element, also backwards."""
    lists = [np.array([n]) for n in (start, end, 0, step)]
    judge("Slice", [floats(size), *lists], constants=constants, free=free)


@pytest.mark.parametrize("constants, free", [([1], {}), ([1], {("i0", 1): "n"}), ([], {})], ids=["known", "free", "data"])
@pytest.mark.parametrize("before, after", [(-1, 2), (2, -1), (-1, -1), (-2, 4), (0, -2), (3, 8)])
def test_pads_that_wrap_what_negative_ones_leave(before, after, constants, free):
    judge("Pad", [floats(2, 5), np.array([0, before, 1, after])], {"mode": "wrap"}, constants=constants, free=free)


@pytest.mark.parametrize("constants", [[1], []], ids=["known", "data"])
@pytest.mark.parametrize("scales", [(0.6, 0.6), (0.3, 0.85), (1.6, 0.7), (0.41, 2.3), (2.5, 1)], ids=str)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resize_of_opset_10(mode, scales, constants):
    """Nearest rounds up along axes that shrink."""
    judge("Resize", [floats(1, 2, 10, 8), np.array([1, 1, *scales], np.float32)], {"mode": mode}, opset=10, constants=constants)


@pytest.mark.parametrize("rounding", ["up", "down", "nearest"])
def test_powers_of_two(rounding):
    """Compares with onnx's helper, because onnxruntime lacks float8e8m0. Below 2^-126 that helper rounds up too far."""
    x = np.array([0, 1, 1.25, 1.5, 1.75, 3, 2.0**-126, 1e-30, 3e38, 0.7], np.float32)
    node = helper.make_node("Cast", ["x"], ["e"], to=TensorProto.FLOAT8E8M0, round_mode=rounding)
    back = helper.make_node("Cast", ["e"], ["y"], to=TensorProto.FLOAT)
    graph = helper.make_graph([node, back], "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [10])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [10])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)]).SerializeToString()
    for device in "ref", "cpu":
        answer = weft.compile(model, device=device).run({"x": x})["y"]
        np.testing.assert_array_equal(answer, to_float8e8m0(x, True, rounding).astype(np.float32), err_msg=device)


@pytest.mark.parametrize("free", [{}, {("i0", 2): "n", ("i0", 3): "m"}], ids=["fixed", "free"])
@pytest.mark.parametrize("scales, height", [((0.7, 1.5), 10), ((0.29, 0.1), 100), ((1.1, 2), 30)])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_sizes_that_scales_give(free, scales, height, mode):
    """10 * 0.7f is 7: the product is rounded to f32 before it is truncated."""
    judge("Resize", [floats(1, 2, height, 8), None, np.array([1, 1, *scales], np.float32)], {"mode": mode}, free=free, constants=[2])


@pytest.mark.parametrize("scales", [(0.7, 1.5), (2.3, 0.4), (1, 1)])
@pytest.mark.parametrize("words", [
    {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, {"mode": "nearest"},
    {"mode": "linear"}, {"mode": "linear", "antialias": 1},
    {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}, {"mode": "cubic", "exclude_outside": 1},
    {"mode": "cubic", "antialias": 1}], ids=lambda words: "-".join(map(str, words.values())))
def test_scales_that_only_the_run_tells(scales, words):
    judge("Resize", [floats(1, 2, 10, 8), None, np.array([1, 1, *scales], np.float32)], words)
    free = {("i0", 2): "n", ("i0", 3): "m"}
    judge("Resize", [floats(1, 2, 10, 8), None, np.array(scales, np.float32)], {**words, "axes": [2, 3]}, free=free)


@pytest.mark.parametrize("scales", [(0.7, 1.5), (2.3, 0.5)])
def test_corners_that_only_the_run_tells(scales):
    words = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    judge("Resize", [floats(1, 2, 10, 8), None, np.array([1, 1, *scales], np.float32)], words)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("constants", [[], [1], [2]], ids=["both", "scales", "roi"])
def test_regions_that_only_the_run_tells(mode, constants):
    """The scales give integer sizes, because onnx's reference and onnxruntime use different regions for other
    scales."""
    roi = np.array([0, 0, 0.2, -0.23, 1, 1, 0.9, 1.17], np.float32)
    words = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 3.5}
    judge("Resize", [floats(1, 2, 10, 8), roi, np.array([1, 1, 1.5, 0.75], np.float32)], words, constants=constants)
    judge("Resize", [floats(1, 2, 10, 8), roi, None, np.array([1, 2, 5, 9])], words)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller", "stretch"])
def test_ratios_that_only_the_run_tells(policy):
    words = {"mode": "linear", "keep_aspect_ratio_policy": policy, "axes": [2, 3]}
    judge("Resize", [floats(1, 2, 10, 8), None, None, np.array([7, 19])], words)
    judge("Resize", [floats(1, 2, 10, 8), None, None, np.array([7, 19])], words, free={("i0", 3): "m"}, constants=[3])


def test_upsampling_that_only_the_run_tells():
    judge("Upsample", [floats(1, 2, 5, 4), np.array([1, 1, 2, 3], np.float32)], {"mode": "linear"}, opset=9)


def test_heads_of_a_free_size():
    """The width is a run-time size. The head size and the scale 1 / sqrt(head size) follow from it, and a width that
    the number of heads does not divide is refused."""
    free = {(f"i{i}", 2): "width" for i in range(3)}
    inputs = [floats(2, 5, 24), floats(2, 7, 24), floats(2, 7, 24)]
    judge("MultiHeadAttention", inputs, {"num_heads": 3}, domain="com.microsoft", free=free)
    judge("Attention", inputs, {"q_num_heads": 3, "kv_num_heads": 3, "is_causal": 1}, opset=23, free=free)
    infos = [helper.make_tensor_value_info(f"i{i}", TensorProto.FLOAT, [1, 2, "width"]) for i in range(3)]
    node = helper.make_node("MultiHeadAttention", ["i0", "i1", "i2"], ["y"], domain="com.microsoft", num_heads=3)
    graph = helper.make_graph([node], "graph", infos, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=10)
    program = weft.compile(model.SerializeToString(), device="cpu")
    with pytest.raises(weft.Error, match="3 heads"):
        program.run({f"i{i}": floats(1, 2, 25) for i in range(3)})


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("device", ["ref", "cpu"])
def test_masks_shorter_than_the_keys(columns, free, device):
    """Keys for which the mask has no column are hidden, also with a mask of a single column. onnxruntime refuses such
    masks."""
    given = [floats(1, 2, 5, 4), floats(1, 2, 7, 4), floats(1, 2, 7, 4), floats(5, columns)]
    infos = [helper.make_tensor_value_info(f"i{i}", TensorProto.FLOAT, value.shape) for i, value in enumerate(given)]
    infos[3] = helper.make_tensor_value_info("i3", TensorProto.FLOAT, [5, "columns" if free else columns])
    node = helper.make_node("Attention", ["i0", "i1", "i2", "i3"], ["y"])
    graph = helper.make_graph([node], "graph", infos, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
    feed = {f"i{i}": value for i, value in enumerate(given)}
    wanted = ReferenceEvaluator(model).run(None, feed)[0]
    got = weft.compile(model.SerializeToString(), device=device).run(feed)["y"]
    np.testing.assert_allclose(got, wanted, 1e-5, 1e-5)


def test_scans_of_opset_8():
    """Scans of opset 8 have a batch axis in front, and each input has its own direction."""
    port = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [3])
    nodes = [helper.make_node("Add", ["state", "a"], ["sum"]), helper.make_node("Mul", ["sum", "b"], ["row"]), helper.make_node("Identity", ["sum"], ["out"])]
    body = helper.make_graph(nodes, "body", [port("state"), port("a"), port("b")], [port("out"), port("row")])
    inputs = [None, floats(2, 3), floats(2, 4, 3), floats(2, 4, 3) + 1]
    for directions in [0, 0], [1, 0], [0, 1]:
        judge("Scan", inputs, {"body": body, "num_scan_inputs": 2, "directions": directions}, ["last", "rows"], opset=8)


def test_scales_of_zeros():
    judge("DynamicQuantizeLinear", [np.zeros((2, 3), np.float32)], {}, ["y", "scale", "zero"])


@pytest.mark.parametrize("op, ports, words, feed, message", [
    ("Split", [("x", ["n"])], {"num_outputs": 3, "axis": 0}, [floats(1)], "parts before the last"),
    ("CausalConvWithState", [("x", [2, 4, 8]), ("w", [4, 1, 4]), ("b", [4]), ("s", [2, 4, "n"])], {},
     [floats(2, 4, 8), floats(4, 1, 4), floats(4), floats(2, 4, 20)], "past_state"),
])
def test_open_sizes_that_do_not_fit(op, ports, words, feed, message):
    """A run is refused if its sizes would give a wrong answer or a negative size."""
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in ports]
    names = [f"y{i}" for i in range(words.get("num_outputs", 2))]
    node = helper.make_node(op, [name for name, _ in ports], names, **words)
    graph = helper.make_graph([node], "graph", infos, [helper.make_empty_tensor_value_info(name) for name in names])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)], ir_version=12).SerializeToString()
    for device in "ref", "cpu":
        with pytest.raises(weft.Error, match=message):
            weft.compile(model, device=device).run({name: x for (name, _), x in zip(ports, feed)})


@pytest.mark.parametrize("device", ["ref", "cpu"])
def test_sizes_that_constants_have_in_a_run(device):
    """All operands are constants, but the size of Unique's result is known only in the run. Steps that depend on this
    size must not run at load time."""
    nodes = [helper.make_node("Unique", ["x"], ["u"]), helper.make_node("NonZero", ["u"], ["y"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT64, [1, None])]
    for number in 0, 3:
        graph = helper.make_graph(nodes, "graph", [], outputs, [helper.make_tensor("x", TensorProto.INT64, [1], [number])])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=10)
        y = weft.compile(model.SerializeToString(), device=device).run({})["y"]
        assert y.tolist() == ([[0]] if number else [[]])


def f32(*dims):
    return TensorProto.FLOAT, dims


def i64(*dims):
    return TensorProto.INT64, dims


@pytest.mark.parametrize("op, domain, ports, attributes, code", [
    ("OneHot", "", [f32(2, 2), f32(), f32()], {}, "E140"),
    ("BatchNormalization", "", [f32(), f32(), f32(), f32(), f32()], {}, "E140"),
    ("TopK", "", [f32(3, 4), i64(0)], {}, "E140"),
    ("ReverseSequence", "", [f32(2), i64(2)], {"batch_axis": 0, "time_axis": 1}, "E140"),
    ("CausalConvWithState", "", [f32(2, 4, 8), f32(4, 1, 0)], {}, "E140"),
    ("DynamicQuantizeMatMul", "com.microsoft", [f32(1, 17), (TensorProto.INT8, ()), f32()], {}, "E151"),
    ("Expand", "", [f32(3, 1), i64(2**63 - 1)], {}, "E122"),
    ("GridSample", "", [f32(28, 1, 4, 4), f32(1, 6, 6, 2)], {}, "E151"),
    ("NonMaxSuppression", "", [f32(1, 4, 4), f32(1, 4)], {}, "E151"),
    ("ArgMax", "", [f32(2, 0)], {"axis": 1}, "E151"),
])
def test_refused(op, domain, ports, attributes, code):
    """These sizes are refused. Each of them once caused a crash or an exception of the standard library; tests/mutants
    found them."""
    infos = [helper.make_tensor_value_info(f"i{i}", kind, dims) for i, (kind, dims) in enumerate(ports)]
    node = helper.make_node(op, [info.name for info in infos], ["y"], domain=domain, **attributes)
    graph = helper.make_graph([node], "graph", infos, [helper.make_empty_tensor_value_info("y")])
    opsets = [helper.make_opsetid("", 27), helper.make_opsetid("com.microsoft", 1)]
    with pytest.raises(weft.Error) as caught:
        weft.compile(helper.make_model(graph, opset_imports=opsets, ir_version=12).SerializeToString(), device="ref")
    assert caught.value.code == code
