# SPDX-License-Identifier: Apache-2.0
"""Serves a model with onnxruntime behind the HTTP application of `weft serve`, for bench/serve.py. Requests are not
joined. BENCH_SITE is a folder of packages that has onnxruntime."""

import asyncio
import concurrent.futures
import os
import sys

import numpy as np

import weft
from weft.serve import __main__, _repository, _tensors

KINDS = {"tensor(float)": "f32", "tensor(int64)": "i64"}


class NoQueue:
    """A stand-in for the queue, with the attributes that the log reads."""

    joins, length, reason = False, "", "onnxruntime"


class Served(_repository.Served):
    def __init__(self, name, version, path, options):
        sys.path.append(os.environ["BENCH_SITE"])
        import onnxruntime

        self.name, self.version, self.path, self.device_names = name, version, path, ["onnxruntime"]
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = options.threads or len(os.sched_getaffinity(0))
        self.session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        self.inputs, self.outputs = map(self.ports, (self.session.get_inputs(), self.session.get_outputs()))
        self.properties = {}
        self.pool, self.queue = concurrent.futures.ThreadPoolExecutor(1), NoQueue()

    @staticmethod
    def ports(given):
        return tuple(weft.Port(p.name, p.type, KINDS[p.type], tuple(s if isinstance(s, int) else weft.Size(str(s), 0, 1 << 40) for s in p.shape)) for p in given)

    def attach(self, loop):
        self.loop = loop

    async def infer(self, inputs, deadline=0.0):
        feeds = {port.name: array for port, array in zip(self.inputs, inputs, strict=True)}
        values = await self.loop.run_in_executor(self.pool, self.session.run, None, feeds)
        return [_tensors.Output(port.name, port.dtype, value) for port, value in zip(self.outputs, values, strict=True)]

    async def retire(self):
        await asyncio.to_thread(self.pool.shutdown)


def array(dtype, shape, elements):
    return np.asarray(elements).reshape(shape)


if __name__ == "__main__":
    _tensors.tensor_from_array = array  # by default this function makes tensors of Weft
    _repository.Served = Served
    sys.exit(__main__.main(sys.argv[1:]))
