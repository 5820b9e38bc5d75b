# SPDX-License-Identifier: Apache-2.0
"""Models of bytes, texts and molecules."""
import importlib.util
import json
import unicodedata

import numpy as np
import pytest

import fetch

ROOT = fetch.ROOT


# --- magika: types of files ------------------------------------------------------------------------------------------

FILES = {"src/compile.cpp": "cpp", "tests/places.py": "python", "README.md": "markdown", "CMakePresets.json": "json",
         "CMakeLists.txt": "cmake", "examples/digits/digits.onnx": "onnx", "examples/digits/seven.png": "png", "x": "shell",
         "pyproject.toml": "toml", "LICENSE": "txt", "examples/c/main.c": "c"}


def features(data):
    """Returns bytes from both ends of the data, without white space; the number 256 stands for missing bytes."""
    begin, end = data[:4096].lstrip()[:1024], data[-4096:].rstrip()[-1024:]
    return np.array([*begin, *[256] * (1024 - len(begin)), *[256] * (1024 - len(end)), *end], np.int32)


@pytest.mark.small
def test_magika(load):
    """One program names the types of all files at once, and of some files one by one."""
    engine = load("magika", "magika/models/standard_v3_3/model.onnx")
    config = json.loads((fetch.package("magika") / "magika/models/standard_v3_3/config.min.json").read_text())
    kinds = config["target_labels_space"]
    files = {name: kind for name, kind in FILES.items() if (ROOT / name).exists()}
    assert len(files) >= 8
    data = np.stack([features((ROOT / name).read_bytes()) for name in files])
    found = [kinds[i] for i in engine(bytes=data)[0].argmax(1)]
    assert dict(zip(files, found)) == files
    for row, kind in list(zip(data, found))[:3]:
        assert kinds[engine(bytes=row[None])[0].argmax()] == kind


# --- piper-tts: vowels of Arabic and Hebrew --------------------------------------------------------------------------

def module(path):
    """Imports one file of a package without importing the package."""
    spec = importlib.util.spec_from_file_location(path.parent.name, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("text, wanted", [("السلام عليكم", "السَّلَامُ عَلَيْكُمْ"), ("ذهب الولد إلى المدرسة", None), ("كتاب", None)],
                         ids=["greeting", "sentence", "word"])
def test_arabic_vowels(load, text, wanted):
    tashkeel = module(fetch.package("piper-tts") / "piper/tashkeel/__init__.py").TashkeelDiacritizer()
    reference = tashkeel(text)
    tashkeel.session = load("piper-tts", "piper/tashkeel/model.onnx", labels=["predictions"])
    assert tashkeel(text) == reference
    assert wanted is None or unicodedata.normalize("NFC", reference) == unicodedata.normalize("NFC", wanted)


def test_hebrew_vowels(load):
    """With one program for texts of several lengths, the vowels are those of onnxruntime."""
    nakdimon = module(fetch.package("piper-tts") / "piper/hebrew/__init__.py").NakdimonDiacritizer()
    texts = ["שלום עולם", "ילדים משחקים בגן", "בית"]
    reference = {text: nakdimon(text) for text in texts}
    nakdimon.session = load("piper-tts", "piper/hebrew/nakdimon.onnx")
    assert {text: nakdimon(text) for text in texts} == reference
    assert unicodedata.normalize("NFC", reference[texts[0]].split()[0]) == unicodedata.normalize("NFC", "שָׁלוֹם")


# --- chython-rxnmap: atoms of reactants and of products --------------------------------------------------------------

def test_reaction_map(load):
    """Acetic acid and methanol make methyl acetate: each atom of the product is mapped to an atom of the reactants."""
    engine = load("chython-rxnmap", "chython_rxnmap/rxnmap.onnx")

    def molecule(elements, hydrogens, bonds):
        far = np.full((len(elements),) * 2, 99)
        np.fill_diagonal(far, 0)
        for a, b in bonds:
            far[a, b] = far[b, a] = 1
        neighbours = (far == 1).sum(1) + hydrogens
        for k in range(len(elements)):
            far = np.minimum(far, far[:, k:k + 1] + far[k:k + 1])
        return elements, neighbours, far

    def inputs(*molecules):
        """Returns a token for the reaction, and then for each molecule a token for itself and tokens for its atoms.
        Distance 0 means no relation."""
        count = 1 + sum(1 + len(elements) for (elements, _, _), _ in molecules)
        atoms, neighbours, roles = (np.ones((1, count), np.int64) * k for k in (1, 0, 1))
        distances = np.zeros((1, count, count), np.int64)
        distances[0, 0, 0] = at = 1
        for (elements, near, far), role in molecules:
            whole, own = slice(at, at + 1 + len(elements)), slice(at + 1, at + 1 + len(elements))
            atoms[0, own], neighbours[0, own], roles[0, whole] = np.array(elements) + 2, near + 2, role
            distances[0, whole, whole] = 1
            distances[0, own, own] = far + 2
            at += 1 + len(elements)
        return {"atoms": atoms, "neighbors": neighbours, "distances": distances, "roles": roles}

    acid = molecule([6, 6, 8, 8], [3, 0, 0, 1], [(0, 1), (1, 2), (1, 3)])
    methanol = molecule([6, 8], [3, 1], [(0, 1)])
    ester = molecule([6, 6, 8, 8, 6], [3, 0, 0, 0, 3], [(0, 1), (1, 2), (1, 3), (3, 4)])
    seen = engine(**inputs((acid, 2), (methanol, 2), (ester, 3)))[0]
    product = np.arange(10, 15)
    reacting = np.array([2, 3, 4, 5, 7, 8])
    found = reacting[(seen + seen.T)[np.ix_(product, reacting)].argmax(1)]
    assert found.tolist()[:3] == [2, 3, 4] and found[3] in (5, 8) and found[4] == 7, found
    assert engine(**inputs((acid, 2), (methanol, 2)))[0].shape == (9, 9)
