# SPDX-License-Identifier: Apache-2.0
"""Random graphs on ref and on cpu against onnx's reference evaluator and onnxruntime (run.py says how).

A few on each day's seeds, 10,000 of them under `./x test --release`; there each pass has to have changed something in at least
100 programs and each operator to stand in at least 50 graphs.
"""

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "robustness"))

from limits import FULL, SEED  # noqa: E402
from operators import table  # noqa: E402
from run import run  # noqa: E402

PASSES = ["canonicalise_views", "channels_last", "expand_quantize", "fold_constants", "merge_common", "raise_composites",
          "rows_last", "simplify_algebra", "simplify_indices"]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def check(first, count, devices, keep):
    print(f"seeds {first} to {first + count - 1} (WEFT_TEST_SEED={SEED})")
    total = run(first, count, devices, keep)
    print(total)
    assert total["failed"] == [], f"the models are in {keep}"
    assert sum(total["refused"].values()) <= 3 + count // 20
    return total


def test_on_the_reference(tmp_path):
    check(SEED * 20_000, 10_000 if FULL else 250, ["ref"], tmp_path)


def test_on_the_cpu(tmp_path):
    total = check(SEED * 20_000, 10_000 if FULL else 30, ["cpu"], tmp_path)
    if FULL:
        assert {name: total["passes"][name] for name in PASSES if total["passes"][name] < 100} == {}
        assert {name: total["operators"][name] for name, _, _ in table() if total["operators"][name] < 50} == {}


def test_kernels_with_checks(tmp_path, monkeypatch):
    """Bounds, races between tasks and unwritten memory in the kernels of random graphs."""
    monkeypatch.setenv("WEFT_CHECKED", "1")
    check(SEED * 20_000 + 10_000, 1_000 if FULL else 10, ["cpu"], tmp_path)
