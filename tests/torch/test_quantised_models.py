# SPDX-License-Identifier: Apache-2.0
"""Models that torchao and PT2E quantised: Weft computes torch's answers with integer products."""

import pytest
import torch
from archives import archive, exported
from torch.export import Dim
from torchao import quantization as q
from torchao.quantization.granularity import PerGroup

import weft
import weft.torch


class Network(torch.nn.Module):
    """The products of a transformer block and the operators around them."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(64), torch.nn.Linear(64, 96), torch.nn.Linear(96, 64)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


WAYS = {
    "int8 weights": lambda: q.Int8WeightOnlyConfig(),
    "int8": lambda: q.Int8DynamicActivationInt8WeightConfig(),
    "int4 weights": lambda: q.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)),
    "int3 weights": lambda: q.IntxWeightOnlyConfig(weight_dtype=torch.int3, granularity=PerGroup(32)),
    "int8 by channel": lambda: q.IntxWeightOnlyConfig(weight_dtype=torch.int8),
    "int4 weights, int8": lambda: q.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32)),
    "fp8 weights": lambda: q.Float8WeightOnlyConfig(),
}


def close(got, wanted, steps):
    """Checks that errors are at most `steps` times the largest value: values near a tie may round to either integer."""
    assert got.shape == wanted.shape
    assert (got - wanted).abs().max() <= steps * wanted.abs().max()


@pytest.mark.rotates(2)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("device", ["ref", "cpu"])
def test_torchao(way, device):
    model = Network().eval()
    q.quantize_(model, WAYS[way]())
    program = exported(model, (torch.randn(4, 3, 64),), ({0: Dim("batch", min=1, max=32)},))
    # A saved archive would pickle these weights; from_torch decomposes the program instead.
    run = weft.torch.from_torch(program, device=device)
    for batch in (1, 5):
        x = torch.randn(batch, 3, 64)
        with torch.no_grad():
            close(run(x), model(x), 5e-3)


def test_pickled_weights_name_their_remedy():
    model = Network().eval()
    q.quantize_(model, WAYS["int8 weights"]())
    with pytest.raises(weft.Error, match=r"E107(.|\n)*run_decompositions"):
        weft.compile(archive(exported(model, (torch.randn(4, 3, 64),))), device="ref")


def test_torchao_through_compile():
    model = Network().eval()
    q.quantize_(model, WAYS["int8"]())
    torch._dynamo.reset()
    weft.torch.placements.clear()
    fast, x = torch.compile(model, backend="weft", options={"device": "cpu"}), torch.randn(4, 3, 64)
    with torch.no_grad():
        close(fast(x), model(x), 5e-3)
    assert {placement.why for placement in weft.torch.placements} == {""}


class Pictures(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.conv(x).relu().mean((2, 3)))


@pytest.mark.rotates(2)
@pytest.mark.parametrize("device", ["ref", "cpu"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_pt2e(device, dynamic):
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import X86InductorQuantizer, get_default_x86_inductor_quantization_config

    model = Network().eval() if dynamic else Pictures().eval()
    x = torch.randn(4, 3, 64) if dynamic else torch.randn(2, 3, 8, 8)
    quantizer = X86InductorQuantizer().set_global(get_default_x86_inductor_quantization_config(is_dynamic=dynamic))
    prepared = prepare_pt2e(exported(model, (x,)).module(), quantizer)
    prepared(x)
    quantised = convert_pt2e(prepared)
    run = weft.compile(archive(torch.export.export(quantised, (x,))), device=device)
    with torch.no_grad():
        close(run(x), quantised(x), 2e-2)
