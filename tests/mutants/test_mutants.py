# SPDX-License-Identifier: Apache-2.0
"""Damaged models and other files end in an error or an answer: no crash, no sanitizer report, no excessive time or
memory.

The models are random graphs, small node cases of ONNX, the models in the tests of com.microsoft's operators, and
models of TensorFlow. The other files are pictures, tensors, programs as text, saved programs and programs of
torch.export. WEFT_BUILD chooses the build: `./x test --asan` takes an instrumented one.
"""
import io
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / folder) for folder in ("mutants", "robustness", "random_graphs", "tensorflow", "torch")]

import judge
from archives import exported_archives
from graphs import draw_graph, open_sizes
from harness import failures
from limits import BUILD, IS_FULL, ROOT, SEED
from onnx_node_cases import node_cases
from places import keep_count

COUNT = 20_000 if IS_FULL else 1_000  # different mutants each day
FILES = 10_000 if IS_FULL else 500
AT_ONCE = 500
WEFT = ROOT / "build/release/bin/weft"  # makes the files; an instrumented build may lack this program
PICTURES = {"jpeg": "jpg", "png": "png", "webp": "webp", "jpeg2k": "jp2", "bmp": "bmp", "tiff": "tiff", "pnm": "pnm"}


def microsoft_models(folder):
    """Returns the first model of each test of com.microsoft's operators."""
    tests = sorted((TESTS / "frontends").glob("test_microsoft*.py"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "microsoft_models", *tests]
    place = {"WEFT_MODELS": str(folder), "PYTHONPATH": str(Path(__file__).parent), "WEFT_TEST_FULL": "1"}  # full: not only the tests of today
    done = subprocess.run(command, env={**os.environ, **place}, capture_output=True, text=True)
    found = [path.read_bytes() for path in sorted(folder.iterdir())]
    assert len(found) > 250 and " failed" not in done.stdout, done.stdout[-2000:]
    return found


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Provides paths of small models: node cases of ONNX and of com.microsoft, and random graphs."""
    folder = tmp_path_factory.mktemp("models")
    small = [model for case in node_cases() if len(model := case.model.SerializeToString()) < 4000]
    chosen = random.Random(SEED).sample(small, 160)
    for seed in range(SEED * 1000, SEED * 1000 + 40):
        d = draw_graph(seed)
        chosen.append(d.model(open_sizes(d)).SerializeToString())
    small = [model for model in microsoft_models(tmp_path_factory.mktemp("microsoft")) if len(model) < 40_000]
    chosen += random.Random(SEED).sample(small, 100)
    for number, model in enumerate(chosen):
        (folder / f"{number}.onnx").write_bytes(model)
    return sorted(folder.iterdir())


@pytest.fixture(scope="module", params=["lite", "full", "saved"])
def tensorflow_models(request):
    """Provides a format and its models. TensorFlow Lite and frozen graphs: one or two models of each operator,
    and some of several operators. SavedModels: models with intact variables."""
    if request.param == "saved":
        return request.param, sorted(judge.folder_of("saved_models.py").rglob("*.pb"))
    folders = [judge.folder_of(f"{request.param}_{what}.py") for what in ("models", "graphs")]
    found = [path for folder in folders for path in folder.iterdir() if path.suffix in (".tflite", ".pb")]
    return request.param, sorted(path for path in found if path.stem.endswith(("-0", "-1")) or path.parent == folders[1])


def pictures():
    """Returns the pictures that ONNX's cases decode: {file name: bytes}."""
    found = {}
    for case in node_cases():
        kind = case.name.removeprefix("test_image_decoder_decode_").removesuffix("_rgb")
        if kind in PICTURES:
            found[f"picture.{PICTURES[kind]}"] = case.data_sets[0][0][0].tobytes()
    assert len(found) == len(PICTURES), sorted(found)
    return found


def programs(path, count):
    """Yields random graphs as programs in text. Skips graphs with a size that cannot be left open (such as the width of
    attention heads)."""
    for seed in range(SEED * 1000 + 40, SEED * 1000 + 200):
        d = draw_graph(seed)
        path.write_bytes(d.model(open_sizes(d)).SerializeToString())
        done = subprocess.run([WEFT, "inspect", path, "--ir"], capture_output=True)
        assert done.returncode in (0, 3, 4), done.stderr
        if done.returncode == 0:
            yield done.stdout
            count -= 1
        if count == 0:
            return


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Provides paths of small files of each kind that is read."""
    folder = tmp_path_factory.mktemp("files")
    for name, data in pictures().items():
        (folder / name).write_bytes(data)
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.save(folder / "array.npy", array)
    np.savez(folder / "stored.npz", a=array, b=array.T)
    np.savez_compressed(folder / "packed.npz", a=array, b=np.int8(array))
    (folder / "tensor.pb").write_bytes(numpy_helper.from_array(array, "x").SerializeToString())
    (folder / "texts.pb").write_bytes(numpy_helper.from_array(np.array(["a", "bc"], object), "s").SerializeToString())
    one = onnx.MapProto(key_type=onnx.TensorProto.STRING, string_keys=[b"cat", b"dog"],
                        values=numpy_helper.from_list([np.float32(0.5), np.float32(0.25)]))
    sequence = onnx.SequenceProto(elem_type=onnx.SequenceProto.MAP, map_values=[one, one])
    (folder / "labels.maps").write_bytes(sequence.SerializeToString())
    for model in ("digits", "text"):
        path = ROOT / f"examples/{model}/{model}.onnx"
        subprocess.run([WEFT, "compile", path, "-o", folder / f"{model}.weft"], check=True, capture_output=True)
    several = [WEFT, "compile", folder / "digits.weft", "--target", "cpu:x86-64-v4,amd:gfx1100", "-o", folder / "several.weft"]
    subprocess.run(several, check=True, capture_output=True)
    for number, text in enumerate(programs(folder / "m.onnx", 20)):
        (folder / f"{number}.txt").write_bytes(text)
    (folder / "m.onnx").unlink()
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def exported_programs(tmp_path_factory):
    """Provides archives of torch.export, and their JSON alone."""
    folder = tmp_path_factory.mktemp("torch")
    for name, archive in exported_archives():
        (folder / f"{name}.pt2").write_bytes(archive)
        with zipfile.ZipFile(io.BytesIO(archive)) as members:
            model = next(member for member in members.namelist() if "/models/" in member)
            (folder / f"{name}_json.pt2").write_bytes(members.read(model))
    return sorted(folder.iterdir())


def check(what, program, files, first, **of):
    print(f"seed {SEED} (WEFT_TEST_SEED)")
    wrong = failures(program, SEED, files, first, AT_ONCE)
    keep_count(what, {"build": BUILD.name} | of, files=AT_ONCE, wrong=len(wrong))
    assert wrong == []


@pytest.mark.parametrize("first", range(0, COUNT, AT_ONCE))
def test_mutants(models, first):
    check("damaged models", "weft-mutants", models, first)


@pytest.mark.parametrize("first", range(0, FILES, AT_ONCE))
def test_damaged_files(files, first):
    check("damaged pictures, tensors and programs", "weft-mutant-files", files, first)


@pytest.mark.parametrize("first", range(0, 20_000 if IS_FULL else 500, AT_ONCE))
def test_damaged_exported_programs(exported_programs, first):
    check("damaged programs of torch.export", "weft-mutant-files", exported_programs, first)


@pytest.mark.parametrize("first", range(0, 20_000 if IS_FULL else FILES, AT_ONCE))
def test_damaged_tensorflow_models(tensorflow_models, first):
    form, models = tensorflow_models
    check("damaged models of TensorFlow", "weft-mutants", models, first, form=form)
