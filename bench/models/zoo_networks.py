# SPDX-License-Identifier: Apache-2.0
"""Forty networks with random weights, most from torchvision, timm and transformers, and further ones in `FRESH`.

`RECIPES[name]` is a `Recipe`. `module(name)` builds the network, and `inputs(name, batch)` its inputs. `exported(name)`
returns the path of its ONNX file, exported once with a free batch and kept in the cache of `fill.py`. Every second
network of the forty is for fitting heuristics (`FITTED`); the others (`JUDGING`) test them. A list of `FRESH` is named after
the day on which its networks were chosen (the second list of a day has a `b`). Its networks are measured once before
anybody tunes for them; only that first measurement tests the heuristics.
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
    shape: tuple = PICTURE  # the sizes of one item of the batch
    vocabulary: int = 0  # number of token ids; 0: the input is floating-point


def vision(name, shape=PICTURE, **options):
    return Recipe(lambda: torchvision.models.get_model(name, weights=None, **options), shape)


def segmentation(name):
    build = lambda: Only(torchvision.models.get_model(name, weights=None, weights_backbone=None), ["x"], first_value)
    return Recipe(build, (3, 256, 320))


def timm_model(name, shape=PICTURE, fused=True):
    """Returns the recipe of a network of timm. `fused=False` writes attention out as products and a softmax: the export
    to ONNX refuses scaled_dot_product_attention on tensors of five axes."""

    def build():
        import timm

        timm.layers.set_fused_attn(fused)
        try:
            return timm.create_model(name, pretrained=False)
        finally:
            timm.layers.set_fused_attn(True)

    return Recipe(build, shape)


def first_value(outputs):
    return next(iter(outputs.values()))


def hidden(outputs):
    return outputs.logits if "logits" in outputs else outputs.last_hidden_state


def transformer(kind, config, shape, vocabulary=0, feed="input_ids", **options):
    """Returns the recipe of a model class of transformers with its default configuration, changed by `options`."""

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
}
FITTED = list(ZOO)[::2]
JUDGING = list(ZOO)[1::2]


class DilatedBlock(nn.Module):
    """A residual block of a temporal convolutional network: gated, dilated, causal."""

    def __init__(self, channels, dilation):
        super().__init__()
        self.pad = nn.ConstantPad1d((2 * dilation, 0), 0.0)
        self.gated = nn.Conv1d(channels, 2 * channels, 3, dilation=dilation)
        self.out = nn.Conv1d(channels, channels, 1)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x):
        value, gate = self.gated(self.pad(x)).chunk(2, 1)
        return self.norm(x + self.out(torch.tanh(value) * torch.sigmoid(gate)))


class TemporalNet(nn.Sequential):
    """Maps frames of a spectrogram [80, t] to 40 class scores for each frame."""

    def __init__(self, channels=96):
        blocks = [DilatedBlock(channels, 2 ** (depth % 6)) for depth in range(12)]
        super().__init__(nn.Conv1d(80, channels, 5, padding=2), *blocks, nn.Conv1d(channels, 40, 1))


class SpeechGRU(nn.Module):
    """Two strided convolutions over a spectrogram [t, 80], then a GRU of two layers: the form of a streaming recogniser."""

    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(80, 192, 5, 2, 2), nn.GELU(), nn.Conv1d(192, 192, 5, 2, 2), nn.GELU())
        self.net = nn.GRU(192, 320, 2, batch_first=True)
        self.head = nn.Linear(320, 500)

    def forward(self, x):
        return self.head(self.net(self.front(x.transpose(1, 2)).transpose(1, 2))[0]).log_softmax(-1)


def volume_block(channels, out):
    layer = lambda a, b: (nn.Conv3d(a, b, 3, padding=1), nn.InstanceNorm3d(b, affine=True), nn.LeakyReLU(0.01))
    return nn.Sequential(*layer(channels, out), *layer(out, out))


class VolumeUNet(nn.Module):
    """A U-Net for volumes such as medical scans: instance norms, strided and transposed convolutions."""

    def __init__(self, widths=(16, 32, 64, 128)):
        super().__init__()
        self.first = volume_block(1, widths[0])
        self.down = nn.ModuleList(nn.Conv3d(a, b, 2, 2) for a, b in zip(widths, widths[1:]))
        self.left = nn.ModuleList(volume_block(a, a) for a in widths[1:])
        self.up = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, 2) for a, b in zip(widths[-2::-1], widths[:0:-1]))
        self.right = nn.ModuleList(volume_block(2 * a, a) for a in widths[-2::-1])
        self.head = nn.Conv3d(widths[0], 4, 1)

    def forward(self, x):
        kept = [self.first(x)]
        for down, block in zip(self.down, self.left):
            kept.append(block(down(kept[-1])))
        x = kept.pop()
        for up, block in zip(self.up, self.right):
            x = block(torch.cat((up(x), kept.pop()), 1))
        return self.head(x)


class SuperResolution(nn.Module):
    """A network like EDSR: residual blocks without norms, then two PixelShuffles to four times the size."""

    def __init__(self, channels=64, blocks=8):
        super().__init__()
        conv = lambda a, b: nn.Conv2d(a, b, 3, padding=1)
        self.head, self.last = conv(3, channels), conv(channels, channels)
        self.body = nn.ModuleList(
            nn.Sequential(conv(channels, channels), nn.ReLU(), conv(channels, channels)) for _ in range(blocks)
        )
        up = [conv(channels, 4 * channels), nn.PixelShuffle(2)]
        self.tail = nn.Sequential(*up, conv(channels, 4 * channels), nn.PixelShuffle(2), conv(channels, 3))

    def forward(self, x):
        x = kept = self.head(x)
        for block in self.body:
            x = x + 0.1 * block(x)
        return self.tail(kept + self.last(x))


class StyleLayer(nn.Module):
    """Scales the channels by a style before a convolution; adds noise and normalises the channels after it."""

    def __init__(self, channels, out, style):
        super().__init__()
        self.conv, self.scale = nn.Conv2d(channels, out, 3, padding=1), nn.Linear(style, channels)
        self.weight = nn.Parameter(torch.full((1, out, 1, 1), 0.1))

    def forward(self, x, style, noise):
        x = self.conv(x * (1 + self.scale(style))[:, :, None, None]) + self.weight * noise
        return nn.functional.leaky_relu(x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-8), 0.2)


class StyleDecoder(nn.Module):
    """Maps a vector of 128 numbers to a picture of 128 x 128 pixels, with bilinear upsampling and styles. Sums the
    pictures of all sizes."""

    def __init__(self, widths=(256, 256, 128, 96, 64, 32)):
        super().__init__()
        self.mapping = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(128, 128), nn.LeakyReLU(0.2))])
        self.start = nn.Parameter(torch.randn(1, widths[0], 4, 4))
        pairs = list(zip((widths[0], *widths), widths))
        self.layers = nn.ModuleList(nn.ModuleList((StyleLayer(a, b, 128), StyleLayer(b, b, 128))) for a, b in pairs)
        self.pictures = nn.ModuleList(nn.Conv2d(b, 3, 1) for b in widths)
        self.noise = nn.ParameterList(torch.randn(1, 1, 4 << k, 4 << k) for k in range(len(widths)))

    def forward(self, z):
        style, picture, larger = self.mapping(z), None, nn.Upsample(scale_factor=2, mode="bilinear")
        x = self.start.expand(z.shape[0], -1, -1, -1)
        for depth, (layers, to_picture) in enumerate(zip(self.layers, self.pictures)):
            x = larger(x) if depth else x
            for layer in layers:
                x = layer(x, style, self.noise[depth])
            picture = to_picture(x) if picture is None else larger(picture) + to_picture(x)
        return torch.tanh(picture)


class Detector(nn.Module):
    """RetinaNet without the non-maximum suppression at its end: ResNet-18, a feature pyramid, and heads with group
    norms on five sizes."""

    def __init__(self, channels=128, classes=20):
        super().__init__()
        trunk = torchvision.models.resnet18(weights=None)
        self.stem = nn.Sequential(trunk.conv1, trunk.bn1, trunk.relu, trunk.maxpool, trunk.layer1)
        self.stages = nn.ModuleList((trunk.layer2, trunk.layer3, trunk.layer4))
        self.side = nn.ModuleList(nn.Conv2d(width, channels, 1) for width in (128, 256, 512))
        self.smooth = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(3))
        self.coarse = nn.ModuleList((nn.Conv2d(512, channels, 3, 2, 1), nn.Conv2d(channels, channels, 3, 2, 1)))
        self.classes, self.boxes = self.head(channels, 9 * classes), self.head(channels, 9 * 4)

    @staticmethod
    def head(channels, out):
        layers = [(nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(16, channels), nn.ReLU()) for _ in range(2)]
        return nn.Sequential(*[layer for group in layers for layer in group], nn.Conv2d(channels, out, 3, padding=1))

    def forward(self, x):
        x, kept = self.stem(x), []
        for stage in self.stages:
            x = stage(x)
            kept.append(x)
        levels = [self.coarse[0](x)]
        levels.append(self.coarse[1](torch.relu(levels[0])))
        x = None
        for side, smooth, beside in list(zip(self.side, self.smooth, kept))[::-1]:
            beside = side(beside)
            x = beside if x is None else beside + nn.functional.interpolate(x, scale_factor=2.0, mode="nearest")
            levels.insert(0, smooth(x))
        flat = lambda y: y.flatten(2).transpose(1, 2)
        return torch.cat([torch.cat((flat(self.classes(y)), flat(self.boxes(y))), 2) for y in levels], 1)


FRESH = {
    "2026-11-27": {
        "pit_s": timm_model("pit_s_224"),
        "twins_svt_small": timm_model("twins_svt_small", fused=False),
        "volo_d1": timm_model("volo_d1_224"),
        "mobileone_s1": timm_model("mobileone_s1"),
        "fastvit_t8": timm_model("fastvit_t8", (3, 256, 256)),
        "gcvit_xxtiny": timm_model("gcvit_xxtiny"),
        "rexnet_100": timm_model("rexnet_100", (3, 192, 256)),
        "cspdarknet53": timm_model("cspdarknet53", (3, 256, 320)),
        "dpn68": timm_model("dpn68"),
        "vovnet19b_dw": timm_model("ese_vovnet19b_dw", (3, 288, 288)),
        "convit_tiny": timm_model("convit_tiny"),
        "dla34": timm_model("dla34"),
        "electra_small": text("ElectraModel", "ElectraConfig", 110, 30522),
        "bloom_4layer": text("BloomForCausalLM", "BloomConfig", 64, 32000, hidden_size=512, n_layer=4, n_head=8,
                             vocab_size=32000),
        "temporal_net": Recipe(TemporalNet, (80, 400)),
        "speech_gru": Recipe(SpeechGRU, (200, 80)),
        "volume_unet": Recipe(VolumeUNet, (1, 32, 48, 48)),
        "super_resolution": Recipe(SuperResolution, (3, 64, 80)),
        "style_decoder": Recipe(StyleDecoder, (128,)),
        "detector": Recipe(Detector, (3, 256, 384)),
    },
    "2026-11-27b": {
        "resnext50": vision("resnext50_32x4d"),
        "mnasnet_075": vision("mnasnet0_75"),
        "coatnet_0": timm_model("coatnet_0_rw_224"),
        "davit_tiny": timm_model("davit_tiny"),
        "focalnet_tiny": timm_model("focalnet_tiny_srf"),
        "efficientformer_l1": timm_model("efficientformer_l1"),
        "mobilenetv4_small": timm_model("mobilenetv4_conv_small"),
        "selecsls42b": timm_model("selecsls42b"),
        "squeezebert": text("SqueezeBertModel", "SqueezeBertConfig", 85, 30522, num_hidden_layers=6),
        "gpt_neox_4layer": text("GPTNeoXForCausalLM", "GPTNeoXConfig", 72, 32000, hidden_size=512, num_hidden_layers=4,
                                num_attention_heads=8, intermediate_size=2048, vocab_size=32000),
    },
}
RECIPES = {name: recipe for recipes in (ZOO, *FRESH.values()) for name, recipe in recipes.items()}


def module(name):
    torch.manual_seed(0)
    return RECIPES[name].build().eval().requires_grad_(False)


def inputs(name, batch):
    """Returns one tensor, [batch, *shape]."""
    recipe, generator = RECIPES[name], torch.Generator().manual_seed(1)
    if recipe.vocabulary:
        return torch.randint(2, recipe.vocabulary, (batch, *recipe.shape), generator=generator)
    return torch.randn(batch, *recipe.shape, generator=generator)


def exported(name):
    """Returns the path of the ONNX file; its input is `x`, its output `y`, its batch is the symbol `batch`."""
    path = fill.cache_folder() / f"zoo-{name}-torch{torch.__version__.split('+')[0]}.onnx"
    if not path.exists():
        network = module(name)
        free = ({0: torch.export.Dim("batch", max=1024)},)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                network, (inputs(name, 2),), None, input_names=["x"], output_names=["y"], dynamo=True, verbose=False,
                dynamic_shapes=(free,) if isinstance(network, Only) else free, opset_version=20,
            )
        partial = path.with_suffix(".partial")
        program.save(partial)
        partial.rename(path)
    return path
