# SPDX-License-Identifier: Apache-2.0
"""The benchmarks behind `./x bench`.

  ./x bench peers ...    Weft, onnxruntime and OpenVINO: time, memory, start, accuracy
  ./x bench check ...    checks that the models of bench/models can reveal a wrong kernel
  ./x bench fill ...     writes a model of bench/models as an ordinary ONNX file
"""

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = {"peers": HERE / "peers.py", "check": HERE / "models/check.py", "fill": HERE / "models/fill.py"}


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in SCRIPTS:
        print(__doc__)
        sys.exit(0 if sys.argv[1:] in (["-h"], ["--help"]) else 2)
    script = SCRIPTS[sys.argv[1]]
    sys.argv = [str(script), *sys.argv[2:]]
    sys.path.insert(0, str(script.parent))
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
