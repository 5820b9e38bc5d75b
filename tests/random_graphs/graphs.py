# SPDX-License-Identifier: Apache-2.0
"""A random graph from a seed, and its right answers.

A step is a random operator, each of operators() with equal frequency, or a pattern that a pass looks for.
Some steps use types other than f32, or are in bodies of If, Loop and Scan."""

import functools
import os
import subprocess
from pathlib import Path

import control
import microsoft
import numpy as np
import onnx
import patterns
import quantised
import readers
from node_cases import draw_case
from draw import BF16, OPSETS, Drawing, Skip
from operators import DRAWERS

RELEASE = Path(__file__).resolve().parents[2] / "build" / "release"
BUILD = Path(os.environ.get("WEFT_BUILD", RELEASE))
MOST_TRIES = 400
TYPES = [np.float32] * 14 + [np.float16, np.float16, BF16, np.float64]

# Operators that no graph here has, and where they are tested instead.
CONTAINERS = "texts, sequences, optionals and maps: tests/frontends/test_strings_and_containers.py"
RANDOM = "no two engines draw the same numbers: tests/frontends/test_random.py"
CLASSICAL = "classical models: tests/frontends/test_classical.py"
PEER = "cases like onnxruntime's: tests/frontends/test_microsoft*.py"
NOT_DRAWN = {
    "ai.onnx:Bernoulli": RANDOM, "ai.onnx:Multinomial": RANDOM, "ai.onnx:RandomNormal": RANDOM,
    "ai.onnx:RandomNormalLike": RANDOM, "ai.onnx:RandomUniform": RANDOM, "ai.onnx:RandomUniformLike": RANDOM,
    "ai.onnx:ImageDecoder": "pictures: tests/frontends/test_onnx_suite.py", "ai.onnx:Constant": "every weight is one",
    "ai.onnx:Upsample": "gone since opset 10: the models of tests/frontends/test_onnx_models.py",
    "ai.onnx:MaxRoiPool": "no judge of its versions: tests/frontends/test_onnx_peer.py",
    "ai.onnx:Scatter": "ScatterElements since opset 11: tests/frontends/test_onnx_suite.py",
}


@functools.cache
def operators():
    """Returns (domain, name) of the operators that models may use, except those that why_not_drawn excludes."""
    command = next(path for path in (BUILD / "bin/weft", RELEASE / "bin/weft") if path.exists())
    lines = subprocess.run([command, "ops", "--onnx"], capture_output=True, text=True, check=True).stdout
    listed = [tuple(line.split("\t")[:2]) for line in lines.splitlines() if line.strip()]
    return [(domain, name) for domain, name in listed if not why_not_drawn(domain, name)]


def why_not_drawn(domain, name):
    if domain == "ai.onnx.ml":
        return CLASSICAL
    if domain.startswith("ai.onnx.preview"):
        return "steps of training, previews: tests/frontends/test_onnx_suite.py, test_gradient.py"
    if domain == "com.microsoft":
        return "" if name in microsoft.DRAWERS else PEER
    if any(word in name for word in ("Sequence", "Optional", "String", "Regex", "TfIdf")) and name != "ReverseSequence":
        return CONTAINERS
    return NOT_DRAWN.get(f"{domain}:{name}", "")


def draw_operator(d, domain, name):
    inside = "" if domain == "ai.onnx" else domain
    own = microsoft.DRAWERS.get(name, []) if domain == "com.microsoft" else DRAWERS.get(name, []) if not inside else []
    if own and (domain == "com.microsoft" or name == "Dropout" or d.chance(0.7)):  # Dropout's cases draw random numbers
        return d.random.choice(own)(d, name)
    return draw_case(d, inside, name)


def draw_step(d):
    share = d.random.random()
    if share < 0.3:
        return d.random.choice(patterns.ALL + quantised.ALL)(d)
    if share < (0.42 if d.precision == "f32" else 0.55):
        return readers.draw_reader(d, operators(), draw_operator)
    if share > 0.94 and d.depth == 0:
        return draw_operator(d, "ai.onnx", d.random.choice(("If", "Loop", "Scan")))
    return draw_operator(d, *d.random.choice(operators()))


control.ways[:] = [draw_step]


def has_operator(domain, name, opset):
    return domain != "ai.onnx" or onnx.defs.has(name, opset, "")


def draw_graph(seed, precision=""):
    """Returns a drawing of up to 16 steps, some of them patterns. Each operator is tried as the first step of equally
    many graphs. The seed decides the precision, unless one is given."""
    d = Drawing(seed, precision=precision)
    first = operators()[seed % len(operators())]
    if not has_operator(*first, d.opset):
        d.opset = max(OPSETS)
    for _ in range(d.random.randint(1, 3)):
        d.input(d.shape(), d.random.choice(TYPES))
    if d.chance(0.3):
        d.input(d.shape(), d.random.choice([np.int64, np.int32, bool, np.uint8, np.int8]))
    if d.chance(0.3):
        d.input((d.random.choice((1, 2)), d.random.choice((1, 4, 6)), 6, 5))
    steps, tries = d.random.randint(4, 16), 0
    while steps > 0 and tries < MOST_TRIES:
        tries += 1
        kept = d.mark()
        try:
            if first and tries < MOST_TRIES // 8:
                draw_first(d, *first)
                first = None
            else:
                draw_step(d)
            steps -= 1
        except Skip:  # removes a pattern of which only a part was added
            d.back_to(kept)
    d.finish()
    return d


def draw_first(d, domain, name):
    """Draws an operator; in graphs with a narrow precision, half of the time on the result of a product."""
    if d.precision == "f32" or d.chance(0.5):
        return draw_operator(d, domain, name)
    with d.seeing(readers.product(d)):
        return draw_operator(d, domain, name)


def open_sizes(d):
    """Returns names for some sizes of inputs; equal names have equal sizes."""
    if d.random.random() < 0.5:
        return {}
    return {(k, axis): f"n{size}" for k, value in enumerate(d.inputs) for axis, size in enumerate(value.shape)
            if d.random.random() < (0.5 if size > 1 else 0.1)}


def feeds(d):
    return {v.name: v.plain for v in d.inputs}


def other_sizes(d, symbols):
    """Returns the graph's values for another value of one of its open sizes; None if the graph is not valid for it."""
    if not symbols:
        return None
    name = d.random.choice(sorted(set(symbols.values())))
    return next(filter(None, (at_size(d, symbols, name, size) for size in (d.random.choice((0, 1)), d.random.choice((2, 3, 6, 20))))), None)


def resized(d, value, shape):
    """Returns numbers for an input of another size: newly drawn, or taken from its own rows where new numbers would not
    be valid."""
    if list(value.shape) == shape:
        return value.plain
    if not value.chosen:
        return d.array(shape, value.dtype)
    return value.plain[np.ix_(*(np.arange(size) % max(old, 1) for size, old in zip(shape, value.shape)))]


def at_size(d, symbols, name, size):
    given = {}
    for k, value in enumerate(d.inputs):
        shape = [size if symbols.get((k, axis)) == name else old for axis, old in enumerate(value.shape)]
        given[value.name] = resized(d, value, shape)
    try:
        values = d.again(given)
    except Exception:  # the graph is invalid for this size, or the engines disagree
        return None
    return given, [values[v.name] for v in d.outputs()]


def allowed(value):
    """Returns the allowed difference of an answer from the float64 answer: value.unit * (1 + the largest element), plus
    eight times the largest difference between the plain answer and the float64 answer."""
    known = np.isfinite(value.wide)
    largest = float(np.max(np.abs(value.wide[known]), initial=0))
    own = float(np.max(np.abs(value.plain.astype(np.float64)[known] - value.wide[known]), initial=0))
    return value.unit * (1 + largest) + 8 * own


def difference(value, got):
    """Describes the error of an answer; empty if it is right."""
    got = np.asarray(got)
    if got.shape != value.shape or got.dtype != value.dtype:
        return f"{value.name} is {got.dtype}{list(got.shape)}, not {value.dtype}{list(value.shape)}"
    if not value.is_float:
        wrong = np.flatnonzero(got.ravel() != value.plain.ravel())
    else:
        got = got.astype(np.float64)
        apart = np.abs(np.where(got == value.wide, 0, got - value.wide))
        wrong = np.flatnonzero(~(apart <= allowed(value)).ravel())
    if not len(wrong):
        return ""
    at = wrong[0]
    return f"{value.name}[{at}] is {got.ravel()[at]} where {value.wide.ravel()[at]} is right ({len(wrong)} of {got.size} wrong)"
