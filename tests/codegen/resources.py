#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the kernels of models need of an AMD compute unit, read from their code objects' metadata, as the kernel cache
keeps it: resources.py CHIP,CHIP MODEL ... compiles the models for each chip (which needs no GPU) and prints a table."""
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
LINE = re.compile(rb"(\w+)((?: \d+){10})\n")


def kernels_in(cache):
    """Every kernel of a cache folder: the lines of text before the bytes of each entry."""
    found = []
    for path in sorted(pathlib.Path(cache).glob("kernels/*")):
        head = path.read_bytes()[:4096]
        match = LINE.search(head)
        if match:
            found.append(Kernel(match.group(1).decode(), *map(int, match.group(2).split())))
    return found


def family(kernel):
    """A kernel's name without the hash at its end."""
    return re.sub(r"_[0-9a-f]{6}$", "", kernel.name)


def waves(chip, kernel):
    """Waves that a SIMD holds, as far as vector registers decide: register file, granule and cap of the chip."""
    if chip.startswith("gfx9"):
        file, granule, cap = 512, 8, 8
    elif chip == "gfx1030":
        file, granule, cap = 1024, 16, 16
    else:
        file, granule, cap = 1536, 24, 16
    return min(cap, file // (max(1, -(-kernel.vgprs // granule)) * granule))


def compile_cold(command):
    """Runs a compiling command with an empty cache: the process, its kernels and the seconds."""
    with tempfile.TemporaryDirectory() as cache:
        begin = time.perf_counter()
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=os.environ | {"WEFT_CACHE_DIR": cache})
        return done, kernels_in(cache), time.perf_counter() - begin


def main():
    chips = CHIPS if sys.argv[1] == "all" else sys.argv[1].split(",")
    print("| model | chip | kernels | seconds | MiB | most registers | fewest waves | most LDS | spills | scratch |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for model in sys.argv[2:]:
        for chip in chips:
            with tempfile.TemporaryDirectory() as folder:
                out = pathlib.Path(folder) / "model.weft"
                done, kernels, seconds = compile_cold([BUILD / "bin/weft", "compile", model, "--device", f"amd:{chip}", "-o", out])
                if done.returncode:
                    sys.exit(done.stderr)
                size = out.stat().st_size / 2**20
            print(f"| {pathlib.Path(model).stem} | {chip} | {len(kernels)} | {seconds:.1f} | {size:.0f} | {max(k.vgprs for k in kernels)} | "
                  f"{min(waves(chip, k) for k in kernels)} | {max(k.lds for k in kernels)} | {sum(k.vgpr_spills for k in kernels)} | "
                  f"{max(k.scratch for k in kernels)} |", flush=True)


if __name__ == "__main__":
    main()
