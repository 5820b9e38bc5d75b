# SPDX-License-Identifier: Apache-2.0
"""A random graph from a seed, and what onnxruntime says to it."""

import numpy as np
import patterns
from draw import Drawing, Skip
from operators import drawers

WAYS = drawers()
MOST_TRIES = 400


def draw_graph(seed):
    """A drawing of 4 to 16 steps, some of them patterns."""
    d = Drawing(seed)
    for _ in range(d.random.randint(1, 3)):
        d.input(d.shape())
    if d.random.random() < 0.3:
        d.input(d.shape(), d.random.choice([np.int64, np.int32, bool]))
    steps, tries = d.random.randint(4, 16), 0
    while steps > 0 and tries < MOST_TRIES:
        tries += 1
        way = d.random.choice(patterns.ALL) if d.random.random() < 0.25 else d.random.choice(WAYS)[1]
        kept = len(d.nodes), len(d.values), len(d.inputs), len(d.initializers)
        try:
            way(d)
            steps -= 1
        except Skip:  # nothing of a half planted pattern stays
            for items, count in zip((d.nodes, d.values, d.inputs, d.initializers), kept):
                del items[count:]
    return d


def open_sizes(d):
    """Names for some sizes of inputs; equal names have equal sizes."""
    if d.random.random() < 0.5:
        return {}
    return {(k, axis): f"n{size}" for k, value in enumerate(d.inputs) for axis, size in enumerate(value.shape)
            if size > 1 and d.random.random() < 0.5}  # fmt: skip


def feeds(d):
    return {v.name: v.plain for v in d.inputs}


def allowed(value):
    """How far an answer may be from the float64 one: a share of the largest element, and the f32 run's own distance."""
    largest = float(np.max(np.abs(value.wide), initial=0))
    return 2e-5 * (1 + largest) + 8 * np.abs(value.plain - value.wide).max(initial=0)


def difference(value, got):
    """What is wrong with an answer; empty if nothing."""
    got = np.asarray(got)
    if got.shape != value.shape or got.dtype != value.dtype:
        return f"{value.name} is {got.dtype}{list(got.shape)}, not {value.dtype}{list(value.shape)}"
    if not value.is_float:
        wrong = np.flatnonzero(got.ravel() != value.plain.ravel())
    else:
        apart = np.abs(got.astype(np.float64) - value.wide)
        wrong = np.flatnonzero(~(apart <= allowed(value)).ravel())
    if not len(wrong):
        return ""
    at = wrong[0]
    return f"{value.name}[{at}] is {got.ravel()[at]} where {value.wide.ravel()[at]} is right ({len(wrong)} of {got.size} wrong)"
