# SPDX-License-Identifier: Apache-2.0
"""weft.ray on a real Ray: Serve with two replicas, one of which is killed; Data over 10,000 rows, some of them
broken."""
import json
import os
import signal
import socket
import urllib.error
import urllib.request

# A busy machine starts Ray's processes slowly.
for name in ("RAY_raylet_start_wait_time_s", "RAY_worker_register_timeout_seconds", "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S"):
    os.environ.setdefault(name, "600")
os.environ.setdefault("RAY_health_check_timeout_ms", "600000")

import numpy as np
import pytest
import ray
import server  # adds the package to the search path
import weft.ray
from ray import serve
from server import DIGITS, MODEL, keep_count, until

TEN = np.load(DIGITS / "ten.npy")
ROWS = 10_000


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Provides a cluster: the one of the two nodes in network namespaces (two_nodes.py) if it runs, else a new one with
    a single node."""
    address = os.environ.get("RAY_HEAD_ADDRESS")
    here = os.path.dirname(os.path.abspath(__file__))  # every node imports the functions of this file
    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join([server.ENVIRONMENT["PYTHONPATH"], here])}}
    more = {"address": address} if address else {"num_cpus": 4, "include_dashboard": False}
    ray.init(runtime_env=environment, log_to_driver=False, **more)
    until(lambda: len(ray.nodes()) == (2 if address else 1))
    yield
    serve.shutdown()
    ray.shutdown()


def ask(url, rows):
    """Returns the digits that the server recognises in these pictures; None if the replica died during the request."""
    body = {"inputs": [{"name": "image", "datatype": "FP32", "shape": list(TEN[rows].shape), "data": TEN[rows].reshape(-1).tolist()}]}
    try:
        with urllib.request.urlopen(urllib.request.Request(url + "/v2/models/digits/infer", json.dumps(body).encode())) as answer:
            data = json.loads(answer.read())["outputs"][0]["data"]
    except (urllib.error.HTTPError, ConnectionError):
        return None
    return np.reshape(data, (-1, 10)).argmax(1).tolist()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_serve_with_two_replicas_one_of_which_dies():
    application = weft.ray.Deployment([MODEL], num_replicas=2, num_cpus=0.5)
    port = free_port()
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    handle = serve.run(application, name="digits", route_prefix="/")
    url = f"http://127.0.0.1:{port}"
    processes = until(lambda: (found := {handle.process.remote().result() for _ in range(20)}) and len(found) == 2 and found)
    rng = np.random.default_rng(3)
    right = lost = 0
    for number in range(400):
        rows = rng.integers(0, 10, rng.integers(1, 4)).tolist()
        if number == 100:
            os.kill(min(processes), signal.SIGKILL)
        while (answer := ask(url, rows)) is None:
            lost += 1
        assert answer == rows
        right += 1
    later = until(lambda: (found := {handle.process.remote().result() for _ in range(20)}) and len(found) == 2 and found)
    assert max(processes) in later and later != processes
    outputs = handle.infer.remote({"image": TEN[4:6]}).result()
    assert outputs["probability"].argmax(1).tolist() == [4, 5]
    serve.delete("digits")
    keep_count("requests to two replicas of Ray Serve, one killed", {"through": "Ray Serve"}, right=right, asked_again=lost)


@ray.remote(num_cpus=0.5, scheduling_strategy="SPREAD")
def digits_of(shipped, rows):
    """Recognises digits on any node, with a saved program; returns the answer and the node."""
    return shipped.load()(TEN[rows]).argmax(1).tolist(), ray.get_runtime_context().get_node_id()


def test_every_node_answers():
    shipped = ray.put(weft.ray.Shipped.of(MODEL, threads=1))
    answers = ray.get([digits_of.remote(shipped, [i % 10]) for i in range(24)])
    assert [digits for digits, _ in answers] == [[i % 10] for i in range(24)]
    nodes = {node for _, node in answers}
    assert nodes == {node["NodeID"] for node in ray.nodes()}
    keep_count("nodes of Ray that answered", {"through": "Ray"}, nodes=len(nodes))


def rows_of_pictures(batch):
    """Returns a batch in which each row holds a picture; every 100th row holds NaN instead."""
    pictures = np.array([TEN[i % 10] if i % 100 != 57 else np.full((1, 8, 8), np.nan, np.float32) for i in batch["id"]])
    return {"id": batch["id"], "picture": pictures}


def refuse_nothing(batch):
    """Replaces the decoding of pictures; raises an error if a row of the batch has no picture (NaN)."""
    if np.isnan(batch["picture"]).any():
        raise ValueError("no picture")
    return {"picture": batch["picture"].astype(np.float32)}


def test_data_over_many_rows():
    pictures = ray.data.range(ROWS).map_batches(rows_of_pictures)
    answers = weft.ray.map_batches(pictures, MODEL, columns={"picture": "image"}, prepare=refuse_nothing, batch_size=256, concurrency=2, num_cpus=0.5)
    right = failed = 0
    for batch in answers.iter_batches(batch_size=1000, batch_format="numpy"):
        for i, probability, error in zip(batch["id"], batch["probability"], batch["error"], strict=True):
            assert bool(error) == (i % 100 == 57)
            failed += bool(error)
            right += not error and bool(np.argmax(probability) == i % 10)
    assert right == ROWS - ROWS // 100 and failed == ROWS // 100
    keep_count("rows of Ray Data", {"through": "Ray Data"}, right=right, failed_as_they_must=failed)


def test_a_wrong_column_is_every_rows_error():
    answers = weft.ray.map_batches(ray.data.range(8), MODEL, columns={"id": "image"}, num_cpus=0.5)
    rows = answers.take_all()
    assert len(rows) == 8 and all("E310" in row["error"] for row in rows)
