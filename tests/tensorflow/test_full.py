# SPDX-License-Identifier: Apache-2.0
"""Frozen graphs: every operator that Weft supports is compared with TensorFlow's own answers, with fixed and with open
sizes; networks, control flow and functions; refused models. A plain run takes a third of the cases of each operator, a
different third each day."""
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import weft

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "amdemu")]
import emulated
import judge
import random_cases
from full_cases import CASES, OPERATORS
from places import DAY, IS_FULL, keep_count, todays
from test_lite_graphs import runs
from test_lite_operators import compare, run

APPLICATIONS = ["MobileNetV2", "EfficientNetB0", "ResNet50V2", "DenseNet121", "MobileNetV3Small"] if IS_FULL else ["MobileNetV2"]


@pytest.fixture(scope="session")
def answers():
    folder = judge.folder_of("full_models.py")
    return folder, json.loads((folder / "index.json").read_text())


@pytest.fixture(scope="session")
def saved():
    return judge.folder_of("saved_models.py")


@pytest.fixture(scope="session")
def graphs():
    return judge.folder_of("full_graphs.py", *APPLICATIONS)


@pytest.mark.parametrize("operator", OPERATORS)
def test_operator(operator, answers):
    folder, refusals = answers
    cases, wrong = [c for c in CASES if c.operator == operator], []
    assert len(cases) >= 3
    for case in (cases := todays(cases, 3)):
        assert not refusals[case.name], refusals[case.name]
        stored = np.load(folder / f"{case.name}.npz")
        values = [stored[k] for k in stored.files if k.startswith("x")]
        wanted = [stored[k] for k in stored.files if k.startswith("y")]
        only_first = operator.startswith("FusedBatchNorm")  # the other outputs are for training
        for form in ["", "-open"] if case.open_sizes else [""]:
            try:
                found = run(folder / f"{case.name}{form}.pb", values)
                compare(case, found[:1] if only_first else found, wanted[:1] if only_first else wanted)
            except (weft.Error, AssertionError) as error:
                wrong.append(f"{case.name}{form}: {error}")
    forms = sum(1 + case.open_sizes for case in cases)
    keep_count("operators beside TensorFlow", {"format": "GraphDef"}, operators=1, cases=len(cases), right=forms - len(wrong), wrong=len(wrong))
    assert not wrong, "\n".join(wrong)


@pytest.mark.rotates(2)
@pytest.mark.parametrize("operator", random_cases.DRAWERS)
def test_drawn(operator):
    """Cases of other sizes, types and attributes each day."""
    folder = judge.folder_of("full_models.py", str(DAY))
    refusals, wrong = json.loads((folder / "index.json").read_text()), []
    for case in (c for c in random_cases.drawn(DAY) if c.operator == operator and not refusals[c.name]):
        stored = np.load(folder / f"{case.name}.npz")
        values, wanted = ([stored[k] for k in stored.files if k.startswith(letter)] for letter in "xy")
        for form in ["", "-open"] if case.open_sizes else [""]:
            try:
                compare(case, run(folder / f"{case.name}{form}.pb", values), wanted)
            except (weft.Error, AssertionError) as error:
                wrong.append(f"{case}{form}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["while", "if", "calls", "network", "switch_and_merge", "enter_and_exit", *APPLICATIONS])
def test_graph(name, graphs):
    """One program computes all batches."""
    model, count = weft.compile(str(graphs / f"{name}.pb"), device="cpu"), 0
    for inputs, wanted in runs(graphs, name):
        found = model.run(inputs)
        assert set(found) == set(wanted)
        for key, expected in wanted.items():
            assert found[key].shape == expected.shape
            np.testing.assert_allclose(found[key], expected, rtol=1e-4, atol=1e-5 * max(1, np.abs(expected).max()))
        count += 1
    assert count == 2


QUANTISED = {"network": 2, "MobileNetV2": 30}  # least number of quantised layers
NO_LAYER = ["while", "if", "calls", "switch_and_merge", "enter_and_exit"]


@pytest.mark.parametrize("to", ["int8", "fp8", "int8-weights"])
@pytest.mark.parametrize("name", [*QUANTISED, *NO_LAYER])
def test_quantised_or_refused(name, to, graphs, tmp_path):
    """A quantised network keeps its answers; a graph without products by weights is refused, and no file is written."""
    data, out = [inputs for inputs, _ in runs(graphs, name)], tmp_path / "out.onnx"
    if name in NO_LAYER:
        with pytest.raises(weft.UsageError) as caught:
            weft.quantize(graphs / f"{name}.pb", data, out, to=to)
        assert caught.value.code == "E222" and not list(tmp_path.iterdir())
        return
    report = weft.quantize(graphs / f"{name}.pb", data, out, to=to)
    assert report["quantised"] >= QUANTISED[name] or to == "fp8"
    model = weft.compile(out, device="cpu")
    for inputs, wanted in runs(graphs, name):
        found = model.run(inputs)
        for key, right in wanted.items():
            assert np.sqrt(((found[key] - right) ** 2).mean() / (right**2).mean()) < 0.2


def test_no_copies_of_layout(graphs):
    """The layout stays channels last: the only steps that copy a tensor pad it."""
    steps = weft.compile(str(graphs / "MobileNetV2.pb"), device="cpu").steps()
    assert len(steps) > 50 and not [s for s in steps if "copy" in s["kernel"] and "padding" not in s["reason"]]


@pytest.mark.parametrize("form", ["full", "lite"])
def test_on_an_emulated_gpu(form):
    """The program for gfx1100 gives what the reference gives."""
    if form == "full":
        path = judge.folder_of("full_graphs.py", *APPLICATIONS) / "network.pb"
    else:
        path = judge.folder_of("lite_graphs.py") / "network_int8.tflite"
    done = emulated.run("gfx1100", "weft", "verify", path, "--device", "amd")
    assert done.returncode == 0 and "same" in done.stdout, done.stdout + done.stderr


def test_other_ways_in(graphs):
    path = graphs / "network.pb"
    x = next(runs(graphs, "network"))[0]["x"]
    expected = weft.compile(str(path), device="cpu")(x)
    np.testing.assert_array_equal(weft.compile(path.read_bytes(), device="cpu", shapes={"x": (2, 24, 32, 3)})(x), expected)
    support = weft.support(str(path), device="cpu")
    assert support["supported"] == support["total"] > 20


@pytest.mark.parametrize("name, message", [("unknown_rank", "E151.*no fixed number of axes"),
                                           ("cycle", "E130"), ("twice", "E131"), ("missing", "E132"), ("no_operand", "E140"), ("repeated", "E150"), ("cut", "E103")])
def test_refused(name, message, graphs, tmp_path):
    path = graphs / f"{name}.pb"
    if name == "cut":
        path = tmp_path / "cut.pb"
        path.write_bytes((graphs / "network.pb").read_bytes()[:-2000])
    with pytest.raises(weft.Error, match=message):
        weft.compile(str(path))


def test_every_operator_is_judged_and_documented(saved):
    sources = (judge.ROOT / "src/frontends/tensorflow/operators.def").read_text()
    names = set(re.findall(r'^    \{"[A-Z0-9_]*", "(\w+)"', sources, re.M))
    formulas = (judge.ROOT / "src/ops/elementwise.def").read_text()
    names |= set(re.findall(r'^ELEMENTWISE\(\w+, +\d, \w+, +\w+, +"\w*", +"(\w+)"', formulas, re.M))
    flow = "".join(sources.split(f"#ifdef OPERATORS_{part}\n")[1].split("#endif")[0] for part in ("control", "lists"))
    flow = set(re.findall(r'^    \{"[A-Z0-9_]*", "(\w+)"', flow, re.M)) | {"Const", "PartitionedCall", "StatefulPartitionedCall", "PlaceholderWithDefault"}
    flow |= {"HashTableV2", "LookupTableFindV2", "LookupTableSizeV2"}
    assert names - flow == set(OPERATORS)
    graphs = b"".join(p.read_bytes() for p in saved.rglob("*.pb"))  # these models test operators of control flow and lists
    assert not {name for name in flow if b"\x12" + bytes([len(name)]) + name.encode() not in graphs}
    page = (judge.ROOT / "docs/tensorflow.md").read_text().split("## Operators of TensorFlow\n")[1].split("```")[1]
    assert set(re.findall(r"\b_?[A-Z]\w+", page)) == names
