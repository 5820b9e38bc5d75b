# SPDX-License-Identifier: Apache-2.0
"""`weft tune`, `weft compile --tune` and the option of the Python interface: times are measured, stored, used again,
and copied to other machines."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper


@pytest.fixture
def model(tmp_path):
    """Provides a 3x3 convolution, which can be computed in three ways."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 32, 20, 20])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weights = onnx.numpy_helper.from_array((np.arange(32 * 32 * 9) % 7 - 3).astype(np.float32).reshape(32, 32, 3, 3), "w")
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], "g", [x], [y], [weights])
    path = tmp_path / "convolution.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


@pytest.fixture
def weft(weft_command, tmp_path):
    """Runs `weft WORDS` with tunings in a file of this test; returns its output."""

    def run(*words, file="tunings.db", code=0):
        done = weft_command(*words, "--device", "cpu", "--threads", 1, env={"WEFT_TUNINGS": str(tmp_path / file)})
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def tune(*words, file="tunings.db", code=0):
        done = weft_command("tune", *words, env={"WEFT_TUNINGS": str(tmp_path / file)})
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    run.tune = tune
    return run


def test_measured_kept_and_used(weft, model, tmp_path):
    printed = weft("tune", model, "--seconds", 60)
    assert "convolution3x3 MacF32" in printed and "time is up" not in printed
    exported = tmp_path / "tunings.json"
    weft.tune("--export", exported)
    tunings = json.loads(exported.read_text())["tunings"]
    assert {t["candidate"] for t in tunings} == {"direct", "winograd2", "winograd4"}
    assert len({(t["chip"], t["library"], t["problem"]) for t in tunings}) == 1
    assert "3 tunings" in weft.tune("--list")
    assert "0 rounds" in weft("tune", model, "--seconds", 60)  # all candidates have been measured

    # Imports invented measurements, in which the direct kernel is much faster.
    for t in tunings:
        t["nanoseconds"] = 1 if t["candidate"] == "direct" else 1000
    exported.write_text(json.dumps({"schema": "weft.tunings.1", "tunings": tunings}))
    weft.tune("--import", exported, file="other.db")
    explained = weft("explain", model, file="other.db")
    assert "conv_f32" in explained and "measured: 0 % of the time of winograd" in explained
    assert "measured" not in weft("explain", model, "--no-cache", file="other.db")

    # Times of another build of the kernel library are kept, but not used.
    for t in tunings:
        t["library"] = "another"
    exported.write_text(json.dumps({"schema": "weft.tunings.1", "tunings": tunings}))
    weft.tune("--import", exported, file="old.db")
    assert "measured" not in weft("explain", model, file="old.db")
    assert "removed 3" in weft.tune("--clear", file="old.db")


def test_compile_tunes_first(weft, model, tmp_path):
    weft("compile", model, "--tune=60", "-o", tmp_path / "m.weft")
    assert "3 tunings" in weft.tune("--list")


def test_python_option(model, tmp_path, monkeypatch):
    import weft

    with pytest.raises(weft.Error, match="tune_seconds"):
        weft.compile(model, device="cpu", tune=-1)
    phases = set()
    compiled = weft.compile(model, device="cpu", cache=False, tune=20, progress=lambda phase, done, total: phases.add(phase))
    assert "tune" in phases
    x = np.ones((1, 32, 20, 20), np.float32)
    plain = weft.compile(model, device="cpu")
    assert np.allclose(compiled(x)["y"] if isinstance(compiled(x), dict) else compiled(x), plain(x), atol=1e-2)


def test_errors(weft, tmp_path):
    assert "nothing to do" in weft.tune(code=2)
    (tmp_path / "bad.json").write_text("{}")
    assert "E212" in weft.tune("--import", tmp_path / "bad.json", code=2)
    (tmp_path / "bad.db").write_bytes(b"x" * 4096)
    assert "E106" in weft.tune("--list", file="bad.db", code=5)
