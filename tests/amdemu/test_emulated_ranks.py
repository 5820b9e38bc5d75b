# SPDX-License-Identifier: Apache-2.0
"""Models that are split over several emulated GPUs: captured graphs with collectives in them, which a stand-in for RCCL
runs."""
import json
import re
import sys

import pytest

import emulated

sys.path.insert(0, str(emulated.ROOT / "tests/python"))
import split_networks

LIBRARY = str(emulated.BUILD / "lib/libfake-rccl.so")


def run(monkeypatch, chips, *words, library=LIBRARY):
    monkeypatch.setenv("WEFT_RCCL_LIBRARY", library)
    return emulated.run(chips, "weft", *words)


@pytest.mark.rotates(2)
@pytest.mark.parametrize("chip", emulated.CHIPS[:2])
@pytest.mark.parametrize("name", ["bert", "llama", "vit"])
def test_networks_on_two_gpus(monkeypatch, name, chip, tmp_path):
    network = split_networks.NETWORKS[name]
    path = network(layers=1).save(tmp_path / f"{name}.onnx")
    sizes = [w for s in ("batch=2", "sequence=5") if name == "bert" or s[0] == "b" for w in ("--symbol", s)]
    for precision in ("f32", "f16") if name == "bert" else ("f32",):
        done = run(monkeypatch, f"{chip},{chip}", "verify", path, "--devices", "amd:0,amd:1", "--precision", precision, *sizes)
        assert done.returncode == 0, done.stdout + done.stderr


def test_replays_and_caches_on_the_devices(monkeypatch, tmp_path):
    """Several runs with values on the devices succeed, and each cache is split between the devices."""
    net = split_networks.llama(layers=1)
    path = net.save(tmp_path / "llama.onnx")
    donate = [word for pair in net.donate.items() for word in ("--donate", "=".join(pair))]
    words = ["--devices", "amd:0,amd:1", "--symbol", "batch=2", *donate]
    done = run(monkeypatch, "gfx1100,gfx1100", "perf", path, *words, "--on-device", "--iterations", "3", "--json", "-")
    assert done.returncode == 0 and json.loads(done.stdout)["latency_ms"]["median"] > 0, done.stdout + done.stderr
    done = run(monkeypatch, "gfx1100,gfx1100", "explain", path, *words)
    assert "device: amd:0,amd:1 (" in done.stdout and len(re.findall("ranks_sum", done.stdout)) == 2, done.stdout
    assert "input 'past_k_0' and output 'present_k_0' are split" in done.stdout


@pytest.mark.parametrize(
    ("chips", "devices", "code", "words"),
    [
        ("gfx1100,gfx1100", "amd:0,amd:0", "E502", "the GPU amd:0 is named twice"),
        ("gfx1100,gfx942", "amd:0,amd:1", "E502", "'amd:0' is gfx1100, and 'amd:1' is gfx942"),
        ("gfx1100,gfx1100", "amd:0,cpu", "E502", "'amd:0' is gfx1100, and 'cpu' is"),
        ("gfx1100,gfx1100", "gpu:0,gpu:2", "E501", "no device 'gpu:2'"),
    ],
)
def test_what_is_refused(monkeypatch, chips, devices, code, words, tmp_path):
    path = split_networks.four_bits().save(tmp_path / "small.onnx")
    done = run(monkeypatch, chips, "run", path, "--devices", devices)
    assert done.returncode != 0 and code in done.stderr and words in done.stderr


def test_without_the_library(monkeypatch, tmp_path):
    path = split_networks.four_bits().save(tmp_path / "small.onnx")
    done = run(monkeypatch, "gfx1100,gfx1100", "run", path, "--devices", "gpu:0,gpu:1", library="/nowhere/librccl.so")
    assert done.returncode == 4 and "E501" in done.stderr and "rccl was not found" in done.stderr
    assert "WEFT_RCCL_LIBRARY" in done.stderr


FAILS = """
import sys, time
import numpy as np, weft

calls = 0

def same(x, y):
    global calls
    calls += 1
    if calls == 4:
        raise RuntimeError("the second rank of the second run")
    y[:] = x

model = weft.compile(sys.argv[1], devices=["amd:0", "amd:1"], operators=[weft.Operator("mine:Same", "f32[n,k] -> f32[n,k]", call=same)])
x = np.ones((3, 64), np.float32)
first, codes, began = model(x), [], time.monotonic()
for _ in range(2):
    try:
        model(x)
    except weft.Error as error:
        codes.append(error.code)
print(codes, np.isfinite(first).all(), time.monotonic() - began < 5)
"""


def test_a_failing_rank_ends_the_wait_of_the_other(monkeypatch, tmp_path):
    """A host operator fails in one rank while the other rank's stream waits for their sum; after that the communicator
    cannot be used."""
    net = split_networks.Net()
    y = net.op("Same", net.linear(net.floats("x", ["rows", 64], 3, 64), 64, 128), domain="mine")
    net.output(net.linear(net.op("Relu", y), 128, 64), "y")
    path = net.save(tmp_path / "fails.onnx", "mine")
    monkeypatch.setenv("WEFT_RCCL_LIBRARY", LIBRARY)
    done = emulated.run("gfx1100,gfx1100", sys.executable, "-c", FAILS, path)
    assert done.stdout.strip() == "['E302', 'E602'] True True", done.stdout + done.stderr


def test_one_gpu_alone(monkeypatch):
    monkeypatch.setenv("WEFT_RCCL_LIBRARY", LIBRARY)
    done = emulated.run("gfx942", "weft_tests", "-tc=a GPU alone makes the collectives of one rank")
    assert done.returncode == 0 and re.search(r"assertions: +45 \| +45 passed", done.stdout), done.stdout + done.stderr
