# SPDX-License-Identifier: Apache-2.0
"""Small models with features that the tests of single operators seldom have: writes through views, sizes that depend on
data, rare types and layouts, results in Python's containers."""

import collections

import torch
import torch.nn.functional as F
from torch import nn

Found = collections.namedtuple("Found", "boxes scores")


def model(forward, *parts, **buffers):
    """Returns a module that calls `forward`; `parts` become its submodules (`self.parts`), `buffers` its attributes."""

    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList(parts)
            for name, value in buffers.items():
                self.register_buffer(name, value)

        def forward(self, *args, **kwargs):
            return forward(self, *args, **kwargs)

    return Odd()


def floats(*sizes):
    return torch.randn(*sizes)


MODELS = {}


def case(*inputs, parts=lambda: (), buffers=lambda: {}, **options):
    """Registers a function as a model; each of `inputs` makes one input. Options: dynamic (sizes are open); loose (a
    wider tolerance, for narrow types); eager (the reason why torch.compile leaves a part in eager); export (the reason
    why the archive is refused)."""

    def note(forward):
        MODELS[forward.__name__] = (forward, inputs, parts, buffers, options)
        return forward

    return note


def made(name):
    """Returns (model, inputs, options), the same every time."""
    torch.manual_seed(11)
    forward, inputs, parts, buffers, options = MODELS[name]
    return model(forward, *parts(), **buffers()).eval(), tuple(make() for make in inputs), options


# ---- Writes in place ----


@case(lambda: floats(4, 6))
def views_of_views_are_written(self, x):
    y = x.clone()
    a = y[1:]
    b = a[:, ::2]
    b.mul_(2)
    c = b.t()
    c[1].zero_()
    y.view(2, 2, 6).transpose(0, 1)[1].add_(a[:2])
    return y, a, b


@case(lambda: floats(5, 5))
def slices_are_written_from_each_other(self, x):
    y = x.clone()
    y[1:] = y[:-1].clone()
    y[:, 0] += y[:, -1]
    y[::2, 1::2] = 7
    y[-1] = torch.arange(5)
    return y


@case(lambda: floats(3, 4))
def inputs_are_written(self, x):
    x.add_(1)
    x[0].clamp_(max=0)
    return x.sum()


@case(lambda: floats(12))
def strided(self, x):
    return x.as_strided((3, 2), (3, 1), 1) * 2, torch.as_strided(x, (4, 4), (1, 2)).sum(0)


@case(lambda: floats(20))
def strided_views(self, x):
    """Makes views by as_strided, whose offset is relative to the base memory, not to the view."""
    y = (x * 2)[6:]
    return y.as_strided((2, 3), (4, 1)), y.as_strided((2, 3), (4, 1), 7), y.view(7, 2)[1:].as_strided((2,), (5,))


@case(lambda: floats(20), eager="outside of its tensor", export="reads memory outside of its tensor")
def strided_before_the_view(self, x):
    return (x * 2)[6:].as_strided((2, 3), (4, 1), 2)


@case(lambda: floats(3, 3))
def views_in_place(self, x):
    """A view in place gives another form to y, not to earlier views of its memory."""
    y = x.clone()
    before = y[0]
    y.t_().unsqueeze_(0).transpose_(0, 1).squeeze_().mul_(2)
    y[0].add_(1)
    return before, y, y.swapaxes_(0, 1)


@case(lambda: torch.tensor([3, -2, 1, -1, 0]), lambda: torch.tensor([4, 3, -2, -3, 2]))
def whole_powers(self, x, n):
    return x**n, x**70, x.to(torch.int8) ** n, x.to(torch.uint8) ** n.abs().to(torch.uint8), 2 ** n.abs()


@case(lambda: torch.tensor([[5, 1, 6], [5, 6, 4]], dtype=torch.uint8), lambda: torch.tensor([[2, 5, 5], [9, 3, 1]], dtype=torch.uint8))
def bytes_in_sums(self, y, x):
    """Bytes wrap in differences, products and sums of two; sums over an axis are wider."""
    areas = torch.trapezoid(y, x), torch.cumulative_trapezoid(y, x), torch.trapz(y, dx=2)
    losses = F.margin_ranking_loss(x, y, x), F.relu6(y)
    return *areas, *losses, x.sum_to_size(2, 1), x.sum_to_size(2, 3), torch.einsum("ij->j", x)


@case(lambda: torch.tensor([1.0, float("nan"), float("inf"), -float("inf")]).half())
def narrow_numbers(self, x):
    return x.nan_to_num(), x.bfloat16().nan_to_num(2), x.nan_to_num(posinf=3)


@case(lambda: floats(6), lambda: torch.tensor([0, 2, 2, 5, 0]), lambda: floats(5))
def values_are_added_at_places(self, x, places, values):
    y = x.clone()
    y.index_put_((places,), values, accumulate=True)
    y.index_add_(0, places, values, alpha=2)
    return y, x.scatter_add(0, places, values), x.scatter_reduce(0, places, values, "amax", include_self=False)


@case(lambda: floats(4, 5), lambda: torch.randn(4, 5) > 0)
def masks_choose_and_write(self, x, mask):
    y = x.clone()
    y[mask] *= -1
    y[~mask] = y.mean()
    y.masked_fill_(mask & (x > 1), float("-inf"))
    z = x.clone()
    z.masked_scatter_(mask, torch.arange(20.0))
    return y, z, x[mask], x[mask.any(1)]


@case(lambda: floats(2, 3), buffers=lambda: {"total": torch.zeros(3), "calls": torch.zeros((), dtype=torch.int64)})
def buffers_are_written(self, x):
    self.total.add_(x.sum(0))
    self.calls += 1
    self.total[0] = self.calls
    return self.total / self.calls


@case(lambda: floats(3, 4))
def chunks_and_unbound_rows_are_written(self, x):
    y = x * 1
    a, b = y.chunk(2, 1)
    a.neg_()
    b.copy_(a)
    for i, row in enumerate(y.unbind(0)):
        row += i
    return y


@case(lambda: floats(2, 3), export=r"aten\.(add|mul)\.out is unknown")
def out_of_an_operator(self, x):
    y = torch.empty(3, 2)
    torch.mul(x.t(), 2, out=y)
    return y, torch.add(x, 1, out=torch.empty_like(x))


@case(lambda: torch.zeros(3, 4))
def fills(self, x):
    y = torch.full_like(x, 3).tril_()
    y.diagonal().zero_()
    z = x.new_full((2, 2), 5, dtype=torch.int32)
    return y, z, torch.ones_like(x, dtype=torch.bool).logical_not_(), x.new_tensor([1.5, 2])


# ---- Sizes that depend on data ----


@case(lambda: torch.tensor([0, 3, 0, 5, 6]))
def sizes_of_nonzero(self, x):
    (places,) = torch.nonzero(x, as_tuple=True)
    return places * 2, x[places].cumsum(0), torch.zeros(places.shape[0] + 1)


@case(lambda: torch.tensor([3, 1, 3, 2, 1]))
def sets_and_counts(self, x):
    values, back, counts = torch.unique(x, return_inverse=True, return_counts=True)
    return values, back, counts, torch.repeat_interleave(x, x)


@case(lambda: torch.tensor([3, 1, 3, 2, 1]), export="bincount")
def counts_of_numbers(self, x):
    return torch.bincount(x, minlength=5) + 1


@case(lambda: floats(4, 3), lambda: torch.tensor(2))
def sizes_from_numbers_of_tensors(self, x, n):
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= 4)
    return x[:k].sum(), torch.arange(k)


@case(lambda: floats(10, 4).abs().cumsum(1), lambda: torch.rand(10))
def best_boxes(self, boxes, scores):
    """Computes non-maximum suppression with a Python loop over ten boxes."""
    order = scores.argsort(descending=True)
    boxes = boxes[order]
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    over = shared / (area[:, None] + area[None] - shared) > 0.5
    keep = torch.ones(10, dtype=torch.bool)
    for i in range(10):
        keep = keep & ~(over[i] & keep[i] & (torch.arange(10) > i))
    kept = order[keep]
    return boxes[keep], scores[kept]


# ---- Control flow ----


@case(lambda: floats(3, 4), parts=lambda: (nn.Linear(4, 4), nn.Linear(4, 4)))
def a_branch_holds_layers(self, x):
    scale = x.mean()
    return torch.cond(x.sum() > 0, lambda x: self.parts[0](x) * scale, lambda x: self.parts[1](x).relu() - scale, (x,))


@case(lambda: floats(5, 3))
def a_scan_of_a_scan(self, x):
    from torch._higher_order_ops.scan import scan

    def step(state, row):
        inner, _ = scan(lambda s, v: (s + v, s * v), torch.zeros(()), row, dim=0)
        return state * 0.5 + inner, state.clone()

    return scan(step, torch.ones(()), x, dim=0)


@case(lambda: floats(3), lambda: torch.tensor(4))
def a_loop_of_a_branch(self, x, n):
    def step(i, y):
        return i + 1, torch.cond(y.sum() > 0, lambda y: y - 1, lambda y: y * -2, (y,))

    return torch.while_loop(lambda i, y: i < n, step, (torch.zeros((), dtype=torch.int64), x))


# ---- Rare types, sizes and layouts ----


@case(lambda: torch.tensor(2.5), lambda: torch.tensor(3))
def tensors_without_axes(self, x, n):
    return x * n, x.expand(2, 2), x.reshape(1, 1), torch.stack([x, x + 1]), n % 2 == 1, x.max(), n.float().softmax(0)


@case(lambda: torch.zeros(0, 4), lambda: floats(3, 4), parts=lambda: (nn.Linear(4, 2),))
def empty_tensors(self, x, y):
    return self.parts[0](x), x.sum(), x.sum(0), torch.cat([x, y]), x @ y.t(), x.prod(1), y[3:].mean(1), torch.cat([torch.zeros(0), y[0]])


@case(lambda: floats(2, 3, 8, 8).to(memory_format=torch.channels_last), parts=lambda: (nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)))
def pictures_in_channels_last(self, x):
    y = self.parts[1](self.parts[0](x)).relu()
    return y, y.permute(0, 2, 3, 1).reshape(2, -1), F.interpolate(y, scale_factor=2)


@case(lambda: floats(3, 4))
def flips_and_rolls(self, x):
    return x.flip(0), x.flip(0, 1)[1:], x.t().flip(1) + x.rot90().sum(), x.roll((1, -1), (0, 1))


@case(lambda: floats(3, 4).t(), lambda: floats(8, 3)[::2])
def inputs_with_strides(self, x, y):
    return x @ y.t(), x.flatten(), y.view(4, 3).sum(0), x + y


@case(lambda: floats(3, 4).double(), parts=lambda: (nn.Linear(4, 3).double(),))
def double_precision(self, x):
    return self.parts[0](x).exp().log1p(), torch.linalg.norm(x, dim=1), x.var(0), x.float() + x


@case(lambda: floats(3, 4).half(), parts=lambda: (nn.Linear(4, 3).half(), nn.LayerNorm(3).half()))
def half_precision(self, x):
    return self.parts[1](self.parts[0](x)).softmax(-1), x.sum(), x.cumsum(0)


@case(lambda: floats(3, 4), lambda: torch.tensor([True, False, True]))
def truth_values(self, x, keep):
    mask = x > 0
    return mask, mask.all(), mask.any(0), mask.sum(1), keep ^ mask[:, 0], ~keep, torch.isfinite(x), mask.float().argmax(1), mask == keep[:, None]


@case(lambda: torch.tensor([7, -7, 5]), lambda: torch.tensor([2, 2, -3]))
def whole_numbers(self, x, y):
    return x // y, x % y, torch.fmod(x, y), x / y, x**2, x << 1, x & y, torch.div(x, y, rounding_mode="trunc"), x.to(torch.uint8), -x, ~x


@case(lambda: torch.tensor([0, 2, 1]),
      buffers=lambda: {"table": torch.randint(-127, 127, (4, 6), dtype=torch.int8), "scale": torch.rand(4, 1)})
def embeddings_of_bytes(self, ids):
    return F.embedding(ids, self.table) * self.scale[ids], self.table[ids].to(torch.float16)


@case(lambda: floats(4, 6), lambda: floats(4, 6))
def complex_numbers(self, x, y):
    z = torch.complex(x, y)
    turned = torch.view_as_complex(torch.stack([x, y], -1)) * torch.polar(torch.ones(6), torch.arange(6.0))
    return (z * z.conj()).real, turned.imag, (z @ z.mH).abs(), torch.fft.ifft(torch.fft.fft(z)).real, z


@case(lambda: floats(2, 4), lambda: torch.randn(2, 4, dtype=torch.complex64))
def complex_inputs(self, x, z):
    return z * x, torch.view_as_real(z), (z - z.mean()).angle()


# ---- Results in Python's containers ----


@case(lambda: floats(2, 3))
def results_in_a_dictionary(self, x):
    return {"sum": x.sum(), "parts": [x[0], (x[1], None)], "size": x.shape[0], "name": "odd", "same": x}


@case(lambda: floats(2, 3), export="not saved")
def results_in_a_named_tuple(self, x):
    return Found(x + 1, scores=(x.sum(1), [x[0]]))


@case(lambda: floats(2, 3))
def a_result_twice(self, x):
    y = x * 2
    return y, y, y[0], x


@case(lambda: floats(2, 3))
def constants_as_results(self, x):
    return torch.arange(3), torch.eye(2), torch.tensor([1.0, 2.0]), x + torch.tensor(1)


@case(lambda: floats(4, 3), lambda: {"weights": torch.rand(4), "names": ("a", "b")})
def inputs_in_a_dictionary(self, x, given):
    return x * given["weights"][:, None] if "a" in given["names"] else x


# ---- Layers ----


def tied_layers():
    table = nn.Embedding(9, 4)
    head = nn.Linear(4, 9, bias=False)
    head.weight = table.weight
    return table, head


@case(lambda: torch.randint(0, 9, (2, 3)), parts=tied_layers)
def tied_weights(self, ids):
    return self.parts[1](self.parts[0](ids).tanh())


@case(lambda: floats(2, 5, 8), lambda: torch.tensor([[False] * 5, [False, False, False, True, True]]),
      parts=lambda: (nn.MultiheadAttention(8, 2, batch_first=True),))
def attention_with_masks(self, x, padding):
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    padding = torch.zeros(2, 5).masked_fill(padding, float("-inf"))
    return self.parts[0](x, x, x, key_padding_mask=padding, attn_mask=causal, average_attn_weights=False)


@case(lambda: floats(2, 5, 8), parts=lambda: (nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),))
def an_encoder_of_torch(self, x):
    return self.parts[0](x, is_causal=True, mask=nn.Transformer.generate_square_subsequent_mask(5))


@case(lambda: floats(2, 5, 8), lambda: torch.tensor([[False] * 5, [False, False, False, True, True]]),
      parts=lambda: (nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True, norm_first=True),
                     nn.MultiheadAttention(8, 4, batch_first=True)))
def an_encoder_with_a_mask(self, x, padding):
    y = self.parts[0](x, src_key_padding_mask=padding)
    return y, self.parts[1](y, y, y), self.parts[1](y, y, y, key_padding_mask=padding, average_attn_weights=False)


@case(lambda: floats(2, 5, 8), parts=lambda: (nn.Transformer(8, 2, 1, 1, 16, batch_first=True),))
def encoder_and_decoder_of_torch(self, x):
    return self.parts[0](x, x + 1, tgt_mask=nn.Transformer.generate_square_subsequent_mask(5), tgt_is_causal=True)


@case(lambda: torch.tensor([1, 2, 4, 5, 4, 3]), lambda: torch.tensor([0, 2, 2, 5]),
      parts=lambda: (nn.EmbeddingBag(6, 3, mode="mean"), nn.EmbeddingBag(6, 3, mode="sum", include_last_offset=True)))
def bags_of_embeddings(self, ids, starts):
    return self.parts[0](ids, starts), self.parts[1](ids, starts, per_sample_weights=torch.arange(6.0)), self.parts[0](ids.view(2, 3))


@case(lambda: floats(2, 6, 3), parts=lambda: (nn.GRU(3, 4, batch_first=True, bidirectional=True),), export="not exported")
def packed_sequences(self, x):
    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([6, 3]), batch_first=True)
    y, h = self.parts[0](packed)
    return nn.utils.rnn.pad_packed_sequence(y, batch_first=True)[0], h


@case(lambda: floats(6, 2, 3), lambda: (floats(1, 2, 4), floats(1, 2, 4)), parts=lambda: (nn.LSTM(3, 4),))
def a_state_goes_in_and_out(self, x, state):
    y, (h, c) = self.parts[0](x, state)
    return {"y": y, "state": (h, c)}


def watched_layers():
    layer = nn.Linear(4, 4)
    layer.register_forward_hook(lambda module, args, result: result * 2)
    layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    return (nn.Sequential(layer, nn.ReLU(), nn.Sequential(nn.Linear(4, 2), nn.Softplus())),)


@case(lambda: floats(3, 4), parts=watched_layers)
def layers_with_hooks(self, x):
    return self.parts[0](x)


@case(lambda: floats(3, 4), parts=lambda: (nn.Linear(4, 4), nn.LayerNorm(4)), export="wrap_with_autocast", loose=True)
def a_region_in_a_narrow_type(self, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = self.parts[0](x)
        z = self.parts[1](y @ y.t()[:, :3] @ y)
    return y, z, y.float() + x


@case(lambda: floats(2, 3, 9, 7), parts=lambda: (nn.ConvTranspose2d(3, 6, 3, 2, 1, 1, groups=3), nn.GroupNorm(3, 6), nn.PReLU(6)))
def layers_of_pictures(self, x):
    y = self.parts[2](self.parts[1](self.parts[0](x)))
    y = F.pad(y, (1, 2, 0, -1), mode="reflect") if y.shape[-1] > 3 else y
    y, places = F.max_pool2d(y, 2, return_indices=True)
    return y, places, F.max_unpool2d(y, places, 2, output_size=(17, 17)), F.pixel_shuffle(y[:, :4], 2), F.unfold(x, 3, stride=2)


@case(lambda: floats(2, 3, 8, 8), lambda: torch.rand(2, 5, 5, 2) * 2 - 1)
def pictures_are_sampled(self, x, grid):
    return (F.grid_sample(x, grid, align_corners=False, padding_mode="border"), F.interpolate(x, size=(5, 11), mode="bicubic"),
            F.adaptive_avg_pool2d(x, (3, 5)), F.local_response_norm(x, 2), F.avg_pool2d(x, 3, 2, ceil_mode=True, count_include_pad=False))


@case(lambda: floats(2, 4, 6), lambda: floats(4, 3, 6), lambda: floats(2))
def sums_over_letters(self, x, y, z):
    return torch.einsum("bij,ikj->bik", x, y), torch.einsum("b,b...->...", z, x), torch.tensordot(x, y, ([1, 2], [0, 2])), torch.einsum("bii->bi", x[:, :, :4])


@case(lambda: floats(3, 7))
def orders(self, x):
    values, places = x.sort(dim=1, descending=True, stable=True)
    return values, places, x.median(1).values, x.kthvalue(2, 1).values, x.quantile(0.3, 1), x.quantile(0.3, keepdim=True), torch.searchsorted(values.flip(1).contiguous(), x), x.cummax(1).values, x.histc(4, -1, 1)


@case(lambda: floats(3, 5), lambda: torch.tensor([1, 0, 4]))
def losses(self, x, y):
    return F.cross_entropy(x, y, label_smoothing=0.1), F.nll_loss(x.log_softmax(1), y, reduction="none"), F.smooth_l1_loss(x, x.roll(1)), F.binary_cross_entropy_with_logits(x, x.sigmoid())


@case(lambda: floats(2, 6, 4), lambda: torch.tensor([6, 3]))
def lengths_become_masks(self, x, lengths):
    keep = torch.arange(x.shape[1])[None] < lengths[:, None]
    mean = (x * keep[..., None]).sum(1) / lengths[:, None]
    last = x.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, x.shape[2])).squeeze(1)
    return mean, last, x.masked_fill(~keep[..., None], -1e9).amax(1)


@case(lambda: floats(6, 8), parts=lambda: (nn.Linear(8, 4), *(nn.Linear(8, 8) for _ in range(4))))
def experts(self, x):
    weights, chosen = self.parts[0](x).softmax(-1).topk(2)
    y = torch.zeros_like(x)
    for i, expert in enumerate(list(self.parts)[1:]):
        rows, places = torch.where(chosen == i)
        y.index_add_(0, rows, expert(x[rows]) * weights[rows, places, None])
    return y


@case(lambda: floats(4, 3), dynamic=True)
def a_size_of_one(self, x):
    return x[:1].expand(x.shape[0], -1) + x, x.unsqueeze(0).repeat(1, 1, 2).squeeze(), x.sum(0, keepdim=True)


@case(lambda: floats(4, 3), dynamic=True)
def sizes_as_numbers(self, x):
    n = x.shape[0]
    return x.sum() / n, x.view(-1, n).shape[0], torch.linspace(0, 1, n), n * 2, float(n) ** 0.5 * x


@case(lambda: floats(2, 8), parts=lambda: (nn.utils.parametrizations.weight_norm(nn.Linear(8, 4)),
                                            nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)).eval()))
def parametrised_weights(self, x):
    return self.parts[1](self.parts[0](x))


@case(lambda: floats(3, 3))
def matrices(self, x):
    a = x @ x.t() + 3 * torch.eye(3)
    return torch.logdet(a), torch.cholesky_inverse(a), torch.linalg.eigvalsh(a), torch.linalg.svdvals(x), a.trace(), torch.kron(x, x)


@case(lambda: floats(3, 3), eager="with_effects")
def matrices_that_torch_checks(self, x):
    """Inverts and solves. torch raises an error for a singular matrix; eager keeps that check."""
    a = x @ x.t() + 3 * torch.eye(3)
    return torch.linalg.inv(a), torch.linalg.cholesky(a), torch.linalg.solve(a, x)


@case(lambda: floats(3, 3), eager="matrix_exp", export="matrix_exp")
def what_weft_lacks(self, x):
    return torch.matrix_exp(x * 2) + 1


@case(lambda: floats(4, 6, 8), lambda: floats(4, 6, 6), dynamic=True)
def biases_of_heads(self, x, bias):
    """Adds a bias with three axes to scores with four. Its first axis means heads, although the batch has the same
    size."""
    q = x.unflatten(-1, (4, 2)).transpose(1, 2)
    return ((q @ q.transpose(-2, -1)) * 0.5 + bias).softmax(-1) @ q


@case(lambda: floats(3, 4), lambda: torch.tensor([[0, 2], [2, 2]]), buffers=lambda: {"table": 3 * torch.randn(4, 5)})
def rows_of_most_length(self, x, ids):
    return F.embedding(ids, self.table.clone(), max_norm=1.5), torch.i0(x), torch.special.i1e(x), torch.special.i0e(x), torch.special.i1(x)


@case(lambda: floats(3, 4))
def without_autocast(self, x):
    with torch.autocast("cpu", enabled=False):
        y = x.float() @ x.float().t()
    return y.relu()


@case(lambda: floats(2, 50), buffers=lambda: {"window": torch.hann_window(16)})
def spectra(self, x):
    z = torch.stft(x, 16, 8, window=self.window, return_complex=True)
    return z.abs().pow(2).clamp(min=1e-10).log10(), torch.istft(z, 16, 8, window=self.window, length=50)


@case(lambda: floats(3, 4))
def graph_breaks(self, x):
    y = x * 2
    if y.sum() > 1e9:  # torch.compile ends the graph here; torch.export refuses
        y = y - 1
    return y.relu() + 1


MODELS["graph_breaks"][-1]["export"] = "not exported"
