# SPDX-License-Identifier: Apache-2.0
"""ONNX's node cases of reductions of nothing and of containers on an emulated AMD GPU: right, or refused for what only the CPU does."""
import re
import sys

import pytest

import emulated

sys.path.insert(0, str(emulated.ROOT / "tests/frontends"))
from test_onnx_suite import write_case  # noqa: E402

NOTHING = re.compile("test_reduce_.*_empty_set")
CONTAINERS = re.compile("test_identity_(sequence|opt)$|test_optional_(get|has)_element")


@pytest.fixture(scope="module")
def cases():
    from onnx.backend.test.case.node import collect_testcases
    return [case for case in collect_testcases(None) if NOTHING.match(case.name) or CONTAINERS.match(case.name)]


def test_nothing_and_containers(cases, tmp_path):
    for case in cases:
        write_case(case, tmp_path / case.name)
    done = emulated.run("gfx1100", "weft-onnx_suite", "--device", "amd:0", *(tmp_path / case.name for case in cases))
    assert done.returncode == 0, done.stdout + done.stderr
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert sum(map(bool, map(NOTHING.match, found))) >= 15
    assert {name: what for name, what in found.items() if NOTHING.match(name) and what != "right"} == {}
    refused = [what for name, what in found.items() if CONTAINERS.match(name) and not what.startswith("right")]
    assert refused and all("E402" in what for what in refused)
