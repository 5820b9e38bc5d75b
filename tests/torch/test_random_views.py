# SPDX-License-Identifier: Apache-2.0
"""Random models that make views of their inputs, and of views, and write to them in place: results, and inputs after the call, are
as in eager. Each day draws other models."""

import io
import random

import pytest
import torch
from places import DAY

import weft
import weft.torch

#: A view of x. `axis` is an axis of x, `n` an integer among the arguments of the model: 1 or 2.
VIEWS = {
    "rows": lambda x, axis, n: x.narrow(axis, x.shape[axis] - n, n),
    "behind": lambda x, axis, n: x[n:],
    "before": lambda x, axis, n: x[..., :-1],
    "strided": lambda x, axis, n: x[..., ::2],
    "row": lambda x, axis, n: x.select(axis, -1),
    "swapped": lambda x, axis, n: x.transpose(axis, 0),
    "reversed": lambda x, axis, n: x.permute(*reversed(range(x.dim()))),
    "matrix": lambda x, axis, n: x.mT,
    "longer": lambda x, axis, n: x.unsqueeze(axis),
    "shorter": lambda x, axis, n: x.squeeze(),
    "flat": lambda x, axis, n: x.view(-1),
    "halves": lambda x, axis, n: x.view(2, -1),
    "half": lambda x, axis, n: x.chunk(2, axis)[0],
    "first": lambda x, axis, n: x.unbind(axis)[0],
    "diagonal": lambda x, axis, n: x.diagonal(1, -2, -1),
    "copies": lambda x, axis, n: x.expand(n, *x.shape),
    "other": lambda x, axis, n: x * 2,
    "copy": lambda x, axis, n: x.clone(),
    "swapped in place": lambda x, axis, n: x.clone().transpose_(axis, 0),
    "transposed in place": lambda x, axis, n: x.clone().t_(),
    "longer in place": lambda x, axis, n: x.clone().unsqueeze_(axis),
    "shorter in place": lambda x, axis, n: x.clone().squeeze_(),
}
#: A write to x; y is another tensor.
WRITES = {
    "add": lambda x, y, axis: x.add_(1),
    "sum": lambda x, y, axis: x.add_(y.sum().to(x.dtype), alpha=2),
    "clamp": lambda x, y, axis: x.clamp_(-1, 2),
    "fill": lambda x, y, axis: x.fill_(3),
    "mask": lambda x, y, axis: x.masked_fill_(x > 1, 0),
    "chosen": lambda x, y, axis: x.__setitem__(x > 1, 1),
    "row": lambda x, y, axis: x.__setitem__(0, 2),
    "shifted": lambda x, y, axis: x[1:].copy_(x[:-1].clone()),
    "product": lambda x, y, axis: x.mul_(y.clone()),
    "running": lambda x, y, axis: x.cumsum_(axis),
    "index": lambda x, y, axis: x.index_fill_(axis, torch.tensor([0]), 5),
    "turned": lambda x, y, axis: x.t_() if x.dim() == 2 else x.squeeze_(),
}


def step(values, kind, name, at, other, axis, n):
    x = values[at]
    axis = axis % max(x.dim(), 1)
    if kind == "view":
        values.append(VIEWS[name](x, axis, n))
    else:
        WRITES[name](x, values[other], axis)


class Drawn(torch.nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def forward(self, n, *inputs):
        values = list(inputs)
        for each in self.steps:
            step(values, *each, n)
        return [values[-1], values[-1] + 1, values[len(values) // 2] * 1]


def drawn(seed):
    """Returns a model, its integer, and its inputs. torch must run the model, and functionalise it right."""
    dice = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(200):
        inputs = [torch.randn([dice.choice((2, 3, 4, 6)) for _ in range(dice.randint(1, 3))]) for _ in range(2)]
        n, steps, values = dice.randint(1, 2), [], [x.clone() for x in inputs]
        try:
            for _ in range(dice.randint(3, 9)):
                kind = dice.choice(("view", "view", "write"))
                name = dice.choice(list(VIEWS if kind == "view" else WRITES))
                steps.append((kind, name, dice.randrange(len(values)), dice.randrange(len(values)), dice.randrange(3)))
                step(values, *steps[-1], n)
        except (RuntimeError, IndexError):
            continue
        model = Drawn(steps)
        wanted = called(model, n, inputs)
        if any(x.shape != y.shape for x, y in zip(wanted[1], inputs)):  # an input was turned
            continue
        torch._dynamo.reset()
        try:
            if are_same(called(torch.compile(model, backend="aot_eager", dynamic=True), n, inputs), wanted):
                return model, n, inputs, wanted
        except Exception:  # torch forbids writes to what overlaps itself
            continue
    raise AssertionError("no model was drawn")


def called(model, n, inputs):
    given = [x.clone() for x in inputs]
    with torch.no_grad():
        return [x.clone() for x in model(n, *given)], given


def are_same(got, wanted):
    pairs = [pair for mine, others in zip(got, wanted, strict=True) for pair in zip(mine, others, strict=True)]
    return all(x.shape == y.shape and torch.allclose(x, y, 1e-4, 1e-5) for x, y in pairs)


SEEDS = range(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_compiled(seed):
    model, n, inputs, wanted = drawn(DAY * 1000 + seed)
    torch._dynamo.reset()
    fast = torch.compile(model, backend="weft", dynamic=True, options={"device": "cpu"})
    assert are_same(called(fast, n, inputs), wanted), (model.steps, [x.shape for x in inputs])


@pytest.mark.parametrize("seed", SEEDS)
def test_archive(seed):
    """An archive gives the answers, or its model writes through a view whose place Weft does not know."""
    model, n, inputs, wanted = drawn(DAY * 1000 + 500 + seed)
    try:
        program = torch.export.export(model, (n, *(x.clone() for x in inputs)), strict=False)
    except Exception:
        pytest.skip("torch does not export it")
    file = io.BytesIO()
    torch.export.save(program, file)
    try:
        run = weft.compile(file.getvalue(), device="ref")
    except weft.UnsupportedError as error:
        assert "written" in str(error) or "may be" in str(error) or "whether it is a view" in str(error), (error, model.steps)
        return
    outputs = run(*inputs)
    outputs = dict(zip((port.name for port in run.outputs), outputs if isinstance(outputs, tuple) else (outputs,), strict=True))
    results = [torch.as_tensor(value) for name, value in outputs.items() if not name.endswith(".next")]
    places = {port.name: i for i, port in enumerate(run.inputs)}
    after = [x for x in inputs]
    for name, value in outputs.items():
        if name.endswith(".next"):
            after[places[name.removesuffix(".next")]] = torch.as_tensor(value)
    assert are_same((results, after), wanted), (model.steps, [x.shape for x in inputs])
