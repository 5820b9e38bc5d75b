# SPDX-License-Identifier: Apache-2.0
"""Small models of many operators, as archives of torch.export."""

import io

import torch
from torch import nn
from torch.export import Dim


class Encoder(nn.Module):
    """A model with attention, norms and views; two sizes are open."""

    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(17, 8), nn.LayerNorm(8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, ids):
        x = self.table(ids)
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4).unbind(0)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


class Pictures(nn.Module):
    """A model with a convolution, batch norm, pooling, and an activation in place."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4), nn.Linear(4, 5)

    def forward(self, x):
        y = nn.functional.relu(self.norm(self.conv(x)), inplace=True)
        y = nn.functional.max_pool2d(y, 3, 2, 1)
        return self.head(nn.functional.adaptive_avg_pool2d(y, 1).flatten(1)).softmax(-1)


class Counter(nn.Module):
    """A model with a buffer that is written through views."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 4))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.cache[:, 1:3].add_(x)
        self.cache[0].mul_(2)
        self.count += 1
        return self.cache.sum() + self.count


class Changes(nn.Module):
    """A model that writes tensors through views of views, and reads them through other views."""

    def forward(self, x):
        y = x.clone()
        row = y[1]
        y.t()[0].fill_(7)
        row[2:].copy_(torch.arange(2.0))
        y.view(-1)[::3].sub_(1)
        return y, row * 2, y.select(1, 2)


class Sizes(nn.Module):
    """A model with arithmetic on sizes, and the guards that torch derives from it."""

    def forward(self, x, y):
        half = x.view(x.shape[0] // 2, 2, -1)
        return torch.cat([half.sum(1), y[: x.shape[0] // 2]]), torch.arange(x.shape[0] + 1), x.new_ones(y.shape[0], 2)


class Indices(nn.Module):
    def forward(self, x, i):
        y = x[i, :, i] + x[:, i].sum(1)[i][:, :3]
        z = torch.scatter(x, 1, i.view(-1, 1, 1).expand(3, 1, 4), 2.5)
        z[i, 0] = -1.0
        values, places = torch.topk(x, 2, dim=1)
        return y, z, values, places, x.gather(2, places[..., :2])


class Branches(nn.Module):
    """A model with a branch and a loop whose conditions depend on data."""

    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))

        def more(i, total):
            return (total.sum() < 50) & (i < 20)

        def step(i, total):
            return i + 1, total + y.abs()

        i, total = torch.while_loop(more, step, (torch.zeros((), dtype=torch.int64), x.abs()))
        return y, i, total


class Masks(nn.Module):
    """A model with sizes that depend on data."""

    def forward(self, x, mask):
        y = x.clone()
        y[mask] = 0.5
        return x[mask], torch.masked_select(x, x > 0), torch.nonzero(mask), y


class Steps(nn.Module):
    """A model with recurrent layers, and a loop over rows."""

    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTM(4, 3, bidirectional=True), nn.GRU(6, 4, batch_first=True)

    def forward(self, x):
        from torch._higher_order_ops.scan import scan

        y, (_, cell) = self.lstm(x)
        z, _ = self.gru(y)
        last, sums = scan(lambda state, row: (state + row, state * row), torch.zeros_like(z[0]), z, dim=0)
        return z, cell, last, sums


class Waves(nn.Module):
    """A model with complex numbers and Fourier transforms."""

    def __init__(self):
        super().__init__()
        self.turns = nn.Buffer(torch.polar(torch.ones(5), torch.arange(5.0)))

    def forward(self, x):
        z = torch.fft.rfft(x) * self.turns
        return torch.fft.irfft(z.conj()), torch.view_as_real(z), z.abs()


class Quantised(nn.Module):
    """A product whose operands are quantised and dequantised, in the form that PT2E writes."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Buffer(torch.randint(-127, 127, (6, 8), dtype=torch.int8))
        self.scales, self.zeros = nn.Buffer(torch.rand(6) / 100), nn.Buffer(torch.zeros(6, dtype=torch.int64))

    def forward(self, x):
        import torch.ao.quantization.fx._decomposed

        ops = torch.ops.quantized_decomposed
        x = ops.dequantize_per_tensor(ops.quantize_per_tensor(x, 0.05, 3, 0, 255, torch.uint8), 0.05, 3, 0, 255, torch.uint8)
        weight = ops.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -128, 127, torch.int8)
        return nn.functional.linear(x, weight)


class Cached(nn.Module):
    """A model that keeps keys and values in a cache of fixed size."""

    def __init__(self):
        super().__init__()
        self.keys, self.values = nn.Buffer(torch.zeros(1, 2, 8, 4)), nn.Buffer(torch.zeros(1, 2, 8, 4))

    def forward(self, x, place):
        self.keys.index_copy_(2, place, x)
        self.values.index_copy_(2, place, x * 2)
        seen = torch.arange(8) <= place[-1]
        return nn.functional.scaled_dot_product_attention(x, self.keys, self.values, attn_mask=seen[None].expand(x.shape[2], -1))


def exported(model, inputs, shapes=None, strict=False):
    """Returns the exported program. With `strict`, it is traced by dynamo and decomposed by `run_decompositions({})`,
    which changes names in guards."""
    with torch.no_grad():
        program = torch.export.export(model.eval(), inputs, dynamic_shapes=shapes, strict=strict)
        return program.run_decompositions({}) if strict else program


def archive(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def examples():
    """Returns {name: (model, inputs, dynamic_shapes)}, with the same weights every time."""
    torch.manual_seed(7)
    batch, tokens, rows = Dim("batch", min=1, max=64), Dim("tokens", min=2, max=64), Dim.DYNAMIC
    return {
        "encoder": (Encoder(), (torch.randint(0, 17, (2, 6)),), ({0: batch, 1: tokens},)),
        "pictures": (Pictures(), (torch.randn(2, 3, 15, 17),), ({0: batch},)),
        "counter": (Counter(), (torch.randn(2, 2),), None),
        "changes": (Changes(), (torch.randn(3, 4),), None),
        "sizes": (Sizes(), (torch.randn(6, 4), torch.randn(5, 4)), ({0: rows}, {0: rows})),
        "branches": (Branches(), (torch.randn(3, 4) + 0.3,), None),
        "masks": (Masks(), (torch.randn(3, 4), torch.tensor([True, False, True])), None),
        "steps": (Steps(), (torch.randn(3, 2, 4),), None),
        "waves": (Waves(), (torch.randn(2, 8),), ({0: batch},)),
        "quantised": (Quantised(), (torch.randn(2, 8),), ({0: batch},)),
        "cached": (Cached(), (torch.randn(1, 2, 2, 4), torch.tensor([0, 1])), None),
        "indices": (Indices(), (torch.randn(3, 3, 4), torch.tensor([0, 2, 1])), None),
    }


def exported_archives():
    for name, (model, inputs, shapes) in examples().items():
        yield name, archive(exported(model, inputs, shapes))
