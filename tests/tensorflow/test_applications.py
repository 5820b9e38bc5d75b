# SPDX-License-Identifier: Apache-2.0
"""Networks of keras.applications with random weights, read from SavedModels: one program for all batches gives
TensorFlow's answers. The plain run takes one of three small networks, a different one each day; `./x test --release`
takes all forty."""
import contextlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "robustness")]
import judge
from limits import IS_FULL, SEED
from places import judged

import weft

ALL = """ConvNeXtBase ConvNeXtLarge ConvNeXtSmall ConvNeXtTiny ConvNeXtXLarge DenseNet121 DenseNet169 DenseNet201 EfficientNetB0
    EfficientNetB1 EfficientNetB2 EfficientNetB3 EfficientNetB4 EfficientNetB5 EfficientNetB6 EfficientNetB7 EfficientNetV2B0
    EfficientNetV2B1 EfficientNetV2B2 EfficientNetV2B3 EfficientNetV2L EfficientNetV2M EfficientNetV2S InceptionResNetV2 InceptionV3
    MobileNet MobileNetV2 MobileNetV3Large MobileNetV3Small NASNetLarge NASNetMobile ResNet101 ResNet101V2 ResNet152 ResNet152V2
    ResNet50 ResNet50V2 VGG16 VGG19 Xception""".split()
SMALL = ["EfficientNetV2B0", "MobileNet", "MobileNetV3Small"]
NAMES = ALL if IS_FULL else [SMALL[SEED % 3]]


@pytest.mark.parametrize("name", NAMES)
def test_application(name, tmp_path):
    judge.run("applications.py", tmp_path, name)
    with judged("keras.applications from SavedModels", batch="open", compiles=1), contextlib.ExitStack() as after:
        after.callback(shutil.rmtree, tmp_path / name)  # up to 1.4 GB
        model, stored = weft.compile(tmp_path / name, device="cpu"), np.load(tmp_path / f"{name}.npz")
        for number in range(2):
            expected, error = stored[f"{number} exact y"], stored[f"{number} error y"]
            y, most = model(stored[f"{number} in x"]), np.abs(expected).max()
            off = 1e-4 * most + 3 * error  # plus three times the error of TensorFlow's own answer
            assert y.shape == expected.shape and error < 1e-3 * most  # else the tolerance would allow wrong answers
            np.testing.assert_allclose(y, expected, rtol=0, atol=off)
        assert np.ptp(expected, axis=0).max() > 100 * off  # the answers depend on the picture
