# SPDX-License-Identifier: Apache-2.0
"""Every operator of TensorFlow Lite that Weft supports, compared case by case with LiteRT's reference kernels (a
few with its other kernels). The answer is right or the model is refused, with fixed and with open sizes."""
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import weft

sys.path.insert(0, str(Path(__file__).resolve().parent))
import judge
from lite_cases import CASES, OPERATORS
from places import keep_count

REFUSED = {}  # name of a case that is refused -> error code; all other cases must be right


@pytest.fixture(scope="session")
def answers():
    folder = judge.folder_of("lite_models.py")
    return folder, json.loads((folder / "index.json").read_text())


def run(path, values):
    """Returns the case's results. A model with a state is run twice, the second time with the state of the first; the
    results of the first run come first."""
    model = weft.compile(str(path), device="cpu")
    names = [port.name for port in model.inputs]
    if len(names) > len(values):
        first = model.run(dict(zip(names, values)))
        second = model.run({name: y for name, y in first.items() if name in names} | dict(zip(names, values)))
        return [y for run in (first, second) for name, y in run.items() if name not in names]
    found = model(*values)
    return [np.asarray(y) for y in (found if isinstance(found, (list, tuple)) else [found])]


def compare(case, found, wanted):
    assert len(found) == len(wanted)
    for y, expected in zip(found, wanted):
        if expected.dtype.kind == "U":
            np.testing.assert_array_equal(y.astype(str), expected)
            continue
        assert y.dtype == expected.dtype and y.shape == expected.shape, (y.dtype, y.shape, expected.dtype, expected.shape)
        is_steps = any(isinstance(o, tuple) for o in case.outputs)
        if is_steps:  # LiteRT's integer kernels round sums twice
            np.testing.assert_allclose(y.astype(np.int64), expected.astype(np.int64), atol=1)
        elif expected.dtype.kind == "f":
            np.testing.assert_allclose(y, expected, rtol=case.tolerance, atol=case.tolerance)
        else:
            np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("name", ["detections-0", "detections-1"])
def test_detections(name, answers):
    """TFLite_Detection_PostProcess finds the boxes that LiteRT finds; LiteRT leaves the rows after them undefined."""
    stored, model = np.load(answers[0] / f"{name}.npz"), weft.compile(answers[0] / f"{name}.tflite", device="cpu")
    *found, count = model(stored["x0"], stored["x1"])
    np.testing.assert_array_equal(count, stored["y3"])
    assert 0 < count[0] < 24
    for i, y in enumerate(found):
        assert y.shape == stored[f"y{i}"].shape
        np.testing.assert_allclose(y[0, : int(count[0])], stored[f"y{i}"][0, : int(count[0])], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("operator", OPERATORS)
def test_operator(operator, answers):
    folder, refusals = answers
    counts = {"right": 0, "refused": 0, "open right": 0, "open refused": 0}
    for case in (c for c in CASES if c.operator == operator):
        if refusals[case.name]:
            continue  # LiteRT itself refuses it
        stored = np.load(folder / f"{case.name}.npz")
        values = [stored[k] for k in stored.files if k.startswith("x")]
        wanted = [stored[k] for k in stored.files if k.startswith(("y", "z"))]
        for form in ["", "-open"] if case.open_sizes else [""]:
            try:
                found = run(folder / f"{case.name}{form}.tflite", values)
            except weft.Error as error:
                known = REFUSED.get(case.name) or (form and REFUSED.get(case.name + form))
                assert known and known in str(error), f"{case.name}{form}: {error}"
                counts["open refused" if form else "refused"] += 1
                continue
            assert case.name + form not in REFUSED, f"{case.name}{form} is not refused any more"
            try:
                compare(case, found, wanted)
            except AssertionError as error:
                raise AssertionError(f"{case.name}{form}: {error}") from None
            counts["open right" if form else "right"] += 1
    judged = sum(not refusals[c.name] for c in CASES if c.operator == operator)
    keep_count("operators beside LiteRT", {"format": "tflite"}, operators=1, cases=judged, wrong=0, **{k.replace(" ", "_"): v for k, v in counts.items()})
    assert judged >= 3 and counts["right"] > 0
