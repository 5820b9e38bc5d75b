# SPDX-License-Identifier: Apache-2.0
"""SavedModels of TensorFlow 1 and 2, compared with TensorFlow's answers. Covers signatures, tags, variables and their
files, control flow, lists of tensors, recurrent networks of Keras, and refused models with their
errors."""
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import weft

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]
import judge
from places import BUILD
from test_lite_graphs import runs

RECURRENT = ["LSTM", "GRU", "SimpleRNN", "both_ways", "masked"]
SIGNED = {"several-affine": ("several", "affine"), "shards-affine": ("shards", "affine"), "flow-choose": ("flow", "choose"),
          "flow-lists": ("flow", "lists"), "flow-raw": ("flow", "raw"), "several-pick": ("several", "pick"), "shards-pick": ("shards", "pick"), "flow-nested": ("flow", "nested"), "tables": ("tables", "look")}
LOWERED = ["lowered-lists", "lowered-raw", "lowered-nested"]


@pytest.fixture(scope="session")
def saved():
    return judge.folder_of("saved_models.py")


def check(model, folder, name):
    count = 0
    for inputs, wanted in runs(folder, name):
        found = model.run(inputs)
        assert set(found) == set(wanted)
        for key, expected in wanted.items():
            assert found[key].shape == expected.shape and found[key].dtype == expected.dtype, key
            np.testing.assert_allclose(found[key], expected, rtol=1e-4, atol=1e-5 * max(1, np.abs(expected).max(initial=0)), err_msg=key)
        count += 1
    assert count > 1


@pytest.mark.parametrize("name", ["network", "first", "parts", *RECURRENT, *SIGNED, *LOWERED])
def test_answers(name, saved):
    """One program computes all sizes."""
    folder, signature = SIGNED.get(name, (f"{name}.pb" if name in LOWERED else name, None))
    check(weft.compile(saved / folder, device="cpu", signature=signature), saved, name)


def test_quantised(saved, tmp_path):
    """A SavedModel's network in int8 keeps its answers."""
    data = [inputs for inputs, _ in runs(saved, "network")]
    report = weft.quantize(saved / "network", data, tmp_path / "out.onnx")
    assert report["quantised"] >= 2
    model = weft.compile(tmp_path / "out.onnx", device="cpu")
    for inputs, wanted in runs(saved, "network"):
        for key, right in wanted.items():
            assert np.sqrt(((model.run(inputs)[key] - right) ** 2).mean() / (right**2).mean()) < 0.1


def check_states(model, saved, name, tolerance):
    """Runs a model that writes variables; each run gets the values that the previous run wrote."""
    state = {}
    for inputs, wanted in runs(saved, name):
        found = model.run(inputs | state)
        state = {key: value for key, value in found.items() if key not in wanted}
        for key, expected in wanted.items():
            np.testing.assert_allclose(found[key], expected, rtol=tolerance, err_msg=key)
    return state


@pytest.mark.parametrize("folder", ["several", "shards"])
def test_state(folder, saved):
    """The value of a variable that a run writes is passed to the next run; a variable that is left out has the saved
    value."""
    model = weft.compile(saved / folder, device="cpu", signature="add")
    (name,) = check_states(model, saved, f"{folder}-add", 1e-6)
    fixed = weft.compile(saved / folder, device="cpu", signature="add", fixed_defaults=[name])
    assert [i.name for i in fixed.inputs] == ["x"] and fixed.run({"x": np.float32(1)})["after"] == 1.25


@pytest.mark.parametrize("folder", ["several", "shards"])
def test_written_in_bodies(folder, saved):
    """Variables that branches and loops write have TensorFlow's values."""
    model = weft.compile(saved / folder, device="cpu", signature="write")
    assert len(check_states(model, saved, f"{folder}-write", 1e-5)) == 2


def test_ways_in(saved, tmp_path):
    """The answers are equal if the model is given as the .pb file, on the command line or as a saved program; the
    support report counts all nodes."""
    folder, (inputs, _) = saved / "network", next(runs(saved, "network"))
    expected = weft.compile(folder, device="cpu")(inputs["x"])
    np.testing.assert_array_equal(weft.compile(str(folder / "saved_model.pb"), device="cpu")(inputs["x"]), expected)
    np.save(tmp_path / "x.npy", inputs["x"])
    weft_command = [str(BUILD / "bin/weft")]
    subprocess.run([*weft_command, "run", f"{folder}/", "--signature", "serving_default", "--tag", "serve", "--device", "cpu",
                    "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npz"], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npz")["y"], expected)
    subprocess.run([*weft_command, "compile", f"{folder}/"], check=True, cwd=tmp_path)
    np.testing.assert_array_equal(weft.load(tmp_path / "network.weft")(inputs["x"]), expected)
    support = weft.support(folder, device="cpu")
    assert support["supported"] == support["total"] > 10
    assert {"Conv2D", "ReadVariableOp"} <= {node["op"] for node in support["nodes"]}


def test_channels_first(saved):
    """Inputs and outputs are channels first, as in MIGraphX."""
    inputs, wanted = next(runs(saved, "network"))
    model = weft.compile(saved / "network", device="cpu", channels_first=True)
    np.testing.assert_allclose(model(inputs["x"].transpose(0, 3, 1, 2)), wanted["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name, products", [("LSTM", [1, 1]), ("GRU", [1, 2]), ("SimpleRNN", [1, 1]), ("both_ways", [1, 1]), ("masked", [1])])
def test_recurrent_networks_are_one_loop(name, products, saved):
    """Each direction of a recurrent layer becomes a loop that carries only states; its trip count is a size, and the
    product of input and weights is hoisted before the loop."""
    modules = weft.print_model(saved / name, "final", device="cpu").split("\nmodule ")
    loops = [line for line in modules[1].splitlines() if " = loop" in line]
    assert len(loops) == len(products) and all("conditional=false" in line for line in loops), modules[1]
    assert [module.count(" = dot ") for module in modules[1:]] == [len(products), *products]


@pytest.mark.parametrize("options, message", [
    ({"signature": "nothing"}, "E310.*no signature 'nothing'"), ({"tag": "gpu"}, "E310.*no graph with the tag 'gpu'"), ({}, "E310.*several signatures")])
def test_choices(options, message, saved):
    with pytest.raises(weft.Error, match=message) as error:
        weft.compile(saved / "several", device="cpu", **options)
    assert "affine" in str(error.value) or "serve" in str(error.value)


def test_tags(saved):
    """A set of tags selects its graph."""
    inputs, _ = next(runs(saved, "first"))
    model = weft.compile(saved / "first", device="cpu", tag="serve,gpu")
    np.testing.assert_array_equal(model(inputs["x"]), inputs["x"] * 2)


def test_reduce(saved, tmp_path, monkeypatch):
    """A kernel is broken on purpose. `weft reduce` leaves one node of the network, written as ONNX."""
    monkeypatch.setenv("WEFT_BREAK_KERNEL", "depthwise")
    done = subprocess.run([BUILD / "bin/weft", "reduce", f"{saved / 'network'}/", "--signature", "serving_default", "-o", tmp_path / "small"], capture_output=True, text=True)
    assert done.returncode == 0 and "1 of" in done.stdout and "answers differ" in done.stdout, done.stdout + done.stderr
    assert b"Conv" in (tmp_path / "small/model.onnx").read_bytes()


def test_parts_of_variables_as_a_whole(saved):
    check(weft.compile(saved / "parts", device="cpu", tag="serve,whole"), saved, "parts")


def damage(folder, how):
    index, shard = (folder / "variables" / f"variables.{end}" for end in ("index", "data-00000-of-00001"))
    if how == "shard cut":
        shard.write_bytes(shard.read_bytes()[:40])
    elif how == "shard changed":
        data = shard.read_bytes()
        shard.write_bytes(bytes(byte ^ 1 for byte in data[:400]) + data[400:])
    elif how == "shard gone":
        shard.unlink()
    elif how == "variables gone":
        shutil.rmtree(folder / "variables")
    elif how == "index changed":
        data = bytearray(index.read_bytes())
        data[20] ^= 1
        index.write_bytes(data)
    elif how == "index cut":
        index.write_bytes(index.read_bytes()[:-9])
    elif how == "shard outside":
        shard.rename(folder.parent / "elsewhere")
        shard.symlink_to(folder.parent / "elsewhere")
    elif how == "model cut":
        model = folder / "saved_model.pb"
        model.write_bytes(model.read_bytes()[:-100])
    else:
        (folder / "saved_model.pb").unlink()


@pytest.mark.parametrize("how, message", [
    ("shard changed", "E108.*variable '.*' is damaged: the checksum"), ("shard cut", "E161.*needs .* bytes at .* which has 40"), ("shard gone", "E161.*variables.data-00000-of-00001"),
    ("variables gone", "E161.*is not in variables/variables.index"), ("index changed", "E108.*checksum"),
    ("index cut", "E108.*does not end as a table does"), ("shard outside", "E160.*leaves the model's folder"),
    ("model cut", "E103"), ("model gone", "E106.*without saved_model.pb")])
def test_damaged(how, message, saved, tmp_path):
    shutil.copytree(saved / "network", tmp_path / "m")
    damage(tmp_path / "m", how)
    with pytest.raises(weft.Error, match=message):
        weft.compile(tmp_path / "m", device="cpu")


def test_limit_of_nesting(saved):
    command = [BUILD / "bin/weft", "inspect", f"{saved / 'flow'}/", "--signature", "nested"]
    assert subprocess.run(command, capture_output=True).returncode == 0
    refused = subprocess.run([*command, "--max-nesting", "1"], capture_output=True, text=True)
    assert refused.returncode == 3 and "E152" in refused.stderr, refused.stderr


def test_refused(saved):
    with pytest.raises(weft.Error, match="E110.*no signature"):
        weft.compile(saved / "nothing")
    with pytest.raises(weft.Error, match="E161.*is not in variables"):  # a model given as bytes has no folder
        weft.compile((saved / "network/saved_model.pb").read_bytes())
    with pytest.raises(weft.Error, match="E310.*signature cannot be chosen"):
        weft.compile(saved / "lowered-nested.pb", signature="x")
