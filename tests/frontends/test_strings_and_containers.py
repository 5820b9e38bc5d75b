# SPDX-License-Identifier: Apache-2.0
"""Strings, sequences, optionals and maps from Python: the answers are those of onnx's reference evaluator or of
onnxruntime."""
import os
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build" / "release")) / "python"))

import weft

DEVICES = pytest.mark.parametrize("device", ["ref", "cpu"])
QUIET = onnxruntime.SessionOptions()
QUIET.log_severity_level = 4


def parsed(text):
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 22, "ai.onnx.ml" : 3]>\n{text}')


def steps(program):
    return [step["kernel"] for step in program.steps()]


def by_onnxruntime(model, feeds):
    return onnxruntime.InferenceSession(model.SerializeToString(), QUIET, providers=["CPUExecutionProvider"]).run(None, feeds)


@DEVICES
def test_texts_move_like_numbers(device, tmp_path):
    model = parsed("""
    f (string[n, 2] x, string[1] q, int64[k] i, int64[1, 2] at, int64[1, 2] to, string[1, 2] put)
      => (string[2, m] c, bool[n, 2] e, string[n, 2] w, string[1] g, string[n, 2] s, string[a, b] t)
    {
      y = Transpose (x)
      z = Gather <axis = 1> (y, i)
      c = Concat <axis = 1> (z, y)
      e = Equal (x, q)
      w = Where (e, q, x)
      g = GatherND (x, at)
      s = ScatterElements (x, to, put)
      r = Constant <value_ints: ints = [2, 1]> ()
      t = Tile (x, r)
    }""")
    feeds = {"x": np.array([["a", "ü"], ["c", "a"], ["", "zz"]], object), "q": np.array(["a"], object), "i": np.array([1, 0, 1]),
             "at": np.array([[2, 1]]), "to": np.array([[2, 0]]), "put": np.array([["P", "Q"]], object)}
    wanted = ReferenceEvaluator(model).run(None, feeds)
    program = weft.compile(model.SerializeToString(), device=device)
    answers = program.run(feeds)
    for port, want in zip(model.graph.output, wanted):
        assert np.array_equal(answers[port.name], np.asarray(want)), port.name
    if device == "cpu":
        assert not [step for step in steps(program) if step.startswith("host")]
        program.save(tmp_path / "texts.weft")
        again = weft.load(tmp_path / "texts.weft").run(feeds)
        assert all(np.array_equal(again[name], answers[name]) for name in answers)


@DEVICES
def test_a_list_of_known_length_is_no_list(device):
    model = parsed("""
    f (float[4, 3] x) => (float[3, 6] y, int64 n)
    {
      parts = SplitToSequence <axis = 0> (x)
      zero = Constant <value_int: int = 0> ()
      first = SequenceAt (parts, zero)
      more = SequenceInsert (parts, first)
      less = SequenceErase (more, zero)
      n = SequenceLength (less)
      sums = SequenceMap (less) <body = g (float[1, 3] v) => (float[1, 3] u) { u = Add (v, v) }>
      one = SequenceAt (sums, zero)
      both = SequenceConstruct (one, first)
      wide = ConcatFromSequence <axis = 1> (both)
      three = Constant <value_ints: ints = [3, 6]> ()
      y = Expand (wide, three)
    }""")
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    program = weft.compile(model.SerializeToString(), device=device)
    y, n = program(x)
    assert np.array_equal(y, np.broadcast_to(np.concatenate([x[1:2] * 2, x[:1]], 1), (3, 6))) and n == 4
    if device == "cpu":
        assert not [step for step in steps(program) if step.startswith("host")]


@DEVICES
def test_lists_that_only_the_run_knows(device):
    model = parsed("""
    f (seq(float[n]) s, int64 at, int64[k] cuts, float[8] x) => (float[m] y, seq(float[a]) t, float[b] z, int64 n)
    {
      item = SequenceAt (s, at)
      y = Relu (item)
      t = SequenceInsert (s, y, at)
      parts = SplitToSequence (x, cuts)
      z = ConcatFromSequence <axis = 0> (t)
      n = SequenceLength (parts)
    }""")
    s = [np.array([-1, 2], np.float32), np.array([3, -4, 5], np.float32)]
    program = weft.compile(model.SerializeToString(), device=device)
    for at in 0, 1, -1:
        answers = program.run({"s": s, "at": np.array(at), "cuts": np.array([3, 0, 5]), "x": np.zeros(8, np.float32)})
        want = np.maximum(s[at], 0)
        longer = s.copy()
        longer.insert(at, want)
        assert np.array_equal(answers["y"], want) and answers["n"] == 3
        assert [list(item) for item in answers["t"]] == [list(item) for item in longer]
        assert np.array_equal(answers["z"], np.concatenate(longer))
    with pytest.raises(weft.Error, match="E301"):
        program.run({"s": s, "at": np.array(7), "cuts": np.array([8]), "x": np.zeros(8, np.float32)})
    with pytest.raises(weft.Error, match="E310"):
        program.run({"s": [np.zeros(2)], "at": np.array(0), "cuts": np.array([8]), "x": np.zeros(8, np.float32)})


@DEVICES
def test_a_loop_that_builds_a_list(device):
    """The number of trips is known only in the run: the list is carried, and its items are joined at the end."""
    item = helper.make_tensor_sequence_value_info
    body = helper.make_graph(
        [helper.make_node("Range", ["zero", "i", "one"], ["row"]),
         helper.make_node("SequenceInsert", ["list", "row"], ["longer"]),
         helper.make_node("Identity", ["go"], ["on"])],
        "body", [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("go", 9, []), item("list", 7, None)],
        [helper.make_tensor_value_info("on", 9, []), item("longer", 7, None)])
    graph = helper.make_graph(
        [helper.make_node("SequenceEmpty", [], ["none"], dtype=7), helper.make_node("Constant", [], ["zero"], value_int=0),
         helper.make_node("Constant", [], ["one"], value_int=1),
         helper.make_node("Loop", ["trips", "", "none"], ["list"], body=body),
         helper.make_node("ConcatFromSequence", ["list"], ["y"], axis=0)],
        "loop", [helper.make_tensor_value_info("trips", 7, [])], [helper.make_tensor_value_info("y", 7, [None])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    program = weft.compile(model.SerializeToString(), device=device)
    for trips in 1, 4, 2:
        assert list(program(np.array(trips))) == [k for i in range(trips) for k in range(i)]


@DEVICES
def test_a_list_that_is_read_again_is_not_changed(device):
    """Each trip makes three lists from `longer`. One is carried to the next trip; only the lengths of the other two are
    read."""
    item = helper.make_tensor_sequence_value_info
    body = helper.make_graph(
        [helper.make_node("SequenceInsert", ["list", "i"], ["longer"]),
         helper.make_node("SequenceInsert", ["longer", "i"], ["other"]),
         helper.make_node("SequenceErase", ["longer", "zero"], ["less"]),
         helper.make_node("If", ["is_odd"], ["next"],
                          then_branch=helper.make_graph([helper.make_node("Identity", ["longer"], ["a"])], "a", [], [item("a", 7, [])]),
                          else_branch=helper.make_graph([helper.make_node("SequenceInsert", ["longer", "i", "zero"], ["b"])], "b", [],
                                                        [item("b", 7, [])])),
         helper.make_node("SequenceLength", ["other"], ["m"]), helper.make_node("SequenceLength", ["less"], ["k"]),
         helper.make_node("Mod", ["i", "two"], ["odd"]), helper.make_node("Cast", ["odd"], ["is_odd"], to=9),
         helper.make_node("Identity", ["go"], ["on"])],
        "body", [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("go", 9, []), item("list", 7, [])],
        [helper.make_tensor_value_info("on", 9, []), item("next", 7, []), helper.make_tensor_value_info("m", 7, []),
         helper.make_tensor_value_info("k", 7, [])])
    order = ["Mod", "Cast"]
    body.node.sort(key=lambda node: order.index(node.op_type) if node.op_type in order else len(order))
    graph = helper.make_graph(
        [helper.make_node("Constant", [], ["zero"], value_int=0), helper.make_node("Constant", [], ["two"], value_int=2),
         helper.make_node("Loop", ["trips", "", "start"], ["list", "m", "k"], body=body),
         helper.make_node("ConcatFromSequence", ["list"], ["y"], axis=0, new_axis=1),
         helper.make_node("SequenceLength", ["start"], ["n"])],
        "loop", [helper.make_tensor_value_info("trips", 7, []), item("start", 7, [])],
        [helper.make_tensor_value_info("y", 7, [None]), helper.make_tensor_value_info("m", 7, [None]),
         helper.make_tensor_value_info("k", 7, [None]), helper.make_tensor_value_info("n", 7, [])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {"trips": np.array(9), "start": [np.array(7), np.array(8)]}
    wanted = by_onnxruntime(model, feeds)
    program = weft.compile(model.SerializeToString(), device=device)
    for _ in range(2):
        for answer, want in zip(program.run(feeds).values(), wanted, strict=True):
            np.testing.assert_array_equal(answer, want)


@DEVICES
def test_lists_that_only_a_loop_reads(device):
    """Each trip of the loop reads both input lists; nothing outside the loop reads the second list."""
    list_of = helper.make_tensor_sequence_value_info
    row = lambda name: helper.make_tensor_value_info(name, 1, ["n"])
    body = helper.make_graph([helper.make_node("Add", ["x", "y"], ["s"]), helper.make_node("Identity", ["y"], ["t"])], "pairs",
                             [row("x"), row("y")], [row("s"), row("t")])
    graph = helper.make_graph([helper.make_node("SequenceMap", ["a", "b"], ["sums", "same"], body=body)], "lists",
                              [list_of("a", 1, ["n"]), list_of("b", 1, ["n"])],
                              [list_of("sums", 1, ["n"]), list_of("same", 1, ["n"])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    a, b = ([np.arange(n + 1, dtype=np.float32) * k for n in range(3)] for k in (1, 10))
    program = weft.compile(model.SerializeToString(), device=device)
    for _ in range(2):
        sums, same = program.run({"a": a, "b": b}).values()
        for k in range(3):
            np.testing.assert_array_equal(sums[k], a[k] + b[k])
            np.testing.assert_array_equal(same[k], b[k])


@DEVICES
def test_optionals(device):
    model = parsed("""
    f (optional(float[2]) x) => (bool has, float[a] y)
    {
      has = OptionalHasElement (x)
      y = If (has) <
        then_branch = yes () => (float[2] v) { v = OptionalGetElement (x) },
        else_branch = no () => (float[1] w) { w = Constant <value_floats: floats = [7.0]> () }>
    }""")
    program = weft.compile(model.SerializeToString(), device=device)
    has, y = program(np.array([1, 2], np.float32))
    assert has and list(y) == [1, 2]
    has, y = program.run({"x": None}).values()
    assert not has and list(y) == [7]


@DEVICES
def test_maps(device):
    maps = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_strings=["no", "yes", "ü"])
    opsets = [helper.make_opsetid("", 22), helper.make_opsetid("ai.onnx.ml", 3)]
    y = helper.make_value_info("y", helper.make_sequence_type_proto(maps))
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", 1, ["n", 3])], [y])
    program = weft.compile(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(), device=device)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert program(x) == [{"no": 0, "yes": 1, "ü": 2}, {"no": 3, "yes": 4, "ü": 5}]
    node = helper.make_node("DictVectorizer", ["m"], ["y"], domain="ai.onnx.ml", string_vocabulary=["b", "a", "z"])
    graph = helper.make_graph([node], "g", [helper.make_value_info("m", maps)], [helper.make_tensor_value_info("y", 1, None)])
    program = weft.compile(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(), device=device)
    assert program({"a": 1.5, "b": 2}).tolist() == [[2, 1.5, 0]]


@DEVICES
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8", "bool"])
def test_numbers_as_texts(device, dtype):
    x = np.array([1, 1.5, -0.1, 1e4, 1e-6, 3.14159274, np.nan, np.inf, -np.inf, 0], "float64")
    x = (x if dtype.startswith("float") else np.abs(np.nan_to_num(x, posinf=1, neginf=0))).astype(dtype)
    code = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph([helper.make_node("Cast", ["x"], ["s"], to=8), helper.make_node("Cast", ["s"], ["y"], to=11)], "g",
                              [helper.make_tensor_value_info("x", code, ["n"])],
                              [helper.make_tensor_value_info("s", 8, ["n"]), helper.make_tensor_value_info("y", 11, ["n"])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    wanted = by_onnxruntime(model, {"x": x})
    answers = weft.compile(model.SerializeToString(), device=device).run({"x": x})
    assert list(answers["s"]) == list(wanted[0])
    np.testing.assert_array_equal(answers["y"], wanted[1])


@DEVICES
def test_a_text_that_is_no_number(device):
    model = parsed("f (string[n] s) => (float[n] y) { y = Cast <to = 1> (s) }")
    program = weft.compile(model.SerializeToString(), device=device)
    assert list(program(np.array([" 1e3", "-inf", "+2.5"], object))) == [1000, -np.inf, 2.5]
    with pytest.raises(weft.Error, match="E303.*'five'"):
        program(np.array(["1", "five"], object))


PATTERNS = [
    (r"a(b|c)*d", ["ad", "abcd", "abc", "xabd"]), (r"(?i)straße", ["STRAßE", "strasse"]), (r"[^a-c]+", ["xyz", "xay", ""]),
    (r"\d{2,3}-\w+?", ["12-a", "1234-b", "123-", "99-x_9"]), (r"^x$|\by\b", ["x", "y", "xy"]), (r".+", ["a\nb", "é"]),
    (r"(?s).+", ["a\nb"]), (r"[[:alpha:]\-]+", ["a-b", "a1"]), (r"(a?){30}a{30}", ["a" * 30, "a" * 29]), (r"\x41\x{e9}", ["Aé"]),
    (r"(?:(?P<n>x)y)?z", ["z", "xyz", "yz"]), (r"", ["", "a"]), (r"a{,2}", ["a{,2}", "aa"]),
]


@DEVICES
def test_patterns(device):
    for pattern, texts in PATTERNS:
        graph = helper.make_graph([helper.make_node("RegexFullMatch", ["s"], ["y"], pattern=pattern)], "g",
                                  [helper.make_tensor_value_info("s", 8, ["n"])], [helper.make_tensor_value_info("y", 9, ["n"])])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
        feeds = {"s": np.array(texts, object)}
        assert list(weft.compile(model.SerializeToString(), device=device)(feeds["s"])) == list(by_onnxruntime(model, feeds)[0]), pattern
    for pattern in r"(?=a)b", r"(a)\1", r"a**", r"[b-a]", r"(", r"a{1001}", r"\p{L}":
        graph = helper.make_graph([helper.make_node("RegexFullMatch", ["s"], ["y"], pattern=pattern)], "g",
                                  [helper.make_tensor_value_info("s", 8, ["n"])], [helper.make_tensor_value_info("y", 9, ["n"])])
        with pytest.raises(weft.UnsupportedError, match="E122"):
            weft.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10).SerializeToString())


def test_texts_are_not_computed_with():
    model = parsed("f (string[n] x) => (string[n] y) { y = Add (x, x) }")
    with pytest.raises(weft.ModelError, match="E141"):
        weft.compile(model.SerializeToString())
