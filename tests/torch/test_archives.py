# SPDX-License-Identifier: Apache-2.0
"""Programs of torch.export, run by Weft from the archive alone: answers equal torch's, and damaged archives are
refused."""

import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch
from archives import archive, examples, exported
from places import BUILD

import weft

NAMES = list(examples())


def outputs_of(model, inputs):
    """Returns the results of a compiled model, without the new values of buffers and inputs."""
    got = model(*inputs)
    got = got if isinstance(got, tuple) else (got,)
    return [value for value, port in zip(got, model.outputs) if not port.name.endswith(".next")]


def compare(got, wanted):
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    assert len(got) == len(wanted)
    for value, reference in zip(got, wanted):
        torch.testing.assert_close(torch.as_tensor(value), reference.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.rotates(3)
@pytest.mark.parametrize("device, strict", [("cpu", False), ("ref", False), ("cpu", True)])
@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_of_torch(name, device, strict):
    model, inputs, shapes = examples()[name]
    program = exported(model, inputs, shapes, strict)
    file = archive(program)  # saved before a run changes the buffers
    compare(outputs_of(weft.compile(file, device=device), inputs), program.module()(*[x.clone() for x in inputs]))


@pytest.mark.parametrize("batch, tokens", [(1, 2), (3, 17), (8, 40)])
def test_open_sizes(batch, tokens):
    model, inputs, shapes = examples()["encoder"]
    compiled = weft.compile(archive(exported(model, inputs, shapes)), device="cpu")
    ids = torch.randint(0, 17, (batch, tokens))
    compare(outputs_of(compiled, (ids,)), model(ids))


@pytest.mark.parametrize("strict", [False, True])
def test_guards_of_torch_are_checked(strict):
    """A strict export that is decomposed refers to inputs by number in its guards: L['flat_args'][1]."""
    model, inputs, shapes = examples()["sizes"]
    compiled = weft.compile(archive(exported(model, inputs, shapes, strict)), device="cpu")
    x, y = torch.randn(8, 4), torch.randn(6, 4)
    compare(outputs_of(compiled, (x, y)), model(x, y))
    with pytest.raises(weft.Error, match="E312|E311"):
        compiled(torch.randn(7, 4), y)  # the export assumed that x.shape[0] is even
    with pytest.raises(weft.Error, match="E312|E311"):
        compiled(torch.randn(20, 4), y)  # the export assumed that y has at least half as many rows as x


def test_powers_of_sizes():
    """A size to a power is written by operator.pow in the graph and by PowByNatural in the types."""

    class Powers(torch.nn.Module):
        def forward(self, x):
            n = x.shape[0]
            return x.new_ones(n**2 + n**3), x.sum() * n**2, x.reshape(-1).expand(n**2, -1)

    program = torch.export.export(Powers(), (torch.randn(3, 2),), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=9)},))
    compiled = weft.compile(archive(program), device="cpu")
    for n in (2, 5, 9):
        x = torch.randn(n, 2)
        compare(outputs_of(compiled, (x,)), Powers()(x))


RESIZES = [dict(mode="nearest", scale_factor=0.5), dict(mode="bilinear", scale_factor=0.5, recompute_scale_factor=True),
           dict(mode="bilinear", scale_factor=0.75), dict(mode="area", scale_factor=1.5), dict(mode="bicubic", scale_factor=1.3),
           dict(mode="nearest", scale_factor=0.7), dict(mode="nearest-exact", scale_factor=(1.25, 2.0))]


@pytest.mark.parametrize("options", RESIZES, ids=str)
def test_pictures_are_resized_to_shares_of_open_sizes(options):
    """Sizes are products in f64, rounded down: 90 * 0.7 is 62."""

    class Resized(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.interpolate(x, **options)

    free = torch.export.Dim.AUTO
    compiled = weft.compile(archive(exported(Resized(), (torch.randn(1, 2, 8, 8),), ({2: free, 3: free},))), device="ref")
    for height, width in (8, 8), (13, 17), (90, 10), (100, 5):
        x = torch.randn(1, 2, height, width)
        torch.testing.assert_close(compiled(x), Resized()(x), rtol=1e-4, atol=1e-4)


KEPT = ["linear", "nearest", "nearest-exact", "bilinear", "nearest 2d", "trilinear", "bilinear antialias", "bicubic antialias"]


def resized(mode, factor):
    class Resized(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.interpolate(x, scale_factor=factor, mode=mode.split()[0], antialias="antialias" in mode)

    return Resized(), 3 if mode == "trilinear" else 2 if mode[0] == "b" or "2d" in mode else 1


@pytest.mark.parametrize("mode", KEPT)
@pytest.mark.parametrize("size, factor", [(3, 1.3), (5, 1.15), (9, 2.1), (5, 2.3)])
def test_scales_that_keep_or_double_the_size(mode, size, factor):
    """Linear modes and antialiasing copy elements then; `nearest` of pictures copies them or repeats each twice, although the
    factor is another one."""
    module, axes = resized(mode, factor)
    x = torch.randn(1, 2, *[size] * axes)
    compare(outputs_of(weft.compile(archive(exported(module, (x,))), device="ref"), (x,)), module(x))


@pytest.mark.parametrize("device", ["ref", "cpu"])
@pytest.mark.parametrize("mode", [*KEPT, "bicubic"])
@pytest.mark.parametrize("factor", [1.05, 1.2, 1.25, 1.4, 1.5, 2.0, 2.2])
def test_scales_that_keep_or_double_open_sizes(mode, factor, device):
    module, axes = resized(mode, factor)
    free = {2 + a: torch.export.Dim.AUTO for a in range(axes)}
    compiled = weft.compile(archive(exported(module, (torch.randn(1, 2, *(6, 7, 8)[:axes]),), (free,))), device=device)
    for size in (6, 7, 8), (2, 3, 4), (4, 3, 5), (3, 9, 3), (11, 4, 2):
        x = torch.randn(1, 2, *size[:axes])
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", [dict(mode="bicubic"), dict(mode="bicubic", antialias=True), dict(mode="bilinear", align_corners=True)], ids=str)
def test_pictures_of_bytes_are_rounded_after_each_axis(options):
    """torch multiplies by weights of 15 bits, so that results may differ by 1 or 2."""

    class Resized(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.interpolate(x, (13, 12), **options)

    x = torch.randint(0, 256, (1, 3, 8, 7), dtype=torch.uint8)
    x[..., ::3] = 255
    got = weft.compile(archive(exported(Resized(), (x,))), device="ref")(x)
    assert (got.int() - Resized()(x).int()).abs().max() <= 2


def test_whole_logarithms():
    """A logarithm or a power that is a whole number is exact, so that it can be rounded down."""

    class Levels(torch.nn.Module):
        def forward(self, x):
            return x.exp2().log2().floor(), x.exp2().floor(), (x.abs() * 0 + 1000).log10().floor(), x.exp2().to(torch.int64)

    for kind in torch.float32, torch.float64:
        x = torch.arange(-20, 60).to(kind)
        file = archive(exported(Levels(), (x,)))
        for device in "ref", "cpu":
            for got, wanted in zip(weft.compile(file, device=device)(x), Levels()(x), strict=True):
                assert torch.equal(got, wanted)


def test_a_write_to_out_is_not_dropped():
    class Out(torch.nn.Module):
        def forward(self, x):
            torch.add(x, 1, out=x)
            return x.shape[0] * torch.ones(2)

    with pytest.raises(weft.UnsupportedError, match="E120.*aten.add.out"):
        weft.compile(archive(exported(Out(), (torch.randn(3),))))


def test_buffers_that_change_are_inputs_with_a_default():
    model, inputs, _ = examples()["counter"]
    program = exported(model, inputs)
    compiled = weft.compile(archive(program), device="cpu")
    assert [port.name for port in compiled.inputs if port.has_default] == ["cache", "count"]
    module, state = program.module(), {}
    for step in range(3):
        x = torch.randn(2, 2)
        got = compiled.run({"x": x, **state})
        wanted = module(x)
        torch.testing.assert_close(got[compiled.outputs[0].name], wanted)
        state = {name: got[f"{name}.next"] for name in ("cache", "count")}
        torch.testing.assert_close(state["cache"], dict(module.named_buffers())["cache"])
        assert int(state["count"]) == step + 1


def test_a_copy_in_another_memory_format_is_no_view():
    class Formats(torch.nn.Module):
        def forward(self, x):
            y = x * 2
            y.contiguous(memory_format=torch.channels_last).relu_()
            return y

    x = torch.randn(1, 2, 3, 4)
    file = archive(exported(Formats(), (x,)))
    with pytest.raises(weft.UnsupportedError, match="its strides decide whether it is a view"):
        weft.compile(file, device="cpu")


def test_tied_weights_are_held_once():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(50, 64)
            self.head = torch.nn.Linear(64, 50, bias=False)
            self.head.weight = self.table.weight

        def forward(self, ids):
            return self.head(self.table(ids))

    model, ids = Tied(), torch.randint(0, 50, (2, 3))
    file = archive(exported(model, (ids,)))
    assert len([n for n in zipfile.ZipFile(io.BytesIO(file)).namelist() if "/weights/weight_" in n]) == 1
    compare(outputs_of(weft.compile(file, device="cpu"), (ids,)), model(ids))


NUMBERS = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
           torch.float32, torch.float64]


class Types(torch.nn.Module):
    """A model that combines tensors with axes, tensors without axes and numbers; type promotion decides the types of
    its results."""

    def forward(self, x, y, z):
        return x + y, x + z, z + x, x * True, x + 2, x + 2.5, z + 2.5, torch.where(x > y, x, z), torch.maximum(x, y), x / y


@pytest.mark.parametrize("first", NUMBERS)
def test_type_promotion(first):
    for second in NUMBERS:
        x, y = torch.tensor([1, 2, 3]).to(first), torch.tensor([3, 1, 1]).to(second)
        inputs = (x, y, torch.tensor(2).to(second))
        compiled = weft.compile(archive(exported(Types(), inputs)), device="ref")
        for got, wanted in zip(compiled(*inputs), Types()(*inputs)):
            assert got.dtype == wanted.dtype and got.shape == wanted.shape, (first, second)
            torch.testing.assert_close(got, wanted)


def test_the_command_needs_no_torch(tmp_path):
    """The command gives the same bytes as weft.compile. Compiling an archive does not import torch."""
    model, inputs, shapes = examples()["pictures"]
    (tmp_path / "m.pt2").write_bytes(archive(exported(model, inputs, shapes)))
    np.save(tmp_path / "x.npy", inputs[0].numpy())
    name = weft.compile(tmp_path / "m.pt2", device="cpu").outputs[0].name
    done = subprocess.run([BUILD / "bin/weft", "run", "m.pt2", "--input", "x=x.npy", "--device", "cpu", "--output", f"{name}=y.npy"],
                          capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    wanted = weft.compile(tmp_path / "m.pt2", device="cpu")
    got = np.load(tmp_path / "y.npy")
    assert np.array_equal(got, np.asarray(wanted(inputs[0])))
    check = "import sys, weft; weft.compile(sys.argv[1], device='cpu'); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", check, tmp_path / "m.pt2"], check=True)


def test_compiled_ahead_for_several_chips(tmp_path):
    """A saved program gives the same bits as the archive from which it was made."""
    model, inputs, shapes = examples()["pictures"]
    (tmp_path / "m.pt2").write_bytes(archive(exported(model, inputs, shapes)))
    words = [BUILD / "bin/weft", "compile", "m.pt2", "--target", "cpu,nvidia:sm_90a", "-o", "m.weft"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    loaded = weft.load(tmp_path / "m.weft")
    wanted = weft.compile(tmp_path / "m.pt2", device="nvidia:0" if str(loaded.device).startswith("nvidia") else "cpu")
    assert torch.equal(loaded(inputs[0]), wanted(inputs[0]))


def test_sizes_that_the_caller_gives():
    model, inputs, shapes = examples()["encoder"]
    file = archive(exported(model, inputs, shapes))
    fixed = weft.compile(file, device="cpu", shapes={"ids": (2, (2, 9))})
    assert fixed.inputs[0].shape[0] == 2 and fixed.inputs[0].shape[1].max == 9
    with pytest.raises(weft.UsageError, match="was exported with size"):
        weft.compile(file, device="cpu", shapes={"ids": (65, None)})
    with pytest.raises(weft.UsageError, match="which is not an input"):
        weft.compile(file, device="cpu", shapes={"nothing": (1,)})
    with pytest.raises(weft.UsageError, match="the value for it"):
        weft.compile(file, device="cpu", constants={"ids": np.zeros((2, 3), np.float32)})


# ---- Refused archives ----


def rewritten(file, change):
    """Returns the archive with the contents of each member replaced by change(name, contents)."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(file)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name.partition("/")[2], old.read(name)))
    return out.getvalue()


@pytest.fixture(scope="module")
def counter():
    model, inputs, _ = examples()["counter"]
    return archive(exported(model, inputs))


def change_json(member, edit):
    def change(name, data):
        if name != member:
            return data
        content = json.loads(data)
        edit(content)
        return json.dumps(content).encode()

    return change


def test_newer_schema(counter):
    def edit(program):
        program["schema_version"]["major"] = 9

    with pytest.raises(weft.ModelError, match=r"E112.*schema 9\.\d+, Weft reads 8\.x"):
        weft.compile(rewritten(counter, change_json("models/model.json", edit)))


def sizes_with_guard(guard):
    """Returns the archive of the example "sizes" with this text as its only guard."""

    def edit(program):
        program["guards_code"] = [guard]

    return rewritten(archive(exported(*examples()["sizes"])), change_json("models/model.json", edit))


@pytest.mark.parametrize("axis", [2, 9223372036854775807, -1])
def test_guards_on_axes_that_an_input_lacks(axis):
    with pytest.raises(weft.UnsupportedError, match=rf"E190.*reads axis {axis} of an input with 2"):
        weft.compile(sizes_with_guard(f"L['x'].size()[{axis}] <= 8"))


@pytest.mark.parametrize("guard, right", [
    ("{n} == 4 or {n} == 10", [4, 10]),
    ("({n} == 4) or ({n} > 8 and {n} % 4 != 2)", [4, 12]),
    ("not {n} // 2 == 3", [4, 8, 10, 12]),
    ("not ({n} < 6 or 2 * ({n} - 2) >= 20)", [6, 8, 10]),
    ("max({n}, 8) == 8 and not not {n} >= 6", [6, 8]),
])
def test_guards_that_join_comparisons(guard, right):
    """Guards, as torch prints them, may join comparisons by Or, And and Not. Exactly the sizes for which the guard
    holds are allowed."""
    compiled = weft.compile(sizes_with_guard(guard.format(n="L['x'].size()[0]")), device="cpu")
    model = examples()["sizes"][0]
    for rows in range(4, 14, 2):
        x, y = torch.randn(rows, 4), torch.randn(rows, 4)
        if rows in right:
            compare(outputs_of(compiled, (x, y)), model(x, y))
        else:
            with pytest.raises(weft.Error, match="E312|E311"):
                compiled(x, y)


@pytest.mark.parametrize("guard, error", [
    ("(" * 100_000, "nested more than 64 deep"),
    ("-" * 100_000 + "1 == 1", "nested more than 64 deep"),
    ("L['x'].size()[0]", "is not a comparison"),
    ("(L['x'].size()[0] == 1) + 1 == 2", "computes with a comparison"),
    ("L['x'].size()[0] == 1 or 2", "is not a comparison"),
    ("L['x'].size()[0] == 1 xor 1 == 1", "goes on where it should end"),
])
def test_guards_that_are_no_conditions(guard, error):
    with pytest.raises(weft.UnsupportedError, match=f"E190.*{error}"):
        weft.compile(sizes_with_guard(guard))


def test_pickled_weights(counter):
    def edit(weights):
        weights["config"]["cache"]["use_pickle"] = True

    with pytest.raises(weft.ModelError, match=r"E107.*'cache'(.|\n)*run_decompositions\(\{\}\)"):
        weft.compile(rewritten(counter, change_json("data/weights/model_weights_config.json", edit)))


def test_cut_and_damaged(counter):
    for length in (500, len(counter) // 2, len(counter) - 4):
        with pytest.raises(weft.ModelError, match=rf"E103.*no directory at its end, after {length} bytes(.|\n)*copy the file again"):
            weft.compile(counter[:length])
    # Without the end of the file, the last directory found belongs to an archive inside the archive.
    with pytest.raises(weft.ModelError, match="E10[38].*end"):
        weft.compile(counter[:-1000])
    with pytest.raises(weft.ModelError, match="E102.*a zip archive"):
        weft.compile(counter[:30])
    with pytest.raises(weft.ModelError, match=r"E147.*needs 8 elements from 0 on, its member has 2"):
        weft.compile(rewritten(counter, lambda name, data: data[:8] if name == "data/weights/weight_0" else data))
    with pytest.raises(weft.ModelError, match="E108.*has no member 'data/weights/weight_0'"):
        weft.compile(rewritten(counter, change_json("x", None)).replace(b"weights/weight_0", b"weights/weight_9"))


def test_an_error_shows_the_line_of_the_model():
    class Unknown(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.ldl_factor(x + 1).LD  # this line

    with pytest.raises(weft.UnsupportedError, match=r"E120.*aten.linalg_ldl_factor.default(.|\n)*test_archives.py:\d+: .*# this line"):
        weft.compile(archive(exported(Unknown(), (torch.randn(3, 3),))))


def test_support_lists_each_node():
    class Half(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.ldl_factor(x.relu()).LD.sigmoid()

    file = archive(exported(Half(), (torch.randn(3, 3),)))
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".pt2") as place:
        place.write(file)
        place.flush()
        report = weft.support(place.name, device="cpu")
    nodes = {row["op"]: row["supported"] for row in report["nodes"]}
    assert nodes == {"aten.relu.default": True, "aten.linalg_ldl_factor.default": False, "aten.sigmoid.default": False}


def test_training_is_refused():
    model = torch.nn.BatchNorm1d(3)
    with torch.no_grad():
        program = torch.export.export(model.train(), (torch.randn(4, 3),))
    with pytest.raises(weft.UnsupportedError, match="export the model in eval mode"):
        weft.compile(archive(program))


def test_a_set_as_older_releases_of_torch_note_it():
    """Before torch 2.13, archives declare results of unique that were not requested (indices, counts) with x's type."""
    file = archive(exported(Unique(), (torch.zeros(0),)))

    def as_before(program):
        graph = program["graph_module"]["graph"]
        (node,) = (node for node in graph["nodes"] if "_unique2" in node["target"])
        for result in node["outputs"][1:]:
            graph["tensor_values"][result["as_tensor"]["name"]]["dtype"] = 7  # f32

    run = weft.compile(rewritten(file, change_json("models/model.json", as_before)), device="ref")
    assert run(torch.zeros(0)).shape == (0,)


def test_a_random_number_that_nobody_reads_is_not_missed():
    """Models that skip layers at random in training also draw the random numbers in inference. A random number that is
    not used is no error."""

    class Skips(torch.nn.Module):
        def forward(self, x):
            chance = torch.rand([])
            return x if self.training and chance < 0.5 else x * 2

    program = exported(Skips(), (torch.ones(3),))
    assert any("rand" in str(node.target) for node in program.graph.nodes)
    assert weft.compile(archive(program), device="ref")(torch.ones(3)).tolist() == [2, 2, 2]


@pytest.mark.parametrize("device", ["amd:gfx1100", "nvidia:sm_90a"])
@pytest.mark.parametrize("width", [224, 240, 256, 320])
def test_attention_over_wide_heads_has_kernels_on_gpus(width, device, tmp_path):
    class Attends(torch.nn.Module):
        def forward(self, q, k):
            return torch.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True)

    q = torch.randn(1, 2, 40, width)
    (tmp_path / "m.pt2").write_bytes(archive(exported(Attends(), (q, q))))
    words = [BUILD / "bin/weft", "compile", tmp_path / "m.pt2", "--target", device, "-o", tmp_path / "m.weft"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class Unique(torch.nn.Module):
    def forward(self, x):
        return torch.unique(x)
