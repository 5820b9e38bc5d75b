# SPDX-License-Identifier: Apache-2.0
"""ONNX's simple, converted and real models on the CPU: every answer is right, or refused for a reason that stands here."""
import pathlib
import shutil

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from test_onnx_suite import is_right, run_suite

DATA = pathlib.Path(onnx.__file__).parent / "backend/test/data"
CASES = 149
LEAST_RIGHT = 149
# How the reason starts, and why.
REFUSED = {}


def copy_case(source, folder):
    """The first set of inputs and outputs of a case on disk."""
    folder.mkdir()
    shutil.copy(source / "model.onnx", folder)
    for file in (source / "test_data_set_0").glob("*.pb"):
        shutil.copy(file, folder)


def light_case(model_file, folder):
    """A network whose weights are computed, with the input that ONNX's own runner gives it: 0 to 1 in equal steps."""
    folder.mkdir()
    shutil.copy(model_file, folder / "model.onnx")
    shutil.copy(model_file.with_name(model_file.stem + "_output_0.pb"), folder / "output_0.pb")
    graph = onnx.load(model_file).graph
    initial = {tensor.name for tensor in graph.initializer}
    for i, value in enumerate(value for value in graph.input if value.name not in initial):
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        count = int(np.prod(shape))
        steps = (np.arange(count) / count).reshape(shape).astype(np.float32)
        (folder / f"input_{i}.pb").write_bytes(numpy_helper.from_array(steps).SerializeToString())


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    for kind in "simple", "pytorch-converted", "pytorch-operator":
        for model in sorted((DATA / kind).glob("*/model.onnx")):
            copy_case(model.parent, root / model.parent.name)
    for model in sorted((DATA / "light").glob("*.onnx")):
        light_case(model, root / model.stem)
    folders = sorted(root.iterdir())
    for folder in folders:
        (folder / "tolerance").write_text("1e-3 1e-7\n")
    return run_suite("cpu", folders)


def test_all_are_right_or_refused(results):
    assert len(results) == CASES
    starts = tuple(f"refused: {start}" for start in REFUSED)
    assert not {name: what for name, what in results.items() if not is_right(what) and not what.startswith(starts)}


def test_enough_are_right(results):
    assert sum(is_right(what) for what in results.values()) >= LEAST_RIGHT
