# SPDX-License-Identifier: Apache-2.0
"""com.microsoft's quantised operators, compared with onnxruntime's CPU provider. Quantised results may differ by one
step where onnxruntime multiplies by the inverse of a scale. Weights in products of bytes stay below 64, because
such products of onnxruntime saturate on processors without VNNI.
"""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from test_microsoft import floats, judge, model_of, weft
from test_microsoft_varlen import refuses

pytestmark = pytest.mark.rotates(2)

RANDOM = np.random.default_rng(5)
SCALE = np.float32(0.05)


def steps(kind, *dims, most=255):
    low = np.iinfo(kind).min if most == 255 else -most
    return RANDOM.integers(max(low, np.iinfo(kind).min), min(most, np.iinfo(kind).max) + 1, dims).astype(kind)


def weights(*dims):
    return steps(np.int8, *dims, most=63)


def scales(*dims):
    return RANDOM.uniform(0.01, 0.03, dims).astype(np.float32)


def one_step(op, inputs, attributes=None, constants=()):
    """Compares quantised results; a difference of one step passes."""
    def in_steps(outputs):
        return [y.astype(np.float64) / 1e3 for y in outputs]  # scales one step to the tolerance

    judge(op, inputs, attributes, constants=constants, compared=in_steps, tolerance=1.001e-3)


u8, i8 = np.uint8, np.int8
X = [steps(u8, 2, 6, 8, 9), SCALE, u8(120)]
Y = [np.float32(0.03), u8(100)]
SIGNED = [steps(i8, 2, 6, 8, 9), SCALE, i8(-5)], [np.float32(0.04), i8(3)]


@pytest.mark.parametrize("op,inputs,attributes", [
    ("QLinearSoftmax", [*X, np.float32(1 / 256), u8(0)], {"axis": -1, "opset": 13}),
    ("QLinearSoftmax", [*X, np.float32(1 / 256), u8(0)], {"axis": 2, "opset": 11}),
    ("QLinearWhere", [RANDOM.integers(0, 2, (8, 1)).astype(bool), *X, steps(u8, 6, 1, 9), np.float32(0.02), u8(9), *Y], {}),
    ("QLinearAveragePool", [*X, *Y], {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    ("QLinearAveragePool", [*X, *Y], {"kernel_shape": [3, 3], "channels_last": 1, "count_include_pad": 1, "pads": [1, 1, 1, 1]}),
    ("QLinearAveragePool", [*X, *Y], {"kernel_shape": [3, 4], "strides": [2, 3], "ceil_mode": 1, "count_include_pad": 1}),
    ("QLinearAveragePool", [*X, *Y], {"kernel_shape": [4, 3], "strides": [3, 2], "ceil_mode": 1, "count_include_pad": 1, "pads": [1, 1, 1, 0]}),
    ("QLinearAveragePool", [*X, *Y], {"kernel_shape": [3, 2], "strides": [2, 5], "ceil_mode": 1, "count_include_pad": 1, "pads": [0, 1, 0, 1]}),
    ("QLinearAveragePool", [*X, *Y], {"kernel_shape": [4, 3], "strides": [3, 2], "ceil_mode": 1, "pads": [1, 1, 1, 0]}),
    ("QLinearConv", [*X, weights(4, 6, 3, 3), scales(4), np.zeros(4, i8), *Y, steps(np.int32, 4, most=500)], {"pads": [1, 1, 1, 1]}),
    ("QLinearConv", [steps(u8, 2, 8, 9, 6), SCALE, u8(120), weights(4, 6, 3, 3), SCALE, i8(0), *Y],
     {"channels_last": 1, "strides": [2, 2]}),
    ("QGemm", [steps(u8, 5, 33), SCALE, u8(7), weights(33, 9), scales(9), np.zeros(9, i8), steps(np.int32, 9, most=900),
               np.float32(0.2), u8(128)], {}),
])
def test_quantised_results(op, inputs, attributes):
    one_step(op, inputs, attributes, constants=range(3, len(inputs)) if "Conv" in op or op == "QGemm" else ())


@pytest.mark.parametrize("kind", [u8, i8])
@pytest.mark.parametrize("zero", [0, 1, 3])
def test_halves(kind, zero):
    """Half-way values: sums, products and averages add the zero point before rounding; other operators, after it."""
    half, quarter, one = np.float32(0.5), np.float32(0.25), np.float32(1)
    x, other, y = [steps(kind, 2, 4, 8, 8, most=60), half, kind(1)], [steps(kind, 4, 1, 8, most=60), quarter, kind(1)], [one, kind(zero)]
    for op in "QLinearAdd", "QLinearMul":
        judge(op, [*x, *other, *y], constants=[2, 5, 7])
    judge("QLinearAveragePool", [*x, *y], {"kernel_shape": [1, 2]}, constants=[2, 4])
    judge("QLinearAveragePool", [*x, *y], {"kernel_shape": [1, 2]})
    judge("QLinearAveragePool", [np.ascontiguousarray(x[0][:, :, :2, :2]), *x[1:], *y], {"kernel_shape": [2, 2]})
    judge("QLinearGlobalAveragePool", [x[0][:, :, :2, :2], *x[1:], *y], {"channels_last": 0})
    judge("QLinearLeakyRelu", [*x, *y], {"alpha": 0.5}, constants=[1, 2, 3, 4])
    judge("QLinearConcat", [*y, *x, *x], {"axis": 1}, constants=[0, 1, 3, 4, 6, 7])
    judge("QLinearWhere", [x[0] > 5, *x, *x, *y])
    judge("QuantizeLinear", [(x[0] / 2).astype(np.float32), *y])


@pytest.mark.parametrize("axes,keep", [([2, -1], 1), ([1], 0)])
def test_reduce_mean(axes, keep):
    """Compares with a mean in f64, because onnxruntime has no kernel for this operator."""
    model, feed = model_of("QLinearReduceMean", [*X, *Y], ("y",), {"axes": axes, "keepdims": keep})
    real = (X[0].astype(np.float64) - X[2]) * X[1]
    wanted = np.clip(np.rint(real.mean(tuple(axes), keepdims=bool(keep)) / Y[0]) + Y[1], 0, 255)
    for device in "ref", "cpu":
        got = weft.compile(model, device=device).run(feed)["y"]
        assert got.shape == wanted.shape and np.abs(got - wanted).max() <= 1


def packed(values, width):
    """Returns numbers of `width` bits along the last axis, the lowest bits first."""
    per = 8 // width
    parts = values.reshape(*values.shape[:-1], -1, per).astype(np.uint8)
    return sum(parts[..., i] << (width * i) for i in range(per)).astype(np.uint8)


def n_bits(width, n, k, block, zero=None, order=False, bias=False):
    blocks = -(-k // block)
    q = RANDOM.integers(0, 1 << width, (n, blocks, block))
    zeros = None
    if zero == "packed":
        per = 8 // width
        z = np.zeros((n, -(-blocks // per) * per), np.int64)
        z[:, :blocks] = RANDOM.integers(0, 1 << width, (n, blocks))
        zeros = packed(z, width).reshape(-1)
    elif zero == "float":
        zeros = RANDOM.uniform(0, (1 << width) - 1, (n, blocks)).astype(np.float32)
    group = RANDOM.permutation(np.arange(k) // block).astype(np.int32) if order else None
    inputs = [floats(3, k), packed(q, width).reshape(n, blocks, -1), scales(n * blocks), zeros, group,
              floats(n) if bias else None]
    while inputs[-1] is None:
        inputs.pop()
    return inputs, {"N": n, "K": k, "bits": width, "block_size": block}


@pytest.mark.parametrize("form", [
    {"width": 4, "n": 7, "k": 64, "block": 32},
    {"width": 4, "n": 7, "k": 50, "block": 16, "zero": "packed", "bias": True},
    {"width": 4, "n": 6, "k": 64, "block": 16, "zero": "float"},
    {"width": 4, "n": 6, "k": 64, "block": 16, "order": True},  # no zero points: onnxruntime ignores them here
    {"width": 8, "n": 5, "k": 96, "block": 32, "zero": "packed"},
    {"width": 2, "n": 5, "k": 64, "block": 32},
])
def test_matmul_nbits(form):
    inputs, attributes = n_bits(**form)
    judge("MatMulNBits", inputs, attributes, constants=[i for i in range(1, len(inputs)) if inputs[i] is not None],
          tolerance=2e-4)


@pytest.mark.parametrize("kind", [0, 1])
def test_matmul_bnb4(kind):
    n, k, block = 12, 32, 16
    inputs = [floats(5, k), RANDOM.integers(0, 256, n * k // 2).astype(u8), scales(n * k // block)]
    judge("MatMulBnb4", inputs, {"N": n, "K": k, "block_size": block, "quant_type": kind}, constants=(1, 2), tolerance=1e-4)


@pytest.mark.parametrize("width,zero", [(4, True), (4, False), (8, True), (8, False)])
def test_gather_block_quantized(width, zero):
    rows, size, block = 11, 64, 16
    data = packed(RANDOM.integers(0, 1 << width, (rows, size)), width)
    zeros = packed(RANDOM.integers(0, 1 << width, (rows, size // block)), width) if zero else None
    inputs = [data, np.array([[3, 0, -1], [10, 2, 2]]), scales(rows, size // block)] + ([zeros] if zero else [])
    judge("GatherBlockQuantized", inputs, {"bits": width, "block_size": block},
          constants=[i for i in range(len(inputs)) if i != 1])


def test_dynamic_quantize_matmul():
    a, b = floats(4, 33), weights(33, 9)
    judge("DynamicQuantizeMatMul", [a, b, scales(9), np.zeros(9, i8), floats(9)], constants=(1, 2, 3, 4), tolerance=1e-4)
    judge("DynamicQuantizeMatMul", [a, steps(u8, 33, 9), SCALE, u8(131)], constants=(1, 2, 3), tolerance=1e-4)


def test_matmul_integer_to_float():
    judge("MatMulIntegerToFloat", [steps(u8, 2, 5, 33), weights(33, 9), SCALE, scales(9), u8(3), np.zeros(9, i8), floats(9)],
          constants=(1,), tolerance=1e-4)


def test_quantised_attention():
    batch, tokens, heads, width = 2, 5, 4, 32
    x, w = steps(u8, batch, tokens, width), weights(width, 3 * width)
    mask = np.array([5, 3], np.int32)
    shared = [x, w, floats(3 * width), np.float32(0.02), np.float32(0.01)]
    judge("QAttention", [*shared, None, u8(128), i8(0)], {"num_heads": heads}, constants=(1, 2), tolerance=1e-4)
    judge("QAttention", [*shared, mask, u8(128), i8(0)], {"num_heads": heads}, constants=(1, 2), tolerance=1e-4)
    past = floats(2, batch, heads, 3, width // heads)
    judge("QAttention", [*shared, None, u8(128), i8(0), past], {"num_heads": heads, "unidirectional": 1},
          outputs=("y", "present"), constants=(1, 2), tolerance=1e-4)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("kind", [u8, i8])
def test_recurrent_network_of_bytes(direction, by_column, kind):
    """Inputs and states are rounded to bytes before each product."""
    ways, width, hidden, length = 2 if direction == "bidirectional" else 1, 12, 8, 6
    columns = (ways, 4 * hidden) if by_column else (ways,)
    zero = np.full(columns, 128 if kind == u8 else 3 * (not by_column), kind)
    w, r = (RANDOM.integers(-60, 60, (ways, n, 4 * hidden)) + int(zero.flat[0]) for n in (width, hidden))
    inputs = [floats(length, 1, width), w.astype(kind), r.astype(kind), floats(ways, 8 * hidden), None,
              floats(ways, 1, hidden) / 4, floats(ways, 1, hidden) / 4, None, scales(*columns), zero, scales(*columns), zero]
    judge("DynamicQuantizeLSTM", inputs, {"hidden_size": hidden, "direction": direction}, ("y", "h", "c"),
          constants=(1, 2, 8, 9, 10, 11), tolerance=2e-3)


@pytest.mark.parametrize("kind", ["INT4", "UINT4", "INT8", "UINT8"])
@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("has_zero", [False, True])
def test_products_with_dequantised_blocks(kind, is_transposed, has_zero):
    """One kernel computes x[2, 3, 64] times weights[64, 24] directly from quantised blocks of 32. The weights may be
    stored as [24, 64] with a Transpose after them."""
    width, low = int(kind[-1]), 0 if kind[0] == "U" else -(1 << int(kind[-1]) - 1)
    axis = 1 if is_transposed else 0

    def stored(name, *dims):
        dims = dims[::-1] if is_transposed else dims
        values = RANDOM.integers(low, low + (1 << width), dims)
        packed = (values.astype(np.uint8) & ((1 << width) - 1)).reshape(-1)
        packed = packed[0::2] | packed[1::2] << 4 if width == 4 else packed
        return values, helper.make_tensor(name, getattr(TensorProto, kind), dims, packed.tobytes(), raw=True)

    (w, w_tensor), (zero, zero_tensor) = stored("w", 64, 24), stored("z", 2, 24)
    scale, x = scales(*zero.shape), floats(2, 3, 64)
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"][:2 + has_zero], ["d"], axis=axis, block_size=32),
             *([helper.make_node("Transpose", ["d"], ["t"], perm=[1, 0])] if is_transposed else []),
             helper.make_node("MatMul", ["x", "t" if is_transposed else "d"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 3, 64])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", 3, 24])],
                              [w_tensor, numpy_helper.from_array(scale, "s"), *([zero_tensor] if has_zero else [])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
    dense = (w - np.repeat(zero * has_zero, 32, axis)) * np.repeat(scale.astype(np.float64), 32, axis)
    wanted = x.astype(np.float64) @ (dense.T if is_transposed else dense)
    for device in "ref", "cpu":
        compiled = weft.compile(model, device=device)
        np.testing.assert_allclose(compiled.run({"x": x})["y"], wanted, 1e-5, 1e-5 * np.abs(wanted).max())
    kernels = [step["kernel"] for step in compiled.report()["steps"]]
    assert any("block_dot" in kernel for kernel in kernels), kernels


PACKED = {  # packed_type: elements and bytes of a block, and the offset of its f16 scales
    2: (32, 18, [0]), 6: (32, 22, [0]), 8: (32, 34, [0]), 13: (256, 176, [0, 2]), 14: (256, 210, [208]), 20: (32, 18, [0]),
    23: (256, 136, [0]), 42: (64, 18, [0])}


def packed_table(kind, rows, blocks):
    _, size, scales_at = PACKED[kind]
    table = np.random.default_rng(kind).integers(0, 256, (rows, blocks, size)).astype(np.uint8)
    for at in scales_at:
        table[:, :, at:at + 2] = RANDOM.uniform(-0.1, 0.1, (rows, blocks, 1)).astype(np.float16).view(np.uint8)
    return table.reshape(rows, -1)


@pytest.mark.parametrize("kind", PACKED)
@pytest.mark.parametrize("known", [False, True])
def test_rows_of_packed_tables(kind, known):
    """Indices of rows that do not exist read row 0."""
    judge("GatherPacked", [packed_table(kind, 5, 2), np.array([[4, -1, 2], [5, 0, 3]], np.int32)],
          {"packed_type": kind, "K": 2 * PACKED[kind][0], "output_dtype": TensorProto.FLOAT}, constants=(0,) if known else ())


@pytest.mark.parametrize("kind, type", [(0, np.float32), (1, np.float16)])
def test_rows_of_packed_floats(kind, type):
    table = floats(5, 3).astype(type)
    for wanted in TensorProto.FLOAT, TensorProto.FLOAT16:
        judge("GatherPacked", [table.view(np.uint8), np.array(3)], {"packed_type": kind, "K": 3, "output_dtype": wanted})


def test_rows_of_packed_brain_floats():
    words = floats(5, 3).view(np.uint32) >> 16
    judge("GatherPacked", [words.astype(np.uint16).view(np.uint8), np.array([3, 1])], {"packed_type": 30, "K": 3, "output_dtype": TensorProto.FLOAT})


@pytest.mark.parametrize("words, attributes", [
    ("E122.*packed_type 16", {"packed_type": 16}),
    ("K must be a multiple of 32", {"K": 48}),
    ("bytes of a row", {"K": 32}),
    ("f32, f16 or bf16", {"output_dtype": TensorProto.DOUBLE}),
], ids=lambda value: value if isinstance(value, str) else None)
def test_packed_tables_refuse(words, attributes):
    refuses(words, "GatherPacked", [packed_table(2, 5, 2), np.array([1])], {"packed_type": 2, "K": 64, "output_dtype": 1} | attributes, ("y",))
