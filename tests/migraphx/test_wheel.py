# SPDX-License-Identifier: Apache-2.0
"""AMD's unmodified wheel of onnxruntime with the MIGraphX provider inside, over Weft's libraries."""
import json
import struct

import onnx
import pytest
from onnx import TensorProto, helper

import places

DIGITS = places.DIGITS / "digits.onnx"
COMPARED = 1e-5


@pytest.fixture(scope="module")
def fixed_model(tmp_path_factory):
    """Provides the digits with a batch of 2: a model of fixed sizes is compiled when the session is made."""
    model = onnx.load(DIGITS)
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.shape.dim[0].dim_value = 2
    path = tmp_path_factory.mktemp("wheel") / "fixed.onnx"
    onnx.save(model, path)
    return path


def feed(client, *words, **variables):
    return json.loads(client("feed", *words, **variables).splitlines()[-1])


def test_every_size_gives_the_answer_of_the_cpu_provider(client):
    result = feed(client, DIGITS, "--batches", 1, 5, 2, 5)
    assert result["nodes"] > 0
    assert all(error < COMPARED for error in result["errors"])


def test_fixed_sizes_and_saved_programs(client, fixed_model, tmp_path):
    words = [fixed_model, "--batches", 2, "--option", f"migraphx_model_cache_dir={tmp_path}"]
    assert feed(client, *words)["errors"][0] < COMPARED
    saved = list(tmp_path.glob("*.mxr"))
    assert len(saved) == 1
    written = saved[0].stat().st_mtime_ns
    assert feed(client, *words)["errors"][0] < COMPARED
    assert saved[0].stat().st_mtime_ns == written


@pytest.mark.parametrize("option", ["migraphx_fp16_enable=1", "migraphx_bf16_enable=1"])
def test_precision_reaches_the_compiler(client, fixed_model, option):
    error = feed(client, fixed_model, "--batches", 2, "--option", option)["errors"][0]
    assert COMPARED < error < 0.1


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Provides a calibration table in TensorRT's form."""
    path = tmp_path_factory.mktemp("table") / "ranges"
    path.write_text(f"TRT-8601-EntropyCalibration2\nimage: {struct.pack('>f', 1 / 127).hex()}\n")
    return path


def in_8_bits(option, table):
    return ["--option", f"migraphx_{option}=1", f"migraphx_int8_calibration_table_name={table}",
            "migraphx_int8_use_native_calibration_table=1"]


@pytest.mark.parametrize("option, least, most", [("int8_enable", 1e-4, 2e-2), ("fp8_enable", 1e-3, 0.2)])
def test_8_bits_are_calibrated_on_the_first_run_of_a_size(client, table, option, least, most):
    """If the model's sizes are open, AMD's provider passes the inputs of the run to the quantiser."""
    errors = feed(client, DIGITS, "--batches", 2, 3, *in_8_bits(option, table))["errors"]
    assert all(least < error < most for error in errors)


def test_8_bits_without_examples_are_refused(client, fixed_model, table):
    """If sizes are fixed, AMD's provider gives the quantiser the numbers of the calibration table, but no inputs."""
    with pytest.raises(AssertionError, match="no example of parameter 'image'"):
        feed(client, fixed_model, "--batches", 2, *in_8_bits("int8_enable", table))


def test_a_refusal_is_an_error_not_another_device(client, tmp_path):
    """AMD's provider claims CumSum, because its list of operators contains it. Weft refuses this node, and then the
    session must fail: the node must not run elsewhere silently."""
    nodes = [helper.make_node("ReduceMin", ["x"], ["least"], keepdims=0),
             helper.make_node("Cast", ["least"], ["axis"], to=TensorProto.INT32),
             helper.make_node("CumSum", ["x", "axis"], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    model = helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:]),
                              opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, tmp_path / "sums.onnx")
    with pytest.raises(AssertionError, match="CumSum"):
        feed(client, tmp_path / "sums.onnx", "--batches", 2)


def test_a_branch_that_is_invalid_need_not_run(client):
    """The ONNX function AffineGrid has a branch for 2-D pictures. It is invalid in this 3-D case, because it splits the
    five sizes into four."""
    results = json.loads(client("cases", "--match", "affine_grid_3d_expanded").splitlines()[-1])
    assert [(r["cpu"], r["weft"], r["nodes"] > 0) for r in results] == [("pass", "pass", True)]


def test_conformance_cases(client):
    results = json.loads(client("cases", "--every", 211).splitlines()[-1])
    ours = [r for r in results if r["nodes"] > 0 and r["cpu"] == "pass"]
    assert ours
    assert [(r["name"], r["weft"]) for r in ours if r["weft"] in ("wrong", "crash")] == []
    assert sum(r["weft"] == "pass" for r in ours) >= 0.8 * len(ours)
