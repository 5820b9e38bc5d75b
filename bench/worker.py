# SPDX-License-Identifier: Apache-2.0
"""One engine with one model in a process of its own, controlled over a pipe.

`Worker(job, feeds)` starts the process, which loads the model, runs it once and reports how long each part took. It
then answers questions such as `burst(seconds)` until it is closed. The child is this file run as a script.
"""

import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from engines import ENGINES, Job

LOAD_LIMIT = 600  # seconds to wait for any answer; the first comes after loading


def peak_rss():
    """Returns the peak memory of this process in MiB. (getrusage would give the parent's peak if that is higher.)"""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


def burst(run, feeds, seconds):
    """Calls `run` until the time is over, at least once; returns wall and processor seconds of each call."""
    wall, cpu, end = [], [], time.perf_counter() + seconds
    while not wall or time.perf_counter() < end:
        c, w = time.process_time(), time.perf_counter()
        run(feeds)
        wall.append(time.perf_counter() - w)
        cpu.append(time.process_time() - c)
    return {"wall": wall, "cpu": cpu}


def serve(job, feeds_path, answers):
    def answer(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    with np.load(feeds_path) as file:
        feeds = {name: file[name] for name in file.files}
    wall, cpu = time.perf_counter(), time.process_time()
    run, version = ENGINES[job.engine](job)
    loaded = time.perf_counter()
    outputs = {name: np.array(value) for name, value in run(feeds).items()}
    first = time.perf_counter()
    answer({
        "version": version,
        "load": loaded - wall,
        "first": first - loaded,
        "cpu": time.process_time() - cpu,
        "peak_rss": peak_rss(),
    })
    for line in sys.stdin:
        command = json.loads(line)
        if "burst" in command:
            answer(burst(run, feeds, command["burst"]))
        elif "save" in command:
            np.savez(command["save"], **outputs)
            answer({})
        else:
            answer({"peak_rss": peak_rss()})


class Worker:
    """The parent's handle of the process. `start` holds the process's report of its start. A failure raises EngineError
    with the last line that the process wrote, or with "no answer in time"."""

    def __init__(self, job, feeds):
        self.folder = tempfile.TemporaryDirectory(prefix="weft-bench-")
        feeds_path = Path(self.folder.name, "feeds.npz")
        np.savez(feeds_path, **feeds)
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [job.python or sys.executable, __file__, json.dumps(asdict(job)), feeds_path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        self.start = self.read()

    def read(self):
        ready, _, _ = select.select([self.process.stdout], [], [], LOAD_LIMIT)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            self.close()
            self.log.seek(0)
            raise EngineError(
                "no answer in time" if not ready else (self.log.read().strip().splitlines() or ["died"])[-1]
            )
        return json.loads(line)

    def ask(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self.read()

    def burst(self, seconds):
        return self.ask(burst=seconds)

    def outputs(self):
        path = Path(self.folder.name, "outputs.npz")
        self.ask(save=str(path))
        with np.load(path) as file:
            return {name: file[name] for name in file.files}

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class EngineError(Exception):
    pass


if __name__ == "__main__":
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # engines that print must not write between the answers
    serve(Job(**json.loads(sys.argv[1])), sys.argv[2], pipe)
