# SPDX-License-Identifier: Apache-2.0
"""One test kills `weft compile` at random moments; another runs many at the same time. A program file is complete or
absent, the kernel cache keeps no damaged entry, and complete files have the bytes of an undisturbed compilation."""

import os
import random
import signal
import subprocess
import time

import pytest
from limits import BUILD, IS_FULL, ROOT, SEED

MODEL = ROOT / "examples/digits/digits.onnx"
KILLS = 500 if IS_FULL else 8
AT_ONCE = 16 if IS_FULL else 4


def compiling(folder, cache):
    """Returns a process that compiles into folder/p.weft; it prints its cache hits."""
    command = [BUILD / "bin/weft", "compile", MODEL, "--threads", "1", "-o", folder / "p.weft"]
    return subprocess.Popen(command, env={**os.environ, "WEFT_CACHE_DIR": str(cache), "WEFT_DEBUG": "1"},
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def compile_fully(folder, cache):
    process = compiling(folder, cache)
    said = process.communicate(timeout=600)[1]
    assert process.returncode == 0, said
    assert "damaged" not in said
    return (folder / "p.weft").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Provides the compiled program, and the seconds that compiling took with an empty cache."""
    folder = tmp_path_factory.mktemp("whole")
    start = time.monotonic()
    return compile_fully(folder, folder / "cache"), time.monotonic() - start


def test_killed_at_any_moment(tmp_path, whole):
    wanted, seconds = whole
    print(f"seed {SEED} (WEFT_TEST_SEED)")
    moments = random.Random(SEED)
    program, cache = tmp_path / "p.weft", tmp_path / "cache"
    cut_short = 0
    for number in range(20 * KILLS):
        if is_from_empty := number % 10 == 0:
            subprocess.run([BUILD / "bin/weft", "cache", "clear"], env={**os.environ, "WEFT_CACHE_DIR": str(cache)}, check=True, capture_output=True)
        process, start = compiling(tmp_path, cache), time.monotonic()
        try:
            process.wait(seconds * moments.random() ** 2)  # mostly early: with a filled cache, compiling is quick
            if is_from_empty:  # a busy machine may have slowed the first measurement
                seconds = min(seconds, time.monotonic() - start)
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        cut_short += process.returncode == -signal.SIGKILL
        if program.exists():
            assert program.read_bytes() == wanted
            program.unlink()
        if cut_short == KILLS:
            break
    assert cut_short == KILLS
    assert compile_fully(tmp_path, cache) == wanted
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith("p.weft.") and entry.read_bytes() != wanted] == []


def test_many_at_once(tmp_path, whole):
    folders = [tmp_path / str(number) for number in range(AT_ONCE)]
    for folder in folders:
        folder.mkdir()
    processes = [compiling(folder, tmp_path / "cache") for folder in folders]
    for process, folder in zip(processes, folders):
        said = process.communicate(timeout=600)[1]
        assert process.returncode == 0 and "damaged" not in said, said
        assert (folder / "p.weft").read_bytes() == whole[0]
