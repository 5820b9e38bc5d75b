# SPDX-License-Identifier: Apache-2.0
"""Measures the errors of engines' answers against exact answers, and decides whether they are small enough.

An answer y is compared with the exact answer x, computed in double precision (`exact.py`), and with r, the answer of
onnxruntime:
- `l2`: ||y - r|| / ||r||, at most 1e-4 in f32;
- `worst`: the largest |y - x| over the largest |x|, at most twice the `worst` of r, or the bound of the type if that is
  larger.
A single element decides `worst`, and r may have a small error there by luck. For an answer that fails by `worst`,
`onnxruntime_beside` therefore shows the `worst` of onnxruntime for an input that differs by half a unit in the last
place. It is shown for comparison only and does not change the result.
The answers of a quantised model are multiples of a quantisation step: at least 99.9 % of them must lie within one step
of x. They are not compared with r: on processors without VNNI onnxruntime's int8 products saturate, and onnxruntime and
OpenVINO leave out quantisations that the model asks for. In a deep network each such difference changes a quarter of
the answers.
"""

from functools import lru_cache

import numpy as np

import exact
import fill

LIMITS = {"f32": (1e-4, 1e-5), "bf16": (5e-2, 3e-2)}  # largest `l2`, least bound of `worst`
WITHIN_ONE_STEP = 0.999
YARDSTICK = "onnxruntime"


@lru_cache(maxsize=1)
def exact_answers(model, sizes):
    """Returns the exact outputs at `sizes`, a tuple of pairs. The last result is kept, because it is needed again for
    each number of threads."""
    return exact.run(fill.cached(model), fill.feeds(model, dict(sizes)))


@lru_cache(maxsize=1)
def answers_beside(model, sizes):
    """Returns onnxruntime's answers for inputs in which each float is half a unit in the last place away from the given
    one."""
    import onnxruntime

    feeds, random = fill.feeds(model, dict(sizes)), np.random.default_rng(0)
    for name, given in feeds.items():
        if given.dtype == np.float32:
            feeds[name] = (given * (1 + 2.0**-24 * random.choice([-1.0, 1.0], given.shape))).astype(np.float32)
    session = onnxruntime.InferenceSession(fill.cached(model), providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, feeds)))


def l2(y, x):
    """Computes ||y - x|| / ||x|| in double precision; 0 for empty arrays."""
    x = x.astype(np.float64).ravel()
    return float(np.linalg.norm(y.astype(np.float64).ravel() - x) / (np.linalg.norm(x) or 1))


def worst(y, x):
    return float(np.abs(y.astype(np.float64) - x).max(initial=0) / (np.abs(x).max(initial=0) or 1))


def judge_float(engine, y, r, x, beside):
    """Returns error figures, and whether they pass. `beside()` returns onnxruntime's answer for an input that differs
    in the last place; it is called only for an answer that fails by `error_worst`."""
    max_l2, bound = LIMITS["bf16" if "bf16" in engine else "f32"]
    figures = {"error_l2": l2(y, r), "error_l2_exact": l2(y, x), "error_worst": worst(y, x)}
    allowed = max(2 * worst(r, x), bound)
    if figures["error_worst"] > allowed:
        figures["onnxruntime_beside"] = worst(beside(), x)
    return figures, figures["error_l2"] <= max_l2 and figures["error_worst"] <= allowed


def judge_steps(y, x):
    step = np.diff(np.unique(x)).min(initial=np.inf)
    within = float((np.abs(y - x) <= 1.001 * step).mean())
    return {"error_l2_exact": l2(y, x), "within_one_step": within}, within >= WITHIN_ONE_STEP


def judge(model, sizes, answers, note):
    """Prints a line for each engine and output, and records the figures with `note`; returns whether the first engine's
    answers are close enough."""
    if YARDSTICK not in answers:
        raise SystemExit(f"accuracy is judged beside {YARDSTICK}, which did not run")
    case = (model, tuple(sizes.items()))
    truth = exact_answers(*case)
    first, fine = next(iter(answers)), True
    for engine, outputs in answers.items():
        for name, y in outputs.items():
            r, x = answers[YARDSTICK][name], truth[name]
            if model.endswith("_qdq"):
                figures, good = judge_steps(y, x)
            else:
                figures, good = judge_float(engine, y, r, x, lambda: answers_beside(*case)[name])
            for figure, value in figures.items():
                note(engine, name, figure, value)
            text = "  ".join(f"{figure} {value:<9.3g}" for figure, value in figures.items())
            print(f"    {engine:16}{name:12}{text}  {'good' if good else 'TOO FAR'}", flush=True)
            fine = fine and (good or engine != first)
    return fine
