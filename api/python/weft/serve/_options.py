# SPDX-License-Identifier: Apache-2.0
"""The options of `weft serve`."""

from __future__ import annotations

import argparse
import dataclasses
import re
from pathlib import Path

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0}
LOOPBACK_NAMES = {"localhost", "127.0.0.1", "::1"}
SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def seconds(text: str) -> float:
    """Parses a time such as "2ms", "0.5s" or "3" and returns seconds."""
    if not (match := re.fullmatch(r"([0-9]*\.?[0-9]+)(ns|us|ms|s|)", text)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a time such as 2ms")
    return float(match[1]) * UNITS[match[2]]


def bytes_of(text: str) -> int:
    """Parses a size such as "64M" or "1000" and returns bytes."""
    if not (match := re.fullmatch(r"([0-9]+)([kmg]?)(i?b)?", text.lower())):
        raise argparse.ArgumentTypeError(f"'{text}' is not a size such as 64M")
    return int(match[1]) * SIZES[match[2]]


def at_least(least: int):
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least {least}")
        return int(text)

    return parse


@dataclasses.dataclass
class Options:
    models: list[str] = dataclasses.field(default_factory=list)  #: "digits.onnx", "name=model.weft"
    model_folder: str | None = None
    versions: int = 1  #: number of newest versions to serve of each model of the folder
    poll: float = 1.0
    device: str = "auto"
    #: one copy of each model per entry; "gpu:0,gpu:1" splits a copy over both
    devices: list[str] = dataclasses.field(default_factory=list)
    threads: int = 0
    precision: str = "f32"
    instances: int = 1
    batch_delay: float = 0.002
    max_batch: int = 64
    queue: int = 256
    deadline: float = 0.0  #: deadline in seconds of requests that name none; 0: no deadline
    host: str = "127.0.0.1"
    port: int = 8000
    grpc_port: int | None = None
    max_request: int = 64 << 20
    read_timeout: float = 60.0
    token_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None

    @property
    def token(self) -> bytes:
        """Returns the token that requests must carry; b"" if none is needed."""
        if not self.token_file:
            return b""
        token = Path(self.token_file).read_bytes().strip()
        if not token:
            raise SystemExit(f"error[E203]: the token file {self.token_file} is empty")
        return token


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="weft serve", description="Serve models over HTTP and gRPC by the KServe v2 protocol; a page to try them is at /."
    )
    p.add_argument("models", nargs="*", metavar="MODEL", help="a model or saved program; NAME=FILE gives it another name")
    p.add_argument("--model-folder", metavar="DIR", help="serve DIR/NAME.onnx and DIR/NAME/VERSION/model.onnx, and follow changes")
    p.add_argument("--versions", type=at_least(1), metavar="N", help="number of versions of a model in the folder to serve (1)")
    p.add_argument("--poll", type=seconds, metavar="TIME", help="time between looks at the folder (1s)")
    p.add_argument("--device", help="auto, cpu, nvidia:0 ...; gpu:* is one copy on each GPU (auto)")
    p.add_argument("--devices", action="append", metavar="LIST", help="split each model over several devices: gpu:0,gpu:1; repeat for more copies")
    p.add_argument("--threads", type=at_least(0), metavar="N", help="threads of the CPU; 0: all (0)")
    p.add_argument("--precision", choices=["f32", "bf16", "f16"], help="type of matrix products and convolutions (f32)")
    p.add_argument("--instances", type=at_least(1), metavar="N", help="concurrent runs of each model on each device (1)")
    p.add_argument("--batch-delay", type=seconds, metavar="TIME", help="longest time that a request waits for others to batch with (2ms)")
    p.add_argument("--max-batch", type=at_least(1), metavar="ROWS", help="limit of the rows of one run; 1: no batching (64)")
    p.add_argument("--queue", type=at_least(1), metavar="N", help="limit of waiting requests per model; above it: status 429 (256)")
    p.add_argument("--deadline", type=seconds, metavar="TIME", help="deadline of requests that name none (no deadline)")
    p.add_argument("--host", help="the address to listen at; 0.0.0.0: all addresses (127.0.0.1)")
    p.add_argument("--port", type=at_least(0), help="port of HTTP; 0: any free one (8000)")
    p.add_argument("--grpc-port", type=at_least(0), metavar="PORT", help="port of gRPC; 0: any free one (no gRPC)")
    p.add_argument("--max-request", type=bytes_of, metavar="SIZE", help="limit of the size of a request; above it: status 413 (64M)")
    p.add_argument("--read-timeout", type=seconds, metavar="TIME", help="limit of the time to receive a request's body; above it: status 408 (60s)")
    p.add_argument("--token-file", metavar="FILE", help="requests must carry the bearer token in FILE")
    p.add_argument("--tls-cert", metavar="FILE", help="certificate (PEM): serve HTTPS, and gRPC over TLS")
    p.add_argument("--tls-key", metavar="FILE", help="its key (PEM)")
    return p


def parse(words: list[str]) -> Options:
    p = parser()
    given = {name: value for name, value in vars(p.parse_args(words)).items() if value is not None}
    options = Options(**given)
    if not options.models and not options.model_folder:
        p.error("name a model, or a folder of them with --model-folder")
    if options.devices and options.device != "auto":
        p.error("give --device or --devices, not both")
    if bool(options.tls_cert) != bool(options.tls_key):
        p.error("--tls-cert and --tls-key go together")
    return options
