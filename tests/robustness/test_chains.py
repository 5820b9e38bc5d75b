# SPDX-License-Identifier: Apache-2.0
"""Long chains of mixed nodes: there is no recursion over their depth (the stack is 256 KiB), and the time grows
linearly with the number of nodes."""

import os
import resource
import subprocess

import pytest
from chain import chain_model
from limits import BUILD, IS_FULL

SIZES = (40_000, 320_000) if IS_FULL else (5_000, 40_000)
SECONDS_PER_NODE = 25 / 200_000
GROWTH = 2.5  # a node of the long chain takes 1.4 times as long (measured on a Xeon, 2026-11-30)
KERNEL_SECONDS = 3  # to compile the kernels, which are the same few for any length
STACK = 256 << 10


def small_stack():
    resource.setrlimit(resource.RLIMIT_STACK, (STACK, STACK))


def compile_seconds(model, folder):
    """Returns the CPU seconds of a process that compiles the model with the cache of WEFT_CACHE_DIR."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [BUILD / "bin/weft", "compile", model, "-o", folder / "chain.weft"]
    subprocess.run(command, check=True, capture_output=True, preexec_fn=small_stack, timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.fixture(scope="module")
def seconds(tmp_path_factory):
    """Returns the CPU seconds of the first compilation of each size, and a list of later compilations with cached
    kernels, each with one time per size."""
    folder = tmp_path_factory.mktemp("chains")
    os.environ["WEFT_CACHE_DIR"] = str(folder / "cache")
    models = [folder / f"chain_{count}.onnx" for count in SIZES]
    for model, count in zip(models, SIZES):
        model.write_bytes(chain_model(count).SerializeToString())
    cold = [compile_seconds(model, folder) for model in models]
    warm = [[compile_seconds(model, folder) for model in models] for _ in range(3 if IS_FULL else 5)]
    print(cold, warm)
    del os.environ["WEFT_CACHE_DIR"]
    return cold, warm


@pytest.mark.alone
def test_fast_enough(seconds):
    for count, cold in zip(SIZES, seconds[0]):
        assert cold <= count * SECONDS_PER_NODE + KERNEL_SECONDS


@pytest.mark.alone
def test_grows_with_the_number_of_nodes(seconds):
    """The time is in proportion to the number of nodes: eight times as many would take 64 times as long if each node
    looked at all others. Compares the best times, which other processes disturb least."""
    short, long = (min(times) for times in zip(*seconds[1]))
    assert long <= short * GROWTH * SIZES[1] / SIZES[0], seconds[1]


def test_runs_on_a_small_stack(tmp_path):
    (tmp_path / "chain.onnx").write_bytes(chain_model(SIZES[0]).SerializeToString())
    command = [BUILD / "bin/weft", "run", tmp_path / "chain.onnx", "--at", "batch=3"]
    subprocess.run(command, check=True, capture_output=True, preexec_fn=small_stack, timeout=600)
