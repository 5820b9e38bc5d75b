# SPDX-License-Identifier: Apache-2.0
"""Whole models on emulated AMD GPUs, compared with ref: kernels, launches, copies, the captured graph. The emulator
delays the work of streams as long as possible, so that a missing wait gives a wrong answer. Memory is NaN at first;
races and invalid addresses end a run. Of each test for several chips or models, a plain run takes a third of the cases,
a different third each day."""
import json
import os
import re
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import emulated

sys.path.insert(0, str(emulated.ROOT / "tests/codegen"))
import main_kernels

DIGITS = [emulated.ROOT / "examples/digits/digits.onnx", "--input", emulated.ROOT / "examples/digits/ten.npy"]
TEXT = [emulated.ROOT / "examples/text/text.onnx", "--at", "batch=2", "--at", "seq=9"]
MODELS = {"digits": DIGITS, "digits in f16": [*DIGITS, "--precision", "f16"], "text": TEXT}

BUDGETS = emulated.ROOT / "tests/amdemu/budgets.json"
COUNTED = ["instructions", "lines", "bank_conflicts"]
HEADROOM = 1.25  # how far counts may exceed the measurement in the file of budgets


def check_budgets(case, chip, measured):
    """Compares the emulator's counts of a run with a budget. WEFT_UPDATE=1 rewrites this budget instead."""
    budgets = json.loads(BUDGETS.read_text())
    if os.environ.get("WEFT_UPDATE"):
        budgets.setdefault(case, {})[chip] = measured
        BUDGETS.write_text(json.dumps(budgets, indent=1) + "\n")
        return
    known = budgets[case][chip]
    assert measured.keys() == known.keys(), "other kernels than the budgets are for; WEFT_UPDATE=1 accepts that"
    for name, budget in known.items():
        for counter, allowed in zip(COUNTED, budget):
            counted = measured[name][COUNTED.index(counter)]
            assert counted <= allowed * HEADROOM + 100, f"{name}: {counter} rose from {allowed} to {counted}; WEFT_UPDATE=1 accepts that"


def costs(kernels):
    return [emulated.total(kernels, name) for name in COUNTED]


@pytest.mark.rotates(3)
@pytest.mark.parametrize("chip", emulated.CHIPS)
@pytest.mark.parametrize("model", MODELS)
def test_model_equals_ref(model, chip, tmp_path):
    arguments = [*MODELS[model], "--device", "amd:0"]
    if "f16" in model:
        arguments += ["--norm", "1e-2"]
    done, kernels = emulated.counted(chip, tmp_path, "weft", "verify", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert emulated.total(kernels, "waves") > 0
    assert emulated.total(kernels, "matrix") > 0 or "f16" not in model
    check_budgets(model, chip, {"all kernels": costs(kernels)})


@pytest.mark.rotates(3)
@pytest.mark.parametrize("chip", emulated.CHIPS)
def test_main_kernels(chip, tmp_path, monkeypatch):
    """Each kernel family of tests/codegen/main_kernels.py runs alone, in f16, at an eighth of the sizes, and stays
    within its budgets."""
    monkeypatch.setenv("WEFT_GPU_MERGE", "0")
    path = tmp_path / "main_kernels.onnx"
    onnx.save(main_kernels.model(8), path)
    done, kernels = emulated.counted(chip, tmp_path, "weft", "verify", path, "--device", "amd:0", "--precision", "f16", "--norm", "1e-2")
    assert done.returncode == 0, done.stdout + done.stderr
    families = {}
    for kernel in kernels:
        families.setdefault(re.sub(r"_[0-9a-f]{6}$", "", kernel["kernel"]), []).append(kernel)
    check_budgets("main kernels in f16", chip, {name: costs(of) for name, of in sorted(families.items())})


def channel_attention(tokens, heads, wide):
    """Attention between channels, with queries and keys of length 1 along the tokens (XCiT): too wide for one kernel."""
    rng, channels = np.random.default_rng(tokens), heads * wide
    weights = {"w": rng.standard_normal((channels, 3 * channels)) / 8, "v": rng.standard_normal((channels, channels)) / 8}
    numbers = {"parts": [0, 0, 3, heads, wide], "joined": [0, 0, channels], "ones": [1, 1, 1], "first": [0], "tokens": [3]}
    steps = [("MatMul", "x w", "qkv", {}), ("Reshape", "qkv parts", "apart", {}), ("Transpose", "apart", "turned", {"perm": [2, 0, 3, 4, 1]}),
             ("Split", "turned ones", "q1 k1 v1", {"axis": 0})]
    for name in "qkv":
        steps += [("Squeeze", f"{name}1 first", f"{name}2", {})]
    for name in "qk":
        steps += [("ReduceL2", f"{name}2 tokens", f"{name}3", {"keepdims": 1}), ("Max", f"{name}3 least", f"{name}4", {}),
                  ("Div", f"{name}2 {name}4", f"{name}5", {})]
    steps += [("Transpose", "k5", "kt", {"perm": [0, 1, 3, 2]}), ("MatMul", "q5 kt", "cosines", {}), ("Softmax", "cosines", "s", {"axis": 3}),
              ("MatMul", "s v2", "mixed", {}), ("Transpose", "mixed", "back", {"perm": [0, 3, 1, 2]}), ("Reshape", "back joined", "flat", {}),
              ("MatMul", "flat v", "y", {})]
    constants = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    constants += [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in numbers.items()]
    constants += [numpy_helper.from_array(np.array(1e-2, np.float32), "least")]
    nodes = [helper.make_node(op, ins.split(), outs.split(), **attributes) for op, ins, outs, attributes in steps]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", tokens, channels])] for name in "xy"]
    return helper.make_model(helper.make_graph(nodes, "channels", *ends, constants), opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize(("chip", "precision"), [("gfx942", "f16"), ("gfx1100", "f32"), ("gfx1201", "bf16")])
@pytest.mark.parametrize("sizes", [(300, 2, 16), (519, 3, 20)])
def test_channel_attention(chip, precision, sizes, tmp_path):
    """The lengths divide the product; they are summed along the channels, where the operands are dense; and the second
    product stores its result in the order of its reader."""
    onnx.save(channel_attention(*sizes), tmp_path / "channels.onnx")
    done, kernels = emulated.counted(chip, tmp_path, "weft", "verify", tmp_path / "channels.onnx", "--device", "amd:0", "--at", "n=2",
                                     "--precision", precision, *(["--norm", "2e-2"] if precision != "f32" else []))
    assert done.returncode == 0, done.stdout + done.stderr
    moves = [k for k in kernels if k["kernel"].startswith(("pointwise", "copy"))]
    assert emulated.total(moves, "launches") == 2, moves  # the two weights, when the program is loaded
    assert all(k["bytes"] > 16 * k["lines"] for k in kernels if k["kernel"].startswith("reduce")), kernels


@pytest.mark.parametrize(("chip", "precision"), [("gfx942", "f16"), ("gfx1100", "f32")])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_a_last_resize(chip, precision, mode, tmp_path):
    """A resize that ends the network reads the channels-last picture and writes channels first; nothing is copied."""
    weights = np.random.default_rng(1).standard_normal((21, 8, 1, 1)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Resize", ["c", "", "", "sizes"], ["y"], mode=mode)]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)] for name, dims in [("x", ["n", 8, 5, 6]), ("y", ["n", 21, 19, 50])]]
    constants = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array([2, 21, 19, 50], np.int64), "sizes")]
    graph = helper.make_graph(nodes, "resized", *ends, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "m.onnx")
    done, kernels = emulated.counted(chip, tmp_path, "weft", "verify", tmp_path / "m.onnx", "--device", "amd:0", "--at", "n=2",
                                     "--precision", precision, *(["--norm", "1e-2"] if precision != "f32" else []))
    assert done.returncode == 0, done.stdout + done.stderr
    result = 2 * 21 * 19 * 50 * 4
    assert not [k for k in kernels if not k["kernel"].startswith("resize") and k["bytes"] > result], kernels


def test_small_reductions(tmp_path):
    """Small reductions that are independent share a launch. Those that depend on each other do not: they have barriers."""
    steps = [("ReduceMax x", "most"), ("ReduceMin x", "least"), ("Div x most", "z"), ("ReduceSum z", "sum"), ("Mul z sum", "y")]
    nodes = [helper.make_node(words.split()[0], words.split()[1:], [out]) for words, out in steps]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 9])
    ends = [x], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "least")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "small", *ends), opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "m.onnx")
    done, kernels = emulated.counted("gfx1100", tmp_path, "weft", "verify", tmp_path / "m.onnx", "--device", "amd:0", "--at", "n=7")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [k["kernel"] for k in kernels if k["kernel"].startswith("reduce") and "_and_1_more" in k["kernel"]], kernels


def test_decoder_with_caches(tmp_path, monkeypatch):
    """The answers of a decoder in f16 are right. Launches are merged, and attention reads the cache only up to the last
    token."""
    model = tmp_path / "decoder.onnx"
    monkeypatch.syspath_prepend(str(emulated.ROOT / "bench"))
    import gpu_decoder

    gpu_decoder.write_model(model, "tiny", 64)
    for name, array in gpu_decoder.feeds("tiny", 40, 64).items():
        gpu_decoder.np.save(tmp_path / f"{name}.npy", array)
    inputs = [word for file in tmp_path.glob("*.npy") for word in ("-i", f"{file.stem}={file}")]
    sizes = ["--symbol", "batch=1", "--symbol", "room=64"]
    done, kernels = emulated.counted("gfx1100", tmp_path, "weft", "verify", model, *inputs, *sizes, "--device", "amd:0", "--norm", "1e-2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert any("_more_" in kernel["kernel"] for kernel in kernels)


def save(graph, path):
    made = onnx.helper.make_graph(graph.nodes, path.stem, graph.inputs, graph.outputs, graph.weights)
    onnx.save(onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9), path)
    return path


@pytest.mark.rotates(3)
@pytest.mark.parametrize("precision", ["f32", "f16"])
@pytest.mark.parametrize("chip", emulated.CHIPS)
def test_blocks_share_k_of_convolutions(chip, precision, tmp_path):
    """Convolutions of few pixels and many channels are split along k: a second kernel adds the parts and runs the
    epilogue. One convolution has two groups with channels that do not fill whole vectors; another has int8 inputs and
    pads with a value other than zero. A quantised convolution with a short k is not split."""
    g = main_kernels.Graph()
    image = g.stored("image", 1, 264, 4, 5)
    y = g.node("Conv", image, g.weight("w", 24, 264, 3, 3), g.weight("bias", 24), pads=[1, 1, 1, 1])
    g.output(g.node("Relu", g.node("Add", y, g.input("residual", 1, 24, 4, 5))))
    two = g.node("Conv", g.stored("wide", 1, 528, 3, 3), g.weight("w2", 10, 264, 3, 3), g.weight("bias2", 10), pads=[1, 1, 1, 1], group=2)
    g.output(g.node("Sigmoid", two))
    ints = g.input("bytes", 1, 464, 3, 4, type=onnx.TensorProto.INT8)
    w8 = g.weight("w8", 8, 464, 3, 3, type=np.int8)
    g.output(g.node("ConvInteger", ints, w8, g.constant("zero", np.int8(3)), pads=[1, 1, 1, 1]), onnx.TensorProto.INT32)
    q = g.node("QuantizeLinear", g.input("few", 1, 16, 5, 6), g.constant("scale", np.float32(0.02)), g.constant("at", np.int8(-7)))
    each = [g.constant("w_scale", np.float32([0.01, 0.03] * 5)), g.constant("w_zero", np.zeros(10, np.int8))]
    rounded = [g.constant("y_scale", np.float32(0.05)), g.constant("y_zero", np.int8(4))]
    g.output(g.node("QLinearConv", q, "scale", "at", g.weight("w10", 10, 16, 3, 3, type=np.int8), *each, *rounded), onnx.TensorProto.INT8)
    model = save(g, tmp_path / "convolutions.onnx")
    limit = ["--norm", "1e-2"] if precision == "f16" else []
    done, kernels = emulated.counted(chip, tmp_path, "weft", "verify", model, "--device", "amd:0", "--precision", precision, *limit)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len([kernel for kernel in kernels if kernel["kernel"].startswith("add_parts")]) == 3


ANY_SIZE = """
import sys
import numpy as np
import weft
folder = sys.argv[1]
model = weft.compile(folder + "/any_size.onnx", device="amd:0", precision="f16")
judge = weft.compile(folder + "/any_size.onnx", device="ref")
random = np.random.default_rng(5)
for rows, images in [(1, 1), (1500, 3), (2, 1), (1, 160), (40, 1), (1500, 160), (3, 2)]:
    x = random.standard_normal((rows, 64), np.float32)
    image = random.standard_normal((images, 16, 5, 6), np.float32)
    for got, wanted in zip(model.run({"x": x, "image": image}).values(), judge.run({"x": x, "image": image}).values()):
        assert np.linalg.norm(got - wanted) <= 1e-2 * np.linalg.norm(wanted), (rows, images)
"""


@pytest.mark.rotates(3)
@pytest.mark.parametrize("chip", emulated.CHIPS)
def test_tiles_for_any_size(chip, tmp_path):
    """One program works for few rows and for many: each run launches the tiles for its own sizes, not those of the run
    before. Two products share a launch."""
    g = main_kernels.Graph()
    x, image = g.stored("x", "rows", 64), g.input("image", "images", 16, 5, 6)
    for i in range(2):
        g.output(g.node("Softmax", g.node("MatMul", x, g.weight(f"w{i}", 64, 640)), axis=-1))
    g.output(g.node("Conv", image, g.weight("filter", 160, 16, 3, 3), g.weight("bias", 160), pads=[1, 1, 1, 1]))
    save(g, tmp_path / "any_size.onnx")
    done, kernels = emulated.counted(chip, tmp_path, sys.executable, "-c", ANY_SIZE, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    of = {family: {k["kernel"] for k in kernels if k["kernel"].startswith(family)} for family in ("dot", "conv")}
    assert len(of["dot"]) >= 3 and len(of["conv"]) >= 2, of


@pytest.mark.rotates(3)
@pytest.mark.parametrize("chip", emulated.CHIPS)
def test_rows_masked_by_the_lowest_number(chip, tmp_path):
    """Rows whose keys are all masked, as in BERT, give finite numbers. The mask is the lowest f32, which f16 cannot
    represent; rounded to -inf it would give NaN."""
    g = main_kernels.Graph()
    batch, length, heads, d = 2, 24, 2, 16
    x = g.stored("x", batch, length, heads * d)
    seen = g.node("Cast", g.input("seen", batch, length, type=onnx.TensorProto.INT64), to=onnx.TensorProto.FLOAT)
    hidden = g.node("Sub", g.constant("one", np.float32([1])), seen)
    bias = g.node("Mul", hidden, g.constant("lowest", np.float32([np.finfo(np.float32).min])))
    bias = g.node("Unsqueeze", bias, g.constant("axes", np.array([1, 2])))
    parts = []
    for name in ("q", "k", "v"):
        y = g.node("MatMul", x, g.weight(f"w{name}", heads * d, heads * d))
        y = g.node("Reshape", y, g.constant(f"shape{name}", np.array([batch, length, heads, d])))
        parts.append(g.node("Transpose", y, perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]))
    weights = g.node("Softmax", g.node("Add", g.node("MatMul", parts[0], parts[1]), bias), axis=-1)
    g.output(g.node("MatMul", weights, parts[2]))
    means = g.node("Add", g.node("Mul", g.node("MatMul", parts[0], parts[1]), g.constant("scale", np.float32([0.25]))), bias)
    g.output(g.node("Softmax", means, axis=-1))
    seen = np.zeros((batch, length), np.int64)
    seen[1, 9:17] = 1
    np.save(tmp_path / "seen.npy", seen)
    done, kernels = emulated.counted(chip, tmp_path, "weft", "verify", save(g, tmp_path / "masked.onnx"), "-i", f"seen={tmp_path}/seen.npy",
                                     "--device", "amd:0", "--precision", "f16", "--norm", "1e-2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert any(kernel["kernel"].startswith("attention_f16") for kernel in kernels)


def attention_in_windows(outer, heads, keys, d, masks):
    """Returns attention of tensors [batch, *outer, heads, keys, d] with an open batch, as exporters write it: keys are
    scaled before the transpose, and each mask is added to the scores."""
    g = main_kernels.Graph()
    axes = ["batch", *outer, *([heads] if heads else [])]
    q, k, v = (g.stored(name, *axes, keys, d) for name in ("q", "k", "v"))
    last = len(axes)
    k = g.node("Mul", k, g.constant("scale", np.float32([d**-0.5])))
    scores = g.node("MatMul", q, g.node("Transpose", k, perm=[*range(last), last + 1, last]))
    for i, sizes in enumerate(masks):
        scores = g.node("Add", scores, g.input(f"mask{i}", *sizes))
    y = g.node("MatMul", g.node("Softmax", scores, axis=-1), v)
    g.output(g.node("Transpose", y, perm=[*range(last - 1), last, last - 1, last + 1]))
    return g


def image_of_windows():
    """Returns a model that splits an image into windows, joins windows to an image again, and convolves it."""
    g = main_kernels.Graph()
    x = g.node("Conv", g.input("x", "batch", 4, 6, 20), g.weight("first", 8, 4, 1, 1))
    for i, (split, order) in enumerate((([0, 8, 2, 3, 5, 4], [0, 2, 4, 3, 5, 1]), ([0, 8, 3, 2, 4, 5], [0, 3, 5, 2, 4, 1]))):
        x = g.node("Transpose", g.node("Reshape", x, g.constant(f"split{i}", np.array(split))), perm=order)
        windows = [split[a] for a in order]
        rows = g.node("Reshape", x, g.constant(f"rows{i}", np.array([0, windows[1] * windows[2], windows[3] * windows[4], 8])))
        rows = g.node("Add", rows, g.node("MatMul", rows, g.weight(f"mix{i}", 8, 8)))
        x = g.node("Reshape", rows, g.constant(f"apart{i}", np.array(windows)))
        x = g.node("Transpose", x, perm=[order.index(a) for a in range(6)])
        x = g.node("Reshape", x, g.constant(f"image{i}", np.array([0, 8, 6, 20])))
    x = g.node("Mul", x, g.weight("scale", 1, 8, 1, 1))
    g.output(g.node("Conv", x, g.weight("filter", 8, 8, 3, 3), pads=[1, 1, 1, 1]))
    return g


WINDOWS = {
    "3 axes": attention_in_windows([], None, 20, 24, [[20, 20], ["batch", 1, 20]]),
    "5 axes": attention_in_windows([4], 3, 9, 16, [[1, 3, 9, 9]]),
    "5 axes, masks of windows": attention_in_windows([4], 3, 9, 16, [[3, 9, 9], [1, 4, 1, 9, 9]]),
    "5 axes, masks of images": attention_in_windows([4], 3, 9, 16, [["batch", 1, 1, 1, 9]]),
    "6 axes": attention_in_windows([2, 3], 2, 17, 8, [[2, 17, 17], [2, 1, 1, 17, 1], ["batch", 1, 1, 2, 1, 17]]),
}


@pytest.mark.parametrize("columns", [130, 131, 132])
def test_gates_of_open_rows(columns, tmp_path):
    """Parts of a matrix multiply the same rows, whose number is open, and their columns fill no whole vectors."""
    g = main_kernels.Graph()
    x, w = g.input("x", "n", 32), g.input("w", 32, 2 * columns)
    parts = []
    for part in range(2):
        ends = [g.constant(f"{name}{part}", np.array([at])) for name, at in (("from", part * columns), ("to", (part + 1) * columns))]
        parts.append(g.node("MatMul", x, g.node("Slice", w, *ends, g.constant(f"axis{part}", np.array([1])))))
    g.output(g.node("Mul", parts[0], g.node("Sigmoid", parts[1])))
    path = save(g, tmp_path / "gates.onnx")
    for rows in (3, 64, 70):
        done, _ = emulated.counted("gfx942", tmp_path, "weft", "verify", path, "--at", f"n={rows}", "--device", "amd:0")
        assert done.returncode == 0, done.stdout + done.stderr


def test_vector_of_zeros(tmp_path):
    """A vector of zeros divided by its norm is 0, also where the least norm, 1e-12, is 0 in f16, or its reciprocal infinite."""
    g = main_kernels.Graph()
    x = g.node("Mul", g.input("x", 2, 8, 64), g.constant("seen", np.float32([1, 1, 0, 1, 1, 1, 1, 1]).reshape(8, 1)))
    norm = g.node("ReduceL2", x, g.constant("last", np.array([2])), keepdims=1)
    unit = g.node("Div", x, g.node("Clip", norm, g.constant("least", np.float32(1e-12))))
    g.output(g.node("MatMul", unit, g.weight("w", 64, 8)))
    least = g.node("Max", g.node("ReduceSumSquare", x, g.constant("rows", np.array([2])), keepdims=1), g.constant("square", np.float32(1e-12)))
    inverse = g.node("Reciprocal", g.node("Sqrt", least))
    g.output(g.node("MatMul", g.node("Mul", x, inverse), g.weight("w2", 64, 8)))
    path = save(g, tmp_path / "unit.onnx")
    for precision in ("f32", "f16", "bf16"):
        done, _ = emulated.counted("gfx942", tmp_path, "weft", "verify", path, "--device", "amd:0", "--precision", precision)
        assert done.returncode == 0, done.stdout + done.stderr


def verified_windows(graph, folder):
    """Compares the CPU and emulated GPUs with ref; yields each precision on a GPU with the kernels that ran."""
    path = save(graph, folder / "windows.onnx")
    for chip, device in (("gfx1100", "amd:0"), ("gfx942", "amd:0"), ("gfx942", "cpu")):
        for precision, words in (("f32", []), ("f16", ["--norm", "1e-2"])):
            done, kernels = emulated.counted(chip, folder, "weft", "verify", path, "--at", "batch=2", "--device", device,
                                             "--precision", precision, *words)
            assert done.returncode == 0, done.stdout + done.stderr
            if device != "cpu":
                yield precision, kernels


@pytest.mark.rotates(3)
@pytest.mark.parametrize("name", WINDOWS)
def test_attention_in_windows(name, tmp_path):
    """One kernel computes attention with any number of batch axes, also with masks that differ along some of them."""
    for precision, kernels in verified_windows(WINDOWS[name], tmp_path):
        assert any(k["kernel"].startswith(f"attention_{precision}") for k in kernels), kernels
        assert not any(k["kernel"].startswith(("dot", "softmax")) for k in kernels), kernels


def test_image_of_windows(tmp_path):
    """A copy that joins windows to an image stores channels last, so that only the input is copied to this layout."""
    assert len(list(verified_windows(image_of_windows(), tmp_path))) == 4
    plan = emulated.run("gfx942", "weft-plan", tmp_path / "windows.onnx", "amd:gfx942").stdout
    assert plan.count("its reader needs channels side by side") == 1, plan


GROUPED = [  # operator, groups, channels in and out of a group, stride, dilation
    ("Conv", 8, 4, 4, 1, 1), ("Conv", 8, 8, 8, 2, 1), ("Conv", 16, 2, 3, 1, 2), ("Conv", 16, 1, 2, 1, 1), ("Conv", 5, 8, 6, 1, 1),
    ("ConvTranspose", 8, 4, 4, 2, 1), ("ConvTranspose", 4, 8, 6, 1, 1),
]


@pytest.mark.rotates(3)
@pytest.mark.parametrize(("op", "groups", "inner", "outer", "stride", "dilation"), GROUPED)
def test_joined_groups(op, groups, inner, outer, stride, dilation, tmp_path):
    """Small groups of a convolution become larger ones, whose weights are zero between the old groups."""
    random, channels = np.random.default_rng(2), groups * inner
    shape = (groups * outer, inner, 3, 3) if op == "Conv" else (channels, outer, 3, 3)
    weights = {"pointwise": random.standard_normal((channels, 3, 1, 1)), "grouped": random.standard_normal(shape) / 9}
    nodes = [helper.make_node("Conv", ["x", "pointwise"], ["a"]),
             helper.make_node(op, ["a", "grouped"], ["y"], group=groups, pads=[dilation] * 4, strides=[stride] * 2, dilations=[dilation] * 2)]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)] for name, dims in (("x", ["n", 3, 7, 6]), ("y", None))]
    constants = [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()]
    graph = helper.make_graph(nodes, "grouped", *ends, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "m.onnx")
    for chip, precision in (("gfx942", "f16"), ("gfx1100", "bf16"), ("gfx1201", "f32")):
        folder = tmp_path / chip
        folder.mkdir()
        done, kernels = emulated.counted(chip, folder, "weft", "verify", tmp_path / "m.onnx", "--device", "amd:0", "--at", "n=2",
                                         "--precision", precision, *(["--norm", "2e-2"] if precision != "f32" else []))
        assert done.returncode == 0, done.stdout + done.stderr
        assert any(k["kernel"].startswith("joined_groups") for k in kernels) == (precision != "f32" and groups % 2 == 0), kernels


def shuffled_units(batch, channels, side):
    """Returns two units of ShuffleNet: groups are joined and interleaved, and one half goes on to convolutions."""
    random, nodes, constants = np.random.default_rng(3), [], []

    def add(op, *operands, outputs=1, **attributes):
        names = [f"v{len(nodes)}_{k}" for k in range(outputs)]
        for k, operand in enumerate(operands):
            if isinstance(operand, np.ndarray):
                constants.append(numpy_helper.from_array(operand, f"{names[0]}_{k}"))
        operands = [o if isinstance(o, str) else f"{names[0]}_{k}" for k, o in enumerate(operands)]
        nodes.append(helper.make_node(op, operands, names, **attributes))
        return names if outputs > 1 else names[0]

    def conv(x, inner=channels, kernel=1, **attributes):
        return add("Conv", x, (random.standard_normal((channels, inner, kernel, kernel)) / inner**0.5 / kernel).astype(np.float32), **attributes)

    parts = [conv("x"), add("Relu", conv("x"))]
    for _ in range(2):
        split = add("Reshape", add("Concat", *parts, axis=1), np.array([batch, 2, channels, side, side]))
        joined = add("Reshape", add("Transpose", split, perm=[0, 2, 1, 3, 4]), np.array([batch, 2 * channels, side, side]))
        first, second = add("Split", joined, outputs=2, axis=1, num_outputs=2)
        deep = conv(add("Relu", conv(second)), 1, 3, group=channels, pads=[1] * 4)
        parts = [first, add("Relu", conv(deep))]
    nodes.append(helper.make_node("Concat", parts, ["y"], axis=1))
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)] for name, dims in (("x", [batch, channels, side, side]), ("y", None))]
    return helper.make_model(helper.make_graph(nodes, "shuffled", *ends, constants), opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize(("batch", "channels", "side", "chip"), [(1, 10, 7, "gfx942"), (2, 12, 5, "gfx1201")])
def test_shuffled_channels(batch, channels, side, chip, tmp_path):
    """Kernels write groups of channels to their places between those of the other group; no copy shuffles them."""
    onnx.save(shuffled_units(batch, channels, side), tmp_path / "m.onnx")
    for precision in ("f16", "f32"):
        done = emulated.run(chip, "weft", "verify", tmp_path / "m.onnx", "--device", "amd:0", "--precision", precision,
                            *(["--norm", "2e-2"] if precision != "f32" else []))
        assert done.returncode == 0, done.stdout + done.stderr
        plan = emulated.run(chip, "weft-plan", tmp_path / "m.onnx", f"amd:{chip}", "--precision", precision).stdout
        assert "strides cannot express this view" not in plan, plan


def test_sizes_in_inputs(tmp_path):
    """The length of a cache is the value of an input: this value is read before each run, even if nothing else has
    changed."""
    node = onnx.helper.make_node("GroupQueryAttention", ["q", "k", "v", "old_k", "old_v", "last", "total"], ["y", "new_k", "new_v"],
                                 domain="com.microsoft", num_heads=2, kv_num_heads=1)
    shapes = {"q": [1, 1, 16], "k": [1, 1, 8], "v": [1, 1, 8], "old_k": [1, 1, "past", 8], "old_v": [1, 1, "past", 8]}
    inputs = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims) for name, dims in shapes.items()]
    inputs += [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT32, dims) for name, dims in (("last", [1]), ("total", []))]
    outputs = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("y", "new_k", "new_v")]
    model = tmp_path / "cache.onnx"
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "cache", inputs, outputs), ir_version=9, opset_imports=[
        onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("com.microsoft", 1)]), model)

    def run(verb, total, *options):
        np.save(tmp_path / "last.npy", np.array([4], np.int32))
        np.save(tmp_path / "total.npy", np.array(total, np.int32))
        given = [word for name in ("last", "total") for word in ("-i", f"{name}={tmp_path / name}.npy")]
        return emulated.run("gfx942", "weft", verb, model, *given, "--at", "past=4", "--device", "amd:0", *options)

    for done in (run("verify", 5), run("verify", 9), run("perf", 7, "--on-device", "-n", "2")):
        assert done.returncode == 0, done.stdout + done.stderr
    assert "E314" in run("run", -3, "--fill", "rand").stderr


def test_order_of_work_does_not_matter(tmp_path):
    """Answers stay right if work groups alternate after a few instructions, and if work runs as soon as it is
    submitted."""
    for options in ({"resident": 4, "quantum": 50}, {"eager": 1}):
        done = emulated.run("gfx1100", "weft", "verify", *DIGITS, "--device", "amd:0", **options)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.rotates(3)
@pytest.mark.parametrize("chip", emulated.CHIPS)
def test_two_contexts_on_two_streams(chip):
    """Captured graphs run on two streams of the caller; events order them with a third stream that copies. Other
    threads run on streams of the library."""
    done = emulated.run(chip, "weft-amd-streams", DIGITS[0], TEXT[0])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("largest difference") == 2


def test_two_chips_in_one_process():
    done = emulated.run("gfx1100,gfx942", "weft", "devices", "-v")
    assert "gfx1100" in done.stdout and "gfx942" in done.stdout, done.stdout + done.stderr
    done = emulated.run("gfx1100,gfx942", "weft", "verify", *DIGITS, "--device", "amd:1")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.rotates(3)
@pytest.mark.parametrize("chip", emulated.CHIPS)
@pytest.mark.parametrize("model", ["digits", "text"])
def test_checked_kernels_run_right(model, chip, monkeypatch):
    monkeypatch.setenv("WEFT_CHECKED", "1")
    done = emulated.run(chip, "weft", "verify", *MODELS[model], "--device", "amd:0")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("chip", ["gfx1100", "gfx942"])
@pytest.mark.parametrize("fault, words", [
    ("none", "40"),
    ("store", "kernel planted touches bytes 160 to 164 of the 160 of buffer 1 (y), which lie outside it"),
    ("load", "kernel planted touches bytes -4 to 0 of the 160 of buffer 0 (x), which lie outside it"),
    ("lanes", "kernel planted touches bytes 132 to 164 of the 160 of buffer 0 (x), which lie outside it"),
    ("race", "which another task of the step has written"),
    ("unwritten", "kernel planted touches bytes 28 to 32 of the 160 of buffer 1 (y), which nobody has written"),
    ("index", "index 40 is outside [-40, 39]")])
def test_a_checked_kernel_that_leaves_its_memory_is_named(chip, fault, words, monkeypatch):
    monkeypatch.setenv("WEFT_CHECKED", "1")
    done = emulated.run(chip, "weft-gpu-checked", "amd:0", fault)
    assert words in done.stdout, done.stdout + done.stderr
    assert fault == "none" or "node 0 'plant' (Planted)" in done.stdout
    assert done.returncode == (fault != "none")
