# SPDX-License-Identifier: Apache-2.0
"""The v2 protocol over HTTP: an ASGI application of FastAPI over a repository."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException

import weft

from . import _requests
from ._metrics import Metrics
from ._options import LOOPBACK_NAMES, Options
from ._repository import Repository, Served
from ._schemas import answers, infer_body
from ._tensors import Refused, bad, is_whole, tensor_from_bytes, tensor_from_list

OPEN_PATHS = {"/", "/v2/health/live", "/v2/health/ready"}  # need no token: they reveal nothing

SPLIT = "inference-header-content-length"
HERE = Path(__file__).resolve().parent
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src blob: data:; frame-ancestors 'none'"


# --- guards ---------------------------------------------------------------------------------------------------------


def host_of(text: str) -> str:
    """Returns the host in "name:port", "[::1]:8000" or "http://name"."""
    text = text.rpartition("//")[2]
    return text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]


class Guard:
    """Refuses requests without the token, if there is one (OPEN_PATHS need none), and requests of pages of other sites. A server
    on a loopback address also refuses other host names."""

    def __init__(self, app: Any, options: Options) -> None:
        self.app, self.token, self.is_local = app, options.token, options.host in LOOPBACK_NAMES

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        refusal = self.refusal(scope) if scope["type"] == "http" else None
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1003})
        elif refusal:
            await refusal(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def refusal(self, scope: Any) -> Response | None:
        headers = dict(scope["headers"])
        host, origin = (headers.get(name, b"").decode("latin-1") for name in (b"host", b"origin"))
        if self.is_local and host and host_of(host).lower() not in LOOPBACK_NAMES:
            return JSONResponse({"error": f"this server is not called {host_of(host)[:200]!r}"}, 403)
        if origin and origin.rpartition("//")[2].lower() != host.lower():
            return JSONResponse({"error": "requests of pages of other sites are refused"}, 403)
        given = headers.get(b"authorization", b"")
        scheme, _, token = given.partition(b" ")
        is_right = scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self.token)
        if self.token and scope["path"] not in OPEN_PATHS and not is_right:
            return JSONResponse({"error": "a bearer token is needed"}, 401, {"WWW-Authenticate": "Bearer"})
        return None


async def body_of(request: Request, options: Options) -> bytes:
    """Reads the body; refuses a body that is compressed, too large or too slow."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Refused(415, "compressed requests are not supported")
    too_large = Refused(413, f"a request may have {options.max_request} bytes; --max-request says how many")
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length[:18]) > options.max_request:
        raise too_large
    parts: list[bytes] = []
    size = 0

    async def read() -> None:
        nonlocal size
        async for part in request.stream():
            size += len(part)
            if size > options.max_request:
                raise too_large
            parts.append(part)

    try:
        await asyncio.wait_for(read(), options.read_timeout)
    except asyncio.TimeoutError:
        raise Refused(408, f"the body did not come within {options.read_timeout} seconds") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def json_of(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise bad(f"the request is no JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise bad("the request is no JSON object")
    return value


async def small_json(request: Request, options: Options) -> dict[str, Any]:
    data = await body_of(request, options)
    return json_of(data) if data.strip() else {}


# --- inference ------------------------------------------------------------------------------------------------------


def part_of(given: dict[str, Any], key: str, kind: type, default: Any) -> Any:
    value = given.get(key, default)
    if not isinstance(value, kind):
        raise bad(f"'{key}' of the request is no {'list' if kind is list else 'object' if kind is dict else 'text'}")
    return value


def split_body(body: bytes, header: str | None) -> tuple[dict[str, Any], memoryview]:
    """Splits a body into its JSON and the bytes of tensors after the JSON."""
    if header is None:
        return json_of(body), memoryview(b"")
    if not header.isdecimal() or len(header) > 18 or int(header) > len(body):
        raise bad(f"{SPLIT} is not a number of at most {len(body)}")
    return json_of(body[: int(header)]), memoryview(body)[int(header) :]


def inputs_of(served: Served, given: list[Any], rest: memoryview) -> _requests.Inputs:
    inputs = _requests.Inputs(served)
    for one in given:
        if not isinstance(one, dict):
            raise bad("an input of the request is not an object")
        name, shape = one.get("name"), one.get("shape")
        dtype, shape = inputs.port(name, one.get("datatype"), shape)
        parameters = part_of(one, "parameters", dict, {})
        if unknown := set(parameters) - {"binary_data_size"}:
            raise bad(f"the parameter '{min(unknown)}' of input '{name}' is not supported")
        if "binary_data_size" not in parameters:
            inputs.put(name, tensor_from_list(dtype, shape, one.get("data"), name))
            continue
        size = parameters["binary_data_size"]
        if not is_whole(size) or not 0 <= size <= len(rest) or "data" in one:
            raise bad(f"input '{name}' does not have its binary_data_size of bytes behind the JSON, or has data besides")
        inputs.put(name, tensor_from_bytes(dtype, shape, rest[:size], name))
        rest = rest[size:]
    if len(rest) > 0:
        raise bad(f"{len(rest)} bytes behind the JSON belong to no input")
    return inputs


def wanted_of(served: Served, given: list[Any], all_binary: bool) -> tuple[list[str], set[str]]:
    """Returns the names of the requested outputs, and the names of those requested in binary."""
    names, binary = [], set()
    for one in given:
        if not isinstance(one, dict):
            raise bad("an output of the request is not an object")
        parameters = part_of(one, "parameters", dict, {})
        if unknown := set(parameters) - {"binary_data"}:
            raise bad(f"the parameter '{min(unknown)}' of an output is not supported")
        is_binary = parameters.get("binary_data", all_binary)
        if not isinstance(is_binary, bool):
            raise bad("the parameter 'binary_data' is neither true nor false")
        names.append(part_of(one, "name", str, None))
        if is_binary:
            binary.add(names[-1])
    _requests.check_names(served, names)
    if not given and all_binary:
        binary = {port.name for port in served.outputs}
    return names, binary


def answer_of(served: Served, id_: str, outputs: list[Any], binary: set[str]) -> Response:
    entries, tail = [], []
    for output in outputs:
        entry: dict[str, Any] = {"name": output.name, "datatype": output.datatype, "shape": output.shape}
        if output.name in binary:
            tail.append(output.bytes())
            entry["parameters"] = {"binary_data_size": len(tail[-1])}
        else:
            entry["data"] = output.data()
        entries.append(entry)
    answer = {"model_name": served.name, "model_version": served.version, "outputs": entries} | ({"id": id_} if id_ else {})
    head = json.dumps(answer, separators=(",", ":")).encode()
    if not tail:
        return Response(head, media_type="application/json")
    return Response(b"".join([head, *tail]), media_type="application/octet-stream", headers={SPLIT: str(len(head))})


async def unless_gone(request: Request, work: Any) -> Any:
    """Returns the result of `work`; cancels it when the client disconnects."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(request.receive())  # the body is read, so the next message is a disconnect
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Refused(499, "the client is gone")
        return task.result()
    finally:
        task.cancel()
        gone.cancel()


async def infer(repository: Repository, request: Request, name: str, version: str) -> Response:
    body = await body_of(request, repository.options)
    served = repository.find(name, version)
    given, rest = split_body(body, request.headers.get(SPLIT))
    id_ = part_of(given, "id", str, "")
    parameters = _requests.parameters_of(part_of(given, "parameters", dict, {}))
    inputs = inputs_of(served, part_of(given, "inputs", list, None), rest)
    names, binary = wanted_of(served, part_of(given, "outputs", list, []), parameters.all_binary)
    outputs = await unless_gone(request, _requests.infer(served, inputs, parameters))
    return answer_of(served, id_, _requests.chosen(outputs, names), binary)


# --- the application ------------------------------------------------------------------------------------------------


def refused(error: Refused) -> JSONResponse:
    return JSONResponse({"error": str(error)}, error.status, {"Retry-After": "1"} if error.status in (429, 503) else None)


def config_of(served: Served) -> dict[str, Any]:
    """Returns a model's configuration in Triton's form. Shapes include the batch."""
    metadata = served.metadata([served.version])

    def ports(key: str) -> list[dict[str, Any]]:
        kinds = {"BYTES": "STRING"}
        return [
            {"name": p["name"], "data_type": "TYPE_" + kinds.get(p["datatype"], p["datatype"]), "dims": p["shape"]} for p in metadata[key]
        ]

    return {"name": served.name, "platform": "weft", "max_batch_size": 0, "input": ports("inputs"), "output": ports("outputs")}


def build(repository: Repository) -> Any:
    """Makes an ASGI application. It loads the models when it starts, and answers accepted requests before it ends."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if not repository.is_live:
            await repository.start()
        yield
        await repository.stop()

    app = FastAPI(
        title="weft serve", version=weft.__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        description="The KServe v2 protocol, with the binary extension and the model repository extension.",
    )
    app.state.metrics = Metrics(repository)

    @app.exception_handler(Refused)
    async def _(_: Request, error: Refused) -> JSONResponse:
        return refused(error)

    @app.exception_handler(HTTPException)
    async def _(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def _(_: Request, error: Exception) -> JSONResponse:
        return refused(_requests.refusal_of(error))

    add_general(app, repository)
    add_models(app, repository)
    add_repository(app, repository)
    return Guard(app, repository.options)


def add_general(app: FastAPI, repository: Repository) -> None:
    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse((HERE / "page.html").read_text(), headers={"Content-Security-Policy": POLICY})

    @app.get("/v2", tags=["server"], responses=answers(401))
    async def server_metadata() -> dict[str, Any]:
        extensions = ["binary_tensor_data", "model_repository", "model_configuration", "statistics"]
        return {"name": "weft", "version": weft.__version__, "extensions": extensions}

    @app.get("/v2/health/live", tags=["health"])
    async def live() -> dict[str, bool]:
        return {"live": True}

    @app.get("/v2/health/ready", tags=["health"], responses=answers(503))
    async def ready() -> Response:
        is_ready = repository.is_ready()
        return JSONResponse({"ready": is_ready}, 200 if is_ready else 503)

    @app.get("/metrics", response_class=PlainTextResponse, tags=["server"], responses=answers(401))
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(app.state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v2/models/stats", tags=["statistics"], responses=answers(401))
    async def all_statistics() -> dict[str, Any]:
        return {"model_stats": [served.statistics() for served in repository.all_served()]}


def add_models(app: FastAPI, repository: Repository) -> None:
    def both(path: str, method: Callable[..., Any], **more: Any) -> Callable[[Any], Any]:
        """Returns a decorator that adds two routes for a call: for the newest version and for a named one."""

        def add(call: Any) -> Any:
            async def newest(name: str, request: Request) -> Any:
                return await call(name, "", request)

            async def named(name: str, version: str, request: Request) -> Any:
                return await call(name, version, request)

            title = call.__name__
            method(f"/v2/models/{{name}}/versions/{{version}}{path}", operation_id=f"{title}_version", **more)(named)
            method(f"/v2/models/{{name}}{path}", operation_id=title, **more)(newest)
            return call

        return add

    @both("/ready", app.get, tags=["health"], responses=answers(401, 404, 400))
    async def model_ready(name: str, version: str, _: Request) -> Response:
        is_ready = repository.is_ready(name, version)
        return JSONResponse({"name": name, "ready": is_ready}, 200 if is_ready else 400)

    @both("", app.get, tags=["models"], responses=answers(401, 404, 400))
    async def model_metadata(name: str, version: str, _: Request) -> dict[str, Any]:
        served = repository.find(name, version)
        return served.metadata(repository.versions(name)) | {"properties": served.properties}

    @both("/config", app.get, tags=["models"], responses=answers(401, 404, 400))
    async def model_config(name: str, version: str, _: Request) -> dict[str, Any]:
        return config_of(repository.find(name, version))

    @both("/stats", app.get, tags=["statistics"], responses=answers(401, 404, 400))
    async def model_statistics(name: str, version: str, _: Request) -> dict[str, Any]:
        return {"model_stats": [repository.find(name, version).statistics()]}

    @both("/infer", app.post, tags=["inference"], openapi_extra=infer_body(),
          responses=answers(400, 401, 404, 408, 413, 415, 422, 429, 503, 504))
    async def model_infer(name: str, version: str, request: Request) -> Response:
        begin = time.perf_counter()
        status = 500
        try:
            response = await infer(repository, request, name, version)
            status = 200
            return response
        except Refused as error:
            status = error.status
            raise
        finally:
            app.state.metrics.count(name, status, time.perf_counter() - begin)


def add_repository(app: FastAPI, repository: Repository) -> None:
    @app.post("/v2/repository/index", tags=["repository"], responses=answers(400, 401, 408, 413, 415))
    async def index(request: Request) -> list[dict[str, str]]:
        given = await small_json(request, repository.options)
        if set(given) - {"ready"} or not isinstance(given.get("ready", False), bool):
            raise bad("an index takes nothing but 'ready', true or false")
        return repository.index(given.get("ready", False))

    async def nothing_in(request: Request) -> None:
        given = await small_json(request, repository.options)
        if set(given) - {"parameters"} or part_of(given, "parameters", dict, {}):
            raise bad("models are loaded from the files that the server was started with; a request brings none")

    @app.post("/v2/repository/models/{name}/load", tags=["repository"], responses=answers(400, 401, 404, 408, 413, 415))
    async def load(name: str, request: Request) -> dict[str, Any]:
        await nothing_in(request)
        await repository.load(name)
        return {}

    @app.post("/v2/repository/models/{name}/unload", tags=["repository"], responses=answers(400, 401, 404, 408, 413, 415))
    async def unload(name: str, request: Request) -> dict[str, Any]:
        given = await small_json(request, repository.options)
        if set(given) - {"parameters"} or set(part_of(given, "parameters", dict, {})) - {"unload_dependents"}:
            raise bad("an unload takes no parameters but 'unload_dependents'")
        await repository.unload(name)
        return {}
