# SPDX-License-Identifier: Apache-2.0
"""Stock onnxruntime-genai generates the same tokens on Weft as on its CPU provider. Weft is used as the provider
"amdgpu" and by its own name. Models are made by genai_models.py; each check runs in a process of its own
(genai_session.py)."""
import json
import os
import pathlib
import subprocess
import sys

import genai_models
import numpy as np
import pytest
from places import BUILD, IS_FULL
from genai_models import ARCHITECTURES, Decoder, write

HERE = pathlib.Path(__file__).parent
LIBRARY = BUILD / "lib/libamdgpu-ep.so"
FEATURES = HERE.parents[1] / "bench/genai_features.py"
ROUTES = ["amdgpu", "WeftExecutionProvider"]

# The largest allowed difference between the logits of Weft and of onnxruntime, relative to the largest logit.
# onnxruntime multiplies f16 in f32 and rounds at other points than Weft. When rows are rounded to 8 bits, ties may be
# rounded differently.
LIMITS = {"fp32": 2e-5, "fp16": 1e-2, "int4": 2e-2}
FORMS = [(arch, precision) for arch in ARCHITECTURES for precision in genai_models.PRECISIONS
         if IS_FULL or precision == "fp32" or (arch, precision) in (("llama", "fp16"), ("gemma2", "fp16"), ("qwen3", "int4"))]


def run(command, **variables):
    made = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=600, check=False,
                          env={**os.environ, **variables})
    assert made.returncode == 0, made.stdout[-3000:] + made.stderr[-3000:]
    return made


def session(task, route, *folders, **variables):
    made = run([HERE / "genai_session.py", task, route, LIBRARY, *folders], **variables)
    return [json.loads(line) for line in made.stdout.splitlines() if line.startswith("{")], made.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns a function that makes the folder of a model, once for each set of parameters."""
    root, known = tmp_path_factory.mktemp("models"), {}

    def make(provider=None, **fields):
        d = Decoder(**fields)
        key = (repr(d), provider)
        if key not in known:
            known[key] = write(root / str(len(known)), d, provider, {"strict": "1"})
        return known[key]

    return make


@pytest.mark.long
@pytest.mark.parametrize("route", ROUTES)
def test_tokens_are_those_of_the_cpu_provider(route, folder):
    folders = [folder(arch=arch, precision=precision) for arch, precision in FORMS]
    folders.append(folder(arch="llama", precision="int4", zeros=True, accuracy=0))
    folders.append(folder(arch="mistral", sinks=True))
    folders.append(folder(arch="llama", precision="int4", qdq=True))
    names = [*FORMS, ("llama, zero points", "fp32"), ("mistral, sinks", "fp32"), ("llama, dequantised", "int4")]
    answers, _ = session("tokens", route, *folders)
    assert len(answers) == len(names)
    for (arch, precision), answer in zip(names, answers):
        for kind, steps in ("one", 64), ("three", 12):
            got, limit = answer[kind], LIMITS[precision]
            assert got["apart"] <= limit and got["gap"] <= 2 * limit, (arch, precision, kind, got)
            assert got["equal"] == steps or precision != "fp32", (arch, precision, kind, got)


@pytest.mark.parametrize("route", ROUTES)
def test_a_new_length_compiles_nothing(route, folder, tmp_path):
    """Searches the log for compilations; the cache is empty at first."""
    model = folder(arch="llama", precision="int4")
    [answer], log = session("lengths", route, model, WEFT_DEBUG="2", WEFT_CACHE_DIR=str(tmp_path))
    before, after = log.split("first answers are there")
    assert "compiled " in before and "planned " in before
    assert "compiled " not in after and "planned " not in after, after[:2000]
    assert answer["wrong"] == [] and answer["whole"], answer
    assert answer["grown"] < 4, answer


@pytest.mark.parametrize("route", ROUTES)
def test_features(route, folder):
    """GenAI itself refuses five of the features on a device that captures graphs."""
    made = run([FEATURES, folder(arch="llama"), "--library", LIBRARY, "--provider", route])
    wanted = "15 of 20 the same; 5 refused by GenAI" if route == "amdgpu" else "20 of 20 the same; 0 refused by GenAI"
    assert wanted in made.stdout, made.stdout


@pytest.mark.parametrize("route", ROUTES)
def test_an_adapter_changes_weights_for_one_text(route, folder):
    from onnxruntime import AdapterFormat, OrtValue

    made = folder(arch="llama", lora=4)
    d, random = Decoder(arch="llama", lora=4), np.random.default_rng(0)
    adapter = AdapterFormat()
    adapter.set_adapter_version(1)
    adapter.set_model_version(1)
    adapter.set_parameters({
        f"layers.{layer}.lora.{part}": OrtValue.ortvalue_from_numpy(random.standard_normal(dims).astype(np.float32))
        for layer in range(d.layers) for part, dims in (("A", (d.heads * d.head, 4)), ("B", (4, d.hidden)))})
    adapter.export_adapter(str(made / "a.onnx_adapter"))
    [answer], _ = session("adapters", route, made)
    assert answer == {"same": True, "differs": True, "back": True}


def test_numbers_of_32_bits_and_the_name_in_the_configuration(folder):
    made = folder("amdgpu", arch="llama", ids="int32")
    [answer], _ = session("configured", "amdgpu", made)
    assert answer["equal"] == 8, answer
