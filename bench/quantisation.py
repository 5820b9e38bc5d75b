# SPDX-License-Identifier: Apache-2.0
"""Measures what quantisation costs: how many answers stay right, by tasks whose right answers are known (judges.py).
Weft, onnxruntime and NNCF quantise the same models with the same data. Also times the quantised models and the f32
models on one thread.

  ./x python bench/quantisation.py [--judges text,files,speed] [--engines "weft int8"] [--out results.jsonl]

- text: PP-OCRv6 reads lines that are painted small and noisy; the figure is the share of characters that are right.
- files: magika names the types of files of this machine; the figure is the share that agrees with their extensions.
- speech: silero detects speech in noise; the figure is the share of pieces of 32 ms that are right.
- retrieval: MiniLM finds the rest of a docstring by its first sentence, and the reverse; the figure is how often the
  right text comes first.
- perplexity: SmolLM2 predicts the words of scikit-image's documentation.
- speed: processor times. WEFT_CPU=x86-64-v4+avx512vnni measures as on a processor without AMX.
- walk: times the commands of docs/quantisation.md, "In five minutes".
- bits: whether the integers of int8 models are equal on each device and in each run; WEFT_HIP_LIBRARY may name an
  emulated GPU.

Weft runs every model as its file says, so only the files of the engines differ. Peers are measured where they are
installed: ./x python -m pip install nncf==3.4.0 onnx_ir==1.0.0
"""

import argparse
import logging
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import judges  # judges adds the packages of the tests to sys.path
import machine
import models.fill
import numpy as np
import onnx
import places  # noqa: F401
import weft

# --- Engines ---------------------------------------------------------------------------------------------------------


def by_weft(**options):
    return lambda judge, out: weft.quantize(judge.model, judge.data(), out, **options)


def within(share, **options):
    """Returns a function that quantises as many layers as a budget allows. The budget is `share`, a relative loss of
    perplexity on held-back data."""

    def quantize(judge, out):
        weft.quantize(judge.model, judge.data(), out, budget=share, **options,
                      metric=lambda path: -judge.perplexity(weft.compile(path, device="cpu"), judge.held_back))

    return quantize


class Reader:
    """A calibration reader for onnxruntime. Gives all items, or those of the range that `set_range` chooses."""

    def __init__(self, items):
        self.items = items
        self.set_range(0, len(items))

    def __len__(self):
        return len(self.items)

    def __iter__(self):
        return iter(self.items)

    def set_range(self, start_index, end_index):
        self.rest = iter(self.items[start_index:end_index])

    def get_next(self):
        return next(self.rest, None)


def by_onnxruntime(method):
    def quantize(judge, out):
        from onnxruntime import quantization as q

        q.CalibrationDataReader.register(Reader)
        ready = out + ".ready.onnx"
        q.shape_inference.quant_pre_process(judge.model, ready, skip_symbolic_shape=True)
        q.quantize_static(ready, out, Reader(judge.data()), per_channel=True, calibrate_method=q.CalibrationMethod[method],
                          op_types_to_quantize=["Conv", "MatMul", "Gemm"],
                          extra_options={"QDQDisableWeightAdjustForInt32Bias": True,  # the adjustment fails for magika in 1.32.0
                                         "CalibStridedMinMax": 1})  # one item at a time, because their sizes differ

    return quantize


def by_onnxruntime_dynamic(judge, out):
    from onnxruntime import quantization as q

    q.quantize_dynamic(judge.model, out, per_channel=True, op_types_to_quantize=["MatMul", "Gemm"])


def by_onnxruntime_blocks(method=None):
    def quantize(judge, out):
        from onnxruntime.quantization import CalibrationDataReader
        from onnxruntime.quantization import matmul_nbits_quantizer as q

        CalibrationDataReader.register(Reader)
        config = {None: lambda: None,
                  "hqq": lambda: q.HQQWeightOnlyQuantConfig(block_size=32),
                  "k_quant": q.KQuantWeightOnlyQuantConfig,
                  "gptq": lambda: q.GPTQWeightOnlyQuantConfig(Reader(judge.data()), actorder=True, mse=True),
                  }[method]()
        maker = q.MatMulNBitsQuantizer(onnx.load(judge.model), block_size=32, is_symmetric=False, algo_config=config)
        maker.process()
        maker.model.save_model_to_file(out, use_external_data_format=False)

    return quantize


def by_nncf(is_transformer=False):
    def quantize(judge, out):
        import nncf

        kind = nncf.ModelType.TRANSFORMER if is_transformer else None
        onnx.save(nncf.quantize(onnx.load(judge.model), nncf.Dataset(judge.data()), subset_size=judges.LEARN, model_type=kind), out)

    return quantize


def by_nncf_blocks(**how):
    def quantize(judge, out):
        import nncf

        made = nncf.compress_weights(onnx.load(judge.model), mode=nncf.CompressWeightsMode.INT4_ASYM, group_size=32, all_layers=True,
                                     dataset=nncf.Dataset(judge.data()) if how else None, subset_size=len(judge.data()), **how)
        onnx.save(made, out)

    return quantize


ENGINES = {
    "weft int8": by_weft(),
    "weft int8 minmax": by_weft(method="minmax"),
    "weft int8 entropy": by_weft(method="entropy"),
    "weft int8 as MIGraphX": by_weft(method="minmax", symmetric=True, per_tensor=True, keep_bias=True),
    "weft fp8": by_weft(to="fp8"),
    "weft int8-dynamic": by_weft(to="int8-dynamic"),
    "weft int4 gptq": by_weft(to="int4", weights="gptq"),
    "onnxruntime minmax": by_onnxruntime("MinMax"),
    "onnxruntime percentile": by_onnxruntime("Percentile"),
    "onnxruntime entropy": by_onnxruntime("Entropy"),
    "onnxruntime dynamic": by_onnxruntime_dynamic,
    "nncf": by_nncf(),
    "nncf transformer": by_nncf(is_transformer=True),
}
# The engines for the judge `perplexity`, whose model is large and has large outliers.
LANGUAGE = {
    "weft int8": by_weft(),
    "weft int8 smooth": by_weft(smooth=0.5),
    "weft int8 smooth gptq within 2 %": within(0.02, smooth=0.5, weights="gptq"),
    "weft fp8": by_weft(to="fp8"),
    "weft fp8 within 1 %": within(0.01, to="fp8"),
    "weft int8-dynamic": by_weft(to="int8-dynamic"),
    "weft int8-weights": by_weft(to="int8-weights"),
    "weft int4": by_weft(to="int4"),
    "weft int4 nearest": by_weft(to="int4", weights="nearest"),
    "weft int4 hqq": by_weft(to="int4", weights="hqq"),
    "weft int4 awq": by_weft(to="int4", weights="awq"),
    "onnxruntime dynamic": by_onnxruntime_dynamic,
    "onnxruntime minmax": by_onnxruntime("MinMax"),
    "nncf": by_nncf(),
    "nncf transformer": by_nncf(is_transformer=True),
    "onnxruntime int4": by_onnxruntime_blocks(),
    "onnxruntime int4 hqq": by_onnxruntime_blocks("hqq"),
    "onnxruntime int4 k-quant": by_onnxruntime_blocks("k_quant"),
    "onnxruntime int4 gptq": by_onnxruntime_blocks("gptq"),
    "nncf int4": by_nncf_blocks(),
    "nncf int4 awq": by_nncf_blocks(awq=True, scale_estimation=True),
}


def mended_axes(path):
    """Corrects the axis of each DequantizeLinear of a constant if it does not fit the scale; returns the number of
    corrected nodes. onnxruntime 1.32 writes a wrong axis for the last bias of magika, [1, 214], and NNCF 3.4 for a
    Gemm's transposed weight in blocks. onnxruntime cannot run such files."""
    model = onnx.load(path)
    dims = {w.name: list(w.dims) for w in model.graph.initializer}
    count = 0
    for node in model.graph.node:
        if node.op_type != "DequantizeLinear" or not all(name in dims for name in node.input[:2]) or not dims[node.input[1]]:
            continue
        x, scale = (dims[name] for name in node.input[:2])
        block = next((a.i for a in node.attribute if a.name == "block_size"), 0)

        def wanted(axis, x=x, block=block):
            return [-(-size // block) if i == axis else size for i, size in enumerate(x)] if block else [x[axis]]

        axes = [a for a in node.attribute if a.name == "axis"]
        fitting = [axis for axis in range(len(x)) if wanted(axis) == scale]
        if fitting and axes and axes[0].i % len(x) not in fitting:
            axes[0].i, count = fitting[0], count + 1
    if count:
        onnx.save(model, path)
    return count


def engines_of(judge):
    return LANGUAGE if judge == "perplexity" else ENGINES


def measure(judge, name, engine, folder):
    out = str(Path(folder) / "out.onnx")
    key = "perplexity" if name == "perplexity" else "score"
    start = time.monotonic()
    try:
        engines_of(name)[engine](judge, out)
        made = time.monotonic()
        more = {"axes corrected": count} if not engine.startswith("weft") and (count := mended_axes(out)) else {}
        figure = judge.score(weft.compile(out, device="cpu"))
        return {key: figure, "seconds to quantise": made - start, "MB": Path(out).stat().st_size / 1e6, **more}
    except Exception as error:  # a row records why an engine refuses a model
        return {"refused": f"{type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ''}"}


def compare(name, chosen, out):
    judge = judges.JUDGES[name]()
    key = "perplexity" if name == "perplexity" else "score"
    exact = judge.score(weft.compile(judge.model, device="cpu"))
    machine.tell(machine.result("quantisation", {"judge": name, "engine": "float"}, {key: exact}), out)
    for engine in chosen or engines_of(name):
        if engine not in engines_of(name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            figures = measure(judge, name, engine, folder)
        if "score" in figures:
            figures["lost"] = exact - figures["score"]
        if "perplexity" in figures:
            figures["of the float's"] = figures["perplexity"] / exact
        machine.tell(machine.result("quantisation", {"judge": name, "engine": engine}, figures), out)


# --- Speed -----------------------------------------------------------------------------------------------------------


def seconds(calls, least=5, limit=6):
    """Returns for each function the median processor time of a call. The functions alternate for `limit` seconds, and
    for at least `least` rounds."""
    times, end = [[] for _ in calls], time.monotonic() + limit
    for call in calls:
        call()
    while time.monotonic() < end or len(times[0]) < least:
        for call, taken in zip(calls, times, strict=True):
            start = time.process_time()
            call()
            taken.append(time.process_time() - start)
    return [statistics.median(taken) for taken in times]


def onnxruntime_run(path, feeds):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {name: np.asarray(value) for name, value in feeds.items()}
    return lambda: session.run(None, feeds)


def speed(model, feeds, data, of, out, **options):
    with tempfile.TemporaryDirectory() as folder:
        made = str(Path(folder) / "out.onnx")
        weft.quantize(model, data, made, **options)
        both = [weft.compile(path, device="cpu", threads=1) for path in (model, made)]
        peer = [] if "level" in of else [onnxruntime_run(made, feeds)]  # onnxruntime ignores WEFT_CPU
    floats, small, *other = seconds([*(lambda run=run: run.run(feeds) for run in both), *peer])
    values = {"ms": small * 1e3, "ms of f32": floats * 1e3, "times f32": floats / small}
    machine.tell(machine.result("speed of quantised models", of, values, {"onnxruntime": {"ms": ms * 1e3} for ms in other}), out)


def speeds(out):
    level = {"level": os.environ["WEFT_CPU"]} if os.environ.get("WEFT_CPU") else {}
    for name, sizes in ("resnet50", {"batch": 1}), ("bert_base", {"batch": 1, "seq": 128}):
        feeds = models.fill.feeds(name, sizes)
        data = [models.fill.feeds(name, sizes, seed=i + 2) for i in range(4)]
        for to in ("int8", "int8-dynamic") if name == "bert_base" else ("int8",):
            speed(models.fill.cached(name), feeds, data, {"model": name, "sizes": sizes, "to": to, **level}, out, to=to)
    decoder = judges.folder() / "decoder.onnx"
    judges.language.smollm2(decoder, is_drawn=True)
    past = np.random.default_rng(0).standard_normal((30, 2, 1, 3, 128, 64)).astype("f") / 8
    for to in "int8-weights", "int4":
        of = {"model": "SmolLM2-135M", "sizes": {"past": 128}, "to": to, **level}
        speed(decoder, {"ids": [[42]], "past": past}, None, of, out, to=to)


# --- Bits ------------------------------------------------------------------------------------------------------------

# A script that each device runs in a process of its own. Each of its three runs prints the number of integer results
# and one digest of all of them.
DIGESTS = """
import hashlib, sys, numpy as np, weft
run, feeds = weft.compile(sys.argv[1], device=sys.argv[2], threads=int(sys.argv[3])).run, dict(np.load(sys.argv[4]))
for _ in range(3):
    whole = {name: np.asarray(y) for name, y in sorted(run(feeds).items()) if np.asarray(y).dtype.kind in "iu"}
    print(len(whole), hashlib.sha256(b"".join(y.tobytes() for y in whole.values())).hexdigest())
"""


def steps_as_outputs(path):
    """Adds the results of all QuantizeLinear nodes to the model's outputs."""
    model = onnx.load(path)
    types = {w.name: w.data_type for w in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            model.graph.output.append(onnx.helper.make_tensor_value_info(node.output[0], types[node.input[2]], None))
    onnx.save(model, path)


def bits(out):
    """Runs int8 models three times on each device. Counts the runs with the same integers as the first device, bit by
    bit. An AMD GPU, which may be emulated, runs the small model only."""
    digits = machine.ROOT / "examples/digits/digits.onnx"
    random = [{"image": np.random.default_rng(i).random((1, 1, 8, 8), np.float32)} for i in range(8)]
    cases = [("digits", digits, random)]
    for name in "mobilenet_v3_large", "resnet50":
        cases.append((name, models.fill.cached(name), [models.fill.feeds(name, {"batch": 1}, seed=i) for i in range(4)]))
    gpus = ["nvidia:0"] * bool(shutil.which("nvidia-smi")) + ["amd:0"] * ("WEFT_HIP_LIBRARY" in os.environ)
    with tempfile.TemporaryDirectory() as folder:
        for name, model, data in cases:
            small, feeds = f"{folder}/{name}.onnx", f"{folder}/{name}.npz"
            weft.quantize(model, data[1:], small)
            steps_as_outputs(small)
            np.savez(feeds, **data[0])
            right = None
            places = [("cpu", 1, level) for level in ("", "x86-64-v4", "x86-64-v3")] + [("cpu", 2, "")]
            places += [(gpu, 1, "") for gpu in gpus if name == "digits" or gpu == "nvidia:0"]
            for device, threads, level in [("ref", 1, "")] * (name == "digits") + places:
                words = [sys.executable, "-c", DIGESTS, small, device, str(threads), feeds]
                done = subprocess.run(words, env=os.environ | {"WEFT_CPU": level}, capture_output=True, text=True)
                lines = done.stdout.split("\n")[:-1]
                right = right or lines[0]
                of = {"model": name, "device": device, "threads": threads, "level": level or "of the machine"}
                values = {"integer tensors": int(right.split()[0]), "runs": 3, "equal runs": sum(line == right for line in lines)}
                row = machine.result("bits of quantised models", of, values, machine=machine.of_device(device))
                machine.tell(row | ({"note": done.stderr[-300:]} if done.returncode else {}), out)


# --- The walk-through ------------------------------------------------------------------------------------------------


def walk(out):
    """Runs the commands of docs/quantisation.md, "In five minutes", unchanged."""
    text = (machine.ROOT / "docs/quantisation.md").read_text().split("## In five minutes")[1].split("\n## ")[0]
    blocks = re.findall(r"```(\w*)\n(.*?)```", text, re.S)
    made = [machine.ROOT / name for name in ("digits8.onnx", "digits8.json")]
    start = time.monotonic()
    for language, lines in blocks:
        words = ["./x", "python", "-c", lines] if language == "python" else ["bash", "-ec", lines]
        subprocess.run(words, cwd=machine.ROOT, check=True, stdout=sys.stderr)
    values = {"commands": sum(len(lines.splitlines()) if not language else 1 for language, lines in blocks), "s": time.monotonic() - start,
              "files written": sum(path.exists() for path in made)}
    for path in made:
        path.unlink(missing_ok=True)
    machine.tell(machine.result("walk-through of quantisation", {"page": "docs/quantisation.md"}, values), out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judges", type=lambda text: text.split(","), default=[*judges.JUDGES, "speed", "bits", "walk"])
    parser.add_argument("--engines", type=lambda text: text.split(","))
    parser.add_argument("--out")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    for name in arguments.judges:
        if name == "speed":
            speeds(arguments.out)
        elif name == "bits":
            bits(arguments.out)
        elif name == "walk":
            walk(arguments.out)
        else:
            compare(name, arguments.engines, arguments.out)


if __name__ == "__main__":
    main()
