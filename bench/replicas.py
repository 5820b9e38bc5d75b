# SPDX-License-Identifier: Apache-2.0
"""Measures how many rows a second the copies of a model on several devices compute behind the queue of `weft serve`.

  python bench/replicas.py --devices gpu:0 --devices gpu:0,gpu:1 [--models resnet50,bert_base] [--rows 8] [--out results.jsonl]
  python bench/replicas.py --devices cpu --models bert_base --rows 1 --seconds 1        # a trial on the CPU

Each other list of devices is compared with the first list. Requests come from host memory, as from clients, and are
joined into runs of up to --most rows. Several requests for each device are always pending. The lists of devices
alternate (--rounds); the median counts. Needs the packages weft, onnx and numpy.
"""

import argparse
import select
import statistics
import sys
import time
from pathlib import Path

import gpu
import machine
import numpy as np
import weft
from weft import _weft
from weft.serve._tensors import tensor_from_array

sys.path.insert(0, str(Path(__file__).resolve().parent / "models"))
import fill

LIMIT = 3e-2  # largest error of f16 answers, relative to the norm: runs of different sizes differ


class Copies:
    def __init__(self, path, devices, precision, most, instances):
        self.devices = devices
        self.models = [weft.compile(path, device=device, precision=precision) for device in devices]
        natives = [model._native for model in self.models for _ in range(instances)]
        self.queue = _weft.Queue(natives, most, 0.002, 4096)

    def answers(self, inputs, count):
        """Submits `count` equal requests at once and returns the first output of each."""
        for _ in range(count):
            self.queue.submit(inputs, 0.0)
        return [values[0] for values in self._take(count)]

    def requests_a_second(self, inputs, seconds, in_flight):
        for _ in range(in_flight):
            self.queue.submit(inputs, 0.0)
        start = time.perf_counter()
        done = 0
        while time.perf_counter() - start < seconds:
            found = len(self._take(1))
            done += found
            for _ in range(found):
                self.queue.submit(inputs, 0.0)
        rate = done / (time.perf_counter() - start)
        self._take(in_flight)
        return rate

    def rows_a_run(self):
        runs = self.queue.stats()["runs_by_rows"]
        return sum(rows * count for rows, (count, _) in runs.items()) / sum(count for count, _ in runs.values())

    def _take(self, least):
        """Waits for at least `least` answers."""
        found = []
        while len(found) < least:
            select.select([self.queue.fileno()], [], [], 30)
            for _, values, error in self.queue.take():
                if error is not None:
                    raise error
                found.append(values)
        return found


def measure(name, lists, arguments):
    sizes = {key: arguments.rows if key == "batch" else size for key, size in fill.cases(name)[0].items()}
    feeds = fill.feeds(name, sizes)
    copies = [Copies(fill.cached(name), devices, arguments.precision, arguments.most, arguments.instances) for devices in lists]
    inputs = []
    for port in copies[0].models[0].inputs:
        array = np.ascontiguousarray(feeds[port.name])
        inputs.append(tensor_from_array(port.dtype, list(array.shape), array))
    wanted = np.asarray(copies[0].answers(inputs, 1)[0])
    errors = [max(gpu.distance(answer, wanted) for answer in c.answers(inputs, 8 * len(c.devices))) for c in copies]
    rates = [[] for _ in copies]
    for _ in range(arguments.rounds):
        for c, found in zip(copies, rates, strict=True):
            in_flight = max(4, (arguments.instances + 2) * arguments.most // arguments.rows) * len(c.devices)
            found.append(arguments.rows * c.requests_a_second(inputs, arguments.seconds, in_flight))
    one = statistics.median(rates[0])
    is_right = True
    for c, error, found in zip(copies, errors, rates, strict=True):
        rate = statistics.median(found)
        of = {"network": name, "sizes": sizes, "precision": arguments.precision, "instances": arguments.instances,
              "devices": ",".join(c.devices)}
        row = {"rows_a_second": rate, "gain": rate / one, "of_linear": rate / one * len(lists[0]) / len(c.devices),
               "rows_a_run": c.rows_a_run(), "error": error}
        is_right &= error < LIMIT
        print(of, machine.rounded(row), flush=True)
        on = None if c.devices[0].startswith("cpu") else machine.gpu()
        machine.tell(machine.result("replicas behind one queue", of, row, machine=on), arguments.out)
    return is_right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", action="append", required=True, metavar="LIST")
    parser.add_argument("--models", default="resnet50,bert_base")
    parser.add_argument("--precision", default="f16")
    parser.add_argument("--rows", type=int, default=8, help="of a request")
    parser.add_argument("--most", type=int, default=32, help="rows of a run")
    parser.add_argument("--instances", type=int, default=2, help="threads of a device, as of weft serve: while one computes, "
                        "others join requests and read back")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    lists = [words.split(",") for words in arguments.devices]
    raise SystemExit(not all([measure(name, lists, arguments) for name in arguments.models.split(",")]))


if __name__ == "__main__":
    main()
