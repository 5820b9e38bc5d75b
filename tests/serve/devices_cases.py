# SPDX-License-Identifier: Apache-2.0
"""Models that are split over several devices, and several such programs behind one queue: ranks on the processor
replace GPUs."""
from concurrent.futures import ThreadPoolExecutor

from server import Server

WIDTH, INNER = 32, 64


def products(path):
    """Saves y = relu(x w) v with weights of 1. If the sum of a row of x is not negative, each number in that row of y
    is exactly INNER times the sum."""
    import weft

    text = f"""symbol b min=1
module main {{
  %x = parameter {{name="x", type=f32[b,{WIDTH}]}}
  %c = constant {{value=f32[1]{{1}}}}
  %w = broadcast %c {{dims=[{WIDTH}, {INNER}]}}
  %h = dot %x, %w {{type=f32}}
  %r = relu %h
  %v = broadcast %c {{dims=[{INNER}, {WIDTH}]}}
  %y = dot %r, %v {{type=f32}}
  return "y"=%y
}}
"""
    weft.Graph.parse(text).compile(device="cpu", threads=1).save(path)
    return path


def test_split_programs_behind_one_queue(tmp_path):
    split = ["--devices", "cpu,cpu", "--devices", "cpu,cpu,cpu,cpu"]
    with Server(products(tmp_path / "products.weft"), *split, "--threads", 2, "--max-batch", 8) as server:

        def ask(number):
            rows = 1 + number % 3
            values = [number + i % 5 for i in range(rows * WIDTH)]
            body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [rows, WIDTH], "data": values}]}
            status, answer = server.ask("/v2/models/products/infer", body)
            sums = [INNER * sum(values[r * WIDTH : (r + 1) * WIDTH]) for r in range(rows)]
            return status == 200 and answer["outputs"][0]["data"] == [s for s in sums for _ in range(WIDTH)]

        with ThreadPoolExecutor(8) as clients:
            assert all(clients.map(ask, range(300)))
    assert "is ready on cpu,cpu, cpu,cpu,cpu,cpu" in server.log


def test_one_list_as_the_device(tmp_path):
    with Server(products(tmp_path / "products.weft"), "--device", "cpu,cpu", "--threads", 2) as server:
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, WIDTH], "data": [1.0] * WIDTH}]}
        status, answer = server.ask("/v2/models/products/infer", body)
        assert status == 200 and answer["outputs"][0]["data"] == [float(INNER * WIDTH)] * WIDTH
