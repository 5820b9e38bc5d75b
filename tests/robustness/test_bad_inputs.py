# SPDX-License-Identifier: Apache-2.0
"""Each bad input of bad_inputs.py ends with the exit code and the message in bad_inputs.txt ("..." there matches any
text); WEFT_UPDATE=1 writes them. Each process ends within MOST_SECONDS of processor time and MOST_MEMORY bytes."""
import os

import bad_runs  # noqa: F401  adds to INPUTS
import pytest
from bad_inputs import INPUTS
from limits import BUILD, ROOT, run_limited

GOLDEN = ROOT / "tests/robustness/bad_inputs.txt"
MOST_MEMORY = 512 << 20  # bytes that the process may hold; some cases compile
MOST_SECONDS = 2
SETTINGS = {"NO_COLOR": "1", "WEFT_MEMORY_LIMIT": "16384"}


def golden():
    """Returns expected outputs of `weft` by name; the first line is the exit code."""
    if not GOLDEN.exists():
        return {}
    parts = GOLDEN.read_text().split("=== ")[1:]
    return dict(part.rstrip("\n").split("\n", 1) for part in parts)


def said(name, folder):
    before = dict(os.environ)
    words = INPUTS[name](folder)
    with open(folder / "stderr.txt", "w+", errors="replace") as err:
        code, peak = run_limited([BUILD / "bin/weft", *words], folder, err, {**os.environ, **SETTINGS}, MOST_SECONDS)
        err.seek(0)
        text = err.read().replace(str(folder), "FOLDER").strip()
    os.environ.clear()
    os.environ.update(before)
    assert peak < MOST_MEMORY, name
    return f"exit {code}\n{text}".strip()


@pytest.fixture(scope="module")
def answers():
    found = {}
    yield found
    if os.environ.get("WEFT_UPDATE") == "1":
        GOLDEN.write_text("".join(f"=== {name}\n{text}\n\n" for name, text in sorted(found.items())))


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_bad_input(name, tmp_path, answers):
    answers[name] = said(name, tmp_path)
    if os.environ.get("WEFT_UPDATE") != "1":
        wanted = golden()[name]
        assert answers[name].startswith(wanted[:-3]) if wanted.endswith("...") else answers[name] == wanted


def test_each_golden_text_has_an_input():
    if os.environ.get("WEFT_UPDATE") == "1":
        pytest.skip("the file is written after the last test")
    assert set(golden()) == set(INPUTS)
