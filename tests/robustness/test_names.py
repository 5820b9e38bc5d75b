# SPDX-License-Identifier: Apache-2.0
"""A model whose names are control characters, bytes that are not UTF-8, quotes and mark-up. Everything that is printed
of these names is text without control characters. JSON output stays valid JSON, and a report contains no more mark-up
than that of a plain model."""

import json
import os
import subprocess

import numpy as np
import pytest
from limits import BUILD
from onnx import TensorProto, helper, numpy_helper

HELD = "QQQQQQQQQQQ"  # protobuf's own writer refuses such names, so this placeholder is replaced afterwards
HOSTILE = b"\x1b]\xff\"'<i>\n\x00\\"
assert len(HELD) == len(HOSTILE)


def model(path, name=HOSTILE, fault=False):
    held = lambda text: f"{HELD}{text}"
    node = helper.make_node
    nodes = [node("Softmax" if fault else "Relu", [held("x")], [held("a")], held("first"), **({"axis": 7} if fault else {})),
             node("MatMul", [held("a"), held("w")], [held("y")], held("second"), doc_string=held("doc"))]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, held("graph"), [info(held("x"), TensorProto.FLOAT, [held("batch"), 4])],
                              [info(held("y"), TensorProto.FLOAT, [held("batch"), 3])],
                              [numpy_helper.from_array(np.ones((4, 3), np.float32), held("w"))], doc_string=held("doc"))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9, producer_name=held("producer"))
    helper.set_model_props(made, {held("key"): held("value")})
    path.write_bytes(made.SerializeToString().replace(HELD.encode(), name))
    return path


def weft(folder, *words):
    settings = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run([BUILD / "bin/weft", *words], cwd=folder, capture_output=True, timeout=60, env=settings)


def check_shown(data):
    text = data.decode()  # fails if the output is not UTF-8
    assert not [c for c in text if ord(c) < 32 and c != "\n"], text
    return text


VERBS = [["run"], ["inspect"], ["inspect", "--ir"], ["inspect", "--dot"], ["inspect", "--params"], ["inspect", "--support"],
         ["explain"], ["perf", "-n", "2"], ["verify"]]


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_shown_text_has_no_control_characters(words, tmp_path):
    model(tmp_path / "m.onnx")
    for device in "cpu", "ref":
        done = weft(tmp_path, words[0], "m.onnx", *words[1:], "--device", device)
        assert done.returncode == 0, done.stderr
        check_shown(done.stdout), check_shown(done.stderr)


@pytest.mark.parametrize("words", [["run"], ["inspect"], ["inspect", "--support"], ["perf", "-n", "2"], ["verify"]],
                         ids=" ".join)
def test_json(words, tmp_path):
    model(tmp_path / "m.onnx")
    done = weft(tmp_path, words[0], "m.onnx", *words[1:], "--device", "cpu", "--json", "-")
    assert done.returncode == 0, done.stderr
    found = json.loads(check_shown(done.stdout))
    assert found and "QQQ" not in json.dumps(found)


def test_reports_and_traces(tmp_path):
    model(tmp_path / "m.onnx")
    model(tmp_path / "plain.onnx", b"plain names")
    pages = []
    for name in "m.onnx", "plain.onnx":
        done = weft(tmp_path, "perf", name, "-n", "2", "--html", "r.html", "--trace", "t.json")
        assert done.returncode == 0, done.stderr
        pages.append((tmp_path / "r.html").read_bytes().decode())
        json.loads(check_shown((tmp_path / "t.json").read_bytes()))
    assert pages[0].count("<") == pages[1].count("<")
    assert "\x1b" not in pages[0]


@pytest.mark.parametrize("json_log", [False, True])
def test_errors(json_log, tmp_path):
    model(tmp_path / "m.onnx", fault=True)
    done = weft(tmp_path, "run", "m.onnx", *["--log-json"] * json_log)
    assert done.returncode == 3
    said = check_shown(done.stderr)
    assert "E143" in said
    for line in said.splitlines() * json_log:
        json.loads(line)


def test_saved_programs_keep_them(tmp_path):
    """The names themselves are not changed: a saved program has the input that the model has."""
    model(tmp_path / "m.onnx")
    assert weft(tmp_path, "compile", "m.onnx", "-o", "p.weft").returncode == 0
    outputs = [weft(tmp_path, "run", name, "--seed", "1", "--device", "cpu", "--json", "-").stdout for name in ("m.onnx", "p.weft")]
    assert outputs[0] == outputs[1]
    assert json.loads(outputs[0])["outputs"][0]["name"]
