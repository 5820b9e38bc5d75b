# SPDX-License-Identifier: Apache-2.0
"""Every bug that was found by a generated model and mended stays mended: ref and cpu agree with onnx's reference evaluator."""

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "random_graphs"), str(HERE.parent / "robustness")]

from limits import BUILD  # noqa: E402
from reduce import inputs_of  # noqa: E402

sys.path.insert(0, str(BUILD / "python"))


def read(path):
    """The model in the text form of ONNX, below lines that say what was wrong."""
    lines = path.read_text().splitlines()
    return onnx.parser.parse_model("\n".join(line for line in lines if not line.startswith("#")))


@pytest.mark.parametrize("device", ["ref", "cpu"])
@pytest.mark.parametrize("path", sorted(HERE.glob("*.txt")), ids=lambda path: path.stem)
def test_repro(path, device):
    import weft

    model = read(path)
    feeds = inputs_of(model)
    answers = weft.compile(model.SerializeToString(), device=device).run(feeds)
    for value, wanted in zip(model.graph.output, ReferenceEvaluator(model).run(None, feeds)):
        np.testing.assert_allclose(answers[value.name], wanted, rtol=1e-4, atol=1e-4)
