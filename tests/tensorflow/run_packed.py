# SPDX-License-Identifier: Apache-2.0
"""Runs the models of pack_models.py on a device and compares with TensorFlow's answers, which are in the same folder.
It needs numpy and Weft. run_packed.py FOLDER [NAME...] [--device nvidia:0] [--out FILE]"""
import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import machine
from drawn import values

import weft


def whole(folder, model, work):
    """Returns the model's path. If the files lack drawn weights, these are drawn again in a copy."""
    path, left_out = folder / model["file"], folder / f"{model['name']}.json"
    if not left_out.exists():
        return path
    copy = work / model["name"]
    shutil.copytree(path, copy)
    with open(copy / "variables/variables.data-00000-of-00001", "r+b") as data:
        for entry in json.loads(left_out.read_text()):
            data.seek(entry["at"])
            data.write(values(entry).tobytes())
    return copy


def named(stored, way, number):
    prefix = f"{number} {way} "
    return {key.removeprefix(prefix): stored[key] for key in stored.files if key.startswith(prefix)}


def check(folder, model, device, work):
    """Returns the largest error relative to its bound, and the times of compiling and of a run."""
    stored, worst, state = np.load(folder / f"{model['name']}.npz"), 0.0, {}
    start = time.monotonic()
    program = weft.compile(str(whole(folder, model, work)), device=device, **model["options"])
    compiled, ports = time.monotonic() - start, [port.name for port in program.inputs]
    for number in range(1000):
        given = named(stored, "in", number)
        if not given:
            break
        inputs = {ports[int(key)] if key.isdigit() else key: x for key, x in given.items()}
        start = time.monotonic()
        found = {key: np.asarray(y) for key, y in program.run(inputs | state).items()}
        seconds = time.monotonic() - start
        wanted, off = named(stored, "out", number), named(stored, "off", number)
        outputs = list(found)
        for key, expected in wanted.items():
            y = found[outputs[int(key)] if key.isdigit() else key]
            assert y.shape == expected.shape, (key, y.shape, expected.shape)
            difference = np.abs(y.astype(np.float64) - expected).max(initial=0)
            worst = max(worst, float(difference / off[key])) if np.isfinite(difference) else np.inf
        state = {name: found[name] for name in outputs[len(wanted):] if name in ports}
    return worst, {"runs": number, "compile_s": compiled, "run_ms": seconds * 1000}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", default="nvidia:0")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    models = [model for model in json.loads((arguments.folder / "models.json").read_text()) if not arguments.names or model["name"] in arguments.names]
    right, on, where = 0, machine.gpu() if arguments.device.startswith("nvidia") else None, {"device": arguments.device}
    if chip := os.environ.get("AMDEMU_CHIPS"):
        where["device"] = f"emulated {chip}"
    for model in models:
        with tempfile.TemporaryDirectory() as work:
            try:
                worst, values = check(arguments.folder, model, arguments.device, Path(work))
                values |= {"right": int(worst <= 1), "of_allowed": worst}
            except (weft.Error, AssertionError) as error:
                values = {"right": 0, "error": str(error)[:500]}
        right += values["right"]
        of, command = {"model": model["name"]} | where, f"python tests/tensorflow/run_packed.py FOLDER --device {arguments.device}"
        machine.tell(machine.result("answers of a TensorFlow model", of, values, command=command, machine=on), arguments.out)
    print(f"{right} of {len(models)} right on {arguments.device}")
    sys.exit(right < len(models))


main()
