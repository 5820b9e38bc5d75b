# SPDX-License-Identifier: Apache-2.0
"""C and C++ programs written for AMD's providers, run with a stock libonnxruntime from the wheel."""
import os
import pathlib
import subprocess

import numpy as np
import onnxruntime
import pytest

from places import BUILD
from models import mlp, reference

HEADERS = next((folder for folder in (pathlib.Path(os.environ.get("ORT_INCLUDE", "/none")),
                                      BUILD / "onnxruntime/usr/include/onnxruntime",
                                      pathlib.Path("/usr/include/onnxruntime")) if folder.exists()), None)
SHIM = BUILD / "lib/libweft-onnxruntime-shim.so"
X = {"x": (0.01 * np.arange(1, 129, dtype=np.float32)).reshape(2, 64)}


def build(folder, *words):
    compiler = os.environ.get("CXX", "clang++-19")
    subprocess.run([compiler, *map(str, words), *(["-std=c++17", "-isystem", str(HEADERS)] if "-shared" not in words else [])],
                   check=True, cwd=folder)


def runtime(folder):
    """Returns the arguments that link with the stock library in the folder."""
    return ["libonnxruntime.so.1", f"-Wl,-rpath,{folder}", f"-Wl,-rpath,{SHIM.parent}"]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Provides two programs: one linked with the shim, and one linked with a library that contains the providers. The
    second runs on the stock library with the shim preloaded."""
    folder = tmp_path_factory.mktemp("c")
    stock = next((pathlib.Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"))
    (folder / "libonnxruntime.so.1").symlink_to(stock)
    (folder / "model.onnx").write_bytes(mlp().SerializeToString())
    build(folder, "-c", pathlib.Path(__file__).parent / "classic.cpp", "-o", "classic.o")
    build(folder, "classic.o", "-o", "linked", SHIM, *runtime(folder))
    names = ["OrtGetApiBase", *("OrtSessionOptionsAppendExecutionProvider_" + name for name in ("MIGraphX", "ROCM", "ROCm"))]
    (folder / "inside.cpp").write_text("".join(f'extern "C" void {name}() {{}}\n' for name in names))
    build(folder, "-shared", "-fPIC", "inside.cpp", "-Wl,-soname,libonnxruntime.so.1", "-o", "libinside.so")
    build(folder, "classic.o", "-o", "plain", "libinside.so", "-Wl,-z,lazy", *runtime(folder)[1:])
    return folder


def run(folder, program, way, **variables):
    done = subprocess.run([folder / program, folder / "model.onnx", way], env={**os.environ, **variables},
                          capture_output=True, text=True)
    return done.stdout, done.stderr


@pytest.mark.parametrize("way", ["migraphx", "rocm", "rocm_sample", "name", "migraphx_struct", "rocm_struct", "rocm_updated"])
@pytest.mark.parametrize("program", ["linked", "plain"])
def test_every_way_in(programs, program, way):
    out, err = run(programs, program, way, **({"LD_PRELOAD": str(SHIM)} if program == "plain" else {}))
    assert "3/3 nodes on Weft" in err, out + err
    want = float(reference(mlp()).run(None, X)[0].sum())
    got = float(out.strip().rpartition("sum ")[2])
    is_half = way in ("name", "migraphx_struct")
    assert abs(got - want) < (0.2 if is_half else 1e-3)
    assert not is_half or got != round(want, 5)
    if way == "rocm_updated":
        assert "device_id=0;gpu_mem_limit=100000000" in out.replace("arena_extend_strategy=1;", "") and "no stream" in out
        assert "option gpu_mem_limit is '1GB', which is not a number" in out


@pytest.mark.parametrize("way", ["rocm_arena", "rocm_arena_of_keys"])
def test_settings_of_an_arena_win_over_the_limit(programs, way):
    out, err = run(programs, "linked", way)
    assert "3/3 nodes on Weft" not in err and "default_memory_arena_cfg was not made by" in out, out + err


def test_options_that_are_null_are_refused(programs):
    assert "the provider's options are null" in run(programs, "linked", "null_struct")[0]


def test_a_stock_library_lacks_them(programs):
    assert "MIGraphX" in run(programs, "plain", "name")[0]
    assert "OrtSessionOptionsAppendExecutionProvider_MIGraphX" in run(programs, "plain", "migraphx")[1]


def test_a_misspelt_option_is_refused(programs):
    assert "the nearest is gpu_mem_limit" in run(programs, "linked", "wrong_name")[0]
