# SPDX-License-Identifier: Apache-2.0
"""The benchmark's models: their weights are made as `fill.py` documents, and their outputs can show that an engine is
wrong."""

import hashlib
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/models"), str(ROOT / "bench")]
import accuracy
import check
import exact
import fill

MASK = (1 << 64) - 1


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_BENCH_CACHE", str(tmp_path))


def word(seed, name, k):
    """Returns element k of the random stream, computed in Python integers as the docstring of fill.py describes."""
    key = int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8], "little")
    z = (key + (k + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31


def test_generator_follows_its_description():
    count = fill.CHUNK + 3  # reaches into a second chunk
    words = {k: word(7, "w", k) for k in (0, 1, fill.CHUNK - 1, fill.CHUNK, count - 1)}
    integers = fill.draw({"integers": [3, 1000]}, [count], np.int64, 7, "w")
    uniform = fill.draw({"uniform": [-1.0, 2.0]}, [count], np.float32, 7, "w")
    normal = fill.draw({"normal": [0.5, 2.0]}, [count], np.float32, 7, "w")
    for k, z in words.items():
        assert integers[k] == 3 + ((z >> 32) * 997 >> 32)
        assert uniform[k] == np.float32(z >> 40) * np.float32(3.0 / (1 << 24)) + np.float32(-1.0)
        quarters = sum(z >> shift & 0xFFFF for shift in (0, 16, 32, 48))
        assert normal[k] == np.float32(quarters - 131070) * np.float32(2.0 / 37837.2) + np.float32(0.5)


def test_generator_has_the_moments_it_promises():
    value = fill.draw({"normal": [0.5, 2.0]}, [400_000], np.float32, 1, "w").astype(np.float64)
    assert abs(value.mean() - 0.5) < 0.02 and abs(value.std() - 2.0) < 0.01
    other = fill.draw({"normal": [0.5, 2.0]}, [400_000], np.float32, 1, "v").astype(np.float64)
    assert abs(np.corrcoef(value, other)[0, 1]) < 0.01


def test_unknown_distribution_is_refused():
    with pytest.raises(ValueError, match="'cauchy'"):
        fill.draw({"cauchy": [0, 1]}, [3], np.float32, 1, "w")


@pytest.mark.parametrize("name", fill.names())
def test_graph_without_weights_is_valid_onnx(name):
    model, wanted = fill.load_stripped(name)
    onnx.checker.check_model(model, full_check=True)
    assert wanted.keys() == fill.recipe(name)["weights"].keys()


def test_same_file_every_time():
    once, again = (fill.filled("mobilenet_v3_large").SerializeToString() for _ in range(2))
    assert once == again


@pytest.mark.parametrize("name", ["mobilenet_v3_large", "resnet50_qdq"])
def test_small_models_can_judge(name):
    assert check.check(name) == []


def test_double_precision_agrees_with_onnxruntime():
    name, sizes = "yolo_n", {"batch": 1, "height": 96, "width": 160}
    feeds = fill.feeds(name, sizes)
    single = check.run(check.session(name), feeds)
    double = exact.run(fill.cached(name), feeds)
    for output, x in double.items():
        assert x.dtype == np.float64
        assert 0 < accuracy.l2(single[output], x) < 1e-5
