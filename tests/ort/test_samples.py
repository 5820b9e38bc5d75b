# SPDX-License-Identifier: Apache-2.0
"""The samples of the MIGraphX and ROCm providers' documentation, in Python and in C++, unchanged except for the line
that docs/onnxruntime.md asks for."""
import os
import pathlib
import subprocess
import sys

import pytest

import test_c
from models import mlp
from test_c import programs  # noqa: F401  a fixture

PROVIDERS = {"MIGraphXExecutionProvider": "MIGraphX", "ROCMExecutionProvider": "ROCm"}

PYTHON = """import onnxruntime as ort

model_path = '<path to model>'

providers = [
    '{provider}',
    'CPUExecutionProvider',
]

session = ort.InferenceSession(model_path, providers=providers)
"""

CPP = """Ort::Env env = Ort::Env{{ORT_LOGGING_LEVEL_ERROR, "Default"}};
Ort::SessionOptions so;
int device_id = 0;
Ort::ThrowOnError(OrtSessionOptionsAppendExecutionProvider_{name}(so, device_id));
"""

FRAME = """#define ORT_API_MANUAL_INIT
#include <onnxruntime_cxx_api.h>
#include <algorithm>
#include <cstdio>
extern "C" OrtStatus* OrtSessionOptionsAppendExecutionProvider_{name}(OrtSessionOptions* options, int device_id);
int main(int, char** words) {{
  unsigned version = 0;
  std::sscanf(OrtGetApiBase()->GetVersionString(), "%*u.%u", &version);
  Ort::InitApi(OrtGetApiBase()->GetApi(std::min<unsigned>(version, ORT_API_VERSION)));
  {sample}
  env.UpdateEnvWithCustomLogLevel(ORT_LOGGING_LEVEL_WARNING);
  Ort::Session session(env, words[1], so);
}}
"""


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("way", ["import", "runner"])
def test_python(tmp_path, provider, way):
    import onnxruntime_ep_weft

    (tmp_path / "model.onnx").write_bytes(mlp().SerializeToString())
    sample = PYTHON.format(provider=provider).replace("<path to model>", str(tmp_path / "model.onnx"))
    line = "import onnxruntime_ep_weft.classic\n" if way == "import" else ""
    (tmp_path / "sample.py").write_text(line + sample + f"assert session.get_providers()[0] == {provider!r}\n")
    package = str(pathlib.Path(onnxruntime_ep_weft.__file__).parents[1])
    paths = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    runner = [] if way == "import" else ["-m", "onnxruntime_ep_weft"]
    done = subprocess.run([sys.executable, *runner, tmp_path / "sample.py"], env={**os.environ, "PYTHONPATH": paths},
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "3/3 nodes on Weft" in done.stderr


@pytest.mark.parametrize("name", PROVIDERS.values())
def test_cpp(programs, name):  # noqa: F811
    text = FRAME.format(name=name, sample=CPP.format(name=name).replace("\n", "\n  "))
    (programs / f"{name}.cpp").write_text(text)
    test_c.build(programs, f"{name}.cpp", "-o", name, test_c.SHIM, *test_c.runtime(programs))
    done = subprocess.run([programs / name, programs / "model.onnx"], capture_output=True, text=True)
    assert done.returncode == 0 and "3/3 nodes on Weft" in done.stderr + done.stdout, done.stdout + done.stderr
