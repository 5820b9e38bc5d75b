# SPDX-License-Identifier: Apache-2.0
"""16 concurrent clients of all kinds send requests of random sizes, and some of them disconnect: no answer is lost or
goes to another client."""
import asyncio
import itertools
import random

import aiohttp
import grpc
import numpy as np
from server import IS_FULL, Server, double, keep_count, numbers

ROUNDS, CLIENTS = 3, 16
COUNT = 2100 * CLIENTS if IS_FULL else 100 * CLIENTS  # in each round
PATH = "/v2/models/double/infer"


class Tally:
    def __init__(self):
        self.right = self.wrong = self.left = 0

    def note(self, is_right):
        self.right, self.wrong = self.right + is_right, self.wrong + (not is_right)


async def as_json(session, server, given, wanted):
    async with session.post(server.url + PATH, json=given) as answer:
        value = await answer.json()
        return answer.status == 200 and value["outputs"][0]["data"] == wanted


async def as_binary(session, server, given, wanted):
    import json

    one = given["inputs"][0]
    data = np.array(one["data"], np.float32).tobytes()
    head = json.dumps({"inputs": [{k: one[k] for k in ("name", "datatype", "shape")} | {"parameters": {"binary_data_size": len(data)}}],
                       "parameters": {"binary_data_output": True}}).encode()
    async with session.post(server.url + PATH, data=head + data, headers={"Inference-Header-Content-Length": str(len(head))}) as answer:
        body = await answer.read()
        tail = body[int(answer.headers["Inference-Header-Content-Length"]) :]
        return answer.status == 200 and np.frombuffer(tail, np.float32).tolist() == wanted


def over_grpc(channel):
    from weft.serve import _proto

    request_class, answer_class = _proto.message("ModelInferRequest"), _proto.message("ModelInferResponse")
    call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer", request_class.SerializeToString, answer_class.FromString)

    async def ask(_session, _server, given, wanted):
        one = given["inputs"][0]
        request = request_class(model_name="double", raw_input_contents=[np.array(one["data"], np.float32).tobytes()])
        request.inputs.add(name="x", datatype="FP32", shape=one["shape"])
        answer = await call(request)
        return np.frombuffer(answer.raw_output_contents[0], np.float32).tolist() == wanted

    return ask


async def client(number, count, server, tally, channel):
    rng = random.Random(number)
    ask = [as_json, as_binary, over_grpc(channel)][number % 3]
    async with aiohttp.ClientSession() as session:
        for _ in range(count):
            given, wanted = numbers(rows=rng.randint(1, 5), length=rng.randint(1, 3), first=rng.randrange(10_000))
            work = asyncio.ensure_future(ask(session, server, given, wanted))
            if rng.random() < 0.1:  # disconnects, now or in a moment
                for _ in range(rng.randrange(30)):
                    await asyncio.sleep(0)
                work.cancel()
            try:
                tally.note(await work)
            except asyncio.CancelledError:
                tally.left += 1


async def everyone(server, tally):
    async with grpc.aio.insecure_channel(server.grpc) as channel:
        await asyncio.gather(*(client(n, COUNT // CLIENTS, server, tally, channel) for n in range(CLIENTS)))


def test_nothing_is_lost_or_mixed_up(tmp_path):
    with Server(double(tmp_path / "double.weft"), "--queue", "1000", grpc=True) as server:
        asyncio.run(everyone(server, Tally()))
        tally, memory = Tally(), [server.memory()]
        for _ in range(ROUNDS):
            asyncio.run(everyone(server, tally))
            memory.append(server.memory())
        stats = server.ask("/v2/models/double/stats")[1]["model_stats"][0]
        text = server.ask("/metrics")[1].decode()
    assert tally.wrong == 0 and tally.right + tally.left == ROUNDS * COUNT
    assert tally.right > ROUNDS * COUNT * 0.85
    assert stats["execution_count"] <= stats["inference_stats"]["success"]["count"]
    for name in ("waiting", "running"):
        assert f'weft_model_{name}{{model="double",version="1"}} 0' in text
    # A leak adds to every round; the pools of the interpreter and of malloc grow only in some rounds. The bound is 1/4
    # KiB a request. A leak of 1 KiB in each request of one of the three kinds of client adds 1/3 KiB a request.
    growth = min(after - before for before, after in itertools.pairwise(memory))
    assert growth < COUNT / 4, memory
    keep_count("requests of 16 clients", {"through": "weft serve"}, right=tally.right, wrong=tally.wrong, went_away=tally.left,
               runs=stats["execution_count"], kilobytes_before=memory[0], kilobytes_after=memory[-1])
