# SPDX-License-Identifier: Apache-2.0
"""The table of error codes and the source agree."""

import re

from places import ROOT

FOLDERS = ("src", "driver", "api", "ort", "migraphx")
CODE = re.compile(r'"(E\d{3}(?=")|W\d{3}(?=: ))')


def documented():
    return re.findall(r"^\| ([EW]\d{3}) \|", (ROOT / "docs/errors.md").read_text(), re.M)


def raised():
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.cpp")]
    headers = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.h")]
    return {code for path in files + headers for code in CODE.findall(path.read_text())}


def test_every_code_is_explained_once():
    table = documented()
    assert len(table) == len(set(table))
    assert raised() - set(table) == set()


def test_every_explained_code_can_be_raised():
    assert set(documented()) - raised() == set()
