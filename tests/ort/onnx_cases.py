# SPDX-License-Identifier: Apache-2.0
"""Runs ONNX's own conformance cases in stock onnxruntime: with Weft, and with its own CPU provider alone.

    PYTHONPATH=build/release/python python tests/ort/onnx_cases.py [--every N [--first K]] [--match TEXT] [--json FILE] [--processes N]

A case is *lost* when the CPU provider passes it and Weft does not; it is *whole* when all its nodes run on Weft. The
cases run in new processes. After a crash another process runs the remaining cases, so that a crash loses a single case.
`--provider` names a provider that is compared in place of Weft.
"""
import argparse
import collections
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import sys
import warnings

os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")  # the newest cases use unreleased operator sets

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from onnx_node_cases import node_cases

NAME = "WeftExecutionProvider"
# From onnxruntime 1.25 on, sessions find plug-ins by name; earlier versions find them by device.
TAKES_NAMES = tuple(int(part) for part in ort.__version__.split(".")[:2]) >= (1, 25)
KINDS = ("simple", "pytorch-converted", "pytorch-operator")
NEWEST_IR = 13  # newest IR version that onnxruntime reads; the cases use no newer features
STORAGE = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def read_value(path, type_proto):
    raw = open(path, "rb").read()
    kind = type_proto.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(raw))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(raw))
    return numpy_helper.to_array(onnx.TensorProto.FromString(raw))


def read_folder(folder, model):
    """Returns the data sets that older releases of onnx store as files in the model's folder."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    sets, number = [], 0
    while os.path.isdir(data := os.path.join(folder, f"test_data_set_{number}")):
        given = [os.path.join(data, f"input_{i}.pb") for i in range(len(inputs))]
        wanted = [os.path.join(data, f"output_{i}.pb") for i in range(len(model.graph.output))]
        sets.append(([read_value(p, v.type) for p, v in zip(given, inputs) if os.path.exists(p)],
                     [read_value(p, v.type) for p, v in zip(wanted, model.graph.output)]))
        number += 1
    return sets


def load(case):
    if case.model is not None:
        return case.model, case.data_sets
    model = onnx.load(os.path.join(case.model_dir, "model.onnx"))
    return model, read_folder(case.model_dir, model)


def make_session(model, provider):
    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options = {"threads": "1"} if provider == NAME else {}
    if provider == NAME and not TAKES_NAMES:
        settings.add_provider_for_devices([d for d in ort.get_ep_devices() if d.ep_name == NAME][:1], options)
        return ort.InferenceSession(model.SerializeToString(), settings)
    return ort.InferenceSession(model.SerializeToString(), settings, providers=[(provider, options)], enable_fallback=0)


def as_ort_value(value):
    if not isinstance(value, onnx.TensorProto):
        return ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value))
    array = np.ascontiguousarray(numpy_helper.to_array(value))
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(STORAGE[array.dtype.itemsize]), value.data_type)


def bytes_of(value):
    import ctypes

    return ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()) if value.data_ptr() else b""


def compare_rare(case, wanted, got):
    """Compares values of types that numpy lacks (bfloat16, float8, int4) as floats."""
    for want, value in zip(wanted, got, strict=True):
        proto = want if isinstance(want, onnx.TensorProto) else numpy_helper.from_array(np.asarray(want))
        mine = onnx.TensorProto(data_type=value.element_type(), dims=value.shape(), raw_data=bytes_of(value))
        np.testing.assert_allclose(numpy_helper.to_array(mine).astype(np.float32),
                                   numpy_helper.to_array(proto).astype(np.float32),
                                   rtol=max(case.rtol, 1e-3), atol=max(case.atol, 1e-5))


def check(case, session, given, wanted):
    names = [value.name for value in session.get_inputs()]
    if len(given) > len(names):
        given = [value for value in given if value is not None]
    feed = dict(zip(names, given))
    if any(isinstance(value, onnx.TensorProto) for value in [*given, *wanted]):
        got = session.run_with_ort_values(None, {name: as_ort_value(value) for name, value in feed.items()})
        return compare_rare(case, wanted, got)
    feed = {name: np.asarray(value) if isinstance(value, np.generic) else value for name, value in feed.items()}
    Runner.assert_similar_outputs(wanted, session.run(None, feed), rtol=max(case.rtol, 1e-3), atol=max(case.atol, 1e-5))


def outcome(case, provider):
    """Returns (outcome, message, nodes on the provider, all nodes)"""
    model, sets = load(case)
    model.ir_version = min(model.ir_version, NEWEST_IR)
    try:
        session = make_session(model, provider)
    except Exception as error:
        return "load", str(error)[-600:], 0, 0
    counts = collections.Counter()
    for part in session.get_provider_graph_assignment_info():
        counts[part.ep_name] += len(part.get_nodes())
    mine, total = counts[provider], sum(counts.values())
    try:
        for given, wanted in sets:
            check(case, session, given, wanted)
    except AssertionError as error:
        return "wrong", str(error)[-600:], mine, total
    except Exception as error:
        return "run", str(error)[-600:], mine, total
    return "pass", "", mine, total


def all_cases(every=1, match="", first=0):
    cases = [*node_cases(), *(case for kind in KINDS for case in load_model_tests(kind=kind))]
    return [case for case in cases if match in case.name][first::every]


def judge(case, provider):
    warnings.simplefilter("ignore")
    ort.set_default_logger_severity(4)
    cpu = outcome(case, "CPUExecutionProvider")
    weft = outcome(case, provider)
    lost = cpu[0] == "pass" and weft[0] != "pass"
    return {"name": case.name, "cpu": cpu[0], "weft": weft[0], "lost": lost, "message": weft[1], "nodes": weft[2],
            "all": weft[3]}


def _work(numbers, chosen, provider, results):
    if provider == NAME:
        import onnxruntime_ep_weft

        onnxruntime_ep_weft.register()
    cases = all_cases(**chosen)
    for number in numbers:
        results.put((number, judge(cases[number], provider)))


def run(provider=NAME, processes=1, **chosen):
    """Returns the results of the chosen cases, in order."""
    names = [case.name for case in all_cases(**chosen)]
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        parts = pool.map(lambda first: run_part(provider, chosen, names, range(first, len(names), processes)), range(processes))
    found = {number: result for part in parts for number, result in part.items()}
    return [found[number] for number in sorted(found)]


def run_part(provider, chosen, names, numbers):
    """Runs cases in a new process. A case without an answer is a crash; another process then runs the remaining
    cases."""
    found, pending = {}, list(numbers)
    context = multiprocessing.get_context("spawn")
    while pending:
        results = context.Queue()
        worker = context.Process(target=_work, args=(pending, chosen, provider, results))
        worker.start()
        while worker.is_alive() or not results.empty():
            try:
                number, result = results.get(timeout=1)
                found[number] = result
            except Exception:
                continue
        pending = [number for number in pending if number not in found]
        if pending:
            found[pending[0]] = {"name": names[pending[0]], "cpu": "?", "weft": "crash", "lost": True, "message": "",
                                 "nodes": 0, "all": 0}
            pending = pending[1:]
    return found


def summary(results):
    ran = [r for r in results if r["cpu"] == "pass"]
    whole = [r for r in ran if r["weft"] == "pass" and r["nodes"] == r["all"]]
    return {"cases": len(results), "passed by the CPU provider": len(ran), "lost": sum(r["lost"] for r in results),
            "whole on Weft": len(whole), "gained": sum(r["weft"] == "pass" and r["cpu"] != "pass" for r in results)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--match", default="")
    parser.add_argument("--provider", default=NAME)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json")
    options = parser.parse_args()
    results = run(options.provider, options.processes, every=options.every, first=options.first, match=options.match)
    for result in results:
        if result["lost"]:
            print("lost:", result["name"], result["weft"], result["message"].replace("\n", " ")[:200])
    for name, count in summary(results).items():
        print(f"{name}: {count}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)
    return any(result["lost"] for result in results)


if __name__ == "__main__":
    sys.exit(main())
