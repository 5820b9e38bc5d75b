# SPDX-License-Identifier: Apache-2.0
"""Splits kernels into functions and innermost loops, and classifies their instructions. The input is the output of
`WEFT_DEBUG=6,plan` (AMD: disassembled code objects; NVIDIA: PTX)."""
import collections
import re

AMD_NAME = re.compile(r"^(\w+):$", re.M)
PTX_ENTRY = re.compile(r"\.visible \.entry (\w+)\(.*?\n\{\n(.*?)\n\}", re.S)

# Kinds of instructions that the lints count; an instruction has the first kind whose pattern matches.
AMD_KINDS = [("matrix", r"v_(mfma|wmma|smfmac|swmmac)_"), ("flat", r"flat_"), ("scratch", r"scratch_"),
             ("wide_load", r"(global|buffer)_load_(b128|dwordx4)"), ("load", r"(global|buffer)_load_"), ("store", r"(global|buffer)_store_"),
             ("lds", r"ds_"), ("scalar", r"s_"), ("vector", r"v_")]
PTX_KINDS = [("matrix", r"(mma\.sync|wgmma\.mma_async)"), ("scratch", r"(ld|st)\.local"), ("flat", r"(ld|st)\.(volatile\.)?(v[24]\.)?[bfus]\d+"),
             ("wide_load", r"(ld\.global(\.nc)?\.v4\.[bfu]32|ld\.global(\.nc)?\.v2\.[bfu]64|cp\.async)"), ("load", r"ld\.global"), ("store", r"st\.global"),
             ("lds", r"(ld\.shared|st\.shared|ldmatrix)"), ("vector", r"\w")]


def functions(text, chip):
    """Returns the lines of each kernel: {name: lines}."""
    if chip.startswith("sm_"):
        return {name: body.splitlines() for name, body in PTX_ENTRY.findall(text)}
    found, name = {}, None
    for line in text.splitlines():
        label = AMD_NAME.match(line)
        if label and not re.match(r"L\d+$", label.group(1)) and not label.group(1).endswith(".kd"):
            name = label.group(1)
            found[name] = []
        elif name:
            found[name].append(line)
    return found


def kind(line, chip):
    """Returns the kind of a line's instruction; None for labels, declarations and other lines without an
    instruction."""
    words = re.sub(r"^\s*(@!?%p\d+\s+)?", "", line)
    if "wgmma.mma_async" in line:
        return "matrix"
    if chip.startswith("sm_") and (words.startswith((".", "$", "//", "{", "}")) or not words):
        return None
    if not chip.startswith("sm_") and (not line.startswith("\t") or not words):
        return None
    kinds = PTX_KINDS if chip.startswith("sm_") else AMD_KINDS
    return next((name for name, pattern in kinds if re.match(pattern, words)), None)


def counts(lines, chip):
    found = collections.Counter(kind(line, chip) for line in lines)
    del found[None]
    return found


def innermost_loops(lines, chip):
    """Returns the lines from each label to a jump back to it, unless they contain another such loop."""
    label = re.compile(r"^(\$\w+|L\d+):")
    branch = re.compile(r"\bbra(?:\.uni)?\s+(\$\w+);" if chip.startswith("sm_") else r"; (L\d+)$")
    at, loops = {}, []
    for number, line in enumerate(lines):
        found = label.match(line)
        if found:
            at[found.group(1)] = number
        back = branch.search(line)
        if back and back.group(1) in at:
            loops.append((at[back.group(1)], number))
    inner = [(a, b) for a, b in loops if not any((c, d) != (a, b) and a <= c and d <= b for c, d in loops)]
    return [lines[a:b + 1] for a, b in inner]
