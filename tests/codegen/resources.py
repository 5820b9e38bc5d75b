#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the resources of an AMD compute unit that the kernels of models need, from the metadata of their code
objects in the kernel cache. resources.py [--precision f16] MODEL ... compiles the models for every chip (which needs no
GPU), writes one file for all of them, and prints a row for each model."""
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build/release"))
CHIPS = ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1151", "gfx1200", "gfx1201"]
Kernel = collections.namedtuple("Kernel", "name vgprs agprs sgprs vgpr_spills sgpr_spills lds scratch group wave arguments")
HEADER = 48  # bytes of an entry before its text (src/kernel_build/kernel_cache.cpp)
LINE = re.compile(rb"(\w+)((?: \d+){10})\n")


def entries(cache):
    """Returns {file: first kernel in it} of a cache folder, read from the line of text at the start of each entry."""
    found = {}
    for path in sorted(pathlib.Path(cache).glob("kernels/*")):
        match = LINE.match(path.read_bytes()[HEADER:4096])
        if match:
            found[path.name] = Kernel(match.group(1).decode(), *map(int, match.group(2).split()))
    return found


def kernels_in(cache):
    """Returns the distinct kernels of a cache folder that holds kernels for one chip."""
    return list({kernel.name: kernel for kernel in entries(cache).values()}.values())


def family(kernel):
    """Returns a kernel's name without the hash at its end."""
    return re.sub(r"_[0-9a-f]{6}$", "", kernel.name)


def waves(chip, kernel):
    """Returns the occupancy: waves per SIMD as limited by vector registers (the chip's register file, allocation
    granule and limit)."""
    if chip == "gfx908":
        file, granule, cap = 256, 4, 10
    elif chip.startswith("gfx9"):
        file, granule, cap = 512, 8, 8
    elif chip.startswith("gfx103") or chip in ("gfx1102", "gfx1103", "gfx1150", "gfx1152"):
        file, granule, cap = 1024, 16, 16
    else:
        file, granule, cap = 1536, 24, 16
    return min(cap, file // (max(1, -(-kernel.vgprs // granule)) * granule))


def compile_cold(command):
    """Runs a compiling command with an empty cache; returns the process, its kernels and the seconds."""
    with tempfile.TemporaryDirectory() as cache:
        begin = time.perf_counter()
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=os.environ | {"WEFT_CACHE_DIR": cache})
        return done, kernels_in(cache), time.perf_counter() - begin


def worst(kernels, need):
    """Returns the largest value of need(chip, kernel), and the chip for which it occurs."""
    chip, kernel = max(kernels, key=lambda pair: need(*pair))
    return need(chip, kernel), chip


def row(model, options):
    """Compiles a model for each chip in turn with one cache, so that the entries that a compile adds belong to its
    chip. Then compiles it for all chips into one file. Returns the row."""
    with tempfile.TemporaryDirectory() as folder:
        out, cache, known, found, seconds = f"{folder}/model.weft", f"{folder}/cache", {}, [], 0
        environment = os.environ | {"WEFT_CACHE_DIR": cache}

        def compile(*target):
            begin = time.perf_counter()
            command = [BUILD / "bin/weft", "compile", model, *target, *options, "-o", out]
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
            if done.returncode:
                sys.exit(done.stderr)
            return time.perf_counter() - begin

        for chip in CHIPS:
            seconds += compile("--device", f"amd:{chip}")
            new = {kernel.name: kernel for file, kernel in entries(cache).items() if file not in known}
            known = entries(cache)
            found += [(chip, kernel) for kernel in new.values()]
        cached = compile("--target", "amd:all")
        size = pathlib.Path(out).stat().st_size / 2**20
    registers, lds = worst(found, lambda chip, k: k.vgprs), worst(found, lambda chip, k: k.lds)
    fewest = worst(found, lambda chip, k: -waves(chip, k))
    spills = sum(k.vgpr_spills for chip, k in found)
    return (f"| {pathlib.Path(model).stem} | {len(found)} | {seconds:.0f}, {cached:.0f} | {size:.0f} | {registers[0]} ({registers[1]}) | "
            f"{-fewest[0]} ({fewest[1]}) | {lds[0]} | {spills} | {max(k.scratch for chip, k in found)} |")


def main():
    words = sys.argv[1:]
    options = [words.pop(0), words.pop(0)] if words and words[0].startswith("--") else []
    print("| model | kernels of 7 chips | seconds cold, cached | MiB | most registers | fewest waves | most LDS | spills | scratch |")
    print("|---|---|---|---|---|---|---|---|---|")
    for model in words:
        print(row(model, options), flush=True)


if __name__ == "__main__":
    main()
