# SPDX-License-Identifier: Apache-2.0
"""Measures how far answers are from those of torch in eager mode, and decides whether they are right (zoo.py)."""
import copy
import functools

import torch

RELATIVE = {"f32": 1e-4, "f16": 2e-2, "bf16": 5e-2}
TIMES = 2
NARROW = {"f16": torch.float16, "bf16": torch.bfloat16}


def apart(got, wanted):
    got, wanted = torch.as_tensor(got).double(), wanted.double()
    if got.shape != wanted.shape or not got.isfinite().all():
        return float("inf")
    most = wanted.abs().max().item()
    return (got - wanted).abs().max().item() / (most or 1)


def in_eager(model, inputs, place, kind=torch.float32):
    """Returns torch's answers to each of the inputs, computed at `place` in this type."""
    model.to(place, kind)
    try:
        with torch.no_grad():
            return [model(*[v.to(place, kind if v.is_floating_point() else None) for v in x]).cpu() for x in inputs]
    finally:
        model.to("cpu")


class Judge:
    """torch's answers in eager mode, and the decision whether other answers are right."""

    def __init__(self, model, given, place, precision):
        self.model, self.given, self.place, self.most = model, given, place, RELATIVE[precision]
        self.wanted, self.is_f32 = in_eager(model, given, place), precision == "f32"
        if not self.is_f32:
            self.apart = self.of_torch(NARROW[precision])
            if self.apart < 1:  # torch's own answer is not used if it is infinite or far from its answer in f32
                self.most = max(self.most, self.apart)

    def of_torch(self, kind):
        """Returns how far torch's answers in 16 bits are from those in f32; 0 if torch cannot run the model in 16
        bits."""
        try:
            narrow = in_eager(copy.deepcopy(self.model), self.given[1:], self.place, kind)
        except Exception:
            return 0.0
        return max(map(apart, narrow, self.wanted[1:]))

    @functools.cached_property
    def exact(self):
        """Returns torch's answers in f64 and how far eager's answers are from them; ((), 0) if torch cannot run the
        model in f64."""
        try:
            found = in_eager(copy.deepcopy(self.model), self.given, self.place, torch.float64)
        except Exception:
            return (), 0.0
        return found, max(map(apart, self.wanted, found))

    def verdict(self, got, kept):
        """Returns three values for the answers `got` to the inputs `kept`: their distance from eager's answers; "right"
        or the reason why they are not; their distance from torch's f64 answers, divided by eager's distance from these
        (None if f64 does not decide)."""
        worst = max(apart(y, self.wanted[i]) for y, i in zip(got, kept, strict=True))
        if worst <= self.most or not self.is_f32 or not 0 < self.exact[1] < 0.01:  # f64 is not needed, or torch's own error is too large
            return worst, "right" if worst <= self.most else f"apart by {worst:.2g}", None
        answers, of_torch = self.exact
        times = max(apart(y, answers[i]) for y, i in zip(got, kept, strict=True)) / of_torch
        what = f"apart by {worst:.2g}, from f64 {times:.2g} times as far as torch, whose f32 is {of_torch:.2g} from it"
        return worst, "right" if times <= TIMES else what, times
