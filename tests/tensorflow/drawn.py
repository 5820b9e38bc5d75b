# SPDX-License-Identifier: Apache-2.0
"""Random weights that any machine with numpy can draw again."""
import numpy as np


def values(entry):
    """Returns the values of a drawn weight, f32 [count], from its entry in NAME.json (applications.py)."""
    x = np.random.default_rng([7, entry["number"]]).random(entry["count"], np.float32) - np.float32(0.5)
    return x * np.float32(entry["width"]) + np.float32(entry["middle"])
