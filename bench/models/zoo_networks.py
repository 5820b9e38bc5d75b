# SPDX-License-Identifier: Apache-2.0
"""Forty networks of torchvision, timm and transformers with random weights.

`ZOO[name]` is a `Recipe`. `module(name)` builds the network, `inputs(name, batch)` its inputs, and `exported(name)` the
path of its ONNX file, exported once with a free batch and kept beside the bench models. Every second network of the
list is for fitting heuristics (`FITTED`), the others (`JUDGING`) judge them.
"""

import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fill
import torch
from networks import Only, torchvision
from torch import nn

PICTURE = (3, 224, 224)


@dataclass
class Recipe:
    build: Callable[[], nn.Module]
    shape: tuple = PICTURE  # of one item of the batch
    vocabulary: int = 0  # number of token ids; 0: the input is floating-point


def vision(name, shape=PICTURE, **options):
    return Recipe(lambda: torchvision.models.get_model(name, weights=None, **options), shape)


def segmentation(name):
    build = lambda: Only(torchvision.models.get_model(name, weights=None, weights_backbone=None), ["x"], first_value)
    return Recipe(build, (3, 256, 320))


def timm_model(name, shape=PICTURE):
    def build():
        import timm

        return timm.create_model(name, pretrained=False)

    return Recipe(build, shape)


def first_value(outputs):
    return next(iter(outputs.values()))


def hidden(outputs):
    return outputs.logits if "logits" in outputs else outputs.last_hidden_state


def transformer(kind, config, shape, vocabulary=0, feed="input_ids", **options):
    """A class of transformers with its default configuration, with `options` applied."""

    def build():
        import transformers

        module = getattr(transformers, kind)(getattr(transformers, config)(**options))
        extra = {"use_cache": False} if getattr(module.config, "use_cache", False) else {}
        return Only(module, [feed], hidden, **extra)

    return Recipe(build, shape, vocabulary)


def text(kind, config, seq, vocabulary, **options):
    return transformer(kind, config, (seq,), vocabulary, **options)


class GroupBlock(nn.Module):
    """A residual block of a diffusion U-Net."""

    def __init__(self, channels, out):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(8, channels), nn.SiLU(), nn.Conv2d(channels, out, 3, padding=1))
        self.second = nn.Sequential(nn.GroupNorm(8, out), nn.SiLU(), nn.Conv2d(out, out, 3, padding=1))
        self.skip = nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()

    def forward(self, x):
        return self.skip(x) + self.second(self.first(x))


class GroupNormUNet(nn.Module):
    def __init__(self, widths=(32, 64, 128, 256)):
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 3, padding=1)
        self.down = nn.ModuleList(GroupBlock(a, b) for a, b in zip((widths[0], *widths), widths))
        self.up = nn.ModuleList(GroupBlock(a + b, a) for a, b in zip(widths[-2::-1], widths[:0:-1]))
        self.head = nn.Conv2d(widths[0], 3, 3, padding=1)

    def forward(self, x):
        x, kept = self.stem(x), []
        for depth, block in enumerate(self.down):
            x = block(x if depth == 0 else nn.functional.avg_pool2d(x, 2))
            kept.append(x)
        for block, beside in zip(self.up, kept[-2::-1]):
            x = block(torch.cat((nn.functional.interpolate(x, scale_factor=2.0, mode="nearest"), beside), 1))
        return self.head(x)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.LSTM(80, 256, 2, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.net(x)[0]


ZOO = {
    "resnet18": vision("resnet18"),
    "densenet121": vision("densenet121"),
    "vgg11_bn": vision("vgg11_bn"),
    "squeezenet1_1": vision("squeezenet1_1"),
    "shufflenet_v2_x1_0": vision("shufflenet_v2_x1_0"),
    "mobilenet_v2": vision("mobilenet_v2"),
    "googlenet": vision("googlenet", aux_logits=False, init_weights=False),
    "inception_v3": vision("inception_v3", (3, 299, 299), aux_logits=False, init_weights=False),
    "regnet_y_800mf": vision("regnet_y_800mf"),
    "efficientnet_b0": vision("efficientnet_b0"),
    "efficientnet_v2_s": vision("efficientnet_v2_s"),
    "convnext_tiny": vision("convnext_tiny"),
    "swin_t": vision("swin_t"),
    "maxvit_t": vision("maxvit_t"),
    "deeplabv3_mobilenet": segmentation("deeplabv3_mobilenet_v3_large"),
    "fcn_resnet50": segmentation("fcn_resnet50"),
    "r3d_18": vision("r3d_18", (3, 8, 112, 112)),
    "unet_groupnorm": Recipe(GroupNormUNet, (3, 160, 192)),
    "lstm_bidirectional": Recipe(Recurrent, (120, 80)),
    "mixer_s16": timm_model("mixer_s16_224"),
    "ghostnet_100": timm_model("ghostnet_100"),
    "hrnet_w18_small": timm_model("hrnet_w18_small"),
    "repvgg_a0": timm_model("repvgg_a0"),
    "poolformer_s12": timm_model("poolformer_s12"),
    "edgenext_small": timm_model("edgenext_small", (3, 256, 256)),
    "mobilevit_s": timm_model("mobilevit_s", (3, 256, 256)),
    "res2net50d": timm_model("res2net50d"),
    "eca_nfnet_l0": timm_model("eca_nfnet_l0"),
    "levit_128": timm_model("levit_128"),
    "xcit_tiny_12_p16": timm_model("xcit_tiny_12_p16_224"),
    "deit_small": timm_model("deit_small_patch16_224"),
    "segformer_b0": transformer(
        "SegformerForSemanticSegmentation", "SegformerConfig", (3, 256, 256), feed="pixel_values"
    ),
    "distilbert": text("DistilBertModel", "DistilBertConfig", 77, 30522),
    "deberta_v3": text("DebertaV2Model", "DebertaV2Config", 37, 30522, num_hidden_layers=4, hidden_size=768,
                       intermediate_size=3072, num_attention_heads=12, vocab_size=30522, relative_attention=True,
                       pos_att_type=["p2c", "c2p"], position_buckets=256, norm_rel_ebd="layer_norm", share_att_key=True,
                       position_biased_input=False),
    "albert_base": text("AlbertModel", "AlbertConfig", 64, 30000, hidden_size=768, intermediate_size=3072,
                        num_attention_heads=12, embedding_size=128),
    "mobilebert": text("MobileBertModel", "MobileBertConfig", 50, 30522),
    "opt_4layer": text("OPTForCausalLM", "OPTConfig", 96, 50272, num_hidden_layers=4),
    "qwen3_4layer": text("Qwen3ForCausalLM", "Qwen3Config", 70, 32000, num_hidden_layers=4, hidden_size=512,
                         intermediate_size=1536, num_attention_heads=8, num_key_value_heads=4, head_dim=64,
                         vocab_size=32000),
    "t5_small_encoder": text("T5EncoderModel", "T5Config", 90, 32128),
    "wav2vec2_4layer": transformer("Wav2Vec2Model", "Wav2Vec2Config", (16000,), feed="input_values", num_hidden_layers=4),
}  # fmt: skip
FITTED = list(ZOO)[::2]
JUDGING = list(ZOO)[1::2]


def module(name):
    torch.manual_seed(0)
    return ZOO[name].build().eval().requires_grad_(False)


def inputs(name, batch):
    """One tensor, [batch, *shape]."""
    recipe, generator = ZOO[name], torch.Generator().manual_seed(1)
    if recipe.vocabulary:
        return torch.randint(2, recipe.vocabulary, (batch, *recipe.shape), generator=generator)
    return torch.randn(batch, *recipe.shape, generator=generator)


def exported(name):
    """Path of the ONNX file; its input is `x`, its output `y`, its batch is the symbol `batch`."""
    path = fill.cache_folder() / f"zoo-{name}-torch{torch.__version__.split('+')[0]}.onnx"
    if not path.exists():
        network = module(name)
        free = ({0: torch.export.Dim("batch", max=1024)},)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                network, (inputs(name, 2),), None, input_names=["x"], output_names=["y"], dynamo=True, verbose=False,
                dynamic_shapes=(free,) if isinstance(network, Only) else free, opset_version=20,
            )  # fmt: skip
        partial = path.with_suffix(".partial")
        program.save(partial)
        partial.rename(path)
    return path
