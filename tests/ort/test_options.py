# SPDX-License-Identifier: Apache-2.0
"""Refused options, and options whose effect needs a longer test (test_option_table.py tests every option)."""

import ml_dtypes
import numpy as np
import onnx
import pytest

import models
from models import assigned, mlp, numbers, session
from test_option_table import rows_of_source

X = {"x": numbers(3, 64)}
SPELLINGS = ["", "migraphx_"]


ROWS = rows_of_source()


def run(options=None, **keys):
    return session(mlp(), options, **keys).run(None, X)[0]


@pytest.fixture(scope="module")
def exact():
    return run()


@pytest.mark.parametrize("name, nearest", [("fp16_enabled", "fp16_enable"), ("migraphx_mem_limits", "mem_limit"),
                                           ("devise_id", "device_id"), ("migraphx_", "device")])
def test_unknown_options_are_refused_with_the_nearest(name, nearest):
    with pytest.raises(Exception, match=f"there is no option '{name}'[^$]*the nearest is {nearest}"):
        session(mlp(), {name: "1"})


def test_a_refusal_says_where_the_session_would_run(capfd):
    with pytest.raises(Exception):
        session(mlp(), {"no_such_option": "1"})
    assert "this session runs on CPU" in capfd.readouterr().err


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.type != "std::string"])
def test_values_that_do_not_parse_are_refused(name):
    with pytest.raises(Exception, match=f"option {name} is 'perhaps'"):
        session(mlp(), {name: "perhaps"})


def test_precisions_that_exclude_each_other():
    with pytest.raises(Exception, match="fp16_enable and bf16_enable are both set"):
        session(mlp(), {"fp16_enable": "1", "bf16_enable": "True"})


def calibration(form):
    """Returns a calibration table for the inputs of the two products, in the format `form`."""
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


def test_a_calibration_table_reaches_models_of_fixed_sizes(tmp_path, exact):
    """Weft quantises a model of fixed sizes too; AMD's own provider needs open sizes for a table to have an effect."""
    (tmp_path / "table").write_text(calibration("numbers"))
    options = {"migraphx_int8_enable": "1", "migraphx_int8_calibration_table_name": str(tmp_path / "table")}
    fixed = mlp()
    for value in [*fixed.graph.input, *fixed.graph.output]:
        value.type.tensor_type.shape.dim[0].dim_value = 3
    got = session(fixed, options).run(None, X)[0]
    assert np.abs(got - exact).max() > 0.05
    np.testing.assert_allclose(got, run(options), atol=1e-5)


def to_fp8(values):
    return values.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)


@pytest.mark.parametrize("with_table", [True, False])
def test_fp8(with_table, tmp_path, exact):
    """The scales of inputs come from the table, or without a table from the greatest magnitude in the run; those of
    weights come from the greatest magnitude of each column."""
    table = tmp_path / "table"
    table.write_text(calibration("native"))
    options = {"fp8_enable": "1"}
    if with_table:
        options |= {"int8_calibration_table_name": str(table), "int8_use_native_calibration_table": "1"}
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in mlp().graph.initializer}

    def steps(values, most):
        scale = (most / 448).astype(np.float32)
        return to_fp8(np.clip(values / scale, -448, 448)) * scale

    def product(x, most, w):
        most = np.float32(most) if with_table else np.abs(x).max()
        return steps(x, most) @ steps(w, np.abs(w).max(0))

    hidden = np.maximum(product(X["x"], 3.0, weights["a"]), 0)
    want = product(hidden, 25.0, weights["b"]) + weights["c"]
    assert np.abs(want - exact).max() > 0.1
    got = run(options)
    np.testing.assert_allclose(got, want, atol=0.5)  # a value on the border of two numbers may fall to either
    assert np.abs(got - want).mean() < np.abs(exact - want).mean() / 4


def test_fp8_of_zeros_and_convolutions():
    x = {"x": np.zeros((1, 32, 24, 24), np.float32)}
    assert not session(models.convolution(), {"fp8_enable": "1"}).run(None, x)[0].any()
    want = models.reference(models.convolution()).run(None, models.IMAGE)[0]
    error = np.abs(session(models.convolution(), {"fp8_enable": "1"}).run(None, models.IMAGE)[0] - want)
    assert 1e-2 < error.max() < 0.1 * np.abs(want).max()


def test_int8_and_fp8_exclude_each_other():
    with pytest.raises(Exception, match="fp8_enable and int8_enable are both set"):
        session(mlp(), {"fp8_enable": "1", "int8_enable": "1"})


@pytest.mark.parametrize("options, note", [
    ({"tunable_op_enable": "1"}, "tunable_op_enable changes nothing alone"),
    ({"tunable_op_tuning_enable": "1"}, "tunable_op_enable is not set"),
    ({"tunable_op_max_tuning_duration_ms": "5"}, "nothing is to be measured")])
def test_options_that_mean_nothing_alone(options, note, capfd):
    session(mlp(), options)
    assert note in capfd.readouterr().err


@pytest.mark.parametrize("text, native, wanted", [("", "0", "not a JSON object"), ("x: zz\n", "1", "8 hex digits"),
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
    # A model with the same graph, sizes and file name but other weights: a cache keyed by name would return a wrong
    # program.
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


def test_options_that_exclude_each_other_are_refused():
    addresses = {"gpu_external_alloc": "4096", "gpu_external_free": "4096"}
    with pytest.raises(Exception, match="user_compute_stream does not go together with an external allocator"):
        session(mlp(), {"user_compute_stream": "4096", **addresses})
    with pytest.raises(Exception, match="needs both functions"):
        session(mlp(), {"migraphx_external_alloc": "4096"})


@pytest.mark.parametrize("value", ["kNextPowerOfTwo", "0", "kSameAsRequested", "1"])
def test_both_spellings_of_the_arena_strategy(value):
    session(mlp(), {"arena_extend_strategy": value})
    with pytest.raises(Exception, match="kNextPowerOfTwo"):
        session(mlp(), {"arena_extend_strategy": value + "x"})
