# SPDX-License-Identifier: Apache-2.0
"""Random graphs on ref, on cpu and on emulated AMD GPUs, in f32, bf16 and f16, compared with onnx's reference
evaluator, with onnxruntime and with ref as run.py describes.

A plain run takes 200 seeds on ref, some of them on cpu, and a few others on each GPU; the seeds change each day.
`./x test --release` takes 10,000 on ref. Then each pass must change 1 % of the programs, and each operator must occur
in 0.5 % of the graphs."""

import sys
from pathlib import Path

import numpy as np
import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "robustness"))

from limits import BUILD, IS_FULL, SEED
from run import PASSES, graphs, run, seldom, table


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def check(first, count, devices, keep):
    print(f"seeds {first} to {first + count - 1} (WEFT_TEST_SEED={SEED})")
    total = run(first, count, devices, keep)
    print(f"{table(total['operators'])}\n{table(total['passes'])}")
    assert total["failed"] == [], f"the models are in {keep}"
    refused = {code: number for code, number in total["refused"].items() if "open sizes" not in code}
    assert sum(refused.values()) <= 3 + count // 20, refused
    assert total["unknown"] <= 3 + total["known"] // 50
    assert len(total["judges differ"]) <= 3 + count // 50
    return total


@pytest.mark.long
def test_random_graphs(tmp_path):
    """Answers of random graphs are right before and after the passes, and for some graphs in kernels, which take a
    while to compile."""
    devices = [*PASSES.split(","), "cpu/10" if IS_FULL else "cpu/20"]
    total = check(SEED * 20_000, 10_000 if IS_FULL else 200, devices, tmp_path)
    assert not IS_FULL or seldom(total) == {}


@pytest.mark.long
@pytest.mark.parametrize("chip", ["gfx1100", "gfx942"])
def test_emulated(chip, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_HIP_LIBRARY", str(BUILD / "lib" / "libamdemu.so"))
    monkeypatch.setenv("AMDEMU_CHIPS", chip)
    check(SEED * 20_000 + 11_000, 500 if IS_FULL else 4, ["amd:0"], tmp_path)


def test_kernels_with_checks(tmp_path, monkeypatch):
    """Kernels of random graphs stay within their buffers, have no races between tasks, and read no unwritten memory."""
    monkeypatch.setenv("WEFT_CHECKED", "1")
    check(SEED * 20_000 + 10_000, 100 if IS_FULL else 6, ["cpu"], tmp_path)


def test_other_sizes_keep_chosen_rows():
    """When a graph runs at other sizes, inputs whose values matter to their readers (such as rows that 8 bits hold
    exactly) get only rows that they had before."""
    d = graphs.Drawing(1)
    x = d.given(np.array([[127.0, -3.0], [5.0, 127.0]], np.float32), chosen=True)
    assert graphs.resized(d, x, [3, 2]).tolist() == [[127, -3], [5, 127], [127, -3]]
    assert graphs.resized(d, x, [1, 2]).tolist() == [[127, -3]]
    assert graphs.resized(d, x, [0, 2]).shape == (0, 2)
