# SPDX-License-Identifier: Apache-2.0
"""Operators as older operator sets define them, where a version changed attributes, inputs, types or meaning. ONNX's
own cases cover only the newest version. ref is compared with onnxruntime's CPU provider; after import, versions
no longer matter."""
import numpy as np
import pytest

from test_microsoft import floats
from test_onnx_peer import judge

X = floats(2, 3, 4)
PICTURE = floats(1, 2, 5, 6)
I64 = np.int64
CASES = []


def case(op, opsets, inputs, outputs=("y",), constants=(), **attributes):
    for opset in opsets:
        CASES.append(pytest.param(op, opset, inputs, outputs, constants, attributes, id=f"{op}-{opset}-{len(CASES)}"))


def i64(*values):
    return np.array(values, I64)


# Cases in which an attribute became an input, or an input became an attribute.
case("Clip", [7], [X], min=-0.5, max=0.25)
case("Clip", [11, 12, 13], [X, np.float32(-0.5), np.float32(0.25)])
case("Clip", [12, 13], [i64(1, 5, 9), None, np.array(4)])
case("Slice", [7], [X], starts=[0, -3], ends=[1, 1000], axes=[0, 2])
case("Slice", [10, 11, 13], [X, i64(-1, 0), i64(-1000, 3), i64(2, 1), i64(-2, 1)], constants=[1, 2, 3, 4])
case("Pad", [7], [X], pads=[0, 1, 2, 0, -1, 1], value=1.5)
case("Pad", [7], [X], pads=[0, 1, 2, 0, 1, 1], mode="reflect")
case("Pad", [11, 13, 18, 19], [X, i64(0, 1, 2, 0, -1, 1), np.float32(1.5)], constants=[1])
case("TopK", [7], [X], ["y", "i"], axis=1, k=2)
case("TopK", [10], [X, i64(2)], ["y", "i"], [1], axis=1)
case("TopK", [11], [X, i64(3)], ["y", "i"], [1], axis=-1, largest=0)
case("Split", [7, 11], [X], ["a", "b"], axis=2, split=[1, 3])
case("Split", [7, 11], [X], ["a", "b"], axis=2)
case("Split", [13, 18], [X, i64(3, 1)], ["a", "b"], [1], axis=-1)
case("Split", [18], [X], ["a", "b"], axis=1, num_outputs=2)
case("Split", [18], [floats(2, 5)], ["a", "b", "c"], axis=1, num_outputs=3)
case("Squeeze", [7, 11], [floats(1, 3, 1, 4)], axes=[0, 2])
case("Squeeze", [7, 11, 13], [floats(1, 3, 1, 4)])
case("Squeeze", [13], [floats(1, 3, 1, 4), i64(-2)], constants=[1])
case("Unsqueeze", [7], [X], axes=[0, 4])
case("Unsqueeze", [11], [X], axes=[-1, 0])
case("Unsqueeze", [13], [X, i64(-1, 0)], constants=[1])
for op in "L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare":
    case(f"Reduce{op}", [7, 11], [np.abs(X)], axes=[0, 2], keepdims=0)
    case(f"Reduce{op}", [11], [np.abs(X)], axes=[-1])
    case(f"Reduce{op}", [7, 11, 13, 18], [np.abs(X)])
    case(f"Reduce{op}", [13 if op == "Sum" else 18], [np.abs(X), i64(0, -1)], constants=[1], keepdims=0)
    case(f"Reduce{op}", [13 if op == "Sum" else 18], [np.abs(X)], noop_with_empty_axes=1)
case("Dropout", [7, 10], [X], ratio=0.7)
case("Dropout", [12, 13], [X, np.float32(0.7)], ["y", "mask"], [1])
case("Upsample", [7], [PICTURE], scales=[1.0, 1.0, 2.0, 1.5], mode="nearest")
case("Upsample", [7], [PICTURE], scales=[1.0, 1.0, 2.0, 3.0], mode="linear")
case("Upsample", [9], [PICTURE, np.array([1, 1, 2, 3], np.float32)], constants=[1], mode="linear")
case("Resize", [10], [PICTURE, np.array([1, 1, 2, 0.5], np.float32)], constants=[1], mode="nearest")
case("Resize", [10], [PICTURE, np.array([1, 1, 2, 1.5], np.float32)], constants=[1], mode="linear")
for mode in "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric":
    scale = 2 if mode == "align_corners" else 1.7  # onnxruntime rounds the height first, ONNX's reference does not
    case("Resize", [11, 13], [PICTURE, np.zeros(0, np.float32), np.array([1, 1, scale, 2.5], np.float32)], constants=[1, 2], mode="linear",
         coordinate_transformation_mode=mode)
case("Resize", [11, 13, 18, 19], [PICTURE, np.zeros(0, np.float32), np.zeros(0, np.float32), i64(1, 2, 7, 4)][:4], constants=[1, 2, 3],
     mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric")
case("Resize", [13], [PICTURE, None, None, i64(1, 2, 7, 4)], constants=[3], mode="cubic", cubic_coeff_a=-0.5)

# Operators for which a version changed the meaning.
for op in "Softmax", "LogSoftmax", "Hardmax":
    case(op, [7, 11, 13], [X])
    case(op, [7, 11, 13], [X], axis=0)
    case(op, [11, 13], [X], axis=-2)
case("Flatten", [7, 9, 11, 13], [floats(2, 3, 4, 5)], axis=2)
case("Flatten", [11, 13], [floats(2, 3, 4, 5)], axis=-1)
case("Concat", [7, 11, 13], [X, X + 1], axis=1)
case("Concat", [11, 13], [X, X + 1], axis=-1)
case("BatchNormalization", [7, 9, 14, 15], [PICTURE, floats(2), floats(2) + 1, floats(2) - 1, np.abs(floats(2)) + 0.5], epsilon=1e-3)
case("ArgMax", [7, 11, 12, 13], [np.round(X)], axis=1, keepdims=0)
case("ArgMax", [12, 13], [np.round(X)], axis=1, select_last_index=1)
case("ArgMin", [11, 13], [np.round(X)], axis=-1)
case("OneHot", [9, 11], [i64(0, 2, 1), np.array(3), np.array([0, 5], np.float32)], constants=[1])
case("OneHot", [11], [i64(0, -1, 7), np.array(3), np.array([0, 5], np.float32)], constants=[1], axis=0)
case("Gather", [7, 11, 13], [X, np.array([[0, 2], [1, 1]])], axis=1)
case("Gather", [11, 13], [X, np.array([[0, -1], [1, -3]])], axis=1)
case("GatherND", [11, 12, 13], [X, np.array([[0, 2], [1, -1]])])
case("GatherND", [12, 13], [X, np.array([[0], [2]])], batch_dims=1)
case("Scatter", [9], [X, np.array([[[1, 0, 1, 0]]]), floats(1, 1, 4)], axis=0)
case("ScatterElements", [11, 13, 16], [X, np.array([[[1, 0, -1, 0]]]), floats(1, 1, 4)], axis=0)
case("ScatterElements", [16, 18], [X, np.array([[[1, 0, 1, 0]]]), floats(1, 1, 4)], axis=0, reduction="add")
case("ScatterElements", [18], [X, np.array([[[1, 0, 1, 0]]]), floats(1, 1, 4)], axis=0, reduction="max")
case("ScatterND", [11, 13, 16, 18], [X, np.array([[1], [0]]), floats(2, 3, 4)])
case("ScatterND", [16, 18], [X, np.array([[1], [1]]), floats(2, 3, 4)], reduction="mul")
case("DepthToSpace", [7], [floats(1, 8, 2, 3)], blocksize=2)
case("DepthToSpace", [11, 13], [floats(1, 8, 2, 3)], blocksize=2, mode="CRD")
case("SpaceToDepth", [7, 13], [floats(1, 2, 4, 6)], blocksize=2)
case("PRelu", [7, 9, 16], [X, floats(3, 1)])
case("Pow", [7, 12, 13, 15], [np.abs(X), X + 2])
case("Pow", [12, 13, 15], [np.abs(X), np.array([2], np.int32)])
case("Pow", [12, 15], [np.arange(5), np.array([2.5], np.float32)])
for op in "Max", "Min", "Mean", "Sum":
    case(op, [7], [X, X * 2, X + 1])
    case(op, [8, 13], [X, floats(4), floats(3, 1)])
case("Max", [12, 13], [np.arange(4), i64(2)])
case("CumSum", [11, 14], [X, np.array(1)], constants=[1], exclusive=1, reverse=1)
case("IsInf", [10, 20], [np.array([1, np.inf, -np.inf, np.nan], np.float32)], detect_negative=0)
case("IsNaN", [9, 13, 20], [np.array([1, np.inf, -np.inf, np.nan], np.float32)])
case("Mod", [10, 13], [np.array([-5, 5, 7]), np.array([3, -3, 2])])
case("Mod", [10, 13], [X, np.array([0.3], np.float32)], fmod=1)
case("MeanVarianceNormalization", [9, 13], [PICTURE], axes=[0, 2, 3])
case("LpNormalization", [7], [X], axis=1, p=2)
case("GridSample", [16], [PICTURE, floats(1, 3, 4, 2)], mode="bicubic", padding_mode="border")
case("GridSample", [20], [PICTURE, floats(1, 3, 4, 2)], mode="cubic", padding_mode="border")
case("RoiAlign", [10, 16], [PICTURE, np.array([[0, 0, 3, 4]], np.float32), i64(0)], output_height=2, output_width=2, sampling_ratio=2)
case("GroupNormalization", [18], [floats(2, 6, 3), floats(2), floats(2) + 1], num_groups=2)
case("GroupNormalization", [21], [floats(2, 6, 3), floats(6), floats(6) + 1], num_groups=2)

# Types and attributes that later versions added.
case("Gemm", [7, 9], [floats(3, 4), floats(5, 4), floats(1, 5)], transB=1, alpha=0.5, beta=2.0)
case("Gemm", [11, 13], [floats(3, 4), floats(4, 5)], alpha=0.5)
case("MatMul", [9, 13], [np.arange(6, dtype=np.int32).reshape(2, 3), np.arange(6, dtype=np.int32).reshape(3, 2)])
case("Equal", [7, 11, 13, 19], [i64(1, 2, 3), i64(1, 5, 3)])
case("Equal", [11, 13], [X, np.round(X)])
case("Equal", [19], [np.array(["a", "b"], object), np.array(["a", "c"], object)])
case("Greater", [7, 9, 13], [X, floats(4)])
case("Less", [9, 13], [i64(1, 2, 3), i64(2)])
case("AveragePool", [7, 10, 11], [PICTURE], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])
case("AveragePool", [7, 10, 11], [PICTURE], kernel_shape=[3, 2], pads=[1, 0, 1, 1], count_include_pad=1)
case("AveragePool", [19], [PICTURE], kernel_shape=[2, 2], dilations=[2, 1], ceil_mode=1, strides=[2, 2])
case("MaxPool", [7, 8, 10, 11, 12], [PICTURE], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
case("MaxPool", [8, 11, 12], [PICTURE], ["y", "i"], kernel_shape=[2, 2], strides=[2, 2])
case("MaxPool", [10, 12], [PICTURE], kernel_shape=[2, 2], dilations=[2, 2], ceil_mode=1, strides=[2, 2])
case("AveragePool", [7, 11], [PICTURE], kernel_shape=[3, 3], auto_pad="SAME_UPPER", strides=[2, 2])
case("LpPool", [7, 11, 18], [PICTURE], kernel_shape=[2, 2], p=1)
case("ConvTranspose", [7, 11], [floats(1, 2, 3, 3), floats(2, 3, 3, 3)], strides=[2, 2], output_padding=[1, 1], pads=[1, 1, 1, 1])
case("Cast", [7, 9, 13], [X * 9], to=6)
case("Shape", [7, 13], [X])
case("Shape", [15], [X], start=-2, end=3)
case("QuantizeLinear", [10, 13], [X, np.float32(0.05), np.uint8(100)])
case("QuantizeLinear", [13, 19], [X, np.abs(floats(3)) + 0.1, np.array([1, 2, 3], np.int8)], axis=1)
case("DequantizeLinear", [10, 13], [np.arange(6, dtype=np.uint8), np.float32(0.05), np.uint8(3)])
case("DequantizeLinear", [13, 19], [np.arange(6, dtype=np.int8).reshape(2, 3), np.abs(floats(3)), np.array([1, 2, 3], np.int8)], axis=-1)
case("DequantizeLinear", [10, 13], [np.arange(6, dtype=np.int32), np.float32(0.05)])
for op, gates in ("RNN", 1), ("GRU", 3), ("LSTM", 4):
    weights = [floats(2, gates * 4, 3), floats(2, gates * 4, 4), floats(2, gates * 8)]
    case(op, [7, 14], [floats(5, 2, 3), *weights, np.array([5, 3], np.int32)], ["y", "h"], hidden_size=4, direction="bidirectional")
case("NonMaxSuppression", [10, 11], [np.abs(floats(1, 6, 4)).cumsum(-1), np.abs(floats(1, 2, 6)), np.array([3]), np.array([0.4], np.float32)],
     constants=[2, 3])
case("ConstantOfShape", [9, 20], [i64(2, 3)])
case("EyeLike", [9], [floats(3, 4)], k=1, dtype=6)
case("Expand", [8, 13], [floats(3, 1), i64(2, 1, 4)], constants=[1])
case("Tile", [7, 13], [X, i64(1, 2, 3)], constants=[1])
case("Where", [9, 16], [np.array([True, False, True, False]), X, np.array([7], np.float32)])
case("Unique", [11], [np.array([3, 1, 1, 2], np.float32)], ["y", "i", "r", "n"])
case("ReverseSequence", [10], [floats(4, 3, 2), i64(1, 3, 4)], time_axis=0, batch_axis=1)
case("Transpose", [7, 13], [X], perm=[2, 0, 1])
case("InstanceNormalization", [7], [PICTURE, floats(2), floats(2)], epsilon=1e-3)
case("LRN", [7, 13], [floats(1, 7, 3, 3)], size=3, alpha=0.5, bias=1.5)
case("TfIdfVectorizer", [9], [i64(1, 2, 3, 1, 2)], mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=0, ngram_counts=[0, 3],
     ngram_indexes=[0, 1, 2, 3], pool_int64s=[1, 2, 3, 1, 2])


@pytest.mark.parametrize("op, opset, inputs, outputs, constants, attributes", CASES)
def test_version(op, opset, inputs, outputs, constants, attributes):
    judge(op, inputs, attributes, outputs, opset, constants=constants, devices=["ref"])
