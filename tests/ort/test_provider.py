# SPDX-License-Identifier: Apache-2.0
"""Stock onnxruntime with Weft: which nodes Weft takes, and that answers equal those of the CPU provider."""
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import models
from models import NAME, assigned, check_equal, mixed, mlp, model, numbers, session

F, I64, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def test_every_name_is_offered(provider):
    found = [device for device in ort.get_ep_devices() if device.ep_name in provider.get_ep_names()]
    assert sorted(device.ep_name for device in found) == sorted(provider.get_ep_names())
    assert all(device.ep_metadata["cuda_device_id"] == "0" for device in found)
    assert provider.get_ep_name() == NAME


@pytest.mark.parametrize("name", ["WeftExecutionProvider", "ROCMExecutionProvider", "AMDGPUExecutionProvider"])
def test_a_session_by_name(name):
    made = session(mlp(), name=name)
    assert made.get_providers() == [name, "CPUExecutionProvider"]
    assert assigned(made) == {name: 3}


def test_the_name_that_onnxruntime_keeps_for_itself():
    """onnxruntime's Python package silently drops MIGraphXExecutionProvider; after register() a session has a provider
    of this name, and lists it."""
    made = session(mlp(), name="MIGraphXExecutionProvider")
    assert made.get_providers() == ["MIGraphXExecutionProvider", "CPUExecutionProvider"]
    assert assigned(made) == {NAME: 3}
    half = session(mlp(), {"migraphx_fp16_enable": "1"}, name="MIGraphXExecutionProvider")
    assert half.get_provider_options()["MIGraphXExecutionProvider"]["migraphx_fp16_enable"] == "1"
    x = {"x": numbers(3, 64)}
    assert 0 < np.abs(made.run(None, x)[0] - half.run(None, x)[0]).max()


def test_a_session_without_the_provider_that_it_asked_for_is_an_error(monkeypatch):
    from onnxruntime_ep_weft import _sessions

    monkeypatch.setattr(_sessions, "_translated", set())  # the state before register() has translated the name
    with pytest.raises(RuntimeError, match="asked for MIGraphXExecutionProvider, and has CPUExecutionProvider only"):
        session(mlp(), name="MIGraphXExecutionProvider")


@pytest.mark.parametrize("name, words", [
    ("ORT_MIGRAPHX_FP16_ENABEL", "not known: ORT_MIGRAPHX_FP16_ENABEL (the nearest is ORT_MIGRAPHX_FP16_ENABLE)"),
    ("ORT_MIGRAPHX_COMPILE_TARGET", "change nothing in Weft: ORT_MIGRAPHX_COMPILE_TARGET"),
    ("MIGRAPHX_TRACE_EVAL", "change nothing in Weft: MIGRAPHX_TRACE_EVAL"),
    ("MIGRAPHX_TRACE_EVALL", "not known: MIGRAPHX_TRACE_EVALL (the nearest is MIGRAPHX_TRACE_EVAL)")])
def test_variables_that_change_nothing_are_noted_once(provider, tmp_path, monkeypatch, name, words):
    (tmp_path / "model.onnx").write_bytes(mlp().SerializeToString())
    monkeypatch.setenv(name, "1")
    monkeypatch.setenv("ORT_MIGRAPHX_DUMP_MODEL_OPS", "0")
    said = python(provider, "-c", TWICE.format(path=str(tmp_path / "model.onnx"))).stderr
    assert said.count(words) == 1 and said.count("environment variables that") == 1
    assert "DUMP_MODEL_OPS" not in said


TWICE = """
import onnxruntime as ort, onnxruntime_ep_weft
onnxruntime_ep_weft.register()
for _ in range(2):
    ort.InferenceSession({path!r}, providers=['WeftExecutionProvider'])
"""


def test_the_classic_name_by_device():
    settings = ort.SessionOptions()
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    devices = [device for device in ort.get_ep_devices() if device.ep_name == "MIGraphXExecutionProvider"]
    settings.add_provider_for_devices(devices, {"device_id": "0", "migraphx_fp16_enable": "0"})
    made = ort.InferenceSession(mlp().SerializeToString(), settings)
    assert assigned(made) == {"MIGraphXExecutionProvider": 3}


def by_names(proto, *names):
    """Returns a session with several of the library's providers, in this order."""
    settings = ort.SessionOptions()
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for name in names:
        settings.add_provider_for_devices([device for device in ort.get_ep_devices() if device.ep_name == name][:1], {})
    return ort.InferenceSession(proto.SerializeToString(), settings)


@pytest.mark.parametrize("names", [("MIGraphXExecutionProvider", NAME), (NAME, "ROCMExecutionProvider")])
def test_two_names_in_one_session(names, capfd):
    """The first provider takes the nodes that compile. The second provider gets none, but does not warn that the
    session runs on the CPU."""
    made, proto, x = by_names(mixed(), *names), mixed(), {"x": numbers(3, 64)}
    assert assigned(made) == {names[0]: 2, "CPUExecutionProvider": 1}
    said = capfd.readouterr().err
    assert "2/3 nodes on Weft" in said and "0/1 nodes left on Weft" in said and "this session runs on CPU" not in said
    got, want = made.run(None, x), models.reference(proto).run(None, x)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-4, atol=1e-4)
    assert assigned(by_names(mlp(), *names)) == {names[0]: 3}
    said = capfd.readouterr().err
    assert said.count("nodes") == 1


def test_two_names_side_by_side():
    """Options apply only to the provider's name that they are given with. A session still works after the session of
    the other name is deleted."""
    x = {"x": numbers(5, 64)}
    exact, half = session(mlp()), session(mlp(), {"fp16_enable": "1"}, name="ROCMExecutionProvider")
    wanted, rounded = exact.run(None, x)[0], half.run(None, x)[0]
    assert 0 < np.abs(wanted - rounded).max() < 0.1 * np.abs(wanted).max()
    del exact
    np.testing.assert_array_equal(half.run(None, x)[0], rounded)
    again = session(mlp())
    del half
    np.testing.assert_array_equal(again.run(None, x)[0], wanted)


def test_every_size_runs_in_one_program(capfd):
    feeds = [{"x": numbers(n, 64, seed=n)} for n in (1, 7, 0, 64, 3)]
    made = check_equal(mlp(), feeds)
    assert assigned(made) == {NAME: 3}


def test_runs_at_once():
    made = session(mlp())
    feeds = [{"x": numbers(n + 1, 64, seed=n)} for n in range(8)]
    wanted = [made.run(None, feed)[0] for feed in feeds]
    wrong = []

    def work(number):
        for i in range(50):
            index = (number + i) % len(feeds)
            if not np.array_equal(made.run(None, feeds[index])[0], wanted[index]):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


def test_bound_memory_is_written_in_place():
    made = session(mlp())
    x, y = numbers(4, 64), np.zeros((4, 8), np.float32)
    binding = made.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(y))
    made.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], made.run(None, {"x": x})[0])


def test_one_memory_as_input_and_output():
    """y = reversed(x) is right even if it is written to the memory of x."""
    order = np.arange(63, -1, -1)
    nodes = [helper.make_node("Gather", ["x", "order"], ["y"], "reverse", axis=0)]
    made = session(model(nodes, [("x", F, [64])], [("y", F, [64])], [("order", order)]))
    x = numbers(64)
    memory = ort.OrtValue.ortvalue_from_numpy(x.copy())
    binding = made.io_binding()
    binding.bind_ortvalue_input("x", memory)
    binding.bind_ortvalue_output("y", memory)
    made.run_with_iobinding(binding)
    np.testing.assert_array_equal(memory.numpy(), x[::-1])


def test_nodes_that_cannot_be_compiled_stay_on_the_cpu(capfd):
    made = session(mixed())
    assert assigned(made) == {NAME: 2, "CPUExecutionProvider": 1}
    said = capfd.readouterr().err
    assert "2/3 nodes on Weft (cpu), 1 on CPU" in said
    assert "SplitToSequence: 'pieces' is not a tensor" in said
    got, want = [side.run(None, {"x": numbers(3, 64)}) for side in (made, models.reference(mixed()))]
    np.testing.assert_allclose(got[0], want[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.stack(got[1]), np.stack(want[1]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("op, operand, values", [
    ("ReduceSum", "axes", [np.array([1]), np.array([0]), np.array([-1])]),
    ("CumSum", "axis", [np.array(0), np.array(2)]),
    ("Unsqueeze", "axes", [np.array([0]), np.array([3])]),
    ("Resize", "scales", [np.array([1, 2, 1], np.float32), np.array([1, 1, 3], np.float32)])])
def test_operands_that_only_the_run_tells(op, operand, values):
    """The operand `how` and the size of x are known only in the run."""
    inputs = ["x", "", "how"] if op == "Resize" else ["x", "how"]
    kind = helper.np_dtype_to_tensor_dtype(values[0].dtype)
    proto = model([helper.make_node(op, inputs, ["y"])], [("x", F, ["n", 3, 4]), ("how", kind, list(values[0].shape))],
                  [("y", F, None)])
    feeds = [{"x": numbers(n, 3, 4), "how": value} for n in (2, 5) for value in values]
    assert assigned(check_equal(proto, feeds)) == {NAME: 1}


def test_a_value_that_does_not_compile_is_an_error_of_the_run():
    proto = model([helper.make_node("ReduceSum", ["x", "how"], ["y"])], [("x", F, ["n", 3]), ("how", I64, [1])], [("y", F, None)])
    with pytest.raises(Exception, match="axis 7"):
        session(proto).run(None, {"x": numbers(2, 3), "how": np.array([7])})


def test_texts_pass_both_ways():
    nodes = [helper.make_node("StringNormalizer", ["text"], ["clean"], case_change_action="UPPER", stopwords=["a"]),
             helper.make_node("StringConcat", ["clean", "clean"], ["twice"])]
    proto = model(nodes, [("text", TensorProto.STRING, ["n"])], [("twice", TensorProto.STRING, [None])])
    made = session(proto)
    assert assigned(made) == {NAME: 2}
    assert list(made.run(None, {"text": np.array(["b", "a", "naïve", ""])})[0]) == ["BB", "NAÏVENAÏVE", ""]


def test_sequences_come_in():
    """Weft's part of a session has a sequence as its input: the model computes y = items[1]."""
    proto = model([helper.make_node("SequenceAt", ["items", "at"], ["y"])], [], [("y", F, ["n", 3])], [("at", np.array(1))])
    proto.graph.input.append(helper.make_tensor_sequence_value_info("items", F, ["n", 3]))
    made = session(proto)
    assert assigned(made) == {NAME: 1}
    items = [numbers(2, 3), numbers(5, 3, seed=1)]
    np.testing.assert_array_equal(made.run(None, {"items": items})[0], items[1])


@pytest.mark.parametrize("keys", [{"options": {"strict": "1"}}, {"entries": {"session.disable_cpu_ep_fallback": "1"}}])
def test_strict_refuses_a_mixed_session(keys):
    with pytest.raises(Exception, match="SplitToSequence"):
        session(mixed(), **keys)


def conditional():
    """Makes a model of y = x @ w if flag else relu(x); w belongs to the outer graph."""
    then = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["t"], "then_product")], "then", [],
                             [helper.make_tensor_value_info("t", F, ["n", 16])])
    other = helper.make_graph([helper.make_node("Relu", ["x"], ["e"], "else_relu")], "else", [],
                              [helper.make_tensor_value_info("e", F, ["n", 16])])
    nodes = [helper.make_node("If", ["flag"], ["y"], "choose", then_branch=then, else_branch=other)]
    return model(nodes, [("x", F, ["n", 16]), ("flag", B, [])], [("y", F, ["n", 16])], [("w", numbers(16, 16))])


def test_if_runs_whole_or_by_branch():
    feeds = [{"x": numbers(n, 16), "flag": np.array(flag)} for n in (1, 5) for flag in (True, False)]
    made = check_equal(conditional(), feeds)
    assert assigned(made).get(NAME, 0) >= 1


def test_a_loop_with_a_product_inside():
    body = helper.make_graph(
        [helper.make_node("MatMul", ["s", "w"], ["p"], "step"), helper.make_node("Tanh", ["p"], ["next"], "tanh"),
         helper.make_node("Identity", ["on"], ["again"], "go")],
        "body", [helper.make_tensor_value_info("i", I64, []), helper.make_tensor_value_info("on", B, []),
                 helper.make_tensor_value_info("s", F, ["n", 16])],
        [helper.make_tensor_value_info("again", B, []), helper.make_tensor_value_info("next", F, ["n", 16])])
    nodes = [helper.make_node("Loop", ["trips", "", "x"], ["y"], "repeat", body=body)]
    proto = model(nodes, [("x", F, ["n", 16]), ("trips", I64, [])], [("y", F, ["n", 16])], [("w", numbers(16, 16))])
    feeds = [{"x": numbers(2, 16), "trips": np.array(trips, np.int64)} for trips in (0, 1, 5)]
    assert assigned(check_equal(proto, feeds)).get(NAME, 0) >= 1


def test_attention_with_the_defaults_that_onnxruntime_writes():
    """onnxruntime gives every attribute its default value, even where the default means "absent"."""
    node = helper.make_node("GroupQueryAttention", ["qkv", "", "", "k0", "v0", "last", "total", "cos", "sin"],
                            ["y", "k1", "v1"], "attention", domain="com.microsoft", num_heads=4, kv_num_heads=2, do_rotary=1)
    cache = [["b", 2, "past", 16], ["b", 2, "all", 16]]
    proto = model([node], [("qkv", F, ["b", "s", 128]), ("k0", F, cache[0]), ("v0", F, cache[0]),
                           ("last", TensorProto.INT32, ["b"]), ("total", TensorProto.INT32, [])],
                  [("y", F, ["b", "s", 64]), ("k1", F, cache[1]), ("v1", F, cache[1])],
                  [("cos", numbers(32, 8)), ("sin", numbers(32, 8, seed=1))])
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    feeds = [{"qkv": numbers(1, rows, 128), "k0": numbers(1, 2, past, 16, seed=2), "v0": numbers(1, 2, past, 16, seed=3),
              "last": np.array([past + rows - 1], np.int32), "total": np.array(past + rows, np.int32)}
             for past, rows in ((0, 4), (4, 1), (9, 1))]
    assert assigned(check_equal(proto, feeds)) == {NAME: 1}


TABLE = """
import numpy as np, os, sys
import onnxruntime_ep_weft; onnxruntime_ep_weft.register()
from models import session
def held():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")) / 1024
before = held()
made = session(sys.argv[1])
print(held() - before)
rows = np.array([0, 70_000, 99_999, 5])
table = np.memmap(sys.argv[2], np.float32, "r", shape=(100_000, 128))
assert (made.run(None, {"x": rows})[0] == table[rows]).all()
first = np.array(table[:2])
os.truncate(sys.argv[2], 4096)
assert (made.run(None, {"x": np.array([0, 1])})[0] == first).all()
try:
    made.run(None, {"x": rows})
except Exception as error:
    assert "E106" in str(error) and "table.bin" in str(error), error
else:
    raise AssertionError("rows that are gone were answered")
"""


def test_a_table_stays_in_its_file(tmp_path):
    """A run reads a few rows of a table of 49 MiB, which stays in its file. The model is opened through a link, as in a
    cache of downloads. When the file is cut short, a run that needs missing rows fails, and the process continues."""
    table = onnx.TensorProto(name="table", data_type=F, dims=[100_000, 128], data_location=onnx.TensorProto.EXTERNAL)
    table.external_data.add(key="location", value="table.bin")
    made = model([helper.make_node("Gather", ["table", "x"], ["y"], "rows")], [("x", I64, ["n"])], [("y", F, ["n", 128])])
    made.graph.initializer.append(table)
    (tmp_path / "blobs").mkdir()
    for name in "table.bin", "m.onnx":
        (tmp_path / name).symlink_to(tmp_path / "blobs" / name)
    numbers(100_000, 128).tofile(tmp_path / "blobs/table.bin")
    (tmp_path / "blobs/m.onnx").write_bytes(made.SerializeToString())
    command = [sys.executable, "-c", TABLE, tmp_path / "m.onnx", tmp_path / "blobs/table.bin"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=pathlib.Path(__file__).parent, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 30


WEIGHTS = """
import sys
import onnxruntime_ep_weft; onnxruntime_ep_weft.register()
from models import mlp, numbers, session
def held():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")) / 1024
session(mlp())  # the compiler's own
before, made = held(), []
for i in range(2):
    made.append(session(sys.argv[1]))
    made[-1].run(None, {"x": numbers(1, 4096)})
    print(held() - before)
"""


def test_weights_are_held_once(tmp_path):
    """64 MiB of weights are in memory once: onnxruntime frees its copy, and a second session shares the packed
    weights."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "product")]
    made = model(nodes, [("x", F, ["n", 4096])], [("y", F, ["n", 4096])], [("w", numbers(4096, 4096))])
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    done = subprocess.run([sys.executable, "-c", WEIGHTS, tmp_path / "m.onnx"], capture_output=True, text=True,
                          cwd=pathlib.Path(__file__).parent, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stderr
    one, two = map(float, done.stdout.split())
    assert 64 <= one < 96 and two < 112


def test_defaults_of_inputs_may_be_overridden():
    proto = mlp()
    proto.graph.input.append(helper.make_tensor_value_info("b", F, [32, 8]))
    check_equal(proto, [{"x": numbers(2, 64)}, {"x": numbers(2, 64), "b": numbers(32, 8, seed=5)}])


def test_an_error_of_a_run_names_the_input():
    nodes = [helper.make_node("Add", ["x", "z"], ["y"], "sum")]
    made = session(model(nodes, [("x", F, ["n"]), ("z", F, ["n"])], [("y", F, ["n"])]))
    with pytest.raises(Exception, match="E312"):
        made.run(None, {"x": numbers(2), "z": numbers(3)})


SCRIPT = """
import onnxruntime as ort
session = ort.InferenceSession({path!r}, providers=['MIGraphXExecutionProvider', 'CPUExecutionProvider'])
assert session.get_providers() == ['MIGraphXExecutionProvider', 'CPUExecutionProvider'], session.get_providers()
assert 'MIGraphXExecutionProvider' in ort.get_available_providers()
options = {{'device_id': 0, 'migraphx_fp16_enable': True}}
for arguments in (dict(providers=[('MIGraphXExecutionProvider', options)]),
                  dict(providers=['ROCMExecutionProvider'], provider_options=[{{'device_id': '0'}}]),):
    again = ort.InferenceSession({path!r}, **arguments)
try:
    ort.InferenceSession({path!r}, providers=[('MIGraphXExecutionProvider', {{'migraphx_fp16_enabled': '1'}})])
except Exception as error:
    assert 'the nearest is fp16_enable' in str(error), error
else:
    raise AssertionError('a misspelt option was taken')
print('done')
"""


def python(provider, *words):
    """Runs another Python that finds the package; returns the finished process."""
    package = str(pathlib.Path(provider.__file__).parents[1])
    paths = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, *words], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("command", [["-c", "import onnxruntime_ep_weft.classic\n{script}"],
                                     ["-m", "onnxruntime_ep_weft", "{file}"]])
def test_the_migraphx_sample_runs_unchanged(tmp_path, provider, command):
    path = tmp_path / "model.onnx"
    path.write_bytes(mlp().SerializeToString())
    script = SCRIPT.format(path=str(path))
    (tmp_path / "sample.py").write_text(script)
    done = python(provider, *(word.format(script=script, file=tmp_path / "sample.py") for word in command))
    assert done.stdout.strip().endswith("done")
    assert "3/3 nodes on Weft" in done.stderr


LATE = """
import onnxruntime as ort, onnxruntime_ep_weft
ort.register_execution_provider_library('by hand', onnxruntime_ep_weft.get_library_path())
onnxruntime_ep_weft.register()
settings = ort.SessionOptions()
weft = [device for device in ort.get_ep_devices() if device.ep_name == 'WeftExecutionProvider']
settings.add_provider_for_devices(weft[:1], {{'no_such_option': '1'}})
try:
    ort.InferenceSession({path!r}, settings)
except Exception as error:
    print('refused:', error)
"""


def test_register_forbids_the_fallback_of_a_library_that_is_registered_already(tmp_path, provider):
    path = tmp_path / "model.onnx"
    path.write_bytes(mlp().SerializeToString())
    assert "refused: " in python(provider, "-c", LATE.format(path=str(path))).stdout
