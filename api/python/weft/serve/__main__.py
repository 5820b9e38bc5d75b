# SPDX-License-Identifier: Apache-2.0
"""The command `weft serve`, also `python -m weft.serve`."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys

from ._options import LOOPBACK_NAMES, Options, parse


def missing(options: Options) -> str:
    """Returns the extra of the package that must be installed first ("weft[serve]"); "" if nothing is missing."""
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("fastapi", "uvicorn", "numpy")):
        return "weft[serve]"
    if options.grpc_port is not None and any(find_spec(name) is None for name in ("grpc", "google.protobuf")):
        return "weft[grpc]"
    return ""


async def serve(options: Options) -> None:
    import uvicorn

    from . import web
    from ._repository import Repository

    repository = Repository(options)
    app = web.build(repository)
    config = uvicorn.Config(
        app, host=options.host, port=options.port, ssl_certfile=options.tls_cert, ssl_keyfile=options.tls_key,
        log_level="warning", access_log=False, lifespan="on", server_header=False, ws="none", timeout_keep_alive=75,
    )
    await repository.start()
    server, listening = uvicorn.Server(config), config.bind_socket()
    # An answer takes two writes. Without this option, the second waits up to 40 ms for the client to acknowledge the first.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn stops on a signal, then restores this handler and raises it again
        signal.signal(number, lambda *_: None)
    running = asyncio.ensure_future(server.serve([listening]))
    while not server.started and not running.done():
        await asyncio.sleep(0.01)
    scheme, host = "https" if options.tls_cert else "http", f"[{options.host}]" if ":" in options.host else options.host
    print(f"weft serve: {scheme}://{host}:{listening.getsockname()[1]}", flush=True)
    if options.grpc_port is not None:
        from . import rpc as rpc_module

        rpc, port = await rpc_module.start(repository)
        repository.before_stop.append(lambda: rpc.stop(grace=5))
        print(f"weft serve: grpc://{host}:{port}", flush=True)
    await running


def main(words: list[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    options = parse(words)
    if extra := missing(options):
        print(f"error[E219]: weft serve needs packages that are not installed\n   hint: pip install '{extra}'", file=sys.stderr)
        return 4
    if options.host not in LOOPBACK_NAMES and not options.token_file:
        logging.warning("warning: %s can be reached from other machines, and there is no --token-file", options.host)
    asyncio.run(serve(options))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
