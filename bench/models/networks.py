# SPDX-License-Identifier: Apache-2.0
"""The networks of the benchmark in PyTorch. Their weights are not trained: torchvision, transformers or this file set
them. Comments say where a weight is set otherwise, and why.

`NETWORKS[name]()` returns a `Network`. This file needs torch, torchvision and transformers. The graphs that `export.py`
has written do not; most scripts run these graphs.
"""

import os
import re
import sys
from dataclasses import dataclass, field

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # configurations are spelt out here: nothing is downloaded

import torch
from torch import nn
from torch.nn import functional as F

BATCH = "batch"


def import_torchvision():
    """Imports torchvision, also if it was built for another version of torch. Its C++ operators (such as NMS) are then
    missing; nothing here uses them, so only their names are declared. Call it before transformers is imported, which
    imports torchvision."""
    declared = []
    while True:
        try:
            import torchvision

            return torchvision, declared  # the declarations are removed with the object `declared`
        except RuntimeError as error:
            missing = re.search(r"operator torchvision::(\w+) does not exist", str(error))
            if not missing:
                raise
            library = torch.library.Library("torchvision", "FRAGMENT")
            library.define(f"{missing[1]}(Tensor a) -> Tensor")
            declared.append(library)
            for name in [name for name in sys.modules if name.startswith("torchvision")]:
                del sys.modules[name]


torchvision, _ = import_torchvision()


@dataclass
class Network:
    """A module, one example of its inputs, and what `export.py` must know about both."""

    module: nn.Module
    inputs: dict[str, torch.Tensor]
    outputs: list[str]
    free: dict[str, dict[int, str]]  # input -> axis -> the symbol of its size
    multiple_of: dict[str, int] = field(default_factory=dict)  # symbol -> a number that must divide its value
    calibrate: bool = False  # batch normalisation takes its statistics from a first batch


def random(*dims):
    return torch.randn(*dims, generator=torch.Generator().manual_seed(1))


def tokens(vocabulary, *dims):
    return torch.randint(0, vocabulary, dims, generator=torch.Generator().manual_seed(1))


class Only(nn.Module):
    """A module that returns only the tensors that `pick` takes from another module's results."""

    def __init__(self, core, names, pick, **constants):
        super().__init__()
        self.core, self.names, self.pick, self.constants = core, names, pick, constants

    def forward(self, *values):
        return self.pick(self.core(**dict(zip(self.names, values)), **self.constants))


# Pictures


def picture_classifier(name, calibrate):
    module = getattr(torchvision.models, name)(weights=None)
    return Network(module, {"image": random(2, 3, 224, 224)}, ["logits"], {"image": {0: BATCH}}, calibrate=calibrate)


def resnet50():
    network = picture_classifier("resnet50", calibrate=True)
    for part in network.module.modules():
        # As in a trained network, residual branches are small. Else rounding errors would grow a hundredfold per block.
        if isinstance(part, torchvision.models.resnet.Bottleneck):
            nn.init.constant_(part.bn3.weight, 0.1)
    return network


def mobilenet_v3_large():
    return picture_classifier("mobilenet_v3_large", calibrate=True)


def vit_b_16():
    network = picture_classifier("vit_b_16", calibrate=False)
    nn.init.normal_(network.module.heads.head.weight, std=0.02)  # with torchvision's zeros all answers would be equal
    return network


class ConvUnit(nn.Sequential):
    def __init__(self, c_in, c_out, size=1, stride=1):
        super().__init__(
            nn.Conv2d(c_in, c_out, size, stride, size // 2, bias=False), nn.BatchNorm2d(c_out, eps=1e-3), nn.SiLU()
        )


class Bottleneck(nn.Module):
    def __init__(self, channels, residual):
        super().__init__()
        self.body, self.residual = (
            nn.Sequential(ConvUnit(channels, channels, 3), ConvUnit(channels, channels, 3)),
            residual,
        )

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


class SplitBlock(nn.Module):
    """Sends half of the channels through a chain of bottlenecks, and concatenates both halves and the outputs of all
    bottlenecks."""

    def __init__(self, c_in, c_out, depth, residual):
        super().__init__()
        self.half = c_out // 2
        self.first = ConvUnit(c_in, c_out)
        self.chain = nn.ModuleList(Bottleneck(self.half, residual) for _ in range(depth))
        self.last = ConvUnit((2 + depth) * self.half, c_out)

    def forward(self, x):
        parts = list(self.first(x).split(self.half, 1))
        for stage in self.chain:
            parts.append(stage(parts[-1]))
        return self.last(torch.cat(parts, 1))


class PyramidPool(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first, self.last = ConvUnit(channels, channels // 2), ConvUnit(channels * 2, channels)

    def forward(self, x):
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(F.max_pool2d(parts[-1], 5, 1, 2))
        return self.last(torch.cat(parts, 1))


class DetectorHead(nn.Module):
    """Predicts, for every cell of three grids, a box (for each side a distribution over 16 distances) and 80 class
    scores."""

    def __init__(self, channels, classes=80, steps=16):
        super().__init__()
        self.steps = steps
        box, kind = 64, max(channels[0], classes)
        self.box = nn.ModuleList(
            nn.Sequential(ConvUnit(c, box, 3), ConvUnit(box, box, 3), nn.Conv2d(box, 4 * steps, 1)) for c in channels
        )
        self.kind = nn.ModuleList(
            nn.Sequential(ConvUnit(c, kind, 3), ConvUnit(kind, kind, 3), nn.Conv2d(kind, classes, 1)) for c in channels
        )

    def centres(self, grids):
        points, sizes = [], []
        for grid, stride in zip(grids, (8, 16, 32)):
            rows, columns = grid.shape[2:]
            y, x = torch.meshgrid(*(torch.arange(n, device=grid.device) + 0.5 for n in (rows, columns)), indexing="ij")
            points.append(torch.stack((x, y)).flatten(1))
            sizes.append(torch.full_like(x, stride).flatten())
        return torch.cat(points, 1), torch.cat(sizes)

    def forward(self, grids):
        box = torch.cat([head(grid).flatten(2) for head, grid in zip(self.box, grids)], 2)
        kind = torch.cat([head(grid).flatten(2) for head, grid in zip(self.kind, grids)], 2)
        spread = box.unflatten(1, (4, self.steps)).softmax(2)
        distance = (spread * torch.arange(float(self.steps), device=spread.device).view(1, 1, -1, 1)).sum(2)
        centre, stride = self.centres(grids)
        low, high = centre - distance[:, :2], centre + distance[:, 2:]
        return torch.cat((torch.cat(((low + high) / 2, high - low), 1) * stride, kind.sigmoid()), 1)


class Detector(nn.Module):
    """A network with the structure of a nano YOLO: split blocks, pyramid pooling, a feature pyramid up and down,
    decoupled heads; no NMS."""

    def __init__(self):
        super().__init__()
        self.to8 = nn.Sequential(
            ConvUnit(3, 16, 3, 2),
            ConvUnit(16, 32, 3, 2),
            SplitBlock(32, 32, 1, True),
            ConvUnit(32, 64, 3, 2),
            SplitBlock(64, 64, 2, True),
        )
        self.to16 = nn.Sequential(ConvUnit(64, 128, 3, 2), SplitBlock(128, 128, 2, True))
        self.to32 = nn.Sequential(ConvUnit(128, 256, 3, 2), SplitBlock(256, 256, 1, True), PyramidPool(256))
        self.up16, self.up8 = SplitBlock(384, 128, 1, False), SplitBlock(192, 64, 1, False)
        self.shrink16, self.down16 = ConvUnit(64, 64, 3, 2), SplitBlock(192, 128, 1, False)
        self.shrink32, self.down32 = ConvUnit(128, 128, 3, 2), SplitBlock(384, 256, 1, False)
        self.head = DetectorHead((64, 128, 256))

    def forward(self, image):
        f8 = self.to8(image)
        f16 = self.to16(f8)
        f32 = self.to32(f16)
        u16 = self.up16(torch.cat((F.interpolate(f32, scale_factor=2.0), f16), 1))
        u8 = self.up8(torch.cat((F.interpolate(u16, scale_factor=2.0), f8), 1))
        d16 = self.down16(torch.cat((self.shrink16(u8), u16), 1))
        d32 = self.down32(torch.cat((self.shrink32(d16), f32), 1))
        return self.head((u8, d16, d32))


def yolo_n():
    return Network(
        Detector(),
        {"image": random(2, 3, 320, 416)},
        ["prediction"],
        {"image": {0: BATCH, 2: "height", 3: "width"}},
        {"height": 32, "width": 32},
        calibrate=True,
    )


# Text and sound


def bert_base():
    from transformers import BertConfig, BertModel

    names = ["input_ids", "attention_mask", "token_type_ids"]
    module = Only(
        BertModel(BertConfig(attn_implementation="sdpa")), names, lambda out: (out.last_hidden_state, out.pooler_output)
    )
    mask = torch.ones(2, 96, dtype=torch.int64)
    mask[0, 87:] = 0
    inputs = dict(zip(names, (tokens(30522, 2, 96), mask, tokens(2, 2, 96))))
    return Network(module, inputs, ["hidden", "pooled"], {name: {0: BATCH, 1: "seq"} for name in names})


def gpt2_model():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(attn_implementation="sdpa"))


def gpt2_prefill():
    module = Only(gpt2_model(), ["input_ids"], lambda out: out.logits, use_cache=False)
    return Network(module, {"input_ids": tokens(50257, 2, 96)}, ["logits"], {"input_ids": {0: BATCH, 1: "seq"}})


class Gpt2Decode(nn.Module):
    """A step of GPT-2 for one new token. The inputs past_k and past_v are [layer, batch, head, past, 64]."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, past_k, past_v):
        body = self.model.transformer
        x = body.wte(input_ids) + body.wpe(torch.full_like(input_ids, past_k.shape[3]))
        keys, values = [], []
        for index, block in enumerate(body.h):
            parts = block.attn.c_attn(block.ln_1(x)).split(768, 2)
            q, k, v = (part.unflatten(2, (12, 64)).transpose(1, 2) for part in parts)
            keys.append(torch.cat((past_k[index], k), 2))
            values.append(torch.cat((past_v[index], v), 2))
            seen = F.scaled_dot_product_attention(q, keys[-1], values[-1])
            x = x + block.attn.c_proj(seen.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.ln_2(x))
        return self.model.lm_head(body.ln_f(x)), torch.stack(keys), torch.stack(values)


def gpt2_decode():
    inputs = {
        "input_ids": tokens(50257, 2, 1),
        "past_k": random(12, 2, 12, 96, 64),
        "past_v": random(12, 2, 12, 96, 64),
    }
    free = {"input_ids": {0: BATCH}, "past_k": {1: BATCH, 3: "past"}, "past_v": {1: BATCH, 3: "past"}}
    return Network(Gpt2Decode(gpt2_model()), inputs, ["logits", "present_k", "present_v"], free)


def whisper_tiny_encoder():
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=384,
        encoder_layers=4,
        encoder_attention_heads=6,
        encoder_ffn_dim=1536,
        num_mel_bins=80,
        attn_implementation="sdpa",
    )
    module = Only(WhisperEncoder(config), ["input_features"], lambda out: out.last_hidden_state)
    return Network(module, {"mel": random(2, 80, 3000)}, ["hidden"], {"mel": {0: BATCH}})


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight


def rotate(x, angle):
    """Applies rotary positions: x is [batch, head, seq, 64], angle is [seq, 32]."""
    low, high = x.chunk(2, -1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


class LlamaLayer(nn.Module):
    def __init__(self, width, heads, kv_heads, inner, head=64):
        super().__init__()
        linear = lambda c_in, c_out: nn.Linear(c_in, c_out, bias=False)
        self.heads, self.kv_heads, self.head = heads, kv_heads, head
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.q, self.k, self.v = (
            linear(width, heads * head),
            linear(width, kv_heads * head),
            linear(width, kv_heads * head),
        )
        self.o, self.gate, self.up = linear(heads * head, width), linear(width, inner), linear(width, inner)
        self.down = linear(inner, width)

    def split(self, x, heads):
        return x.unflatten(2, (heads, self.head)).transpose(1, 2)

    def forward(self, x, past_k, past_v, angle, mask):
        y = self.norm1(x)
        q = rotate(self.split(self.q(y), self.heads), angle)
        k = torch.cat((past_k, rotate(self.split(self.k(y), self.kv_heads), angle)), 2)
        v = torch.cat((past_v, self.split(self.v(y), self.kv_heads)), 2)
        group = self.heads // self.kv_heads
        wide = [z.unsqueeze(2).expand(-1, -1, group, -1, -1).flatten(1, 2) for z in (k, v)]
        seen = F.scaled_dot_product_attention(q, *wide, attn_mask=mask)
        x = x + self.o(seen.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), k, v


class Llama(nn.Module):
    """Transformer layers as in Llama, applied to hidden states: `past` cached positions (0 in a prefill), then `seq`
    new ones."""

    def __init__(self, width=1024, heads=16, kv_heads=4, inner=2816, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(LlamaLayer(width, heads, kv_heads, inner) for _ in range(layers))
        self.norm = RmsNorm(width)
        self.register_buffer("frequency", 10000.0 ** (-torch.arange(32) / 32))

    def forward(self, hidden, past_k, past_v):
        past, seq = past_k.shape[3], hidden.shape[1]
        place = past + torch.arange(seq, device=hidden.device)
        mask = torch.arange(past + seq, device=hidden.device) <= place[:, None]
        angle = place[:, None] * self.frequency
        keys, values = [], []
        for index, layer in enumerate(self.layers):
            hidden, k, v = layer(hidden, past_k[index], past_v[index], angle, mask)
            keys.append(k)
            values.append(v)
        return self.norm(hidden), torch.stack(keys), torch.stack(values)


def llama_2layer():
    inputs = {"hidden": random(2, 24, 1024), "past_k": random(2, 2, 4, 40, 64), "past_v": random(2, 2, 4, 40, 64)}
    free = {"hidden": {0: BATCH, 1: "seq"}, "past_k": {1: BATCH, 3: "past"}, "past_v": {1: BATCH, 3: "past"}}
    return Network(Llama(), inputs, ["normed", "present_k", "present_v"], free)


NETWORKS = {
    build.__name__: build
    for build in (
        resnet50,
        mobilenet_v3_large,
        vit_b_16,
        bert_base,
        gpt2_prefill,
        gpt2_decode,
        yolo_n,
        whisper_tiny_encoder,
        llama_2layer,
    )
}
