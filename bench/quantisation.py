# SPDX-License-Identifier: Apache-2.0
"""What quantisation costs, by judges with right answers made here: Weft's own beside onnxruntime's and, where it is installed,
NNCF's, on the same models and the same data.

  ./x python bench/quantisation.py [--judges text,files] [--out results.jsonl]

text: PP-OCRv6 reads lines that are painted small and noisy; the figure is the share of characters that come out right.
files: magika says the type of files of this machine; the figure is the share that their endings agree with.
Every model is run by Weft, which computes what the file says, so that engines differ in the file alone.
"""

import argparse
import json
import logging
import sys
import tempfile
import warnings
from pathlib import Path

import machine
import numpy as np

sys.path[:0] = [str(machine.ROOT / "tests"), str(machine.ROOT / "tests/real_models")]
import places  # noqa: E402, F401
import fetch  # noqa: E402
import pictures  # noqa: E402
import weft  # noqa: E402

LEARN = 100  # items of data

# --- Judges ----------------------------------------------------------------------------------------------------------


class Text:
    """Lines of four words of the licence, from 7 to 11 pixels high."""

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
    """Letters to change, add or leave out."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


class Files:
    """At most 60 files of each ending; every third is for learning."""

    KINDS = {"py": "python", "c": "c", "cpp": "cpp", "js": "javascript", "html": "html", "css": "css", "json": "json",
             "xml": "xml", "md": "markdown", "rst": "rst", "sh": "shell", "txt": "txt", "yaml": "yaml", "toml": "toml",
             "png": "png", "svg": "svg", "gif": "gif", "ini": "ini", "csv": "csv", "pl": "perl", "java": "java",
             "go": "go", "rs": "rust", "cmake": "cmake", "so": "elf", "whl": "zip", "pdf": "pdf"}  # fmt: skip
    ROOTS = ("/usr/share", "/usr/lib/python3", "/usr/include", sys.prefix, str(machine.ROOT))

    def __init__(self):
        folder = fetch.package("magika") / "magika/models/standard_v3_3"
        self.model = str(folder / "model.onnx")
        self.kinds = json.loads((folder / "config.min.json").read_text())["target_labels_space"]
        found = []
        for ending, kind in self.KINDS.items():
            paths = sorted({str(p.resolve()) for root in self.ROOTS for p in Path(root).rglob(f"*.{ending}")})
            usable = [p for p in paths[:: max(1, len(paths) // 80)] if Path(p).is_file() and Path(p).stat().st_size > 200]
            found += [(self.features(Path(p).read_bytes()), kind) for p in usable[:60]]
        self.learn, self.test = found[::3], [f for i, f in enumerate(found) if i % 3]

    @staticmethod
    def features(data):
        """Bytes from both ends without white space; 256 where there are none."""
        begin, end = data[:4096].lstrip()[:1024], data[-4096:].rstrip()[-1024:]
        return np.array([*begin, *[256] * (1024 - len(begin)), *[256] * (1024 - len(end)), *end], np.int32)

    def data(self):
        step = max(1, len(self.learn) // LEARN)
        return [{"bytes": row[None]} for row, _ in self.learn[::step][:LEARN]]

    def score(self, model):
        right = sum(self.kinds[model(row[None])[0].argmax()] == kind for row, kind in self.test)
        return 100 * right / len(self.test)


JUDGES = {"text": Text, "files": Files}

# --- Engines ---------------------------------------------------------------------------------------------------------


def by_weft(**options):
    return lambda judge, out: weft.quantize(judge.model, judge.data(), out, **options)


def by_onnxruntime(method):
    def quantize(judge, out):
        from onnxruntime import quantization as q

        class Reader(q.CalibrationDataReader):
            def __init__(self):
                self.items = iter(judge.data())

            def get_next(self):
                return next(self.items, None)

        ready = out + ".ready.onnx"
        q.shape_inference.quant_pre_process(judge.model, ready, skip_symbolic_shape=True)
        q.quantize_static(ready, out, Reader(), per_channel=True, calibrate_method=q.CalibrationMethod[method],
                          op_types_to_quantize=["Conv", "MatMul", "Gemm"],
                          extra_options={"QDQDisableWeightAdjustForInt32Bias": True})  # which fails for magika in 1.32.0

    return quantize


def by_onnxruntime_dynamic(judge, out):
    from onnxruntime import quantization as q

    q.quantize_dynamic(judge.model, out, per_channel=True, op_types_to_quantize=["MatMul", "Gemm"])


def by_nncf(judge, out):
    import nncf
    import onnx

    onnx.save(nncf.quantize(onnx.load(judge.model), nncf.Dataset(judge.data()), subset_size=LEARN), out)


ENGINES = {
    "weft int8": by_weft(),
    "weft int8 minmax": by_weft(method="minmax"),
    "weft int8 percentile": by_weft(method="percentile"),
    "weft int8 entropy": by_weft(method="entropy"),
    "weft int8 as MIGraphX": by_weft(method="minmax", symmetric=True, per_tensor=True, keep_bias=True),
    "weft fp8": by_weft(to="fp8"),
    "weft int8-dynamic": by_weft(to="int8-dynamic"),
    "weft int4 gptq": by_weft(to="int4", weights="gptq"),
    "onnxruntime minmax": by_onnxruntime("MinMax"),
    "onnxruntime percentile": by_onnxruntime("Percentile"),
    "onnxruntime entropy": by_onnxruntime("Entropy"),
    "onnxruntime dynamic": by_onnxruntime_dynamic,
    "nncf": by_nncf,
}


def measure(judge, engine, folder):
    out = str(Path(folder) / "out.onnx")
    try:
        ENGINES[engine](judge, out)
        return {"score": judge.score(weft.compile(out, device="cpu"))}
    except Exception as error:  # an engine that refuses a model says why in its row
        return {"refused": f"{type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ''}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judges", type=lambda text: text.split(","), default=list(JUDGES))
    parser.add_argument("--engines", type=lambda text: text.split(","), default=list(ENGINES))
    parser.add_argument("--out")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    for name in arguments.judges:
        judge = JUDGES[name]()
        exact = judge.score(weft.compile(judge.model, device="cpu"))
        machine.tell(machine.result("quantisation", {"judge": name, "engine": "float"}, {"score": exact}), arguments.out)
        for engine in arguments.engines:
            with tempfile.TemporaryDirectory() as folder:
                figures = measure(judge, engine, folder)
            if "score" in figures:
                figures["lost"] = exact - figures["score"]
            machine.tell(machine.result("quantisation", {"judge": name, "engine": engine}, figures), arguments.out)


if __name__ == "__main__":
    main()
