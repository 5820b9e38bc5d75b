# SPDX-License-Identifier: Apache-2.0
"""The sample kernels compile for every family of chips, without spills; products use the chip's matrix instruction. On
this CPU the sample kernels also run, without and with checks, and are compared with numpy.

A plain run compiles one of three sample files for each chip, a different file each day.

WEFT_KC names the compiler driver; the default is that of the release build.
"""
import os
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest

import cases
import checks
import run_cpu

ROOT = pathlib.Path(__file__).resolve().parents[2]
KC = os.environ.get("WEFT_KC", str(ROOT / "build/release/bin/weft-kc"))
HERE = pathlib.Path(__file__).parent
# A chip of every family of CPUs, with the features that kernels use. Not all of them can run on this machine.
ZEN4 = "x86-64-v4+avx512bf16+avx512vnni"
CPUS = {"x86-64-v3": "x86-64-v3", "x86-64-v4": "x86-64-v4", "znver4": ZEN4,
        "sapphirerapids": ZEN4 + "+amx-tile+amx-int8+amx-bf16", "aarch64": "aarch64"}
CPU_SAMPLES = ["samples", "samples_f32", "samples_int8"]  # the others use features of GPUs
# The instruction that sample_gemm_f16_nk must contain.
GPUS = {"gfx908": "v_mfma_f32_16x16x16", "gfx90a": "v_mfma_f32_16x16x16", "gfx942": "v_mfma_f32_16x16x16", "gfx1030": "v_fma",
        "gfx1100": "v_wmma_f32_16x16x16_f16",        "gfx1151": "v_wmma_f32_16x16x16_f16", "gfx1201": "v_wmma_f32_16x16x16_f16", "sm_80": "mma.sync.aligned.m16n8k16",
        "sm_90a": "mma.sync.aligned.m16n8k16"}


def compile_sample(name, chip, out, *options):
    """Builds an image; returns the output of weft-kc."""
    command = [KC, str(HERE / f"{name}.cpp"), "--chip", chip, "-o", str(out), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    said = f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    assert done.returncode == 0 and "warning:" not in done.stderr, said
    return done.stdout


def runs_here(chip):
    """True if this processor has all features that code for the chip may use."""
    info = pathlib.Path("/proc/cpuinfo").read_text()
    has = {flag.replace("_", "") for line in info.splitlines() if line.startswith("flags") for flag in line.split()}
    level, *features = chip.replace("-", "").split("+")
    needs = {"x8664v3": ["avx2", "fma"], "x8664v4": ["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"]}
    return level in needs and has.issuperset(needs[level] + features)


def check_resources(text):
    """Checks that no vector register is spilled and no lane needs private memory, except in the sample of all
    functions."""
    for kernel, spills, scratch in re.findall(r"(\w+): \d+ vgpr .* spills (\d+)\+\d+, scratch (\d+)", text):
        if kernel != "sample_math":
            assert (int(spills), int(scratch)) == (0, 0), f"{kernel} spills {spills} vector registers, scratch {scratch}"


@pytest.mark.rotates(3)
@pytest.mark.parametrize("name", ["samples", "samples_gemm", "samples_groups"])
@pytest.mark.parametrize("chip", GPUS)
def test_gpu(chip, name, tmp_path):
    image = tmp_path / name
    text = compile_sample(name, chip, image, "--asm")
    check_resources(text)
    assert name != "samples_gemm" or GPUS[chip] in text
    assert name != "samples_groups" or ("wgmma.mma_async" in text) == (chip == "sm_90a")
    if chip.startswith("sm") and shutil.which("ptxas"):
        image.write_bytes(image.read_bytes().rstrip(b"\0"))  # the driver needs a terminating zero, ptxas refuses it
        done = subprocess.run(["ptxas", f"-arch={chip}", "-v", str(image), "-o", "/dev/null"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert all(n == "0" for n in re.findall(r"(\d+) bytes spill stores", done.stderr))
        assert "are serialized" not in done.stderr  # else wgmma would wait for each product


@pytest.mark.rotates(3)
@pytest.mark.parametrize("name", CPU_SAMPLES)
@pytest.mark.parametrize("family", CPUS)
def test_cpu_compiles(family, name, tmp_path):
    """Samples compile without a warning. If this processor can run the chip's code, the results of samples.cpp are
    compared with numpy."""
    chip, library = CPUS[family], tmp_path / f"{name}.so"
    compile_sample(name, chip, library, "--warnings")
    if name == "samples" and runs_here(chip):
        assert checks.check(run_cpu.Cpu([library]), cases.all_cases(small=True)) == 0


# Chip, features, registers, and the number and name of the multiplications in the innermost loop: vpdpbusd multiplies
# bytes, vpdpwssd and vpmaddwd 16-bit integers.
INT8 = [("x86-64-v4", "+avx512vnni", "zmm", 24, "vpdpbusd"), ("x86-64-v4", "+avx512vnni", "zmm", 24, "vpdpwssd"),
         ("x86-64-v3", "+avxvnni", "ymm", 12, "vpdpbusd"),
        ("x86-64-v4", "", "zmm", 24, "vpmaddwd"), ("x86-64-v3", "", "ymm", 12, "vpmaddwd"),
        ("x86-64-v3", "", "ymm", 8, "vpmaddwd")]  # the last: MacQuads, with units of four numbers


@pytest.mark.parametrize("chip,features,register,count,instruction", INT8)
def test_integer_products(chip, features, register, count, instruction, tmp_path):
    """The innermost loop of a product computes a whole tile, and keeps its sums in registers."""
    options = ["--features", features] if features else []
    text = compile_sample("samples_int8", chip, tmp_path / "int8.so", "--asm", *options)
    # A loop: the code between two jumps, where the second one jumps backwards.
    loops = re.findall(r"((?:\t(?!j)[^\n]*\n)+)\tj\w+\t-\d+\n", text)
    tiles = [body for body in loops if len(re.findall(rf"\t{instruction}\t.*%{register}", body)) == count]
    # Drops the narrow tiles of MacInt8 on chips without vpdpbusd: they also shift, and no product uses them.
    tiles = [body for body in tiles if "\tvpsrad\t" not in body]
    assert tiles, f"no loop of {count} {instruction} on {register}"
    assert not any(re.search(r"%[yz]mm\d+, -?\d*\(%rsp\)", body) for body in tiles), "the tile is spilled"


ROUNDED_ROW = """#include "fused.h"
#include "vec.h"
using namespace weft;
using namespace weft::kernel;
WEFT_KERNEL(rounded_row) {
  store(WEFT_BUFFER(bf16, 1), convert<bf16>(fn::op_relu(load<64>(WEFT_BUFFER(const f32, 0), Full{}))), Full{});
}
"""


def test_rounding_to_bf16(tmp_path):
    """For a row of a tile, relu takes one instruction per register, and rounding to bf16 one per pair of registers."""
    (tmp_path / "row.cpp").write_text(ROUNDED_ROW)
    text = compile_sample(tmp_path / "row", ZEN4, tmp_path / "row.so", "--asm")
    found = [len(re.findall(rf"\t{name}\t[^\n]*%zmm\d+\n", text)) for name in ("vmaxps", "vcvtne2ps2bf16")]
    assert found == [4, 2] and "vcmpnltps" not in text, text


FEW_COLUMNS = """#include "gemm.h"
using namespace weft;
using namespace weft::kernel;
WEFT_KERNEL(few_columns) {
  auto a = WEFT_BUFFER(const bf16, 0), b = WEFT_BUFFER(const bf16, 1);
  auto y = WEFT_BUFFER(f32, 2);
  gemm<MacBf16, tasks::avx512_narrow_tile>(WEFT_LAUNCH, {1, 96, 16, 64},
      DirectRows{[&](i64) WEFT_LAMBDA { return reinterpret_cast<const MacBf16::Unit*>(raw(a)); }, 32},
      [&](i64) WEFT_LAMBDA { return raw(b); },
      [&](i64, i64 row, i64 col, auto v, auto lanes) WEFT_LAMBDA { store(y + row * 16 + col, v, lanes); });
}
"""


def test_few_columns_of_bf16(tmp_path):
    """For one vector of columns, each multiplication broadcasts A from memory: a separate load would cost 30 % more."""
    (tmp_path / "few.cpp").write_text(FEW_COLUMNS)
    text = compile_sample(tmp_path / "few", ZEN4, tmp_path / "few.so", "--asm")
    loops = re.findall(r"((?:\t(?!j)[^\n]*\n)+)\tj\w+\t-\d+\n", text)
    assert any(len(re.findall(r"\tvdpbf16ps\t.*\{1to16\}", body)) == 12 for body in loops), text


@pytest.mark.parametrize("instruction", ["tdpbusd", "tdpbf16ps"])
def test_products_of_amx(instruction, tmp_path):
    """The code has a loop with four products of tile registers and with the four loads that they need."""
    features = "+avx512vnni,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16"
    text = compile_sample("samples_int8", "x86-64-v4", tmp_path / "amx.so", "--asm", "--features", features)
    loops = re.findall(r"((?:\t(?!j)[^\n]*\n)+)\tj\w+\t-\d+\n", text)
    counts = [(len(re.findall(rf"\t{instruction}\t", body)), body.count("\ttileloadd\t")) for body in loops]
    assert (4, 4) in counts, counts


# A file of samples, and the number and name of the multiplications in the innermost loop. The loop computes a whole
# tile of 6 rows by 16 columns and keeps its sums in registers.
@pytest.mark.parametrize("sample,count,instruction", [("samples_f32", 24, "fmla"), ("samples_int8", 48, "smlal2?")])
def test_tiles_of_aarch64(sample, count, instruction, tmp_path):
    text = compile_sample(sample, "aarch64", tmp_path / "tile.so", "--asm")
    loops = re.split(r"\n\t(?:b|b\.\w+|cbn?z|tbn?z)\t", text)
    tiles = [body for body in loops if len(re.findall(rf"\t{instruction}\tv", body)) == count]
    assert tiles, f"no loop of {count} {instruction}"
    assert not any(re.search(r"\tldr\tq\d+, \[sp", body) for body in tiles), "the tile is spilled"


@pytest.mark.parametrize("options", [[], ["--checked"]], ids=["plain", "checked"])
def test_cpu_runs(options, tmp_path):
    compile_sample("samples", "host", tmp_path / "samples.so", *options)
    assert checks.check(run_cpu.Cpu([tmp_path / "samples.so"]), cases.all_cases()) == 0


def test_checked_kernels_name_the_buffer(tmp_path):
    """If a buffer is too small, the fault names the buffer and the access; nothing outside the buffer is touched."""
    compile_sample("samples", "host", tmp_path / "samples.so", "--checked")
    case = cases.softmax(3, 100)
    case.outputs = [((299,), np.float32)]  # one element short
    with pytest.raises(RuntimeError, match=r"buffer 1: \d+ bytes at \d+ are outside its 1196 bytes"):
        run_cpu.Cpu([tmp_path / "samples.so"]).once(case, [(0, case.tasks)])
