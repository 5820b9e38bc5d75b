# SPDX-License-Identifier: Apache-2.0
"""Functions of the user that Weft calls during a compile or a quantisation: their exceptions end the work and reach the user."""

import gc
import weakref
import numpy as np
import onnx
import pytest
import weft
from onnx import TensorProto, helper, numpy_helper


class Stopped(Exception):
    pass


class Data:
    """An object that a callback holds, to see whether it is freed."""


def stopper(held, calls, at=1):
    """Returns a progress function that raises in call number `at`."""

    def progress(phase, done, total, held=held):
        calls.append(phase)
        if len(calls) == at:
            raise Stopped(phase)

    return progress


def graph():
    made = weft.Graph("g")
    x = made.input("x", "f32[n,8]")
    for op in "softmax {axis=1}", "exp":
        x = made.append(op, x)
    made.output("y", x)
    return made


def model_file(folder):
    """Returns the path of x [n, 8] times a weight."""
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((8, 6)).astype("f"), "w")
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name, size in (("x", 8), ("y", 6))]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "product")]
    made = helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:], [weight]), ir_version=9)
    onnx.save(made, folder / "model.onnx")
    return folder / "model.onnx"


def items(count=3):
    return [np.random.default_rng(i).standard_normal((4, 8)).astype("f") for i in range(count)]


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("error", [Stopped, KeyboardInterrupt])
def test_an_exception_of_progress_ends_a_compile(tmp_path, at, error):
    calls = []

    def progress(phase, done, total):
        calls.append(phase)
        if len(calls) == at:
            raise error("enough")

    with pytest.raises(error, match="enough"):
        weft.compile(model_file(tmp_path), device="cpu", cache=False, threads=1, progress=progress)
    assert len(calls) == at
    if at == 1:
        with pytest.raises(error, match="enough"):
            calls.clear()
            graph().compile(device="cpu", cache=False, progress=progress)


def test_an_exception_of_progress_ends_a_quantisation(tmp_path):
    for at in 1, 2, 4:
        calls = []
        with pytest.raises(Stopped):
            weft.quantize(model_file(tmp_path), items(), tmp_path / "out.onnx", progress=stopper(None, calls, at))
        assert len(calls) == at
        assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


def test_an_exception_of_progress_ends_tuning(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_TUNINGS", str(tmp_path / "tunings.db"))
    weight = numpy_helper.from_array(np.ones((32, 32, 3, 3), "f"), "w")
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 32, 20, 20]) for name in "xy"]
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    made = helper.make_model(helper.make_graph([node], "g", ports[:1], ports[1:], [weight]), ir_version=9)
    phases = []

    def progress(phase, done, total):
        phases.append(phase)
        if phase == "tune":
            raise Stopped

    with pytest.raises(Stopped):
        weft.compile(made.SerializeToString(), device="cpu", cache=False, tune=20, progress=progress)
    assert phases.count("tune") == 1


def test_functions_that_raise_are_freed(tmp_path):
    path = model_file(tmp_path)
    held = Data()
    gone = weakref.ref(held)
    for call in (
        lambda progress: weft.compile(path, device="cpu", cache=False, progress=progress),
        lambda progress: weft.quantize(path, items(), tmp_path / "out.onnx", progress=progress),
        lambda progress: weft.quantize(path, items(), tmp_path / "out.onnx", budget=1, metric=lambda p: progress(p, 0, 0)),
    ):
        with pytest.raises(Stopped):
            call(stopper(held, []))
    del held, call
    gc.collect()
    assert gone() is None


def test_a_metric_that_fails_leaves_no_file(tmp_path, weft_command):
    made = onnx.load(model_file(tmp_path))
    onnx.save(made, tmp_path / "model.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    np.save(tmp_path / "x.npy", np.stack(items()))
    before, seen = sorted(tmp_path.iterdir()), []

    def metric(path):
        seen.append(sorted(tmp_path.iterdir()))
        return 1 // (2 - len(seen))

    with pytest.raises(ZeroDivisionError):
        weft.quantize(tmp_path / "model.onnx", items(), tmp_path / "out.onnx", metric=metric, budget=0.5)
    assert len(seen) == 2 and all(len(files) == len(before) + 2 for files in seen)
    assert sorted(tmp_path.iterdir()) == before
    words = ["quantize", tmp_path / "model.onnx", "--data", tmp_path / "x.npy", "-o", tmp_path / "out.onnx", "--budget", "50%"]
    done = weft_command(*words, "--metric", "echo no number; true")
    assert done.returncode == 2 and "E220" in done.stderr and "no number" in done.stderr
    assert sorted(tmp_path.iterdir()) == before
