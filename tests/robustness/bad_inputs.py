# SPDX-License-Identifier: Apache-2.0
"""Invalid inputs by name. Each is a function that writes files into a folder and returns the arguments for `weft`."""

import os

import numpy as np
from onnx import TensorProto, helper, numpy_helper

INPUTS = {}
F32 = TensorProto.FLOAT


def bad(name):
    def keep(function):
        INPUTS[name] = function
        return function

    return keep


def info(name, dims=(2, 3), type=F32):
    return helper.make_tensor_value_info(name, type, dims)


def graph_of(nodes, inputs=None, outputs=None, weights=()):
    return helper.make_graph(nodes, "g", inputs or [info("x")], outputs or [info("y", None)],
                             [numpy_helper.from_array(np.asarray(v), k) for k, v in dict(weights).items()])


def save(folder, graph, opset=18, ir=9, **words):
    opsets = [helper.make_opsetid("", opset), *words.pop("opsets", [])]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir, **words)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return ["run", "m.onnx"]


def node(name, op, *inputs, inputs_of=None, weights=(), outputs=("y",), opset=18, x=(2, 3), x_type=F32, more=(), **attributes):
    """Registers, as `name`, a model of one node that is called `n`."""
    def make(folder):
        made = helper.make_node(op, list(inputs), list(outputs), name="n", **attributes)
        return save(folder, graph_of([made], [info("x", x, x_type), *more], None, weights), opset)

    INPUTS[name] = make


def plain(folder, data, name="m.onnx"):
    (folder / name).write_bytes(data)
    return ["run", name]


def relu(folder):
    return save(folder, graph_of([helper.make_node("Relu", ["x"], ["y"])]))


# --- files

bad("01 empty file")(lambda folder: plain(folder, b""))
bad("02 random bytes")(lambda folder: plain(folder, np.random.default_rng(1).bytes(400)))
bad("04 git-lfs pointer")(lambda folder: plain(
    folder, b"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 1234\n"))
bad("05 web page")(lambda folder: plain(folder, b"<!DOCTYPE html><html><head><title>404 Not Found</title></head></html>"))
bad("06 folder")(lambda folder: (folder / "m").mkdir() or ["run", "m"])
bad("06 missing")(lambda folder: plain(folder, b"x", "model.onnx") and ["run", "modle.onnx"])
bad("48 pickle")(lambda folder: plain(folder, b"\x80\x02}q\x00X\x05\x00\x00\x00stateq\x01K\x01s.", "m.pt"))


@bad("03 cut in half")
def cut(folder):
    save(folder, graph_of([helper.make_node("Add", ["x", "w"], ["y"])], [info("x", (8, 8))], None,
                          {"w": np.zeros((8, 8), np.float32)}))
    data = (folder / "m.onnx").read_bytes()
    return plain(folder, data[: len(data) // 2])


# --- the model as a whole


@bad("07 no graph")
def no_graph(folder):
    model = helper.make_model(graph_of([helper.make_node("Relu", ["x"], ["y"])]), ir_version=9)
    model.ClearField("graph")
    return plain(folder, model.SerializeToString())


@bad("07 no opset")
def no_opset(folder):
    model = helper.make_model(graph_of([helper.make_node("Relu", ["x"], ["y"])]), ir_version=9)
    del model.opset_import[:]
    return plain(folder, model.SerializeToString())


bad("08 opset 999")(lambda f: save(f, graph_of([helper.make_node("Relu", ["x"], ["y"])]), opset=999))
bad("08 file version 999")(lambda f: save(f, graph_of([helper.make_node("Relu", ["x"], ["y"])]), ir=999))
node("09 unknown operator", "FrobnicateNet", "x")
node("10 custom domain", "MyOp", "x", domain="com.acme")
bad("11 cycle")(lambda f: save(f, graph_of([
    helper.make_node("Add", ["x", "b"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["b"], name="second"),
    helper.make_node("Relu", ["b"], ["y"])])))
bad("12 nodes out of order")(lambda f: save(f, graph_of([
    helper.make_node("Relu", ["a"], ["y"], name="second"), helper.make_node("Neg", ["x"], ["a"], name="first")])))
bad("13 name made twice")(lambda f: save(f, graph_of([
    helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Abs", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])])))
bad("14 nobody makes it")(lambda f: save(f, graph_of([
    helper.make_node("Relu", ["x"], ["note"]), helper.make_node("Add", ["note", "nope"], ["y"], name="n")])))
bad("15 output that nobody makes")(lambda f: save(f, graph_of([helper.make_node("Relu", ["x"], ["z"])])))


@bad("15 result of a body that nobody makes")
def nobody_in_a_body(folder):
    ports = [info("i", (), TensorProto.INT64), info("goes_on", (), TensorProto.BOOL), info("a")]
    body = helper.make_graph([helper.make_node("Relu", ["a"], ["b"])], "body", ports, [ports[1], info("c", None)])
    loop = helper.make_node("Loop", ["trips", "", "x"], ["y"], name="n", body=body)
    return save(folder, graph_of([loop], [info("x"), info("trips", (), TensorProto.INT64)]))


# --- single nodes

node("16 Conv without weight", "Conv", "x", x=(1, 2, 4, 4))
node("17 attribute of another type", "Concat", "x", "x", axis="0")
node("17 attribute missing", "Cast", "x")
node("18 axis out of range", "Softmax", "x", axis=7)
node("19 kernel larger than input", "MaxPool", "x", x=(1, 1, 4, 4), kernel_shape=[9, 9])
node("20 stride 0", "MaxPool", "x", x=(1, 1, 4, 4), kernel_shape=[2, 2], strides=[0, 1])
node("20 group 0", "Conv", "x", "w", x=(1, 2, 4, 4), weights={"w": np.zeros((2, 2, 1, 1), np.float32)}, group=0)
node("20 slice step 0", "Slice", "x", "s", "e", "a", "t",
     weights={"s": [0], "e": [1], "a": [0], "t": [0]})
node("21 pads of 2^62", "Pad", "x", "p", weights={"p": [1 << 62, 0, 1 << 62, 0]})
bad("21 dims of 2^33 x 2^33")(lambda f: save(f, graph_of(
    [helper.make_node("Relu", ["x"], ["y"])], [info("x", (1 << 33, 1 << 33))])))


def with_tensor(folder, change):
    tensor = numpy_helper.from_array(np.zeros((2, 3), np.float32), "w")
    change(tensor)
    graph = graph_of([helper.make_node("Add", ["x", "w"], ["y"])])
    graph.initializer.append(tensor)
    return save(folder, graph)


def set_dims(*dims):
    def change(tensor):
        del tensor.dims[:]
        tensor.dims.extend(dims)

    return change


bad("22 weights of 10^12 values")(lambda f: with_tensor(f, set_dims(10**6, 10**6)))
bad("23 raw data too short")(lambda f: with_tensor(f, set_dims(2, 4)))
bad("23 element type 99")(lambda f: with_tensor(f, lambda t: setattr(t, "data_type", 99)))
bad("23 negative dim")(lambda f: with_tensor(f, set_dims(-2, 3)))

# --- too large

node("24 ConstantOfShape of 2^40", "ConstantOfShape", "s", weights={"s": [1 << 40]})
node("24 Expand bomb", "Expand", "x", "s", x=(1,), weights={"s": [1 << 20, 1 << 20]})
node("24 OneHot of 2^40", "OneHot", "i", "d", "v",
     weights={"i": np.zeros((4,), np.int64), "d": np.int64(1 << 40), "v": np.array([0, 1], np.float32)})
node("25 Reshape with two -1", "Reshape", "x", "s", weights={"s": [-1, -1]})
node("25 Reshape to another count", "Reshape", "x", "s", weights={"s": [4, 4]})
node("26 Gather out of range", "Gather", "x", "i", weights={"i": [1000000]})
node("26 ScatterND out of range", "ScatterND", "x", "i", "u",
     weights={"i": np.array([[9]]), "u": np.zeros((1, 3), np.float32)})


@bad("26 index out of range at run time")
def gather_at_run_time(folder):
    made = helper.make_node("Gather", ["x", "i"], ["y"], name="n")
    save(folder, graph_of([made], [info("x"), info("i", (1,), TensorProto.INT64)]))
    np.save(folder / "i.npy", np.array([1000000]))
    return ["run", "m.onnx", "-i", "i=i.npy"]


@bad("27 loop of 2^62 trips")
def endless(folder):
    body = helper.make_graph([helper.make_node("Sin", ["s"], ["t"]), helper.make_node("Identity", ["go"], ["on"])], "body",
                             [info("i", (), TensorProto.INT64), info("go", (), TensorProto.BOOL), info("s")],
                             [info("on", (), TensorProto.BOOL), info("t")])
    loop = helper.make_node("Loop", ["trips", "", "x"], ["y"], name="n", body=body)
    return save(folder, graph_of([loop], weights={"trips": np.int64(1 << 62)})) + ["--device", "ref", "--deadline", "0.2"]


@bad("28 nested 30 deep")
def a_little_nested(folder):
    from nest import nested_model

    return plain(folder, nested_model(30)) + ["--fill", "ones"]


@bad("29 nested 2,000 deep")
def nested(folder):
    from nest import nested_model

    return plain(folder, nested_model(2000))


def doubling(folder, levels):
    functions = []
    for k in range(levels):
        op, domain = ("Identity", "") if k == 0 else (f"F{k - 1}", "f")
        nodes = [helper.make_node(op, ["a"], ["b"], domain=domain), helper.make_node(op, ["b"], ["c"], domain=domain)]
        functions.append(helper.make_function("f", f"F{k}", ["a"], ["c"], nodes,
                                              [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]))
    top = helper.make_node(f"F{levels - 1}", ["x"], ["y"], domain="f")
    return save(folder, graph_of([top]), opsets=[helper.make_opsetid("f", 1)], functions=functions)


bad("31 functions that double 27 times")(lambda f: doubling(f, 27))


@bad("32 function that calls itself")
def recursive(folder):
    inner = helper.make_node("R", ["a"], ["b"], domain="f")
    function = helper.make_function("f", "R", ["a"], ["b"], [inner], [helper.make_opsetid("f", 1)])
    top = helper.make_node("R", ["x"], ["y"], domain="f")
    return save(folder, graph_of([top]), opsets=[helper.make_opsetid("f", 1)], functions=[function])


# --- weights in files of their own


def external(folder, location, offset=0):
    def change(tensor):
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, "offset": offset, "length": 24}.items():
            tensor.external_data.add(key=key, value=str(value))

    home = folder / "home"
    home.mkdir()
    (folder / "secret").write_bytes(bytes(24))
    (home / "w.bin").write_bytes(bytes(24))
    os.mkfifo(home / "fifo")
    (home / "link").symlink_to("../secret")
    with_tensor(home, change)
    return ["run", "home/m.onnx"]


for place in ("../secret", "/dev/zero", "fifo", "link"):
    bad(f"33 weights in {place}")(lambda f, place=place: external(f, place))
bad("34 weights that are missing")(lambda f: external(f, "v.bin"))
bad("34 weights that are too short")(lambda f: external(f, "w.bin", 16))
bad("34 weights at a negative place")(lambda f: external(f, "w.bin", -8))
bad("34 weights at a huge place")(lambda f: external(f, "w.bin", 1 << 62))

# --- more single nodes

node("35 TopK beyond the axis", "TopK", "x", "k", weights={"k": [9]}, outputs=("y", "i"))
node("35 TopK of a negative count", "TopK", "x", "k", weights={"k": [-1]}, outputs=("y", "i"))
node("35 Split that does not add up", "Split", "x", "s", weights={"s": [1, 3]}, outputs=("y", "z"))
node("35 MatMul of 3 by 4", "MatMul", "x", "w", weights={"w": np.zeros((4, 5), np.float32)})
node("35 BatchNormalization of 2 channels by 3", "BatchNormalization", "x", "w", "w", "w", "w",
     weights={"w": np.ones(3, np.float32)}, x=(1, 2, 4))
for scale in (0.0, 1e18, float("nan")):
    node(f"36 Resize by {scale}", "Resize", "x", "", "s", weights={"s": np.array([1, scale], np.float32)})
node("37 Range of 1e30 by 1e-30", "Range", "a", "b", "c",
     weights={"a": np.float32(0), "b": np.float32(1e30), "c": np.float32(1e-30)})
node("37 Range by 0", "Range", "a", "b", "c", weights={"a": np.int64(0), "b": np.int64(9), "c": np.int64(0)})
node("38 division by a constant 0", "Div", "x", "z", x_type=TensorProto.INT32, weights={"z": np.int32(0)})
node("38 remainder by a constant 0", "Mod", "x", "z", x_type=TensorProto.INT32, weights={"z": np.int32(0)})


@bad("40 names that would move the cursor")
def escapes(folder):
    made = helper.make_node("Relu", ["x", "x"], ["y"], name="R\x1b[31mu")
    return save(folder, graph_of([made]))
