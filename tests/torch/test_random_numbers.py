# SPDX-License-Identifier: Apache-2.0
"""Random operators in archives: torch's distributions, sizes and types; other numbers at each run and from each
operator."""

import io

import pytest
import torch
from torch.export import Dim

import weft
import weft.torch

ROWS = 200
X = torch.rand(ROWS, 40, 25) + 0.5  # 200,000 elements


class Drawn(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, x):
        return self.call(x)


def compiled(call, device="cpu", x=X):
    file = io.BytesIO()
    shapes = ({0: Dim("rows", min=1, max=1000)},)
    torch.export.save(torch.export.export(Drawn(call), (x,), dynamic_shapes=shapes, strict=False), file)
    return weft.compile(file.getvalue(), device=device)


def drawn(call, device="cpu", x=X):
    return compiled(call, device, x)(x)


functional = torch.nn.functional

#: name -> (a call, mean, deviation, least, most)
DISTRIBUTIONS = {
    "rand_like": (torch.rand_like, 0.5, 12**-0.5, 0, 1),
    "rand": (lambda x: torch.rand(x.shape[0], 1000), 0.5, 12**-0.5, 0, 1),
    "rand f64": (lambda x: torch.rand(x.shape, dtype=torch.float64), 0.5, 12**-0.5, 0, 1),
    "uniform_": (lambda x: x.clone().uniform_(-1, 3), 1, 4 * 12**-0.5, -1, 3),
    "randn": (lambda x: torch.randn(x.shape[0], 1000), 0, 1, -7, 7),
    "randn_like": (torch.randn_like, 0, 1, -7, 7),
    "normal_": (lambda x: x.clone().normal_(2, 3), 2, 3, -20, 24),
    "normal of tensors": (lambda x: torch.normal(x - x + 1, x - x + 2), 1, 2, -14, 16),
    "normal of a tensor": (lambda x: torch.normal(x - x + 1, 2.0), 1, 2, -14, 16),
    "randint": (lambda x: torch.randint(-3, 8, (x.shape[0], 1000)), 2, 10**0.5, -3, 7),
    "randint_like": (lambda x: torch.randint_like(x, 11), 5, 10**0.5, 0, 10),
    "bernoulli": (lambda x: torch.bernoulli(x - x + 0.3), 0.3, 0.21**0.5, 0, 1),
    "bernoulli_": (lambda x: x.clone().bernoulli_(0.8), 0.8, 0.4, 0, 1),
    "exponential_": (lambda x: x.clone().exponential_(4), 0.25, 0.25, 0, 6),
}


@pytest.mark.parametrize("device", ["cpu", "ref"])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(name, device):
    call, mean, deviation, least, most = DISTRIBUTIONS[name]
    x = X if device == "cpu" else X[:20]
    got, wanted = drawn(call, device, x), call(x)
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    got = got.double()
    error = 6 * deviation / got.numel() ** 0.5  # a correct generator fails once in 500 million runs
    assert abs(got.mean().item() - mean) < error
    assert abs(got.std().item() - deviation) < 3 * error
    assert least <= got.min() and got.max() <= most
    if "int" not in name and "bernoulli" not in name:
        assert got.unique().numel() > 0.9 * min(got.numel(), 2**17)


def test_each_integer_is_as_likely():
    counts = torch.bincount(drawn(lambda x: torch.randint(0, 8, (x.shape[0], 1000))).flatten(), minlength=8)
    assert counts.numel() == 8 and (counts / counts.sum() - 1 / 8).abs().max() < 0.005


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 1.0])
def test_dropout(share):
    got = drawn(lambda x: functional.dropout(x, share, training=True))
    kept = got != 0
    assert abs(kept.double().mean().item() - (1 - share)) < 0.01
    if share < 1:
        torch.testing.assert_close(got[kept], X[kept] / (1 - share))


def test_dropout_in_place():
    got = drawn(lambda x: functional.dropout(x * 1, 0.5, training=True, inplace=True))
    assert abs((got != 0).double().mean().item() - 0.5) < 0.01
    assert torch.equal(drawn(lambda x: functional.dropout(x * 2, 0.5, training=False, inplace=True)), X * 2)


def test_dropout_keeps_nan():
    x = torch.full((4, 3), torch.nan)
    assert drawn(lambda x: functional.dropout(x, 0.5, training=True), x=x).isnan().all()


def test_dropout_of_features():
    got = drawn(lambda x: functional.dropout1d(x, 0.25, training=True))
    kept = (got != 0).all(-1)
    assert torch.equal(kept, (got != 0).any(-1))
    assert abs(kept.double().mean().item() - 0.75) < 0.05


@pytest.mark.parametrize("call", [functional.alpha_dropout, functional.feature_alpha_dropout])
def test_alpha_dropout_keeps_mean_and_deviation(call):
    x = torch.randn(ROWS, 1000, 1)
    got, eager = drawn(lambda x: call(x, 0.3, training=True), x=x), call(x, 0.3, training=True)
    assert abs(got.mean().item()) < 0.02 and abs(got.std().item() - 1) < 0.02
    dropped = got.flatten().mode().values.item()  # dropped elements have the most frequent value
    assert dropped == pytest.approx(eager.flatten().mode().values.item(), rel=1e-5)
    assert abs((got == dropped).double().mean().item() - 0.3) < 0.01


def test_result_of_dropout_is_no_view():
    def call(x):
        y = x * 1
        z = functional.dropout(y, 0.5, training=True)
        y.add_(100)
        return z

    assert drawn(call).max() < 4


def test_multinomial():
    weights = torch.tensor([[1.0, 0, 5, 4]]).expand(ROWS, 4).contiguous()
    got = drawn(lambda w: torch.multinomial(w, 500, replacement=True), x=weights)
    shares = torch.bincount(got.flatten(), minlength=4) / got.numel()
    assert (shares - weights[0] / 10).abs().max() < 0.01
    once = drawn(lambda w: torch.multinomial(w, 3), x=weights)
    assert all(sorted(row) == [0, 2, 3] for row in once.tolist())
    firsts = drawn(lambda w: torch.multinomial(w, 1), x=weights.repeat(5, 1)).flatten()
    assert (torch.bincount(firsts, minlength=4) / firsts.numel() - weights[0] / 10).abs().max() < 0.08


def test_runs_and_operators_differ():
    run = compiled(lambda x: (torch.rand_like(x), torch.rand_like(x)))
    first, second = run(X)
    again, _ = run(X)
    for other in (second, again):
        assert (first == other).double().mean() < 0.001
        assert abs(torch.corrcoef(torch.stack([first.flatten(), other.flatten()]))[0, 1].item()) < 0.02


def test_in_a_loop_is_refused():
    def call(x):
        return torch._higher_order_ops.scan(lambda c, row: (c + 1, torch.rand_like(row)), x[0], x)[1]

    with pytest.raises(weft.UnsupportedError, match="outside of branches and loops"):
        compiled(call)


def test_torch_compile_leaves_them_to_torchs_generator():
    def call(x):
        return functional.dropout(x * 2, 0.5, training=True) + 1

    torch._dynamo.reset()
    weft.torch.placements.clear()
    fast = torch.compile(call, backend="weft", options={"device": "cpu"})

    def seeded(seed):
        torch.manual_seed(seed)
        with torch.no_grad():
            return fast(X)

    first = seeded(5)
    torch.testing.assert_close(seeded(5), first)
    assert not torch.equal(seeded(6), first)
    assert {0.0, 1.0} >= {*((first - 1) / X / 4).round(decimals=5).unique().tolist()}
    assert 0 < weft.torch.placements[0].on_weft < weft.torch.placements[0].total
