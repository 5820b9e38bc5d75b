# SPDX-License-Identifier: Apache-2.0
"""Cases of frozen graphs with a single operator of TensorFlow, as lite_cases.py has them for TensorFlow Lite.
Attributes that are left out have TensorFlow's defaults. Type attributes follow from the operands."""
import numpy as np

from lite_cases import SPECIAL, B, Case, F, H, I, L, S, U, Value, const, f, ints, rng

CASES = []
D = np.float64


def case(operator, inputs, tolerance=1e-5, open_sizes=True, **attributes):
    """Adds a case; a list among the inputs is one operand that consists of several tensors."""
    values = [[v if isinstance(v, Value) else Value(np.asarray(v)) for v in i] if isinstance(i, list) else
              i if isinstance(i, Value) else Value(np.asarray(i)) for i in inputs]
    number = sum(c.operator == operator for c in CASES)
    CASES.append(Case(operator, values, [], "", attributes, tolerance, open_sizes, f"{operator}-{number}"))


POSITIVE = ("Sqrt", "Rsqrt", "Log", "Log1p", "Reciprocal", "Acosh")
UNARY = ["Neg", "Abs", "Sign", "Reciprocal", "Sqrt", "Rsqrt", "Exp", "Expm1", "Log", "Log1p", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan",
         "Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh", "Erf", "Sigmoid", "Relu", "Floor", "Ceil", "Relu6", "Elu", "Selu", "Softplus",
         "Softsign", "Square", "Round"]
for name in UNARY:
    low, high = (1.1, 4) if name in POSITIVE else (-0.9, 0.9) if name in ("Asin", "Acos", "Atanh") else (-3, 3)
    case(name, [f(2, 3, 5, low=low, high=high)])
    case(name, [f(1, low=low, high=high).astype(D)])
    case(name, [np.zeros((0, 3), F)])
for name in ["Neg", "Abs", "Sqrt", "Exp", "Log", "Floor", "Ceil", "Round", "Tanh", "IsNan"]:
    case(name, [SPECIAL], open_sizes=False)
for name in ["Neg", "Abs", "Sign", "Square", "Relu"]:
    case(name, [ints(3, 4)])
for x in [f(3), f(2, 2).astype(D), SPECIAL]:
    for name in ["IsNan", "IsInf", "IsFinite"]:
        case(name, [x])
for x in [f(40, low=-4, high=4), np.linspace(3, 9, 13).astype(F), SPECIAL, np.zeros((0, 2), F), f(5).astype(H)]:
    case("Erfc", [x], tolerance=2e-3 if x.dtype == H else 2e-5)
for x, y in [(f(3, 4), f(4).round()), (SPECIAL, np.zeros_like(SPECIAL)), (f(2, 1).astype(D), np.array([0, 2, -1], D)), (f(0, 3), f(3))]:
    case("DivNoNan", [x, y])
for x in [rng.random((3, 4)) > 0.5, np.array([True]), np.zeros((0,), B)]:
    case("LogicalNot", [x])
for x in [ints(3, 4), ints(5, dtype=S), ints(1, dtype=U, low=0)]:
    case("Invert", [x])
for name in ["Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "Maximum", "Minimum", "SquaredDifference", "FloorDiv", "FloorMod", "Mod", "TruncateDiv"]:
    if name != "TruncateDiv":
        if name != "Mod":
            case(name, [f(2, 3, 5, low=-5, high=5), f(2, 3, 5, low=0.5)])
            case(name, [f(3, 1), f(4, low=0.5)])
        case(name, [f(2).astype(D), f(1, low=0.5).astype(D)])
    if name not in ("RealDiv",):
        case(name, [np.array([7, -7, 7, -7, 6], I), np.array([2, 2, -2, -2, 3], I)])
        case(name, [ints(3, 2, dtype=L), ints(3, 2, dtype=L, low=1)])
        case(name, [ints(3, dtype=I), ints(dtype=I, low=1)])
case("RealDiv", [f(0, 3), f(3, low=0.5)])
for x, y in [(f(3, 4, low=0.1), f(4)), (f(2, low=0.1).astype(D), f(2).astype(D)), (np.array([-2, -3, 0], F), np.array([2, 3, 0], F))]:
    case("Pow", [x, y])
    case("Atan2", [x, y])
for name in ["Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"]:
    case(name, [f(3, 4).round(), f(3, 4).round()])
    case(name, [ints(2, 1, low=0, high=3), ints(3, low=0, high=3)])
    case(name, [np.array([np.nan, 1], F), np.array([np.nan, np.nan], F)])
for name in ["LogicalAnd", "LogicalOr"]:
    case(name, [rng.random((3, 4)) > 0.5, rng.random((3, 4)) > 0.5])
    case(name, [rng.random((3, 1)) > 0.5, rng.random(4) > 0.5])
    case(name, [np.zeros(0, B), np.zeros(0, B)])
for name in ["BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift"]:
    low = 0 if "Shift" in name else -99
    for dtype in [I, S, L]:
        case(name, [ints(3, 4, dtype=dtype, low=-99, high=99), ints(3, 4, dtype=dtype, low=low, high=7)])
for condition, x in [(np.array([True, False, True]), f(3, 4)), (rng.random((3, 4)) > 0.5, ints(3, 4)), (np.array(True), f(2, 2))]:
    case("Select", [condition, x, x + 1])
for condition, x, y in [(rng.random((3, 1)) > 0.5, f(3, 4), f(4)), (rng.random(4) > 0.5, ints(2, 4), ints(1)), (np.array(False), f(3), f(3))]:
    case("SelectV2", [condition, x, y])
TYPES = {F: "float32", H: "float16", I: "int32", L: "int64", B: "bool", U: "uint8", S: "int8", D: "float64"}
for source, target in [(F, I), (I, F), (F, B), (B, F), (I, L), (L, I), (F, D), (D, F), (F, H), (H, F), (U, I), (S, F)]:
    low = 0 if source is U else -9
    case("Cast", [rng.uniform(low, 9, (3, 5)).astype(source)], DstT=TYPES[target])
for count in [1, 2, 3]:
    case("AddN", [[f(3, 4) for _ in range(count)]])
for x, alpha in [(f(3, 5), 0.1), (f(1), 0.2), (np.zeros((2, 0), F), 0.5)]:
    case("LeakyRelu", [x], alpha=alpha)
for name in ["ZerosLike", "OnesLike"]:
    for x in [f(3, 4), ints(1), np.zeros((0, 2), L)]:
        case(name, [x])
for low, high, bits, narrow in [(-6.0, 6.0, 8, False), (-1.0, 3.0, 4, True), (0.0, 6.0, 8, False)]:
    case("FakeQuantWithMinMaxArgs", [f(3, 7, low=-7, high=7)], min=low, max=high, num_bits=bits, narrow_range=narrow)
    case("FakeQuantWithMinMaxVars", [f(3, 7, low=-7, high=7), np.float32(low), np.float32(high)], num_bits=bits, narrow_range=narrow)
case("FakeQuantWithMinMaxVars", [f(5), np.float32(0), np.float32(0)])
for shape, low, high in [((2, 3), [-1, 0, -6], [1, 6, 6]), ((4, 5, 1), [-0.3], [2.7]), ((0, 2), [0, 0], [1, 0])]:
    case("FakeQuantWithMinMaxVarsPerChannel", [f(*shape, low=-7, high=7), const(low, F), const(high, F)], num_bits=8, narrow_range=False)
for name in ["Identity", "StopGradient", "PreventGradient", "Snapshot"]:
    for x in [f(3, 4), ints(1), np.zeros((0, 2), F)]:
        case(name, [x])
for values in [[f(2), ints(3)], [f(1)], [np.zeros(0, F), f(2)]]:
    case("IdentityN", [values])

for padding in ["SAME", "VALID"]:
    for stride, dilation in [(1, 1), (2, 1), (1, 2)]:
        attributes = dict(padding=padding, strides=[1, stride, stride, 1], dilations=[1, dilation, dilation, 1])
        case("Conv2D", [f(2, 7, 6, 3), const(f(3, 3, 3, 4), F)], **attributes)
        case("DepthwiseConv2dNative", [f(2, 7, 6, 3), const(f(3, 3, 3, 2), F)], **attributes)
case("Conv2D", [f(1, 5, 5, 4), const(f(3, 3, 2, 6), F)], strides=[1, 1, 1, 1], padding="VALID")  # two groups
case("Conv2D", [f(1, 5, 5, 2), const(f(3, 2, 2, 3), F)], strides=[1, 2, 1, 1], padding="EXPLICIT", explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0])
for padding in ["SAME", "VALID"]:
    case("Conv3D", [f(1, 4, 5, 6, 2), const(f(3, 2, 2, 2, 3), F)], strides=[1, 1, 2, 1, 1], padding=padding)
case("Conv3D", [f(2, 3, 3, 3, 1), const(f(1, 1, 1, 1, 2), F)], strides=[1, 1, 1, 1, 1], padding="SAME")
for padding, stride, out in [("SAME", 2, (8, 6)), ("VALID", 2, (9, 7)), ("SAME", 1, (4, 3)), ("SAME", 2, (7, 5)), ("VALID", 2, (10, 7))]:
    case("Conv2DBackpropInput", [const([1, *out, 5]), const(f(3, 3, 5, 2), F), f(1, 4, 3, 2)], strides=[1, stride, stride, 1], padding=padding)
for name in ["MaxPool", "AvgPool"]:
    for padding, stride, size in [("SAME", 1, 3), ("SAME", 2, 2), ("VALID", 2, 3), ("VALID", 1, 1)]:
        case(name, [f(2, 7, 6, 3)], ksize=[1, size, size, 1], strides=[1, stride, stride, 1], padding=padding)
        case(name + "3D", [f(1, 5, 4, 6, 2)], ksize=[1, size, size, size, 1], strides=[1, stride, 1, stride, 1], padding=padding)
for name in ["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"]:
    for x, epsilon in [(f(2, 3, 4, 5), 1e-3), (f(1, 1, 1, 5), 1e-5), (f(0, 2, 2, 5), 1e-3)]:
        case(name, [x, f(5), f(5), f(5), f(5, low=0.1)], is_training=False, epsilon=epsilon)
for x in [f(2, 3), f(2, 3, 4, 3), f(0, 3), ints(1, 3)]:
    case("BiasAdd", [x, ints(3) if x.dtype == I else f(3)])
case("BiasAdd", [f(2, 3, 4, 5), f(3)], data_format="NCHW")
for a, b, ta, tb in [((3, 4), (4, 5), False, False), ((4, 3), (4, 5), True, False), ((3, 4), (5, 4), False, True), ((0, 4), (4, 2), False, False)]:
    case("MatMul", [f(*a), f(*b)], transpose_a=ta, transpose_b=tb)
for name in ["BatchMatMul", "BatchMatMulV2"]:
    for a, b, ax, ay in [((2, 3, 4), (2, 4, 5), False, False), ((2, 4, 3), (2, 4, 5), True, False), ((2, 3, 4), (2, 5, 4), False, True)]:
        case(name, [f(*a), f(*b)], adj_x=ax, adj_y=ay)
case("BatchMatMulV2", [f(2, 1, 3, 4), f(3, 4, 2)])
for equation, shapes in [("ij,jk->ik", [(2, 3), (3, 4)]), ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]), ("...ij->...ji", [(2, 3, 4)])]:
    case("Einsum", [[f(*s) for s in shapes]], equation=equation)
for name in ["Softmax", "LogSoftmax"]:
    for shape in [(3, 5), (1, 1), (2, 3, 4)]:
        case(name, [f(*shape)])
for radius, bias, alpha, beta in [(1, 1.0, 1.0, 0.5), (2, 9.0, 4.0, 0.75), (5, 0.5, 0.1, 1.0)]:
    case("LRN", [f(2, 3, 1, 6)], depth_radius=radius, bias=bias, alpha=alpha, beta=beta)

for x, shape in [(f(2, 3, 4), [6, -1]), (ints(4, 3), [2, 6]), (np.zeros((0, 4), F), [2, 0])]:
    case("Reshape", [x, const(shape)])
case("Reshape", [f(2, 3), np.array([3, -1], I)])
for x, order in [(f(2, 3, 4), [2, 0, 1]), (ints(3, 1), [1, 0]), (np.zeros((0, 3), F), [1, 0])]:
    case("Transpose", [x, const(order)])
for parts, axis in [([f(2, 3), f(2, 1)], 1), ([ints(1, 2), ints(3, 2)], 0), ([f(0, 2), f(3, 2)], -2)]:
    case("ConcatV2", [parts, const(axis)])
for axis, count in [(0, 2), (-1, 3), (1, 1)]:
    case("Pack", [[f(3, 4) for _ in range(count)]], axis=axis)
for x, axis in [(f(3, 4), 0), (ints(2, 3), 1), (f(1, 5), -2)]:
    case("Unpack", [x], num=x.shape[axis], axis=axis)
for x, axis, count in [(f(4, 6), 1, 3), (ints(4, 2), 0, 2), (f(2, 3), -1, 1)]:
    case("Split", [const(axis), x], num_split=count)
for x, sizes, axis in [(f(2, 7), [2, 5], 1), (ints(6, 2), [1, -1, 2], 0), (f(3, 4), [0, 4], 1)]:
    case("SplitV", [x, const(sizes), const(axis)], num_split=len(sizes))
    case("SplitV", [x, np.array(sizes, L), const(axis)], open_sizes=False, num_split=len(sizes))
for shape, axes in [((1, 3, 1, 2), [0, 2]), ((1, 3, 1), []), ((1, 3, 1), [-1])]:
    case("Squeeze", [f(*shape)], axis=axes, open_sizes=bool(axes))
for x, axis in [(f(2, 3), 0), (ints(3), -1), (np.zeros((0,), F), 1)]:
    case("ExpandDims", [x, const(axis)])
for x, repeats in [(f(2, 3), [2, 1]), (ints(3), [4]), (f(2), [0])]:
    case("Tile", [x, const(repeats)])
for x, pads in [(f(2, 3), [[1, 0], [0, 2]]), (ints(3), [[2, 1]]), (f(1, 2, 2, 1), [[0, 0], [1, 1], [2, 0], [0, 0]])]:
    case("Pad", [x, const(pads)])
    case("PadV2", [x, const(pads), const(7, x.dtype)])
for mode in ["REFLECT", "SYMMETRIC"]:
    case("MirrorPad", [f(3, 4), const([[2, 1], [0, 3]])], mode=mode)
    case("MirrorPad", [ints(5), const([[1, 2]])], mode=mode)
for x, begin, size in [(f(4, 5), [1, 2], [2, 3]), (ints(6), [2], [-1]), (f(3), [1], [0])]:
    case("Slice", [x, const(begin), const(size)])
for x, begin, end, step, masks in [
        (f(4, 6), [1, 0], [3, 5], [1, 2], {}), (f(4, 6), [-1, 0], [-4, 6], [-1, 1], {}), (f(4, 6), [1, 0], [2, 6], [1, 1], dict(shrink_axis_mask=1)),
        (f(2, 3, 4), [0, 1], [0, 2], [1, 1], dict(ellipsis_mask=1)), (f(4), [0, 1], [0, 3], [1, 1], dict(new_axis_mask=1)),
        (f(4, 6), [9, 9], [3, 2], [1, -1], dict(begin_mask=3)), (ints(6), [3], [4], [1], dict(begin_mask=1, shrink_axis_mask=1)),
        (f(4, 6), [-1, 2], [0, 9], [1, 2], dict(begin_mask=3, end_mask=1, shrink_axis_mask=1))]:
    case("StridedSlice", [x, const(begin), const(end), const(step)], **masks)
    case("StridedSlice", [x, np.array(begin, I), np.array(end, I), const(step)], open_sizes=False, **masks)
for x, target in [(f(2, 3), "int32"), (f(), "int64"), (np.zeros((0, 4), F), "int32")]:
    case("Shape", [x], out_type=target)
    case("Size", [x], out_type=target)
    case("Rank", [x])
for shape, value in [([2, 3], np.float32(1.5)), ([], np.int32(4)), ([0, 2], np.int64(1))]:
    case("Fill", [const(shape), np.asarray(value)])
for args in [(0, 7, 2), (5, -3, -3), (2, 2, 1)]:
    case("Range", [const(a) for a in args])
case("Range", [np.asarray(a, I) for a in (0, 9, 4)])
for x, shape in [(f(3, 1), [2, 3, 4]), (ints(4), [4]), (f(1), [0])]:
    case("BroadcastTo", [x, const(shape)], open_sizes=1 not in x.shape)
for a, b in [([2, 1], [3]), ([1], [4, 5]), ([3], [3])]:
    case("BroadcastArgs", [const(a), const(b)])
for x, axes in [(f(3, 4), [1]), (ints(5), [0]), (f(2, 3, 4), [0, -1])]:
    case("ReverseV2", [x, const(axes)])
for lengths, seq, batch, shape in [([3, 1, 0], 1, 0, (3, 4)), ([2, 4], 0, 1, (5, 2, 3)), ([1, 2, 3], 2, 0, (3, 2, 3))]:
    case("ReverseSequence", [f(*shape), np.array(lengths, I)], seq_dim=seq, batch_dim=batch)
for x, block in [(f(1, 4, 6, 3), 2), (f(2, 3, 3, 1), 3), (ints(1, 2, 2, 5), 2)]:
    case("SpaceToDepth", [x] if block == x.shape[1] or x.shape[1] % block == 0 else [f(1, 2, 2, 5)], block_size=block)
for x, block in [(f(1, 2, 3, 12), 2), (f(2, 1, 1, 9), 3), (ints(1, 2, 2, 8), 2)]:
    case("DepthToSpace", [x], block_size=block)
for x, block, pads in [(f(1, 4, 6, 3), [2, 2], [[0, 0], [0, 0]]), (f(2, 3, 5, 1), [2, 3], [[1, 0], [0, 1]]), (f(1, 5, 2), [2], [[0, 1]])]:
    case("SpaceToBatchND", [x, const(block), const(pads)])
for x, block, crops in [(f(4, 2, 3, 3), [2, 2], [[0, 0], [0, 0]]), (f(12, 2, 2, 1), [2, 3], [[1, 0], [0, 1]]), (f(2, 3, 2), [2], [[0, 1]])]:
    case("BatchToSpaceND", [x, const(block), const(crops)])

for name in ["Mean", "Sum", "Prod", "Max", "Min"]:
    for x, axes, keep in [(f(2, 3, 4), [1], False), (f(2, 3, 4), [0, 2], True), (ints(3, 4), [-1], False), (f(3).astype(D), 0, False), (ints(2, 3, dtype=L), [0], True)]:
        case(name, [x, const(axes)], keep_dims=keep)
case("Mean", [np.array([[7, -8], [-2, 1]], I), const([1])])
for name in ["Sum", "Prod", "Max", "Min", "Mean"]:
    case(name, [np.zeros((0, 3), F), const([0])])
for name in ["Any", "All"]:
    for shape, axes, keep in [((3, 4), [1], False), ((3,), [0], True), ((2, 0), [1], False)]:
        case(name, [rng.random(shape) > 0.4, const(axes)], keep_dims=keep)
for name in ["ArgMax", "ArgMin"]:
    for x, axis, target in [(f(3, 5), 1, "int64"), (ints(4, 3), 0, "int32"), (np.array([2, 5, 5, 2], F), -1, "int64")]:
        case(name, [x, const(axis)], output_type=target)
for x, axis, exclusive, reverse in [(f(3, 5), 1, False, False), (ints(4, 3), 0, True, False), (f(2, 1, 3), -1, True, True)]:
    case("Cumsum", [x, const(axis)], exclusive=exclusive, reverse=reverse)
for x, k in [(f(3, 5), 2), (ints(6), 6), (np.array([1, 3, 3, 2], F), 3)]:
    case("TopKV2", [x, const(k)])

for x, index in [(f(5, 3), [0, 4, 2]), (ints(4), [3]), (f(3, 2), [[0], [2]])]:
    case("Gather", [x, np.asarray(index, I)])
for x, index, axis, batch in [(f(3, 5), [[1, 4], [0, 2]], 1, 0), (f(2, 3, 4), [[0, 2], [1, 1]], 1, 1), (f(2, 3, 4), [[0, 3, 1], [2, 2, 0]], 2, 1), (ints(4), 2, 0, 0)]:
    case("GatherV2", [x, np.asarray(index, L), const(axis)], batch_dims=batch)
for x, index in [(f(3, 4), [[0, 1], [2, 3]]), (ints(3, 4), [[2], [0]]), (f(2, 3, 4), [[[1, 0]], [[0, 2]]])]:
    case("GatherNd", [x, np.asarray(index, I)])
for index, updates, shape in [([[0], [2]], f(2, 3), [4, 3]), ([[1], [1], [0]], f(3), [2]), ([[0, 1], [2, 0]], ints(2), [3, 2])]:
    case("ScatterNd", [np.asarray(index, I), updates, const(shape)])
for name in ["Sum", "Prod", "Max", "Min"]:
    for x, ids, count in [(f(5, 2), [0, 2, 0, 1, 2], 3), (f(4), [1, 1, 1, 0], 3), (ints(3, 2), [0, 0, 1], 2), (f(3), [0, -1, 1], 2)]:
        case(f"UnsortedSegment{name}", [x, np.asarray(ids, I), const(count)])
for index, depth, on, off, axis in [([0, 2, 1], 3, 1.0, 0.0, -1), ([[1, 5], [0, -1]], 4, 2.5, -1.0, 1), ([0], 1, 3.0, 1.0, 0)]:
    case("OneHot", [np.asarray(index, I), const(depth), const(on, F), const(off, F)], axis=axis)
for x in [rng.random((3, 4)) > 0.5, np.zeros((2, 2), B), f(5).round()]:
    case("Where", [x])
for aligned, half in [(False, False), (True, False), (False, True)]:
    for shape, size in [((1, 3, 4, 2), (6, 8)), ((2, 5, 5, 1), (3, 2)), ((1, 1, 2, 3), (4, 1))]:
        case("ResizeBilinear", [f(*shape), const(size)], align_corners=aligned, half_pixel_centers=half)
        case("ResizeNearestNeighbor", [f(*shape), const(size)], align_corners=aligned, half_pixel_centers=half)
    for dtype in [U, I, D, H]:  # ResizeBilinear gives f32 for all types
        for name in ["ResizeBilinear", "ResizeNearestNeighbor"]:
            case(name, [ints(1, 3, 4, 2, dtype=dtype, low=0, high=99), const((5, 7))], align_corners=aligned, half_pixel_centers=half)

# --- fused nodes that TensorFlow's optimiser writes
for steps, operands, more in [(["BiasAdd"], [f(4)], {}), (["BiasAdd", "Relu"], [f(4)], {}), (["BiasAdd", "Relu6"], [f(4)], {}), (["BiasAdd", "Elu"], [f(4)], {}),
                              (["BiasAdd", "LeakyRelu"], [f(4)], dict(leakyrelu_alpha=0.3))]:
    case("_FusedConv2D", [f(2, 7, 6, 3), const(f(3, 3, 3, 4), F), [const(x, F) for x in operands]], strides=[1, 2, 2, 1], padding="SAME", fused_ops=steps, **more)
norm = [const(f(4), F), const(f(4), F), const(f(4), F), const(f(4, low=0.2), F)]
case("_FusedConv2D", [f(2, 5, 5, 3), const(f(3, 3, 3, 4), F), norm], strides=[1, 1, 1, 1], padding="VALID", fused_ops=["FusedBatchNorm"], epsilon=1e-3)
case("_FusedConv2D", [f(2, 5, 5, 3), const(f(3, 3, 3, 4), F), norm], strides=[1, 1, 1, 1], padding="VALID", fused_ops=["FusedBatchNorm", "Relu"], epsilon=1e-3)
for steps, stride in [(["BiasAdd"], 1), (["BiasAdd", "Relu"], 2), (["BiasAdd", "Relu6"], 1)]:
    case("_FusedDepthwiseConv2dNative", [f(2, 7, 6, 3), const(f(3, 3, 3, 2), F), [const(f(6), F)]], strides=[1, stride, stride, 1], padding="SAME", fused_ops=steps)
for steps, ta in [(["BiasAdd"], False), (["BiasAdd", "Relu"], True), (["BiasAdd", "Tanh"], False), (["BiasAdd", "Sigmoid"], False), (["BiasAdd", "GeluExact"], False),
                  (["BiasAdd", "GeluApproximate"], False)]:
    case("_FusedMatMul", [f(4, 3) if ta else f(3, 4), f(4, 5), [f(5)]], transpose_a=ta, fused_ops=steps)

# --- selections of elements, and tensors that are built from elements
corners = rng.uniform(0, 10, (12, 2))
boxes = np.concatenate([corners, corners + rng.uniform(1, 6, (12, 2))], 1).astype(F)
two = np.array([[0, 0, 1, 1], [0, 0, 1, 2]], F)  # boxes with an overlap of exactly 0.5
for x, scores, count, overlap in [(boxes, f(12), 5, 0.3), (boxes[:1], f(1), 3, 0.5), (np.zeros((0, 4), F), np.zeros(0, F), 3, 0.5), (two, np.array([1, 1], F), 2, 0.5),
                                  (boxes[:, [2, 3, 0, 1]], np.round(f(12)), 12, 0.1)]:
    case("NonMaxSuppression", [x, scores, const(count)], iou_threshold=overlap)
    case("NonMaxSuppressionV2", [x, scores, const(count), const(overlap, F)])
    case("NonMaxSuppressionV3", [x, scores, const(count), const(overlap, F), const(-0.5, F)])
    for padded in (False, True):
        case("NonMaxSuppressionV4", [x, scores, const(count), const(overlap, F), const(0, F)], pad_to_max_output_size=padded)
        case("NonMaxSuppressionV5", [x, scores, const(count), const(overlap, F), const(0.1, F), const(0, F)], pad_to_max_output_size=padded)
for x in [ints(9, low=0, high=4), np.zeros(0, F), np.array([3, 3, 1], L), np.round(f(11))]:
    case("Unique", [x])
    case("UniqueWithCounts", [x], out_idx="int64")
    case("UniqueV2", [x, const([], I)])
for x, size, weights in [(ints(9, low=0, high=6), 5, np.zeros(0, F)), (ints(4, low=0, high=3), 3, f(4)), (np.zeros(0, I), 2, np.zeros(0, I))]:
    case("Bincount", [x, const(size), const(weights, weights.dtype)])
for name in ["SegmentSum", "SegmentMean"]:
    for x, ids in [(f(5, 2), [0, 0, 2, 2, 3]), (f(3), [0, 1, 1]), (f(1, 2, 2), [2])]:
        case(name, [x, np.asarray(ids, I)])
for name in ["SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"]:
    for x, rows, ids in [(f(5, 2), [4, 0, 1, 1], [0, 0, 2, 2]), (f(3, 4), [2], [0]), (f(2, 3), [0, 1, 0], [0, 1, 3])]:
        case(name, [x, np.asarray(rows, I), np.asarray(ids, I)])
for index, sizes, wanted in [([[0, 1], [2, 3]], [3, 4], [2, -1]), ([[0], [5]], [6], [2, 3]), (np.zeros((0, 2)), [2, 2], [4])]:
    case("SparseReshape", [np.asarray(index, L), const(sizes, L), const(wanted, L)])
for index, values, sizes in [([[0, 1], [2, 3], [2, 0]], f(3), [4, 4]), (np.zeros((0, 2)), np.zeros(0, F), [2, 3]), ([[0, 0], [1, 2]], ints(2, dtype=L), [2, 3])]:
    case("SparseFillEmptyRows", [np.asarray(index, L), values, const(sizes, L), const(7, values.dtype)])
for index, sizes, values in [([[0, 1], [2, 0]], [3, 2], f(2)), ([1, 3], [5], ints(2)), (2, [4], np.float32(3)), ([[1], [2]], [4], np.float32(2))]:
    case("SparseToDense", [np.asarray(index, I), const(sizes), np.asarray(values), const(9, np.asarray(values).dtype)], validate_indices=False)

# --- operators that other importers of TensorFlow's graphs support
for low, high in [(-1.0, 1.0), (0.0, 6.0)]:
    case("ClipByValue", [f(3, 5, low=-7, high=7), np.float32(low), np.float32(high)])
case("ClipByValue", [ints(4, 3), const(-2), const(2)])
case("ClipByValue", [f(2, 3), f(2, 3, low=-1, high=0), f(2, 3, low=0, high=1)])
zeros_among = np.array([0, 0, 2, -1, 0.5], F)
for name in ["Xlogy", "Xlog1py", "Xdivy", "MulNoNan"]:
    case(name, [zeros_among, np.array([0, 3, 4, 0.5, 0], F)] if name != "MulNoNan" else [np.array([np.inf, np.nan, 2, -1, 3], F), zeros_among])
    case(name, [f(3, 1, low=0.1), f(4, low=0.1)])
    case(name, [f(3, low=0.1).astype(D), f(3, low=0.1).astype(D)])
for x in [np.array([0.5, 1.5, -0.5, 2.4, -2.6], F), f(3, 4).astype(D), np.zeros((0, 2), F)]:
    case("Rint", [x])
for x, e in [(ints(7), const(3)), (ints(3, 4, dtype=L), const(0, L)), (ints(5), ints(5, low=0, high=9)), (np.array([1, -1, -1, 1, 2], L), np.array([70, 71, 64, 3, 40], L)),
             (ints(4, 1, dtype=L, low=-3, high=3), ints(3, dtype=L, low=0, high=20))]:
    case("Pow", [x, e])
for a, b, ax, ay in [((2, 3, 4), (2, 4, 5), False, False), ((2, 4, 3), (4, 5), True, False), ((3, 4), (5, 4), False, True)]:
    case("BatchMatMulV3", [f(*a), f(*b)], adj_x=ax, adj_y=ay, Tout="float32")
case("BatchMatMulV3", [ints(2, 3, dtype=S), ints(3, 2, dtype=S)], Tout="int32")
for x in [f(2, 3), f(2, 3, 4, 3), ints(1, 3)]:
    case("BiasAddV1", [x, ints(3) if x.dtype == I else f(3)])
for x in [f(3, 4), f(1).astype(D), np.zeros((0, 2), F)]:
    case("CheckNumerics", [x], message="here")
for x, shape in [(f(3, 4), [3, None]), (ints(2), [2]), (f(1, 0, 2), [None, None, None])]:
    case("EnsureShape", [x], shape=shape)
for parts, axis in [([f(2, 3), f(2, 1)], 1), ([ints(1, 2), ints(3, 2)], 0), ([f(0, 2), f(3, 2)], 0)]:
    case("Concat", [const(axis), parts])
for target in ["int32", "int64"]:
    case("ShapeN", [[f(2, 3), f(4, 3)]], out_type=target)
case("ShapeN", [[f(2)]], out_type="int32")
for first, last, count in [(0.0, 1.0, 5), (-3.0, 7.5, 11), (2.0, 9.0, 1)]:
    case("LinSpace", [np.float32(first), np.float32(last), const(count)])
for x, update, start in [(f(4, 5), f(2, 3), [1, 2]), (ints(6), ints(2), [5]), (f(3, 3), f(3, 1), [0, -4])]:
    case("XlaDynamicUpdateSlice", [x, update, np.asarray(start, I)], open_sizes=False)
for x, target in [(f(2, 3), "int32"), (ints(4), "float32"), (f(2).astype(D), "int64"), (f(2, 2).astype(H), "int16"), (ints(5, dtype=S), "uint8")]:
    case("Bitcast", [x], type=target)
for x, places, axes in [(f(4, 5), [1], [0]), (ints(2, 6), [-2, 7], [1, 0]), (f(3, 4, 2), [-3, 2, 1], [1, 0, 1]), (f(0, 3), [1], [0])]:
    case("Roll", [x, const(places), const(axes)])
for order in [[2, 0, 1], [0], [4, 3, 0, 1, 2]]:
    case("InvertPermutation", [np.array(order, I)])
for x, axis, exclusive, reverse in [(f(3, 5), 1, False, False), (ints(4, 3, low=1, high=3), 0, True, False), (f(2, 1, 3), -1, True, True)]:
    case("Cumprod", [x, const(axis)], exclusive=exclusive, reverse=reverse)
for x, target, k in [(f(4, 6), [0, 5, 2, 3], 2), (np.array([[1, 3, 3, 0], [2, np.nan, 1, 0]], F), [2, 0], 1), (f(3, 4), [-1, 4, 1], 3)]:
    case("InTopKV2", [x, np.array(target, I), const(k)])
for x in [f(3, 4), f(1).astype(D), np.zeros((0, 3), F)]:
    case("L2Loss", [x])
for x, axes, keep in [(f(2, 3, 4), [1], False), (f(3, 4), [0, 1], True), (f(5).astype(D), [0], False)]:
    case("EuclideanNorm", [x, const(axes)], keep_dims=keep)
for name in ["Update", "Add", "Sub", "Max", "Min"]:
    for x, index, updates in [(f(4, 3), [[0], [2]], f(2, 3)), (ints(3, 4), [[0, 1], [2, 3]], ints(2)), (f(2, 3, 2), [[[1, 0]], [[0, 2]]], f(2, 1, 2))]:
        case(f"TensorScatter{name}", [x, np.asarray(index, I), updates])
for x, parts, count in [(f(5, 2), [0, 2, 0, 1, 2], 3), (ints(4), [1, 1, 1, 1], 2), (f(2, 2, 3), [[0, 1], [1, 0]], 2)]:
    case("DynamicPartition", [x, np.asarray(parts, I)], num_partitions=count)
for name in ["DynamicStitch", "ParallelDynamicStitch"]:
    for indices, values in [([[0, 2], [1, 3]], [f(2, 3), f(2, 3)]), ([[4, 0]], [ints(2)]), ([[[0, 1]], [3, 2]], [f(1, 2), f(2)])]:
        case(name, [[np.asarray(i, I) for i in indices], values])
for x, limits in [(f(3, 4, low=-5, high=5), [-2.0, 0.0, 2.0]), (ints(6), [0.0]), (np.array([1, 2, 3, np.inf, -np.inf], F), [1.0, 2.5, 3.0])]:
    case("Bucketize", [x], boundaries=limits)
for name in ["LowerBound", "UpperBound"]:
    for rows, values, target in [([[1, 3, 3, 7]], [[3, 0, 8, 7, 1]], "int32"), ([[1, 2], [2, 2]], [[2], [2]], "int64"), ([[0, 5, 9]], [[4, 5, 9.5]], "int32")]:
        case(name, [np.asarray(rows, F), np.asarray(values, F)], out_type=target)
for name in ["SegmentProd", "SegmentMax", "SegmentMin"]:
    for x, ids in [(f(5, 2), [0, 0, 2, 2, 3]), (ints(3), [0, 1, 1]), (f(1, 2, 2), [2])]:
        if name != "SegmentProd" or ids != [2]:
            case(name, [x, np.asarray(ids, I)])
case("SegmentProd", [f(4), np.array([0, 1, 1, 2], I)])
for name in ["SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"]:
    for x, rows, ids, count in [(f(5, 2), [4, 0, 1, 1], [0, 0, 2, 2], 4), (f(3, 4), [2], [0], 1), (f(2, 3), [0, 1, 0], [0, 1, 3], 6)]:
        case(f"{name}WithNumSegments", [x, np.asarray(rows, I), np.asarray(ids, I), const(count)])
for index, sizes, b, turns in [([[0, 1], [2, 0], [2, 1]], [3, 2], f(2, 4), (False, False)), ([[0, 1], [1, 1]], [2, 3], f(2, 3), (True, False)), ([[1, 0]], [2, 3], f(2, 3), (False, True))]:
    case("SparseTensorDenseMatMul", [np.asarray(index, L), f(len(index)), const(sizes, L), b], adjoint_a=turns[0], adjoint_b=turns[1])
for x, size, weights, binary in [(ints(9, low=0, high=6), 5, np.zeros(0, F), False), (ints(2, 4, low=0, high=5), 4, np.zeros((0, 0), F), False),
                                 (ints(3, 4, low=0, high=4), 4, np.zeros((0, 0), F), True), (ints(4, low=0, high=3), 3, f(4), False)]:
    case("DenseBincount", [x, const(size), const(weights, weights.dtype)], binary_output=binary)

# --- matrices
for x, lower, upper in [(f(4, 5), 1, 0), (ints(2, 3, 3), -1, 1), (f(3, 2), 0, -1), (f(0, 2), -1, -1)]:
    case("MatrixBandPart", [x, const(lower, L), const(upper, L)])
for x in [f(3), f(2, 4), ints(1, 0)]:
    case("MatrixDiag", [x])
for x in [f(3, 4), ints(2, 4, 3), f(1, 1)]:
    case("MatrixDiagPart", [x])
for x, y in [(f(3, 4), f(3)), (ints(2, 3, 3), ints(2, 3)), (f(1, 5), f(1))]:
    case("MatrixSetDiag", [x, y])
BANDS = [([0], 3, "LEFT_LEFT"), ([1], 2, "RIGHT_LEFT"), ([-1, 2], 3, "RIGHT_LEFT"), ([-2, 1], 3, "LEFT_RIGHT"), ([-1, 0], 3, "RIGHT_RIGHT")]
for k, length, align in BANDS:  # diagonals of a matrix of 3 rows and 4 columns
    rows = () if len(k) == 1 else (k[1] - k[0] + 1,)
    for version in ("V2", "V3"):
        aligned = dict(align=align) if version == "V3" else {}
        length = min(3 + min(k[-1], 0), 4 - max(k[0], 0))
        # TensorFlow infers no open sizes for this operator.
        case(f"MatrixDiag{version}", [f(2, *rows, length), const(k), const(3), const(4), const(7, F)], open_sizes=False, **aligned)
        case(f"MatrixDiagPart{version}", [f(2, 3, 4), const(k), const(7, F)], **aligned)
        case(f"MatrixSetDiag{version}", [f(2, 3, 4), f(2, *rows, length), const(k)], open_sizes=len(k) == 1, **aligned)
case("MatrixDiagV3", [f(2), const([-1]), const(-1), const(-1), const(0, F)])
square = f(2, 3, 3) + 3 * np.eye(3, dtype=F)
for x in [square, square[0].astype(D), np.array([[2]], F)]:
    case("MatrixInverse", [x], tolerance=1e-4)
    case("MatrixDeterminant", [x], tolerance=1e-4)
    case("LogMatrixDeterminant", [x], tolerance=1e-4)
    case("Cholesky", [x @ np.swapaxes(x, -1, -2)], tolerance=1e-4)
for a, b, adjoint in [(square, f(2, 3, 2), False), (square[0].astype(D), f(3, 1).astype(D), True), (np.array([[2]], F), f(1, 3), False)]:
    case("MatrixSolve", [a, b], tolerance=1e-4, adjoint=adjoint)
for a, b, lower, adjoint in [(square, f(2, 3, 2), True, False), (square, f(2, 3, 1), False, False), (square[0].astype(D), f(3, 2).astype(D), True, True), (square, f(2, 3, 2), False, True)]:
    case("MatrixTriangularSolve", [a, b], tolerance=1e-4, lower=lower, adjoint=adjoint)
for x, whole in [(f(4, 3), False), (f(2, 3, 3), False), (f(3, 4).astype(D), True)]:
    case("Qr", [x], tolerance=1e-4, open_sizes=False, full_matrices=whole)

# --- pictures
coloured = rng.random((2, 3, 4, 3)).astype(F)
coloured[0, 0, :3] = [[0.5, 0.5, 0.5], [0, 0, 0], [1, 0, 0]]
for x in [coloured, coloured[0, 0], coloured[:0], coloured.astype(D)]:
    case("RGBToHSV", [x])
    case("HSVToRGB", [x])
for x, by in [(coloured, 0.3), (coloured[:1], -0.5), (rng.random((5, 1, 3)).astype(F), 0.0)]:
    case("AdjustHue", [x, np.float32(by)], tolerance=1e-4)
    case("AdjustSaturation", [x, np.float32(abs(by) * 3)], tolerance=1e-4)
for x, by in [(coloured, 2.0), (f(1, 4, 4, 1), 0.5), (f(3, 2, 5), -1.0)]:
    case("AdjustContrastv2", [x, np.float32(by)])
regions = np.array([[0, 0, 1, 1], [0.2, 0.1, 0.7, 1.3], [0.5, 0.9, 0.1, 0.2]], F)
for x, size, method in [(f(2, 5, 6, 3), [4, 3], "bilinear"), (f(2, 5, 6, 1), [3, 7], "nearest"), (rng.integers(0, 255, (2, 4, 4, 2)).astype(U), [1, 2], "bilinear")]:
    case("CropAndResize", [x, regions, np.array([0, 1, 0], I), const(size)], method=method, extrapolation_value=-2.0)
for x, size, stride, rate, padding in [(f(2, 7, 6, 3), 3, 2, 1, "SAME"), (f(1, 8, 8, 2), 2, 2, 1, "VALID"), (ints(1, 7, 7, 1), 3, 1, 2, "VALID"), (f(1, 5, 4, 2), 2, 3, 2, "SAME"),
                                       (f(1, 7, 2, 1), 3, 2, 1, "VALID")]:
    case("ExtractImagePatches", [x], ksizes=[1, size, size, 1], strides=[1, stride, stride, 1], rates=[1, rate, rate, 1], padding=padding)
for aligned, half in [(False, False), (True, False), (False, True)]:
    for shape, size in [((1, 4, 5, 2), (7, 9)), ((2, 8, 6, 1), (5, 4)), ((1, 1, 3, 1), (4, 3))]:
        # TensorFlow takes the weights of the interpolation from a table of 1,024 entries.
        case("ResizeBicubic", [f(*shape), const(size)], tolerance=2e-3, align_corners=aligned, half_pixel_centers=half)
for x, size, stride, padding, batch in [(f(2, 6, 5, 3), 2, 2, "SAME", False), (f(2, 5, 5, 2), 3, 1, "VALID", True), (f(1, 4, 4, 1), 2, 2, "VALID", False)]:
    case("MaxPoolWithArgmax", [x], ksize=[1, size, size, 1], strides=[1, stride, stride, 1], padding=padding, include_batch_in_index=batch)
for padding, stride, out in [("SAME", 2, (4, 5, 3)), ("VALID", 2, (5, 7, 4)), ("VALID", 1, (3, 4, 3))]:
    own = [(n + stride - 1) // stride if padding == "SAME" else (n - 2) // stride + 1 for n in out]
    case("Conv3DBackpropInputV2", [const([1, *out, 3]), const(f(2, 2, 2, 3, 2), F), f(1, *own, 2)], strides=[1, stride, stride, stride, 1], padding=padding)
case("Conv2DBackpropInput", [const([1, 9, 8, 3]), const(f(3, 3, 3, 2), F), f(1, 5, 4, 2)], strides=[1, 1, 1, 1], padding="VALID", dilations=[1, 2, 2, 1])
case("Conv2DBackpropInput", [const([1, 7, 8, 3]), const(f(3, 3, 3, 2), F), f(1, 4, 5, 2)], strides=[1, 2, 2, 1], padding="EXPLICIT", explicit_paddings=[0, 0, 1, 1, 1, 2, 0, 0])

# --- complex numbers: a complex operand is made of two inputs, a complex result is two outputs
def z(*shape):
    return (f(*shape) + 1j * f(*shape)).astype(np.complex64)


for name in ["FFT", "IFFT", "FFT2D", "IFFT2D"]:
    for shape in [(4, 5), (2, 3, 8), (1, 1)]:
        case(name, [z(*shape)], tolerance=1e-4)
for x, length in [(f(3, 16), 16), (f(2, 9), 8), (f(7), 5)]:
    case("RFFT", [x, const([length])], tolerance=1e-4)
    case("IRFFT", [z(*x.shape), const([length])], tolerance=1e-4)
for x, lengths in [(f(4, 6), [4, 6]), (f(2, 5, 7), [3, 4]), (f(3, 3), [2, 3])]:
    case("RFFT2D", [x, const(lengths)], tolerance=1e-4)
    case("IRFFT2D", [z(*x.shape), const(lengths)], tolerance=1e-4)
for x in [f(3, 4), f(1), np.zeros((0, 2), F)]:
    case("Complex", [x, x + 1])
for name in ["Real", "Imag", "ComplexAbs", "Angle", "Conj"]:
    for x in [z(3, 4), z(1), z(0, 2)]:
        case(name, [x])
for name in ["Mul", "RealDiv", "AddV2", "Sub"]:
    case(name, [z(3, 1), z(3, 4)])
for name in ["Exp", "Square", "Neg"]:
    case(name, [z(3, 2)], tolerance=1e-4)
case("Sum", [z(3, 4), const([1])])
case("Mean", [z(2, 5), const([0])])
case("Reshape", [z(2, 6), const([3, -1])])
case("Transpose", [z(2, 3), const([1, 0])])
case("ConcatV2", [[z(2, 3), z(1, 3)], const(0)])
case("GatherV2", [z(5, 2), const([4, 0]), const(0)])
case("StridedSlice", [z(4, 6), const([1, 0]), const([3, 5]), const([1, 2])])
case("Pad", [z(2, 3), const([[1, 0], [0, 2]])])
case("Shape", [z(2, 3)], out_type="int32")
case("Cast", [f(3, 2), ], DstT="complex64")
case("Cast", [z(3)], DstT="float32")

# --- quantised integers
for kind, mode, narrow in [("quint8", "MIN_COMBINED", False), ("qint8", "MIN_COMBINED", False), ("qint8", "SCALED", True), ("quint8", "SCALED", False), ("qint8", "SCALED", False)]:
    low = 0.0 if (kind, mode) == ("quint8", "SCALED") else -2.5
    for rounding in ["HALF_AWAY_FROM_ZERO", "HALF_TO_EVEN"] if mode == "SCALED" and (narrow or kind == "quint8") else ["HALF_AWAY_FROM_ZERO"]:
        case("QuantizeV2", [f(4, 5, low=-4, high=4), np.float32(low), np.float32(3)], T=kind, mode=mode, round_mode=rounding, narrow_range=narrow)
    case("Dequantize", [ints(4, 5, low=0, high=100).astype(np.uint8 if kind == "quint8" else np.int8), np.float32(low), np.float32(3)], T=kind, mode=mode, narrow_range=narrow)
for name in ["QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4", "QuantizeAndDequantizeV3"]:
    bits = lambda n: dict(num_bits=n) if name[-1] != "3" else {}
    last = lambda n: [const(n)] if name[-1] == "3" else []
    case(name, [f(4, 5), np.float32(-1), np.float32(1), *last(8)], signed_input=True, range_given=True, **bits(8))
    case(name, [f(3, 4, low=0, high=3), np.float32(0), np.float32(2), *last(4)], signed_input=False, range_given=True, **bits(4))
    case(name, [f(6), np.float32(0), np.float32(0), *last(8)], signed_input=True, range_given=False, narrow_range=True, **bits(8))
    case(name, [f(9), np.float32(0), np.float32(0), *last(8)], signed_input=False, range_given=False, **bits(8))  # also values below 0

# --- strings
TEXTS = np.array(["a b", "", "one, two  three", "x" * 9, "Grüße, Welt", "0123456789abcdef0", "y" * 33, "z" * 64, "w" * 65, "long " * 40])
for x in [TEXTS, TEXTS[:1], TEXTS[:0], TEXTS[:6].reshape(2, 3)]:
    for buckets in (1, 5000, 2**40):
        case("StringToHashBucketFast", [x], num_buckets=buckets)
for delimiter, skips in [(" ", True), (" ", False), (", ", True), (", ", False), ("", False)]:
    case("StringSplit", [TEXTS[[0, 1, 2, 3, 9]], Value(np.array(delimiter), True)], skip_empty=skips)
for separator, most in [("", -1), (",", -1), (", ", -1), ("", 1), (" ", 2)]:
    case("StringSplitV2", [TEXTS, Value(np.array(separator), True)], maxsplit=most)
    case("StringSplitV2", [TEXTS[:0], Value(np.array(separator), True)], maxsplit=most)
words = np.array("the quick brown fox jumps over".split())
for splits, widths, pad, keeps in [([0, 6], [2], 0, False), ([0, 2, 2, 6], [2, 3], 0, False), ([0, 1, 6], [3], 0, True), ([0, 1, 4, 6], [1, 3], -1, False),
                                   ([0, 1, 6], [3, 4], 1, False), ([0, 0, 1, 6], [5], 1, True)]:
    case("StringNGrams", [words, np.array(splits, L)], separator="-", ngram_widths=widths, left_pad="<", right_pad=">", pad_width=pad, preserve_short_sequences=keeps)
for parts, separator in [([TEXTS, TEXTS], "-"), ([TEXTS[:2], np.array("s"), TEXTS[2:4]], ""), ([TEXTS[:0], TEXTS[:0]], " "), ([np.array("a"), np.array("b")], "")]:
    case("StringJoin", [parts], separator=separator)
for pattern in ["[a-z]+", ".*e.*", ""]:
    case("StaticRegexFullMatch", [TEXTS[:4]], pattern=pattern)
for x, target in [(["1", "-2.5", "1e3"], "float32"), (["7"], "int64"), (["inf", "0.1"], "float64"), ([], "int32")]:
    case("StringToNumber", [np.array(x, "<U8")], out_type=target)
for name in ["Equal", "NotEqual"]:
    case(name, [TEXTS, TEXTS[::-1].copy()])
case("GatherNd", [TEXTS, np.array([[2], [0]], L)])
case("ConcatV2", [[TEXTS[:3], TEXTS[3:4]], const(0)])
case("Reshape", [TEXTS, const([2, -1])])

# --- sums of powers, bins, pictures of other sizes, boxes of several classes
far = np.array([[0, -2000, 1500, -np.inf, 3], [-np.inf, -np.inf, 2, 90, 1e4]], F)  # no single shift avoids overflow and underflow in this row
for x, axis in [(f(3, 5), 1), (f(4, 3).astype(D), 0), (far, 1), (far, -2), (np.zeros((2, 0), F), 1), (f(2, 3, 4), 1)]:
    for reverse in (False, True):
        for exclusive in (False, True):
            case("CumulativeLogsumexp", [x, const(axis)], exclusive=exclusive, reverse=reverse)
for x, limits, bins, kind in [(f(40, low=-5, high=5), [-2, 2], 5, "int32"), (f(3, 4).astype(D), [0, 1], 1, "int64"), (ints(20, low=-3, high=12), [0, 10], 4, "int32"),
                              (np.zeros((0,), F), [0, 1], 3, "int32"), (np.array([0, 1, 0.1, 0.3, 0.7, 0.9999999, 1e30, -1e30], F), [0, 1], 10, "int32")]:
    case("HistogramFixedWidth", [x, np.array(limits, x.dtype), const(bins)], dtype=kind)
for aligned in (False, True):
    for x, size in [(f(1, 6, 4, 2), (3, 2)), (f(2, 5, 7, 3), (3, 4)), (f(1, 3, 2, 1), (7, 5)), (ints(1, 4, 5, 2, low=0, high=255), (1, 3)), (f(1, 1, 2, 1), (1, 1)),
                    (f(1, 1, 4, 2), (3, 5)), (f(2, 3, 1, 1), (2, 4))]:
        case("ResizeArea", [x, const(size)], align_corners=aligned)
for kernel in ["lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic"]:
    for smooth in (True, False):
        case("ScaleAndTranslate", [f(1, 7, 6, 2), const((4, 9)), np.array([0.6, 1.5], F), np.array([0.3, -0.7], F)], kernel_type=kernel, antialias=smooth, tolerance=1e-4)
        case("ScaleAndTranslate", [ints(2, 5, 8, 3, low=0, high=255), const((5, 4)), np.array([1, 0.5], F), np.array([3, 0], F)], kernel_type=kernel, antialias=smooth, tolerance=1e-4)
crowd = np.concatenate([corners, corners + rng.uniform(1, 6, (12, 2))], 1).astype(F).reshape(2, 6, 1, 4) / 12
for own, each, all_, overlap, least, padded, clipped in [(1, 3, 5, 0.3, 0.2, False, True), (1, 2, 9, 0.5, -1.0, True, True), (3, 3, 4, 0.3, 0.1, False, False), (1, 9, 30, 0.2, 0.0, False, True),
                                                         (3, 1, 8, 0.5, 0.5, True, False), (1, 2, 3, 0.5, 99.0, False, True)]:
    placed = np.concatenate([crowd + 0.05 * k for k in range(own)], 2).astype(F)
    case("CombinedNonMaxSuppression", [placed, f(2, 6, 3, low=-1, high=1), const(each), const(all_), const(overlap, F), const(least, F)], pad_per_class=padded, clip_boxes=clipped)

# --- more types and sizes: no element, one element, halves, doubles, 64 bits, bytes, booleans, texts
for name in ["Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference", "Div"]:
    case(name, [np.zeros((0, 3), F), f(3, low=0.5)])
    case(name, [f(2, 5, low=1).astype(H), f(5, low=1).astype(H)], tolerance=2e-3)
for name in ["FloorDiv", "FloorMod", "Mod", "TruncateDiv"]:
    case(name, [np.zeros((0, 3), I), ints(3, low=1)])
for name in ["Pow", "Atan2"]:
    case(name, [np.zeros((0,), F), f(1)])
    case(name, [f(3, 1, low=0.5).astype(D), f(2).astype(D)])
for name in ["Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"]:
    for x, y in [(np.zeros((0, 2), F), f(2)), (ints(5, dtype=L), ints(1, dtype=L)), (f(3).astype(D).round(), f(3).astype(D).round()), (ints(7, dtype=S), ints(7, dtype=S))]:
        case(name, [x, y])
for name in ["BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift"]:
    case(name, [np.zeros((0,), I), np.zeros((0,), I)])
    case(name, [ints(1, dtype=U, low=0, high=99), ints(1, dtype=U, low=0, high=7)])
for dtype in [D, L, B, U]:
    x = ints(2, 3, low=0, high=2).astype(dtype)
    case("Select", [rng.random((2, 3)) > 0.5, x, x[::-1].copy()])
    case("SelectV2", [rng.random((3,)) > 0.5, x, x[::-1].copy()])
    case("Tile", [x, const([1, 3])])
    case("Slice", [x, const([1, 0]), const([1, 2])])
    case("StridedSlice", [x, const([0, 2]), const([2, 0]), const([1, -1])])
    case("Pack", [[x, x + 1 if dtype != B else ~x]], axis=1)
    case("Unpack", [x], num=2, axis=0)
    case("ConcatV2", [[x, x[:1]], const(0)])
    case("Squeeze", [x[:1]], axis=[0])
    case("ReverseV2", [x, const([1])])
    case("GatherV2", [x, np.array([1, 1, 0], I), const(0)])
    case("GatherNd", [x, np.array([[1, 2], [0, 0]], L)])
    case("OneHot", [np.array([2, 0], I), const(3), const(1, dtype), const(0, dtype)], axis=-1)
    case("Reshape", [x, const([3, 2])])
    case("Transpose", [x, const([1, 0])])
    case("BroadcastTo", [x, const([2, 2, 3])])
    case("ExpandDims", [x, const(1)])
for dtype in [D, H]:
    near = 2e-2 if dtype == H else 1e-6
    case("MatMul", [f(3, 5).astype(dtype), f(5, 2).astype(dtype)], tolerance=near)
    case("BatchMatMulV2", [f(2, 3, 5).astype(dtype), f(5, 1).astype(dtype)], tolerance=near)
    case("Softmax", [f(3, 7).astype(dtype)], tolerance=near)
    case("LogSoftmax", [f(1, 7).astype(dtype)], tolerance=near)
    case("LeakyRelu", [f(5).astype(dtype)], alpha=0.25, tolerance=near)
    case("BiasAdd", [f(2, 3).astype(dtype), f(3).astype(dtype)], tolerance=near)
    case("Cumsum", [f(2, 5).astype(dtype), const(1)], tolerance=near)
    case("ArgMax", [f(3, 5).astype(dtype), const(1)], output_type="int64")
    case("TopKV2", [f(3, 5).astype(dtype), const(2)])
for name in ["Softmax", "LogSoftmax"]:
    case(name, [np.zeros((0, 4), F)])
for x in [np.zeros((0, 4), F), f(1, 1)]:
    case("Tile", [x, const([2, 1])])
    case("Pad", [x, const([[0, 1], [1, 0]])])
    case("Slice", [x, const([0, 0]), const([-1, 1])])
    case("StridedSlice", [x, const([0, 0]), const([9, 1]), const([1, 1])])
    case("Pack", [[x, x]], axis=1)
    case("Split", [const(1), x], num_split=1)
    case("ConcatV2", [[x, x], const(0)])
    case("ReverseV2", [x, const([0])])
    case("Cumsum", [x, const(0)])
    case("AddN", [[x, x]])
    case("Cast", [x], DstT="int32")
    case("ClipByValue", [x, np.float32(-1), np.float32(0.5)])
    case("Squeeze", [x[None]], axis=[0])
    case("GatherV2", [x, np.zeros((0,), I), const(0)])
case("Conv2D", [np.zeros((0, 5, 5, 3), F), const(f(3, 3, 3, 3), F)], strides=[1, 1, 1, 1], padding="SAME")
case("DepthwiseConv2dNative", [f(1, 1, 1, 1), const(f(1, 1, 1, 1), F)], strides=[1, 1, 1, 1], padding="VALID")
case("BatchMatMulV2", [np.zeros((0, 3, 4), F), f(4, 2)])
case("Where", [np.zeros((0, 3), B)])
case("UnsortedSegmentSum", [np.zeros((0, 2), F), np.zeros((0,), I), const(3)])
case("ScatterNd", [np.zeros((0, 1), I), np.zeros((0, 2), F), const([3, 2])])
case("OneHot", [np.zeros((0,), I), const(3), const(1.0, F), const(0.0, F)], axis=-1)
case("LinSpace", [const(0, D), const(1, D), const(5)])
case("Range", [const(0, F), const(2.5, F), const(0.5, F)])
case("Range", [const(3, L), const(9, L), const(2, L)])

OPERATORS = sorted({c.operator for c in CASES})
NUMBERS = {"TensorScatterUpdate": [1], "TensorScatterAdd": [1], "TensorScatterSub": [1], "TensorScatterMax": [1], "TensorScatterMin": [1],
           "SparseTensorDenseMatMul": [0], "Reshape": [1], "GatherNd": [1], "ScatterNd": [0], "SparseReshape": [0], "SparseFillEmptyRows": [0], "SparseToDense": [0], "StringNGrams": [1]}
NUMBERS |= {name: [0] for name in OPERATORS if name.startswith("NonMax")}
CHANNELS = ("Conv2D", "Conv3D", "DepthwiseConv2dNative", "_FusedConv2D", "_FusedDepthwiseConv2dNative")


def open_dims(case, number, value):
    """Returns the sizes of an input, None if open. Axes of size 1 stay fixed beside other inputs."""
    shape = value.array.shape
    flat = [v for i in case.inputs for v in (i if isinstance(i, list) else [i]) if not v.constant]
    dims = [None if len(flat) == 1 or size != 1 else 1 for size in shape]
    if case.operator in CHANNELS and number == 0:
        dims[-1] = shape[-1]
    return list(shape) if number in NUMBERS.get(case.operator, []) or case.operator == "Unpack" else dims
