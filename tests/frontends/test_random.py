# SPDX-License-Identifier: Apache-2.0
"""Random operators: the numbers have the right distribution, on ref and cpu alike. With a seed they are the same in
every run and on every target; without a seed they differ from run to run."""
import math
import os
import pathlib
import sys

import numpy as np
import onnx
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build" / "release")) / "python"))

import weft

DEVICES = pytest.mark.parametrize("device", ["ref", "cpu"])
SIGMAS = 6  # a correct generator fails such a test once in 500 million times


def compiled(text, device):
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 22]>\n{text}')
    return weft.compile(model.SerializeToString(), device=device)


def assert_near(value, expected, deviation, count):
    assert abs(value - expected) < SIGMAS * deviation / math.sqrt(count)


def distance(sorted_values, distribution):
    """Returns the Kolmogorov-Smirnov statistic times the square root of the number of values."""
    n = len(sorted_values)
    expected = distribution(sorted_values)
    steps = np.arange(n + 1) / n
    return math.sqrt(n) * max((steps[1:] - expected).max(), (expected - steps[:-1]).max())


def no_lag(values):
    """Checks that the autocorrelation is near 0 at several lags."""
    centred = values - values.mean()
    for lag in 1, 2, 7, 64, 257:
        assert abs((centred[lag:] * centred[:-lag]).mean() / centred.var()) < SIGMAS / math.sqrt(len(values))


@DEVICES
@pytest.mark.parametrize("seed", ["", ", seed = 7.5"])
def test_uniform(device, seed):
    u = compiled(f"f () => (float[200, 300] y) {{ y = RandomUniform <shape = [200, 300], low = -1.0, high = 3.0{seed}> () }}", device)()
    assert u.shape == (200, 300) and u.dtype == np.float32 and u.min() >= -1 and u.max() < 3
    assert distance(np.sort(u.ravel().astype(float)), lambda x: (x + 1) / 4) < 3
    no_lag(u.ravel())
    counts = np.bincount((u.ravel().view(np.uint32) & 0xFF).astype(int) % 16, minlength=16)  # low bits are random too
    assert counts.min() > 0


@DEVICES
@pytest.mark.parametrize("dtype, code", [("float32", 1), ("float64", 11), ("float16", 10)])
def test_normal(device, dtype, code):
    n = compiled(f"f () => (y) {{ y = RandomNormal <shape = [50000], mean = 2.0, scale = 3.0, dtype = {code}> () }}", device)()
    assert n.dtype == dtype
    z = (n.astype(float) - 2) / 3
    assert_near(z.mean(), 0, 1, z.size)
    assert_near((z**2).mean(), 1, math.sqrt(2), z.size)
    assert_near((z**3).mean(), 0, math.sqrt(15), z.size)
    assert_near((z**4).mean(), 3, math.sqrt(96), z.size)
    assert distance(np.sort(z), np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)))) < 3
    no_lag(z)


def test_a_seed_is_the_same_everywhere():
    text = """f (float[a, b] x) => (float[a, b] y, double[a, b] z)
    { y = RandomNormalLike <seed = 3.0> (x)  z = RandomUniformLike <seed = 3.0, dtype = 11> (x) }"""
    x = np.zeros((30, 70), np.float32)
    answers = [compiled(text, device)(x) for device in ("ref", "cpu", "cpu")]
    for y, z in answers[1:]:
        np.testing.assert_allclose(y, answers[0][0], 1e-5, 1e-6)
        assert np.array_equal(z, answers[0][1])
    assert np.array_equal(compiled(text, "cpu")(x[:3, :70])[1].ravel(), answers[0][1].ravel()[:210])


@DEVICES
def test_runs_nodes_and_trips_differ(device):
    model = compiled("f () => (y, z) { y = RandomUniform <shape = [1000]> ()  z = RandomUniform <shape = [1000]> () }", device)
    draws = [*model(), *model(), *compiled("f () => (y) { y = RandomUniform <shape = [1000]> () }", device)()[None]]
    for i, a in enumerate(draws):
        for b in draws[:i]:
            assert (a == b).mean() < 0.01 and abs(np.corrcoef(a, b)[0, 1]) < SIGMAS / math.sqrt(1000)
    loop = compiled("""f (int64 n) => (float[m, 500] y)
    {
      go = Constant <value = bool {1}> ()
      y = Loop (n, go) <body = g (int64 i, bool c) => (bool d, float[500] r)
        { d = Identity (c)  r = RandomUniform <shape = [500], seed = 1.0> () }>
    }""", device)
    rows = loop(np.array(20))
    assert len(np.unique(rows)) > 0.99 * rows.size
    assert np.array_equal(rows, loop(np.array(20)))


@DEVICES
def test_bernoulli_and_multinomial(device):
    p = np.linspace(0, 1, 11, dtype=np.float32).repeat(2000)
    hits = compiled("f (float[n] p) => (bool[n] y) { y = Bernoulli <dtype = 9> (p) }", device)(p).reshape(11, 2000).mean(1)
    for share, expected in zip(hits, np.linspace(0, 1, 11)):
        assert_near(share, expected, math.sqrt(expected * (1 - expected)) + 1e-9, 2000)
    shares = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]], np.float32)
    model = compiled("f (float[b, c] x) => (int64[b, 20000] y) { y = Multinomial <sample_size = 20000, dtype = 7> (x) }", device)
    for row, expected in zip(model(np.log(shares)), shares):
        for found, share in zip(np.bincount(row, minlength=4) / 20000, expected):
            assert_near(found, share, math.sqrt(share * (1 - share)), 20000)


@DEVICES
def test_dropout_in_training(device):
    model = compiled("f (float[n] x, float r, bool t) => (float[n] y, bool[n] k) { y, k = Dropout (x, r, t) }", device)
    x = np.arange(1, 20001, dtype=np.float32)
    y, kept = model(x, np.float32(0.25), np.array(True))
    assert_near(kept.mean(), 0.75, math.sqrt(0.75 * 0.25), x.size)
    np.testing.assert_allclose(y, np.where(kept, x / 0.75, 0), 1e-6)
    y, kept = model(x, np.float32(0.25), np.array(False))
    assert np.array_equal(y, x) and kept.all()
    y, kept = model(x, np.float32(0), np.array(True))
    assert np.array_equal(y, x) and kept.all()
