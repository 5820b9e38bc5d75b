# SPDX-License-Identifier: Apache-2.0
"""A disk of 80 KiB that is full: answers are the same, earlier files stay, and no partly written file is left.

The disk is a tmpfs in a mount namespace of its own. Where a process may not create one, the tests are skipped; similar
tests in tests/unit, which limit the size of files, run everywhere."""

import os
import shutil
import subprocess

import pytest
from bad_inputs import graph_of, save
from limits import BUILD, ROOT
from onnx import helper

MODEL = ROOT / "examples/digits/digits.onnx"  # 150 KiB of kernels, a program of 210 KiB
PICTURE = MODEL.with_name("seven.png")
MOUNT = 'mount -t tmpfs -o size=80k,mode=0700 none "$DISK"\n'


def on_small_disk(folder, script):
    """Runs a `sh` script, in which $DISK is the disk and $WEFT the command; returns its output."""
    disk = folder / "disk"
    disk.mkdir(exist_ok=True)
    settings = {**os.environ, "DISK": str(disk), "WEFT": str(BUILD / "bin/weft"), "MODEL": str(MODEL),
                "MODEL_INPUT": str(PICTURE), "NO_COLOR": "1"}
    return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", MOUNT + script], cwd=folder, env=settings,
                          capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module", autouse=True)
def may_mount(tmp_path_factory):
    if shutil.which("unshare") is None or on_small_disk(tmp_path_factory.mktemp("try"), "").returncode != 0:
        pytest.skip("no mount namespaces for this user")


def lines_of(text, start):
    return [line.removeprefix(start) for line in text.splitlines() if line.startswith(start)]


def test_cache(tmp_path):
    done = on_small_disk(tmp_path, """
        run() { "$WEFT" run "$MODEL" --input "$MODEL_INPUT"; }
        show() { (cd "$DISK/kernels" && ls -A | xargs sha256sum) | sed "s/^/$1: /"; }
        WEFT_CACHE_DIR=$PWD/cache run | sed 's/^/wanted: /'
        export WEFT_CACHE_DIR=$DISK
        run | sed 's/^/full: /'; show before
        ! cat /dev/zero > "$DISK/filler" 2> /dev/null
        run | sed 's/^/again: /'; show after""")
    assert done.returncode == 0, done.stderr
    wanted = lines_of(done.stdout, "wanted: ")
    assert wanted and lines_of(done.stdout, "full: ") == lines_of(done.stdout, "again: ") == wanted
    assert done.stderr.count("W210") == 2 and done.stderr.count("No space left on device") == 2, done.stderr
    entries = lines_of(done.stdout, "before: ")
    assert lines_of(done.stdout, "after: ") == entries != []
    names = {entry.split()[1] for entry in entries} - {"pruned"}
    assert names and all(len(name) == 32 for name in names), names  # no partly written file, which has a longer name


def test_program(tmp_path):
    save(tmp_path, graph_of([helper.make_node("Relu", ["x"], ["y"])]))
    done = on_small_disk(tmp_path, """
        "$WEFT" compile m.onnx -o "$DISK/p.weft"
        sha256sum "$DISK/p.weft" | sed 's/^/before: /'
        code=0; "$WEFT" compile "$MODEL" -o "$DISK/p.weft" || code=$?
        echo "code: $code"; sha256sum "$DISK"/* | sed 's/^/after: /'""")
    assert done.returncode == 0, done.stderr
    assert "error[E106]" in done.stderr and "No space left on device" in done.stderr
    assert lines_of(done.stdout, "code: ") == ["5"]
    assert len(before := lines_of(done.stdout, "before: ")) == 1 and lines_of(done.stdout, "after: ") == before
