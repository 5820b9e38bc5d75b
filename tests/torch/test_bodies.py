# SPDX-License-Identifier: Apache-2.0
"""Operators with bodies, and recurrent networks with an open batch, give the answers of torch."""

import io

import pytest
import torch
from torch.export import Dim
from torch._higher_order_ops.map import map as over_rows
from torch._higher_order_ops.scan import scan

import weft


def compiled(model, inputs, shapes=None, device="cpu"):
    with torch.no_grad():
        program = torch.export.export(model.eval(), inputs, dynamic_shapes=shapes)
    file = io.BytesIO()
    torch.export.save(program, file)
    return weft.compile(file.getvalue(), device=device)


class Scanned(torch.nn.Module):
    def forward(self, x, h):
        def step(state, row):
            state = torch.tanh(state + row)
            return state, (state * 2, row.sum())

        last, rows = scan(step, h, x, dim=0)
        return last, *rows


class Mapped(torch.nn.Module):
    def forward(self, x, y):
        return over_rows(lambda row, whole: torch.sin(row) @ whole, x, y)


@pytest.mark.parametrize("device", ["ref", "cpu"])
def test_scan_and_map(device):
    run = compiled(Scanned(), (torch.randn(5, 3), torch.randn(3)), device=device)
    x, h = torch.randn(5, 3), torch.randn(3)
    for got, wanted in zip(run(x, h), Scanned()(x, h), strict=True):
        torch.testing.assert_close(got, wanted)
    run = compiled(Mapped(), (torch.randn(4, 3), torch.randn(3, 2)), device=device)
    x, y = torch.randn(4, 3), torch.randn(3, 2)
    torch.testing.assert_close(run(x, y), Mapped()(x, y))


class Network(torch.nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.net = kind(5, 4, **options)

    def forward(self, x):
        return torch.utils._pytree.tree_leaves(self.net(x))


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True}, {"bias": False}])
def test_recurrent_networks(kind, options):
    model = Network(kind, **options).eval()  # torch.export fixes the number of steps
    axis = 0 if options.get("batch_first") else 1
    run = compiled(model, (torch.randn(3, 3, 5),), ({axis: Dim("batch", min=2, max=32)},))
    for batch in (2, 9):
        x = torch.randn(batch, 3, 5) if axis == 0 else torch.randn(3, batch, 5)
        with torch.no_grad():
            for got, wanted in zip(run(x), model(x), strict=True):
                torch.testing.assert_close(got, wanted)


def test_a_diagonal_is_written_through():
    class Filled(torch.nn.Module):
        def forward(self, x):
            y = x.clone()
            y.diagonal(1, -2, -1).mul_(3)
            return y, y.diagonal(-1, 0, 1)

    run = compiled(Filled(), (torch.randn(4, 6),), device="ref")
    x = torch.randn(4, 6)
    for got, wanted in zip(run(x), Filled()(x), strict=True):
        torch.testing.assert_close(got, wanted)


def test_floor_division_of_the_least_integer():
    class Divided(torch.nn.Module):
        def forward(self, x, y):
            return x // y

    run = compiled(Divided(), (torch.ones(3, dtype=torch.int32), torch.ones(3, dtype=torch.int32)), device="ref")
    least = torch.iinfo(torch.int32).min
    x, y = torch.tensor([least, least, -7], dtype=torch.int32), torch.tensor([3, -3, 2], dtype=torch.int32)
    assert run(x, y).tolist() == [least // 3, least // -3, -4]
