# SPDX-License-Identifier: Apache-2.0
"""Functions that draw com.microsoft's operators; their answers come from onnxruntime alone."""

import numpy as np
from draw import SIZES, Skip

DOMAIN = "com.microsoft"
DRAWERS = {}


def draws(*names):
    def enter(way):
        for name in names:
            DRAWERS.setdefault(name, []).append(way)
        return way

    return enter


def add(d, name, *operands, **words):
    return d.add(name, *operands, domain=DOMAIN, **words)


def f32(d, *shape, scale=1):
    return d.array(shape) / np.float32(scale)


# --- activations, and products with fused operators


@draws("Gelu", "QuickGelu", "FastGelu", "BiasGelu")
def gelu(d, name):
    x = d.float(least=1)
    bias = [f32(d, x.shape[-1])] if name == "BiasGelu" or (name == "FastGelu" and d.chance(0.5)) else []
    return add(d, name, x, *bias, **({"alpha": 1.25} if name == "QuickGelu" else {}))


@draws("FusedMatMul", "TransposeMatMul")
def fused_matmul(d, name):
    x = d.float(least=2, want=lambda v: v.rank < 4)
    a, b = d.random.randrange(2), d.random.randrange(2)
    k, n = x.shape[-2 if a else -1], d.random.choice(SIZES)
    return add(d, name, x, f32(d, *((n, k) if b else (k, n)), scale=4), transA=a, transB=b, alpha=d.random.choice([1.0, 0.5]))


FUSED = [{}, {"activation": "Relu"}, {"activation": "Tanh"}, {"activation": "Sigmoid"},
         {"activation": "LeakyRelu", "activation_params": [0.125]}]


@draws("FusedConv")
def fused_conv(d, name):
    x = d.float(4, want=lambda v: min(v.shape[2:]) > 2 and v.plain.size < 1024)
    c, out = x.shape[1], d.random.choice((1, 2, 8))
    bias = [f32(d, out)] if d.chance(0.6) else []
    return add(d, name, x, f32(d, out, c, 3, 3, scale=8), *bias, pads=[1, 1, 1, 1], kernel_shape=[3, 3], **d.random.choice(FUSED))


@draws("FusedGemm")
def fused_gemm(d, name):
    x = d.float(2)
    n = d.random.choice(SIZES)
    return add(d, name, x, f32(d, x.shape[1], n, scale=4), f32(d, n), activation=d.random.choice(["Relu", "Tanh"]))


# --- norms


@draws("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def skip_norm(d, name):
    x = d.float(3, want=lambda v: v.shape[-1] > 1)
    weights = [f32(d, x.shape[-1]) for _ in range(1 if "Simplified" in name else d.random.choice((1, 2, 3)))]
    return add(d, name, x, d.weight(f32(d, *x.shape)), *weights, epsilon=0.01)


@draws("EmbedLayerNormalization")
def embed_norm(d, name):
    words, width = 11, 8
    ids = d.given(d.numbers.integers(0, words, (2, 5)).astype(np.int32))
    tables = [f32(d, words, width), f32(d, 9, width)]
    return add(d, name, ids, None, *tables, None, f32(d, width), f32(d, width), outputs=2, epsilon=0.01)


# --- attention


def attention_shape(d):
    return d.random.choice((1, 2)), d.random.choice((1, 3, 6)), d.random.choice((2, 4)), d.random.choice((4, 8))


@draws("MultiHeadAttention")
def multi_head(d, name):
    batch, tokens, heads, size = attention_shape(d)
    keys = d.random.choice((tokens, 5))
    q, k, v = d.input((batch, tokens, heads * size)), d.input((batch, keys, heads * size)), d.input((batch, keys, heads * size))
    bias = d.weight(f32(d, 3 * heads * size)) if d.chance(0.4) else None
    if d.chance(0.3):  # the keys and values of an encoder
        k, v = d.input((batch, heads, keys, size)), d.input((batch, heads, keys, size))
    elif d.chance(0.3):  # also returns keys, values and the scores before the softmax
        return add(d, name, q, k, v, bias, outputs=4, num_heads=heads)
    words = ({"scale": 0.3} if d.chance(0.4) else {}) | ({"unidirectional": 1} if d.chance(0.4) else {})
    return add(d, name, q, k, v, bias, num_heads=heads, **words)


@draws("DecoderMaskedMultiHeadAttention")
def decoder_masked(d, name):
    (batch, _, heads, size), past = attention_shape(d), d.random.choice((1, 4))
    rows = [d.input((batch, 1, heads * size)) for _ in range(3)]
    caches = [d.input((batch, heads, past + 1, size)) for _ in range(2)]
    bias = d.weight(f32(d, 3 * heads * size)) if d.chance(0.4) else None
    words = {"outputs": 4, "output_qk": 1} if d.chance(0.4) else {"outputs": 3}
    return add(d, name, *rows, None, None, *caches, np.array([past], np.int32), None, None, bias, num_heads=heads,
               past_present_share_buffer=1, **words)


@draws("Attention")
def attention(d, name):
    batch, tokens, heads, size = attention_shape(d)
    width = heads * size
    x = d.input((batch, tokens, 6))
    words = {"unidirectional": 1} if d.chance(0.4) else {}
    return add(d, name, x, f32(d, 6, 3 * width, scale=4), f32(d, 3 * width), num_heads=heads, **words)


@draws("GroupQueryAttention")
def group_query(d, name):
    batch, tokens, heads, size = attention_shape(d)
    kv, past = heads // d.random.choice((1, 2)), d.random.choice((0, 4))
    q, k, v = (d.input((batch, tokens, n * size)) for n in (heads, kv, kv))
    caches = [d.input((batch, kv, past, size)) for _ in range(2)]
    lengths = np.full(batch, past + tokens - 1, np.int32)
    words = {"local_window_size": 3} if d.chance(0.3) else {}
    return add(d, name, q, k, v, *caches, lengths, np.array(past + tokens, np.int32), outputs=3, num_heads=heads,
               kv_num_heads=kv, **words)


@draws("RotaryEmbedding")
def rotary(d, name):
    batch, tokens, heads, size = attention_shape(d)
    x = d.input((batch, heads, tokens, size))
    angles = f32(d, 16, size // 2)
    where = np.array([d.random.randrange(8)], np.int64) if d.chance(0.5) else d.numbers.integers(0, 16, (batch, tokens))
    return add(d, name, x, where, np.cos(angles), np.sin(angles), interleaved=d.random.randrange(2))


# --- quantised


def quantum(scale=0.25, zero=3, dtype=np.uint8):
    return np.array(scale, np.float32), np.array(zero, dtype)


@draws("QLinearAdd", "QLinearMul")
def qlinear_binary(d, name):
    shape = d.shape(d.random.choice((1, 2, 3)))
    a, b = d.input(shape, np.uint8), d.weight(d.array(shape[-1:], np.uint8))
    return add(d, name, a, *quantum(), b, *quantum(0.5, 1), *quantum(d.random.choice((0.25, 1, 2)), d.random.choice((0, 2, 5))))


@draws("QLinearLeakyRelu", "QLinearSigmoid")
def qlinear_unary(d, name):
    words = {"alpha": 0.25} if name == "QLinearLeakyRelu" else {}
    return add(d, name, d.input(d.shape(2), np.uint8), *quantum(), *quantum(1 / 64, 0), **words)


@draws("QLinearConcat")
def qlinear_concat(d, name):
    parts = [p for n in (2, 3) for p in (d.input((n, 4), np.uint8), *quantum(0.25 * n, 0))]
    return add(d, name, *quantum(0.25, 1), *parts, axis=0)


@draws("QLinearGlobalAveragePool", "QLinearAveragePool")
def qlinear_pool(d, name):
    words = {"channels_last": 0}
    if "Global" not in name:
        words = {"kernel_shape": [2, 2]}
        if d.chance(0.6):
            words = {"kernel_shape": [d.random.choice((2, 3, 4)) for _ in range(2)], "strides": [d.random.choice((1, 2, 3)) for _ in range(2)],
                     "pads": [d.random.choice((0, 1)) for _ in range(4)], "ceil_mode": d.random.randrange(2), "count_include_pad": d.random.randrange(2)}
    return add(d, name, d.input((1, 2, 4, 5), np.uint8), *quantum(zero=2), *quantum(zero=d.random.choice((3, 4))), **words)


@draws("QGemm")
def qgemm(d, name):
    x, w = d.input((3, 8), np.uint8), d.weight(d.array((8, 5), np.int8))
    return add(d, name, x, *quantum(), w, *quantum(0.5, 0, np.int8), d.weight(d.array((5,), np.int32)), *quantum(2.0, 5))


@draws("MatMulIntegerToFloat")
def integers_to_float(d, name):
    x, w = d.input((3, 8), np.uint8), d.weight(d.array((8, 5), np.int8))
    return add(d, name, x, w, np.array(0.25, np.float32), np.array(0.5, np.float32), np.array(3, np.uint8), np.array(0, np.int8),
               f32(d, 5))


@draws("DynamicQuantizeMatMul")
def dynamic_quantised(d, name):
    x = np.concatenate([d.array((15,), high=3), np.array([-4], np.float32)])
    x = np.concatenate([x, [np.float32(4 * 127 / 128)]])[None]  # the operator computes a scale of 1/32
    return add(d, name, d.given(x.astype(np.float32), chosen=True), d.weight(d.array((17, 5), np.int8)), np.array(0.5, np.float32))


@draws("MatMulNBits")
def nbits(d, name):
    bits, n, k, block = d.random.choice((4, 4, 8)), d.random.choice((1, 5, 8)), d.random.choice((32, 48)), d.random.choice((16, 32))
    blocks = -(-k // block)
    level = d.random.choice((1, 4))
    if level == 4:  # rows that 8 bits hold exactly
        x = d.numbers.integers(-127, 128, (1, 1, k)).astype(np.float32)
        x[..., ::block] = 127
        x = d.given(x, chosen=True)
    else:
        x = d.input((d.random.choice((1, 2)), d.random.choice((1, 3)), k))
    w = d.numbers.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
    scales = f32(d, n * blocks, scale=64)
    zeros = [d.numbers.integers(0, 256, n * -(-blocks * bits // 8)).astype(np.uint8)] if d.chance(0.5) else []
    return add(d, name, x, w, scales, *zeros, K=k, N=n, bits=bits, block_size=block, accuracy_level=level)


@draws("GatherBlockQuantized")
def gather_quantised(d, name):
    rows, k = 6, 32
    w = d.numbers.integers(0, 256, (rows, k)).astype(np.uint8)
    scales = f32(d, rows, 2, scale=16)
    index = d.given(d.numbers.integers(0, rows, (2, 3)))
    return add(d, name, w, index, scales, gather_axis=0, quantize_axis=1, block_size=16, bits=8)


# --- others


@draws("Trilu")
def trilu(d, name):
    return add(d, name, d.float(least=2), np.array(d.random.randint(-2, 2), np.int64), upper=d.random.randrange(2))


@draws("Inverse")
def inverse(d, name):
    return add(d, name, d.weight(f32(d, 3, 3, scale=8) + 2 * np.eye(3, dtype=np.float32)))


@draws("CDist")
def distances(d, name):
    return add(d, name, d.input((4, 3)), d.input((5, 3)), metric="sqeuclidean")


@draws("ExpandDims")
def expand_dims(d, name):
    x = d.float()
    if x.rank > 4:
        raise Skip
    return add(d, name, x, np.array(d.random.randint(0, x.rank), np.int32))


@draws("Range")
def range_of(d, name):
    return add(d, name, np.array(1, np.float32), d.given(np.array(7.5, np.float32)), np.array(1.5, np.float32))


@draws("MoE")
def experts(d, name):
    tokens, width, inner, count = d.random.choice((1, 5)), 8, 12, 4
    x = d.input((tokens, width))
    scores = d.given(np.stack([d.numbers.permutation(count) / np.float32(2) for _ in range(tokens)]).astype(np.float32),
                     chosen=True)
    first, second = f32(d, count, inner, width, scale=8), f32(d, count, width, inner, scale=8)
    return add(d, name, x, scores, first, f32(d, count, inner), second, f32(d, count, width), k=2,
               activation_type=d.random.choice(["relu", "gelu", "silu"]), normalize_routing_weights=1)
