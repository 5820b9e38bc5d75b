# SPDX-License-Identifier: Apache-2.0
"""The command line: results, errors, exit codes, help texts and the files that it writes."""

import ctypes
import json
import re
import shlex
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from places import DIGITS, ROOT

MODEL = DIGITS / "digits.onnx"
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
VERBS = ["run", "compile", "perf", "verify", "compare", "reduce", "inspect", "explain", "devices", "doctor", "ops", "knobs", "cache", "tune", "serve"]


@pytest.mark.parametrize("name", NAMES)
def test_run_reads_pictures(weft_command, name):
    done = weft_command("run", MODEL, "--input", DIGITS / f"{name}.png")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.splitlines()[1].split()[0] == name


def test_run_writes_files(weft_command, tmp_path):
    done = weft_command("run", MODEL, "-i", f"image={DIGITS / 'ten.npy'}", "--output", f"probability={tmp_path / 'p.npy'}",
                        "-o", tmp_path / "all.npz", "--json", tmp_path / "p.json")
    assert done.returncode == 0 and done.stdout == ""
    probability = np.load(tmp_path / "p.npy")
    assert probability.argmax(1).tolist() == list(range(10))
    assert np.array_equal(np.load(tmp_path / "all.npz")["probability"], probability)
    report = json.loads((tmp_path / "p.json").read_text())
    assert np.allclose(np.reshape(report["outputs"][0]["values"], (10, 10)), probability)


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("change", [lambda a: a, np.asfortranarray])
def test_numpy_files(weft_command, tmp_path, write, change):
    array = change(np.load(DIGITS / "ten.npy"))
    write(tmp_path / "in.npz", image=array)
    np.save(tmp_path / "in.npy", array)
    for file in ("in.npz", "in.npy"):
        done = weft_command("run", MODEL, "--device", "ref", "-i", tmp_path / file, "-o", tmp_path / "out.npy")
        assert done.returncode == 0, done.stderr
        assert np.load(tmp_path / "out.npy").argmax(1).tolist() == list(range(10))


def jpeg(grey):
    """Returns a grey picture [rows, columns] as a JPEG file, written by the library that Weft reads it with."""
    library = ctypes.CDLL("libturbojpeg.so.0")
    library.tjInitCompress.restype = ctypes.c_void_p
    state, data, size = ctypes.c_void_p(library.tjInitCompress()), ctypes.c_void_p(), ctypes.c_ulong()
    pixels = np.repeat(grey.round().astype(np.uint8)[..., None], 3, 2).tobytes()
    rows, columns = grey.shape
    rgb = without_subsampling = no_flags = 0
    assert library.tjCompress2(state, pixels, columns, 0, rows, rgb, ctypes.byref(data), ctypes.byref(size),
                               without_subsampling, 95, no_flags) == 0
    return ctypes.string_at(data, size.value)


def test_jpeg_and_resizing(weft_command, tmp_path):
    three = np.load(DIGITS / "ten.npy")[3, 0]
    (tmp_path / "three.jpg").write_bytes(jpeg(np.kron(255 * three / three.max(), np.ones((15, 25)))))
    done = weft_command("run", MODEL, "-i", tmp_path / "three.jpg", "--top", 1)
    assert done.stdout.splitlines()[1].split()[0] == "three"


ERRORS = [
    (["bogus"], 2, "E202"),
    (["runn"], 2, "did you mean run"),
    (["run"], 2, "MODEL is missing"),
    (["run", MODEL, "--inptu", "x"], 2, "--input"),
    (["run", MODEL, "extra"], 2, "one argument too many"),
    (["run", MODEL, "--threads"], 2, "--threads: 1 required N missing"),
    (["run", MODEL, "--bf16=yes"], 2, "bf16 was given a disallowed"),
    (["run", MODEL, "--log-level", "loud"], 2, "error, warning, note"),
    (["run", MODEL, "--memory-limit", "4 lots"], 2, "4GiB"),
    (["run", MODEL, "--fill", "rand", "--memory-limit", "1k", "--device", "cpu"], 5, "E401"),
    (["run", MODEL, "--threads", "two"], 2, "E203"),
    (["run", MODEL, "--shape", "image=1,x,8,8"], 2, "E203"),
    (["run", MODEL, "--fill", "image=snow"], 2, "E203"),
    (["run", "missing.onnx"], 2, "E106"),
    (["run", ROOT], 2, "E106"),
    (["run", ROOT / "README.md"], 3, "E102"),
    (["run", MODEL, "--device", "nowhere"], 4, "E501"),
    (["run", MODEL, "-i", "imag=x.npy"], 2, "did you mean image"),
    (["run", MODEL, "-i", ROOT / "LICENSE"], 2, "E212"),
    (["run", MODEL, "-o", "nope=x.npy"], 2, "no output 'nope'"),
    (["run", MODEL, "--symbol", "batch=0", "--shape", "image=3..2,1,8,8"], 2, "E203"),
    (["run", MODEL, "--symbol", "bach=3"], 2, "E310"),
    (["train"], 2, "no verb 'train'"),
    (["tune"], 2, "nothing to do"),
    (["explain", "E999"], 2, "there is no error E999"),
    (["cache", "burn"], 2, "ls or clear"),
    (["compare", DIGITS / "ten.npy"], 2, "REFERENCE is missing"),
]


@pytest.mark.parametrize(("words", "code", "text"), ERRORS)
def test_errors(weft_command, words, code, text):
    done = weft_command(*words)
    assert done.returncode == code, done.stderr
    assert text in done.stderr and done.stdout == ""
    assert re.match(r"error\[E\d{3}\]: ", done.stderr) and "weft explain E" in done.stderr
    assert "\033" not in done.stderr


def test_words_as_json(weft_command):
    """Every line on standard error is an object with a level; an error has its code."""
    done = weft_command("run", MODEL, "--log-json", "--log-level", "note", "--device", "cpu", "--threads", "two")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == 2 and [(line["level"], line["code"]) for line in lines] == [("error", "E203")]
    done = weft_command("run", MODEL, "--log-json", "--device", "cpu")
    assert [json.loads(line)["level"] for line in done.stderr.splitlines()] == ["note"]  # about the random input
    assert weft_command("run", MODEL, "--log-level", "error", "--device", "cpu").stderr == ""


def test_usual_size(weft_command, tmp_path):
    """Random inputs have the usual size of --shape, unless --at gives another size."""
    sizes = ["--shape", "image=1..8:4,1,8,8", "--fill", "rand", "-o", tmp_path / "out.npy"]
    assert weft_command("run", MODEL, *sizes).returncode == 0
    assert np.load(tmp_path / "out.npy").shape[0] == 4
    assert weft_command("run", MODEL, *sizes, "--at", "batch=2").returncode == 0
    assert np.load(tmp_path / "out.npy").shape[0] == 2
    assert "is not a size" in weft_command("run", MODEL, "--shape", "image=1..8:9,1,8,8").stderr


@pytest.mark.parametrize("verb", ["run", "perf", "verify"])
def test_sizes_that_no_input_has(weft_command, verb):
    done = weft_command(verb, MODEL, "--device", "cpu", "--at", "bacth=2")
    assert done.returncode == 2 and "error[E310]: no input has an open size 'bacth'" in done.stderr and "batch" in done.stderr
    done = weft_command(verb, MODEL, "--device", "cpu", "--at", "batch=2", "--symbol", "batch=4")
    assert done.returncode == 2 and "the sizes of all inputs are fixed" in done.stderr


def damaged_models():
    whole = MODEL.read_bytes()
    yield "empty", b"", "E101"
    yield "cut", whole[: len(whole) // 2], "E103"
    yield "lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "E104"
    yield "html", b"<!DOCTYPE html><title>404 Not Found</title>", "E105"
    yield "pickle", b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x04.", "E107"


@pytest.mark.parametrize(("name", "data", "code"), list(damaged_models()))
def test_bad_models(weft_command, tmp_path, name, data, code):
    path = tmp_path / f"{name}.onnx"
    path.write_bytes(data)
    done = weft_command("inspect", path)
    assert done.returncode == 3 and f"error[{code}]" in done.stderr


def npy(header, data=b""):
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def bad_tensor_files():
    yield "nothing.npy", b""
    yield "head.npy", b"\x93NUMPY\x01\x00\xff\xff{"
    yield "short.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9,9), }", b"1234")
    yield "huge.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,8), }")
    yield "negative.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }")
    yield "objects.npy", npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }")
    yield "record.npy", npy("{'descr': [('a','<f4')], 'fortran_order': False, 'shape': (1,), }")
    yield "end.npz", b"PK\x03\x04 and nothing more"
    bomb = zlib.compress(b"\0" * 10_000)[2:-4]
    yield "directory.npz", (b"PK\x03\x04" + bomb + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 3, 3, 100, 7, 0))
    yield "cut.png", (DIGITS / "one.png").read_bytes()[:60]
    yield "cut.jpg", b"\xff\xd8\xff\xe0\x00\x10JFIF\x00"
    yield "damaged.pb", b"\xff\xff\xff\xff"
    tensor = numpy_helper.from_array(np.ones((2, 3), "f"), "x")
    yield "cut.pb", tensor.SerializeToString()[:-5]
    tensor.dims[0] = -1
    yield "negative.pb", tensor.SerializeToString()
    tensor.dims[0] = 2**40
    yield "short.pb", tensor.SerializeToString()
    tensor.data_location = TensorProto.EXTERNAL
    yield "external.pb", tensor.SerializeToString()


@pytest.mark.parametrize(("name", "data"), list(bad_tensor_files()))
def test_bad_tensor_files(weft_command, tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    done = weft_command("run", MODEL, "--device", "ref", "-i", f"image={tmp_path / name}")
    assert done.returncode == 2 and re.match(r"error\[E212\]: ", done.stderr), (done.returncode, done.stderr)


def test_element_types_must_agree(weft_command, tmp_path):
    np.save(tmp_path / "x.npy", np.load(DIGITS / "ten.npy").astype(np.float64))
    done = weft_command("run", MODEL, "-i", tmp_path / "x.npy")
    assert done.returncode == 2 and "E310" in done.stderr and "--cast-inputs" in done.stderr
    done = weft_command("run", MODEL, "-i", tmp_path / "x.npy", "--cast-inputs", "--top", 1)
    assert done.returncode == 0


@pytest.mark.parametrize("verb", VERBS)
def test_help(weft_command, verb):
    done = weft_command(verb, "--help")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and done.stderr == ""
    assert len(lines) <= 64 and max(map(len, lines)) <= 120
    assert weft_command("help", verb).stdout == done.stdout
    assert "std::" not in done.stdout and "examples:" in lines


def examples():
    for verb in VERBS:
        text = (ROOT / "driver" / f"{verb}.cpp").read_text()
        found = re.search(r"\.examples = \{(.*?)\}\}\)", text, re.S).group(1)
        lines = re.findall(r'"((?:[^"\\]|\\.)*)"', found)
        assert len(lines) >= 2, verb
        # Skips examples with names of the reader's own files, which do not exist here.
        yield from (line for line in lines if "model.onnx" not in line and "mine.npz" not in line)


@pytest.mark.parametrize("line", list(examples()))
def test_examples_of_the_help(weft_command, tmp_path, line):
    words = shlex.split(line)
    env = {}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        env[name] = value
    assert words.pop(0) == "weft"
    if words[0] == "cache":
        env["WEFT_CACHE_DIR"] = str(tmp_path)
    words = [str(ROOT / word) if word.startswith("examples/") else word for word in words]
    words = [word.replace("image=examples", f"image={ROOT}/examples") for word in words]
    if words[0] == "perf":
        words += ["--duration", "0.1"]
    done = weft_command(*words, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_processor_without_fused_multiply_add_is_refused(weft_command):
    refused = weft_command("run", MODEL, env={"WEFT_CPU": "x86-64-v2"})
    assert refused.returncode == 4
    assert "E204" in refused.stderr and "x86-64-v3" in refused.stderr


def test_processor_with_some_of_the_machines_features(weft_command):
    """WEFT_CPU takes a level followed by features; features that the machine lacks, and unknown ones, are refused."""
    assert weft_command("run", MODEL, env={"WEFT_CPU": "x86-64-v3+fma"}).returncode == 0
    found = Path("/proc/cpuinfo").read_text()
    for chip, flag in ("x86-64-v4+avx512vnni", "avx512_vnni"), ("x86-64-v3+avxvnni", "avx_vnni"):
        done = weft_command("run", MODEL, env={"WEFT_CPU": chip})
        assert done.returncode == (0 if flag in found else 2)
        assert flag in found or ("E204" in done.stderr and "above this machine" in done.stderr)
    refused = weft_command("run", MODEL, env={"WEFT_CPU": "x86-64-v3+avx1024"})
    assert refused.returncode == 2 and "avx1024" in refused.stderr


def test_parsed_kernel_headers_are_kept_for_other_processes(weft_command, tmp_path):
    """Kernels are compiled with the parsed headers in the cache; damaged files of headers are parsed again. Without the
    cache no parsed headers are kept."""
    def run(*options):
        done = weft_command("run", MODEL, *options, env={"WEFT_CACHE_DIR": str(tmp_path), "WEFT_PACK": "none", "WEFT_DEBUG": "2"})
        assert done.returncode == 0 and "compiled " in done.stderr, done.stderr
        return "headers were parsed" in done.stderr

    def leave_headers():
        headers = max((tmp_path / "kernels").iterdir(), key=lambda file: file.stat().st_size)
        for file in (tmp_path / "kernels").iterdir():
            if file != headers:
                file.unlink()
        return headers

    run("--no-cache")
    assert not (tmp_path / "kernels").exists()
    assert run()
    headers = leave_headers()
    assert not run()
    leave_headers()
    content = bytearray(headers.read_bytes())
    content[len(content) // 2] ^= 1
    headers.write_bytes(content)
    assert run()
    leave_headers()
    assert not run()


def test_saved_program_needs_no_compiler(weft_command, tmp_path):
    saved = tmp_path / "digits.weft"
    assert weft_command("compile", MODEL, "-o", saved).returncode == 0
    away = {"WEFT_CODEGEN": str(tmp_path / "missing.so"), "WEFT_CACHE_DIR": str(tmp_path / "cache")}
    done = weft_command("run", saved, env=away)
    assert done.returncode == 0, done.stderr
    refused = weft_command("run", saved, env={**away, "WEFT_CPU": "x86-64"})
    assert refused.returncode == 4
    assert "E172" in refused.stderr
    content = bytearray(saved.read_bytes())
    content[len(content) // 2] ^= 1
    saved.write_bytes(content)
    refused = weft_command("run", saved, env=away)
    assert refused.returncode == 3
    assert "E170" in refused.stderr


def test_version_loads_neither_compiler_nor_drivers(weft_command):
    done = weft_command("--version", env={"LD_DEBUG": "files"})
    assert re.fullmatch(r"weft \d+\.\d+\.\d+\n", done.stdout)
    assert "libc.so" in done.stderr and not re.search(r"codegen|libcuda|libamdhip|sqlite", done.stderr)


def test_perf_files(weft_command, tmp_path):
    files = {kind: tmp_path / f"perf.{kind}" for kind in ("json", "csv", "trace", "html")}
    words = [word for kind, file in files.items() for word in (f"--{kind}", file)]
    done = weft_command("perf", MODEL, "-n", 5, "--at", "batch=4", *words)
    assert done.returncode == 0, done.stderr
    report = json.loads(files["json"].read_text())
    assert report["schema"] == "weft.perf.1" and report["runs"] == 5
    latency = report["latency_ms"]
    assert 0 < latency["min"] <= latency["median"] <= latency["p99"] <= latency["max"]
    assert report["items_per_second"] == pytest.approx(4 * report["inferences_per_second"])
    assert sum(step["share"] for step in report["steps"]) == pytest.approx(1)
    trace = json.loads(files["trace"].read_text())["traceEvents"]
    steps = [event for event in trace if event.get("cat") == "step"]
    assert len(steps) == len(report["steps"]) and all(event["dur"] >= 0 for event in steps)
    assert len(files["csv"].read_text().splitlines()) == 1 + len(report["steps"])
    page = files["html"].read_text()
    assert "/*DATA*/" not in page and "http://" not in page.replace("http://www.w3.org/2000/svg", "") and "https://" not in page
    data = json.loads(re.search(r"const data = (.*);", page).group(1))
    assert data["graph"]["nodes"] and len(data["runs_ms"]) == 5


def test_verbs_that_write_take_o_and_say_what_they_wrote(weft_command, tmp_path):
    """Each written file is reported by a line on standard error, but not with -q; `-` writes to standard output without
    a report."""
    words = {"run": ["all.npz"], "compile": ["p.weft"], "perf": ["p.json", "p.csv", "p.trace", "p.html"], "verify": ["v.json"],
             "inspect": ["m.txt"], "devices": ["d.json"], "doctor": ["h.json"], "knobs": ["k.json"], "tune": ["t.json"]}
    for verb, files in words.items():
        model = [MODEL, "--device", "cpu"] if verb in ("run", "compile", "perf", "verify", "inspect") else []
        more = ["-n", "1", "--duration", "0.01"] if verb == "perf" else []
        named = [word for file in files for word in ("-o", tmp_path / file)]
        done = weft_command(verb, *model, *more, *named)
        assert done.returncode == 0, done.stderr
        said = [line for line in done.stderr.splitlines() if line.startswith("wrote ")]
        assert len(said) == len(files) and all(str(tmp_path / f) in line for f, line in zip(files, said)), done.stderr
        assert all((tmp_path / file).stat().st_size > 0 for file in files)
        assert "wrote" not in weft_command(verb, *model, *more, *named, "-q").stderr
    assert "wrote" not in weft_command("knobs", "-o", "-").stderr
    assert "ends in none of" in weft_command("perf", MODEL, "-o", tmp_path / "p.txt").stderr


def test_perf_compares_with_the_precision_used(weft_command):
    """The roofline of a bf16 product uses the processor's rate for 16 bits, not its f32 rate."""
    for precision in ("f32", "bf16"):
        words = ["perf", MODEL, "--device", "cpu", "--precision", precision, "-n", "1", "--duration", "0.01", "--json", "-"]
        report = json.loads(weft_command(*words).stdout)
        peaks, steps = report["peak_gflops"], report["steps"]
        assert peaks["i8"] > peaks["f32"] == 2 * peaks["f64"] and peaks["f16"] >= peaks["f32"]
        products = [step for step in steps if step["kernel"].startswith(("conv_", "dot_", "winograd"))]
        of = peaks["f32" if precision == "f32" else "f16"]
        assert products and all(step["peak_gflops"] == of for step in products if f"_{precision}_" in step["kernel"])
        assert all(step["roofline"] > 0 for step in products)


def test_perf_to_stdout_is_json_only(weft_command):
    done = weft_command("perf", MODEL, "-n", 2, "--json", "-")
    assert json.loads(done.stdout)["runs"] == 2


def test_verify(weft_command):
    done = weft_command("verify", MODEL, "--device", "cpu", "-i", DIGITS / "ten.npy")
    assert done.returncode == 0 and "same" in done.stdout, done.stderr
    done = weft_command("verify", MODEL, "--device", "cpu", "--at", "batch=3", "--json", "-")
    assert json.loads(done.stdout)["same"] is True


HALF = """<ir_version: 10, opset_import: ["" : 20]>
f (float[n, 64] x) => (float[n, 64] y)
{ a = Cast <to = 10> (x)  b = Transpose (a)  c = MatMul (a, b)  d = Softmax (c)  e = MatMul (d, a)  f = MatMul (c, e)
  y = Cast <to = 1> (f) }"""


def test_verify_allows_for_sixteen_bits_inside_a_model(weft_command, tmp_path):
    """Sums in another order are rounded to other f16, so the difference is larger than f32 may have."""
    import onnx

    (tmp_path / "m.onnx").write_bytes(onnx.parser.parse_model(HALF).SerializeToString())
    words = ["verify", tmp_path / "m.onnx", "--device", "cpu", "--at", "n=99"]
    assert weft_command(*words, "--norm", "2e-5").returncode == 1
    for more in [], ["--bisect"]:
        done = weft_command(*words, *more)
        assert done.returncode == 0, done.stdout + done.stderr


def test_verify_against_onnxruntime(weft_command):
    import sys

    done = weft_command("verify", MODEL, "--against", "onnxruntime", "--python", sys.executable, "-i", DIGITS / "ten.npy")
    assert done.returncode == 0 and "same" in done.stdout, done.stderr
    done = weft_command("verify", MODEL, "--against", "onnxruntime", "--python", "no-such-python")
    assert done.returncode == 4 and "E216" in done.stderr


CONCATENATION = """<ir_version: 10, opset_import: ["" : 20]>
f (float[n, 6] x) => (float[n, 18] y, float[n, 18] z)
{ a = Softmax (x)  b = Softmax <axis = 0> (x)  t = Tanh (x)  c = Softmax (t)  d = Concat <axis = 1> (a, b, c)
  y = Softmax (d)  z = Concat <axis = 1> (c, b, t) }"""


def test_bisect_waits_for_the_last_part_of_a_concatenation(weft_command, tmp_path):
    """The parts of a concatenation are copied one after another, and until the last copy the buffer contains old
    values; bisection compares it only after that copy."""
    import onnx

    (tmp_path / "m.onnx").write_bytes(onnx.parser.parse_model(CONCATENATION).SerializeToString())
    words = ["verify", tmp_path / "m.onnx", "--device", "cpu", "--at", "n=5", "--bisect"]
    sound = weft_command(*words, "--per-instruction")
    assert sound.returncode == 0, sound.stdout + sound.stderr
    assert sum("(Concat)" in line for line in sound.stdout.splitlines()) == 2, sound.stdout
    broken = weft_command(*words, env={"WEFT_BREAK_KERNEL": "softmax_tanh"})
    assert broken.returncode == 1 and "kernel: softmax_tanh" in broken.stdout, broken.stdout


def test_bisect_names_the_broken_kernel(weft_command):
    sound = weft_command("verify", MODEL, "--device", "cpu", "--bisect", "-i", DIGITS / "ten.npy")
    assert sound.returncode == 0, sound.stdout + sound.stderr
    kernels = [line.split()[1] for line in weft_command("explain", MODEL, "--device", "cpu").stdout.splitlines()
               if re.match(r"\d+  ", line)]
    broken = kernels[len(kernels) // 2]
    done = weft_command("verify", MODEL, "--device", "cpu", "--bisect", "-i", DIGITS / "ten.npy", env={"WEFT_BREAK_KERNEL": broken})
    assert done.returncode == 1 and f"kernel: {broken}" in done.stdout, done.stdout + done.stderr


def test_compare(weft_command, tmp_path):
    array = np.linspace(-1, 1, 12).reshape(3, 4)
    np.save(tmp_path / "a.npy", array)
    array[1, 2] += 0.5
    np.save(tmp_path / "b.npy", array)
    assert weft_command("compare", tmp_path / "a.npy", tmp_path / "a.npy").returncode == 0
    done = weft_command("compare", tmp_path / "b.npy", tmp_path / "a.npy")
    assert done.returncode == 1 and "[1, 2]" in done.stdout
    assert weft_command("compare", tmp_path / "b.npy", tmp_path / "a.npy", "--atol", 0.6).returncode == 0


def test_inspect(weft_command):
    assert "f32[batch,1,8,8]" in weft_command("inspect", MODEL).stdout
    assert weft_command("inspect", MODEL, "--ir").stdout.startswith("program ")
    assert weft_command("inspect", MODEL, "--dot").stdout.startswith("digraph ")
    assert "supported" in weft_command("inspect", MODEL, "--support").stdout
    assert json.loads(weft_command("inspect", MODEL, "--json", "-").stdout)["operators"]["convolution"] == 3


READ = [(r"environ(?:\.get|\.pop|\.setdefault)?[\[(]\s*[\"'](WEFT_[A-Z_]+)", "*.py"), (r"\$\{?(WEFT_[A-Z_]+)", "x"),
        (r"(?:getenv|environment)\(\"(WEFT_[A-Z_]+)", "*.cpp"), (r"(?:getenv|environment)\(\"(WEFT_[A-Z_]+)", "*.h")]


def test_no_warning_about_variables_that_wefts_own_programs_read(weft_command):
    """Variables of the tests, the benchmarks, ./x, the plug-in and the drop-in cause no warning."""
    files = [f for folder in ("src", "driver", "api", "ort", "migraphx", "adapters", "tests", "tools", "bench", "examples", ".")
             for _, pattern in READ for f in (ROOT / folder).glob(pattern if folder == "." else f"**/{pattern}")]
    read = {name for file in files for pattern, kind in READ if file.match(kind)
            for name in re.findall(pattern, file.read_text(errors="replace"))} - {"WEFT_TRHEADS"}
    assert {"WEFT_HIP_CHIP", "WEFT_TEST_FULL", "WEFT_BUILD", "WEFT_BENCH_CACHE", "WEFT_KC", "WEFT_MODELS"} <= read
    done = weft_command("--version", env=dict.fromkeys(read, "1"))
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr


def test_unknown_knobs_are_warned_about(weft_command):
    done = weft_command("--version", env={"WEFT_TRHEADS": "1"})
    assert done.returncode == 0 and "WEFT_TRHEADS" in done.stderr and "WEFT_THREADS" in done.stderr


def test_every_code_is_documented():
    sources = [p for top in ("src", "api", "driver") for p in (ROOT / top).rglob("*") if p.suffix in (".cpp", ".h", ".py")]
    used = {code for path in sources for code in re.findall(r'"([EW]\d{3})"', path.read_text())}
    rows = re.findall(r"^\| ([EW]\d{3}) \|", (ROOT / "docs" / "errors.md").read_text(), re.M)
    assert used and sorted(used - set(rows)) == []
    assert len(rows) == len(set(rows)) and rows == sorted(rows)


@pytest.mark.parametrize("precision", ["f32", "bf16", "f16"])
def test_reduce_leaves_the_node_that_fails(weft_command, tmp_path, monkeypatch, precision):
    """A kernel is broken on purpose. `weft reduce` leaves one of eight nodes, the node of the broken kernel, with its
    operands."""
    import onnx

    text = """<ir_version: 10, opset_import: ["" : 20]>
    f (float[n, 6] x) => (float[n, 4] y, float[n, 6] z) <float[6, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6, 5, 4, 3, 2, 1, 2, 3, 4, 5, 6, 7, 8}>
    { a = Tanh (x)  b = MatMul (a, w)  c = Neg (b)  d = Softmax (c)  e = Exp (d)  y = Abs (e)  f = Sin (a)  z = Cos (f) }"""
    (tmp_path / "model.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
    small = tmp_path / "small"
    monkeypatch.setenv("WEFT_BREAK_KERNEL", "softmax")
    words = ["reduce", tmp_path / "model.onnx", "-o", small, "--at", "n=3", "--precision", precision]
    done = weft_command(*words)
    assert done.returncode == 0, done.stderr
    assert f"wrote {small}: model.onnx and its inputs" in done.stderr
    model = onnx.load(small / "model.onnx")
    assert [node.op_type for node in model.graph.node] == ["Softmax"]
    assert numpy_helper.to_array(onnx.load_tensor(small / "input_0.pb")).shape == (3, 4)
    monkeypatch.delenv("WEFT_BREAK_KERNEL")
    done = weft_command(*words)
    assert done.returncode == 2 and "does not fail" in done.stderr


@pytest.mark.parametrize("node, code", [("Softmax <axis = 9> (c)", "E143"), ("Frobnicate (c)", "E120")])
def test_reduce_leaves_the_node_that_is_refused(weft_command, tmp_path, node, code):
    """`weft reduce` computes the nodes before the refused one, and leaves out the nodes after it."""
    import onnx

    text = f"""<ir_version: 10, opset_import: ["" : 20]>
    f (float[1, 2, n] x) => (float[1, 2, m] y, float[1, 2, n] z)
    {{ a = Tanh (x)  b = Neg (a)  c = Abs (b)  d = {node}  y = Cos (d)  z = Cos (b) }}"""
    (tmp_path / "model.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
    small = tmp_path / "small"
    done = weft_command("reduce", tmp_path / "model.onnx", "-o", small, "--at", "n=5")
    assert done.returncode == 0, done.stderr
    assert code in done.stdout and "first 3 nodes" in done.stderr
    model = onnx.load(small / "model.onnx")
    assert len(model.graph.node) == 1 and model.graph.node[0].input == ["c"]
    assert [d.dim_param for d in model.graph.input[0].type.tensor_type.shape.dim] == ["", "", "n"]
