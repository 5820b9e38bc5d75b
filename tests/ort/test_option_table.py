# SPDX-License-Identifier: Apache-2.0
"""Tests every option of the providers that Weft replaces, in each of its spellings. For an option with an effect, a
test checks that the effect occurs with the option and not without it. For an option without effect on a CPU, a test
checks that the option is accepted, that a warning names the reason, and that the answers stay the same. The last tests
fail if an option has no such test. test_gpu.py tests the options of GPUs.
"""
import ctypes
import json
import pathlib
import re
import struct
import time
import typing

import numpy as np
import onnx
import pytest

import models
from models import assigned, mlp, numbers, session

ROOT = pathlib.Path(__file__).parents[2]
X = {"x": numbers(3, 64)}

# The options that the documentation of each provider lists.
MIGRAPHX = """device_id fp16_enable int8_enable int8_calibration_table_name int8_use_native_calibration_table
    save_compiled_model save_compiled_path load_compiled_model load_compiled_path exhaustive_tune mem_limit external_alloc
    external_free external_empty_cache""".split()
MIGRAPHX_VARIABLES = """DUMP_MODEL_OPS FP16_ENABLE INT8_ENABLE INT8_CALIBRATION_TABLE_NAME INT8_USE_NATIVE_CALIBRATION_TABLE
    SAVE_COMPILED_MODEL SAVE_COMPILED_PATH LOAD_COMPILED_MODEL LOAD_COMPILED_PATH EXHAUSTIVE_TUNE""".split()
ROCM = """device_id tunable_op_enable tunable_op_tuning_enable tunable_op_max_tuning_duration_ms user_compute_stream
    has_user_compute_stream do_copy_in_default_stream gpu_mem_limit arena_extend_strategy gpu_external_alloc gpu_external_free
    gpu_external_empty_cache default_memory_arena_cfg""".split()
# Options of AMD's plug-in, and those added by later versions of the MIGraphX provider.
PLUGIN = """bf16_enable fp8_enable cache_dir disable_caching force_recompile dump_subgraphs hip_graph_enable max_dynamic_batch
    compile_batches coalesce_io model_arch compute_mode coresident_programs max_resident_programs precompile_at_load
    mlss_use_specific_ops cpu_control_flow static_pad_seq static_pad_seq_len static_pad_inputs static_pad_outputs profile
    telemetry_enable telemetry_file telemetry_dir hiprtc_disable_processes model_cache_dir""".split()
PLUGIN_VARIABLES = """DISABLE_COMPILED_MODEL_CACHING PRECOMPILE_AT_LOAD CPU_CONTROL_FLOW STATIC_PAD_SEQ MODEL_ARCH
    BF16_ENABLE FP8_ENABLE CACHE_PATH MODEL_CACHE_PATH MAX_DYNAMIC_BATCH COMPILE_BATCHES HIP_GRAPH_ENABLE
    COMPUTE_MODE COALESCE_IO""".split()


class Row(typing.NamedTuple):
    type: str
    has_variable: bool
    note: str  # why the option changes nothing on a CPU


def rows_of_source():
    """Returns the rows of options.def by name."""
    row = re.compile(r'^OPTION\(([\w:]+), (\w+), .*?, (true|false), "([^"]*)", "[^"]*", "[^"]*"\)$', re.M)
    text = (ROOT / "ort/options.def").read_text()
    return {name: Row(type, variable == "true", note) for type, name, variable, note in row.findall(text)}


ROWS = rows_of_source()


class Trial:
    """Runs the model with options, and records the log and the calls."""

    def __init__(self, folder, capfd):
        self.folder, self.capfd, self.malloc = folder, capfd, Malloc()

    def run(self, options, proto=None, feed=X):
        """Returns (the first output or None, the refusal or "", the log)."""
        self.capfd.readouterr()
        try:
            made = session(proto or mlp(), options)
            output = made.run(None, feed)[0]
            self.assigned = assigned(made)
            del made
            return output, "", self.capfd.readouterr().err
        except Exception as error:
            return None, str(error), self.capfd.readouterr().err

    def files(self):
        return sorted(path.name for path in self.folder.rglob("*") if path.is_file())

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return str(self.folder / name)


EFFECTS = {}


def effect(*names, value="1", **beside):
    """Registers a test that an option has an effect: `seen(trial, options)` returns whether the effect is observed.
    `beside`: further options that the option needs; a value is a string, or a function that returns it for a trial."""

    def register(seen):
        for name in names:
            EFFECTS[name] = (value, beside, seen)
        return seen

    return register


def resolve(value, trial):
    return value(trial) if callable(value) else value


@effect("device_id", value="7")
def _(trial, options):
    refusal = trial.run(options)[1]
    return "device_id is 7" in refusal or "Unknown Provider Type" in refusal


@effect("device", value="npu")
def _(trial, options):
    return "option device is 'npu'" in trial.run(options)[1]


EXACT = models.reference(mlp()).run(None, X)[0]


def error_of(trial, options):
    return np.abs(trial.run(options)[0] - EXACT).max()


@effect("fp16_enable")
def _(trial, options):
    return 1e-4 < error_of(trial, options) < 3e-2


@effect("bf16_enable")
def _(trial, options):
    return 3e-2 < error_of(trial, options) < 1


@effect("fp8_enable")
def _(trial, options):
    return 0.1 < error_of(trial, options) < 10


def rounds(trial, options):
    """Returns the number of rounds of measuring; None if nothing was measured."""
    said = trial.run(options | {"disable_caching": "1", "threads": "1"}, models.convolution(), models.IMAGE)[2]
    found = re.search(r"kernels were measured, rounds: (\d+)", said)
    return int(found.group(1)) if found else None


@effect("exhaustive_tune", "miopen_conv_exhaustive_search")
def _(trial, options):
    return (rounds(trial, options) or 0) > 1


@effect("tunable_op_max_tuning_duration_ms", exhaustive_tune="1")
def _(trial, options):
    return rounds(trial, options) == 1


@effect("tunable_op_enable", tunable_op_tuning_enable="1")
@effect("tunable_op_tuning_enable", tunable_op_enable="1")
def _(trial, options):
    """Answers stay right while the session switches to the kernels that were measured to be fastest."""
    trial.capfd.readouterr()
    made = session(models.convolution(), options | {"disable_caching": "1", "threads": "1"})
    want = models.reference(models.convolution()).run(None, models.IMAGE)[0]
    said, limit = "", time.monotonic() + (300 if len(options) == 2 else 0)
    while True:
        np.testing.assert_allclose(made.run(None, models.IMAGE)[0], want, rtol=1e-3, atol=1e-3)
        if "kernels were measured" in said or time.monotonic() > limit:
            return "kernels were measured" in said
        time.sleep(0.1)
        said += trial.capfd.readouterr().err


def json_table(trial):
    return trial.write("table.json", json.dumps({"x": 3.0, "r": 25.0}))


def native_table(trial):
    bits = {name: struct.pack(">f", most / 127).hex() for name, most in {"x": 3.0, "r": 25.0}.items()}
    return trial.write("table", "TRT-8601-EntropyCalibration2\n" + "".join(f"{k}: {v}\n" for k, v in bits.items()))


@effect("int8_enable", int8_calibration_table_name=json_table)
def _(trial, options):
    return error_of(trial, options) > 0.05


@effect("int8_calibration_table_name", value=json_table, int8_enable="1")
@effect("int8_use_native_calibration_table", int8_enable="1", int8_calibration_table_name=native_table)
def _(trial, options):
    return trial.run(options)[0] is not None


@effect("save_compiled_model")
def _(trial, options):
    trial.run(options)
    return "compiled_model.mxr" in trial.files()


@effect("save_compiled_path", value=lambda trial: str(trial.folder / "elsewhere"), save_compiled_model="1")
def _(trial, options):
    trial.run(options)
    return "elsewhere" in trial.files()


@effect("load_compiled_model", load_compiled_path="none.mxr")
@effect("load_compiled_path", value="none.mxr", load_compiled_model="1")
def _(trial, options):
    return "there is no file 'none.mxr'" in trial.run(options)[2]


@effect("mem_limit", "gpu_mem_limit", value="1000")
@effect("default_memory_arena_cfg", value="max_mem:1000", gpu_mem_limit="1000000000")
def _(trial, options):
    return trial.run(options)[0] is None or trial.assigned != {models.NAME: 3}  # else the CPU provider has them


class Malloc:
    """An allocator like a framework's, given by the addresses of its functions."""

    def __init__(self):
        libc = ctypes.CDLL(None)
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        libc.free.argtypes = [ctypes.c_void_p]
        self.live, self.made, self.emptied = 0, 0, 0

        def allocate(size):
            self.live, self.made = self.live + 1, self.made + 1
            return libc.malloc(size)

        def release(data):
            self.live -= 1
            libc.free(data)

        def empty():
            self.emptied += 1

        self.functions = [ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(allocate),
                          ctypes.CFUNCTYPE(None, ctypes.c_void_p)(release), ctypes.CFUNCTYPE(None)(empty)]

    def address(self, index):
        return str(ctypes.cast(self.functions[index], ctypes.c_void_p).value)


def own_malloc(index):
    def address(trial):
        return trial.malloc.address(index)

    return address


@effect("external_alloc", value=own_malloc(0), external_free=own_malloc(1))
@effect("external_free", value=own_malloc(1), external_alloc=own_malloc(0))
@effect("gpu_external_alloc", value=own_malloc(0), gpu_external_free=own_malloc(1))
@effect("gpu_external_free", value=own_malloc(1), gpu_external_alloc=own_malloc(0))
def _(trial, options):
    output = trial.run(options)[0]
    return output is not None and trial.malloc.made > 0 and trial.malloc.live == 0


@effect("external_empty_cache", "gpu_external_empty_cache", value=own_malloc(2))
def _(trial, options):
    trial.run(options)
    return trial.malloc.emptied == 1


@effect("dump_model_ops")
def _(trial, options):
    said = trial.run(options)[2]
    return "operators of the model" in said and "Gemm x 1" in said


@effect("cache_dir", "model_cache_dir", "model_cache_path", value=lambda trial: str(trial.folder / "cache"))
def _(trial, options):
    trial.run(options)
    return len(trial.files()) == 1


@effect("disable_caching", "disable_compiled_model_caching", cache_dir=lambda trial: str(trial.folder / "cache"))
def _(trial, options):
    trial.run(options)
    return trial.files() == []


@effect("force_recompile", cache_dir=lambda trial: str(trial.folder / "cache"))
def _(trial, options):
    trial.run({"cache_dir": str(trial.folder / "cache")})
    before = next(trial.folder.rglob("*.weft")).stat().st_mtime_ns
    trial.run(options)
    return next(trial.folder.rglob("*.weft")).stat().st_mtime_ns != before


@effect("dump_subgraphs")
def _(trial, options):
    trial.run(options)
    dumped = list(trial.folder.glob("weft_*.onnx"))
    return [node.op_type for path in dumped for node in onnx.load(path).graph.node] == ["MatMul", "Relu", "Gemm"]


@effect("threads", value="5")
def _(trial, options):
    count = lambda: len(list(pathlib.Path("/proc/self/task").iterdir()))
    before = count()
    held = session(mlp(), options)
    held.run(None, {"x": numbers(4096, 64)})  # threads start with the first run that is large enough for them
    return count() >= before + 4


@effect("strict")
def _(trial, options):
    return "SplitToSequence" in trial.run(options, models.mixed())[1]


VALUES = {"arena_extend_strategy": "kSameAsRequested", "compute_mode": "maximum", "user_compute_stream": "4096"}
for name in ROWS:
    if ROWS[name].note:
        EFFECTS.setdefault(name, (VALUES.get(name, "1"), {}, None))

WAYS = [(name, way) for name, row in ROWS.items() for way in ("", "migraphx_", "ORT_MIGRAPHX_")
        if row.has_variable or way != "ORT_MIGRAPHX_"]


def spelling(name, way):
    return way + (name.upper() if way.isupper() else name)


@pytest.mark.rotates(2)
@pytest.mark.parametrize("name, way", [(name, way) for name, way in WAYS if ROWS[name].note])
def test_an_option_that_changes_nothing_says_so(name, way, tmp_path, capfd, monkeypatch):
    value, spelt = EFFECTS[name][0], spelling(name, way)
    monkeypatch.chdir(tmp_path)
    trial = Trial(tmp_path, capfd)
    said = f"option {spelt} changes nothing: {ROWS[name].note}"
    wanted, _, before = trial.run({})
    assert said not in before
    if way == "ORT_MIGRAPHX_":
        monkeypatch.setenv(spelt, value)
    output, refused, after = trial.run({} if way == "ORT_MIGRAPHX_" else {spelt: value})
    assert not refused and said in after and trial.files() == []
    np.testing.assert_array_equal(output, wanted)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("name, way", [(name, way) for name, way in WAYS if not ROWS[name].note])
def test_an_option_does_what_it_says(name, way, tmp_path, capfd, monkeypatch):
    value, beside, seen = EFFECTS[name]
    monkeypatch.chdir(tmp_path)
    trial = Trial(tmp_path, capfd)
    others = {key: resolve(text, trial) for key, text in beside.items()}
    spelt = spelling(name, way)
    value = resolve(value, trial)
    assert not seen(trial, others), f"without {name} its effect is seen too"
    for path in tmp_path.rglob("*"):
        if path.is_file() and not path.name.startswith("table"):
            path.unlink()
    if way == "ORT_MIGRAPHX_":
        monkeypatch.setenv(spelt, value)
        contrary = {"0": "1", "1": "0"}.get(value)
        options = others | ({name: contrary} if contrary else {})  # the variable takes precedence
    else:
        options = others | {spelt: value}
    assert seen(trial, options)


@pytest.mark.parametrize("names", [MIGRAPHX, ROCM, PLUGIN, [name.lower() for name in MIGRAPHX_VARIABLES + PLUGIN_VARIABLES]])
def test_every_option_has_a_test(names):
    assert set(names) <= set(ROWS) and set(ROWS) == set(EFFECTS)


def test_every_variable_has_a_test():
    variables = {name.lower() for name in MIGRAPHX_VARIABLES + PLUGIN_VARIABLES}
    assert variables <= {name for name, way in WAYS if way == "ORT_MIGRAPHX_"}


def test_every_option_stands_in_the_tables_for_users():
    text = (ROOT / "docs/onnxruntime.md").read_text().lower()
    assert [name for name in ROWS if not re.search(rf"\b(ort_)?(migraphx_)?{name}\b", text)] == []
