# SPDX-License-Identifier: Apache-2.0
"""The judges of bench/quantisation.py. A judge is a task with known right answers, which measures the quality of a
model; its data are made here.

A judge has `model` (a path), `data()` (the calibration items) and `score(model)`, which returns the percentage of right
answers of a compiled model, or its perplexity."""

import ast
import functools
import json
import sys
import tempfile
from pathlib import Path

import machine
import numpy as np

sys.path[:0] = [str(machine.ROOT / "tests"), str(machine.ROOT / "tests/real_models")]
import fetch
import language
import pictures
import speech

LEARN = 100  # items of calibration data



class Text:
    """Pictures of lines of text: four words of the licence each, from 7 to 11 pixels high."""

    TEST = 120

    def __init__(self):
        self.model = str(fetch.package("rapidocr") / "rapidocr/models/PP-OCRv6_rec_small.onnx")
        words = (machine.ROOT / "LICENSE").read_text().split()
        import onnx

        metadata = {entry.key: entry.value for entry in onnx.load(self.model).metadata_props}
        self.alphabet = ["", *metadata["character"].removesuffix("\n").split("\n"), " "]
        random = np.random.default_rng(0)
        self.lines = [self.line(random, words) for _ in range(LEARN + self.TEST)]

    @staticmethod
    def line(random, words):
        begin = random.integers(len(words) - 4)
        text = " ".join(words[begin : begin + 4])
        picture, boxes = pictures.page(900, 60, [text], size=int(random.integers(7, 12)))
        cut = pictures.cut(picture, pictures.grown(boxes[0], 0.15)).astype(float)
        cut += random.normal(0, 40, cut.shape)
        line = pictures.scaled_to_height(np.clip(cut, 0, 255).astype(np.uint8), 48)
        return pictures.planes(line), text

    def data(self):
        return [{"x": line} for line, _ in self.lines[:LEARN]]

    def score(self, model):
        wrong = total = 0
        for line, text in self.lines[LEARN:]:
            read = "".join(self.alphabet[c] for c in pictures.collapsed(model(line)[0].argmax(1))).strip()
            wrong, total = wrong + distance(read, text), total + len(text)
        return 100 * (1 - wrong / total)


def distance(a, b):
    """Returns the Levenshtein distance of two strings."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


class Files:
    """Files of the system, at most 240 of each extension. Every third may be calibration data; the others are scored."""

    KINDS = {"py": "python", "c": "c", "cpp": "cpp", "js": "javascript", "html": "html", "css": "css", "json": "json",
             "xml": "xml", "md": "markdown", "rst": "rst", "sh": "shell", "txt": "txt", "yaml": "yaml", "toml": "toml",
             "png": "png", "svg": "svg", "gif": "gif", "ini": "ini", "csv": "csv", "pl": "perl", "java": "java",
             "go": "go", "rs": "rust", "cmake": "cmake", "so": "elf", "whl": "zip", "pdf": "pdf"}
    ROOTS, MOST = ("/usr/share", "/usr/lib", "/usr/include"), 240

    def __init__(self):
        folder = fetch.package("magika") / "magika/models/standard_v3_3"
        self.model = str(folder / "model.onnx")
        self.kinds = json.loads((folder / "config.min.json").read_text())["target_labels_space"]
        found = []
        for ending, kind in self.KINDS.items():
            paths = sorted({str(p.resolve()) for root in self.ROOTS for p in Path(root).rglob(f"*.{ending}")})
            usable = [p for p in paths if Path(p).is_file() and Path(p).stat().st_size > 200]
            usable = usable[:: max(1, len(usable) // self.MOST)][: self.MOST]
            found += [(self.features(Path(p).read_bytes()), kind) for p in usable]
        self.learn, self.test = found[::3], [f for i, f in enumerate(found) if i % 3]

    @staticmethod
    def features(data):
        """Returns the first and the last 1,024 bytes, without white space at the ends; the value 256 pads shorter
        files."""
        begin, end = data[:4096].lstrip()[:1024], data[-4096:].rstrip()[-1024:]
        return np.array([*begin, *[256] * (1024 - len(begin)), *[256] * (1024 - len(end)), *end], np.int32)

    def data(self):
        step = max(1, len(self.learn) // LEARN)
        return [{"bytes": row[None]} for row, _ in self.learn[::step][:LEARN]]

    def score(self, model):
        right = sum(self.kinds[model(row[None])[0].argmax()] == kind for row, kind in self.test)
        return 100 * right / len(self.test)


@functools.cache
def folder():
    """Returns a folder for models that are written here; it is removed when the program ends."""
    made = tempfile.TemporaryDirectory()
    folder.kept = made
    return Path(made.name)


@functools.cache
def docstrings():
    """Returns the docstrings of modules, classes and functions of scikit-image, each once. The package is pinned, so
    the text is the same with each version of Python."""
    texts = []
    for path in sorted(fetch.package("scikit-image").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                texts.append(ast.get_docstring(node) or "")
    return list(dict.fromkeys(texts))


def paragraphs():
    """Returns the paragraphs of docstrings() that are longer than 150 characters, except headings and examples."""
    texts = [" ".join(part.split()) for text in docstrings() for part in text.split("\n\n")]
    return list(dict.fromkeys(part for part in texts if len(part) > 150 and "---" not in part and ">>>" not in part))


class Speech:
    """Recordings of two sentences with pauses, in noise. The model detects in which pieces of 32 ms somebody speaks;
    pieces at the edges of sentences do not count."""

    TEST, VOICES, SIZE, BEFORE = 60, ("en", "en-us", "de", "fr"), 512, 64

    def __init__(self):
        self.model = str(fetch.package("silero-vad") / "silero_vad/data/silero_vad_16k_sequence.onnx")
        random = np.random.default_rng(1)
        words = (machine.ROOT / "LICENSE").read_text().split()
        self.recordings = [self.recording(random, words) for _ in range(LEARN + self.TEST)]

    def recording(self, random, words):
        pieces, spoken = [], []
        for _ in range(2):
            at, voice = random.integers(len(words) - 6), self.VOICES[random.integers(len(self.VOICES))]
            said = speech.say(" ".join(words[at : at + 6]), voice)
            loud = np.flatnonzero(np.abs(said) > 0.01)
            said = said[loud[0] : loud[-1]] * random.uniform(0.2, 1)
            pause = np.zeros(int(random.uniform(0.4, 1.2) * speech.RATE), np.float32)
            pieces, spoken = [*pieces, pause, said], [*spoken, pause, np.ones(len(said), np.float32)]
        pieces, spoken = (np.concatenate([*part, np.zeros(speech.RATE // 2)]).astype(np.float32) for part in (pieces, spoken))
        noise = random.standard_normal(len(pieces)) * 10 ** random.uniform(-3, -1.2)
        padded = np.concatenate([np.zeros(self.BEFORE), np.clip(pieces + noise, -1, 1)]).astype(np.float32)
        begins = range(0, len(pieces) - self.SIZE + 1, self.SIZE)
        share = np.array([spoken[at : at + self.SIZE].mean() for at in begins])
        wide = np.pad(share, 3, mode="edge")
        is_sure = np.ptp(np.lib.stride_tricks.sliding_window_view(wide, 7), axis=1) == 0
        feeds = {"input": np.stack([padded[at : at + self.BEFORE + self.SIZE] for at in begins]),
                 **{name: np.zeros((1, 1, 128), np.float32) for name in ("h", "c")}}
        return feeds, share > 0.5, is_sure

    def data(self):
        return [feeds for feeds, _, _ in self.recordings[:LEARN]]

    def score(self, model):
        right = total = 0
        for feeds, speaks, is_sure in self.recordings[LEARN:]:
            likely = model.run(feeds)[model.outputs[0].name].reshape(-1)
            right, total = right + ((likely > 0.5) == speaks)[is_sure].sum(), total + is_sure.sum()
        return 100 * right / total


class Retrieval:
    """Search among docstrings: given a first sentence, finds the rest of the same docstring, and the reverse."""

    TEST = 300

    def __init__(self):
        self.model = str(folder() / "minilm.onnx")
        language.minilm(Path(self.model))
        tokens = language.minilm_tokens()
        tokens.no_padding()
        pairs = [" ".join(text.split()).split(". ", 1) for text in docstrings()]
        pairs = [pair for pair in pairs if len(pair) == 2 and len(pair[0]) > 40 and len(pair[1]) > 150]
        chosen = np.random.default_rng(2).permutation(len(pairs))[: self.TEST + LEARN // 2]
        self.pairs = []
        for i in chosen:
            encoded = [tokens.encode(text).ids[:96] for text in pairs[i]]
            self.pairs.append([{"ids": np.array([ids]), "mask": np.ones((1, len(ids)), np.int64)} for ids in encoded])

    def data(self):
        return [feeds for pair in self.pairs[self.TEST :] for feeds in pair]

    def score(self, model):
        asked, held = (np.concatenate([model.run(pair[i])["vectors"] for pair in self.pairs[: self.TEST]]) for i in (0, 1))
        return 50 * sum((likeness.argmax(1) == np.arange(self.TEST)).mean() for likeness in (asked @ held.T, held @ asked.T))


class NextWord:
    """The perplexity of a text: how well each next token is predicted; smaller is better."""

    WINDOW, TEST = 256, 32

    def __init__(self):
        self.model = str(folder() / "smollm2.onnx")
        language.smollm2(Path(self.model))
        tokens = language.smollm2_tokens()
        text = np.array(tokens.encode("\n\n".join(paragraphs())).ids)
        windows = text[: len(text) // self.WINDOW * self.WINDOW].reshape(-1, 1, self.WINDOW)
        windows = windows[np.random.default_rng(3).permutation(len(windows))]
        few = LEARN // 6
        # quantisation.py measures on `held_back` whether a model's loss stays within a budget.
        self.learn, self.held_back, rest = np.split(windows, [few, few + 6])
        self.test = rest[: self.TEST]

    def data(self):
        return [{"ids": ids, "past": language.no_past()} for ids in self.learn]

    def score(self, model):
        return self.perplexity(model, self.test)

    @staticmethod
    def perplexity(model, windows):
        lost = []
        for ids in windows:
            scores = model.run({"ids": ids, "past": language.no_past()})["scores"][0, :-1].astype(np.float64)
            scores -= scores.max(1, keepdims=True)
            lost.append(np.log(np.exp(scores).sum(1)) - scores[np.arange(len(scores)), ids[0, 1:]])
        return float(np.exp(np.mean(lost)))


JUDGES = {"text": Text, "files": Files, "speech": Speech, "retrieval": Retrieval, "perplexity": NextWord}
