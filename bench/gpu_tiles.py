# SPDX-License-Identifier: Apache-2.0
"""Times f16 products with every tile size of the warp-group kernels (wgmma) on a Hopper GPU; the cost model of
src/lower/gpu/tile_costs.cpp was fitted to these times. Each answer is compared with torch in f32.

  python bench/gpu_tiles.py compile FOLDER      # with weft-kc (WEFT_KC), on any machine
  python bench/gpu_tiles.py measure FOLDER      # needs torch and the GPU; a row of results for each shape
"""

import concurrent.futures
import ctypes
import itertools
import os
import statistics
import subprocess
import sys
from pathlib import Path

pointer = ctypes.c_void_p
# Rows, columns, warp groups, stages, as in group_tiles of src/lower/gpu/tiles.cpp.
TILES = [(192, 256, 3, 4), (128, 256, 2, 4), (256, 128, 2, 4), (192, 192, 3, 4), (128, 192, 2, 4), (192, 128, 3, 5),
         (128, 128, 2, 3), (128, 128, 2, 6), (128, 64, 2, 4), (128, 64, 2, 8), (64, 256, 1, 5), (64, 128, 1, 4),
         (64, 128, 1, 8), (64, 64, 1, 6), (64, 64, 1, 12), (64, 32, 1, 8), (64, 32, 1, 16), (64, 16, 1, 8),
         (64, 16, 1, 16)]
SHAPES = [(4096, 4096, 4096), (8192, 8192, 8192), (128, 768, 768), (128, 3072, 768), (128, 768, 3072), (197, 2304, 768),
          (197, 768, 768), (197, 3072, 768), (197, 768, 3072), (3136, 64, 576), (3136, 256, 64), (784, 128, 1152),
          (784, 512, 128), (196, 256, 2304), (196, 1024, 256), (49, 512, 4608), (49, 2048, 512), (64, 8192, 8192),
          (512, 4096, 4096), (16, 4096, 14336), (4096, 768, 768), (4096, 3072, 768), (4096, 768, 3072),
          (6304, 2304, 768), (6304, 768, 3072), (100352, 64, 576), (25088, 128, 1152), (6272, 256, 2304),
          (1568, 512, 4608), (100352, 256, 64)]
# Products of few rows with the weights of language models.
SHAPES += [(m, n, k) for m in (16, 32, 64, 128, 256)
           for n, k in ((4096, 4096), (14336, 4096), (4096, 14336), (1024, 4096), (8192, 8192), (5120, 1536))]
CACHE = 200_000_000  # bytes of weights that leave no part of themselves in L2
CODE = """#include "gemm_gpu.h"
using namespace weft; using namespace weft::kernel;
WEFT_KERNEL({name}, 3, {threads}) {{
  const auto a = WEFT_BUFFER(const f16, 0), b = WEFT_BUFFER(const f16, 1); const auto c = WEFT_BUFFER(f16, 2);
  const i64 m = WEFT_SIZE(0), n = WEFT_SIZE(1), k = WEFT_SIZE(2);
  const auto row_of_a = [&](i64, i64 row) WEFT_LAMBDA {{ return raw(a) + row * k; }};
  const auto row_of_b = [&](i64, i64 row) WEFT_LAMBDA {{ return raw(b) + row * k; }};
  gemm_gpu<f16, BlockTile{{{rows}, {cols}, 64, {waves}, 1, {stages}, {split}, true}}>(WEFT_LAUNCH, {{1, m, n, k}},
      direct_rows<f16>(row_of_a), direct_rows<f16>(row_of_b),
      [&](i64, i64 row, i64 col, auto v, auto lanes) WEFT_LAMBDA {{ store(c + row * n + col, convert<f16>(v), lanes); }});
}}
"""


def kernels():
    for rows, cols, groups, stages in TILES:
        for split in (1, 2, 4, 8):
            large = rows * cols > 128 * 128 or (split == 8 and cols >= 128)
            if split == 1 or not large:
                yield {"name": f"tile_{rows}x{cols}_{stages}_{split}", "rows": rows, "cols": cols, "waves": 4 * groups,
                       "stages": stages, "split": split, "threads": 128 * groups,
                       "shared": max(stages * (rows + cols) * 128, rows * (cols + 8) * 4)}


def compile_all(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for kernel in kernels():
        source = folder / f"{kernel['name']}.cpp"
        source.write_text(CODE.format(**kernel))
        subprocess.run([os.environ.get("WEFT_KC", "weft-kc"), source, "--chip", "sm_90a", "--group", str(kernel["threads"]),
                        "-o", source.with_suffix(".ptx")], check=True)


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("unused", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class Config(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint), ("stream", pointer),
                ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint)]


class Driver:
    def __init__(self):
        self.cuda, self.context = ctypes.CDLL("libcuda.so.1"), pointer()
        self.call("cuCtxGetCurrent", ctypes.byref(self.context))

    def call(self, name, *arguments):
        if error := getattr(self.cuda, name)(*arguments):
            raise RuntimeError(f"{name}: error {error}")

    def load(self, folder, kernel):
        self.call("cuCtxSetCurrent", self.context)
        module, function = pointer(), pointer()
        text = (folder / f"{kernel['name']}.ptx").read_bytes().rstrip(b"\0") + b"\0"
        self.call("cuModuleLoadData", ctypes.byref(module), text)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, kernel["name"].encode())
        self.call("cuFuncSetAttribute", function, 8, kernel["shared"])
        return function

    def launch(self, function, kernel, blocks, words, stream):
        cluster = Attribute(4, 0, (kernel["split"], 1, 1))
        config = Config((blocks, 1, 1), (kernel["threads"], 1, 1), kernel["shared"], stream, ctypes.pointer(cluster),
                        kernel["split"] > 1)
        self.call("cuLaunchKernelEx", ctypes.byref(config), function, (pointer * 1)(ctypes.addressof(words)), None)


def microseconds(torch, run, inner):
    for _ in range(2):
        run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(inner):
            run()
    times = []
    for _ in range(8):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[1:]) / inner * 1000


def measure(folder):
    import gpu
    import torch

    torch.zeros(1, device="cuda")
    driver, all_kernels = Driver(), list(kernels())
    with concurrent.futures.ThreadPoolExecutor() as pool:
        functions = list(pool.map(lambda kernel: driver.load(folder, kernel), all_kernels))
    for m, n, k in SHAPES:
        copies = CACHE // (n * k * 2) + 1 if m <= 256 and n * k >= 1 << 21 else 1  # such weights come from memory
        a, bs = torch.randn(m, k, device="cuda").half(), [torch.randn(n, k, device="cuda").half() for _ in range(copies)]
        c, sizes = torch.empty(m, n, device="cuda").half(), torch.tensor([m, n, k], device="cuda")
        times, errors, turn = {}, [], itertools.count()
        right, inner = a.float() @ bs[0].float().T, 5 if m * n * k > 1e10 else 20
        theirs = microseconds(torch, lambda a=a, bs=bs: torch.nn.functional.linear(a, bs[next(turn) % len(bs)]), inner)
        words = [(pointer * 6)(a.data_ptr(), b.data_ptr(), c.data_ptr(), sizes.data_ptr(), None, None) for b in bs]
        for kernel, function in zip(all_kernels, functions, strict=True):
            blocks = -(-m // kernel["rows"]) * -(-n // kernel["cols"]) * kernel["split"]
            c.fill_(float("nan"))

            def run(at=None, function=function, kernel=kernel, blocks=blocks, words=words, turn=turn):
                at = next(turn) % len(words) if at is None else at
                driver.launch(function, kernel, blocks, words[at], torch.cuda.current_stream().cuda_stream)

            run(0)
            errors.append(float((c.float() - right).norm() / right.norm()))
            times[kernel["name"]] = microseconds(torch, run, inner)
        row = {"shape": [m, n, k], "precision": "f16", "us": times, "error": max(errors), "torch_us": theirs, "copies": copies}
        gpu.tell("tiles of a product on a GPU", row, None)


if __name__ == "__main__":
    {"compile": compile_all, "measure": measure}[sys.argv[1]](Path(sys.argv[2]))
