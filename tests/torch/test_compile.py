# SPDX-License-Identifier: Apache-2.0
"""torch.compile(backend="weft"): answers equal eager's, one compile serves several sizes, and the remaining nodes run
in eager."""

import copy
import math
import sys
from pathlib import Path

import pytest
import torch
from archives import Encoder, Pictures
from torch._dynamo.utils import counters
from torch.nn import functional as F

sys.path.append(str(Path(__file__).resolve().parents[1] / "amdemu"))
import emulated

import weft
import weft.torch


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    counters.clear()
    weft.torch.placements.clear()


def run(model, *inputs, **options):
    with torch.no_grad():
        return torch.compile(model, backend="weft", options={"device": "cpu", **options})(*inputs)


def test_the_whole_graph_runs_on_weft():
    model, x = Pictures().eval(), torch.randn(2, 3, 15, 17)
    torch.testing.assert_close(run(model, x, fullgraph=True), model(x).detach(), rtol=1e-4, atol=1e-5)
    (placement,) = weft.torch.placements
    assert placement.on_weft == placement.total > 3 and str(placement).endswith("nodes on weft")


def test_one_compile_for_several_sizes():
    model = Encoder().eval()
    fast = torch.compile(model, backend="weft", dynamic=True, options={"device": "cpu", "fullgraph": True})
    with torch.no_grad():
        for batch, tokens in ((2, 5), (3, 7), (8, 33)):
            ids = torch.randint(0, 17, (batch, tokens))
            torch.testing.assert_close(fast(ids), model(ids), rtol=1e-4, atol=1e-5)
    assert len(weft.torch.placements) == 1


@pytest.mark.parametrize("in_parts", [False, True])
def test_asserted_values(in_parts):
    """Assertions on tensors are checked in each call. They do not stay in eager; with `in_parts` another node stays."""

    def f(x):
        torch._assert_async((x > 0).all(), "x is positive")
        torch._assert_async(x.isfinite().all(), "x is finite")
        return x.log().sum(0), torch.linalg.ldl_factor(x)[0] if in_parts else x + 1

    fast = torch.compile(f, backend="weft", dynamic=True, fullgraph=True)
    with torch.no_grad():
        for side in (3, 5):
            x = torch.rand(side, side) + 1
            torch.testing.assert_close(fast(x), f(x))
        for value, message in ((-1.0, "x is positive"), (math.inf, "x is finite")):
            x[1, 2] = value
            with pytest.raises(RuntimeError, match=message):
                fast(x)
            x[1, 2] = 1
            torch.testing.assert_close(fast(x), f(x))
    assert [placement.on_weft == placement.total for placement in weft.torch.placements] == [not in_parts]


def test_only_asserted_values():
    def f(x):
        torch._assert_async(x, "x holds")

    fast = torch.compile(f, backend="weft")
    with torch.no_grad():
        fast(torch.tensor(True))
        with pytest.raises(RuntimeError, match="x holds"):
            fast(torch.tensor(False))


def test_quotients_of_open_sizes():
    """Quotients of open sizes are rounded to sizes. As floats they are clamped, multiplied with tensors and added to
    tensors."""

    def f(x):
        high, wide = x.shape[2:]
        y = F.pad(x, (0, math.ceil(high / 2), 0, math.floor(wide / 3)))
        return y * max(high / wide, 1.0) + min(wide / high, 2.5) - float(high) * 0.5 + torch.arange(high).sum() * (wide / 3)

    fast = torch.compile(f, backend="weft", dynamic=True, fullgraph=True)
    with torch.no_grad():
        for sizes in ((2, 3, 7, 9), (2, 4, 8, 5), (3, 3, 12, 12)):
            x = torch.randn(sizes)
            torch.testing.assert_close(fast(x), f(x))


PICTURE = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.MaxPool2d(2), torch.nn.Upsample(scale_factor=2),
                              torch.nn.Upsample(scale_factor=1.5, mode="bilinear"))
WORDS = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 16), torch.nn.Hardtanh())


@pytest.mark.parametrize("module, sizes", [(PICTURE, (1, 3, 16, 16)), (WORDS, (2, 5, 16))], ids=["picture", "words"])
def test_the_graph_has_the_kernels_of_an_archive(module, sizes, monkeypatch):
    """torch lowers linear layers, resizes and max pooling differently in a compiled graph than in an exported one; Weft
    uses the same kernels for both."""
    module, x = copy.deepcopy(module).eval().half(), torch.randn(sizes).half()
    models, compile_ = [], weft.compile
    monkeypatch.setattr(weft, "compile", lambda *given, **options: models.append(compile_(*given, **options)) or models[-1])
    run(module, x, fullgraph=True)
    with torch.no_grad():
        models.append(weft.torch.from_torch(torch.export.export(module, (x,)), device="cpu"))
    kernels = [[step["kernel"].rpartition("_")[0] for step in model.report()["steps"]] for model in (models[0], models[-1])]
    assert kernels[0] == kernels[1]


def test_operators_that_weft_lacks_run_in_eager():
    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            y = self.linear(x).relu() + 1
            return torch.linalg.ldl_factor(y @ y.mT).LD.abs().sum(-1) * 2

    model, x = Mixed().eval(), torch.randn(4, 4)
    torch.testing.assert_close(run(model, x), model(x).detach(), rtol=1e-4, atol=1e-5)
    (placement,) = weft.torch.placements
    assert 4 <= placement.on_weft < placement.total and "ldl_factor" in placement.why
    torch._dynamo.reset()
    with pytest.raises(Exception, match="E120(.|\n)*ldl_factor"):
        run(model, x, fullgraph=True)


def test_writes_to_a_tensor_do_not_change_a_constant():
    memory = torch.arange(8.0)
    for given in memory[2:6], memory[::2], torch.nn.Parameter(memory[:4]):
        wanted = given.detach().clone()
        graph = weft.Graph("g")
        graph.output("y", graph.append("mul", graph.input("x", "f32[4]"), graph.constant(given)))
        model = graph.compile(device="cpu")
        memory.fill_(-1)
        assert torch.equal(model(torch.ones(4)), wanted)
        memory.copy_(torch.arange(8.0))


@pytest.mark.parametrize("options", [{}, {"freeze": False}, {"guard_filter_fn": torch.compiler.skip_guard_on_inbuilt_nn_modules_unsafe}])
def test_parameters_that_change_are_read_again(options):
    model, x = torch.nn.Linear(3, 3).eval(), torch.randn(2, 3)
    torch._dynamo.reset()
    fast = torch.compile(model, backend="weft", options={"device": "cpu", **options})
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x))
        model.weight.mul_(2)
        torch.testing.assert_close(fast(x), model(x))
        model.bias.data = torch.ones(3)
        torch.testing.assert_close(fast(x), model(x))
        model.weight = torch.nn.Parameter(torch.randn(3, 3))
        torch.testing.assert_close(fast(x), model(x))


def test_buffers_and_inputs_that_change():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x):
            self.total += x
            x.mul_(2)
            return self.total * x

    model, eager = Counter().eval(), Counter().eval()
    fast = torch.compile(model, backend="weft", options={"device": "cpu"})
    for _ in range(3):
        x = torch.randn(3)
        y = x.clone()
        with torch.no_grad():
            torch.testing.assert_close(fast(x), eager(y))
        torch.testing.assert_close(x, y)
        torch.testing.assert_close(model.total, eager.total)
    assert {placement.why for placement in weft.torch.placements} == {""}


def test_training_runs_in_eager():
    model, x = torch.nn.Linear(3, 1), torch.randn(5, 3)
    fast = torch.compile(model, backend="weft", options={"device": "cpu"})
    fast(x).sum().backward()
    torch.testing.assert_close(model.weight.grad, x.sum(0, keepdim=True))
    assert weft.torch.placements == []


def test_unknown_options_are_refused():
    with pytest.raises(Exception, match="backend weft has no option 'speed'"):
        run(torch.nn.ReLU(), torch.ones(2), speed=9)


def test_from_torch():
    model, x = Pictures().eval(), torch.randn(2, 3, 15, 17)
    with torch.no_grad():
        run = weft.torch.from_torch(torch.export.export(model, (x,)), device="cpu")
        torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)


def test_a_region_with_autocast_is_saved_as_conversions(tmp_path):
    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(8, 8)

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = self.inner(x)
            return y.float() + x

    model, x = Mixed().eval(), torch.randn(2, 8)
    with torch.no_grad():
        weft.torch.save(torch.export.export(model, (x,), strict=False), tmp_path / "mixed.pt2")
        torch.testing.assert_close(weft.compile(tmp_path / "mixed.pt2")(x), model(x), rtol=2e-2, atol=2e-2)


def test_types_that_numpy_lacks():
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).bfloat16().eval(), torch.randn(2, 8).bfloat16()
    got = run(model, x, fullgraph=True)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got, model(x).detach(), rtol=2e-2, atol=1e-2)


def test_operators_that_weft_lacks_are_decomposed_by_torch():
    class Turned(torch.nn.Module):
        def forward(self, x, theta):
            grid = torch.nn.functional.affine_grid(theta, [2, 3, 5, 5], align_corners=False)
            return torch.nn.functional.grid_sample(x, grid, align_corners=False) * 2

    x, theta = torch.randn(2, 3, 7, 7), torch.randn(2, 2, 3) * 0.3
    got = run(Turned(), x, theta, fullgraph=True)
    torch.testing.assert_close(got, Turned()(x, theta), rtol=1e-4, atol=1e-5)
    (placement,) = weft.torch.placements
    assert placement.on_weft == placement.total > 3


def test_decompositions_that_write_to_their_own_tensors():
    """torch decomposes padding into a new tensor and a copy to a part of it; the model itself has no such tensor."""
    x = torch.randn(3, 4, 5)

    def padded(x):
        return torch.fft.fft2(x, s=(3, 10)), torch.nn.functional.pad(torch.complex(x, x), (2, 1, 1, 0), value=1) * 2

    for got, wanted in zip(run(padded, x), padded(x), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_sizes_that_data_decide_in_one_graph():
    def chosen(x, n):
        return torch.nonzero(x > 0) * 2, x[x > 0].cumsum(0), torch.arange(n.item()).float() + 1

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True), torch.no_grad():
        fast = torch.compile(chosen, backend="weft", options={"device": "cpu"})
        for length, n in ((9, 4), (9, 7), (9, 2)):
            x, n = torch.randn(length), torch.tensor(n)
            for got, wanted in zip(fast(x, n), chosen(x, n), strict=True):
                torch.testing.assert_close(got, wanted)
    (placement,) = weft.torch.placements
    assert placement.on_weft == placement.total > 5, placement


ON_THE_CPU = """
import torch, weft.torch
model = torch.nn.Linear(8, 8).eval()
with torch.no_grad():
    torch.compile(model, backend="weft", options={"fullgraph": True, **%r})(torch.ones(2, 8))
"""


@pytest.mark.rotates(2)
@pytest.mark.parametrize("options, uses_gpu", [({}, False), ({"device": "auto"}, True)], ids=["default", "auto"])
def test_tensors_of_the_cpu_beside_a_gpu(options, uses_gpu, tmp_path):
    """A graph runs on the device of its tensors, unless the options name another device."""
    done, kernels = emulated.counted("gfx1100", tmp_path, sys.executable, "-c", ON_THE_CPU % options)
    assert done.returncode == 0, done.stderr[-2000:]
    assert bool(kernels) == uses_gpu


def test_results_on_another_device():
    def made(x):
        return x + 1, torch.ones(2, device="meta"), x.new_zeros(3, device="meta")

    x = torch.randn(2)
    got = run(made, x)
    torch.testing.assert_close(got[0], x + 1)
    assert [v.device.type for v in got] == ["cpu", "meta", "meta"]


def test_results_lie_in_memory_as_in_eager():
    class Turned(torch.nn.Module):
        def forward(self, x):
            y = (x.transpose(1, 2) * 2).relu()
            return y, torch.linalg.ldl_factor(y.transpose(1, 2).reshape(-1, 6).T @ y.transpose(1, 2).reshape(-1, 6)).LD.abs(), y.transpose(1, 2).view(-1)

    x = torch.randn(2, 3, 6)
    for got, wanted in zip(run(Turned(), x), Turned()(x), strict=True):
        assert got.stride() == wanted.stride()
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.rotates(2)
@pytest.mark.parametrize("form", ["flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention"])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_as_torch_lowers_it_for_a_device(form, causal):
    """These operators use each key head for several query heads, and return further results that inference does not
    use."""
    op = getattr(torch.ops.aten, f"_scaled_dot_product_{form}")
    has_mask = any(argument.name.startswith("attn_") for argument in op.default._schema.arguments)
    q, k, v = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8)
    mask = torch.randn(5, 5) if has_mask and not causal else None

    class Attended(torch.nn.Module):
        def forward(self, q, k, v, mask):
            if "for_cpu" in form:
                return op(q, k, v, is_causal=causal, attn_mask=mask)[0]
            bias = () if form == "flash_attention" else (mask, False)
            return op(q, k, v, *bias, 0.0, causal, scale=0.5)[0] + 1

    fast = run(Attended(), q, k, v, mask, fullgraph=True)
    scale, added = (None, 0) if "for_cpu" in form else (0.5, 1)
    attended = torch.nn.functional.scaled_dot_product_attention
    wanted = attended(q, k, v, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=True) + added
    torch.testing.assert_close(fast, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("mask", ["all", "causal", "window", "documents"])
@pytest.mark.parametrize("bias", [False, True])
def test_flex_attention(mask, bias, tmp_path):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    of_token = torch.tensor([0] * 9 + [1] * 11)
    rules = {
        "causal": lambda b, h, i, j: i >= j,
        "window": lambda b, h, i, j: (i - j).abs() < 4,
        "documents": lambda b, h, i, j: of_token[i] == of_token[j],
    }

    class Attended(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.slopes = torch.nn.Parameter(torch.rand(4))
            self.blocks = None if mask == "all" else create_block_mask(rules[mask], None, None, 20, 20, device="cpu")

        def forward(self, q, k, v):
            def score(s, b, h, i, j):
                return s + (j - i) * self.slopes[h]

            return flex_attention(q, k, v, score_mod=score if bias else None, block_mask=self.blocks, enable_gqa=True)

    q, k, v = torch.randn(2, 4, 20, 8), torch.randn(2, 2, 20, 8), torch.randn(2, 2, 20, 8)
    model = Attended().eval()
    with torch.no_grad():
        wanted = model(q, k, v)
    torch.testing.assert_close(run(model, q, k, v, fullgraph=True), wanted, rtol=1e-4, atol=1e-5)
    (placement,) = weft.torch.placements
    assert placement.on_weft == placement.total > 3
    batches = ({0: torch.export.Dim.AUTO},) * 3
    with torch.no_grad():
        program = torch.export.export(model, (q, k, v), dynamic_shapes=batches)
    weft.torch.save(program, tmp_path / "flex.pt2")
    archive = weft.compile(tmp_path / "flex.pt2")
    for n in 2, 3:
        q, k, v = torch.randn(n, 4, 20, 8), torch.randn(n, 2, 20, 8), torch.randn(n, 2, 20, 8)
        with torch.no_grad():
            wanted = model(q, k, v)
        torch.testing.assert_close(archive(q, k, v), wanted, rtol=1e-4, atol=1e-5)


def test_flex_attention_whose_blocks_are_made_in_the_model(tmp_path):
    """The model calls create_block_mask, which adds nodes of vmap to the graph; the lengths are open."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    class Attended(torch.nn.Module):
        def forward(self, q, k, v):
            blocks = create_block_mask(lambda b, h, i, j: i >= j, None, None, q.shape[2], k.shape[2], device="cpu")
            return flex_attention(q, k, v, block_mask=blocks) + flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * (1 + h))

    model = Attended().eval()
    open_sizes = ({0: torch.export.Dim.AUTO, 2: torch.export.Dim.AUTO},) * 3
    with torch.no_grad():
        program = torch.export.export(model, tuple(torch.randn(2, 4, 20, 8) for _ in range(3)), dynamic_shapes=open_sizes)
    # from_torch makes torch derive further guards on the program's sizes, which torch writes into the archive.
    weft.torch.from_torch(program)
    weft.torch.save(program, tmp_path / "flex.pt2")
    archive = weft.compile(tmp_path / "flex.pt2")
    for n, length in (2, 20), (3, 33):
        q, k, v = (torch.randn(n, 4, length, 8) for _ in range(3))
        with torch.no_grad():
            wanted = model(q, k, v)
        torch.testing.assert_close(archive(q, k, v), wanted, rtol=1e-4, atol=1e-5)
    # The export assumed that all keys are in one block of 128, so 200 keys are refused.
    with pytest.raises(weft.Error, match="E31[12]"):
        archive(torch.randn(2, 4, 20, 8), *(torch.randn(2, 4, 200, 8) for _ in range(2)))


def test_regions_that_the_model_marks_once():
    """A region of torch.compiler.nested_compile_region is called twice; all of its nodes run on Weft."""

    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.up = torch.nn.Linear(6, 6)

        def forward(self, x):
            @torch.compiler.nested_compile_region
            def block(x):
                return self.up(x).relu() + x

            return block(block(x))

    model, x = Twice().eval(), torch.randn(3, 6)
    with torch.no_grad():
        wanted = model(x)
    torch.testing.assert_close(run(model, x, fullgraph=True), wanted, rtol=1e-4, atol=1e-5)
    (placement,) = weft.torch.placements
    assert placement.on_weft == placement.total > 0


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_results_that_weft_does_not_make(place):
    """A solve that also returns factors and error codes stays in torch if the factors (results 1 and 2) are read,
    because Weft does not compute them."""

    class Solved(torch.nn.Module):
        def forward(self, a, b):
            results = torch.ops.aten._linalg_solve_ex.default(a, b)
            return results[0] + 1, results[place] + 1

    a, b = torch.randn(4, 4) + 4 * torch.eye(4), torch.randn(4, 2)
    for got, wanted in zip(run(Solved(), a, b), Solved()(a, b), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    (placement,) = weft.torch.placements
    assert (placement.why == "") == (place in (0, 3)), placement


def test_inverses_from_triangles():
    class Inverses(torch.nn.Module):
        def forward(self, l):
            return torch.cholesky_inverse(l), torch.cholesky_inverse(l.mT, upper=True)

    l = torch.randn(5, 5).tril() + 4 * torch.eye(5)
    for got, wanted in zip(run(Inverses(), l, fullgraph=True), Inverses()(l), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_sums_in_both_orders_have_one_kernel():
    """A residual block may add its shortcut as the first or as the second operand; both forms use one kernel."""
    parts = [torch.nn.Conv2d(16, 16, 3 if i < 2 else 1, padding=int(i < 2)).eval() for i in range(4)]

    def kernels(f):
        class Model(torch.nn.Module):
            def forward(self, x):
                left, right = parts[0](x).relu(), parts[1](x).relu()
                return f(parts[2](left), parts[3](left), right)

        x = torch.randn(1, 16, 9, 9)
        with torch.no_grad():
            program = weft.torch.from_torch(torch.export.export(Model().eval(), (x,)), device="cpu")
            for got, wanted in zip(program(x), Model()(x), strict=True):
                torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
        return [step["kernel"] for step in program.steps()]  # a name ends with a hash of the source

    assert kernels(lambda a, b, r: ((a + r).relu(), (r + b).relu())) == kernels(lambda a, b, r: ((a + r).relu(), (b + r).relu()))
    assert kernels(lambda a, b, r: ((a * r).relu(), (r * b).relu())) == kernels(lambda a, b, r: ((a * r).relu(), (b * r).relu()))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "bilinear antialias", "linear", "trilinear"])
@pytest.mark.parametrize("how", ["factor", "recomputed factor", "size", "size of another"])
def test_resizes_of_open_sizes(mode, how):
    def f(x, z):
        options = {"mode": mode.split()[0], "antialias": "antialias" in mode}
        if how == "factor":
            return torch.nn.functional.interpolate(x, scale_factor=1.2, **options)
        if how == "recomputed factor":
            return torch.nn.functional.interpolate(x, scale_factor=1.2, recompute_scale_factor=True, **options)
        size = [2 * n for n in x.shape[2:]] if how == "size" else z.shape[2:]
        return torch.nn.functional.interpolate(x, size=size, **options)

    torch._dynamo.reset()
    fast = torch.compile(f, backend="weft", dynamic=True, options={"device": "cpu", "fullgraph": True})
    rank = {"linear": 1, "trilinear": 3}.get(mode, 2)
    for sizes in (6, 7, 5), (3, 4, 9), (4, 3, 3):
        x, z = torch.randn(1, 2, *sizes[:rank]), torch.randn(1, 2, *(n + 3 for n in sizes[:rank]))
        torch.testing.assert_close(fast(x, z), f(x, z), rtol=1e-4, atol=1e-4)


def test_results_that_are_views_at_open_places():
    """torch.compile takes the offset and strides of such results from the tensors of the graph."""

    def f(x, y, n):
        y.add_(1)
        return x[:, n:], x.narrow(0, 1, n).mT, x[:1].expand(n, *x.shape), x.sum() + n, y[n:], (y * n)[n:]

    fast = torch.compile(f, backend="weft", dynamic=True, options={"device": "cpu", "fullgraph": True})
    for n in 2, 3:
        x, y, z = torch.randn(5, 6), torch.randn(7), torch.randn(7)
        z.copy_(y)
        with torch.no_grad():
            got, wanted = fast(x, y, n), f(x, z, n)
        for value, reference in zip((*got, y), (*wanted, z), strict=True):
            torch.testing.assert_close(value, reference)
        assert [v.data_ptr() == x.data_ptr() for v in got] == [False, False, True, False, False, False]
        assert got[0].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_integers_below_0():
    def f(x, n, at):
        return x * n, x.roll(n, 1), x.tril(n), F.pad(x, (n, 4)), x[:, : n + 6] // n, x.narrow(1, at, 1)

    fast = torch.compile(f, backend="weft", dynamic=True, options={"device": "cpu"})
    for n in 2, -2, -3, 5:
        x = torch.randn(5, 6)
        with torch.no_grad():
            for value, reference in zip(fast(x, n, 3), f(x, n, 3), strict=True):
                torch.testing.assert_close(value, reference)
