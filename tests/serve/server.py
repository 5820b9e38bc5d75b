# SPDX-License-Identifier: Apache-2.0
"""A server for the cases: a separate process on free ports."""
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from places import BUILD, DIGITS, IS_FULL, ROOT, keep_count  # noqa: F401

MODEL = DIGITS / "digits.onnx"
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(BUILD / "python"), os.environ.get("PYTHONPATH")]))}


sys.path.insert(0, str(BUILD / "python"))


class Server:
    """A running server: `with Server("digits.onnx", "--max-batch", 8) as server:`"""

    def __init__(self, *words, grpc=False):
        words = [str(word) for word in words] + ["--port", "0"] + (["--grpc-port", "0"] if grpc else [])
        self.command = [sys.executable, "-m", "weft.serve", *words]
        self.has_grpc = grpc

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        self.url = self._address()
        self.place = self.url.rpartition("//")[2]
        self.grpc = self._address().rpartition("//")[2] if self.has_grpc else None
        return self

    def _address(self):
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return line.split()[-1]

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.log = self.process.communicate(timeout=120)[1]
        assert self.process.returncode == 0, self.log
        assert "Traceback" not in self.log, self.log

    def ask(self, path, body=None, headers=(), method=None, context=None):
        """Returns the status and the answer, parsed if it is JSON."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        request = urllib.request.Request(self.url + path, data, dict(headers), method=method)
        try:
            with urllib.request.urlopen(request, context=context) as answer:
                status, text, kind = answer.status, answer.read(), answer.headers["Content-Type"]
        except urllib.error.HTTPError as error:
            status, text, kind = error.code, error.read(), error.headers["Content-Type"]
        return status, json.loads(text) if "json" in (kind or "") else text

    def memory(self):
        """Returns the server's resident memory in KiB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.partition("VmRSS:")[2].split()[0])


def until(condition):
    """Returns the value of `condition` once it is true. There is no timeout."""
    while not (value := condition()):
        time.sleep(0.02)
    return value


def numbers(name="x", rows=1, length=2, first=0.0):
    """Returns a request for the model that `double` makes, and the expected answer."""
    values = [first + i for i in range(rows * length)]
    return {"inputs": [{"name": name, "datatype": "FP32", "shape": [rows, length], "data": values}]}, [2 * v for v in values]


def double(path, factor=2):
    """Saves a program that multiplies f32[b,s] by a number, exactly, so that any mix-up is detected."""
    import weft

    text = f"""symbol b
symbol s
module main {{
  %x = parameter {{name="x", type=f32[b,s]}}
  %c = constant {{value=f32[]{{{factor}}}}}
  %f = broadcast %c {{dims=[b, s]}}
  %y = mul %x, %f
  return "y"=%y
}}
"""
    weft.Graph.parse(text).compile(device="cpu", threads=1).save(path)
    return path
