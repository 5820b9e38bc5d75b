# SPDX-License-Identifier: Apache-2.0
"""Infinities, NaN, -0 and the ends of a type's range: rewritten expressions keep the answers of those that were written."""
import os
import pathlib
import sys

import numpy as np
import pytest
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build" / "release")) / "python"))

import weft

f16, f32, f64 = np.float16, np.float32, np.float64
INF = float("inf")


def run(nodes, feeds, constants=None, opset=18, device="cpu"):
    """Returns y; `nodes` are (operator, inputs, output, attributes)."""
    ports = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape) for name, value in feeds.items()]
    steps = [helper.make_node(op, ins.split() if isinstance(ins, str) else ins, [out], **attributes) for op, ins, out, attributes in nodes]
    fixed = [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(steps, "special", ports, [helper.make_empty_tensor_value_info("y")], fixed)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    return weft.compile(model.SerializeToString(), device=device).run(feeds)["y"]


@pytest.mark.parametrize(("op", "dtype", "c", "d", "x"), [
    ("Mul", f16, 300, 300, (0, 0.001, 0.5, 1)),
    ("Mul", f16, 1e-4, 1e-4, (0, 60000, 30000)),
    ("Mul", f32, 1e30, 1e30, (0, 1e-40, 1e-30)),
    ("Mul", f32, 1e-30, 1e-20, (0, 1e38, 1e20)),
    ("Mul", f64, 1e200, 1e200, (0, 1e-300, 1e-200)),
    ("Add", f16, 40000, 40000, (-60000, -30000)),
    ("Add", f32, 3e38, 3e38, (-3e38, -1)),
    ("Add", f32, 12582912, -12582912, (0.2, 1.5, 2.5, -3.49, 1e-3)),  # rounds to whole numbers
])
def test_two_constants(op, dtype, c, d, x):
    x, c, d = np.array(x, dtype), dtype(c), dtype(d)
    y = run([(op, "x c", "t", {}), (op, "t d", "y", {})], {"x": x}, {"c": c, "d": d})
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_allclose(y, x * c * d if op == "Mul" else x + c + d, rtol=2e-3 if dtype == f16 else 1e-6)


@pytest.mark.parametrize("exponent", [0.5, -0.5])
@pytest.mark.parametrize("before", ["Identity", "Abs", "Neg", "Reciprocal"])
def test_roots(exponent, before):
    x = np.array([-INF, -2, -0.0, 0, 4, INF, np.nan], f32)
    y = run([(before, "x", "t", {}), ("Pow", "t c", "r", {}), ("Reciprocal", "r", "y", {})], {"x": x}, {"c": f32(exponent)})
    with np.errstate(all="ignore"):
        t = {"Identity": np.array, "Abs": np.abs, "Neg": np.negative, "Reciprocal": np.reciprocal}[before](x)
        wanted = 1 / np.power(t, np.full(7, exponent, f32))  # the reciprocal shows the sign of 0
    np.testing.assert_allclose(y, wanted, rtol=1e-6)


@pytest.mark.parametrize("bounds", [{}, {"min": 0.0}, {"max": 6.0}, {"min": -INF, "max": INF}])
def test_clip_with_attributes(bounds):
    """Bounds that are not given are the lowest and the greatest f32."""
    x = np.array([-INF, -2, 0.5, 7, INF, np.nan], f32)
    limits = np.finfo(f32)
    y = run([("Clip", "x", "y", bounds)], {"x": x}, opset=6)
    np.testing.assert_array_equal(y, np.clip(x, bounds.get("min", limits.min), bounds.get("max", limits.max)))


def with_nan(rng, shape, dtype):
    """Returns small whole numbers, some infinities, and some NaN of both signs."""
    x, kind = rng.integers(-4, 5, shape).astype(dtype), rng.random(shape)
    for low, value in ((0, np.nan), (0.03, -np.nan), (0.06, INF), (0.08, -INF)):
        x[(kind >= low) & (kind < low + 0.02)] = value
    return x


@pytest.mark.parametrize("device", ["ref", "cpu"])
@pytest.mark.parametrize("dtype", [f16, f32, f64])
@pytest.mark.parametrize("seed", range(4))
def test_largest_and_smallest_with_nan(seed, dtype, device):
    """Answers are NumPy's and PyTorch's: NaN wins. (onnxruntime's depend on the order of the elements.)"""
    rng = np.random.default_rng(seed)
    x = with_nan(rng, (2, int(rng.integers(1, 40)), int(rng.integers(3, 9)), int(rng.integers(3, 70))), dtype)
    kernel, strides, axis = rng.integers(1, 4, 2), rng.integers(1, 3, 2), int(rng.integers(4))
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel, axis=(2, 3))[:, :, ::strides[0], ::strides[1]]
    other, zero = with_nan(rng, x.shape, dtype), dtype(0)
    wanted = {
        "MaxPool": (windows.max((4, 5)), {"kernel_shape": kernel.tolist(), "strides": strides.tolist()}),
        "GlobalMaxPool": (x.max((2, 3), keepdims=True), {}),
        "ReduceMax": (x.max(axis, keepdims=True), {}), "ReduceMin": (x.min(axis, keepdims=True), {}),
        "ArgMax": (x.argmax(axis), {"axis": axis, "keepdims": 0}), "ArgMin": (x.argmin(axis), {"axis": axis, "keepdims": 0}),
        "Max": (np.maximum(x, other), {}), "Min": (np.minimum(x, other), {}), "Relu": (np.maximum(x, zero), {}),
    }
    for op, (answer, attributes) in wanted.items():
        operands = {"Max": "x z", "Min": "x z", "ReduceMax": "x axes", "ReduceMin": "x axes"}.get(op, "x")
        y = run([(op, operands, "y", attributes)], {"x": x, "z": other}, {"axes": np.array([axis])}, device=device)
        np.testing.assert_array_equal(y, answer, err_msg=f"{op} {x.shape} {attributes}")


@pytest.mark.parametrize("device", ["ref", "cpu"])
@pytest.mark.parametrize("dtype", [f16, f32, f64, np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("seed", range(12))
def test_bounds_after_bounds(seed, dtype, device):
    """A missing bound is none; infinite bounds count; the upper one wins where they cross; a NaN bound gives NaN."""
    rng = np.random.default_rng(seed)
    if dtype in (f16, f32, f64):
        x, ends = with_nan(rng, 67, dtype), [-INF, INF, 0, -0.0, 1, 3, -1, -3, 0.5, *[np.nan] * (seed % 3 == 0)]
    else:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        x, ends = rng.integers(low, high, 67, dtype, endpoint=True), [low, high, 0, 1, 2, 5, low + 1, high - 1]
        x[:20], x[20:22] = rng.integers(0, 8, 20), (low, high)
    nodes, constants, y = [], {}, x
    for step in range(count := int(rng.integers(1, 4))):
        op, name = rng.choice(["Clip", "Clip", "Max", "Min"]), "y" if step + 1 == count else f"t{step}"
        low, high = (None if rng.random() < 0.2 else np.array(rng.choice(np.array(ends, object)), dtype) for _ in range(2))
        low, high = (None if op == "Min" else low), (None if op == "Max" else high)
        if low is None and high is None and op != "Clip":
            low = high = dtype(2)
        y = y if low is None or op == "Min" else np.maximum(y, low)
        y = y if high is None or op == "Max" else np.minimum(y, high)
        operands = {"Clip": [low, high], "Max": [low], "Min": [high]}[op]
        names = [f"c{step}{i}" for i in range(len(operands))]
        constants |= {name: value for name, value in zip(names, operands) if value is not None}
        nodes.append((op, [nodes[-1][2] if nodes else "x", *(name * (value is not None) for name, value in zip(names, operands))], name, {}))
    np.testing.assert_array_equal(run(nodes, {"x": x}, constants, device=device), y, err_msg=f"{nodes} {constants}")


def attention(scores, q, k, v):
    """Returns softmax(scores(q k^T)) v in f64."""
    s = scores(np.einsum("bhqd,bhkd->bhqk", q.astype(f64), k.astype(f64)))
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v.astype(f64)


LOWS = [(f32, -INF), (f32, -3.4028235e38), (f32, -1e9), (f32, -10000), (f16, -65504), (f16, -INF)]


@pytest.mark.parametrize(("dtype", "low"), LOWS)
@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("garbage", [INF, np.nan])
def test_hidden_keys_hold_garbage(rank, garbage, dtype, low):
    """Where all keys are hidden, the answer is NaN for -infinity, and the mean of the values for another number."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 3, n, 16)).astype(dtype) for n in (5, 9, 9))
    k[:, :, -2:] = garbage
    mask = rng.random({1: (9,), 2: (5, 9), 4: (2, 1, 5, 9)}[rank]) < 0.7
    mask[..., 0], mask[..., -2:] = True, False
    if rank == 4:
        mask[1, 0, 2] = False
    nodes = [("Transpose", "k", "kt", {"perm": [0, 1, 3, 2]}), ("MatMul", "q kt", "s", {}), ("Where", "m s low", "h", {}),
             ("Softmax", "h", "p", {"axis": -1}), ("MatMul", "p v", "y", {})]
    y = run(nodes, {"q": q, "k": k, "v": v, "m": mask}, {"low": dtype(low)})
    with np.errstate(invalid="ignore"):
        wanted = attention(lambda s: np.where(mask, s, low), q, k, v)
    assert np.isnan(wanted).sum() == (rank == 4 and low == -INF) * 3 * 16
    np.testing.assert_allclose(y, wanted, **({"rtol": 1e-2, "atol": 4e-3} if dtype == f16 else {"rtol": 1e-4, "atol": 1e-5}))


@pytest.mark.parametrize("low", [-INF, -3.4028235e38, -1e30, -10000])
@pytest.mark.parametrize("garbage", [INF, np.nan, 0.5])
def test_two_masks_hide_garbage(garbage, low):
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((2, 3, n, 16)).astype(f32) for n in (5, 9, 9))
    k[:, :, -2:] = garbage
    m, n = rng.random((5, 9)) < 0.8, rng.random((2, 1, 1, 9)) < 0.8
    n[..., 0], n[..., -2:] = True, False
    m[:, 0], m[3] = True, False
    nodes = [("Transpose", "k", "kt", {"perm": [0, 1, 3, 2]}), ("MatMul", "q kt", "s", {}), ("Where", "m s low", "h", {}),
             ("Where", "n h low", "g", {}), ("Softmax", "g", "p", {"axis": -1}), ("MatMul", "p v", "y", {})]
    y = run(nodes, {"q": q, "k": k, "v": v, "m": m, "n": n}, {"low": f32(low)})
    with np.errstate(invalid="ignore"):
        wanted = attention(lambda s: np.where(m & n, s, low), q, k, v)
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("steps", ["m n", "m +", "+ m", "m + n"])
def test_masks_meet(steps):
    """Scores are masked twice, or masked and added to; NaN where a mask hides all keys."""
    rng = np.random.default_rng(1)
    feeds = {name: rng.standard_normal((1, 2, n, 16)).astype(f32) for name, n in (("q", 5), ("k", 9), ("v", 9))}
    feeds |= {"b": rng.standard_normal((5, 9)).astype(f32), "m": rng.random((5, 9)) < 0.7, "n": rng.random((1, 2, 1, 9)) < 0.7}
    feeds["m"][3] = False
    nodes, last = [("Transpose", "k", "kt", {"perm": [0, 1, 3, 2]}), ("MatMul", "q kt", "s", {})], "s"
    for step in steps.split():
        nodes.append(("Add", f"{last} b", f"{last}s", {}) if step == "+" else ("Where", f"{step} {last} low", f"{last}s", {}))
        last += "s"
    nodes += [("Softmax", last, "p", {"axis": -1}), ("MatMul", "p v", "y", {})]
    y = run(nodes, feeds, {"low": f32(-INF)})
    seen = feeds["m"] & (feeds["n"] if "n" in steps else True)
    with np.errstate(invalid="ignore"):
        wanted = attention(lambda s: np.where(seen, s + (feeds["b"] if "+" in steps else 0), -INF), *(feeds[name] for name in "qkv"))
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("low", [-INF, -3.4028235e38, -1e30])
@pytest.mark.parametrize("seed", range(12))
def test_selecting_and_added_masks_both_hold(seed, low):
    """Added masks hide keys too; in rows where each key is hidden, the later mask decides what remains."""
    rng = np.random.default_rng(seed)
    feeds = {name: rng.standard_normal((2, 2, n, 16)).astype(f32) for name, n in (("q", 5), ("k", 9), ("v", 9))}
    nodes, last = [("Transpose", "k", "kt", {"perm": [0, 1, 3, 2]}), ("MatMul", "q kt", "s0", {})], "s0"
    scores = np.einsum("bhqd,bhkd->bhqk", feeds["q"], feeds["k"])
    kinds = [("Where", "Add"), ("Add", "Where"), ("Where", "Add", "Where"), ("Add", "Where", "Add")][seed % 4]
    for step, op in enumerate(kinds, 1):
        shown = rng.random([(9,), (5, 9), (2, 1, 1, 9), (2, 2, 5, 9)][rng.integers(4)]) < 0.6
        shown[..., 2 * step - 2:2 * step] = False
        hidden = rng.choice([low, -INF, -3e38], shown.shape)
        feeds[f"m{step}"] = shown if op == "Where" else np.where(shown, rng.standard_normal(shown.shape), hidden).astype(f32)
        mask, last, before = f"m{step}", f"s{step}", last
        nodes.append((op, f"{mask} {before} low" if op == "Where" else f"{before} {mask}", last, {}))
        with np.errstate(over="ignore"):
            scores = np.where(shown, scores, f32(low)) if op == "Where" else scores + feeds[mask]
    nodes += [("Softmax", last, "p", {"axis": -1}), ("MatMul", "p v", "y", {})]
    with np.errstate(invalid="ignore"):
        e = np.exp(scores.astype(f64) - scores.max(-1, keepdims=True))
        wanted = e / e.sum(-1, keepdims=True) @ feeds["v"].astype(f64)
    y = run(nodes, feeds, {"low": f32(low)})
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)
