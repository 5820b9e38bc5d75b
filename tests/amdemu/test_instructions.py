# SPDX-License-Identifier: Apache-2.0
"""Vector instructions and comparisons, compared bit by bit. Numpy evaluates a formula for special values (signed zeros,
denormals, infinities, NaN, limits), and the emulator must give the same bits. instructions.test has the instructions
without a formula; together they cover every line of the tables."""
import itertools
import subprocess

import numpy as np

import emulated

RUNNER = emulated.BUILD / "bin/weft-amdemu-instructions"
HERE = emulated.ROOT / "tests/amdemu"

f16, f32, f64 = np.float16, np.float32, np.float64
i16, i32, i64, u16, u32, u64 = np.int16, np.int32, np.int64, np.uint16, np.uint32, np.uint64
NAMES = {f16: "f16", f32: "f32", f64: "f64", i16: "i16", i32: "i32", i64: "i64", u16: "u16", u32: "u32", u64: "u64"}
REALS = [0.0, -0.0, 1.0, -1.5, 2.5, -3.0, 0.3, 1e-3, 7.0, -250.0, np.inf, -np.inf, np.nan]
TINY = {f16: [6e-8, -3e-5, 65504], f32: [1e-40, -1e-45, 3e38], f64: [5e-324, -1e-310, 1e308]}


def samples(dtype):
    if np.issubdtype(dtype, np.floating):
        return np.array(REALS + TINY[dtype], dtype)
    limits = np.iinfo(dtype)
    return np.array([0, 1, 2, 3, 7, 31, 100, limits.max, limits.max - 1, limits.min, limits.min + 1, limits.max // 3], dtype)


def bits(array):
    width = array.dtype.itemsize
    plain = array.view({2: u16, 4: u32, 8: u64}[width])
    return ",".join(f"{int(x):016x}" if width == 8 else f"{int(x):x}" for x in plain)


def register(number, dtype):
    return f"v[{number}:{number + 1}]" if np.dtype(dtype).itemsize == 8 else f"v{number}"


def masked(result):
    """Returns the bits of results as text; a word such as "nan16" stands for any NaN of the type."""
    any_nan = {2: "nan16", 4: "nan", 8: "nan64"}[result.dtype.itemsize]
    return [any_nan if x != x else word for x, word in zip(result, bits(result).split(","), strict=True)]


def lines_of(name, result, operands):
    """Yields a case for each 32 lanes: operands in v2, v4, v6, the result in v0."""
    registers = [register(2 + 2 * k, x.dtype) for k, x in enumerate(operands)]
    text = f"{name} {register(0, result.dtype)}, {', '.join(registers)}"
    for at in range(0, len(result), 32):
        settings = [f"v{2 + 2 * k}={bits(x[at:at + 32])}" for k, x in enumerate(operands)]
        yield f"gfx1100; {text}; v0=0000000000000000 {' '.join(settings)}; v0={','.join(masked(result[at:at + 32]))}"


def grid(*dtypes):
    """Returns every combination of samples, thinned to a few hundred."""
    columns = list(zip(*itertools.product(*map(samples, dtypes)), strict=True))
    step = max(1, len(columns[0]) // 192) | 1
    return [np.ascontiguousarray(np.array(c, d)[::step]) for c, d in zip(columns, dtypes, strict=True)]


def to_int(dtype):
    limits = np.iinfo(dtype)
    return lambda a: np.where(np.isnan(a), 0, np.clip(np.trunc(a.astype(f64)), limits.min, limits.max)).astype(dtype)


def no_denormals(a):
    return np.where((a != 0) & (np.abs(a) < 2.0**-126), np.copysign(f32(0), a), a).astype(f32)


def flushing(function):
    return lambda a: no_denormals(function(no_denormals(a).astype(f64)).astype(f32))


def least(a, b):
    smaller = np.where((a < b) | ((a == b) & np.signbit(a)), a, b)
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, smaller)).astype(a.dtype)


def most(a, b):
    return -least(-a, -b)


def middle(a, b, c):
    ordered = np.sort(np.stack([a, b, c]), 0)[1]
    return np.where(np.isnan(a + b + c), least(least(a, b), c), ordered).astype(a.dtype)


def wide(function, dtype):
    """Returns a function that computes `function` in 64 bits and converts the result to `dtype`."""
    return lambda *x: function(*(v.astype(i64) for v in x)).astype(dtype)


def low24(a):
    return a.astype(i64) & 0xFFFFFF


def signed24(a):
    return (low24(a) ^ 0x800000) - 0x800000


def dot_bytes(dtype):
    return lambda a, b, c: (c.astype(i64) + (a.view(dtype).reshape(-1, 4).astype(i64) * b.view(dtype).reshape(-1, 4)).sum(1)).astype(u32)


def turns(offset):
    return lambda a: np.round(np.sin(2 * np.pi * (a + offset)), 12) + 0.0


def leading(a):
    return np.array([32 - int(x).bit_length() if x else 0xFFFFFFFF for x in a], u32)


def leading_signs(a):
    return np.array([32 - int(x if x >= 0 else ~x).bit_length() if x not in (0, -1) else 0xFFFFFFFF for x in a.astype(i64)], u32)


def trailing(a):
    return np.array([(int(x) & -int(x)).bit_length() - 1 if x else 0xFFFFFFFF for x in a], u32)


def popcount(a):
    return np.array([bin(int(x)).count("1") for x in a], u32)


def reverse(a):
    return np.array([int(f"{int(x):032b}"[::-1], 2) for x in a], u32)


def bfe(a, b, c):
    return a >> (b & 31) & ((u32(1) << (c & 31)) - u32(1))


def signed_bfe(a, b, c):
    out = []
    for x, first, count in zip(a.astype(i64), b.astype(i64) & 31, c.astype(i64) & 31, strict=True):
        field = (int(x) >> int(first)) & ((1 << int(count)) - 1)
        out.append(field - (1 << int(count)) if count and field >> (int(count) - 1) else field)
    return np.array(out, i64).astype(i32)


def align(step, mask):
    return lambda a, b, c: (((a.astype(u64) << u64(32)) | b) >> ((c.astype(u64) & u64(mask)) * u64(step))).astype(u32)


U, I, H = u32, i32, u16
ONE = {  # name: (type of the result, type of the operand, formula)
    "v_mov_b32": (U, U, lambda a: a), "v_not_b32": (U, U, lambda a: ~a), "v_bfrev_b32": (U, U, reverse),
    "v_clz_i32_u32": (U, U, leading), "v_ctz_i32_b32": (U, U, trailing), "v_cls_i32": (U, I, leading_signs),
    "v_mov_b64": (u64, u64, lambda a: a), "v_mov_b16": (H, H, lambda a: a), "v_not_b16": (H, H, lambda a: ~a),
    "v_rcp_f32": (f32, f32, flushing(lambda a: 1 / a)), "v_rcp_iflag_f32": (f32, f32, flushing(lambda a: 1 / a)),
    "v_rsq_f32": (f32, f32, flushing(lambda a: 1 / np.sqrt(a))), "v_sqrt_f32": (f32, f32, flushing(np.sqrt)),
    "v_rcp_f64": (f64, f64, lambda a: 1 / a), "v_rsq_f64": (f64, f64, lambda a: 1 / np.sqrt(a)), "v_sqrt_f64": (f64, f64, np.sqrt),
    "v_rcp_f16": (f16, f16, lambda a: 1 / a.astype(f32)), "v_rsq_f16": (f16, f16, lambda a: 1 / np.sqrt(a.astype(f32))),
    "v_sqrt_f16": (f16, f16, lambda a: np.sqrt(a.astype(f32))), "v_exp_f16": (f16, f16, lambda a: np.exp2(a.astype(f64))),
    "v_log_f16": (f16, f16, lambda a: np.log2(a.astype(f64))),
    "v_cvt_f32_u32": (f32, U, lambda a: a), "v_cvt_f32_i32": (f32, I, lambda a: a), "v_cvt_u32_f32": (U, f32, to_int(u32)),
    "v_cvt_i32_f32": (I, f32, to_int(i32)), "v_cvt_f64_f32": (f64, f32, lambda a: a), "v_cvt_f32_f64": (f32, f64, lambda a: a),
    "v_cvt_f64_i32": (f64, I, lambda a: a), "v_cvt_f64_u32": (f64, U, lambda a: a), "v_cvt_i32_f64": (I, f64, to_int(i32)),
    "v_cvt_u32_f64": (U, f64, to_int(u32)), "v_cvt_f32_f16": (f32, f16, lambda a: a), "v_cvt_f16_f32": (f16, f32, lambda a: a),
    "v_cvt_f16_u16": (f16, H, lambda a: a), "v_cvt_f16_i16": (f16, i16, lambda a: a), "v_cvt_u16_f16": (H, f16, to_int(u16)),
    "v_cvt_i16_f16": (i16, f16, to_int(i16)), "v_cvt_i32_i16": (I, i16, lambda a: a), "v_cvt_u32_u16": (U, H, lambda a: a),
    "v_cvt_f32_bf16": (f32, H, lambda a: (a.astype(u32) << 16).view(f32)),
    "v_cvt_f32_ubyte0": (f32, U, lambda a: a & 255), "v_cvt_f32_ubyte1": (f32, U, lambda a: a >> 8 & 255),
    "v_cvt_f32_ubyte2": (f32, U, lambda a: a >> 16 & 255), "v_cvt_f32_ubyte3": (f32, U, lambda a: a >> 24),
    "v_cvt_off_f32_i4": (f32, U, lambda a: (((a & 15).astype(i32) ^ 8) - 8) / 16.0),
    "v_cvt_nearest_i32_f32": (I, f32, lambda a: to_int(i32)(np.floor(a + f32(0.5)))),
    "v_cvt_floor_i32_f32": (I, f32, lambda a: to_int(i32)(np.floor(a))),
    "v_frexp_exp_i32_f32": (I, f32, lambda a: np.where(np.isfinite(a), np.frexp(a)[1], 0)),
    "v_frexp_exp_i32_f64": (I, f64, lambda a: np.where(np.isfinite(a), np.frexp(a)[1], 0)),
    "v_frexp_exp_i16_f16": (i16, f16, lambda a: np.where(np.isfinite(a), np.frexp(a.astype(f32))[1], 0)),
}
for t, below in [(f16, 0.99951171875), (f32, 1 - 2.0**-24), (f64, 1 - 2.0**-53)]:
    n = NAMES[t]
    for name, function in [("trunc", np.trunc), ("ceil", np.ceil), ("floor", np.floor), ("rndne", np.rint)]:
        ONE[f"v_{name}_{n}"] = (t, t, function)
    ONE[f"v_fract_{n}"] = (t, t, lambda a, below=below: np.minimum(a.astype(f64) - np.floor(a.astype(f64)), below))
    ONE[f"v_frexp_mant_{n}"] = (t, t, lambda a: np.where(np.isfinite(a), np.frexp(a.astype(f64))[0], a))

TWO = {  # name: (types of the result and of both operands, formula)
    "v_sub_f32": (f32, f32, f32, np.subtract), "v_subrev_f32": (f32, f32, f32, lambda a, b: b - a),
    "v_sub_f16": (f16, f16, f16, np.subtract), "v_subrev_f16": (f16, f16, f16, lambda a, b: b - a),
    "v_mul_dx9_zero_f32": (f32, f32, f32, lambda a, b: np.where((a == 0) | (b == 0), f32(0), a * b)),
    "v_mul_lo_u32": (U, U, U, lambda a, b: a * b),
    "v_mul_hi_u32": (U, U, U, lambda a, b: (a.astype(u64) * b >> u64(32))), "v_mul_hi_i32": (I, I, I, wide(lambda a, b: a * b >> 32, i32)),
    "v_mul_u32_u24": (U, U, U, lambda a, b: low24(a) * low24(b)), "v_mul_i32_i24": (U, U, U, lambda a, b: signed24(a) * signed24(b)),
    "v_mul_hi_u32_u24": (U, U, U, lambda a, b: low24(a) * low24(b) >> 32),
    "v_mul_hi_i32_i24": (U, U, U, lambda a, b: signed24(a) * signed24(b) >> 32),
    "v_and_b32": (U, U, U, lambda a, b: a & b), "v_or_b32": (U, U, U, lambda a, b: a | b), "v_xor_b32": (U, U, U, lambda a, b: a ^ b),
    "v_xnor_b32": (U, U, U, lambda a, b: ~(a ^ b)), "v_lshlrev_b32": (U, U, U, lambda a, b: b << (a & 31)),
    "v_lshrrev_b32": (U, U, U, lambda a, b: b >> (a & 31)), "v_ashrrev_i32": (I, U, I, lambda a, b: b >> (a & 31).astype(i32)),
    "v_lshlrev_b64": (u64, U, u64, lambda a, b: b << (a & 63).astype(u64)), "v_lshrrev_b64": (u64, U, u64, lambda a, b: b >> (a & 63).astype(u64)),
    "v_ashrrev_i64": (i64, U, i64, lambda a, b: b >> (a & 63).astype(i64)),
    "v_bcnt_u32_b32": (U, U, U, lambda a, b: popcount(a) + b),
    "v_bfm_b32": (U, U, U, lambda a, b: ((u32(1) << (a & 31)) - u32(1)) << (b & 31)),
    "v_and_b16": (H, H, H, lambda a, b: a & b), "v_or_b16": (H, H, H, lambda a, b: a | b), "v_xor_b16": (H, H, H, lambda a, b: a ^ b),
    "v_lshlrev_b16": (H, H, H, lambda a, b: b << (a & 15)), "v_lshrrev_b16": (H, H, H, lambda a, b: b >> (a & 15)),
    "v_ashrrev_i16": (i16, H, i16, lambda a, b: b >> (a & 15).astype(i16)), "v_mul_lo_u16": (H, H, H, lambda a, b: a * b),
    "v_pack_b32_f16": (U, H, H, lambda a, b: a | b.astype(u32) << 16),
    "v_cvt_pk_i16_i32": (U, I, I, lambda a, b: np.clip(a, -32768, 32767).astype(i16).view(u16) | np.clip(b, -32768, 32767).astype(i16).view(u16).astype(u32) << 16),
    "v_cvt_pk_u16_u32": (U, U, U, lambda a, b: np.minimum(a, 65535) | np.minimum(b, 65535) << 16),
}
for t in (f16, f32, f64):
    n = NAMES[t]
    TWO[f"v_add_{n}"], TWO[f"v_mul_{n}"] = (t, t, t, np.add), (t, t, t, np.multiply)
    TWO[f"v_min_{n}"], TWO[f"v_max_{n}"] = (t, t, t, least), (t, t, t, most)
    TWO[f"v_minimum_{n}"] = (t, t, t, lambda a, b: np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), least(a, b)))
    TWO[f"v_maximum_{n}"] = (t, t, t, lambda a, b: np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), most(a, b)))
for t in (u16, i16, u32, i32):
    TWO[f"v_min_{NAMES[t]}"], TWO[f"v_max_{NAMES[t]}"] = (t, t, t, np.minimum), (t, t, t, np.maximum)
    TWO[f"v_add_nc_{NAMES[t]}"], TWO[f"v_sub_nc_{NAMES[t]}"] = (t, t, t, np.add), (t, t, t, np.subtract)
for t in (u16, u32):
    TWO[f"v_subrev_nc_{NAMES[t]}"] = (t, t, t, lambda a, b: b - a)

THREE = {
    "v_add3_u32": (U, U, U, U, lambda a, b, c: a + b + c), "v_lshl_add_u32": (U, U, U, U, lambda a, b, c: (a << (b & 31)) + c),
    "v_add_lshl_u32": (U, U, U, U, lambda a, b, c: (a + b) << (c & 31)), "v_lshl_or_b32": (U, U, U, U, lambda a, b, c: (a << (b & 31)) | c),
    "v_and_or_b32": (U, U, U, U, lambda a, b, c: (a & b) | c), "v_or3_b32": (U, U, U, U, lambda a, b, c: a | b | c),
    "v_xor3_b32": (U, U, U, U, lambda a, b, c: a ^ b ^ c), "v_xad_u32": (U, U, U, U, lambda a, b, c: (a ^ b) + c),
    "v_bfi_b32": (U, U, U, U, lambda a, b, c: (a & b) | (~a & c)), "v_bfe_u32": (U, U, U, U, bfe), "v_bfe_i32": (I, I, U, U, signed_bfe),
    "v_alignbit_b32": (U, U, U, U, align(1, 31)), "v_alignbyte_b32": (U, U, U, U, align(8, 3)),
    "v_mad_u32_u24": (U, U, U, U, lambda a, b, c: low24(a) * low24(b) + c), "v_mad_i32_i24": (U, U, U, U, lambda a, b, c: signed24(a) * signed24(b) + c),
    "v_mad_u32_u16": (U, H, H, U, lambda a, b, c: a.astype(u32) * b + c), "v_mad_i32_i16": (U, i16, i16, U, lambda a, b, c: a.astype(i64) * b + c),
    "v_mad_u16": (H, H, H, H, lambda a, b, c: a * b + c), "v_mad_i16": (H, H, H, H, lambda a, b, c: a * b + c),
    "v_lshl_add_u64": (u64, u64, U, u64, lambda a, b, c: (a << (b & 7).astype(u64)) + c),
    "v_dot4_i32_i8": (U, U, U, U, dot_bytes(np.int8)), "v_dot4_u32_u8": (U, U, U, U, dot_bytes(np.uint8)),
}
for t in (u16, i16, u32, i32):
    n = NAMES[t]
    THREE[f"v_min3_{n}"] = (t, t, t, t, lambda a, b, c: np.minimum(np.minimum(a, b), c))
    THREE[f"v_max3_{n}"] = (t, t, t, t, lambda a, b, c: np.maximum(np.maximum(a, b), c))
    THREE[f"v_med3_{n}"] = (t, t, t, t, lambda a, b, c: np.sort(np.stack([a, b, c]), 0)[1])
for t in (u32, i32):
    n = NAMES[t]
    THREE[f"v_maxmin_{n}"] = (t, t, t, t, lambda a, b, c: np.minimum(np.maximum(a, b), c))
    THREE[f"v_minmax_{n}"] = (t, t, t, t, lambda a, b, c: np.maximum(np.minimum(a, b), c))
for t in (f16, f32):
    n = NAMES[t]
    THREE[f"v_min3_{n}"] = (t, t, t, t, lambda a, b, c: least(least(a, b), c))
    THREE[f"v_max3_{n}"] = (t, t, t, t, lambda a, b, c: most(most(a, b), c))
    THREE[f"v_minmax_{n}"] = (t, t, t, t, lambda a, b, c: most(least(a, b), c))
    THREE[f"v_maxmin_{n}"] = (t, t, t, t, lambda a, b, c: least(most(a, b), c))

COMPARISONS = {"lt": np.less, "eq": np.equal, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
               "f": lambda a, b: np.zeros(len(a), bool), "t": lambda a, b: np.ones(len(a), bool)}
OF_INTEGERS = {"ne": np.not_equal}
OF_REALS = {"lg": lambda a, b: (a < b) | (a > b), "neq": np.not_equal, "nlt": lambda a, b: ~(a < b), "nle": lambda a, b: ~(a <= b),
            "ngt": lambda a, b: ~(a > b), "nge": lambda a, b: ~(a >= b), "nlg": lambda a, b: ~((a < b) | (a > b)),
            "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)), "u": lambda a, b: np.isnan(a) | np.isnan(b)}


def comparison_lines(dtype):
    table = COMPARISONS | (OF_REALS if np.issubdtype(dtype, np.floating) else OF_INTEGERS)
    a, b = (x[:32] for x in grid(dtype, dtype))
    a, b = np.resize(a, 32), np.resize(b, 32)
    for condition, function in table.items():
        mask = int(sum(int(bool(x)) << k for k, x in enumerate(function(a, b))))
        name = f"{condition}_{NAMES[dtype]}"
        operands = f"{register(2, dtype)}, {register(4, dtype)}"
        settings = f"v2={bits(a)} v4={bits(b)}"
        yield f"gfx1100; v_cmp_{name} s0, {operands}; {settings}; s0={mask:x}"
        if condition not in ("f", "t"):
            yield f"gfx1100; v_cmpx_{name} {operands}; {settings} exec=ffff; exec={mask & 0xffff:x}"


def scalar_comparison_lines():
    pairs = [(0, 0), (1, 2), (0xFFFFFFFF, 1), (0x80000000, 0x7FFFFFFF), (5, 5)]
    reals = [(0x3F800000, 0x40000000), (0x7FC00000, 0), (0, 0x80000000), (0xC0000000, 0x40000000)]
    halves = [(0x3C00, 0x4000), (0x7E00, 0), (0, 0x8000), (0xC000, 0x4000)]
    for dtype, chosen in [(i32, pairs), (u32, pairs), (f32, reals), (f16, halves)]:
        table = {"eq": np.equal, "lg": lambda a, b: (a < b) | (a > b), "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal}
        for (condition, function), (x, y) in itertools.product((table | (OF_REALS if dtype in (f16, f32) else {})).items(), chosen):
            a, b = (np.array([v], u32).view(dtype)[:1] for v in (x, y))
            yield f"gfx1201; s_cmp_{condition}_{NAMES[dtype]} s0, s1; s0={x:x} s1={y:x}; scc={int(function(a, b)[0])}"
            if dtype not in (f16, f32):
                short = np.array([y & 0xFFFF], u16).view(i16 if dtype == i32 else u16).astype(dtype)
                yield f"gfx1100; s_cmpk_{condition}_{NAMES[dtype]} s0, 0x{y & 0xffff:x}; s0={x:x}; scc={int(function(a, short)[0])}"


def generated():
    with np.errstate(all="ignore"):
        for table in (ONE, TWO, THREE):
            for name, (result, *types, function) in table.items():
                operands = grid(*types)
                yield from lines_of(name, np.asarray(function(*operands)).astype(result), operands)
        for dtype in (f16, f32, f64, u16, i16, u32, i32, u64, i64):
            yield from comparison_lines(dtype)
        yield from scalar_comparison_lines()


def test_every_instruction():
    lines = "\n".join(generated())
    done = subprocess.run([RUNNER, HERE / "instructions.test", "-", "--names"], input=lines, capture_output=True, text=True)
    report = [text for text in done.stdout.splitlines() if text[0] not in "+-"]
    assert done.returncode == 0, "\n".join(report[-60:])
    missing = sorted(text[1:] for text in done.stdout.splitlines() if text[0] == "-")
    assert not missing, f"instructions without a case: {' '.join(missing)}"
