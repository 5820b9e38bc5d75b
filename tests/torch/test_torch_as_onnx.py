# SPDX-License-Identifier: Apache-2.0
"""Programs of torch.export written as ONNX files, in floats and in 8 bits: stock onnxruntime gives torch's answers."""

import subprocess

import numpy as np
import onnxruntime
import pytest
import torch
import weft
from archives import archive, examples, exported
from places import BUILD


def written(tmp_path, name):
    model, inputs, shapes = examples()[name]
    source = tmp_path / f"{name}.pt2"
    source.write_bytes(archive(exported(model, inputs, shapes)))
    return model, inputs, source


def peer(path, inputs):
    """Returns onnxruntime's answers to the model without optimisations, because its integer products saturate on
    processors without VNNI."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {port.name: x.numpy() for port, x in zip(session.get_inputs(), inputs, strict=True)})


@pytest.mark.parametrize("name, batch", [("encoder", 2), ("encoder", 5), ("pictures", 2), ("pictures", 7), ("indices", 3)])
def test_answers_are_those_of_torch(name, batch, tmp_path):
    model, inputs, source = written(tmp_path, name)
    done = subprocess.run([BUILD / "bin/weft", "convert", source, "-o", tmp_path / "out.onnx"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if batch != inputs[0].shape[0]:
        inputs = [x[torch.arange(batch) % x.shape[0]] for x in inputs]
    wanted = model(*inputs)
    got = peer(tmp_path / "out.onnx", inputs)
    for mine, right in zip(got, wanted if isinstance(wanted, tuple) else [wanted], strict=True):
        np.testing.assert_allclose(mine, right.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["encoder", "pictures"])
def test_eight_bits(name, tmp_path):
    model, inputs, source = written(tmp_path, name)
    report = weft.quantize(source, [tuple(x.numpy() for x in inputs)] * 3, tmp_path / "out.onnx")
    assert report["quantised"] >= 2 and report["loss"] < 0.05
    right = model(*inputs).detach().numpy()
    for got in peer(tmp_path / "out.onnx", inputs)[0], weft.compile(tmp_path / "out.onnx", device="cpu")(*[x.numpy() for x in inputs]):
        assert np.sqrt(((got - right) ** 2).mean() / (right**2).mean()) < 0.08
