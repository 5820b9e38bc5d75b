# SPDX-License-Identifier: Apache-2.0
"""Models of timm and transformers with random weights: each is compiled once and gives torch's answers at several
sizes."""

import io

import pytest
import torch
import vision
from torch.export import Dim

import weft

vision.define_operators()
import timm
import transformers

PICTURES = ["resnet18", "mobilenetv3_small_050", "efficientnet_b0", "convnext_atto", "vit_tiny_patch16_224", "regnetx_002"]
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 199,
         "max_position_embeddings": 128}
GROUPED = {"num_key_value_heads": 2}
TEXTS = {
    "bert": SMALL, "roberta": SMALL, "opt": {**SMALL, "ffn_dim": 128, "word_embed_proj_dim": 64}, "llama": {**SMALL, **GROUPED},
    "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 199, "n_positions": 128}, "qwen3": {**SMALL, **GROUPED, "head_dim": 16},
    "gemma": {**SMALL, **GROUPED, "head_dim": 16}, "phi": SMALL, "gpt_neox": SMALL, "falcon": SMALL,
}
ENCODERS = {"bert", "roberta"}


def compiled(model, inputs, shapes):
    try:
        with torch.no_grad():
            program = torch.export.export(model, inputs, dynamic_shapes=shapes)
    except torch._dynamo.exc.UserError as error:
        if torch.__version__ >= "2.13":
            raise
        pytest.skip(f"torch {torch.__version__} does not export it with open sizes: {str(error)[:80]}")
    file = io.BytesIO()
    torch.export.save(program, file)
    return weft.compile(file.getvalue(), device="cpu")


def compare(got, wanted):
    assert got.shape == wanted.shape
    assert (got - wanted).abs().max() <= 1e-4 * wanted.abs().max()


@pytest.mark.rotates(2)
@pytest.mark.parametrize("name", PICTURES)
def test_timm(name):
    model = timm.create_model(name, pretrained=False, num_classes=10).eval()
    size = 224 if "vit" in name else 96
    run = compiled(model, (torch.randn(2, 3, size, size),), ({0: Dim("batch", min=1, max=64)},))
    for batch in (1, 3):
        x = torch.randn(batch, 3, size, size)
        with torch.no_grad():
            compare(run(x), model(x))


class Logits(torch.nn.Module):
    """Returns the logits of a causal model without a cache, or the last hidden state of an encoder."""

    def __init__(self, model, is_causal):
        super().__init__()
        self.model, self.is_causal = model, is_causal

    def forward(self, ids):
        return self.model(input_ids=ids, use_cache=False).logits if self.is_causal else self.model(input_ids=ids).last_hidden_state


@pytest.mark.rotates(2)
@pytest.mark.parametrize("name", TEXTS)
def test_transformers(name):
    config = transformers.AutoConfig.for_model(name, **TEXTS[name])
    kind = transformers.AutoModel if name in ENCODERS else transformers.AutoModelForCausalLM
    model = Logits(kind.from_config(config).eval(), name not in ENCODERS).eval()
    sizes = ({0: Dim("batch", min=1, max=16), 1: Dim("tokens", min=2, max=64)},)
    run = compiled(model, (torch.randint(5, 190, (2, 12)),), sizes)
    for batch, tokens in ((1, 5), (8, 17), (2, 32)):
        ids = torch.randint(5, 190, (batch, tokens))
        with torch.no_grad():
            compare(run(ids), model(ids))
