# SPDX-License-Identifier: Apache-2.0
"""Tests what the server refuses (missing tokens, requests from other sites, requests that are too large or too many),
and TLS."""
import asyncio
import ssl
import subprocess
import sys

import aiohttp
import numpy as np
import pytest
from server import ENVIRONMENT, MODEL, Server, double, numbers

INFER = "/v2/models/double/infer"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return double(tmp_path_factory.mktemp("models") / "double.weft")


def test_a_token_is_asked_for_everywhere_but_at_health_and_the_page(model, tmp_path):
    import grpc
    import tritonclient.grpc as over_grpc

    (tmp_path / "token").write_text("s3cret\n")
    with Server(model, "--token-file", tmp_path / "token", grpc=True) as server:
        for path in ("/", "/v2/health/live", "/v2/health/ready"):
            assert server.ask(path)[0] == 200
        for path, body in ((INFER, numbers()[0]), ("/v2", None), ("/metrics", None), ("/openapi.json", None), ("/v2/repository/index", {})):
            assert server.ask(path, body)[0] == 401
            assert server.ask(path, body, {"Authorization": "Bearer wrong"})[0] == 401
            assert server.ask(path, body, {"Authorization": "Bearer s3cret"})[0] == 200
        with over_grpc.InferenceServerClient(server.grpc) as client:
            assert client.is_server_live()
            with pytest.raises(Exception, match="token") as caught:
                client.get_model_metadata("double")
            assert caught.value.status() == str(grpc.StatusCode.UNAUTHENTICATED)
            assert client.get_model_metadata("double", headers={"authorization": "Bearer s3cret"}).name == "double"


def test_other_sites_and_other_names_are_refused(model):
    with Server(model) as server:
        assert server.ask("/v2", headers={"Origin": "https://elsewhere.example"})[0] == 403
        assert server.ask("/v2", headers={"Origin": server.url})[0] == 200
        assert server.ask("/v2", headers={"Host": "elsewhere.example"})[0] == 403
        assert server.ask("/v2", headers={"Host": "localhost:1"})[0] == 200


def test_tls(model, tmp_path):
    import grpc
    import tritonclient.grpc as over_grpc

    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key.pem",
                    "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
                   check=True, cwd=tmp_path, capture_output=True)
    cert = tmp_path / "cert.pem"
    with Server(model, "--tls-cert", cert, "--tls-key", tmp_path / "key.pem", grpc=True) as server:
        assert server.url.startswith("https://")
        status, answer = server.ask(INFER, numbers()[0], context=ssl.create_default_context(cafile=cert))
        assert status == 200 and answer["outputs"][0]["data"] == numbers()[1]
        with pytest.raises(OSError):
            server.ask("/v2", context=ssl.create_default_context())
        place = "localhost:" + server.grpc.rpartition(":")[2]
        with over_grpc.InferenceServerClient(place, ssl=True, root_certificates=str(cert)) as client:
            assert client.is_server_ready()
        with pytest.raises(grpc.RpcError), grpc.insecure_channel(place) as channel:
            channel.unary_unary("/inference.GRPCInferenceService/ServerLive")(b"", timeout=20)


def test_large_requests_are_refused(model):
    with Server(model, "--max-request", "10000") as server:
        body, answer = numbers(length=500)
        assert server.ask(INFER, body)[1]["outputs"][0]["data"] == answer
        assert server.ask(INFER, numbers(length=5000)[0])[0] == 413

        async def chunked():
            async def parts():
                for _ in range(100):
                    yield b" " * 1000

            async with aiohttp.ClientSession() as session, session.post(server.url + INFER, data=parts()) as answer:
                return answer.status

        assert asyncio.run(chunked()) == 413


def test_a_body_that_does_not_come_is_given_up(model):
    with Server(model, "--read-timeout", "50ms") as server:

        async def slow():
            reader, writer = await asyncio.open_connection(*server.place.split(":"))
            writer.write(f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{{".encode())
            line = await reader.readline()
            writer.close()
            return line

        assert b" 408 " in asyncio.run(slow())


def endless(path):
    """Makes a model that adds 1 to x until x reaches a limit, which is an input. With a limit above 2^24 the model
    never ends, because 2^24 + 1 is 2^24 in f32."""
    import weft

    text = """symbol t min=0
symbol made min=0
module main {
  %x = parameter {name="x", type=f32[1]}
  %limit = parameter {name="limit", type=f32[]}
  %yes = constant {value=bool[]{1}}
  %y = loop %yes, %x, %limit [body] {counter=t, trips=4611686018427387904, count=made, conditional=true, carried=1, types=[f32[1]], sets=[made]}
  return "y"=%y
}
module body {
  %v = parameter {name="v", type=f32[1]}
  %most = parameter {name="limit", type=f32[]}
  %one = constant {value=f32[1]{1}}
  %next = add %v, %one
  %first = reshape %next {dims=[]}
  %c = less %first, %most
  return "c"=%c, "v"=%next
}
"""
    weft.Graph.parse(text).compile(device="cpu", threads=1).save(path)
    return path


def up_to(limit, **parameters):
    inputs = [{"name": "x", "datatype": "FP32", "shape": [1], "data": [0]}, {"name": "limit", "datatype": "FP32", "shape": [], "data": [limit]}]
    return {"inputs": inputs, "parameters": parameters}


def counter(server, name):
    """Returns a figure of /metrics."""
    lines = server.ask("/metrics")[1].decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"weft_model_{name}{{"))


def test_a_full_queue_answers_429_and_a_client_that_goes_ends_its_run(tmp_path):
    with Server(endless(tmp_path / "slow.weft"), "--queue", 2) as server:
        url = server.url + "/v2/models/slow/infer"

        async def ask(session, limit):
            async with session.post(url, json=up_to(limit)) as answer:
                return answer.status, answer.headers.get("Retry-After")

        async def is_at(name, value):
            while await asyncio.to_thread(counter, server, name) != value:
                await asyncio.sleep(0.01)

        async def flood():
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
                endless_one = asyncio.ensure_future(ask(session, 1e30))
                await is_at("running", 1)
                others = [asyncio.ensure_future(ask(session, 5)) for _ in range(6)]
                await is_at("refused_total", 4)
                await is_at("waiting", 2)
                endless_one.cancel()
                return await asyncio.gather(*others)

        statuses = sorted(asyncio.run(flood()), key=str)
        assert statuses == [(200, None)] * 2 + [(429, "1")] * 4
        assert counter(server, "cancelled_total") == 1 and counter(server, "answered_total") == 2


def test_deadlines_end_runs_and_answer_504(tmp_path):
    with Server(endless(tmp_path / "slow.weft"), grpc=True) as server:
        assert server.ask("/v2/models/slow/infer", up_to(1e30, timeout=50_000))[0] == 504
        import tritonclient.grpc as over_grpc

        with over_grpc.InferenceServerClient(server.grpc) as client:
            given = [over_grpc.InferInput("x", [1], "FP32"), over_grpc.InferInput("limit", [], "FP32")]
            for one, value in zip(given, ([0], 1e30)):
                one.set_data_from_numpy(np.array(value, np.float32))
            with pytest.raises(Exception, match="(?i)deadline"):
                client.infer("slow", given, client_timeout=0.05)
        assert server.ask("/v2/models/slow/infer", up_to(9))[1]["outputs"][0]["data"] == [9]
    with Server(endless(tmp_path / "slow.weft"), "--deadline", "50ms") as server:
        assert server.ask("/v2/models/slow/infer", up_to(1e30))[0] == 504


def test_deadlines(model):
    with Server(model) as server:
        body = numbers()[0] | {"parameters": {"timeout": 10**12}}
        assert server.ask(INFER, body)[0] == 200
        for wrong in (-1, "5", 1.5, True, 2**60):
            assert server.ask(INFER, numbers()[0] | {"parameters": {"timeout": wrong}})[0] == 400


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ([], 2, "name a model"),
        ([MODEL, "--tls-cert", "x"], 2, "go together"),
        ([MODEL, "--batch-delay", "soon"], 2, "not a time"),
        ([MODEL, "--max-request", "much"], 2, "not a size"),
        ([MODEL, f"digits={MODEL}"], 1, "two models are called 'digits'"),
        ([MODEL, "--device", "cpu", "--devices", "cpu,cpu"], 2, "not both"),
        ([MODEL, "--devices", "cpu,ref"], 1, "E502"),
        (["nowhere.onnx"], 1, "E106"),
        ([MODEL, "--device", "gpu:99"], 1, "E501"),
    ],
)
def test_wrong_words(words, code, text):
    words = [str(word) for word in words]
    done = subprocess.run([sys.executable, "-m", "weft.serve", *words, "--port", "0"], capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode != 0 and text in done.stderr and "Traceback" not in done.stderr, done.stderr


NO_DELAY = """
import asyncio, socket, sys, uvicorn
from weft.serve import __main__, _options

async def accept_one(self, sockets):
    self.started = True
    sockets[0].listen()
    with socket.create_connection(sockets[0].getsockname()):
        connection = sockets[0].accept()[0]
        print("no delay:", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

uvicorn.Server.serve = accept_one
asyncio.run(__main__.serve(_options.Options(models=sys.argv[1:], port=0)))
"""


def test_the_second_part_of_an_answer_does_not_wait_for_the_first():
    """With Nagle's algorithm the second part would wait 40 ms for the client's acknowledgement of the first."""
    done = subprocess.run([sys.executable, "-c", NO_DELAY, str(MODEL)], capture_output=True, text=True, env=ENVIRONMENT)
    assert "no delay: 1" in done.stdout, done.stdout + done.stderr
