# SPDX-License-Identifier: Apache-2.0
"""Complex numbers, Fourier transforms and linear algebra: the answers of torch with an open batch, as archives and by
torch.compile."""

import io

import pytest
import torch
from torch.export import Dim

import weft
import weft.torch

BATCH = Dim("batch", min=1, max=32)


def compiled(model, inputs, shapes, device="cpu"):
    with torch.no_grad():
        program = torch.export.export(model.eval(), inputs, dynamic_shapes=shapes)
    file = io.BytesIO()
    torch.export.save(program, file)
    return weft.compile(file.getvalue(), device=device)


class Rotated(torch.nn.Module):
    """Rotary embedding as models of Meta write it."""

    def __init__(self):
        super().__init__()
        angles = torch.outer(torch.arange(32.0), 1 / 100 ** (torch.arange(4) / 4))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        turned = pairs * self.turns[: x.shape[1]].unsqueeze(0)
        return torch.view_as_real(turned).flatten(2) + turned.abs().sum(-1, keepdim=True)


class Spectrum(torch.nn.Module):
    """Computes the spectra of pieces of a signal, filters them, and transforms them back."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))

    def forward(self, x):
        z = torch.stft(x, 32, 8, window=self.window, return_complex=True)
        gain = torch.linspace(1, 0, 17).view(1, 17, 1)
        y = torch.istft(z * gain, 32, 8, window=self.window, length=x.shape[-1])
        return z.abs(), z.angle().cos(), y


class Filtered(torch.nn.Module):
    """A global filter, as in image models, and sums, concatenations and matrix products of complex numbers."""

    def forward(self, x, weight):
        z = torch.fft.rfft2(x, norm="ortho") * torch.view_as_complex(weight)
        y = torch.fft.irfft2(z + z.conj().flip(-1) * 0.5, s=x.shape[-2:], norm="ortho")
        both = torch.cat([z, z.mT.mT], 1)
        return y, torch.view_as_real(both @ both.mT), (z / (z + 2)).real, torch.fft.fftshift(z).imag


CASES = {
    "rotated": (Rotated, lambda b: (torch.randn(b, 6, 8),)),
    "spectrum": (Spectrum, lambda b: (torch.randn(b, 128),)),
    "filtered": (Filtered, lambda b: (torch.randn(b, 8, 8), torch.randn(8, 5, 2))),
}


@pytest.mark.rotates(3)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("way", ["ref", "cpu", "compile"])
def test_complex_numbers(name, way):
    kind, inputs = CASES[name]
    model = kind().eval()
    shapes = ({0: BATCH}, *[None] * (len(inputs(2)) - 1))
    if way == "compile":
        torch._dynamo.reset()
        weft.torch.placements.clear()
        run = torch.compile(model, backend="weft", dynamic=True, options={"device": "cpu"})
    else:
        run = compiled(model, inputs(2), shapes, way)
    for batch in (2, 5):
        x = inputs(batch)
        with torch.no_grad():
            got, wanted = run(*x), model(*x)
        for one, other in zip(got if isinstance(got, tuple) else [got], wanted if isinstance(wanted, tuple) else [wanted], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    if way == "compile":
        assert {p.why for p in weft.torch.placements} == {""}


def test_complex_tensors_cross_the_border():
    """Inputs and results are complex with torch.compile, and pairs of floats with an archive."""

    class Squared(torch.nn.Module):
        def forward(self, z):
            return z * z

    z = torch.randn(3, 4, dtype=torch.complex64)
    torch._dynamo.reset()
    fast = torch.compile(Squared(), backend="weft", options={"device": "cpu", "fullgraph": True})
    torch.testing.assert_close(fast(z), z * z)
    torch.testing.assert_close(fast(z.conj()), z.conj() * z.conj())
    run = compiled(Squared(), (z,), None)
    torch.testing.assert_close(torch.view_as_complex(run(torch.view_as_real(z))), z * z)


def test_unsupported_operators_on_complex_numbers_are_refused():
    class Sine(torch.nn.Module):
        def forward(self, z):
            return torch.sin(z)

    with pytest.raises(weft.UnsupportedError, match="aten.sin.default of complex numbers is not supported"):
        compiled(Sine(), (torch.randn(3, dtype=torch.complex64),), None)


class Solved(torch.nn.Module):
    def forward(self, a, b):
        square = a @ a.mT + torch.eye(4)
        low = torch.linalg.cholesky(square)
        return (torch.linalg.inv(square), torch.linalg.solve(square, b), torch.linalg.det(a), torch.linalg.slogdet(a)[1],
                torch.linalg.solve_triangular(low, b, upper=False), torch.cholesky_solve(b, low), torch.logdet(square))


@pytest.mark.parametrize("device", ["ref", "cpu"])
def test_linear_algebra(device):
    def inputs(batch):
        return torch.randn(batch, 4, 4), torch.randn(batch, 4, 3)

    run = compiled(Solved(), inputs(2), ({0: BATCH}, {0: BATCH}), device)
    for batch in (1, 5):
        x = inputs(batch)
        for got, wanted in zip(run(*x), Solved()(*x), strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-4)
