#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks torch on a GPU: tensors stay on the GPU, work is queued on torch's stream, and results are in memory of
torch's allocator.

    ./x python tests/torch/on_gpu.py

Needs a GPU that both torch and Weft support; prints a line for each check and exits with 1 if a check fails.
"""
import sys
import time

import torch
from archives import Encoder, Pictures

import weft
import weft.torch

failed = []


def check(name, holds, what=""):
    print(f"{'right' if holds else 'WRONG'} {name} {what}".rstrip(), flush=True)
    if not holds:
        failed.append(name)


def close(got, wanted, tolerance=1e-4):
    return got.device == wanted.device and (got.float() - wanted.float()).abs().max() <= tolerance * wanted.abs().max() + 1e-6


def compiled_graphs():
    for name, model, inputs in (
        ("pictures", Pictures(), [torch.randn(2, 3, 15, 17), torch.randn(5, 3, 15, 17)]),
        ("encoder", Encoder(), [torch.randint(0, 17, (2, 6)), torch.randint(0, 17, (3, 11))]),
    ):
        torch._dynamo.reset()
        model = model.eval().cuda()
        fast = torch.compile(model, backend="weft", dynamic=True, options={"fullgraph": True})
        for x in inputs:
            x = x.cuda()
            check(f"torch.compile {name} {tuple(x.shape)}", close(fast(x), model(x), 1e-3))
    for kind in (torch.float16, torch.bfloat16):
        torch._dynamo.reset()
        model, x = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()).cuda().to(kind), torch.randn(8, 64).cuda().to(kind)
        got = torch.compile(model, backend="weft", options={"fullgraph": True})(x)
        check(f"torch.compile {kind}", got.dtype == kind and close(got, model(x), 2e-2))


def devices():
    """Runs graphs with tensors on several devices."""
    torch._dynamo.reset()
    model, x = (lambda x: (x * 2, torch.ones(3, device="cuda"), x.sum().cpu())), torch.randn(4)
    for given in (x, x.cuda()):
        got, wanted = torch.compile(model, backend="weft")(given), model(given)
        check(f"results of {given.device} on several devices", all(map(close, got, wanted)))
    scaled = torch.compile(lambda x, scale: x * scale, backend="weft")
    check("a number on the CPU", close(scaled(x.cuda(), torch.tensor(2.5)), x.cuda() * 2.5))


def streams():
    """Makes the input by slow work on the same stream, so a run that did not wait would read zeros."""
    torch._dynamo.reset()
    model = torch.nn.Linear(2048, 2048).cuda()
    fast = torch.compile(model, backend="weft", options={"fullgraph": True})
    fast(torch.zeros(2048, 2048, device="cuda"))
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x = torch.zeros(2048, 2048, device="cuda")
        for _ in range(200):
            x = torch.addmm(torch.ones_like(x), x, torch.eye(2048, device="cuda") * 0.5)
        begin = time.perf_counter()
        y = fast(x)
        queued = time.perf_counter() - begin
    side.synchronize()
    check("a stream of torch's", close(y, model(x), 1e-3), f"queued in {1e6 * queued:.0f} us")


def memory():
    model, x = torch.nn.Linear(1024, 1024).cuda(), torch.randn(256, 1024, device="cuda")
    program = torch.export.export(model, (x,))
    number = torch.cuda.current_device()
    maker = "amd" if torch.version.hip else "nvidia"
    run = weft.torch.from_torch(program, device=f"{maker}:{number}")
    wanted = model(x)
    y = run(x)
    check("weft.compile(...)(cuda tensor)", close(y, wanted, 1e-3))
    check("a negative view", close(run(x._neg_view()), model(-x), 1e-3))
    before = torch.cuda.memory_allocated()
    kept = [run(x) for _ in range(4)]
    torch.cuda.synchronize()
    check("torch's allocator has the results", torch.cuda.memory_allocated() - before == 4 * kept[0].numel() * 4)
    side, out = torch.cuda.Stream(), torch.empty_like(wanted)
    side.wait_stream(torch.cuda.current_stream())
    name = run.inputs[0].name
    results = run.run({name: x}, out={run.outputs[0].name: out}, stream=side)
    side.synchronize()
    check("run(stream=, out=)", close(out, wanted, 1e-3) and next(iter(results.values())) is out)

    class Foreign:
        """An array of a library that Weft does not know."""

        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, *, stream=None, **_):
            return self.tensor.__dlpack__(stream=stream)

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    out = torch.empty_like(wanted)
    run.run({name: Foreign(x)}, out={run.outputs[0].name: out}, stream=torch.cuda.current_stream())
    torch.cuda.synchronize()
    check("DLPack of another library", close(out, wanted, 1e-3))
    for what, bad in (("host memory", x.cpu()), ("f64", x.double())):
        try:
            run.run({name: bad}, stream=torch.cuda.current_stream())
            check(f"{what} is refused", False)
        except weft.UsageError as error:
            check(f"{what} is refused", error.code == "E310")


def main():
    with torch.no_grad():
        compiled_graphs()
        devices()
        streams()
        memory()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
