# SPDX-License-Identifier: Apache-2.0
"""Results have the same bits with any number of threads and in every process: random graphs are compiled and run again
in other processes."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "random_graphs")]

from limits import BUILD, IS_FULL, SEED

COUNT = 400 if IS_FULL else 12


def fingerprints(threads, first, count):
    """Returns a hash of all outputs of each graph; None if the cpu target refuses the graph."""
    sys.path.insert(0, str(BUILD / "python"))
    import numpy as np
    import weft
    from graphs import draw_graph, feeds, open_sizes

    found = []
    for seed in range(first, first + count):
        d = draw_graph(seed)
        sizes = open_sizes(d)
        try:
            try:
                model = weft.compile(d.model(sizes).SerializeToString(), device="cpu", threads=threads)
            except weft.ModelError:  # an attribute fits only the fixed sizes
                model = weft.compile(d.model({}).SerializeToString(), device="cpu", threads=threads)
            answers = model.run(feeds(d))
            again = model.run(feeds(d))
        except weft.UnsupportedError:
            found.append(None)
            continue
        bits = [np.ascontiguousarray(value).tobytes() for value in answers.values()]
        assert bits == [np.ascontiguousarray(value).tobytes() for value in again.values()], f"seed {seed}: two runs differ"
        found.append(hashlib.sha256(b"".join(bits)).hexdigest())
    return found


def test_threads_and_processes(tmp_path):
    first = SEED * 20_000 + 15_000
    environment = os.environ | {"WEFT_CACHE_DIR": str(tmp_path)}
    seen = {}
    for name, threads in ("one", 1), ("one again", 1), ("two", 2), ("four", 4):
        command = [sys.executable, __file__, str(threads), str(first), str(COUNT)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=3600)
        assert done.returncode == 0, done.stderr[-2000:]
        seen[name] = json.loads(done.stdout.splitlines()[-1])
    assert sum(entry is not None for entry in seen["one"]) > COUNT // 2
    differs = {first + i: entries for i, entries in enumerate(zip(*seen.values())) if len(set(entries)) > 1}
    assert differs == {}, f"{list(seen)} (WEFT_TEST_SEED={SEED})"


if __name__ == "__main__":
    print(json.dumps(fingerprints(*map(int, sys.argv[1:]))))
