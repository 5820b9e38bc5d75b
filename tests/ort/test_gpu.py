# SPDX-License-Identifier: Apache-2.0
"""Sessions on a GPU: unmodified onnxruntime and provider, over the emulated driver of tests/amdemu."""
import functools
import json
import os
import pathlib
import subprocess
import sys

import pytest

from places import BUILD

EMULATOR = BUILD / "lib/libamdemu.so"
pytestmark = pytest.mark.skipif(not EMULATOR.exists(), reason="the emulator is built with LLVM's libraries only")
CHIP = "gfx1100"
CLOSE = 1e-4
PATHS = [path for path in [os.environ.get("PYTHONPATH")] if path]


def ask(*questions, chips=CHIP, **variables):
    """Returns the answers and the log."""
    here = pathlib.Path(__file__).parent
    environment = os.environ | {"WEFT_HIP_LIBRARY": str(EMULATOR), "WEFT_CUDA_LIBRARY": "none", "AMDEMU_CHIPS": chips,
                                "PYTHONPATH": os.pathsep.join([str(BUILD / "python"), str(here), *PATHS])} | variables
    done = subprocess.run([sys.executable, here / "gpu_client.py", *questions], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@functools.cache
def answers():
    """Provides the answers to most questions from a single process, because starting a process takes longer than
    answering."""
    return ask("host_values", "mixed_providers", "bound_values", "static_inputs", "one_memory", "user_stream", "external_allocator",
               "arena_strategies", "memory_limit", "half_precision", "saved_programs", "an_index_out_of_range", "threads")


def answer(name):
    return answers()[0][name]


def test_gpus_are_offered_instead_of_the_processor():
    found, _ = ask("devices", chips="gfx1100,gfx942")
    names = {name for name, *_ in found["devices"]}
    assert len(names) == 4 and len(found["devices"]) == 8
    for name in names:
        mine = sorted(rest for ep, *rest in found["devices"] if ep == name)
        assert mine == [["0", "amd:gfx1100", "GPU", 0x1002], ["1", "amd:gfx942", "GPU", 0x1002]]


def test_device_ids():
    found = ask("device_ids", chips="gfx1100,gfx942")[0]["device_ids"]
    assert found["error"] < CLOSE
    assert "Unknown Provider Type" in found["wrong"] or "device_id is 9" in found["wrong"]  # by onnxruntime or by Weft


def test_values_of_the_host_of_any_size():
    assert max(answer("host_values")["errors"]) < CLOSE
    assert answer("host_values")["assigned"] == {"WeftExecutionProvider": 3}
    assert f"3/3 nodes on Weft (amd:{CHIP}), 0 on CPU" in answers()[1]


def test_values_pass_between_the_gpu_and_the_cpu_provider():
    assert max(answer("mixed_providers")["errors"]) < CLOSE
    assert answer("mixed_providers")["assigned"] == {"WeftExecutionProvider": 2, "CPUExecutionProvider": 1}


def test_bound_values_stay_on_the_device():
    found = answer("bound_values")
    assert max(found["errors"]) < CLOSE and found["x"] == 0 and found["device"] != "cpu"


def test_bound_runs_replay_one_captured_graph():
    _, said = ask("bound_values", WEFT_DEBUG="2")
    assert said.count("capturing 2 steps") == 1  # once in three runs


def test_static_inputs_may_lie_on_the_device():
    found = answer("static_inputs")
    assert max(found["errors"]) < CLOSE and found["assigned"] == {"WeftExecutionProvider": 1}


def test_one_memory_as_input_and_output():
    assert answer("one_memory")["error"] == 0


def test_the_users_stream():
    found = answer("user_stream")
    assert found["plain"] < CLOSE and found["error"] < CLOSE and found["default"] < CLOSE
    assert found["untouched"], "the emulator runs a stream when somebody waits for it; nobody had"
    assert "does not go together with an external allocator" in found["refused"]


def test_external_allocators_give_all_memory_of_a_session():
    found = answer("external_allocator")
    assert max(found["errors"]) < CLOSE
    # The calls allocate weights, working memory, the input and the output; a second run makes no further calls.
    assert found["calls"] >= 4 and found["repeated"] == 0
    assert found["live"] == 0 and found["emptied"] == 1


def test_arena_strategies():
    found = answer("arena_strategies")
    assert found["kNextPowerOfTwo"][:2] == found["0"][:2] == [4096, 32768]  # the third is working memory
    assert found["kSameAsRequested"][:2] == found["1"][:2] == [3328, 25600]


def test_memory_limits():
    found = answer("memory_limit")
    assert found["fine"] < CLOSE and found["after"] < CLOSE and "no memory" in found["refused"]


def test_precisions():
    found = answer("half_precision")
    assert 1e-4 < found["fp16_enable"] < found["bf16_enable"] < 2


def test_saved_programs():
    assert answer("saved_programs")["bytes"] > 0 and answer("saved_programs")["error"] < CLOSE


def test_an_index_out_of_range_is_an_error():
    assert "index 8 is outside [-8, 7]" in answer("an_index_out_of_range")


def test_threads_run_at_once():
    assert answer("threads") == []


def test_options_that_change_nothing_here_say_so():
    options, said = ask("notes")
    assert "kernels were measured" in said
    silent = {"arena_extend_strategy", "user_compute_stream", "device", "exhaustive_tune"}
    for name in options["notes"]:
        assert (f"option {name} changes nothing" in said) == (name not in silent), name
