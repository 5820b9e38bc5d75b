# SPDX-License-Identifier: Apache-2.0
"""com.microsoft's operators on images and similar data: ref and cpu give the answers of onnxruntime's CPU provider."""
import numpy as np
import pytest

from test_microsoft import floats, i32, judge
from test_microsoft_varlen import refuses

pytestmark = pytest.mark.rotates(2)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("pads", [np.array([0, 2, 0, 1]), np.array([[1, 2, 1, 0]])], ids=str)
@pytest.mark.parametrize("known", [False, True])
def test_pad(mode, pads, known):
    inputs = [floats(4, 5), pads, np.float32(5)]
    judge("Pad", inputs, {"mode": mode}, constants=(1,) if known else ())
    judge("Pad", [inputs[0], pads, np.array([7], np.float32)], {"mode": mode})
    judge("Pad", inputs[:2], {"mode": mode})


def test_pad_may_cut():
    judge("Pad", [floats(4, 5), np.array([-1, 2, 1, -3])])


def test_pad_refuses():
    refuses("3 pads for 2 axes", "Pad", [floats(4, 5), np.array([0, 2, 0])], outputs=("y",))
    refuses("mode 'x'", "Pad", [floats(4, 5), np.array([0, 2, 0, 1])], {"mode": "x"}, ("y",))
    refuses("E141", "Pad", [floats(4, 5), np.array([[0, 2], [0, 1]])], outputs=("y",))
    refuses("E141", "Pad", [floats(4, 5), np.zeros((1, 5), np.int64)], outputs=("y",))


@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 1, 1, 1), (1, 0, 0, 2)], ids=str)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("attributes", [{}, {"strides": [2, 2]}, {"strides": [2, 1], "dilations": [2, 2], "output_padding": [1, 0]}, {"group": 2},
                                        {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
                                        {"auto_pad": "VALID"}], ids=str)
def test_transposed_convolution_with_pads_from_data(pads, known, attributes):
    judge("ConvTransposeWithDynamicPads", [floats(2, 4, 4, 5), floats(4, 3, 3, 3), np.array(pads), floats(3 * attributes.get("group", 1))],
          attributes, constants=(2,) if known else ())


def test_transposed_convolution_with_pads_from_data_refuses():
    x, w = floats(1, 2, 4, 4), floats(2, 3, 3, 3)
    refuses("2 pads for 2 spatial axes", "ConvTransposeWithDynamicPads", [x, w, np.array([1, 1])], outputs=("y",))
    refuses("needs input 2", "ConvTransposeWithDynamicPads", [x, w, None, floats(3)], outputs=("y",))
    refuses("pads and what they cut", "ConvTransposeWithDynamicPads", [x, w, np.array([4, 0, 4, 0])], outputs=("y",))


BOXES = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [0.8, 0.9, 0.2, 0.1], [-0.3, 0.4, 0.5, 1.3], [0.5, 0.5, 0.5, 0.5]], np.float32)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(3, 4), (1, 1), (1, 5), (6, 1)])
@pytest.mark.parametrize("known", [False, True])
def test_crops(mode, size, known):
    judge("CropAndResize", [floats(2, 3, 5, 7), BOXES, i32(0, 1, 1, 0, 1), i32(*size)], {"mode": mode, "extrapolation_value": -3.5},
          constants=(3,) if known else ())


@pytest.mark.parametrize("words, place, value", [
    ("batch_indices and regions", 2, i32(0, 1)),
    ("numbers of a region", 1, floats(5, 3)),
    ("crop_size|E314", 3, i32(0, 4)),
    ("crop_size of 2 numbers", 3, i32(4)),
    ("E301", 2, i32(0, 1, 2, 0, 1)),
], ids=lambda value: value if isinstance(value, str) else None)
def test_crops_refuse(words, place, value):
    inputs = [floats(2, 3, 5, 7), BOXES, i32(0, 1, 1, 0, 1), i32(3, 4)]
    inputs[place] = value
    refuses(words, "CropAndResize", inputs, outputs=("y",))


def masks(*dims):
    return (floats(*dims) > -0.7).astype(np.int32)


@pytest.mark.parametrize("x, mask, attributes", [
    ((2, 3, 7), (1, 1, 7), {"kernel_shape": [3]}),
    ((2, 3, 7), (1, 1, 7), {"kernel_shape": [3], "pads": [1, 2], "strides": [2], "storage_order": 1}),
    ((2, 3, 6, 7), (1, 1, 6, 7), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    ((2, 3, 6, 7), (2, 3, 6, 7), {"kernel_shape": [3, 3]}),
    ((2, 3, 5, 7), (1, 4, 5, 7), {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}),
    ((1, 2, 4, 5, 6), (1, 1, 4, 5, 6), {"kernel_shape": [2, 3, 2], "auto_pad": "SAME_LOWER", "strides": [1, 2, 2]}),
], ids=str)
def test_masked_pool(x, mask, attributes):
    mask = masks(*mask)
    mask.reshape(-1)[0] = 0
    judge("MaxpoolWithMask", [floats(*x), mask], attributes)


def test_masked_pool_passes_over_nan():
    x = floats(1, 1, 5, 5)
    x[0, 0, 2, 2] = np.nan
    judge("MaxpoolWithMask", [x, np.ones((1, 1, 5, 5), np.int32)], {"kernel_shape": [2, 2]})


def test_masked_pool_refuses():
    refuses("sizes of the input and of the mask", "MaxpoolWithMask", [floats(1, 1, 5, 5), masks(1, 1, 5, 4)], {"kernel_shape": [2, 2]}, ("y",))
    refuses("a mask", "MaxpoolWithMask", [floats(1, 1, 5, 5), masks(1, 5, 5)], {"kernel_shape": [2, 2]}, ("y",))
