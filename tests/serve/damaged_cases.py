# SPDX-License-Identifier: Apache-2.0
"""Damaged requests: the JSON, the bytes or the headers of valid requests are changed at random. Every answer has status
200, or a 4xx status with an error in JSON, and the server keeps working. schemathesis tests what /openapi.json allows
and forbids."""
import copy
import http.client
import json
import random
import subprocess
import sys

import numpy as np
from server import DIGITS, ENVIRONMENT, IS_FULL, MODEL, Server, double, keep_count, numbers

COUNT = 20_000 if IS_FULL else 600
ODD = [None, True, False, 0, -1, 1, 1.5, 2**31, 2**63, 2**64, -(2**63), 10**30, 1e308, "", "x", "\x00", "../../etc/passwd", "\ud800", [], [[]], {},
       [1, [2]], {"a": 1}, "FP32", "INT64", "BYTES", "BF16", [1] * 40, [0], [-1, 2], [2**40, 2**40], [True, 1], "A" * 5000]
ODD_HEADERS = ["", "0", "-1", "1e3", "９", "99999999999999999999999", "abc", "12 ", "0x10"]


def right_requests():
    ten = np.load(DIGITS / "ten.npy")[:1].tolist()
    return [
        ("/v2/models/double/infer", numbers(rows=2)[0] | {"id": "a", "outputs": [{"name": "y", "parameters": {"binary_data": False}}]}),
        ("/v2/models/digits/versions/1/infer", {"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": ten}]}),
        ("/v2/models/double/infer", {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}],
                                     "parameters": {"binary_data_output": True}}),
        ("/v2/repository/index", {"ready": True}),
        ("/v2/repository/models/double/load", {"parameters": {}}),
    ]


def places(value, path=()):
    """Yields the paths of `value` and of the values inside it, except those in long lists."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) and len(value) < 20 else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def damage_json(value, rng):
    """Returns the JSON with one value replaced or removed, one item of a list duplicated, or one field added or
    replaced."""
    value = copy.deepcopy(value)
    path = rng.choice([p for p in places(value) if p])
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    kind = rng.randrange(4)
    if kind == 0:
        holder[path[-1]] = rng.choice(ODD)
    elif kind == 1:
        del holder[path[-1]]
    elif kind == 2 and isinstance(holder, list):
        holder.append(copy.deepcopy(rng.choice(holder)))
    else:
        name = rng.choice(["name", "shape", "data", "datatype", "parameters", "inputs", "outputs", "id", "x" * 3000, "\x00"])
        if isinstance(holder, dict):
            holder[name] = rng.choice(ODD)
    return value


def damage_bytes(body, rng):
    """Returns the body with flipped bits, with parts removed or doubled, or with odd bytes inserted."""
    body = bytearray(body)
    for _ in range(rng.choice([1, 1, 1, 3, 10])):
        at = rng.randrange(len(body) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(body):
            body[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del body[at : at + rng.randrange(1, 40)]
        elif kind == 2:
            body[at:at] = body[at : at + 30]
        else:
            body[at:at] = rng.choice([b"[" * 3000, b"\xff", b"\x00", b'"', b"NaN", b"1e999", b"9" * 5000, b"{", b"}", b",", rng.randbytes(9)])
    return bytes(body)


def damaged(rng):
    """Returns the path, body and headers of a damaged request."""
    path, value = rng.choice(right_requests())
    headers = {"Content-Type": rng.choice(["application/json", "application/octet-stream", "text/plain", "x/y"])}
    if rng.random() < 0.6:
        value = damage_json(value, rng)
    body = json.dumps(value).encode("utf-8", "surrogatepass")
    if "binary_data_size" in json.dumps(value) or rng.random() < 0.1:
        headers["Inference-Header-Content-Length"] = str(len(body))
        body += np.arange(2, dtype=np.float32).tobytes()
    if rng.random() < 0.5:
        body = damage_bytes(body, rng)
    if rng.random() < 0.1:
        headers["Inference-Header-Content-Length"] = rng.choice(ODD_HEADERS).encode().decode("latin-1")
    if rng.random() < 0.05:
        headers["Content-Encoding"] = rng.choice(["gzip", "br", "x"])
    if rng.random() < 0.05:
        path = path.replace(rng.choice(["double", "digits", "models", "1", "v2"]), rng.choice(["..%2f..%2fetc", "%00", "nowhere", "%ff", "-1", "1%20"]))
    return path, body, headers


def post(connection, path, body, headers):
    """Returns the status and the answer. If the server has closed the connection, as it may between two requests, opens
    a new one; on a new connection every request must be answered."""
    for is_new in (connection.sock is None, True):
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected):
            connection.close()
            if is_new:
                raise
    raise AssertionError


def test_damaged_requests_get_clean_answers(tmp_path):
    """Answers have only statuses of the protocol, and JSON with the error if the status is not 200. A valid request
    works afterwards."""
    rng, seen = random.Random(IS_FULL), {}
    with Server(MODEL, double(tmp_path / "double.weft"), "--max-request", "100000") as server:
        connection = http.client.HTTPConnection(server.place)
        for number in range(COUNT):
            path, body, headers = damaged(rng)
            status, data = post(connection, path, body, headers)
            seen[status] = seen.get(status, 0) + 1
            assert status in (200, 400, 404, 405, 413, 415, 422), (number, status, path, body[:300], data[:300])
            if status != 200:
                assert json.loads(data)["error"], (number, path, body[:300], data)
        given, wanted = numbers(rows=3)
        assert server.ask("/v2/models/double/infer", given)[1]["outputs"][0]["data"] == wanted
    assert sum(count for status, count in seen.items() if status >= 400) > COUNT // 2, seen
    keep_count("damaged requests", {"over": "HTTP"}, **{str(status): count for status, count in sorted(seen.items())})


def test_damaged_messages_over_grpc(tmp_path):
    """A damaged message is answered, or refused by an error that blames the client, never by INTERNAL or UNKNOWN."""
    import grpc
    from weft.serve import _proto

    fine = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.RESOURCE_EXHAUSTED}
    rng = random.Random(2)
    request = _proto.message("ModelInferRequest")(model_name="double", raw_input_contents=[np.ones(2, np.float32).tobytes()])
    request.inputs.add(name="x", datatype="FP32", shape=[1, 2])
    right, seen = request.SerializeToString(), {}
    with Server(double(tmp_path / "double.weft"), grpc=True) as server, grpc.insecure_channel(server.grpc) as channel:
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        for number in range(COUNT // 4):
            body = damage_bytes(right, rng)
            try:
                infer(body)
                code = "OK"
            except grpc.RpcError as error:
                code = error.code()
                assert code in fine, (number, body, error)
            seen[str(code)] = seen.get(str(code), 0) + 1
        assert infer(right)
    keep_count("damaged requests", {"over": "gRPC"}, **seen)


def test_schemathesis(tmp_path):
    """The server gives no internal error, and no status, type or schema that /openapi.json does not declare."""
    with Server(MODEL, double(tmp_path / "double.weft")) as server:
        checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
        command = [sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()", "run", server.url + "/openapi.json",
                   "--checks", checks, "--max-examples", "300" if IS_FULL else "5", "--seed", "1", "--suppress-health-check", "all",
                   "--phases", "examples,coverage,fuzzing", "--exclude-path-regex", "unload"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=ENVIRONMENT)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
