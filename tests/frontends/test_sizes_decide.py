# SPDX-License-Identifier: Apache-2.0
"""Sizes that decide a program: the ranks of values (Squeeze without axes, If with branches of different ranks), what is
broadcast, where a slice begins; and names of sizes (dim_param). Compared with onnxruntime."""
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, parser

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import places  # noqa: F401
import weft

DEVICES = ["cpu", "ref"]


def model(text):
    return parser.parse_model('<ir_version: 8, opset_import: ["" : 17]>\n' + text).SerializeToString()


SQUEEZE = model("""
main (float[b, 3, n] x) => (float y) {
  gone = Squeeze(x)
  y = Tanh(gone)
}
""")

# squeeze(-1) as PyTorch writes it for an unknown size; the operators after it accept either rank.
EITHER_RANK = model("""
main (float[b, n] x) => (float y) {
  shape = Shape(x)
  last = Constant <value = int64[1] {-1}> ()
  one = Constant <value = int64[1] {1}> ()
  size = Gather(shape, last)
  is_one = Equal(size, one)
  z = If (is_one) <
    then_branch = then () => (float a) { a = Squeeze(x, last) },
    else_branch = other () => (float e) { e = Identity(x) }
  >
  y = Exp(z)
}
""")

# Gemm accepts rank 2 only, so only n == 1 (Squeeze) gives a program. The branch that does not fit comes first.
ONE_RANK = model("""
main (float[b, 4, n] x) => (float y) {
  two = Constant <value = int64 {2}> ()
  most = Constant <value = int64 {1}> ()
  shape = Shape(x)
  size = Gather(shape, two)
  is_more = Greater(size, most)
  last = Constant <value = int64[1] {2}> ()
  z = If (is_more) <
    then_branch = then () => (float a) { a = Identity(x) },
    else_branch = other () => (float e) { e = Squeeze(x, last) }
  >
  w = Constant <value = float[4, 2] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}> ()
  y = Gemm(z, w)
}
""")


def array(*dims):
    return np.random.default_rng(sum(dims)).standard_normal(dims).astype(np.float32)


def check(compiled, source, *arrays):
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    want, = session.run(None, {port.name: array for port, array in zip(session.get_inputs(), arrays)})
    got = compiled(*arrays)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("order", [1, -1])
def test_squeeze_of_any_size(device, order):
    compiled = weft.compile(SQUEEZE, device=device)
    for dims in [(2, 3, 5), (1, 3, 5), (2, 3, 1), (1, 3, 1), (7, 3, 5), (0, 3, 1), (1, 3, 9)][::order]:
        check(compiled, SQUEEZE, array(*dims))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("order", [1, -1])
def test_branches_of_different_ranks(device, order):
    compiled = weft.compile(EITHER_RANK, device=device)
    for dims in [(2, 1), (2, 5), (3, 1), (3, 4), (0, 1), (1, 0)][::order]:
        check(compiled, EITHER_RANK, array(*dims))


@pytest.mark.parametrize("device", DEVICES)
def test_the_branch_that_the_rest_takes(device):
    compiled = weft.compile(ONE_RANK, device=device)
    for batch in 1, 3:
        check(compiled, ONE_RANK, array(batch, 4, 1))
    for _ in range(2):
        with pytest.raises(weft.Error, match="If: compiled for sizes where n <= 1: 2 is more than 1"):
            compiled(array(3, 4, 2))
    check(compiled, ONE_RANK, array(5, 4, 1))


def test_support_of_the_branch_that_the_rest_takes(tmp_path):
    (tmp_path / "m.onnx").write_bytes(ONE_RANK)
    report = weft.support(tmp_path / "m.onnx", device="cpu")
    assert report["supported"] == report["total"] == 9


def test_a_program_of_other_sizes_is_compiled_once():
    compiled = weft.compile(SQUEEZE, device="cpu")
    assert any("b == 1 does not hold" in note for note in compiled.report()["notes"])
    for dims in (2, 3, 5), (1, 3, 5), (1, 3, 6), (3, 3, 3), (1, 3, 2):
        compiled(array(*dims))
    assert "2 so far" in compiled.report()["notes"][-1]


def test_a_saved_program_keeps_to_its_sizes(tmp_path):
    compiled = weft.compile(SQUEEZE, device="cpu", symbols={"b": 1})
    check(compiled, SQUEEZE, array(1, 3, 4))
    compiled.save(tmp_path / "m.weft")
    loaded = weft.load(tmp_path / "m.weft")
    check(loaded, SQUEEZE, array(1, 3, 4))
    with pytest.raises(weft.Error, match="Squeeze: compiled for sizes where n == 1 does not hold"):
        loaded(array(1, 3, 1))


# Each model with sizes of its inputs, in several runs.
BROADCASTS = {
    "Add": ("(float[b, n] x, float[b, m] y) => (float z) { z = Add(x, y) }",
            [[(2, 5), (2, 5)], [(2, 1), (2, 5)], [(2, 5), (2, 1)], [(3, 1), (3, 0)], [(0, 5), (0, 5)], [(2, 1), (2, 1)]]),
    "a number": ("(float[n] x) => (float z) <float[3] y = {1, 2, 3}> { z = Mul(y, x) }", [[(3,)], [(1,)]]),
    "Max": ("(float[n] x, float[m] y, float[k] z) => (float w) { w = Max(x, y, z) }",
            [[(4,), (4,), (4,)], [(1,), (4,), (4,)], [(4,), (1,), (1,)], [(1,), (1,), (4,)], [(4,), (4,), (1,)]]),
    "Where": ("(float[n] x, float[m] y, float[k, m] c) => (float z) <float o = {0}> { p = Greater(c, o) z = Where(p, x, y) }",
              [[(5,), (5,), (2, 5)], [(1,), (5,), (1, 5)], [(5,), (1,), (3, 1)]]),
    "MatMul": ("(float[b, 2, 3] x, float[c, 3, 2] y) => (float z) { z = MatMul(x, y) }",
               [[(4, 2, 3), (4, 3, 2)], [(1, 2, 3), (4, 3, 2)], [(4, 2, 3), (1, 3, 2)]]),
    "Gemm": ("(float[m, 3] x, float[k] c) => (float z) <float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> { z = Gemm(x, w, c) }",
             [[(2, 3), (4,)], [(2, 3), (1,)]]),
    "Expand": ("(float[b, n] x, float[m] y) => (float z) { s = Shape(y) z = Expand(x, s) }",
               [[(2, 5), (5,)], [(2, 1), (5,)], [(2, 5), (1,)], [(2, 1), (0,)]]),
    "first": ("(float[b, n] x) => (float z) <int64[1] o = {0}, int64[1] l = {1}> { f = Slice(x, o, l, l) z = Add(x, f) }",
              [[(2, 5)], [(2, 1)], [(2, 0)], [(0, 3)]]),
    "DFT": ("(float[b, n, c] x) => (float z) <int64 l = {8}> { z = DFT(x, l) }", [[(2, 8, 1)], [(2, 8, 2)], [(1, 8, 1)]]),
    "twice": ("(float[n] x, float[m] y) => (float z) { a = Add(x, y) b = Tanh(a) c = Mul(y, b) z = Sub(c, x) }",
              [[(1,), (5,)], [(5,), (5,)], [(5,), (1,)]]),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", BROADCASTS)
def test_open_sizes_broadcast(name, device):
    text, runs = BROADCASTS[name]
    source = model("main " + text)
    for order in 1, -1:
        compiled = weft.compile(source, device=device)
        for run in runs[::order]:
            check(compiled, source, *(array(*dims) for dims in run))


# The same for sizes that the run computes.
HEAD = "main (float[n] x, float[m] y) => (float z) <float o = {0}, int64[1] one = {1}, int64[1] nil = {0}, int64[1] two = {2}>"
CHOSEN = HEAD + " { c = Greater(x, o) a = Compress <axis = 0> (x, c) d = Greater(y, o) b = Compress <axis = 0> (y, d) "
COMPUTED = {
    "two counts": (CHOSEN + "z = Add(a, b) }", [([1, 0, 2], [0, 3, 4]), ([1, 0, 0], [1, 2, 3]), ([1, 2, 3], [0, 1]), ([0, 0], [1])]),
    "a count and an input": (CHOSEN + "z = Mul(a, y) }", [([1, 2, 3], [4, 5, 6]), ([1, 2], [3]), ([1, 0], [3, 4]), ([1], [1])]),
    "a count and a number": (CHOSEN + "t = Expand(o, two) z = Add(a, t) }", [([1, 2], [1]), ([0, 5], [1])]),
    "pairs": (CHOSEN + "u = Unsqueeze(a, one) v = Unsqueeze(b, nil) z = Sub(u, v) }", [([1, 2], [3]), ([1], [3, 4]), ([0], [1])]),
    "Where": (CHOSEN + "z = Where(c, y, x) }", [([1, 0], [3, 4]), ([1, 0], [3]), ([1], [3, 4])]),
    "Where of counts": (CHOSEN + "e = Less(b, x) z = Where(e, x, b) }", [([1, 5], [3, 4]), ([1, 5], [3, 0]), ([1], [3, 4])]),
    "Expand to a count": (CHOSEN + "r = Shape(b) s = Concat <axis = 0> (two, r) z = Expand(a, s) }",
                          [([1, 2], [3, 4]), ([1, 0], [3, 4]), ([1, 2], [0, 4]), ([1], [1]), ([1], [0])]),
    "rows": (CHOSEN + "u = Unsqueeze(a, one) v = Unsqueeze(b, one) p = Expand(v, two) z = Mul(u, p) }",
             [([1, 2], [3, 4]), ([1], [3, 4]), ([1, 2], [4])]),
    "two counts twice": (CHOSEN + "t = Add(a, b) e = Mul(t, a) z = Sub(b, e) }", [([1, 2], [3, 4]), ([1], [3, 4]), ([1, 2], [4])]),
    "values of an input": ("main (float[n] x, int64[2] s) => (float z) { z = Expand(x, s) }",
                           [([1, 2, 3], [2, 3]), ([1], [2, 3]), ([1, 2, 3], [2, 1]), ([1], [0, 1])]),
    "Range": ("main (float[n] x, int64[2] s) => (float z) <int64 o = {0}, int64 i = {1}> "
              "{ l = ReduceMax <keepdims = 0> (s) r = Range(o, l, i) f = Cast <to = 1> (r) z = Add(f, x) }",
              [([1, 2], [2, 0]), ([1, 2], [1, 0]), ([1], [3, 4])]),
    "in a branch": (CHOSEN.replace("=> (float z)", "=> (float[k] z)") + """l = ReduceSum <keepdims = 0> (y) p = Greater(l, o)
        z = If (p) < then_branch = then () => (float[q] t) { t = Add(a, b) }, else_branch = other () => (float[r] e) { e = Identity(a) } > }""",
                    [([1, 2], [3, 4]), ([1, 2], [4]), ([1, 2], [-4, 1, 1]), ([1], [2, 3])]),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", COMPUTED)
def test_sizes_that_the_run_computes_broadcast(name, device):
    text, runs = COMPUTED[name]
    source = model(text)
    for order in 1, -1:
        compiled = weft.compile(source, device=device)
        for x, y in 2 * runs[::order]:
            check(compiled, source, np.array(x, np.float32), np.array(y, np.int64 if "int64[2] s" in text else np.float32))


@pytest.mark.parametrize("device", DEVICES)
def test_a_carried_value_is_larger_after_a_trip(device):
    """The buffers that change places after a trip have different sizes. Runs repeat with each size."""
    source = model("""main (int64 t, bool c, float[n, 3] x, float[20000, 3] k) => (float y) {
      y = Loop(t, c, x) < body = body (int64 i, bool go, float[m, 3] before) => (bool on, float[20000, 3] after) {
        on = Identity(go) s = ReduceMean <axes = [0]> (before) a = Add(s, k) after = Tanh(a) } >
    }""")
    compiled = weft.compile(source, device=device)
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    for n, trips in (1, 1), (1, 1), (1, 2), (1, 3), (30000, 2), (2, 3), (1, 3):
        feeds = {"t": np.array(trips), "c": np.array(True), "x": array(n, 3), "k": array(20000, 3)}
        np.testing.assert_allclose(compiled.run(feeds)["y"], session.run(None, feeds)[0], rtol=1e-4, atol=1e-5)


def test_counts_that_do_not_broadcast_are_refused():
    compiled = weft.compile(model(COMPUTED["two counts"][0]), device="cpu")
    for x, y in ([1, 2], [1, 2, 3]), ([1, 2, 3], [1, 2]):
        with pytest.raises(weft.Error, match=r"(?s)E312\]: add: \d is not \d.*\(Add\)"):
            compiled(np.float32(x), np.float32(y))
    assert compiled(np.float32([1, 2]), np.float32([0, 3])).tolist() == [4, 5]


def test_a_refused_run_that_may_have_written_an_input_is_not_repeated():
    """y is the memory of x; the sum needs another program, for which x may be lost."""
    source = model("main (float[n] x, float[m] y) => (float[n] w, float z) <float o = {0}> "
                   "{ w = Neg(x) c = Greater(x, o) a = Compress <axis = 0> (x, c) s = Add(a, y) z = ReduceSum <keepdims = 0> (s) }")
    compiled = weft.compile(source, device="cpu")
    x, y = np.float32([1, 0, 2]), np.float32([3])
    with pytest.raises(weft.Error, match="E312"):
        compiled.run({"x": x, "y": y}, out={"w": x})
    assert compiled(np.float32([1, 0, 2]), y)[1] == 9


def test_sizes_that_do_not_broadcast_are_refused():
    compiled = weft.compile(model("main " + BROADCASTS["Add"][0]), device="cpu")
    for _ in range(2):
        with pytest.raises(weft.Error, match=r"(?s)E312.*\(Add\)"):
            compiled(array(2, 3), array(2, 4))
    assert compiled(array(2, 3), array(2, 1)).shape == (2, 3)


def test_a_saved_program_refuses_to_broadcast_an_open_size(tmp_path):
    weft.compile(model("main " + BROADCASTS["Add"][0]), device="cpu").save(tmp_path / "m.weft")
    loaded = weft.load(tmp_path / "m.weft")
    assert loaded(array(2, 3), array(2, 3)).shape == (2, 3)
    with pytest.raises(weft.Error, match=r"(?s)E312.*\(Add\)"):
        loaded(array(2, 3), array(2, 1))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("step", [1, 2, -1])
@pytest.mark.parametrize("bound", ["start", "end"])
def test_a_slice_bound_that_follows_from_a_size(bound, step, device):
    """Shape(x) - 5 counts from the end where it is below 0."""
    other = {"start": "{9223372036854775807}" if step > 0 else "{-9223372036854775807}", "end": "{0}" if step > 0 else "{-1}"}[bound]
    text = f"""main (float[b, n] x) => (float z) <int64[1] one = {{1}}, int64[1] five = {{5}}, int64[1] other = {other}, int64[1] step = {{{step}}}> {{
  shape = Shape <start = 1>(x)
  five_less = Sub(shape, five)
  z = Slice(x, {"five_less, other" if bound == "start" else "other, five_less"}, one, step)
}}"""
    source = model(text)
    compiled = weft.compile(source, device=device)
    for size in 8, 5, 4, 3, 2, 1, 0, 13:
        check(compiled, source, array(2, size))


@pytest.mark.parametrize("scales", [(0.1, 0.2, 0.04), (0.02, 0.03, 0.0012), (0.5, 0.25, 2), (0.11, 0.13, 1.144)])
@pytest.mark.parametrize("device", DEVICES)
def test_a_product_of_bytes_with_an_open_number_of_terms(device, scales):
    """Many results are half way between two integers. The longest sums are those of floats, because i32 might overflow."""
    a, b, y = scales
    source = model(f"""main (uint8[m, k] a, uint8[k, n] b) => (uint8[m, n] y)
    <float a_scale = {{{a}}}, uint8 a_zero = {{120}}, float b_scale = {{{b}}}, uint8 b_zero = {{110}}, float y_scale = {{{y}}}, uint8 y_zero = {{100}}>
    {{ y = QLinearMatMul(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero) }}""")
    compiled, draw = weft.compile(source, device=device), np.random.default_rng(0)
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    for terms, step in (96, 0), (33, 0), (40_000, 1), (1, 0):
        left, right = draw.integers(110, 131, (16, terms), np.uint8), draw.integers(100, 121, (terms, 24), np.uint8)
        wanted, = session.run(None, {"a": left, "b": right})
        np.testing.assert_allclose(compiled(left, right).astype(int), wanted, rtol=0, atol=step)


@pytest.mark.parametrize("name", ["?", "-1", "None", "*", "1", ""])
@pytest.mark.parametrize("device", DEVICES)
def test_texts_that_are_no_names_do_not_equate_sizes(name, device):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [name, 3, name, name])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    check(weft.compile(source, device=device), source, array(2, 3, 4, 5))
    check(weft.compile(source, device=device, shapes={"x": [(1, 8), 3, (1, 8), 5]}), source, array(2, 3, 4, 5))


@pytest.mark.parametrize("name", ["n", "p2o.DynamicDimension.0", "unk__7", "past + seq"])
def test_a_name_ties_sizes(name):
    inputs = [helper.make_tensor_value_info(x, TensorProto.FLOAT, [name]) for x in "ab"]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Concat", ["a", "b"], ["y"], axis=0)], "g", inputs, [y])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    compiled = weft.compile(onnx.load_from_string(source).SerializeToString(), device="cpu")
    assert compiled(array(4), array(4)).shape == (8,)
    with pytest.raises(weft.Error, match="contradicts"):
        compiled(array(4), array(5))
