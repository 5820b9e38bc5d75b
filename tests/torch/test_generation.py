# SPDX-License-Identifier: Apache-2.0
"""A small language model generates the tokens of eager mode: one compile for the prompt, one for the tokens."""

import pytest
import torch
import vision
from places import keep_count

import weft.torch

vision.define_operators()
import transformers


def language_model(name="llama"):
    torch.manual_seed(5)
    config = transformers.AutoConfig.for_model(
        name, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=128,
        vocab_size=199, max_position_embeddings=128, bos_token_id=1, eos_token_id=None, pad_token_id=0,
    )
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def greedy(model, ids, cache, steps):
    """Returns the tokens that the model's own forward chooses."""
    tokens, place = [], torch.arange(ids.shape[1])
    with torch.no_grad():
        for _ in range(steps):
            out = model(input_ids=ids, past_key_values=cache, cache_position=place, position_ids=place[None], use_cache=True)
            cache, ids = out.past_key_values, out.logits[:, -1:].argmax(-1)
            tokens.append(ids)
            place = place[-1:] + 1
    return torch.cat(tokens, 1)


@pytest.mark.long
@pytest.mark.rotates(2)
@pytest.mark.parametrize("kind", ["static", "growing"])
def test_tokens_are_those_of_eager(kind):
    model = language_model()
    ids = torch.randint(2, 190, (2, 7))

    def cache():
        if kind == "static":
            return transformers.StaticCache(config=model.config, max_cache_len=48)
        return transformers.DynamicCache(config=model.config)

    wanted = greedy(model, ids, cache(), 12)
    torch._dynamo.reset()
    weft.torch.placements.clear()
    fast = torch.compile(model, backend="weft", dynamic=True, options={"device": "cpu"})
    got = greedy(fast, ids, cache(), 12)
    of = {"model": "llama, random weights", "cache": kind, "torch": torch.__version__}
    keep_count("generation with PyTorch", of, tokens=got.numel(), equal_to_eager=int((got == wanted).sum()), graphs=len(weft.torch.placements))
    assert got.tolist() == wanted.tolist()
    assert {placement.why for placement in weft.torch.placements} == {""}
    assert len(weft.torch.placements) == 2, weft.torch.placements
