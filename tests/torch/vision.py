# SPDX-License-Identifier: Apache-2.0
"""Makes torchvision importable, because timm imports it and its compiled part does not fit every build of torch. timm's
models use none of torchvision's operators, so it is enough to define their names."""

import importlib.util
import re
from pathlib import Path

import torch


def define_operators():
    """Defines each operator that torchvision's own Python files name, where its compiled part cannot be loaded."""
    found = importlib.util.find_spec("torchvision")
    folder = Path(found.origin).parent
    for library in folder.glob("_C*.so"):
        try:
            return torch.ops.load_library(library)
        except OSError:
            pass
    texts = [path.read_text() for path in (folder / "_meta_registrations.py", *folder.glob("ops/*.py"))]
    names = {name for text in texts for name in re.findall(r"torchvision::(\w+)|register_meta\(\"(\w+)\"\)", text)}
    for name in sorted({a or b for a, b in names}):
        try:
            torch.library.define(f"torchvision::{name}", "(Tensor x) -> Tensor")
        except RuntimeError:  # the compiled part defines this operator
            return
