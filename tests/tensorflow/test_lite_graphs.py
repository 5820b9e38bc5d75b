# SPDX-License-Identifier: Apache-2.0
"""Models that TensorFlow's converter wrote: control flow, variables, spectra, quantised and half-precision networks;
refused models and their errors."""
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import weft

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]
import judge
from lite_cases import OPERATORS
from places import BUILD

ROOT = judge.ROOT
STEP = {"network_int8": 1 / 256, "network_int16": 1 / 32768, "network_bytes": 1}  # quantisation steps of the outputs
NAMES = ["if", "while", "while_lengthens", "spectrum", "spectrum_parts", "variables", "variables_in_bodies", "network", "network_f16", *STEP]


@pytest.fixture(scope="session")
def graphs():
    return judge.folder_of("lite_graphs.py")


def runs(folder, name):
    stored = np.load(folder / f"{name}.npz")
    for number in range(len(stored.files)):
        inputs, outputs = ({k.split(f" {way} ")[1]: stored[k] for k in stored.files if k.startswith(f"{number} {way} ")}
                           for way in ("in", "out"))
        if inputs:
            yield inputs, outputs


@pytest.mark.parametrize("name", NAMES)
def test_graph(name, graphs):
    """One program computes all runs; the values of variables are passed to the next run."""
    model = weft.compile(str(graphs / f"{name}.tflite"), device="cpu")
    state, count = {}, 0
    for inputs, wanted in runs(graphs, name):
        found = model.run(inputs | state)
        state = {k: v for k, v in found.items() if k not in wanted}
        assert set(found) == set(wanted) | set(state)
        for key, expected in wanted.items():
            assert found[key].dtype == expected.dtype and found[key].shape == expected.shape
            np.testing.assert_allclose(found[key].astype(np.float64), expected.astype(np.float64), rtol=1e-4,
                                       atol=STEP.get(name, 1e-5) * 1.01)
        count += 1
    assert count > 0 and bool(state) == name.startswith("variables")


@pytest.mark.parametrize("signature", ["doubled", "shifted"])
def test_signatures(signature, graphs):
    stored, model = np.load(graphs / "signatures.npz"), weft.compile(graphs / "signatures.tflite", device="cpu", signature=signature)
    given, wanted = ({k.split(f" {way} ")[1]: stored[k] for k in stored.files if k.startswith(f"{signature} {way} ")} for way in ("in", "out"))
    found = model.run(given)
    assert set(found) == set(wanted)
    for key, expected in wanted.items():
        np.testing.assert_allclose(found[key], expected, rtol=1e-6)


def test_signatures_that_are_not_there(graphs):
    with pytest.raises(weft.Error, match="E310.*no signature 'other'"):
        weft.compile(graphs / "signatures.tflite", signature="other")


def test_quantized_to_onnx(graphs, tmp_path):
    """A float network becomes an int8 file that stock onnxruntime runs; a network that is quantised already is
    refused."""
    import onnxruntime

    data = [inputs["x"] for inputs, _ in runs(graphs, "network")]
    report = weft.quantize(graphs / "network.tflite", data, tmp_path / "out.onnx")
    assert report["quantised"] >= 2 and report["loss"] < 0.1
    # Without optimisations, because onnxruntime's integer convolutions saturate sums on processors without VNNI.
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(tmp_path / "out.onnx", options, providers=["CPUExecutionProvider"])
    for inputs, wanted in runs(graphs, "network"):
        (right,) = wanted.values()
        for got in session.run(None, inputs)[0], weft.compile(tmp_path / "out.onnx", device="cpu")(inputs["x"]):
            assert np.sqrt(((got - right) ** 2).mean() / (right**2).mean()) < 0.1
    with pytest.raises(weft.UsageError, match="quantised already"):
        weft.quantize(graphs / "network_int8.tflite", data, tmp_path / "twice.onnx")


def test_saved_and_other_ways_in(graphs, tmp_path):
    """The answers are equal if the model is given as bytes, as a saved program or on the command line; the support
    report counts all operators."""
    path = graphs / "network.tflite"
    image = next(runs(graphs, "network"))[0]["x"]
    model = weft.compile(str(path), device="cpu")
    expected = model(image)
    np.testing.assert_array_equal(weft.compile(path.read_bytes(), device="cpu")(image), expected)
    model.save(str(tmp_path / "m.weft"))
    np.testing.assert_array_equal(weft.load(str(tmp_path / "m.weft"))(image), expected)
    np.save(tmp_path / "x.npy", image)
    done = subprocess.run([BUILD / "bin/weft", "run", path, "--input", tmp_path / "x.npy"], capture_output=True, text=True)
    assert done.returncode == 0 and "Identity" in done.stdout, done.stdout + done.stderr
    support = weft.support(str(path), device="cpu")
    assert support["supported"] == support["total"] == 6 and support["nodes"][0]["op"] == "CONV_2D"


def test_sizes_can_be_asked_for(graphs):
    model = weft.compile(str(graphs / "network.tflite"), device="cpu", shapes={"x": ((1, 4), 12, 12, 3)})
    assert model(np.zeros((4, 12, 12, 3), np.float32)).shape == (4, 5)
    with pytest.raises(weft.Error, match="E31"):
        model(np.zeros((5, 12, 12, 3), np.float32))
    with pytest.raises(weft.Error, match="E310"):
        weft.compile(str(graphs / "network.tflite"), shapes={"y": (1, 12, 12, 3)})


def test_variables_can_be_fixed(graphs):
    """If variables are fixed, every run begins with their first values."""
    model = weft.compile(str(graphs / "variables.tflite"), device="cpu", fixed_defaults=["total"])
    assert [port.name for port in model.inputs] == ["x"] and [port.name for port in model.outputs] == ["y"]
    for x in (np.float32([1, 2, 3]), np.float32([0, -1, 5])):
        np.testing.assert_allclose(model(x), 2 * x + 1)


def test_windows_far_larger_than_the_input_are_refused():
    path = judge.folder_of("lite_models.py") / "huge_window.tflite"
    with pytest.raises(weft.Error, match="E145.*windows of 1000000"):
        weft.compile(str(path))


def test_custom_operators_are_refused_by_name(graphs):
    with pytest.raises(weft.Error, match="E121.*MatrixInverse"):
        weft.compile(str(graphs / "custom.tflite"))


def test_branches_over_complex_numbers_are_refused(graphs):
    """Weft represents a complex number by two values; a branch would pass only one of them."""
    with pytest.raises(weft.Error, match="E122.*of complex numbers is not supported"):
        weft.compile(str(graphs / "complex_branch.tflite"))


def test_no_transposes_are_left(graphs):
    """The layout stays channels last."""
    text = weft.print_model(str(graphs / "network.tflite"), stage="final", device="cpu")
    assert "convolution" in text and text.count(" transpose ") == 0, text


@pytest.mark.parametrize("what, change, message", [
    ("cut", lambda data: data[: len(data) // 2], "E10[38]"),
    ("another version", lambda data: data, "E112"),
    ("no root", lambda data: struct.pack("<I", 1 << 30) + data[4:], "E108"),
    ("only its identifier", lambda data: data[:8], "E108"),
])
def test_damaged(what, change, message, graphs, tmp_path):
    data = (graphs / "network.tflite").read_bytes()
    if what == "another version":
        root = struct.unpack_from("<I", data)[0]
        layout = root - struct.unpack_from("<i", data, root)[0]
        at = root + struct.unpack_from("<H", data, layout + 4)[0]
        data = data[:at] + struct.pack("<I", 2) + data[at + 4:]
    (tmp_path / "m.tflite").write_bytes(change(data))
    with pytest.raises(weft.Error, match=message):
        weft.compile(str(tmp_path / "m.tflite"))


def test_unknown_rank_is_refused():
    path = judge.folder_of("lite_models.py") / "unknown_rank.tflite"
    with pytest.raises(weft.Error, match="E151.*no fixed number of axes"):
        weft.compile(str(path))


def table():
    text = (ROOT / "src/frontends/tensorflow/operators.def").read_text()
    return set(re.findall(r'^    \{"([A-Z0-9_]+)", "', text, re.M))


def test_every_operator_is_judged_and_documented():
    elsewhere = {"IF", "WHILE", "CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE",  # in this file's graphs
                 "RFFT2D", "REAL", "IMAG", "COMPLEX_ABS", "DENSIFY"}  # in a trained model
    assert table() - elsewhere == set(OPERATORS)
    page = (ROOT / "docs/tensorflow.md").read_text()
    listed = page.split("## Operators of TensorFlow Lite\n")[1].split("```")[1]
    assert set(re.findall(r"\b[A-Z][A-Z0-9_]+", listed)) == table()


def test_numbers_of_the_schema():
    """Compares Weft's table of operators and options with TensorFlow's own classes."""
    judge.run("lite_schema.py", ROOT / "src/frontends/tensorflow/tflite.def")
