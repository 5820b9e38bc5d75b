#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/operators.md: every operator of ONNX files that Weft translates, with its versions and types in ONNX and
onnxruntime, and the forms that Weft refuses.

usage: tools/operators.py [--check] [--weft build/release/bin/weft]

With --check nothing is written, and the exit code is 1 if the page is not what would be written. The limits are given
with each operator's entry in src/frontends/onnx (import/call.h: Operator::limits).
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys

import onnx.defs
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/operators.md"
TITLES = {
    "ai.onnx": "ONNX",
    "ai.onnx.ml": "Classical models",
    "ai.onnx.preview": "ONNX, previews",
    "ai.onnx.preview.training": "Training steps",
    "com.microsoft": "onnxruntime",
}
FLOATS = ["float16", "bfloat16", "float", "double"]
INTEGERS = [f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u")]
GROUPS = [
    ("f8", [f"float8{kind}" for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")]),
    ("2 and 4 bits", ["int2", "uint2", "int4", "uint4", "float4e2m1"]),
    ("complex", ["complex64", "complex128"]),
]

HEAD = """# Operators

Written by `tools/operators.py`; a test checks that it is current. *Since* lists the versions in which ONNX changed the operator. All
versions from 7 on are taken (also the newest of an older one), up to opset {newest} of ai.onnx. *Types* are those of the first input as
ONNX or onnxruntime declare them; complex types are refused. Limits are refused with an error (E122) that names the node.

Where they run: `ref` computes all of them. `cpu` does too, with no step on `ref`; strings, sequences, optionals, maps and pictures are
host steps on both. A GPU leaves these host steps and operators of the caller to the
processor, between two copies, and runs all else. Functions that a model defines, and [operators of the caller](c_api.md), come on top.
"""


def weft_operators(weft):
    lines = subprocess.run([weft, "ops", "--onnx"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [(line.split("\t") + [""])[:3] for line in lines if line.strip()]


def schemas():
    """Returns {(domain, name): schemas, oldest first}, from ONNX, or from onnxruntime for operators that ONNX lacks."""
    found = collections.defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        found[schema.domain or "ai.onnx", schema.name].append(schema)
    own = set(found)
    for schema in runtime.get_all_operator_schema():
        key = schema.domain or "ai.onnx", schema.name
        if key not in own:
            found[key].append(schema)
    return {key: sorted(list_, key=lambda s: s.since_version) for key, list_ in found.items()}


def first_types(schema):
    """Returns the element types that the first input may have: those of its type parameter, or its fixed type."""
    if not schema.inputs:
        return []
    written = schema.inputs[0].type_str if hasattr(schema.inputs[0], "type_str") else schema.inputs[0].typeStr
    for constraint in schema.type_constraints:
        if constraint.type_param_str == written:
            return list(constraint.allowed_type_strs)
    return [written]


def shown_types(names):
    plain = {re.fullmatch(r"tensor\((.*)\)", name).group(1) for name in names if name.startswith("tensor(")}
    parts = []
    floats = [name for name in FLOATS if name in plain]
    if len(floats) == len(FLOATS):
        parts.append("floats")
    else:
        parts += [{"float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16"}[name] for name in floats]
    integers = [name for name in INTEGERS if name in plain]
    parts += ["integers"] if len(integers) == len(INTEGERS) else integers
    parts += [title for title, members in GROUPS if plain & set(members)]
    parts += [name for name in ("bool", "string") if name in plain]
    parts += sorted({name.split("(")[0] for name in names if not name.startswith("tensor(")})
    return ", ".join(parts)


def is_basic(schema):
    """True if an operator is ONNX's own, not deprecated, and not defined by other operators."""
    return (isinstance(schema, onnx.defs.OpSchema) and not schema.deprecated and not schema.has_function
            and not schema.has_context_dependent_function)


def rows(operators, known):
    for domain, name, limits in operators:
        versions = known.get((domain, name), [])
        since = ", ".join(str(schema.since_version) for schema in versions)
        types = shown_types(first_types(versions[-1])) if versions else ""
        yield f"| {name} | {since} | {types} | {limits} |"


def page(weft):
    known = schemas()
    by_domain = collections.defaultdict(list)
    for row in weft_operators(weft):
        by_domain[row[0]].append(row)
    text = HEAD.format(newest=onnx.defs.onnx_opset_version())
    for domain, title in TITLES.items():
        operators = by_domain.pop(domain, [])
        text += f"\n## {title}: {domain}, {len(operators)} operators\n\n| operator | since | types | limits |\n|---|---|---|---|\n"
        text += "\n".join(rows(operators, known)) + "\n"
    assert not by_domain, f"domains without a title: {list(by_domain)}"
    listed = {(domain, name) for domain, name, _ in weft_operators(weft)}
    text += "\n## Missing operators\n\n"
    for domain in "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training":
        missing = sorted(name for (own, name), versions in known.items()
                         if own == domain and (own, name) not in listed and is_basic(versions[-1]))
        text += f"* {domain}: {', '.join(missing) or 'nothing'}. What ONNX defines as a function is expanded.\n"
    kernels = {kernel.op_name for kernel in runtime.get_all_opkernel_def()
               if kernel.domain == "com.microsoft" and kernel.provider == "CPUExecutionProvider"}
    missing = sorted(name for name in kernels if ("com.microsoft", name) not in listed)
    text += f"* com.microsoft, of what onnxruntime's CPU provider runs: {', '.join(missing)}.\n"
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--weft", default=ROOT / "build/release/bin/weft")
    options = parser.parse_args()
    text = page(options.weft)
    if not options.check:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        sys.exit(f"{PAGE.relative_to(ROOT)} is not current: run tools/operators.py")


if __name__ == "__main__":
    main()
