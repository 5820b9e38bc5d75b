# SPDX-License-Identifier: Apache-2.0
"""The Python package: calls, arrays of several libraries, ports, errors, operators of the caller, saved programs."""

import functools
import pickle
import subprocess
import sys
import threading
import tracemalloc
import types

import numpy as np
import onnx
import pytest
import weft
from places import DIGITS, ROOT

MODEL = DIGITS / "digits.onnx"
DEVICES = ["ref", "cpu"]


@pytest.fixture(scope="module", params=DEVICES)
def model(request):
    return weft.compile(MODEL, device=request.param)


@pytest.fixture(scope="module")
def ten():
    return np.load(DIGITS / "ten.npy")


def doubler():
    graph = weft.Graph("double")
    x = graph.input("x", "f32[batch,4]")
    graph.output("y", graph.append("add", x, x))
    return graph


def test_reads_digits(model, ten):
    probability = model(ten)
    assert probability.shape == (10, 10) and probability.dtype == np.float32
    assert probability.argmax(1).tolist() == list(range(10))
    np.testing.assert_allclose(probability.sum(1), 1, rtol=1e-5)


def test_targets_agree(ten):
    answers = [weft.compile(MODEL, device=device)(ten) for device in DEVICES]
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-4, atol=1e-6)


def test_ways_to_call(model, ten):
    by_position = model(ten)
    assert np.array_equal(by_position, model(image=ten))
    assert np.array_equal(by_position, model.run({"image": ten})["probability"])
    assert np.array_equal(by_position, model(ten.tolist()))


def test_memory_layouts(model, ten):
    expected = model(ten)
    assert np.array_equal(expected, model(np.asfortranarray(ten)))
    assert np.array_equal(expected, model(ten.astype(">f4")))
    assert np.array_equal(expected[::3], model(ten[::3]))
    frozen = ten.copy()
    frozen.flags.writeable = False
    assert np.array_equal(expected, model(frozen))


def test_results_are_the_callers_own(model, ten):
    first = model(ten)
    kept = first.copy()
    second = model(ten[::-1].copy())
    assert np.array_equal(first, kept) and not np.array_equal(first, second)
    first[:] = 0
    assert np.array_equal(model(ten), kept)


def test_an_output_that_is_an_input_does_not_share_memory():
    graph = weft.Graph("same")
    graph.output("y", graph.input("x", "f32[4]"))
    x = np.arange(4, dtype=np.float32)
    y = graph.compile(device="ref")(x)
    y[0] = 7
    assert x[0] == 0


def test_dlpack_objects_are_taken(model, ten):
    class Exporter:
        def __dlpack__(self, **options):
            return ten.__dlpack__(**options)

        def __dlpack_device__(self):
            return ten.__dlpack_device__()

    assert np.array_equal(model(Exporter()), model(ten))


def test_results_export_dlpack(model, ten):
    probability = model(ten)
    assert np.shares_memory(np.from_dlpack(probability), probability)


@pytest.fixture
def torch(monkeypatch):
    """Returns PyTorch or, if it is not installed, a stand-in with DLPack tensors and from_dlpack."""
    try:
        import torch
    except ImportError:
        torch = stand_in_for_torch()
        for name in "torch", "torch.utils", "torch.utils.dlpack":
            monkeypatch.setitem(sys.modules, name, torch)
    return torch


@functools.cache  # one for all tests, because the package keeps the module `torch` that it imported first
def stand_in_for_torch():
    class Tensor:
        def __init__(self, array):
            self.array = array

        def numpy(self):
            return self.array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    class Capsule:
        def __init__(self, capsule):
            self.capsule = capsule

        def __dlpack__(self, **_):
            return self.capsule

        def __dlpack_device__(self):
            return 1, 0

    def from_dlpack(given):
        return Tensor(np.from_dlpack(given if hasattr(given, "__dlpack__") else Capsule(given)))

    Tensor.__module__ = "torch"
    return types.SimpleNamespace(Tensor=Tensor, from_numpy=Tensor, from_dlpack=from_dlpack)


def test_torch_gives_torch(model, ten, torch):
    probability = model(torch.from_numpy(ten))
    assert isinstance(probability, torch.Tensor)
    assert np.array_equal(probability.numpy(), model(ten))


def test_ports(model):
    (port,) = model.inputs
    assert (port.name, port.dtype, port.type) == ("image", "f32", "f32[batch,1,8,8]")
    assert port.shape[1:] == (1, 8, 8) and port.shape[0].name == "batch"
    assert [port.name for port in model.outputs] == ["probability"]
    assert "f32[batch,1,8,8]" in repr(model) and "<table>" in model._repr_html_()


def test_report_and_steps(model):
    report = model.report()
    assert report["schema"] == "weft.report.1" and report["metadata"]["image.layout"] == "NCHW"
    assert len(model.steps()) > 3 and all(step["kernel"] for step in model.steps())


def test_shapes_fix_and_bound():
    fixed = weft.compile(MODEL, device="ref", shapes={"image": (2, 1, 8, 8)})
    assert fixed.inputs[0].shape == (2, 1, 8, 8)
    bounded = weft.compile(MODEL, device="ref", shapes={"image": ((1, 4), None, "8", 8)})
    assert bounded.inputs[0].shape[0] == weft.Size("batch", 1, 4)
    assert weft.compile(MODEL, device="ref", symbols={"batch": 3}).inputs[0].shape[0] == 3
    with pytest.raises(weft.UsageError) as caught:
        bounded(np.zeros((5, 1, 8, 8), np.float32))
    assert caught.value.code == "E311"


def test_an_input_without_a_rank_has_the_one_that_is_given(tmp_path):
    from onnx import TensorProto, helper, save

    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    with pytest.raises(weft.Error, match="--shape x="):
        weft.compile(tmp_path / "m.onnx", device="ref")
    program = weft.compile(tmp_path / "m.onnx", device="ref", shapes={"x": (2, (1, 8))})
    assert program(np.array([[-1, 2], [3, -4]], np.float32)).tolist() == [[0, 2], [3, 0]]


def test_bytes_are_a_model(ten):
    model = weft.compile(MODEL.read_bytes(), device="ref")
    assert model(ten).argmax(1).tolist() == list(range(10))


@pytest.mark.parametrize(
    ("make", "kind", "base", "code"),
    [
        (lambda: weft.compile("missing.onnx"), weft.UsageError, ValueError, "E106"),
        (lambda: weft.compile(b""), weft.ModelError, ValueError, "E101"),
        (lambda: weft.compile(b"<html>no</html>"), weft.ModelError, ValueError, "E105"),
        (lambda: weft.compile(MODEL, device="nowhere"), weft.UnsupportedError, RuntimeError, "E501"),
        (lambda: weft.compile(MODEL, precision="f7"), weft.UsageError, ValueError, "E203"),
        (lambda: weft.compile(MODEL, shapes={"image": ("a", 1, 8, 8)}), weft.UsageError, ValueError, "E203"),
        (lambda: weft.load(MODEL), weft.UsageError, ValueError, "E102"),
        (lambda: weft.Graph().append("frobnicate"), weft.ModelError, ValueError, "E120"),
        (lambda: weft.Graph.parse("nonsense"), weft.ModelError, ValueError, "E191"),
    ],
)
def test_errors(make, kind, base, code):
    with pytest.raises(kind) as caught:
        make()
    error = caught.value
    assert isinstance(error, base) and isinstance(error, weft.Error)
    assert error.code == code and f"[{code}]" in str(error)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.code, copy.hint) == (type(error), str(error), error.code, error.hint)


@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: m(x.astype(np.float64)),
        lambda m, x: m(x[0]),
        lambda m, x: m(),
        lambda m, x: m(x, x),
        lambda m, x: m(x, image=x),
        lambda m, x: m(picture=x),
        lambda m, x: m(object()),
        lambda m, x: m(None),
        lambda m, x: m(np.full(x.shape, "seven")),
    ],
)
def test_bad_inputs(model, ten, call):
    with pytest.raises((weft.UsageError, TypeError)) as caught:
        call(model, ten)
    assert getattr(caught.value, "code", "E310") == "E310"


def test_options_of_wrong_types():
    for options, said in [
        ({"threads": "two"}, "weft.compile: threads takes int, not 'two'"),
        ({"shapes": 3}, "weft.compile: shapes takes Mapping[str, Sequence[Any]] | None, not 3"),
        ({"keep_f32": "head*"}, "weft.compile: keep_f32 takes Iterable[str], not 'head*'"),
        ({"thread": 1}, "weft.compile has no option 'thread'"),
    ]:
        with pytest.raises(TypeError) as caught:
            weft.print_model("model.onnx", **options)
        assert str(caught.value) == said


def test_graph_builder():
    graph = doubler()
    assert "add" in str(graph)
    model = graph.compile(device="ref")
    assert np.array_equal(model(np.ones((3, 4), np.float32)), np.full((3, 4), 2, np.float32))
    with pytest.raises(weft.UsageError) as caught:
        graph.compile(device="ref")
    assert caught.value.code == "E211"
    again = weft.Graph.parse(str(doubler())).compile(device="ref")
    assert np.array_equal(again(np.ones((1, 4), np.float32)), np.full((1, 4), 2, np.float32))


def test_many_threads_share_a_model(model, ten):
    expected, wrong = model(ten), []

    def work(first):
        for i in range(20):
            rows = slice(first, first + 1 + i % 3)
            if not np.array_equal(model(ten[rows]), expected[rows]):
                wrong.append(rows)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("device", DEVICES)
def test_a_deadline_ends_a_compile(device):
    with pytest.raises(weft.ResourceError) as caught:
        weft.compile(MODEL, device=device, deadline=1e-9)
    assert caught.value.code == "E403"
    assert weft.compile(MODEL, device=device, deadline=1000.0)


def read_only(array):
    array.flags.writeable = False
    return array


def constant_model(value, how):
    graph = weft.Graph("g")
    x = graph.input("x", "f32[4]")
    if how == "graph":
        graph.output("y", graph.append("mul", x, graph.constant(value)))
        return graph
    ports = [onnx.helper.make_tensor_value_info(name, 1, [4]) for name in "xcy"]
    product = onnx.helper.make_graph([onnx.helper.make_node("Mul", ["x", "c"], ["y"])], "g", ports[:2], ports[2:])
    return weft.compile(onnx.helper.make_model(product).SerializeToString(), device="cpu", constants={"c": value})


@pytest.mark.parametrize("how", ["graph", "compile"])
@pytest.mark.parametrize("view", ["itself", "slice", "strided", "broadcast", "read-only view", "frombuffer"])
def test_writes_to_an_array_do_not_change_a_constant(how, view):
    memory = np.arange(8, dtype=np.float32)
    given = {
        "itself": lambda: memory[:4],
        "slice": lambda: memory[2:6],
        "strided": lambda: memory[::2],
        "broadcast": lambda: np.broadcast_to(memory[3], (4,)),
        "read-only view": lambda: read_only(memory[1:5]),
        "frombuffer": lambda: read_only(np.frombuffer(memory.data, np.float32, 4)),
    }[view]()
    wanted = np.array(given)
    made = constant_model(given, how)
    memory[:] = -1
    if how == "graph":
        made = made.compile(device="cpu")
    assert np.array_equal(made(np.ones(4, np.float32)), wanted)
    memory[:] = -2
    assert np.array_equal(made(np.ones(4, np.float32)), wanted)


def test_constants_are_copied_at_most_once(tmp_path):
    graph, megabytes = weft.Graph("g"), 8
    np.save(tmp_path / "weights.npy", np.zeros((2, megabytes << 17), np.float32))
    mapped = np.load(tmp_path / "weights.npy", mmap_mode="r")
    written = np.zeros((2, megabytes << 17), np.float32)
    for array, copies in (mapped, 0), (mapped[1], 0), (read_only(written.copy()), 0), (written, 1), (np.asfortranarray(written), 1):
        tracemalloc.start()
        graph.constant(array)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert copies * array.nbytes <= peak <= copies * array.nbytes + (1 << 16)


def test_progress_is_called():
    calls = []
    weft.compile(MODEL, device="cpu", cache=False, progress=lambda phase, done, total: calls.append((phase, done, total)))
    assert calls and all(done <= total for _, done, total in calls)


def test_saved_programs(tmp_path, ten):
    model = weft.compile(MODEL, device="cpu")
    model.save(tmp_path / "digits.weft")
    loaded = weft.load(tmp_path / "digits.weft", threads=1)
    assert loaded.inputs == model.inputs and np.array_equal(loaded(ten), model(ten))
    data = bytearray((tmp_path / "digits.weft").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "damaged.weft").write_bytes(data)
    with pytest.raises(weft.ModelError):
        weft.load(tmp_path / "damaged.weft")
    with pytest.raises(weft.UnsupportedError):
        weft.compile(MODEL, device="ref").save(tmp_path / "ref.weft")


def test_print_model():
    assert 'parameter {name="image"' in weft.print_model(MODEL)


def test_import_brings_no_numpy():
    code = "import sys, weft; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_inputs_with_defaults_may_be_left_out():
    text = """default "w" f32[4]{1, 2, 3, 4}
module main {
  %x = parameter {name="x", type=f32[4]}
  %w = parameter {name="w", type=f32[4]}
  %s = mul %x, %w
  return "s"=%s
}
"""
    model = weft.Graph.parse(text).compile(device="cpu")
    assert [port.has_default for port in model.inputs] == [False, True]
    x = np.ones(4, np.float32)
    assert model(x).tolist() == [1, 2, 3, 4]
    assert model(x, w=x * 5).tolist() == [5, 5, 5, 5]
    assert model.run({"x": x})["s"].tolist() == [1, 2, 3, 4]


def test_a_donated_input_is_updated_in_place():
    text = """module main {
  %cache = parameter {name="cache", type=f32[8,4]}
  %slot = parameter {name="slot", type=i64[1,1]}
  %row = parameter {name="row", type=f32[1,4]}
  %next = scatter_nd %cache, %slot, %row {fn=replace}
  return "next"=%next
}
"""
    model = weft.Graph.parse(text).compile(device="cpu", donate={"cache": "next"})
    assert [port.is_donated for port in model.inputs] == [True, False, False]
    cache, row = np.zeros((8, 4), np.float32), np.ones((1, 4), np.float32)
    for slot in range(3):
        cache_after = model(cache, np.array([[slot]]), row)
        assert np.shares_memory(cache_after, cache) and cache.sum() == 4 * (slot + 1)
    cache.flags.writeable = False
    with pytest.raises(weft.UsageError, match="cannot be written to"):
        model(cache, np.array([[0]]), row)


def test_out_arrays():
    model = doubler().compile(device="cpu")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    y = np.full((2, 4), -1, np.float32)
    assert model(x, out=y) is y
    np.testing.assert_array_equal(y, 2 * x)
    y[:] = 0
    assert model.run({"x": x}, out={"y": y})["y"] is y
    np.testing.assert_array_equal(y, 2 * x)
    large = np.full(100, -1, np.float32)
    part = model(x, out=large)
    assert part.shape == (2, 4) and part.base is large and large[8] == -1
    for wrong in (np.zeros((2, 4), np.float64), np.zeros((2, 3), np.float32), np.zeros((4, 8), np.float32)[:, ::2]):
        with pytest.raises(weft.UsageError):
            model(x, out=wrong)
    y.flags.writeable = False
    with pytest.raises(weft.UsageError, match="E310"):
        model(x, out=y)
    with pytest.raises(weft.UsageError, match="no output 'z'"):
        model.run({"x": x}, out={"z": x})


def test_negative_views_of_torch():
    torch = pytest.importorskip("torch")
    model, x = doubler().compile(device="cpu"), torch.arange(8.0).reshape(2, 4)._neg_view()
    np.testing.assert_array_equal(model(x), -2 * np.arange(8.0).reshape(2, 4))
    with pytest.raises(weft.UsageError, match="E310"):
        model(x, out=x)


def squash_model(attributes=""):
    graph = weft.Graph("squashed")
    return graph, graph.input("x", "f32[n,3]"), f"mine:Squash {{{attributes}}}" if attributes else "mine:Squash"


def test_operator_from_source(tmp_path):
    source = "template <class V> V squash(V x) { return x / (absolute(x) + V(1)); }"
    op = weft.Operator("mine:Squash", "f32[...] -> f32[...]", source=source, function="squash", pointwise=True)
    graph, x, call = squash_model()
    graph.add_operator(op)
    graph.output("y", graph.append(call, x))
    values = np.array([[1, -2, 0.5]], np.float32)
    model = graph.compile(device="cpu")
    np.testing.assert_allclose(model(values), values / (abs(values) + 1), rtol=1e-6)
    model.save(tmp_path / "m.weft")
    np.testing.assert_array_equal(weft.load(tmp_path / "m.weft")(values), model(values))


def test_operator_that_calls_back():
    def scaled_rows(x, total, alpha):
        assert not x.flags.writeable
        total[:] = alpha * x.sum(1)

    op = weft.Operator("mine:Squash", "f32[n,k] -> f32[n]", call=scaled_rows)
    graph, x, call = squash_model("alpha=2.5")
    graph.add_operator(op)
    graph.output("y", graph.append(call, x))
    model = graph.compile(device="cpu", threads=2)
    for rows in (0, 1, 5):
        values = np.random.default_rng(rows).random((rows, 3), np.float32)
        np.testing.assert_allclose(model(values), 2.5 * values.sum(1), rtol=1e-5)
    with pytest.raises(weft.UnsupportedError, match="E406"):
        model.save("never.weft")


def test_failure_of_a_callback_is_the_cause():
    def fail(x, y):
        raise LookupError("nothing here")

    graph, x, call = squash_model()
    graph.add_operator(weft.Operator("mine:Squash", "f32[...] -> f32[...]", call=fail))
    graph.output("y", graph.append(call, x))
    with pytest.raises(weft.Error, match="E302") as caught:
        graph.compile(device="cpu")(np.ones((2, 3), np.float32))
    assert isinstance(caught.value.__cause__, LookupError)
    with pytest.raises(weft.UsageError, match="one alternative"):
        weft.Operator("a:b", "f32[n] -> f32[n]; f64[n] -> f64[n]", call=fail)


def test_several_chips_in_one_file(tmp_path, ten):
    model = weft.compile(MODEL, device="cpu")
    model.save(tmp_path / "one.weft")
    model.save(tmp_path / "many.weft", targets=["cpu:x86-64-v4", "nvidia:sm_90a"])
    one, many = ((tmp_path / name).stat().st_size for name in ("one.weft", "many.weft"))
    assert one < many
    np.testing.assert_array_equal(weft.load(tmp_path / "many.weft")(ten), model(ten))


def test_support_of_each_node(tmp_path):

    answer = weft.support(MODEL, device="cpu")
    assert answer["supported"] == answer["total"] == len(answer["nodes"]) > 5
    f32 = onnx.TensorProto.FLOAT
    x = onnx.helper.make_tensor_value_info("x", f32, ["n", 4])
    y, z = (onnx.helper.make_tensor_value_info(name, f32, None) for name in "yz")
    nodes = [
        onnx.helper.make_node("Relu", ["x"], ["a"], name="first"),
        onnx.helper.make_node("Unheard", ["a"], ["b"], name="odd"),
        onnx.helper.make_node("Neg", ["b"], ["y"], name="after"),
        onnx.helper.make_node("Exp", ["a"], ["z"], name="beside"),
    ]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [x], [y, z])), tmp_path / "m.onnx")
    answer = weft.support(tmp_path / "m.onnx", device="cpu")
    assert [node["supported"] for node in answer["nodes"]] == [True, False, False, True]
    assert "unknown" in answer["nodes"][1]["why"] and "before it" in answer["nodes"][2]["why"]
