# SPDX-License-Identifier: Apache-2.0
"""`weft convert`: ONNX's own node cases are read, written as ONNX again, and run by stock onnxruntime. A plain run
takes a part of the cases, WEFT_TEST_FULL=1 all of them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from onnx_node_cases import node_cases
from places import BUILD, DIGITS, IS_FULL, keep_count

PART = 40  # about how many cases a plain run takes
# Words in the names of cases that draw random numbers or train.
CHANCE = ("bernoulli", "dropout", "training")


def convert(source, target, *words):
    command = [BUILD / "bin/weft", "convert", source, "-o", target, *words]
    return subprocess.run(command, capture_output=True, text=True)


def answers(model, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, 4
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"]).run(None, feeds)


def data_of(case):
    """Returns the model, its inputs and its outputs as arrays; None if a value is not a tensor of one of numpy's
    types."""
    try:
        model = case.model or onnx.load(Path(case.model_dir) / "model.onnx")
        if case.data_sets:
            sets = case.data_sets[0]
        else:
            folder = Path(case.model_dir) / "test_data_set_0"
            sets = [[numpy_helper.to_array(onnx.load_tensor(path)) for path in sorted(folder.glob(f"{kind}_*.pb"))]
                    for kind in ("input", "output")]
    except Exception:
        return None
    is_plain = all(isinstance(v, (np.ndarray, np.generic)) and np.asarray(v).dtype.kind in "biuf" for part in sets for v in part)
    return (model, *sets) if is_plain and len(sets[0]) == len(model.graph.input) else None


def judge(case, folder):
    """Returns "right", "refused", "unjudged" or the error."""
    data = data_of(case)
    if data is None or any(word in case.name for word in CHANCE):
        return "unjudged"
    model, inputs, wanted = data
    feeds = {port.name: np.asarray(value) for port, value in zip(model.graph.input, inputs, strict=True)}
    source, target = folder / "case.onnx", folder / "again.onnx"
    onnx.save(model, source)
    try:
        peer = answers(source, feeds)
    except Exception:
        return "unjudged"  # onnxruntime lacks the operator
    done = convert(source, target)
    if done.returncode:
        return "refused" if "E223" in done.stderr else "unjudged" if done.returncode == 4 else done.stderr[-300:]
    try:
        got = answers(target, feeds)
    except Exception as error:
        return "refused" if "NOT_IMPLEMENTED" in str(error) else f"onnxruntime refuses the new file: {str(error)[-300:]}"
    try:
        compare(got, peer)
    except (AssertionError, ValueError) as error:
        try:
            compare(got, wanted)  # in some cases onnxruntime is wrong about the original model
        except (AssertionError, ValueError):
            return str(error)[:300]
    return "right"


def compare(got, wanted):
    for mine, right in zip(got, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(mine, np.float64), np.asarray(right, np.float64), rtol=2e-3, atol=1e-5)


def test_node_cases(tmp_path):
    cases = sorted(node_cases(), key=lambda case: case.name)
    found = {case.name: judge(case, tmp_path) for case in (cases if IS_FULL else cases[7 :: len(cases) // PART])}
    counts = {word: list(found.values()).count(word) for word in ("right", "refused", "unjudged")}
    wrong = {name: what for name, what in found.items() if what not in counts}
    if IS_FULL:
        keep_count("nodes written again as ONNX", {"judge": "onnxruntime"}, **counts, wrong=len(wrong))
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())
    assert counts["right"] > len(found) / 2, counts


def test_sizes_names_and_metadata_stay(tmp_path):
    done = convert(DIGITS / "digits.onnx", tmp_path / "again.onnx")
    assert done.returncode == 0, done.stderr
    before, after = onnx.load(DIGITS / "digits.onnx"), onnx.load(tmp_path / "again.onnx")
    onnx.checker.check_model(after)
    ports = [[(port.name, [d.dim_param or d.dim_value for d in port.type.tensor_type.shape.dim])
              for port in (*model.graph.input, *model.graph.output)] for model in (before, after)]
    assert ports[0] == ports[1]
    x = np.random.default_rng(0).random((3, *[d.dim_value for d in before.graph.input[0].type.tensor_type.shape.dim[1:]]), np.float32)
    both = [answers(path, {before.graph.input[0].name: x})[0] for path in (DIGITS / "digits.onnx", tmp_path / "again.onnx")]
    np.testing.assert_allclose(*both, rtol=1e-4, atol=1e-6)


def test_an_operator_that_onnx_has_in_another_form(tmp_path):
    node = onnx.helper.make_node("NonMaxSuppression", ["boxes", "scores"], ["chosen"], "around")
    ports = [onnx.helper.make_tensor_value_info(*port) for port in
             (("boxes", 1, [1, 4, 4]), ("scores", 1, [1, 1, 4]), ("chosen", 7, ["n", 3]))]
    graph = onnx.helper.make_graph([node], "g", ports[:2], ports[2:])
    onnx.save(onnx.helper.make_model(graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 19)]), tmp_path / "boxes.onnx")
    done = convert(tmp_path / "boxes.onnx", tmp_path / "again.onnx")
    assert done.returncode == 4 and "E223" in done.stderr and "around" in done.stderr
    assert not (tmp_path / "again.onnx").exists()


def test_a_recurrent_network_and_a_branch(tmp_path):
    """An LSTM becomes a loop; a condition that the run computes selects a branch."""
    random, steps = np.random.default_rng(0), "steps"
    weights = {"w": (1, 32, 5), "r": (1, 32, 8), "b": (1, 64)}
    tensors = [numpy_helper.from_array(random.standard_normal(dims).astype("f") / 4, name) for name, dims in weights.items()]
    info, node = onnx.helper.make_tensor_value_info, onnx.helper.make_node
    branches = {f"{way}_branch": onnx.helper.make_graph([node(op, ["y"], [f"{way}_z"])], way, [], [info(f"{way}_z", 1, None)])
                for way, op in (("then", "Neg"), ("else", "Exp"))}
    nodes = [node("LSTM", ["x", "w", "r", "b"], ["y", "h"], hidden_size=8), node("ReduceSum", ["x"], ["sum"], keepdims=0),
             node("Greater", ["sum", "zero"], ["is_more"]), node("If", ["is_more"], ["z"], **branches)]
    graph = onnx.helper.make_graph(nodes, "g", [info("x", 1, [steps, 2, 5])], [info("z", 1, None), info("h", 1, [1, 2, 8])],
                                   [*tensors, numpy_helper.from_array(np.float32(0), "zero")])
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(onnx.helper.make_model(graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 19)]), source)
    done = convert(source, target)
    assert done.returncode == 0, done.stderr
    for count, sign in (3, 1), (7, -1):
        x = {"x": sign * random.random((count, 2, 5), np.float32)}
        compare(answers(target, x), answers(source, x))


def test_attention_that_selects(tmp_path):
    """A compiled program has one operator attention, whose mask sets scores to a number; a query sees no key."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        main (float[1, 2, 3, 8] q, float[1, 2, 8, 5] k, float[1, 2, 5, 8] v, bool[3, 5] m) => (float[1, 2, 3, 8] y) <float low = {-2}> {
            s = MatMul(q, k) h = Where(m, s, low) p = Softmax <axis = -1> (h) y = MatMul(p, v)
        }""")
    onnx.save(model, tmp_path / "m.onnx")
    compiled = [BUILD / "bin/weft", "compile", tmp_path / "m.onnx", "--device", "cpu", "-o", tmp_path / "m.weft"]
    assert subprocess.run(compiled, capture_output=True).returncode == 0
    done = convert(tmp_path / "m.weft", tmp_path / "again.onnx")
    assert done.returncode == 0, done.stderr
    draw = np.random.default_rng(0)
    feeds = {port.name: draw.standard_normal([d.dim_value for d in port.type.tensor_type.shape.dim]).astype(np.float32)
             for port in model.graph.input}
    feeds["m"] = np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], bool)
    wanted, = answers(tmp_path / "m.onnx", feeds)
    np.testing.assert_allclose(answers(tmp_path / "again.onnx", feeds)[0], wanted, 1e-5, 1e-5)
