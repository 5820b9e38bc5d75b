# SPDX-License-Identifier: Apache-2.0
"""Runs one network in three formats: basic-pitch (Spotify, Apache-2.0), which finds the notes in a sound. The package of
basic-pitch contains the network as a SavedModel, as a TensorFlow Lite model and as an ONNX model.

    pip download --no-deps basic-pitch==0.4.0 && unzip -q basic_pitch-0.4.0-*.whl -d basic-pitch
    ./x python examples/tensorflow/pitches.py basic-pitch/basic_pitch/saved_models/icassp_2022

This script makes three sounds, each a tone with two overtones. The network must find the same notes in all formats.
"""
import sys
from pathlib import Path

import numpy as np
import weft

RATE, LENGTH = 22050, 43844  # samples per second, and samples per run of the network
NOTES = {"A3": 57, "C#4": 61, "E4": 64}  # MIDI numbers of the notes


def sound(number):
    time = np.arange(LENGTH) / RATE
    base = 440 * 2 ** ((number - 69) / 12)
    return sum(np.sin(2 * np.pi * base * k * time) / k**2 for k in (1, 2, 3)).astype(np.float32) * 0.4


def main():
    folder = Path(sys.argv[1])
    forms = {"SavedModel": folder / "nmp", "TensorFlow Lite": folder / "nmp.tflite", "ONNX": folder / "nmp.onnx"}
    for form, path in forms.items():
        model = weft.compile(path)
        answer = sorted(port.name for port in model.outputs)[1]  # by name, the outputs are contour, note, onset
        said = []
        for note, number in NOTES.items():
            keys = model.run({model.inputs[0].name: sound(number).reshape(1, LENGTH, 1)})[answer][0]  # [time, 88 keys]; key 0 is MIDI 21
            found = 21 + int(keys.mean(axis=0).argmax())
            said.append(f"{note} {'heard' if found == number else f'taken for {found}'}, {keys.mean(axis=0).max():.4f}")
        print(f"{form}: {'; '.join(said)}")


main()
