# SPDX-License-Identifier: Apache-2.0
"""Cases of models with a single operator of TensorFlow Lite: sizes 0, 1 and odd sizes, every type that the operator
supports, each of its options. Plain data; lite_models.py writes the files and asks LiteRT for the answers."""
from dataclasses import dataclass, field

import numpy as np

F, H, I, L, B, U, S = np.float32, np.float16, np.int32, np.int64, np.bool_, np.uint8, np.int8
rng = np.random.default_rng(7)


@dataclass
class Value:
    """The contents of a tensor: a constant of the model, or an input. Has a scale and zero point if it is quantised."""
    array: np.ndarray
    constant: bool = False
    scales: tuple = ()
    zeros: tuple = ()
    axis: int = 0
    variable: bool = False  # a tensor that the operator writes, zeros at first


@dataclass
class Case:
    operator: str
    inputs: list
    outputs: list  # types, or (type, scale, zero)
    options: str = ""  # the name of the operator's table of options in the schema
    fields: dict = field(default_factory=dict)
    tolerance: float = 1e-5
    open_sizes: bool = True  # also run with open sizes (open_dims)
    name: str = ""

    @property
    def has_state(self):
        return any(i is not None and i.variable for i in self.inputs)


CASES = []
CHANNELS_LAST = ("CONV_2D", "DEPTHWISE_CONV_2D", "CONV_3D")  # their numbers of channels must be fixed
# For each operator, the inputs that hold sizes or coordinates; the number of their elements must be fixed.
NUMBERS = {"RESHAPE": [1], "PAD": [1], "SLICE": [1, 2], "STRIDED_SLICE": [1, 2], "FILL": [0], "BROADCAST_ARGS": [0, 1],
           "GATHER_ND": [1], "SCATTER_ND": [0], "DYNAMIC_UPDATE_SLICE": [2], "SPARSE_TO_DENSE": [0], "NON_MAX_SUPPRESSION_V4": [0], "NON_MAX_SUPPRESSION_V5": [0]}


def is_input(value):
    return value is not None and not value.constant and not value.variable


def open_dims(case, number):
    """Returns the sizes of an input in the variant with open sizes: all are open (-1) except those that must be fixed.
    Where there are several inputs, axes of size 1 stay fixed: Weft assumes that open sizes of operands are equal
    and never broadcasts them."""
    shape = case.inputs[number].array.shape
    is_alone = sum(is_input(i) for i in case.inputs) == 1
    if is_alone and case.has_state:
        return [1, -1, shape[2]] if case.fields.get("timeMajor") is False and len(shape) == 3 else list(shape)
    dims = [-1 if is_alone or size != 1 else 1 for size in shape]
    if number in NUMBERS.get(case.operator, []) or (case.operator in CHANNELS_LAST and number == 0):
        dims = [*dims[:-1], shape[-1]] if case.operator in CHANNELS_LAST else list(shape)
    return dims


def case(operator, inputs, outputs, options="", tolerance=1e-5, open_sizes=True, **fields):
    inputs = [i if i is None or isinstance(i, Value) else Value(np.asarray(i)) for i in inputs]
    number = sum(c.operator == operator for c in CASES)
    CASES.append(Case(operator, inputs, outputs, options, fields, tolerance, open_sizes, f"{operator}-{number}"))


def const(array, dtype=I):
    return Value(np.asarray(array, dtype), constant=True)


def state(*shape):
    return Value(np.zeros(shape, F), variable=True)


def f(*shape, low=-2.0, high=2.0):
    return rng.uniform(low, high, shape).astype(F)


def ints(*shape, dtype=I, low=-9, high=9):
    return rng.integers(low, high, shape).astype(dtype)


def steps(array, scale, zero=0, constant=False, axis=0):
    """Returns a quantised tensor with the integers `array`."""
    scales = tuple(np.atleast_1d(scale).tolist())
    zeros = tuple(np.broadcast_to(zero, (len(scales),)).tolist())
    return Value(np.asarray(array), constant, scales, zeros, axis)


def bytes_(*shape, low=-100, high=100, dtype=S):
    return rng.integers(low, high, shape).astype(dtype)


SPECIAL = np.array([0.0, -0.0, 1, -1, 0.5, 2.5, 3.5, -2.5, 1e-30, 1e30, np.inf, -np.inf, np.nan], F)

# --- Element by element ----------------------------------------------------------------------------------------------
for name in ["ABS", "NEG", "SQRT", "RSQRT", "EXP", "LOG", "SIN", "COS", "TANH", "LOGISTIC", "FLOOR", "CEIL", "ROUND", "RELU",
             "RELU6", "RELU_N1_TO_1", "ELU", "HARD_SWISH", "SQUARE", "SIGN", "GELU", "RELU_0_TO_1"]:
    options = {"ABS": "AbsOptions", "NEG": "NegOptions", "EXP": "ExpOptions", "COS": "CosOptions", "SQUARE": "SquareOptions",
               "HARD_SWISH": "HardSwishOptions", "SIGN": "SignOptions", "GELU": "GeluOptions"}.get(name, "")
    low = 0.1 if name in ("SQRT", "RSQRT", "LOG") else -8.0
    case(name, [f(2, 3, 5, low=low, high=9)], [F], options)
    case(name, [f(1, low=low, high=9)], [F], options)
    case(name, [np.zeros((0, 3), F)], [F], options)
    if name not in ("GELU", "ELU", "HARD_SWISH", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "RELU", "SIN", "COS", "SIGN", "LOGISTIC"):
        case(name, [SPECIAL], [F], options, open_sizes=False)
for name, options in [("ABS", "AbsOptions"), ("NEG", "NegOptions")]:
    case(name, [ints(2, 3)], [I], options)
case("GELU", [f(7)], [F], "GeluOptions", approximate=True)
case("LOGISTIC", [steps(bytes_(2, 5), 0.05, 3)], [(S, 1 / 256, -128)])
case("TANH", [steps(bytes_(2, 5), 0.03, -3)], [(S, 1 / 128, 0)])
case("RELU", [steps(bytes_(9), 0.05, 3)], [(S, 0.05, 3)])
case("HARD_SWISH", [steps(bytes_(9), 0.05, 3)], [(S, 0.05, 3)], "HardSwishOptions")
case("ABS", [steps(bytes_(9), 0.05, 3)], [(S, 0.05, 3)], "AbsOptions")
for name in ["LOGICAL_NOT"]:
    for shape in [(3,), (1, 1), (0,)]:
        case(name, [rng.random(shape) > 0.5], [B], "LogicalNotOptions")
case("LEAKY_RELU", [f(3, 5)], [F], "LeakyReluOptions", alpha=0.1)
case("LEAKY_RELU", [f(1)], [F], "LeakyReluOptions", alpha=1.5)
case("LEAKY_RELU", [np.zeros((2, 0), F)], [F], "LeakyReluOptions", alpha=0.3)
case("LEAKY_RELU", [steps(bytes_(9), 0.05, 3)], [(S, 0.04, -5)], "LeakyReluOptions", alpha=0.1)
case("PRELU", [f(2, 3, 3, 4), const(f(1, 1, 4), F)], [F])
case("PRELU", [f(1, 5), f(5)], [F])
case("PRELU", [f(2, 1, 1, 3), f(1, 1, 3)], [F])

for name, options in [("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"), ("DIV", "DivOptions")]:
    for activation in [0, 1, 2, 3]:
        case(name, [f(2, 3, 5), f(2, 3, 5, low=0.5)], [F], options, fusedActivationFunction=activation)
    case(name, [f(2, 1, 5), f(3, 1, low=0.5)], [F], options)
    case(name, [f(), f(3, low=0.5)], [F], options)
    case(name, [np.zeros((0, 3), F), f(3, low=0.5)], [F], options)
    case(name, [ints(3, 5), ints(3, 5, low=1)], [I], options)
    if name != "DIV":
        case(name, [ints(3, dtype=L), ints(3, dtype=L, low=1)], [L], options)
    scale = 0.5 if name == "MUL" else 0.1
    case(name, [steps(bytes_(3, 5, low=4), 0.05, 3), steps(bytes_(3, 5, low=9), 0.07, -4)], [(S, scale, 5)], options)
    case(name, [steps(bytes_(1, 5, low=4), 0.05, 3), steps(bytes_(3, 1, low=9), 0.07, -4)], [(S, scale, 5)], options, fusedActivationFunction=1)
case("ADD", [steps(ints(3, 5, dtype=np.int16, low=-3000, high=3000), 0.001), steps(ints(3, 5, dtype=np.int16, low=-3000, high=3000), 0.002)],
     [(np.int16, 0.004, 0)], "AddOptions", potScaleInt16=False)
case("DIV", [np.array([7, -7, 7, -7], I), np.array([2, 2, -2, -2], I)], [I], "DivOptions")
for name, options in [("FLOOR_DIV", "FloorDivOptions"), ("FLOOR_MOD", "FloorModOptions")]:
    case(name, [np.array([7, -7, 7, -7, 6, -6], I), np.array([2, 2, -2, -2, 3, 3], I)], [I], options)
    case(name, [f(3, 5, low=-9, high=9), f(5, low=0.5)], [F], options)
    case(name, [ints(2, 1, dtype=L), ints(3, dtype=L, low=1)], [L], options) if name == "FLOOR_MOD" else None
    case(name, [f(1, low=-9), f(1, low=-3, high=-1)], [F], options)
    case(name, [np.zeros((0,), I), np.ones((1,), I)], [I], options)
case("POW", [f(3, 5, low=0.1), f(5)], [F], "PowOptions")
case("POW", [f(1, low=0.1), f(1)], [F], "PowOptions")
case("POW", [np.array([-2, -3, 0, 2], F), np.array([2, 3, 0, -1], F)], [F], "PowOptions")
case("POW", [ints(4), ints(4, low=0, high=4)], [I], "PowOptions")
for name in ["MAXIMUM", "MINIMUM"]:
    case(name, [f(3, 5), f(5)], [F], "MaximumMinimumOptions")
    case(name, [ints(2, 1, 3), ints(4, 1)], [I], "MaximumMinimumOptions")
    case(name, [ints(3, dtype=L), ints(1, dtype=L)], [L], "MaximumMinimumOptions")
    case(name, [steps(bytes_(9), 0.05, 3), steps(bytes_(9), 0.05, 3)], [(S, 0.05, 3)], "MaximumMinimumOptions")
case("ATAN2", [f(3, 5), f(3, 5)], [F], "ATan2Options")
case("ATAN2", [f(1), f(1)], [F], "ATan2Options")
case("ATAN2", [np.array([0, 0, 1, -1], F), np.array([1, -1, 0, 0], F)], [F], "ATan2Options")
case("SQUARED_DIFFERENCE", [f(3, 5), f(5)], [F], "SquaredDifferenceOptions")
case("SQUARED_DIFFERENCE", [ints(3, 1), ints(1, 5)], [I], "SquaredDifferenceOptions")
case("SQUARED_DIFFERENCE", [f(0, 5), f(5)], [F], "SquaredDifferenceOptions")
for name, options in [("EQUAL", "EqualOptions"), ("NOT_EQUAL", "NotEqualOptions"), ("LESS", "LessOptions"),
                      ("LESS_EQUAL", "LessEqualOptions"), ("GREATER", "GreaterOptions"), ("GREATER_EQUAL", "GreaterEqualOptions")]:
    case(name, [f(3, 5).round(), f(3, 5).round()], [B], options)
    case(name, [ints(2, 1, low=0, high=3), ints(3, low=0, high=3)], [B], options)
    case(name, [ints(4, dtype=L, low=0, high=3), ints(1, dtype=L, low=0, high=3)], [B], options)
    case(name, [np.array([np.nan, 1, np.inf], F), np.array([np.nan, np.nan, np.inf], F)], [B], options)
    case(name, [np.zeros((0, 2), F), f(2)], [B], options)
    case(name, [steps(bytes_(9), 0.05, 3), steps(bytes_(9), 0.05, 3)], [B], options)
for name, options in [("LOGICAL_AND", "LogicalAndOptions"), ("LOGICAL_OR", "LogicalOrOptions")]:
    case(name, [rng.random((3, 5)) > 0.5, rng.random((3, 5)) > 0.5], [B], options)
    case(name, [rng.random((3, 1)) > 0.5, rng.random((5,)) > 0.5], [B], options)
    case(name, [np.zeros((0,), B), np.zeros((0,), B)], [B], options)
for name, options in [("BITWISE_XOR", "BitwiseXorOptions"), ("RIGHT_SHIFT", "RightShiftOptions")]:
    case(name, [ints(3, 5, low=-99, high=99), ints(3, 5, low=0, high=9)], [I], options)
    case(name, [ints(4, dtype=S), ints(4, dtype=S, low=0, high=9)], [S], options)
    case(name, [ints(1, dtype=U, low=0, high=200), ints(1, dtype=U, low=0)], [U], options)
case("SELECT", [np.array([True, False, True]), f(3, 4), f(3, 4)], [F], "SelectOptions")
case("SELECT", [rng.random((3, 4)) > 0.5, ints(3, 4), ints(3, 4)], [I], "SelectOptions")
case("SELECT", [np.array([True]), f(1, 2), f(1, 2)], [F], "SelectOptions")
case("SELECT_V2", [rng.random((3, 1)) > 0.5, f(3, 4), f(4)], [F], "SelectV2Options")
case("SELECT_V2", [rng.random((4,)) > 0.5, ints(2, 4), ints(1, dtype=I)], [I], "SelectV2Options")
case("SELECT_V2", [np.zeros((0,), B), np.zeros((0,), F), np.zeros((0,), F)], [F], "SelectV2Options")
CODES = {F: 0, H: 1, I: 2, U: 3, L: 4, B: 6, np.int16: 7, S: 9, np.float64: 10}
for source, target in [(F, I), (I, F), (F, B), (B, F), (I, L), (L, I), (U, F), (F, L), (I, B), (S, I), (B, I), (F, np.int16)]:
    data = (rng.uniform(-9, 9, (3, 5)) if source is not U else rng.uniform(0, 200, (3, 5))).astype(source)
    case("CAST", [data], [target], "CastOptions", inDataType=CODES[source], outDataType=CODES[target])
case("CAST", [np.zeros((0,), F)], [I], "CastOptions", inDataType=0, outDataType=2)
for count in [1, 2, 4]:
    case("ADD_N", [f(3, 5) for _ in range(count)], [F], "AddNOptions")
case("ADD_N", [ints(3), ints(3)], [I], "AddNOptions")
for shape, dtype in [((3, 5), F), ((1,), I), ((0, 2), L)]:
    case("ZEROS_LIKE", [np.ones(shape, dtype)], [dtype], "ZerosLikeOptions")
for low, high, bits, narrow in [(-1.0, 1.0, 8, False), (0.0, 6.0, 8, True), (-0.3, 2.1, 4, False), (0.0, 6.0, 16, False)]:
    case("FAKE_QUANT", [f(3, 7, low=-3, high=3)], [F], "FakeQuantOptions", min=low, max=high, numBits=bits, narrowRange=narrow)
case("QUANTIZE", [f(3, 5)], [(S, 0.03, 4)], "QuantizeOptions")
case("QUANTIZE", [f(1)], [(U, 0.03, 100)], "QuantizeOptions")
case("QUANTIZE", [steps(bytes_(9), 0.05, 3)], [(S, 0.11, -4)], "QuantizeOptions")
case("QUANTIZE", [f(5)], [(np.int16, 0.001, 0)], "QuantizeOptions")
case("DEQUANTIZE", [steps(bytes_(3, 5), 0.05, 3)], [F], "DequantizeOptions")
case("DEQUANTIZE", [steps(bytes_(4, dtype=U, low=0, high=255), 0.05, 120)], [F], "DequantizeOptions")
case("DEQUANTIZE", [Value(f(3, 5).astype(H), constant=True)], [F], "DequantizeOptions")
case("DEQUANTIZE", [steps(bytes_(3, 4), [0.1, 0.2, 0.3, 0.4], 0, True, 1)], [F], "DequantizeOptions")

# --- Networks --------------------------------------------------------------------------------------------------------
for padding in [0, 1]:
    for stride, dilation in [(1, 1), (2, 1), (1, 2)]:
        fields = dict(padding=padding, strideW=stride, strideH=stride, dilationWFactor=dilation, dilationHFactor=dilation)
        case("CONV_2D", [f(2, 7, 6, 3), const(f(4, 3, 3, 3), F), const(f(4), F)], [F], "Conv2DOptions", **fields)
        case("DEPTHWISE_CONV_2D", [f(2, 7, 6, 3), const(f(1, 3, 3, 6), F), const(f(6), F)], [F], "DepthwiseConv2DOptions",
             depthMultiplier=2, **fields)
conv = dict(padding=1, strideW=1, strideH=1, dilationWFactor=1, dilationHFactor=1)
for activation in [1, 2, 3]:
    case("CONV_2D", [f(1, 5, 5, 2), const(f(3, 1, 1, 2), F), const(f(3), F)], [F], "Conv2DOptions", fusedActivationFunction=activation, **conv)
case("CONV_2D", [f(1, 5, 5, 4), const(f(6, 3, 3, 2), F), const(f(6), F)], [F], "Conv2DOptions", **conv)  # two groups
case("CONV_2D", [f(0, 5, 5, 4), const(f(6, 3, 3, 4), F), const(f(6), F)], [F], "Conv2DOptions", **conv)
case("CONV_2D", [f(1, 1, 9, 1), const(f(1, 1, 3, 1), F), const(f(1), F)], [F], "Conv2DOptions", padding=0, strideW=3, strideH=1,
     dilationWFactor=1, dilationHFactor=1)
case("CONV_2D", [steps(bytes_(1, 6, 5, 3), 0.04, -5), steps(bytes_(4, 3, 3, 3), [0.01, 0.02, 0.03, 0.015], 0, True, 0),
                 steps(ints(4, low=-500, high=500), [0.0004, 0.0008, 0.0012, 0.0006], 0, True, 0)], [(S, 0.1, 4)], "Conv2DOptions",
     fusedActivationFunction=1, **conv)
case("CONV_2D", [steps(bytes_(2, 6, 5, 3, dtype=U, low=0, high=255), 0.04, 128), steps(bytes_(4, 3, 3, 3, dtype=U, low=0, high=255), 0.01, 120, True),
                 steps(ints(4, low=-500, high=500), 0.0004, 0, True)], [(U, 0.1, 130)], "Conv2DOptions", **conv)
case("DEPTHWISE_CONV_2D", [steps(bytes_(1, 6, 5, 3), 0.04, -5), steps(bytes_(1, 3, 3, 3), [0.01, 0.02, 0.03], 0, True, 3),
                           steps(ints(3, low=-500, high=500), [0.0004, 0.0008, 0.0012], 0, True, 0)], [(S, 0.1, 4)],
     "DepthwiseConv2DOptions", depthMultiplier=1, **conv)
case("DEPTHWISE_CONV_2D", [f(1, 4, 4, 1), const(f(1, 2, 2, 1), F), None], [F], "DepthwiseConv2DOptions", depthMultiplier=1, fusedActivationFunction=3, **conv)
for padding in [0, 1]:
    case("CONV_3D", [f(1, 4, 5, 6, 2), const(f(2, 3, 2, 2, 3), F), const(f(3), F)], [F], "Conv3DOptions", padding=padding, strideD=1,
         strideW=2, strideH=1, dilationDFactor=1, dilationWFactor=1, dilationHFactor=1)
case("CONV_3D", [f(2, 3, 3, 3, 1), const(f(1, 1, 1, 1, 2), F)], [F], "Conv3DOptions", padding=1, strideD=1, strideW=1, strideH=1,
     dilationDFactor=1, dilationWFactor=1, dilationHFactor=1, fusedActivationFunction=1)
for padding, stride, out in [(0, 2, (8, 6)), (1, 2, (9, 7)), (0, 1, (4, 3)), (0, 2, (7, 5))]:
    case("TRANSPOSE_CONV", [const([1, *out, 5]), const(f(5, 3, 3, 2), F), f(1, 4, 3, 2)], [F], "TransposeConvOptions", padding=padding,
         strideW=stride, strideH=stride)
case("TRANSPOSE_CONV", [const([2, 8, 6, 3]), const(f(3, 2, 2, 2), F), f(2, 4, 3, 2), const(f(3), F)], [F], "TransposeConvOptions", padding=0,
     strideW=2, strideH=2)
for name in ["AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"]:
    for padding, stride, size, activation in [(0, 1, 3, 0), (0, 2, 2, 1), (1, 2, 3, 0), (1, 1, 1, 3)]:
        case(name, [f(2, 7, 6, 3)], [F], "Pool2DOptions", padding=padding, strideW=stride, strideH=stride, filterWidth=size,
             filterHeight=size, fusedActivationFunction=activation)
    if name != "L2_POOL_2D":
        case(name, [steps(bytes_(1, 5, 5, 2), 0.05, 3)], [(S, 0.05, 3)], "Pool2DOptions", padding=0, strideW=2, strideH=2, filterWidth=2, filterHeight=2)
for keep, x in [(False, f(2, 3, 4)), (True, f(2, 3, 4)), (False, f(3, 4)), (False, f(1, 4)), (False, f(0, 4))]:
    case("FULLY_CONNECTED", [x, const(f(5, 4), F), const(f(5), F)], [F], "FullyConnectedOptions", keepNumDims=keep)
case("FULLY_CONNECTED", [f(3, 4), const(f(5, 4), F), None], [F], "FullyConnectedOptions", fusedActivationFunction=1)
case("FULLY_CONNECTED", [f(3, 4), f(5, 4), None], [F], "FullyConnectedOptions", fusedActivationFunction=3)
case("FULLY_CONNECTED", [steps(bytes_(3, 8), 0.04, -5), steps(bytes_(5, 8), 0.01, 0, True), steps(ints(5, low=-500, high=500), 0.0004, 0, True)],
     [(S, 0.1, 4)], "FullyConnectedOptions", fusedActivationFunction=1)
for x, y, ax, ay in [((2, 3, 4), (2, 4, 5), False, False), ((2, 4, 3), (4, 5), True, False), ((3, 4), (5, 4), False, True),
                     ((2, 1, 3, 4), (3, 4, 2), False, False), ((0, 3), (3, 2), False, False)]:
    case("BATCH_MATMUL", [f(*x), f(*y)], [F], "BatchMatMulOptions", adjX=ax, adjY=ay)
for beta in [1.0, 0.5]:
    case("SOFTMAX", [f(3, 5)], [F], "SoftmaxOptions", beta=beta)
case("SOFTMAX", [f(2, 1, 1, 7)], [F], "SoftmaxOptions", beta=1.0)
case("SOFTMAX", [f(1)], [F], "SoftmaxOptions", beta=2.0)
case("SOFTMAX", [steps(bytes_(3, 5), 0.05, 3)], [(S, 1 / 256, -128)], "SoftmaxOptions", beta=1.0)
for shape in [(3, 5), (1, 1), (2, 3, 4)]:
    case("LOG_SOFTMAX", [f(*shape)], [F], "LogSoftmaxOptions")
for x in [f(3, 5), f(1, 1), f(2, 3, 4), np.zeros((1, 3), F)]:
    case("L2_NORMALIZATION", [x], [F], "L2NormOptions")
for radius, bias, alpha, beta in [(1, 1.0, 1.0, 0.5), (2, 9.0, 4.0, 0.75), (5, 0.5, 0.1, 1.0)]:
    case("LOCAL_RESPONSE_NORMALIZATION", [f(2, 3, 1, 6)], [F], "LocalResponseNormalizationOptions", radius=radius, bias=bias, alpha=alpha, beta=beta)

# --- Layout ----------------------------------------------------------------------------------------------------------
for x, shape in [(f(2, 3, 4), [6, -1]), (ints(4, 3), [2, 6]), (f(1), []), (np.zeros((0, 4), F), [2, 0]), (f(5), [5, 1, 1])]:
    case("RESHAPE", [x, const(shape)], [x.dtype.type], "ReshapeOptions", newShape=shape)
case("RESHAPE", [f(2, 3)], [F], "ReshapeOptions", newShape=[3, 2])
case("RESHAPE", [f(2, 3), np.array([3, -1], I)], [F], "ReshapeOptions")
case("RESHAPE", [steps(bytes_(2, 6), 0.05, 3), const([3, 4])], [(S, 0.05, 3)], "ReshapeOptions", newShape=[3, 4])
for x, order in [(f(2, 3, 4), [2, 0, 1]), (ints(3, 1), [1, 0]), (f(5), [0]), (np.zeros((0, 3), F), [1, 0]), (f(2, 1, 3, 2), [0, 3, 1, 2])]:
    case("TRANSPOSE", [x, const(order)], [x.dtype.type], "TransposeOptions")
for parts, axis in [([f(2, 3), f(2, 1)], 1), ([ints(1, 2), ints(3, 2)], 0), ([f(2, 3, 1), f(2, 3, 4), f(2, 3, 2)], -1), ([f(0, 2), f(3, 2)], 0)]:
    case("CONCATENATION", parts, [parts[0].dtype.type], "ConcatenationOptions", axis=axis)
case("CONCATENATION", [f(2, 3), f(2, 3)], [F], "ConcatenationOptions", axis=0, fusedActivationFunction=0)
case("CONCATENATION", [steps(bytes_(2, 3), 0.05, 3), steps(bytes_(2, 2), 0.05, 3)], [(S, 0.05, 3)], "ConcatenationOptions", axis=1)
case("CONCATENATION", [steps(bytes_(2, 3, dtype=U, low=0, high=255), 0.05, 3), steps(bytes_(2, 2, dtype=U, low=0, high=255), 0.02, 100)], [(U, 0.06, 30)],
     "ConcatenationOptions", axis=1)
for axis, count in [(0, 2), (1, 3), (-1, 1), (2, 2)]:
    case("PACK", [f(3, 4) for _ in range(count)], [F], "PackOptions", valuesCount=count, axis=axis)
case("PACK", [ints(), ints()], [I], "PackOptions", valuesCount=2, axis=0)
for x, axis in [(f(3, 4), 0), (ints(2, 3), 1), (f(1, 5), -2)]:
    count = x.shape[axis]
    case("UNPACK", [x], [x.dtype.type] * count, "UnpackOptions", num=count, axis=axis)
for x, axis, count in [(f(4, 6), 1, 3), (ints(4, 2), 0, 2), (f(2, 3), -1, 1)]:
    case("SPLIT", [const(axis), x], [x.dtype.type] * count, "SplitOptions", numSplits=count)
for x, sizes, axis in [(f(2, 7), [2, 5], 1), (ints(6, 2), [1, -1, 2], 0), (f(3, 4), [4], -1), (f(3, 4), [0, 4], 1)]:
    case("SPLIT_V", [x, const(sizes), const(axis)], [x.dtype.type] * len(sizes), "SplitVOptions", numSplits=len(sizes))
for shape, axes in [((1, 3, 1, 2), [0, 2]), ((1, 3, 1), []), ((1, 3, 1), [-1]), ((2, 3), [])]:
    case("SQUEEZE", [f(*shape)], [F], "SqueezeOptions", open_sizes=bool(axes), squeezeDims=axes)
for x, axis in [(f(2, 3), 0), (ints(3), -1), (f(2, 3), 1), (np.zeros((0,), F), 1)]:
    case("EXPAND_DIMS", [x, const(axis)], [x.dtype.type], "ExpandDimsOptions")
for x, repeats in [(f(2, 3), [2, 1]), (ints(3), [4]), (f(1, 2, 1), [3, 2, 2]), (f(2), [0])]:
    case("TILE", [x, const(repeats)], [x.dtype.type], "TileOptions")
for x in [f(3), f(2, 4), ints(1, 3)]:
    case("MATRIX_DIAG", [x], [x.dtype.type], "MatrixDiagOptions")
for x, y in [(f(3, 4), f(3)), (ints(2, 3, 3), ints(2, 3)), (f(1, 5), f(1))]:
    case("MATRIX_SET_DIAG", [x, y], [x.dtype.type], "MatrixSetDiagOptions")
for x, pads in [(f(2, 3), [[1, 0], [0, 2]]), (ints(3), [[2, 1]]), (f(1, 2, 2, 1), [[0, 0], [1, 1], [2, 0], [0, 0]]), (f(3), [[0, 0]])]:
    case("PAD", [x, const(pads)], [x.dtype.type], "PadOptions")
    case("PADV2", [x, const(pads), const(7, x.dtype)], [x.dtype.type], "PadV2Options")
case("PAD", [steps(bytes_(1, 2, 2, 1), 0.05, 3), const([[0, 0], [1, 1], [2, 0], [0, 0]])], [(S, 0.05, 3)], "PadOptions")
case("PAD", [f(2, 3), np.array([[1, 0], [0, 2]], I)], [F], "PadOptions")
for mode in [0, 1]:
    case("MIRROR_PAD", [f(3, 4), const([[2, 1], [0, 3]])], [F], "MirrorPadOptions", mode=mode)
    case("MIRROR_PAD", [ints(5), const([[1, 2]])], [I], "MirrorPadOptions", mode=mode)
    case("MIRROR_PAD", [f(2, 2), const([[0, 0], [1, 1]])], [F], "MirrorPadOptions", mode=mode)
for x, begin, size in [(f(4, 5), [1, 2], [2, 3]), (ints(6), [2], [-1]), (f(2, 3, 4), [0, 1, 0], [-1, 1, 4]), (f(3), [1], [0])]:
    case("SLICE", [x, const(begin), const(size)], [x.dtype.type], "SliceOptions")
case("SLICE", [f(4, 5), np.array([1, 2], I), np.array([2, -1], I)], [F], "SliceOptions")
for x, begin, end, step, masks in [
        (f(4, 6), [1, 0], [3, 5], [1, 2], {}), (f(4, 6), [-1, 0], [-4, 6], [-1, 1], {}), (f(4, 6), [1, 0], [2, 6], [1, 1], dict(shrinkAxisMask=1)),
        (f(4, 6), [0, 3], [0, 0], [1, 1], dict(endMask=3)), (f(4, 6), [9, 9], [3, 2], [1, -1], dict(beginMask=3)),
        (f(2, 3, 4), [0, 1], [0, 2], [1, 1], dict(ellipsisMask=1)), (f(4), [0, 1], [0, 3], [1, 1], dict(newAxisMask=1)),
        (f(2, 3, 4), [-1, 0, -2], [0, 0, -1], [1, 1, 1], dict(shrinkAxisMask=5, endMask=2)), (ints(5), [10], [20], [1], {}),
        (f(5), [-100], [100], [3], {}), (f(2, 3, 4), [0, 0, 1], [0, 0, 3], [1, 1, 1], dict(newAxisMask=2, ellipsisMask=1)),
        (f(3), [2], [-9], [-2], {})]:
    case("STRIDED_SLICE", [x, const(begin), const(end), const(step)], [x.dtype.type], "StridedSliceOptions", **masks)
case("STRIDED_SLICE", [f(7), np.array([1], I), np.array([-2], I), const([2])], [F], "StridedSliceOptions")
case("STRIDED_SLICE", [f(7, 2), np.array([3], I), np.array([4], I), const([1])], [F], "StridedSliceOptions", shrinkAxisMask=1)
case("STRIDED_SLICE", [f(7), const([2]), const([3]), const([1])], [F], "StridedSliceOptions", offset=True)
for x, target in [(f(2, 3), I), (f(), L), (np.zeros((0, 4), F), I)]:
    case("SHAPE", [x], [target], "ShapeOptions", outType=CODES[target])
    case("RANK", [x], [I], "RankOptions")
for shape, value in [([2, 3], np.float32(1.5)), ([], np.int32(4)), ([0, 2], np.int64(1)), ([3], np.bool_(True))]:
    case("FILL", [const(shape), np.asarray(value)], [value.dtype.type], "FillOptions")
case("FILL", [np.array([2, 2], I), np.asarray(np.float32(3))], [F], "FillOptions")
for args in [(0, 7, 2), (5, -3, -3), (2, 2, 1), (0, 9, 4)]:
    case("RANGE", [const(a) for a in args], [I], "RangeOptions")
    case("RANGE", [np.asarray(a, I) for a in args], [I], "RangeOptions")
case("RANGE", [const(0.5, F), const(3.0, F), const(0.5, F)], [F], "RangeOptions")
for x, shape in [(f(3, 1), [2, 3, 4]), (ints(4), [4]), (f(1), [0])]:
    case("BROADCAST_TO", [x, const(shape)], [x.dtype.type], "BroadcastToOptions", open_sizes=1 not in x.shape)
for a, b in [([2, 1], [3]), ([1], [4, 5]), ([3], [3])]:
    case("BROADCAST_ARGS", [np.array(a, I), np.array(b, I)], [I])
    case("BROADCAST_ARGS", [const(a), const(b)], [I])
for x, axes in [(f(3, 4), [1]), (ints(5), [0]), (f(2, 3, 4), [2])]:
    case("REVERSE_V2", [x, const(axes)], [x.dtype.type], "ReverseV2Options")
for lengths, seq, batch in [([3, 1, 0], 1, 0), ([2, 4], 0, 1), ([1, 2, 3], 2, 0)]:
    shape = {(1, 0): (3, 4), (0, 1): (5, 2, 3), (2, 0): (3, 2, 3)}[seq, batch]
    case("REVERSE_SEQUENCE", [f(*shape), np.array(lengths, I)], [F], "ReverseSequenceOptions", seqDim=seq, batchDim=batch)
for x, block in [(f(1, 4, 6, 3), 2), (f(2, 3, 3, 1), 3), (ints(1, 2, 2, 5), 1)]:
    case("SPACE_TO_DEPTH", [x], [x.dtype.type], "SpaceToDepthOptions", blockSize=block)
for x, block in [(f(1, 2, 3, 12), 2), (f(2, 1, 1, 9), 3), (ints(1, 2, 2, 5), 1)]:
    case("DEPTH_TO_SPACE", [x], [x.dtype.type], "DepthToSpaceOptions", blockSize=block)
for x, block, pads in [(f(1, 4, 6, 3), [2, 2], [[0, 0], [0, 0]]), (f(2, 3, 5, 1), [2, 3], [[1, 0], [0, 1]]), (f(1, 5, 2), [2], [[0, 1]])]:
    case("SPACE_TO_BATCH_ND", [x, const(block), const(pads)], [F], "SpaceToBatchNDOptions")
case("SPACE_TO_BATCH_ND", [steps(bytes_(1, 3, 4, 1), 0.05, 3), const([2, 2]), const([[1, 0], [0, 0]])], [(S, 0.05, 3)], "SpaceToBatchNDOptions")
for x, block, crops in [(f(4, 2, 3, 3), [2, 2], [[0, 0], [0, 0]]), (f(12, 2, 2, 1), [2, 3], [[1, 0], [0, 1]]), (f(2, 3, 2), [2], [[0, 1]])]:
    case("BATCH_TO_SPACE_ND", [x, const(block), const(crops)], [F], "BatchToSpaceNDOptions")

# --- Reductions ------------------------------------------------------------------------------------------------------
for name in ["MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN"]:
    for x, axes, keep in [(f(2, 3, 4), [1], False), (f(2, 3, 4), [0, 2], True), (f(3), [-1], False), (ints(3, 4), [1], False),
                          (f(2, 1, 3), [1], True), (ints(2, 3, dtype=L), [0], True)]:
        case(name, [x, const(axes)], [x.dtype.type], "ReducerOptions", keepDims=keep)
    if name != "REDUCE_PROD":
        case(name, [steps(bytes_(2, 3, 4), 0.05, 3), const([1, 2])], [(S, 0.05 if "REDUCE" in name else 0.2, 3)], "ReducerOptions", keepDims=False)
case("MEAN", [np.array([[7, -8], [-2, 1]], I), const([1])], [I], "ReducerOptions", keepDims=False)
case("SUM", [np.zeros((0, 3), F), const([0])], [F], "ReducerOptions", keepDims=False)
for name in ["REDUCE_ANY", "REDUCE_ALL"]:
    for shape, axes, keep in [((3, 4), [1], False), ((3,), [0], True), ((2, 3, 2), [0, 2], False)]:
        case(name, [rng.random(shape) > 0.4, const(axes)], [B], "ReducerOptions", keepDims=keep)
for name, options in [("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions")]:
    for x, axis, target in [(f(3, 5), 1, L), (ints(4, 3), 0, I), (f(2, 3, 4), -2, I), (np.array([2, 5, 5, 2], F), 0, L)]:
        case(name, [x, const(axis)], [target], options, outputType=CODES[target])
    case(name, [steps(bytes_(3, 5), 0.05, 3), const(-1)], [I], options, outputType=2)
for x, axis, exclusive, reverse in [(f(3, 5), 1, False, False), (ints(4, 3), 0, True, False), (f(5), -1, False, True), (f(2, 1, 3), 2, True, True)]:
    case("CUMSUM", [x, const(axis)], [x.dtype.type], "CumsumOptions", exclusive=exclusive, reverse=reverse)
for x, k in [(f(3, 5), 2), (ints(6), 6), (f(2, 3, 4), 1), (np.array([1, 3, 3, 2], F), 3)]:
    case("TOPK_V2", [x, const(k)], [x.dtype.type, I], "TopKV2Options")

# --- Positions and pictures ------------------------------------------------------------------------------------------
for x, index, axis, batch in [(f(5, 3), [0, 4, 2], 0, 0), (f(3, 5), [[1, 4], [0, 2]], 1, 0), (ints(4), [3], 0, 0), (f(2, 3, 4), [[0, 2], [1, 1]], 1, 1),
                              (f(2, 3, 4), [[0, 3, 1], [2, 2, 0]], 2, 1), (f(2, 2, 5), [[[0], [1]], [[2], [4]]], 2, 2), (f(3, 2), 1, 0, 0)]:
    case("GATHER", [x, np.asarray(index, I)], [x.dtype.type], "GatherOptions", axis=axis, batchDims=batch)
case("GATHER", [steps(bytes_(5, 3), 0.05, 3), const([1, 4])], [(S, 0.05, 3)], "GatherOptions", axis=0)
for x, index in [(f(3, 4), [[0, 1], [2, 3]]), (ints(3, 4), [[2], [0]]), (f(2, 3, 4), [[[1, 0]], [[0, 2]]])]:
    case("GATHER_ND", [x, np.asarray(index, I)], [x.dtype.type], "GatherNdOptions")
for index, x in [([0, 2, 1], f(4, 3)), ([3], f(4, 2, 2)), ([1, 1], f(2, 5))]:
    case("EMBEDDING_LOOKUP", [np.asarray(index, I), x], [F])
for index, updates, shape in [([[0], [2]], f(2, 3), [4, 3]), ([[1], [1], [0]], f(3), [2]), ([[0, 1], [2, 0]], ints(2), [3, 2])]:
    case("SCATTER_ND", [np.asarray(index, I), updates, const(shape)], [updates.dtype.type], "ScatterNdOptions")
for name, kind in [("SUM", "Sum"), ("PROD", "Prod"), ("MAX", "Max"), ("MIN", "Min")]:
    for x, ids, count in [(f(5, 2), [0, 2, 0, 1, 2], 3), (f(4), [1, 1, 1, 0], 3), (ints(3, 2), [0, 0, 1], 2), (f(3), [0, -1, 1], 2)]:
        case(f"UNSORTED_SEGMENT_{name}", [x, np.asarray(ids, I), const(count)], [x.dtype.type], f"UnsortedSegment{kind}Options")
for index, depth, on, off, axis in [([0, 2, 1], 3, 1.0, 0.0, -1), ([[1, 5], [0, -1]], 4, 2.5, -1.0, 1), ([0], 1, 3.0, 1.0, 0)]:
    case("ONE_HOT", [np.asarray(index, I), const(depth), const(on, F), const(off, F)], [F], "OneHotOptions", axis=axis)
case("ONE_HOT", [np.asarray([1, 0], L), const(2), const(1), const(0)], [I], "OneHotOptions", axis=-1)
for x in [rng.random((3, 4)) > 0.5, np.array([True, False, True]), np.zeros((2, 2), B), ints(5, low=0, high=2)]:
    case("WHERE", [x], [L], "WhereOptions")
for x, update, start in [(f(4, 5), f(2, 3), [1, 2]), (ints(6), ints(2), [5]), (f(3, 3), f(3, 1), [0, -4])]:
    case("DYNAMIC_UPDATE_SLICE", [x, update, np.asarray(start, I)], [x.dtype.type], "DynamicUpdateSliceOptions")
for aligned, half in [(False, False), (True, False), (False, True)]:
    for shape, size in [((1, 3, 4, 2), (6, 8)), ((2, 5, 5, 1), (3, 2)), ((1, 1, 2, 3), (4, 1)), ((1, 4, 4, 1), (7, 9)), ((1, 6, 3, 1), (1, 5))]:
        case("RESIZE_BILINEAR", [f(*shape), const(size)], [F], "ResizeBilinearOptions", alignCorners=aligned, halfPixelCenters=half)
        case("RESIZE_NEAREST_NEIGHBOR", [f(*shape), const(size)], [F], "ResizeNearestNeighborOptions", alignCorners=aligned, halfPixelCenters=half)
case("RESIZE_BILINEAR", [steps(bytes_(1, 3, 4, 2), 0.05, 3), const([6, 8])], [(S, 0.05, 3)], "ResizeBilinearOptions", halfPixelCenters=True)

# --- Boxes, sparse tensors, segments ---------------------------------------------------------------------------------
corners = rng.uniform(0, 10, (12, 2))
boxes = np.concatenate([corners, corners + rng.uniform(1, 6, (12, 2))], 1).astype(F)
for x, scores, count, overlap in [(boxes, f(12), 5, 0.3), (boxes[:1], f(1), 3, 0.5), (boxes[:, [2, 3, 0, 1]], f(12), 12, 0.1)]:
    limits = [const(count), const(overlap, F), const(-0.5, F)]
    case("NON_MAX_SUPPRESSION_V4", [x, scores, *limits], [I, I], "NonMaxSuppressionV4Options")
    case("NON_MAX_SUPPRESSION_V5", [x, scores, *limits, const(0, F)], [I, F, I], "NonMaxSuppressionV5Options")
for x, target in [(ints(9, low=0, high=4), I), (np.round(f(7)), L), (np.array([3], I), I)]:
    case("UNIQUE", [x], [x.dtype.type, target], "UniqueOptions", idxOutType=CODES[target])
for x, ids in [(f(5, 2), [0, 0, 1, 1, 2]), (f(3), [0, 1, 1]), (ints(1, 2), [0])]:
    case("SEGMENT_SUM", [x, np.asarray(ids, I)], [x.dtype.type], "SegmentSumOptions")
for index, sizes, values in [([[0, 1], [2, 0]], [3, 2], f(2)), ([1, 3], [5], ints(2)), ([[1], [2]], [4], f(2))]:
    fill = const(9, np.asarray(values).dtype)
    case("SPARSE_TO_DENSE", [np.asarray(index, I), const(sizes), np.asarray(values), fill], [np.asarray(values).dtype.type], "SparseToDenseOptions")

# --- Recurrent networks ----------------------------------------------------------------------------------------------
def weights(*shape):
    return const(f(*shape, low=-0.7, high=0.7), F)


def gates(count, *shape):
    return [weights(*shape) for _ in range(count)]


def lstm(inputs, units, out, coupled=False, peeps=False, projected=False):
    """Returns the operands of one direction after x: weights, peepholes, biases, a projection."""
    first = [None] if coupled else gates(1, units, inputs)
    again = [None] if coupled else gates(1, units, out)
    peepholes = ([None] if coupled else gates(1, units)) + gates(2, units) if peeps else [None] * 3
    biases = ([None] if coupled else gates(1, units)) + gates(3, units)
    return [*first, *gates(3, units, inputs), *again, *gates(3, units, out), *peepholes, *biases,
            *([weights(out, units), weights(out)] if projected else [None, None])]


TANH, RELU = 4, 1
for batch, coupled, peeps, projected, clips in [(1, False, False, False, (0, 0)), (2, True, False, False, (0, 0)), (1, False, True, False, (0.2, 0)),
                                                (3, True, True, False, (0, 0)), (2, False, True, True, (0.5, 0.1)), (1, False, False, True, (0, 0))]:
    units, out = 4, 3 if projected else 4
    operands = lstm(5, units, out, coupled, peeps, projected)
    options = dict(fusedActivationFunction=TANH, cellClip=clips[0], projClip=clips[1])
    for time_major in (False, True):
        x = f(3, batch, 5) if time_major else f(batch, 3, 5)
        case("UNIDIRECTIONAL_SEQUENCE_LSTM", [x, *operands, state(batch, out), state(batch, units), *[None] * 4], [F], "UnidirectionalSequenceLSTMOptions",
             timeMajor=time_major, **options)
    case("LSTM", [f(batch, 5), *operands, state(batch, out), state(batch, units), *[None] * 4], [F], "LSTMOptions", **options)
    for merged in (False, True)[: 2 if batch == 1 else 1]:  # merged outputs of a batch above 1 overrun in LiteRT
        states = [state(batch, out), state(batch, units), state(batch, out), state(batch, units)]
        case("BIDIRECTIONAL_SEQUENCE_LSTM", [f(batch, 4, 5), *operands, *lstm(5, units, out, coupled, peeps, projected), *states, *[None] * 9], [F] * (2 - merged),
             "BidirectionalSequenceLSTMOptions", timeMajor=False, mergeOutputs=merged, **options)
for batch, activation in [(1, TANH), (2, RELU), (3, 3)]:
    operands = [weights(4, 5), weights(4, 4), weights(4), state(batch, 4)]
    case("RNN", [f(batch, 5), *operands], [F], "RNNOptions", fusedActivationFunction=activation)
    for time_major in (False, True):
        x = f(3, batch, 5) if time_major else f(batch, 3, 5)
        case("UNIDIRECTIONAL_SEQUENCE_RNN", [x, *operands], [F], "SequenceRNNOptions", timeMajor=time_major, fusedActivationFunction=activation)
    for merged in (False, True):
        other = [weights(4, 5), weights(4, 4), weights(4), state(batch, 4)]
        case("BIDIRECTIONAL_SEQUENCE_RNN", [f(batch, 3, 5), *operands, *other, *[None] * 3], [F] * (2 - merged), "BidirectionalSequenceRNNOptions",
             timeMajor=False, mergeOutputs=merged, fusedActivationFunction=activation)
for batch, rank, bias, activation in [(1, 1, True, 0), (2, 2, False, RELU), (3, 2, True, 0)]:
    filters, memory = 6, 4
    operands = [weights(filters, 5), weights(filters, memory), weights(filters // rank) if bias else None, state(batch, memory * filters)]
    case("SVDF", [f(batch, 5), *operands], [F], "SVDFOptions", rank=rank, fusedActivationFunction=activation)

OPERATORS = sorted({c.operator for c in CASES})
