#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes model folders for onnxruntime-genai with random weights. The graphs are those that its model builder exports
for decoders; only onnx is needed to write them, without a checkpoint or torch.

    python tests/ort/genai_models.py FOLDER --arch llama --precision int4 [--preset 0.5b]

The structure follows onnxruntime-genai 0.18's builder for the CPU provider (fp16: for CUDA). It has packed QKV
and GroupQueryAttention with its own rotary embedding and one buffer for past and present.
SkipSimplifiedLayerNormalization has two results, and lengths are computed from the attention mask. MatMulNBits has
blocks of 32 and accuracy level 4.
"""
import argparse
import dataclasses
import json
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper

ARCHITECTURES = ("llama", "qwen2", "qwen3", "phi3", "mistral", "gemma2", "gptoss")
PRECISIONS = ("fp32", "fp16", "int4")
END = 2  # the token that ends a text; its logit is always 0, which is never the largest


@dataclasses.dataclass
class Decoder:
    arch: str = "llama"
    precision: str = "fp32"
    layers: int = 2
    hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    head: int = 16
    inner: int = 160
    vocab: int = 512
    context: int = 2048
    window: int = 10  # sliding window of mistral, phi3 and every second layer of gemma2 and gptoss
    experts: int = 4  # experts of gptoss; each token uses two
    zeros: bool = False  # int4 weights with zero points
    accuracy: int = 4  # accuracy_level of int4 products
    qdq: bool = False  # int4 weights in DequantizeLinear nodes
    sinks: bool = False  # a learnt score in each head's softmax; gptoss always has them
    tied: bool = False  # int4: the last product uses the embedding as its weights
    ids: str = "int64"
    lora: int = 0  # rank of an adapter for each attention's last product; callers may override its weights
    seed: int = 0

    def window_of(self, layer):
        every_second = self.arch in ("gemma2", "gptoss") and layer % 2 == 0
        return self.window if self.arch in ("mistral", "phi3") or every_second else -1


PRESETS = {
    "tiny": {},
    "0.5b": {"layers": 24, "hidden": 896, "heads": 14, "kv_heads": 2, "head": 64, "inner": 4864, "vocab": 151936, "tied": True},
    "0.1b": {"layers": 6, "hidden": 896, "heads": 14, "kv_heads": 2, "head": 64, "inner": 4864, "vocab": 32000},
}


class Graph:
    """The nodes and weights of one decoder; each method adds a structure that decoders repeat."""

    def __init__(self, d):
        self.d, self.nodes, self.weights, self.inputs, self.outputs = d, [], [], [], []
        self.random = np.random.default_rng(d.seed + ARCHITECTURES.index(d.arch))
        self.type = np.float16 if d.precision == "fp16" else np.float32
        self.element = TensorProto.FLOAT16 if d.precision == "fp16" else TensorProto.FLOAT

    def node(self, op, inputs, name, count=1, domain="", **attributes):
        outputs = [name] if count == 1 else [f"{name}.{i}" for i in range(count)]
        self.nodes.append(helper.make_node(op, inputs, outputs, name, domain=domain, **attributes))
        return outputs[0] if count == 1 else outputs

    def contrib(self, op, inputs, name, count=1, **attributes):
        return self.node(op, inputs, name, count, "com.microsoft", **attributes)

    def weight(self, name, values):
        self.weights.append(helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(values.dtype), values.shape,
                                               values.tobytes(), raw=True))
        return name

    def number(self, name, value, kind=None):
        return self.weight(name, np.array(value, kind or self.type))

    def normal(self, *dims, scale=1.0):
        return (scale * self.random.standard_normal(dims, np.float32)).astype(self.type)

    def matmul(self, x, name, k, n, scale=1.0):
        """Returns x[.., k] times random weights; in the last product the end token's weights are 0, so it is never
        chosen."""
        if self.d.precision != "int4":
            w = self.normal(k, n, scale=scale / np.sqrt(k))
            if name == "lm_head":
                w[:, END] = 0
            return self.node("MatMul", [x, self.weight(name + ".weight", w)], name)
        blocks = k // 32
        if self.d.qdq:
            return self.dequantized_matmul(x, name, k, n, scale)
        scales = np.full((n, blocks), scale / np.sqrt(k) / 4.6, np.float32)
        scales *= self.random.uniform(0.7, 1.3, scales.shape).astype(np.float32)
        if name == "lm_head":
            scales[END] = 0
        packed = self.random.integers(0, 256, (n, blocks, 16), np.uint8)
        inputs = [x, self.weight(name + ".qweight", packed), self.weight(name + ".scales", scales.reshape(-1))]
        if self.d.zeros:
            inputs.append(self.weight(name + ".qzeros", self.random.integers(0x66, 0x99, (n, (blocks + 1) // 2), np.uint8)))
        level = {"accuracy_level": self.d.accuracy} if self.d.accuracy else {}
        return self.contrib("MatMulNBits", inputs, name, K=k, N=n, bits=4, block_size=32, **level)

    def dequantized_matmul(self, x, name, k, n, scale):
        """Returns the same product as `matmul`, but with the weights [k, n] dequantised by a separate node."""
        packed = self.random.integers(0, 256, (k, n // 2), np.uint8)
        self.weights.append(helper.make_tensor(name + ".steps", TensorProto.INT4, (k, n), packed.tobytes(), raw=True))
        scales = self.random.uniform(0.7, 1.3, (k // 32, n)).astype(np.float32) * np.float32(scale / np.sqrt(k) / 4.6)
        if name == "lm_head":
            scales[:, END] = 0
        w = self.node("DequantizeLinear", [name + ".steps", self.weight(name + ".scales", scales)], name + ".weight", axis=0,
                      block_size=32)
        return self.node("MatMul", [x, w], name)

    def norm_weight(self, name, size):
        return self.weight(name, (1 + self.normal(size, scale=0.1)).astype(self.type))

    def norm(self, x, name, size):
        return self.node("SimplifiedLayerNormalization", [x, self.norm_weight(name + ".weight", size)], name, axis=-1,
                         epsilon=1e-5, stash_type=1)

    def skip_norm(self, x, skip, name, is_last=False):
        """Returns the sum of x and skip, and its norm; after the last layer only the norm."""
        outputs = [name, "", "", "" if is_last else name + ".sum"]
        inputs = [x, skip, self.norm_weight(name + ".weight", self.d.hidden)]
        while not outputs[-1]:
            outputs.pop()
        self.nodes.append(helper.make_node("SkipSimplifiedLayerNormalization", inputs, outputs, name,
                                           domain="com.microsoft", epsilon=1e-5))
        return outputs[-1], outputs[0]

    def lengths(self):
        """Adds nodes that compute seqlens_k and total_sequence_length from the mask."""
        axis, one = self.weight("axis", np.array([1], np.int64)), self.weight("one", np.array([1], self.d.ids))
        sums = self.node("ReduceSum", ["attention_mask", axis], "mask.sum", keepdims=1)
        last = self.node("Sub", [sums, one], "mask.last")
        self.node("Cast", [last], "seqlens_k", to=TensorProto.INT32)
        shape = self.node("Shape", ["attention_mask"], "mask.shape")
        total = self.node("Gather", [shape, self.weight("place", np.array(1, np.int64))], "mask.total", axis=0)
        self.node("Cast", [total], "total_sequence_length", to=TensorProto.INT32)

    def rotary(self):
        angle = np.outer(np.arange(self.d.context), 10000.0 ** (-np.arange(0, self.d.head, 2) / self.d.head))
        self.weight("cos_cache", np.cos(angle).astype(self.type))
        self.weight("sin_cache", np.sin(angle).astype(self.type))

    def embedding(self):
        d = self.d
        if not d.tied:
            table = self.normal(d.vocab, d.hidden)
            x = self.node("Gather", [self.weight("embed", table), "input_ids"], "embedded")
        else:  # the last product's weights
            flat = self.node("Reshape", ["lm_head.qweight", self.weight("flat", np.array([d.vocab, -1], np.int64))], "table")
            rows = self.node("Reshape", ["lm_head.scales", self.weight("rows", np.array([d.vocab, -1], np.int64))], "steps")
            x = self.contrib("GatherBlockQuantized", [flat, "input_ids", rows], "embedded", bits=4, block_size=32,
                             gather_axis=0, quantize_axis=1)
        if d.arch == "gemma2":
            x = self.node("Mul", [x, self.number("embed.scale", np.sqrt(d.hidden))], "embedded.scaled")
        return x

    def head_norm(self, x, name, heads):
        split = self.node("Reshape", [x, self.weight(name + ".split", np.array([0, -1, heads, self.d.head], np.int64))],
                          name + ".heads")
        y = self.norm(split, name, self.d.head)
        return self.node("Reshape", [y, self.weight(name + ".join", np.array([0, -1, heads * self.d.head], np.int64))],
                         name + ".joined")

    def attention(self, x, layer):
        d, at = self.d, f"layers.{layer}.attn"
        sizes = [d.heads * d.head, d.kv_heads * d.head, d.kv_heads * d.head]
        qkv = [self.matmul(x, at + ".qkv", d.hidden, sum(sizes)), "", ""]
        if d.arch in ("qwen2", "gptoss"):
            qkv[0] = self.biased(qkv[0], at + ".qkv", sum(sizes))
        if d.arch == "qwen3":
            parts = self.node("Split", [qkv[0], self.weight(at + ".parts", np.array(sizes, np.int64))], at + ".split", 3,
                              axis=-1)
            qkv = [self.head_norm(parts[0], at + ".q_norm", d.heads), self.head_norm(parts[1], at + ".k_norm", d.kv_heads),
                   parts[2]]
        past, present = (f"{word}.{layer}." for word in ("past_key_values", "present"))
        inputs = [*qkv, past + "key", past + "value", "seqlens_k", "total_sequence_length", "cos_cache", "sin_cache"]
        if d.sinks or d.arch == "gptoss":
            inputs += ["", "", self.weight(at + ".sinks", self.normal(d.heads))]
        cap = 50.0 if d.arch == "gemma2" else 0.0
        self.nodes.append(helper.make_node(
            "GroupQueryAttention", inputs, [at, present + "key", present + "value"], at, domain="com.microsoft",
            num_heads=d.heads, kv_num_heads=d.kv_heads, scale=float(d.head ** -0.5), softcap=cap, do_rotary=1,
            rotary_interleaved=0, local_window_size=d.window_of(layer)))
        for port, start, length in ((self.inputs, past, "past_sequence_length"), (self.outputs, present, "total_sequence_length")):
            for word in "key", "value":
                port.append((start + word, self.element, ["batch_size", d.kv_heads, length, d.head]))
        y = self.matmul(at, f"layers.{layer}.o", d.heads * d.head, d.hidden)
        if d.arch == "gptoss":
            y = self.biased(y, f"layers.{layer}.o", d.hidden)
        return self.adapted(y, at, layer) if d.lora else y

    def adapted(self, y, x, layer):
        """Returns y + x A B; A and B are the weights of an adapter, 0 if no adapter is given."""
        d, at, parts = self.d, f"layers.{layer}.lora", []
        for part, dims in (("A", [d.heads * d.head, d.lora]), ("B", [d.lora, d.hidden])):
            self.inputs.append((self.weight(f"{at}.{part}", np.zeros(dims, self.type)), self.element, dims))
            parts.append(f"{at}.{part}")
        low = self.node("MatMul", [x, parts[0]], at + ".low")
        return self.node("Add", [y, self.node("MatMul", [low, parts[1]], at + ".high")], at + ".sum")

    def biased(self, x, name, size):
        return self.node("Add", [x, self.weight(name + ".bias", self.normal(size))], name + ".biased")

    def expert_weight(self, name, n, k):
        """Returns the names of one layer's weights [experts, n, k] and bias. int4 weights are packed, and their scales
        follow them."""
        count, scale = self.d.experts, 1 / np.sqrt(k)
        bias = self.weight(name + ".bias", self.normal(count, n))
        if self.d.precision != "int4":
            return [self.weight(name + ".weight", self.normal(count, n, k, scale=scale)), bias]
        scales = (scale / 4.6 * self.random.uniform(0.7, 1.3, (count, n, k // 32))).astype(np.float32)
        scales *= self.random.choice(np.array([-1, 1], np.float32), scales.shape)  # quantisers make negative scales too
        packed = self.random.integers(0, 256, (count, n, k // 2), np.uint8)
        return [self.weight(name + ".qweight", packed), self.weight(name + ".scales", scales), bias]

    def mixture(self, x, layer):
        """Returns a mixture of experts with two experts per token. Columns of gate and up projection alternate in one
        matrix."""
        d, at = self.d, f"layers.{layer}.moe"
        scores = self.biased(self.matmul(x, at + ".router", d.hidden, d.experts), at + ".router", d.experts)
        flat = self.node("Reshape", [scores, self.weight(at + ".flat", np.array([-1, d.experts], np.int64))], at + ".scores")
        inputs = [x, flat, *self.expert_weight(at + ".gate_up", 2 * d.inner, d.hidden),
                  *self.expert_weight(at + ".down", d.hidden, d.inner)]
        kind = {"op": "QMoE", "expert_weight_bits": 4, "block_size": 32} if d.precision == "int4" else {"op": "MoE"}
        return self.contrib(kind.pop("op"), inputs, at, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=7.0,
                            activation_type="swiglu", swiglu_fusion=1, k=2, normalize_routing_weights=1, use_sparse_mixer=0,
                            **kind)

    def feed_forward(self, x, layer):
        d, at = self.d, f"layers.{layer}.mlp"
        if d.arch == "gptoss":
            return self.mixture(x, layer)
        gate, up = (self.matmul(x, f"{at}.{word}", d.hidden, d.inner) for word in ("gate", "up"))
        if d.arch == "gemma2":
            active = self.node("Gelu", [gate], at + ".gelu", approximate="tanh")
        else:
            active = self.node("Mul", [gate, self.node("Sigmoid", [gate], at + ".sigmoid")], at + ".silu")
        return self.matmul(self.node("Mul", [active, up], at + ".mul"), at + ".down", d.inner, d.hidden)

    def logits(self, x):
        d = self.d
        y = self.matmul(x, "lm_head", d.hidden, d.vocab, scale=3)
        if d.arch == "gemma2":
            y = self.node("Div", [y, self.number("cap", 30)], "logits.low")
            y = self.node("Mul", [self.node("Tanh", [y], "logits.tanh"), "cap"], "logits.capped")
        self.nodes.append(helper.make_node("Identity", [y], ["logits"]))

    def body(self):
        d = self.d
        self.lengths()
        self.rotary()
        x = self.embedding()
        normed = self.norm(x, "layers.0.input_norm", d.hidden)
        for layer in range(d.layers):
            at, is_last = f"layers.{layer}", layer == d.layers - 1
            y = self.attention(normed, layer)
            if d.arch == "gemma2":
                y = self.norm(y, at + ".after_attention", d.hidden)
            x, normed = self.skip_norm(x, y, at + ".post_norm")
            y = self.feed_forward(normed, layer)
            if d.arch == "gemma2":
                y = self.norm(y, at + ".after_mlp", d.hidden)
            following = "final_norm" if is_last else f"layers.{layer + 1}.input_norm"
            x, normed = self.skip_norm(x, y, following, is_last)
        self.logits(normed)

    def model(self):
        self.body()
        kind = TensorProto.INT32 if self.d.ids == "int32" else TensorProto.INT64
        ids = [(name, kind, ["batch_size", length]) for name, length in
               (("input_ids", "sequence_length"), ("attention_mask", "total_sequence_length"))]
        logits = ("logits", self.element, ["batch_size", "sequence_length", self.d.vocab])
        values = [[helper.make_tensor_value_info(*value) for value in list_]
                  for list_ in (ids + self.inputs, [logits] + self.outputs)]
        graph = helper.make_graph(self.nodes, "decoder", *values, self.weights)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def config(d):
    """Returns the contents of genai_config.json."""
    decoder = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "filename": "model.onnx", "head_size": d.head, "hidden_size": d.hidden, "num_attention_heads": d.heads,
        "num_hidden_layers": d.layers, "num_key_value_heads": d.kv_heads,
        "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask",
                   "past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"},
        "outputs": {"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"},
    }
    model = {"type": d.arch, "vocab_size": d.vocab, "context_length": d.context, "bos_token_id": 1, "eos_token_id": END,
             "pad_token_id": END, "decoder": decoder}
    search = {"do_sample": False, "max_length": d.context, "min_length": 0, "num_beams": 1, "num_return_sequences": 1,
              "top_k": 50, "top_p": 1.0, "temperature": 1.0, "repetition_penalty": 1.0, "length_penalty": 1.0,
              "diversity_penalty": 0.0, "no_repeat_ngram_size": 0, "early_stopping": True, "past_present_share_buffer": True}
    return {"model": model, "search": search}


def byte_letters():
    """Returns GPT-2's letter for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {**{byte: chr(byte) for byte in plain}, **{byte: chr(256 + i) for i, byte in enumerate(rest)}}


def tokenizer(vocab):
    """Returns the contents of tokenizer.json and tokenizer_config.json: a byte-level tokenizer without merges. Ids
    above those of the bytes are whole words."""
    specials = ["<unk>", "<s>", "</s>"]
    letters = byte_letters()
    words = specials + [letters[byte] for byte in range(256)]
    words += [f"w{i}" for i in range(len(words), vocab)]
    added = [{"id": i, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, word in enumerate(specials)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    body = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": level, "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                      "end_of_word_suffix": "", "fuse_unk": False, "vocab": {word: i for i, word in enumerate(words)},
                      "merges": []}}
    chat = ("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
            "{% if add_generation_prompt %}assistant: {% endif %}")
    settings = {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>",
                "unk_token": "<unk>", "add_bos_token": False, "clean_up_tokenization_spaces": False, "chat_template": chat}
    return body, settings


def write(folder, d, provider=None, options=None):
    """Makes the folder. genai_config.json names `provider` and `options`."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    outside = {"save_as_external_data": True, "location": "model.onnx.data", "size_threshold": 1024} if d.layers > 2 else {}
    onnx.save(Graph(d).model(), str(folder / "model.onnx"), **outside)
    settings = config(d)
    if provider:
        settings["model"]["decoder"]["session_options"]["provider_options"] = [{provider: options or {}}]
    body, words = tokenizer(d.vocab)
    for name, content in (("genai_config.json", settings), ("tokenizer.json", body), ("tokenizer_config.json", words)):
        (folder / name).write_text(json.dumps(content, indent=1))
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--arch", choices=ARCHITECTURES, default="llama")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--preset", choices=PRESETS, default="tiny")
    parser.add_argument("--zeros", action="store_true")
    parser.add_argument("--accuracy", type=int, default=4)
    parser.add_argument("--provider")
    options = parser.parse_args()
    shape = dict(PRESETS[options.preset], arch=options.arch, precision=options.precision, zeros=options.zeros,
                 accuracy=options.accuracy)
    shape["tied"] = shape.get("tied", False) and options.precision == "int4"
    write(options.folder, Decoder(**shape), options.provider)


if __name__ == "__main__":
    main()
