# SPDX-License-Identifier: Apache-2.0
"""Runs models on AMD's unmodified onnxruntime-migraphx wheel, with Weft's libraries in place of AMD's.

    PYTHONPATH=build/release/python python tests/migraphx/wheel_client.py models MODEL.onnx ...
    PYTHONPATH=build/release/python python tests/migraphx/wheel_client.py cases [--every N] [--match TEXT]

`migraphx` is imported first: it loads Weft's libmigraphx_c.so.3 and, without AMD's driver, the HIP facade. The wheel
must be installed for `python`.
"""
import argparse
import collections
import json
import pathlib
import sys
import time

import migraphx  # noqa: F401  before onnxruntime
import numpy as np
import onnxruntime as ort

NAME = "MIGraphXExecutionProvider"
MODELS = pathlib.Path(__file__).parents[2] / "bench/models"
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64,
         "tensor(int32)": np.int32, "tensor(bool)": bool}


def make_session(model, provider=NAME, options=None, **settings):
    chosen = ort.SessionOptions()
    chosen.log_severity_level = 3
    chosen.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for key, value in settings.items():
        setattr(chosen, key, value)
    return ort.InferenceSession(model, chosen, providers=[(provider, options or {})], enable_fallback=0)


def assigned(session):
    """Returns how many nodes each provider has."""
    counts = collections.Counter()
    for part in session.get_provider_graph_assignment_info():
        counts[part.ep_name] += len(part.get_nodes())
    return counts


def make_feed(session, sizes, seed=0):
    """Returns inputs with the sizes of a case of bench/models; a symbol without a size there is 1."""
    random, feed = np.random.default_rng(seed), {}
    for value in session.get_inputs():
        dims = [size if isinstance(size, int) else size_of(size, sizes) for size in value.shape]
        kind = TYPES[value.type]
        feed[value.name] = (random.standard_normal(dims).astype(kind) if np.issubdtype(kind, np.floating)
                            else random.integers(0, 2, dims).astype(kind))
    return feed


def size_of(name, sizes):
    """Computes the value of a size such as "past + seq"."""
    return int(eval(str(name), {"__builtins__": {}}, collections.defaultdict(lambda: 1, sizes)))


def first_case(path):
    about = MODELS / (path.stem + ".json")
    return json.loads(about.read_text())["cases"][0] if about.exists() else {}


def error_of(session, reference, feed):
    """Returns the largest difference from the wheel's own CPU provider, as a share of the largest value."""
    worst = 0.0
    for got, want in zip(session.run(None, feed), reference.run(None, feed), strict=True):
        want = want.astype(np.float64)
        worst = max(worst, float(np.abs(got - want).max() / max(np.abs(want).max(), 1e-30)))
    return worst


def run_model(path):
    session, reference = make_session(str(path)), make_session(str(path), "CPUExecutionProvider")
    feed = make_feed(session, first_case(path))
    begin = time.perf_counter()
    session.run(None, feed)
    first = time.perf_counter() - begin
    times = []
    for _ in range(5):
        begin = time.process_time()
        session.run(None, feed)
        times.append(time.process_time() - begin)
    nodes = assigned(session)
    return {"model": path.stem, "nodes": nodes[NAME], "all": sum(nodes.values()), "first s": round(first, 2),
            "cpu ms": round(1e3 * sorted(times)[2], 2), "error": error_of(session, reference, feed)}


def models_command(options):
    for path in options.files:
        print(json.dumps(run_model(pathlib.Path(path))), flush=True)


def feed_command(options):
    """Runs one model at several sizes of its first axis, with options of the provider. Prints the number of Weft's
    nodes, and the error for each size."""
    model = pathlib.Path(options.model).read_bytes()
    session = make_session(model, options=dict(pair.split("=", 1) for pair in options.option))
    reference = make_session(model, "CPUExecutionProvider")
    errors = []
    for batch in options.batches:
        names = {value.shape[0]: batch for value in session.get_inputs()}
        errors.append(error_of(session, reference, make_feed(session, names)))
    print(json.dumps({"nodes": assigned(session)[NAME], "errors": errors}))


def cases_command(options):
    import onnx_cases

    results = onnx_cases.run(NAME, every=options.every, first=options.first, match=options.match)
    print(json.dumps(results))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    verbs = parser.add_subparsers(required=True)
    models = verbs.add_parser("models")
    models.add_argument("files", nargs="+")
    models.set_defaults(function=models_command)
    feed = verbs.add_parser("feed")
    feed.add_argument("model")
    feed.add_argument("--batches", type=int, nargs="+", default=[1])
    feed.add_argument("--option", nargs="*", default=[])
    feed.set_defaults(function=feed_command)
    cases = verbs.add_parser("cases")
    cases.add_argument("--every", type=int, default=1)
    cases.add_argument("--first", type=int, default=0)
    cases.add_argument("--match", default="")
    cases.set_defaults(function=cases_command)
    options = parser.parse_args()
    options.function(options)


if __name__ == "__main__":
    sys.exit(main())
