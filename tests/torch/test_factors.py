# SPDX-License-Identifier: Apache-2.0
"""Orthogonal factors of matrices: wide, tall, with one column, without full rank, with equal singular values, in
batches."""

import numpy as np
import pytest
import torch
from archives import archive, exported

import weft


def matrix(kind):
    torch.manual_seed(3)
    made = {
        "tall": lambda: torch.randn(2, 7, 4),
        "wide": lambda: torch.randn(3, 2, 4, 6),
        "square": lambda: torch.randn(5, 5),
        "column": lambda: torch.randn(4, 1),
        "number": lambda: torch.randn(1, 1),
        "rank 2": lambda: torch.randn(6, 2) @ torch.randn(2, 5),
        "zero": lambda: torch.zeros(4, 3),
        "equal": lambda: torch.eye(6) * 3,
        "uneven": lambda: torch.randn(6, 6) * torch.logspace(-5, 5, 6),
        "none": lambda: torch.zeros(0, 3, 3),
        "large": lambda: torch.randn(40, 33),
        "f64": lambda: torch.randn(8, 5, dtype=torch.float64),
    }
    return made[kind]()


KINDS = ["tall", "wide", "square", "column", "number", "rank 2", "zero", "equal", "uneven", "none", "large", "f64"]


def run(function, x, device):
    class Model(torch.nn.Module):
        def forward(self, x):
            return tuple(function(x))

    model = weft.compile(archive(exported(Model(), (x,))), device=device)
    got = model(x)
    return [torch.as_tensor(np.asarray(y)) for y in (got if isinstance(got, tuple) else (got,))]


def near(a, b, scale=None):
    digits = 1e-10 if a.dtype == torch.float64 else 2e-5
    most = max(float(b.abs().max()) if b.numel() else 0, 1e-30) if scale is None else scale
    torch.testing.assert_close(a, b, rtol=0, atol=digits * most)


def is_orthonormal(q):
    near(q.mT @ q, torch.eye(q.shape[-1], dtype=q.dtype).expand(*q.shape[:-2], -1, -1), 1)


@pytest.mark.rotates(2)
@pytest.mark.parametrize("device", ["ref", "cpu"])
@pytest.mark.parametrize("kind", KINDS)
def test_qr_is_that_of_lapack(kind, device):
    x = matrix(kind)
    for mode in ("reduced", "complete"):
        q, r = run(lambda x, mode=mode: torch.linalg.qr(x, mode), x, device)
        near(q @ r, x)
        is_orthonormal(q)
        near(r, torch.linalg.qr(x, mode).R)
        assert torch.equal(r, r.triu())


@pytest.mark.rotates(2)
@pytest.mark.parametrize("device", ["ref", "cpu"])
@pytest.mark.parametrize("kind", KINDS)
def test_singular_values(kind, device):
    x = matrix(kind)
    k = min(x.shape[-2:])
    wanted = torch.linalg.svdvals(x)
    near(run(lambda x: (torch.linalg.svdvals(x),), x, device)[0], wanted)
    for full in (False, True):
        u, s, v = run(lambda x, full=full: torch.linalg.svd(x, full), x, device)
        near(s, wanted)
        is_orthonormal(u), is_orthonormal(v.mT)
        assert [u.shape[-1], v.shape[-2]] == ([x.shape[-2], x.shape[-1]] if full else [k, k])
        near((u[..., :k] * s[..., None, :]) @ v[..., :k, :], x)


@pytest.mark.rotates(2)
@pytest.mark.parametrize("device", ["ref", "cpu"])
@pytest.mark.parametrize("kind", ["square", "number", "zero", "equal", "uneven", "none", "large", "f64"])
@pytest.mark.parametrize("side", ["L", "U"])
def test_symmetric_eigenvalues(kind, device, side):
    x = matrix(kind)
    x = x[..., : min(x.shape[-2:]), : min(x.shape[-2:])]
    one = x.tril() if side == "L" else x.triu()
    whole = one + (one.tril(-1) if side == "L" else one.triu(1)).mT
    values, vectors = run(lambda x: torch.linalg.eigh(x, side), x, device)
    near(values, torch.linalg.eigvalsh(x, side), float(whole.abs().max()) * 6 if x.numel() else 1)
    is_orthonormal(vectors)
    near((vectors * values[..., None, :]) @ vectors.mT, whole, float(whole.abs().max()) * 6 + 1e-30 if x.numel() else 1)


def test_sizes_must_be_known():
    program = torch.export.export(Svd(), (torch.randn(4, 3),), dynamic_shapes=({0: torch.export.Dim("n", min=3, max=64)},))
    with pytest.raises(weft.UnsupportedError, match=r"E122.*needs matrices of known sizes"):
        weft.compile(archive(program), device="ref")


class Svd(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.svdvals(x)
