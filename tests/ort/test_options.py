# SPDX-License-Identifier: Apache-2.0
"""Option by option: each test fails when its option is ignored. Options without a meaning on a CPU must say so."""
import ctypes
import pathlib
import re

import numpy as np
import onnx
import pytest

import models
from models import assigned, mlp, numbers, session

X = {"x": numbers(3, 64)}
SPELLINGS = ["", "migraphx_"]
ROOT = pathlib.Path(__file__).parents[2]


def options_of_source():
    """name -> (has a variable, note for a CPU), from the list itself."""
    text = (ROOT / "ort/options.def").read_text()
    row = re.compile(r'^OPTION\([\w:]+, (\w+), .*?, (true|false), "([^"]*)", "[^"]*"\)$', re.M)
    return {name: (variable == "true", note) for name, variable, note in row.findall(text)}


ROWS = options_of_source()
NOTED = sorted(name for name, (_, note) in ROWS.items() if note)
VALUES = {"arena_extend_strategy": "kSameAsRequested", "compile_batches": "1,2", "model_arch": "llama"}


def run(options=None, **keys):
    return session(mlp(), options, **keys).run(None, X)[0]


@pytest.fixture(scope="module")
def exact():
    return run()


def test_the_list_is_read():
    assert len(ROWS) > 40 and "fp16_enable" in ROWS and len(NOTED) >= 10


@pytest.mark.parametrize("name, nearest", [("fp16_enabled", "fp16_enable"), ("migraphx_mem_limits", "mem_limit"),
                                           ("devise_id", "device_id"), ("migraphx_", "device")])
def test_unknown_options_are_refused_with_the_nearest(name, nearest):
    with pytest.raises(Exception, match=f"there is no option '{name}'[^$]*the nearest is {nearest}"):
        session(mlp(), {name: "1"})


def test_a_refusal_says_where_the_session_would_run(capfd):
    with pytest.raises(Exception):
        session(mlp(), {"no_such_option": "1"})
    assert "this session runs on CPU" in capfd.readouterr().err


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", NOTED)
def test_options_without_a_meaning_say_so(spelling, name, capfd):
    session(mlp(), {spelling + name: VALUES.get(name, "1")})
    assert f"option {spelling}{name} changes nothing: {ROWS[name][1]}" in capfd.readouterr().err


@pytest.mark.parametrize("name", [name for name in ROWS if ROWS[name][1] == "" and name not in (
    "default_memory_arena_cfg", "device", "int8_calibration_table_name", "save_compiled_path", "load_compiled_path",
    "cache_dir")])
def test_values_that_do_not_parse_are_refused(name):
    with pytest.raises(Exception, match=f"option {name} is 'perhaps'"):
        session(mlp(), {name: "perhaps"})


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_device_id(spelling):
    session(mlp(), {spelling + "device_id": "0"})
    with pytest.raises(Exception, match="device_id is 1|Unknown Provider Type"):
        session(mlp(), {spelling + "device_id": "1"})


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name, error", [("fp16_enable", 1e-4), ("bf16_enable", 1e-3)])
def test_precisions(spelling, name, error, exact):
    difference = np.abs(run({spelling + name: "1"}) - exact).max()
    assert error / 10 < difference < error * 1000
    np.testing.assert_array_equal(run({spelling + name: "0"}), exact)


def test_fp8_is_refused_on_a_cpu():
    with pytest.raises(Exception, match="a cpu has no fp8 arithmetic"):
        session(mlp(), {"fp8_enable": "1"})
    with pytest.raises(Exception, match="fp16_enable and bf16_enable are both set"):
        session(mlp(), {"fp16_enable": "1", "bf16_enable": "True"})


def calibration(form):
    """Ranges of the two values that go into products, as each calibrator writes them."""
    import json
    import struct

    ranges = {"x": 3.0, "r": 25.0}
    if form == "native":
        hexadecimal = {name: struct.pack(">f", most / 127).hex() for name, most in ranges.items()}
        return "TRT-8601-EntropyCalibration2\n" + "".join(f"{name}: {bits}\n" for name, bits in hexadecimal.items())
    if form == "numbers":
        return json.dumps(ranges)
    if form == "pairs":
        return json.dumps({name: [-most / 2, most] for name, most in ranges.items()})
    array = lambda number: {"CLS": "numpy.array", "dtype": "float32", "data": [number]}
    data = {name: {"CLS": "TensorData", "lowest": array(-most), "highest": array(0.0)} for name, most in ranges.items()}
    return json.dumps({"CLS": "TensorsData", "calibration_method": "MinMax", "data": data})


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("form", ["native", "numbers", "pairs", "dumped"])
def test_int8_by_calibration_table(spelling, form, tmp_path, exact):
    table = tmp_path / "table"
    table.write_text(calibration(form))
    options = {"int8_enable": "1", "int8_calibration_table_name": str(table),
               "int8_use_native_calibration_table": str(int(form == "native"))}
    got = run({spelling + key: value for key, value in options.items()})
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in mlp().graph.initializer}

    def steps(values, scale):
        return np.clip(np.rint(values / scale), -127, 127) * scale

    def product(x, most, w):
        return steps(x, np.float32(most / 127)) @ steps(w, np.abs(w).max(0) / 127)

    hidden = np.maximum(product(X["x"], 3.0, weights["a"]), 0)
    want = product(hidden, 25.0, weights["b"]) + weights["c"]
    assert np.abs(want - exact).max() > 0.05
    np.testing.assert_allclose(got, want, atol=0.3)  # a value on the border of two steps may fall to either
    assert np.abs(got - want).mean() < np.abs(exact - want).mean() / 4


@pytest.mark.parametrize("text, native, wanted", [("", "0", "no JSON object"), ("x: zz\n", "1", "8 hex digits"),
                                                  ('{"x": 0}', "0", "no scale above 0"), (None, "0", "cannot be read")])
def test_calibration_tables_that_are_none(text, native, wanted, tmp_path):
    table = tmp_path / "table"
    if text is not None:
        table.write_text(text)
    with pytest.raises(Exception, match=wanted):
        session(mlp(), {"int8_enable": "1", "int8_calibration_table_name": str(table),
                        "int8_use_native_calibration_table": native})


def test_int8_needs_a_table():
    with pytest.raises(Exception, match="int8_enable is set without int8_calibration_table_name"):
        session(mlp(), {"migraphx_int8_enable": "1"})


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_saved_programs_are_told_apart_by_content(spelling, tmp_path, capfd, exact):
    path = tmp_path / "model.mxr"
    save = {spelling + "save_compiled_model": "1", spelling + "save_compiled_path": str(path)}
    load = {spelling + "load_compiled_model": "1", spelling + "load_compiled_path": str(path)}
    run(load)
    assert "there is no file" in capfd.readouterr().err
    run(save)
    written = path.read_bytes()
    assert written
    np.testing.assert_array_equal(run(load), exact)
    assert "another model" not in capfd.readouterr().err
    # The same graph, sizes and file name, other weights: the trap of caches by name.
    other = session(mlp(seed=1), load).run(None, X)[0]
    assert "is of another model or of other options" in capfd.readouterr().err
    np.testing.assert_array_equal(other, session(mlp(seed=1)).run(None, X)[0])
    run({**load, "fp16_enable": "1"})
    assert "is of another model or of other options" in capfd.readouterr().err
    assert path.read_bytes() == written
    path.write_bytes(written[:100])
    np.testing.assert_array_equal(run(load), exact)
    assert "E173" in capfd.readouterr().err


def test_the_default_path_of_saved_programs(tmp_path, monkeypatch, exact):
    monkeypatch.chdir(tmp_path)
    run({"migraphx_save_compiled_model": "1"})
    assert [file.name for file in tmp_path.iterdir()] == ["compiled_model.mxr"]
    np.testing.assert_array_equal(run({"migraphx_load_compiled_model": "1"}), exact)


def test_cache_dir(tmp_path):
    run({"cache_dir": str(tmp_path / "a")})
    first = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "a").iterdir()}
    assert len(first) == 1
    run({"cache_dir": str(tmp_path / "a")})
    assert {file.name: file.stat().st_mtime_ns for file in (tmp_path / "a").iterdir()} == first
    run({"cache_dir": str(tmp_path / "a"), "force_recompile": "1"})
    assert {file.name: file.stat().st_mtime_ns for file in (tmp_path / "a").iterdir()} != first
    run({"cache_dir": str(tmp_path / "b"), "disable_caching": "1"})
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("options", [{"migraphx_mem_limit": "1000"}, {"mem_limit": "1000"}, {"gpu_mem_limit": "1000"},
                                     {"default_memory_arena_cfg": "max_mem:1000"},
                                     {"gpu_mem_limit": "1000000000", "default_memory_arena_cfg": "max_mem:1000"}])
def test_memory_limits(options, capfd):
    made = session(mlp(), options)
    said = capfd.readouterr().err
    assert assigned(made) != {models.NAME: 3} and "E401" in said or "memory" in said


def test_a_memory_limit_that_is_wide_enough(exact):
    np.testing.assert_array_equal(run({"mem_limit": str(2**64 - 1)}), exact)
    np.testing.assert_array_equal(run({"gpu_mem_limit": "1000", "default_memory_arena_cfg": "max_mem:100000000"}), exact)


class Malloc:
    """A framework's allocator, by address."""

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

    def options(self, prefix):
        addresses = [str(ctypes.cast(function, ctypes.c_void_p).value) for function in self.functions]
        return dict(zip([prefix + "alloc", prefix + "free", prefix + "empty_cache"], addresses))


@pytest.mark.parametrize("prefix", ["external_", "migraphx_external_", "gpu_external_"])
def test_external_allocators(prefix, exact):
    memory = Malloc()
    made = session(mlp(), memory.options(prefix))
    np.testing.assert_array_equal(made.run(None, X)[0], exact)
    assert memory.made > 0 and memory.emptied == 0
    del made
    assert memory.live == 0 and memory.emptied == 1


def test_what_does_not_go_together():
    addresses = Malloc().options("gpu_external_")
    with pytest.raises(Exception, match="user_compute_stream does not go together with an external allocator"):
        session(mlp(), {"user_compute_stream": "4096", **addresses})
    with pytest.raises(Exception, match="needs both functions"):
        session(mlp(), {"migraphx_external_alloc": "4096"})


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_dump_model_ops(spelling, capfd):
    run({spelling + "dump_model_ops": "1"})
    said = capfd.readouterr().err
    assert "operators of the model" in said and "Gemm x 1" in said


def test_dump_subgraphs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run({"dump_subgraphs": "1"})
    dumped = onnx.load(next(tmp_path.glob("weft_*.onnx")))
    assert [node.op_type for node in dumped.graph.node] == ["MatMul", "Relu", "Gemm"]


@pytest.mark.parametrize("value, strategy", [("kNextPowerOfTwo", 1), ("0", 1), ("kSameAsRequested", 1), ("1", 1)])
def test_both_spellings_of_the_arena_strategy(value, strategy):
    session(mlp(), {"arena_extend_strategy": value})
    with pytest.raises(Exception, match="kNextPowerOfTwo"):
        session(mlp(), {"arena_extend_strategy": value + "x"})


def test_device_and_threads():
    with pytest.raises(Exception, match="there is no device 'npu'"):
        session(mlp(), {"device": "npu"})
    before = threads()
    made = [session(mlp(), {"device": "cpu", "threads": "5"}), session(mlp(), {"threads": "1"})]
    assert made[0].run(None, X) and threads() >= before + 4


def threads():
    return len(list(pathlib.Path("/proc/self/task").iterdir()))


# ---- Environment variables ----


@pytest.mark.parametrize("variable, option", [("ORT_MIGRAPHX_FP16_ENABLE", "migraphx_fp16_enable"),
                                              ("ORT_MIGRAPHX_BF16_ENABLE", "bf16_enable")])
def test_variables_win_over_options(variable, option, monkeypatch, exact):
    monkeypatch.setenv(variable, "1")
    assert np.abs(run({option: "0"}) - exact).max() > 0
    monkeypatch.setenv(variable, "0")
    np.testing.assert_array_equal(run({option: "1"}), exact)


def test_every_variable_is_read(monkeypatch):
    for name, (has_variable, _) in ROWS.items():
        if not has_variable or name in ("int8_calibration_table_name", "save_compiled_path", "load_compiled_path",
                                        "cache_dir", "compile_batches", "model_arch"):
            continue
        with monkeypatch.context() as scope:
            scope.setenv("ORT_MIGRAPHX_" + name.upper(), "perhaps")
            with pytest.raises(Exception, match=f"option ORT_MIGRAPHX_{name.upper()} is 'perhaps'"):
                session(mlp())


def test_paths_by_variable(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("ORT_MIGRAPHX_SAVE_COMPILED_MODEL", "1")
    monkeypatch.setenv("ORT_MIGRAPHX_SAVE_COMPILED_PATH", str(tmp_path / "a.mxr"))
    run({"save_compiled_path": str(tmp_path / "b.mxr")})
    assert [file.name for file in tmp_path.iterdir()] == ["a.mxr"]
    monkeypatch.delenv("ORT_MIGRAPHX_SAVE_COMPILED_MODEL")
    monkeypatch.setenv("ORT_MIGRAPHX_LOAD_COMPILED_MODEL", "1")
    monkeypatch.setenv("ORT_MIGRAPHX_LOAD_COMPILED_PATH", str(tmp_path / "c.mxr"))
    run()
    assert "c.mxr" in capfd.readouterr().err
    monkeypatch.setenv("ORT_MIGRAPHX_CACHE_DIR", str(tmp_path / "cache"))
    run()
    assert (tmp_path / "cache").exists()
    monkeypatch.setenv("ORT_MIGRAPHX_DUMP_MODEL_OPS", "1")
    run()
    assert "operators of the model" in capfd.readouterr().err
