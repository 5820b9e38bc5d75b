# SPDX-License-Identifier: Apache-2.0
"""Tuning through the real HIP code on the emulator: the measured times mean nothing; everything else is as on a real
chip. Stand-ins for hipBLASLt and MIOpen (tests/amdemu/libraries) are measured in competition with Weft's own
products and convolutions."""
import json
import os
import re
import subprocess

import emulated

DIGITS = emulated.ROOT / "examples/digits/digits.onnx"
LIBRARIES = {name: str(emulated.BUILD / f"lib/libfake-{name}.so") for name in ("hipblaslt", "miopen")}


def run(folder, *words, file="tunings.db", chip="gfx1100", libraries=LIBRARIES):
    environment = os.environ | {"WEFT_HIP_LIBRARY": str(emulated.LIBRARY), "AMDEMU_CHIPS": chip, "WEFT_TUNINGS": str(folder / file)}
    environment |= {f"WEFT_{name.upper()}_LIBRARY": path for name, path in libraries.items()}
    done = subprocess.run([str(word) for word in (emulated.BUILD / "bin/weft", *words)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def imported(folder, tunings, fastest, file):
    """Imports a database in which the tunings that `fastest` accepts take 1 ns and all others 1,000 ns."""
    for t in tunings:
        t["nanoseconds"] = 1.0 if fastest(t) else 1000.0
    (folder / "imported.json").write_text(json.dumps({"schema": "weft.tunings.1", "tunings": tunings}))
    run(folder, "tune", "--import", folder / "imported.json", file=file)


def test_tiles_and_libraries_are_measured_and_chosen(tmp_path):
    model = (DIGITS, "--symbol", "batch=16", "--device", "amd:0", "--precision", "f16")
    nowhere = {name: "nowhere.so" for name in LIBRARIES}
    print(run(tmp_path, "tune", *model, "--seconds", 1))  # libraries are tried first, then further tiles
    print(run(tmp_path, "tune", *model, "--seconds", 1, libraries=nowhere))
    run(tmp_path, "tune", "--export", tmp_path / "tunings.json")
    tunings = json.loads((tmp_path / "tunings.json").read_text())["tunings"]
    assert all(t["chip"].startswith("gfx1100, ") for t in tunings)
    assert {t["problem"].split()[0] for t in tunings} == {"dot", "convolution"}
    by_library = {library: {t["problem"].split()[0] for t in tunings if t["candidate"] == library} for library in LIBRARIES}
    assert by_library == {"hipblaslt": {"dot"}, "miopen": {"convolution"}}

    imported(tmp_path, tunings, lambda t: t["candidate"] in LIBRARIES, "library.db")
    explained = run(tmp_path, "explain", *model, file="library.db")
    for step in ("hipblaslt_f16", "miopen_f16"):
        why = rf"{step} on amd:0\n.*\n +why: +the vendor's library; measured: 0 % of the time of BlockTile"
        assert re.search(why, explained), explained
    run(tmp_path, "verify", *model, "--norm", "1e-2", file="library.db")
    assert not re.search("hipblaslt|miopen", run(tmp_path, "explain", *model, file="library.db", libraries=nowhere))
    # MIOpen compiles for each size, so it is not a candidate where sizes are open.
    assert "miopen" not in run(tmp_path, "explain", DIGITS, "--device", "amd:0", "--precision", "f16", file="library.db")
    # A saved program uses no library, because it must also run where the library is not installed.
    run(tmp_path, "compile", *model, "-o", tmp_path / "m.weft", file="library.db")
    saved = run(tmp_path, "explain", tmp_path / "m.weft", "--device", "amd:0", file="library.db")
    assert not re.search("hipblaslt|miopen", saved)

    # Chooses the first candidate tile of each problem, then the second, by invented times.
    tiles = {}
    for t in tunings:
        if t["candidate"] not in LIBRARIES:
            tiles.setdefault(t["problem"], []).append(t["candidate"])
    assert max(len(names) for names in tiles.values()) >= 2
    for turn in range(2):
        imported(tmp_path, tunings, lambda t: [t["candidate"]] == tiles[t["problem"]][turn:turn + 1], f"tiles{turn}.db")
        run(tmp_path, "verify", *model, "--norm", "1e-2", file=f"tiles{turn}.db")
