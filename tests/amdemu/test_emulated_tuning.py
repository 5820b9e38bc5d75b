# SPDX-License-Identifier: Apache-2.0
"""Tuning through the real HIP code on the emulator: times are those of the emulator and mean nothing, all else is as on a
chip. A stand-in for hipBLASLt (tests/amdemu/products) is measured beside Weft's own products."""
import json
import os
import subprocess

import emulated

DIGITS = emulated.ROOT / "examples/digits/digits.onnx"
LIBRARY = emulated.BUILD / "lib/libfake-hipblaslt.so"


def run(folder, *words, file="tunings.db", chip="gfx1100", library=LIBRARY):
    environment = os.environ | {"WEFT_HIP_LIBRARY": str(emulated.LIBRARY), "AMDEMU_CHIPS": chip, "WEFT_TUNINGS": str(folder / file),
                                "WEFT_HIPBLASLT_LIBRARY": str(library)}
    done = subprocess.run([str(word) for word in (emulated.BUILD / "bin/weft", *words)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def imported(folder, tunings, fastest, file):
    """A database in which the tunings that `fastest` accepts take no time."""
    for t in tunings:
        t["nanoseconds"] = 1.0 if fastest(t) else 1000.0
    (folder / "forged.json").write_text(json.dumps({"schema": "weft.tunings.1", "tunings": tunings}))
    run(folder, "tune", "--import", folder / "forged.json", file=file)


def test_tiles_and_libraries_are_measured_and_chosen(tmp_path):
    model = (DIGITS, "--symbol", "batch=16", "--device", "amd:0", "--precision", "f16")
    print(run(tmp_path, "tune", *model, "--seconds", 8))
    run(tmp_path, "tune", "--export", tmp_path / "tunings.json")
    tunings = json.loads((tmp_path / "tunings.json").read_text())["tunings"]
    assert all(t["chip"].startswith("gfx1100, ") for t in tunings)
    assert {t["problem"].split()[0] for t in tunings} == {"dot", "convolution"}
    libraries = {t["problem"] for t in tunings if t["candidate"] == "hipblaslt"}
    assert libraries and all(problem.startswith("dot") for problem in libraries)

    imported(tmp_path, tunings, lambda t: t["candidate"] == "hipblaslt", "library.db")
    explained = run(tmp_path, "explain", *model, file="library.db")
    assert "hipblaslt_f16" in explained and "the vendor's library; measured: 0 % of the time of BlockTile" in explained
    run(tmp_path, "verify", *model, "--norm", "1e-2", file="library.db")
    assert "hipblaslt" not in run(tmp_path, "explain", *model, file="library.db", library="nowhere.so")
    # What is saved must run anywhere.
    run(tmp_path, "compile", *model, "-o", tmp_path / "m.weft", file="library.db")
    assert "hipblaslt" not in run(tmp_path, "explain", tmp_path / "m.weft", "--device", "amd:0", file="library.db")

    # Tiles that the cost model does not like best for these sizes, which no other test sees.
    tiles = {}
    for t in tunings:
        if t["candidate"] != "hipblaslt":
            tiles.setdefault(t["problem"], []).append(t["candidate"])
    assert max(len(names) for names in tiles.values()) >= 2
    for turn in range(2):
        imported(tmp_path, tunings, lambda t: [t["candidate"]] == tiles[t["problem"]][turn:turn + 1], f"tiles{turn}.db")
        run(tmp_path, "verify", *model, "--norm", "1e-2", file=f"tiles{turn}.db")
