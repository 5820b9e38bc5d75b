# SPDX-License-Identifier: Apache-2.0
"""Models of some KiB that need far more names, sizes, strings, nodes or folding than any real model. Each is refused,
or compiles, within some seconds of processor time, 1 GiB, and a stack of 256 KiB."""

import os
import zipfile

import numpy as np
import pytest
from bad_inputs import doubling, graph_of, info, save
from limits import BUILD, run_limited
from onnx import TensorProto, helper

MOST_SECONDS = 10  # on a busy machine; the bugs found took minutes
MOST_MEMORY = 1 << 30
BOMBS = {}
Node = helper.make_node


def bomb(name, code, words=("compile", "m.onnx", "-o", "p.weft")):
    """Registers a model. `code` is the error code expected in the output; None: a program is made."""
    def keep(function):
        BOMBS[name] = function, code, words
        return function

    return keep


def squares(count, *more):
    """Returns nodes that make x[n * n] from x[n], `count` times; `more` nodes of one input follow each time."""
    nodes, value = [], "x"

    def add(op, *inputs, **attributes):
        nodes.append(Node(op, list(inputs), [f"v{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    for _ in range(count):
        product = add("Mul", add("Unsqueeze", value, "0"), add("Unsqueeze", value, "1"))
        value = add("Reshape", product, "flat")
        for op, *inputs in more:
            value = add(op, value, *inputs)
    return [*nodes, Node("Identity", [value], ["y"])]


SIZES = {"0": np.array([0]), "1": np.array([1]), "flat": np.array([-1]), "end": np.array([1 << 62]), "3": np.array([3])}


bomb("sizes that square themselves", "E146")(
    lambda f: save(f, graph_of(squares(40), [info("x", ("n",))], weights=SIZES)))
bomb("sizes that are squared and divided", "E146")(
    lambda f: save(f, graph_of(squares(40, ("Slice", "0", "end", "0", "3")), [info("x", ("n",))], weights=SIZES)))
bomb("a tensor of 100,000 axes", "E122")(lambda f: save(f, graph_of(
    [Node("Add", ["x", "w"], ["y"])], weights={"w": np.zeros((), np.float32)}), ) and many_axes(f))
bomb("a reshape to 20,000 axes", "E122")(lambda f: save(f, graph_of(
    [Node("Reshape", ["x", "s"], ["y"])], weights={"s": np.array([2, 3] + [1] * 20_000)})))
bomb("a reshape to 2^40 axes", "E122")(lambda f: save(f, graph_of(
    [Node("Reshape", ["x", "s"], ["y"])], [info("x"), info("s", (1 << 40,), TensorProto.INT64)])))
bomb("a size that 40,000 nodes compute", None)(lambda f: save(f, graph_of(
    [Node(("Cast", "Neg")[i % 2], ["s" if i == 0 else f"v{i - 1}"], [f"v{i}"], **({"to": 6 + i // 2 % 2} if i % 2 == 0 else {}))
     for i in range(40_000)] + [Node("Cast", ["v39999"], ["t"], to=7), Node("Expand", ["x", "t"], ["y"])],
    [info("x", (1,)), info("s", (1,), TensorProto.INT64)])))
bomb("a size that 40,000 nodes cast", None)(lambda f: save(f, graph_of(
    [Node("Cast", ["s" if i == 0 else f"v{i - 1}"], [f"v{i}"], to=6 + i % 2) for i in range(40_000)]
    + [Node("Expand", ["x", "v39999"], ["y"])], [info("x", (1,)), info("s", (1,), TensorProto.INT64)])))
bomb("a split into 2^33", "E140")(lambda f: save(f, graph_of([Node("Split", ["x"], ["y"], num_outputs=1 << 33)])))
bomb("lookups of more batches than there are", "E151")(lambda f: save(f, graph_of(
    [Node("GatherND", ["x", "i"], ["y"], batch_dims=1)], weights={"i": np.zeros((3, 1), np.int64)})))
bomb("a window of 2^20 x 2^20", "E401", ("run", "m.onnx", "--device", "ref"))(lambda f: save(f, graph_of(
    [Node("MaxPool", ["x"], ["y"], kernel_shape=[1 << 20] * 2, pads=[1 << 19] * 4)], [info("x", (1, 1, 9, 9))])))
bomb("an input of 2^33 numbers", "E401", ("run", "m.onnx"))(
    lambda f: save(f, graph_of([Node("ReduceSum", ["x"], ["y"])], [info("x", (1 << 33,))])))
bomb("20,000 names that are missing", "E132")(lambda f: save(f, graph_of(
    [Node("Add", ["x", f"value {i}!"], [f"value {i}"]) for i in range(20_000)], outputs=[info("value 1", None)])))
bomb("20,000 functions of one value", None)(
    lambda f: save(f, graph_of([Node("Sum", ["x"] * 20_000, ["y"])])))
bomb("views back and forth", None)(lambda f: save(f, graph_of(zigzag(2_000), [info("x", (35, 6))], weights={
    "a": np.array([14, 15]), "b": np.array([21, 10])})))
bomb("10,000 slices of one value", None)(lambda f: save(f, graph_of(
    [Node("Slice", ["x", f"{i}", f"{i + 1}"], [f"v{i}"]) for i in range(10_000)] + [Node("Relu", ["v7"], ["y"])],
    [info("x", (20_000,))], weights={f"{i}": np.array([i]) for i in range(10_001)})))


def many_axes(folder):
    import onnx

    model = onnx.load(folder / "m.onnx")
    model.graph.initializer[0].dims.extend([1] * 100_000)
    onnx.save(model, folder / "m.onnx")


def zigzag(count):
    nodes, value = [], "x"
    for i in range(count):
        nodes += [Node("Reshape", [value, "ba"[i % 2]], [f"r{i}"]), Node("Transpose", [f"r{i}"], [f"t{i}"], perm=[1, 0])]
        value = f"t{i}"
    return [*nodes, Node("Relu", [value], ["y"])]


@bomb("texts that double", "E401", ("run", "m.onnx"))
def texts(folder):
    nodes = [Node("Cast", ["x"], ["v0"], to=TensorProto.STRING)]
    nodes += [Node("StringConcat", [f"v{i}", f"v{i}"], [f"v{i + 1}"]) for i in range(40)]
    outputs = [info("v40", (1,), TensorProto.STRING)]
    return save(folder, graph_of(nodes, [info("x", (1,))], outputs), opset=20)


@bomb("products of constants", None)
def products(folder):
    """Makes a model that folds 20 constant products of 16 MiB, each from vectors of 8 KiB."""
    nodes, weights = [], {"row": np.ones((1, 2048), np.float32), "column": np.ones((2048, 1), np.float32)}
    for i in range(20):
        weights[f"k{i}"] = np.float32(i)
        nodes += [Node("Mul", ["column", f"k{i}"], [f"c{i}"]), Node("MatMul", [f"c{i}", "row"], [f"m{i}"]),
                  Node("ReduceMax", [f"m{i}"], [f"y{i}"], keepdims=0)]
    return save(folder, graph_of([*nodes, Node("Sum", ["x"] + [f"y{i}" for i in range(20)], ["y"])], weights=weights))


@bomb("archive whose members overlap", "E212", ("run", "m.onnx", "-i", "a.npz"))
def archive(folder):
    save(folder, graph_of([Node("Relu", ["x"], ["y"])]))
    with zipfile.ZipFile(folder / "a.npz", "w") as made, made.open("x.npy", "w") as member:
        np.save(member, np.zeros(100_000, np.float32))
    data = (folder / "a.npz").read_bytes()
    start = data.rindex(b"PK\1\2")
    end = data.rindex(b"PK\5\6")
    tail = bytearray(data[end:])
    tail[8:12] = (60_000).to_bytes(2, "little") * 2
    (folder / "a.npz").write_bytes(data[:start] + data[start:end] * 60_000 + tail)


# --- operators of ai.onnx.ml, signals, lists, loops

ML = [helper.make_opsetid("ai.onnx.ml", 3)]


def classical(op, x=(3, 4), type=TensorProto.FLOAT, **attributes):
    return lambda f: save(f, graph_of([Node(op, ["x"], ["y"], domain="ai.onnx.ml", **attributes)], [info("x", x, type)],
                                      [helper.make_empty_tensor_value_info("y")]), opsets=ML)


def trees(yes, no, leaves, **attributes):
    """Returns a tree of len(yes) nodes, the last `leaves` of them leaves."""
    count = len(yes)
    words = {"nodes_treeids": [0] * count, "nodes_nodeids": list(range(count)), "nodes_featureids": [0] * count,
             "nodes_values": [0.5] * count, "nodes_truenodeids": yes, "nodes_falsenodeids": no, "n_targets": 1,
             "nodes_modes": ["BRANCH_LEQ"] * (count - leaves) + ["LEAF"] * leaves, "target_treeids": [0] * leaves,
             "target_nodeids": list(range(count - leaves, count)), "target_ids": [0] * leaves, "target_weights": [1.0] * leaves}
    return classical("TreeEnsembleRegressor", **{**words, **attributes})


def linked(count):
    """Returns a tree in which each node leads to the next one, and to the last leaf."""
    return trees(list(range(1, count - 1)) + [0, 0], [count - 1] * (count - 2) + [0, 0], 2)


RUN = ("run", "m.onnx", "--device", "cpu")
bomb("a tree that leads back", "E143")(trees([1, 0, 0], [2, 2, 0], 1))
bomb("a tree of 30,000 levels", None)(linked(30_000))
for device in "ref", "cpu":
    bomb(f"a tree of 100,000 levels on {device}", None, ("run", "m.onnx", "--device", device))(linked(100_000))
bomb("a tree of 2^60 ways", None, RUN)(trees([*range(1, 61), 0], [*range(1, 61), 0], 1))
bomb("a tree of 20,000 levels and 2^10000 ways", None, ("compile", "m.onnx", "-o", "p.weft"))(trees(
    [min(i + 1, 19_999) for i in range(20_000)], [min(i + 2, 19_999) for i in range(20_000)], 1))
bomb("a tree that reads feature 2^62", "E143")(trees([1, 0, 0], [2, 0, 0], 2, nodes_featureids=[1 << 62, 0, 0]))
bomb("2 leaves for 2^40 targets", "E401")(trees([1, 0, 0], [2, 0, 0], 2, n_targets=1 << 40))
bomb("2 leaves for 2^62 targets", "E401")(trees([1, 0, 0], [2, 0, 0], 2, n_targets=1 << 62))
bomb("leaves for -1 targets", "E145")(trees([1, 0, 0], [2, 0, 0], 2, n_targets=-1))
bomb("labels without values", "E140")(classical("LabelEncoder", (4,), TensorProto.INT64, keys_int64s=[1, 2, 3], values_int64s=[1]))
bomb("200,000 labels", None, RUN)(classical("LabelEncoder", (100,), TensorProto.INT64, keys_int64s=list(range(200_000)),
                                            values_int64s=list(range(200_000))))
SVM = {"rho": [1.0], "kernel_type": "LINEAR", "kernel_params": [1.0] * 3}
bomb("a class of -3 supports", "E145")(classical("SVMClassifier", classlabels_ints=[0, 1], vectors_per_class=[5, -3],
                                                 coefficients=[1.0, 2.0], support_vectors=[1.0] * 8, **SVM))
bomb("2^62 supports", "E151")(classical("SVMRegressor", n_supports=1 << 62, coefficients=[1.0, 2.0], support_vectors=[1.0] * 8, **SVM))
bomb("pairs of 500 classes", "E122")(classical(
    "SVMClassifier", classlabels_ints=list(range(500)), vectors_per_class=[1] * 500, coefficients=[1.0] * 499 * 500,
    support_vectors=[1.0] * 2000, **{**SVM, "rho": [1.0] * (499 * 250)}))
bomb("groups 50,000 deep in a pattern", "E122")(lambda f: save(f, graph_of(
    [Node("RegexFullMatch", ["x"], ["y"], pattern="(" * 50_000 + "a" + ")" * 50_000)], [info("x", (1,), TensorProto.STRING)],
    [helper.make_empty_tensor_value_info("y")]), opset=20))
bomb("a filter of 2^40 x 2^40", "E401")(lambda f: save(f, graph_of(
    [Node("MelWeightMatrix", ["b", "b", "r", "l", "r"], ["y"])],
    weights={"b": np.array(1 << 40), "r": np.array(16000.0, np.float32), "l": np.array(0.0, np.float32)})))
bomb("500 filters of 100 MiB", None, RUN)(lambda f: save(f, graph_of(
    [Node("MelWeightMatrix", ["b", "n", "r", "l", "h"], [f"m{i}"]) for i in range(500)]
    + [Node("Max", [f"m{i}" for i in range(500)], ["y"])],
    weights={"b": np.array(128), "n": np.array(400_000), "r": np.array(16000.0, np.float32),
             "l": np.array(0.0, np.float32), "h": np.array(8000.0, np.float32)})))
bomb("a transform of 2^40", "E146", RUN)(lambda f: save(f, graph_of(
    [Node("DFT", ["x", "n"], ["y"])], [info("x", (1, 16, 1))], weights={"n": np.array(1 << 40)})))
bomb("functions that double 13 times", None)(lambda f: doubling(f, 13))
bomb("functions that double 20 times", "E153")(lambda f: doubling(f, 20))
bomb("scales of 10^30 that the run tells", "E146", ("run", "m.onnx", "--device", "cpu", "--fill", "ones", "-i", "s=s.npy"))(
    lambda f: np.save(f / "s.npy", np.array([1, 1, 1e30, 1], np.float32)) or save(f, graph_of(
        [Node("Resize", ["x", "", "s"], ["y"])], [info("x", (1, 1, 4, 4)), info("s", (4,))])))


def endless(folder, nodes, carried, results, inputs=(), before=(), after=("y",), trips=1 << 40):
    """Makes a model of a Loop that runs `nodes` for `trips` trips; the last name in `after` is the output."""
    body = helper.make_graph([*nodes, Node("Identity", ["go"], ["on"])], "body",
                             [info("i", (), TensorProto.INT64), info("go", (), TensorProto.BOOL), carried],
                             [info("on", (), TensorProto.BOOL), *results])
    loop = Node("Loop", ["n", "", before[-1].output[0] if before else "x"], list(after), body=body)
    return save(folder, graph_of([*before, loop], list(inputs) or None, [helper.make_empty_tensor_value_info(after[-1])],
                                 {"n": np.array(trips)}))


LIST = helper.make_tensor_sequence_value_info
bomb("a loop that doubles its value", "E401", RUN)(lambda f: endless(
    f, [Node("Concat", ["s", "s"], ["t"], axis=0)], info("s", ("k", 3)), [info("t", ("m", 3))]))
bomb("a loop of rows without end", "E401", RUN)(lambda f: endless(
    f, [Node("Sin", ["s"], ["t"]), Node("Identity", ["t"], ["row"])], info("s", (1000, 100)),
    [info("t", (1000, 100)), info("row", (1000, 100))], [info("x", (1000, 100))], after=("last", "y")))
bomb("a list without end", "E401", RUN)(lambda f: endless(
    f, [Node("Sin", ["x"], ["z"]), Node("SequenceInsert", ["s", "z"], ["t"])], LIST("s", 1, None), [LIST("t", 1, None)],
    [info("x", (1000, 1000))], [Node("SequenceEmpty", [], ["e"], dtype=1)]))


def long_list(body):
    """Makes a model of 100,000 separate numbers; y = the length of the list that `body` makes of them."""
    return lambda f: save(f, graph_of([Node("SplitToSequence", ["x"], ["s"], keepdims=0), *body, Node("SequenceLength", ["t"], ["y"])],
                                      [info("x", (100_000,))], [info("y", (), TensorProto.INT64)], {"n": np.array(100_000)}))


def every_third():
    """Returns a loop that keeps every third number of `s` in a list."""
    keep = helper.make_graph([Node("SequenceAt", ["s", "i"], ["v"]), Node("SequenceInsert", ["l", "v"], ["longer"])], "keep", [],
                             [LIST("longer", 1, None)])
    drop = helper.make_graph([Node("Identity", ["l"], ["same"])], "drop", [], [LIST("same", 1, None)])
    body = helper.make_graph(
        [Node("Mod", ["i", "three"], ["m"]), Node("Cast", ["m"], ["is_other"], to=TensorProto.BOOL),
         Node("If", ["is_other"], ["k"], then_branch=drop, else_branch=keep), Node("Identity", ["go"], ["on"])], "body",
        [info("i", (), TensorProto.INT64), info("go", (), TensorProto.BOOL), LIST("l", 1, None)],
        [info("on", (), TensorProto.BOOL), LIST("k", 1, None)], [helper.make_tensor("three", TensorProto.INT64, [], [3])])
    return [Node("SequenceEmpty", [], ["e"], dtype=1), Node("Loop", ["n", "", "e"], ["t"], body=body)]


def mapped():
    body = helper.make_graph([Node("Neg", ["v"], ["w"])], "body", [info("v", ())], [info("w", ())])
    return [Node("SequenceMap", ["s"], ["t"], body=body)]


for device in "ref", "cpu":
    words = ("run", "m.onnx", "--device", device, "--fill", "ones")
    bomb(f"a list of 100,000 numbers on {device}", None, words)(long_list(mapped()))
    bomb(f"every third of 100,000 numbers on {device}", None, words)(long_list(every_third()))


@bomb("lists in loops, each written out", None)
def lists_in_loops(folder, depth=4):
    def body(level):
        port = [info(f"i{level}", (), TensorProto.INT64), info(f"go{level}", (), TensorProto.BOOL), LIST(f"s{level}", 1, None)]
        inner = Node("SequenceInsert", ["s0", "x"], ["t0"])
        if level > 0:
            inner = Node("Loop", ["n", "", f"s{level}"], [f"t{level}"], body=body(level - 1))
        return helper.make_graph([Node("Identity", [f"go{level}"], [f"on{level}"]), inner], "body", port,
                                 [info(f"on{level}", (), TensorProto.BOOL), LIST(f"t{level}", 1, None)])

    nodes = [Node("SequenceEmpty", [], ["e"], dtype=1), Node("Loop", ["n", "", "e"], ["q"], body=body(depth - 1)),
             Node("SequenceLength", ["q"], ["y"])]
    return save(folder, graph_of(nodes, weights={"n": np.array(60)}))


@bomb("a map of 2^50 keys", "E401", RUN)
def sparse_map(folder):
    nodes = [Node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[1 << 40, 0, 3]), Node("SequenceAt", ["z", "0"], ["a"]),
             Node("CastMap", ["a"], ["y"], domain="ai.onnx.ml", cast_to="TO_FLOAT", map_form="SPARSE", max_map=1 << 50)]
    return save(folder, graph_of(nodes, weights={"0": np.array(0)}), opsets=ML)


@pytest.mark.parametrize("name", BOMBS)
def test_bomb(name, tmp_path):
    make, code, words = BOMBS[name]
    make(tmp_path)
    with open(tmp_path / "stderr.txt", "w+", errors="replace") as err:
        returned, peak = run_limited([BUILD / "bin/weft", *words], tmp_path, err, {**os.environ, "WEFT_MEMORY_LIMIT": "800"},
                                     MOST_SECONDS, stack=256 << 10)
        err.seek(0)
        said = err.read()
    assert peak < MOST_MEMORY
    assert len(said) < 50_000
    if code is None:
        assert returned == 0, said
    else:
        assert returned in (2, 3, 4, 5) and f"[{code}]" in said, said
