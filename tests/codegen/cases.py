# SPDX-License-Identifier: Apache-2.0
"""Cases of the kernels in samples.cpp, samples_gemm.cpp and samples_groups.cpp: inputs, run-time sizes, and the
expected results, computed by numpy.

A Case is one launch of a kernel: its inputs, parameters and expected results."""
import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np

rng = np.random.default_rng(20)


@dataclass
class Case:
    kernel: str
    sizes: list
    inputs: list  # arrays: buffers 0, 1, ...
    outputs: list  # (shape, dtype) of the buffers that follow the inputs
    expected: list  # arrays in f64 or integers
    tolerance: float  # allowed |got - expected| / max(1, |expected|); 0: must be equal
    blocks: int = 1  # work groups on a GPU
    threads: int = 256
    tasks: int = 1 << 20  # on a CPU; may exceed the number of tasks, because kernels stop after the last task
    scratch: int = 1 << 20
    shared: int = 0  # on a GPU: bytes of dynamic shared memory
    cluster: int = 1  # on a GPU: blocks of a cluster
    work: float = 0  # operations or bytes of a timed case, for rates in `unit` (1e9 per second)
    unit: str = ""


def bf16(x):
    """Rounds f32 values to bf16 and returns their bits."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def normal(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


erf = np.vectorize(math.erf, otypes=[np.float64])


def pointwise(rows, cols):
    a, s, b, t = normal(rows, cols), normal(cols, dtype=np.float16), bf16(normal(rows)), normal(cols, rows)
    x = a.astype(np.float64) * s.astype(np.float64) + from_bf16(b).astype(np.float64)[:, None]
    y = x * 0.5 * (1 + erf(x * 0.70710678)) + t.T
    sizes = [rows, cols, cols, 1, 0, 1, 1, 0, 1, rows, cols, 1]
    return Case("sample_pointwise", sizes, [a, s, b, t], [((rows, cols), np.float32)], [y], 1e-6, blocks=7)


def functions(n):
    x = np.concatenate([normal(n - 8) * 3, [0, 1e-40, -0.0, 88, 1e5, -1e30, np.inf, np.nan]]).astype(np.float32)
    v = x.astype(np.float64)
    f = v.astype(np.float32)
    with np.errstate(all="ignore"):
        power = np.where((v < 0) & (v * 0.25 != np.floor(v * 0.25)), np.nan, np.power(v, (f * np.float32(0.25)).astype(np.float64)))
        y = [np.exp(v), np.log(v), np.tanh(v), erf(v), 1 / (1 + np.exp(-v)), np.sin(v), np.cos(v), np.exp2(v), np.log1p(v),
             np.expm1(v), 1 / np.sqrt(v), np.arctan(v), power, np.fmod(f, np.float32(0.7)).astype(np.float64)]
    return Case("sample_math", [n], [x], [((14, n), np.float32)], [np.stack(y)], 5e-7, blocks=3)


def small_floats(mantissa, bias, fnuz, has_inf):
    """Returns (codes, values) of the non-negative finite values of an 8-bit float, in ascending order."""
    codes = np.arange(127 if not fnuz and not has_inf else 124 if has_inf else 128)
    exponent, m = codes >> mantissa, codes & ((1 << mantissa) - 1)
    values = np.where(exponent > 0, (1 + m / 2**mantissa) * 2.0 ** (exponent - bias), m * 2.0 ** (1 - bias - mantissa))
    return codes, values


def to_small_float(x, *layout):
    codes, values = small_floats(*layout)
    size = np.minimum(np.abs(x.astype(np.float64)), values[-1])
    high = np.clip(np.searchsorted(values, size), 0, len(values) - 1)
    low = np.maximum(high - 1, 0)
    up, down = values[high] - size, size - values[low]
    pick = np.where((up < down) | ((up == down) & (codes[high] % 2 == 0)), high, low)
    return np.copysign(values[pick], x)


def conversions(n):
    x = (normal(n) * np.exp2(rng.integers(-20, 10, n))).astype(np.float32)
    y = [from_bf16(bf16(x)), x.astype(np.float16), to_small_float(x, 3, 7, False, False),
         to_small_float(x, 3, 8, True, False), to_small_float(x, 2, 15, False, True)]
    return Case("sample_convert", [n], [x], [((5, n), np.float32)], [np.stack([v.astype(np.float64) for v in y])], 0,
                blocks=2)


def softmax_of(x):
    e = np.exp(x - x.max(1, keepdims=True, initial=-np.inf))
    return e / e.sum(1, keepdims=True)


def softmax(rows, cols, log=False):
    x = normal(rows, cols) * 4
    y = softmax_of(x.astype(np.float64))
    name = "sample_log_softmax" if log else "sample_softmax"
    with np.errstate(divide="ignore"):
        return Case(name, [rows, cols], [x], [((rows, cols), np.float32)], [np.log(y) if log else y], 2e-6, blocks=3)


def layer_norm(rows, cols):
    x, g, b = normal(rows, cols, dtype=np.float16), normal(cols, dtype=np.float16), normal(cols, dtype=np.float16)
    v = x.astype(np.float64) + 0
    mean = v.mean(1, keepdims=True) if cols else 0
    var = ((v - mean) ** 2).mean(1, keepdims=True) if cols else 0
    y = (v - mean) / np.sqrt(var + 1e-5) * g + b
    return Case("sample_layer_norm", [rows, cols], [x, g, b], [((rows, cols), np.float16)], [y], 2e-3, blocks=2)


def rms_norm(rows, cols):
    x = normal(rows, cols) + 3
    v = x.astype(np.float64)
    y = v / np.sqrt((v * v).mean(1, keepdims=True) + 1e-6) if cols else v
    return Case("sample_rms_norm", [rows, cols], [x], [((rows, cols), np.float32)], [y], 1e-6, blocks=2)


def reduce_rows(rows, cols):
    x = normal(rows, cols) + 1
    mean = x.astype(np.float64).mean(1) if cols else np.full(rows, np.nan)
    return Case("sample_reduce_rows", [rows, cols], [x], [((rows,), np.float32)], [mean], 1e-6, blocks=3)


def arg_rows(rows, cols):
    x = rng.integers(0, 50, (rows, cols)).astype(np.float32)  # with many equal elements
    return Case("sample_arg_rows", [rows, cols], [x], [((rows,), np.int64)], [x.argmax(1)], 0, blocks=2)


def reduce_columns(outer, reduce, inner):
    x = normal(outer, reduce, inner)
    y = x.max(1, initial=-np.inf).astype(np.float64)
    return Case("sample_reduce_columns", [outer, reduce, inner], [x], [((outer, inner), np.float32)], [y], 0, blocks=2)


def arg_columns(outer, reduce, inner):
    x = rng.integers(0, 9, (outer, reduce, inner)).astype(np.float32)
    y = reduce - 1 - x[:, ::-1].argmin(1)  # index of the last minimum
    return Case("sample_arg_columns", [outer, reduce, inner], [x], [((outer, inner), np.int64)], [y], 0, blocks=2)


FLOAT8 = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
FLOAT8_FNUZ = {"e4m3": ml_dtypes.float8_e4m3fnuz, "e5m2": ml_dtypes.float8_e5m2fnuz}
GEMM_TYPES = {"f16": (1e-5, 128, 128), "bf16": (1e-5, 128, 128), "f32": (1e-5, 64, 64), "f64": (1e-12, 64, 64), "i8": (0, 128, 128)}
FLOAT8_ERROR = 4e-3  # NVIDIA's unit keeps about 14 bits of the sums within one instruction


def gemm(kind, order, batch, m, n, k, blocks=5, float8=FLOAT8):
    """Makes a case of relu(A B + bias). `order`: "kn" if B is stored as [k, n], "nk" if as [n, k]."""
    error = FLOAT8_ERROR if kind in float8 else GEMM_TYPES[kind][0]
    tolerance = error * max(1, (k / 10) ** 0.5)  # sums of k terms of size 1
    if kind == "i8":
        a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in [(batch, m, k), (batch, k, n)])
        bias, out = rng.integers(-1000, 1000, n).astype(np.int32), np.int32
        wide = [a.astype(np.int64), b.astype(np.int64)]
    else:
        dtype = {"f16": np.float16, "f64": np.float64}.get(kind, np.float32)
        a, b = normal(batch, m, k, dtype=dtype), normal(batch, k, n, dtype=dtype)
        out = np.float64 if kind == "f64" else np.float32
        bias = normal(n, dtype=out)
        if kind == "bf16":
            a, b = bf16(a), bf16(b)
        if kind in float8:
            a, b = a.astype(float8[kind]), b.astype(float8[kind])
        wide = [(from_bf16(x) if kind == "bf16" else x).astype(np.float64) for x in (a, b)]
    y = np.maximum(wide[0] @ wide[1] + bias, 0)
    stored = b.transpose(0, 2, 1) if order == "nk" else b
    return Case(f"sample_gemm_{kind}_{order}", [batch, m, n, k], [a, stored, bias], [((batch, m, n), out)], [y], tolerance,
                blocks=blocks)


GROUP_TILES = {"f16_128x256": (128, 256, 4, 1), "f16_128x32_split4": (128, 32, 8, 4), "bf16_128x128": (128, 128, 3, 1),
               "i8_128x64": (128, 64, 6, 1), "e4m3_128x128": (128, 128, 4, 1), "e4m3_128x64": (128, 64, 6, 1),
               "e5m2_128x64_split2": (128, 64, 4, 2), "f16_128x256_whole": (128, 256, 4, 1),
               "f16_128x256_stream": (128, 256, 4, 1), "bf16_192x128_stream": (192, 128, 5, 1), "i8_64x16_stream": (64, 16, 8, 1),
               "e4m3_128x64_stream": (128, 64, 6, 1)}


def direct(case, name, **launch):
    """Changes a case to another kernel, `name`, and to other launch parameters; returns it."""
    case.kernel = f"sample_{name}"
    for key, value in launch.items():
        setattr(case, key, value)
    return case


def group_cases():
    """Yields cases of products by warp groups and of products of few rows. k is a multiple of 8 (f32: 4, i8: 16)."""
    shapes = [(1, 1, 8, 16), (2, 5, 7, 32), (1, 130, 129, 80), (3, 16, 200, 64), (1, 300, 520, 1040), (1, 4, 9, 0)]
    for name, (rows, cols, stages, split) in GROUP_TILES.items():
        shared = max(stages * (rows + cols) * 128, rows * (cols + 8) * 4)
        for batch, m, n, k in shapes:
            if name.endswith(("whole", "stream")):
                n = -(-n // 8) * 8  # rows of C are whole vectors
            blocks = split * max(1, min(5, -(-m // rows) * -(-n // cols)))
            yield direct(gemm(name.split("_")[0], "nk", batch, m, n, k), f"groups_{name}", blocks=blocks, shared=shared,
                         cluster=split, threads={64: 128, 128: 256, 192: 384}[rows])
    for kind, rows in (("f16", 1), ("f16", 4), ("bf16", 2), ("f32", 1)):
        for batch, n, k in ((1, 1, 8), (2, 7, 264), (1, 1000, 2048), (1, 40, 0)):
            yield direct(gemm(kind, "nk", batch, rows, n, k), f"gemv_{kind}_{rows}", blocks=3)
    for kind, rows in (("f16", 1), ("f16", 4), ("f16", 8), ("bf16", 2)):
        shared = 8 * (5 * 16 * 128 + rows * (2 * 16 * 4 + 4 * 128))  # as ring_shared of gpu_tasks.h: 5 stages, 4 steps
        for m, n, k in ((rows, 1, 8), (rows, 7, 264), (2 * rows + 1, 1000, 2048), (1, 40, 1000), (rows, 40, 0)):
            yield direct(gemm(kind, "nk", 1, m, n, k), f"gemv_mma_{kind}_{rows}", blocks=5, shared=shared)


def causal_attention(name, batch, heads, kv_heads, queries, keys, d, split=1, hidden=0, few=0):
    """Makes a case of causal attention. `few`: threads of a block of attention_mma; 0: attention by warp groups. The
    first `hidden` keys are masked by a large negative number. A query that sees only hidden keys weights them equally."""
    kind = name.split("_")[0]
    q, k, v = (normal(batch, h, s, d) for h, s in ((heads, queries), (kv_heads, keys), (kv_heads, keys)))
    if kind == "bf16":
        stored = [bf16(x) for x in (q, k, v)]
        wide = [from_bf16(x).astype(np.float64) for x in stored]
    else:
        stored = [x.astype(np.float16) for x in (q, k, v)]
        wide = [x.astype(np.float64) for x in stored]
    repeat = heads // kv_heads
    scores = wide[0] @ np.repeat(wide[1], repeat, 1).swapaxes(2, 3) / 8
    lowest = float(np.finfo(np.float32).min)
    scores[..., :hidden] = lowest
    scores[:, :, np.arange(keys)[None, :] > np.arange(queries)[:, None] + keys - queries] = -np.inf
    weights = np.exp(scores - np.maximum(scores.max(-1, keepdims=True, initial=-np.inf), lowest))
    total = weights.sum(-1, keepdims=True)
    y = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0) @ np.repeat(wide[2], repeat, 1)
    # The sizes of samples_groups.cpp and of attention_group_bytes in gpu_tasks.h.
    groups, size = {"d128": 2, "hidden": 2}.get(name.split("_")[1], 1), 128 if "d128" in name else 64
    rows, sums = 64 * groups, 64 * groups * (size + 8) * 4 if split > 1 else 0
    tasks = batch * kv_heads * -(-repeat * queries // rows)
    of_chip = dict(threads=few, cluster=split) if few else dict(
        threads=128 * (groups + 1), shared=((6 * 128 if groups > 1 else 8 * 64) + rows) * size * 2 + 384 + sums, cluster=split)
    return Case(f"sample_attention_{name}", [batch, heads, kv_heads, queries, keys, d], stored, [(y.shape, np.float32)],
                [y], 2e-2 if kind == "bf16" else 3e-3, blocks=split * max(1, min(7, tasks)), **of_chip)


def attention_cases():
    shapes = [(1, 1, 1, 1, 1), (2, 4, 2, 70, 99), (1, 8, 2, 1, 129), (1, 3, 3, 200, 200), (2, 4, 1, 5, 700), (1, 2, 1, 90, 40),
              (2, 8, 4, 300, 900)]
    for shape in shapes:
        yield from (causal_attention("f16_d64", *shape, d) for d in (64, 40))
        yield from (causal_attention(name, *shape, d) for name in ("f16_d128", "bf16_d128") for d in (128, 72))
        yield causal_attention("bf16_split8", *shape, 64, split=8)
        yield causal_attention("f16_hidden", *shape, 64, hidden=100)
        yield causal_attention("bf16_hidden8", *shape, 64, split=8, hidden=100)
    for batch, kv_heads, keys in ((1, 1, 1), (2, 2, 99), (1, 2, 129), (9, 1, 513), (1, 3, 2000)):
        yield causal_attention("f16_few1", batch, kv_heads, kv_heads, 1, keys, 64, few=128)
        yield causal_attention("f16_few8", batch, 7 * kv_heads, kv_heads, 1, keys, 104, split=8, few=128)
        yield causal_attention("bf16_few4", batch, 2 * kv_heads, kv_heads, 2, keys, 40, split=8, few=256)
        yield causal_attention("bf16_fewhidden", batch, 2 * kv_heads, kv_heads, 3, keys, 64, split=2, few=256, hidden=100)


def gemm_cases(small=False, float8=None):
    """Returns the cases of matrix products. `float8`: the 8-bit floats of the chip's matrix unit."""
    shapes = [(1, 1, 1, 1), (2, 5, 7, 3), (1, 130, 129, 70), (3, 16, 200, 64), (1, 0, 5, 5), (1, 4, 9, 0)]
    shapes += [] if small else [(1, 512, 384, 1000), (7, 129, 64, 33)]
    for kind in [*GEMM_TYPES, *(float8 or ())]:
        for order in ("nk", "kn"):
            yield from (gemm(kind, order, *shape, float8=float8 or {}) for shape in shapes)


def timed_cases():
    """Yields timed cases with sizes that fill a large GPU; outputs are not compared."""
    n = 4096
    for kind in ("f16", "f32"):
        a = normal(n, n, dtype=np.float16 if kind == "f16" else np.float32)
        tile = GEMM_TYPES[kind][1]
        yield Case(f"sample_gemm_{kind}_nk", [1, n, n, n], [a, a, normal(n)], [((n, n), np.float32)], [], 0,
                   blocks=(n // tile) ** 2, work=2 * n**3, unit="GFLOP/s")
    rows, cols = 8192, 4096
    x = normal(rows, cols)
    for name in ("sample_softmax", "sample_rms_norm"):
        yield Case(name, [rows, cols], [x], [(x.shape, np.float32)], [], 0, blocks=rows, work=8 * x.size, unit="GB/s")
    s, b, t = normal(cols, dtype=np.float16), bf16(normal(rows)), normal(1, 1)
    sizes = [rows, cols, cols, 1, 0, 1, 1, 0, 0, 0, cols, 1]
    yield Case("sample_pointwise", sizes, [x, s, b, t], [(x.shape, np.float32)], [], 0, blocks=x.size // 1024,
               work=8 * x.size, unit="GB/s")


def all_cases(small=False):
    """Yields all cases: sizes 0 and 1, odd sizes, and sizes larger than a block; with `small` only sizes that an
    emulator computes quickly."""
    lengths = [1, 5, 64, 257, 1000] + ([] if small else [4096, 10007])
    yield from (pointwise(r, c) for r, c in [(0, 3), (1, 1), (5, 7), (3, 64), (37, 129)])
    yield from (functions(n) for n in [9, 1000])
    yield conversions(1001)
    for n in lengths:
        for rows in [1, 11]:
            yield from (softmax(rows, n), softmax(rows, n, log=True), layer_norm(rows, n), rms_norm(rows, n))
            yield from (reduce_rows(rows, n), arg_rows(rows, n))
    yield from (softmax(0, 5), softmax(4, 0), layer_norm(3, 0), reduce_rows(0, 7))
    for shape in [(1, 1, 1), (2, 5, 7), (3, 300, 33), (0, 4, 4), (2, 0, 9), (5, 17, 1)]:
        yield reduce_columns(*shape)
        if shape[1]:
            yield arg_columns(*shape)
