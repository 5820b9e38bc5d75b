#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a folder includes only folders below it (src/README.md shows the tree), and that names of test modules differ."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

COMPILER = ["base", "host", "ir", "ops"]
EVERYTHING = ["base", "host", "ir", "ops", "frontends", "passes", "plan", "lower", "codegen", "kernel_build", "targets", "runtime",
              "compile", "quantise"]

# folder -> what its files may include besides files of their own folder; the longest matching prefix applies.
ALLOWED = {
    "src/base": [],
    "src/ir": ["base"],
    "src/host": ["base"],
    "src/ops": ["base", "host", "ir"],
    "src/frontends": COMPILER,
    "src/passes": COMPILER,
    "src/plan": ["base"],
    "src/lower": COMPILER + ["plan"],
    "src/codegen": ["base"],
    "src/kernel_build": ["base"],
    "src/kernels": [],
    "src/targets": ["base"],
    "src/runtime": ["base", "host", "plan", "targets"],
    "src/runtime/ref_executable": COMPILER,  # interprets the program itself, not a plan
    "src/compile": EVERYTHING,
    "src/quantise": COMPILER + ["frontends", "runtime", "targets", "compile"],
    "api": EVERYTHING + ["weft"],
    "api/serve": ["api", "weft"],  # uses only the C ABI
    "api/python": EVERYTHING + ["weft", "driver"],  # the package contains the command line too
    "driver": EVERYTHING + ["weft", "api"],
    "adapters": ["weft"],
    "ort": ["weft", "adapters"],
    "migraphx": ["weft", "adapters"],
}
# Headers that the host and the kernels share: the division of a kernel's work (plain constexpr formulas), its
# arguments, the multiply-accumulates, and the mailboxes of ranks.
SHARED = {"kernels/tasks.h", "kernels/gpu_tasks.h", "kernels/launch.h", "kernels/macs.h", "kernels/mailbox.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
LLVM = re.compile(r'^\s*#\s*include\s+[<"](llvm|llvm-c|clang|lld)/', re.M)


FRONTEND = re.compile(r"(?:src/)?frontends/(\w+)/")  # frontends share only common/


def rule_for(path):
    """Returns the key of ALLOWED that governs `path` (relative to the root), or None."""
    text = path.as_posix()
    return max((key for key in ALLOWED if text.startswith((key + "/", key + "."))), key=len, default=None)


def meaning_of(name, source):
    """Returns the top folder that an include names; "" for a file in the folder of `source`; None for a file outside of
    the tree."""
    if (ROOT / "src" / name).exists():
        return name.split("/")[0].split(".")[0]
    if (ROOT / "include" / name).exists() or name.split("/")[0] in ("api", "driver", "adapters", "ort", "migraphx"):
        return name.split("/")[0]
    return "" if (source.parent / name).exists() else None


def problems(path):
    shown = path.relative_to(ROOT)
    key = rule_for(shown)
    if key is None:
        return
    own = key.removeprefix("src/").split("/")[0]
    text = path.read_text()
    for name in set(INCLUDE.findall(text)) - SHARED:
        folder = meaning_of(name, path)
        if folder is None:
            yield f'{shown}: "{name}" is no file of the tree (libraries are included with <>)'
        elif folder not in ("", own) and folder not in ALLOWED[key]:
            yield f'{shown}: {key} may not include "{name}"'
        frontend, included = FRONTEND.match(shown.as_posix()), FRONTEND.match(name)
        if frontend and included and included[1] not in ("common", frontend[1]):
            yield f'{shown}: a frontend may include frontends/common and itself, not "{name}"'
    if key != "src/codegen" and LLVM.search(text):
        yield f"{shown}: only src/codegen includes LLVM"


def namesakes():
    """Yields a message for each test module with the name of another one: one pytest process cannot import both."""
    seen = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        other = seen.setdefault(path.name, path)
        if other != path:
            yield f"{path.relative_to(ROOT)}: {other.relative_to(ROOT)} has its name, and pytest imports both"


def main():
    files = [file for top in ("src", "api", "driver", "adapters", "ort", "migraphx", "generate") for file in sorted((ROOT / top).rglob("*"))
             if file.suffix in (".h", ".hpp", ".cpp")]
    found = [problem for file in files for problem in problems(file)] + list(namesakes())
    print("\n".join(found) if found else f"includes: {len(files)} files, all in the tree's direction")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
