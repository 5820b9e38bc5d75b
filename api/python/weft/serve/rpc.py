# SPDX-License-Identifier: Apache-2.0
"""The v2 protocol over gRPC, on the same event loop as HTTP. Only `weft serve --grpc-port` imports it."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from google.protobuf.message import DecodeError

import weft

from . import _proto, _requests
from ._options import Options
from ._repository import Repository, Served
from ._tensors import TYPES, bad, counted, tensor_from_array, tensor_from_bytes, tensor_from_texts

CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT, 401: grpc.StatusCode.UNAUTHENTICATED, 404: grpc.StatusCode.NOT_FOUND,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED, 429: grpc.StatusCode.RESOURCE_EXHAUSTED, 503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED, 500: grpc.StatusCode.INTERNAL,
}
#: maps an element type to the field of InferTensorContents that holds its elements
CONTENTS = {
    "bool": "bool_contents", "i8": "int_contents", "i16": "int_contents", "i32": "int_contents", "i64": "int64_contents",
    "u8": "uint_contents", "u16": "uint_contents", "u32": "uint_contents", "u64": "uint64_contents",
    "f32": "fp32_contents", "f64": "fp64_contents", "string": "bytes_contents",
}
SERVICE = "inference.GRPCInferenceService"


def plain(parameters: Any) -> dict[str, Any]:
    return {name: getattr(value, value.WhichOneof("parameter_choice") or "bool_param") for name, value in parameters.items()}


def tensor_of(dtype: str, shape: list[int], contents: Any, name: str) -> Any:
    """Reads a tensor from typed contents."""
    if dtype not in CONTENTS:
        raise bad(f"input '{name}' has a type that goes into raw_input_contents only")
    filled = {field.name for field, _ in contents.ListFields()}
    if filled - {CONTENTS[dtype]}:
        raise bad(f"the contents of '{name}' are not in {CONTENTS[dtype]}")
    elements = counted(getattr(contents, CONTENTS[dtype]), shape, name)
    if dtype == "string":
        return tensor_from_texts(shape, list(elements))
    try:
        return tensor_from_array(dtype, shape, np.array(list(elements), TYPES[dtype][1]))
    except OverflowError:
        raise bad(f"the contents of '{name}' have a number outside the range of its type") from None


def inputs_of(served: Served, request: Any) -> _requests.Inputs:
    inputs = _requests.Inputs(served)
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise bad(f"{len(raw)} raw contents are given for {len(request.inputs)} inputs")
    for number, one in enumerate(request.inputs):
        dtype, shape = inputs.port(one.name, one.datatype, list(one.shape))
        if one.parameters:
            raise bad(f"the parameter '{min(one.parameters)}' of input '{one.name}' is not supported")
        if raw and one.HasField("contents"):
            raise bad(f"input '{one.name}' has both raw and typed contents")
        if raw:
            inputs.put(one.name, tensor_from_bytes(dtype, shape, memoryview(raw[number]), one.name))
        else:
            inputs.put(one.name, tensor_of(dtype, shape, one.contents, one.name))
    return inputs


def names_of(served: Served, request: Any) -> list[str]:
    for one in request.outputs:
        if unknown := set(one.parameters) - {"binary_data"}:
            raise bad(f"the parameter '{min(unknown)}' of an output is not supported")
    names = [one.name for one in request.outputs]
    _requests.check_names(served, names)
    return names


def parsed(class_: Any, data: bytes) -> Any:
    try:
        return class_.FromString(data)
    except DecodeError:
        raise bad(f"the request is no {class_.DESCRIPTOR.name}") from None


class Service:
    """The methods of the gRPC service. From `context` they use only the time that is left until the deadline."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository

    async def ServerLive(self, request: Any, context: Any) -> dict[str, Any]:
        return {"live": True}

    async def ServerReady(self, request: Any, context: Any) -> dict[str, Any]:
        return {"ready": self.repository.is_ready()}

    async def ModelReady(self, request: Any, context: Any) -> dict[str, Any]:
        return {"ready": self.repository.is_ready(request.name, request.version)}

    async def ServerMetadata(self, request: Any, context: Any) -> dict[str, Any]:
        extensions = ["model_repository", "model_configuration", "statistics"]
        return {"name": "weft", "version": weft.__version__, "extensions": extensions}

    async def ModelMetadata(self, request: Any, context: Any) -> dict[str, Any]:
        return self.repository.find(request.name, request.version).metadata(self.repository.versions(request.name))

    async def ModelConfig(self, request: Any, context: Any) -> dict[str, Any]:
        from .web import config_of

        return {"config": config_of(self.repository.find(request.name, request.version))}

    async def ModelStatistics(self, request: Any, context: Any) -> dict[str, Any]:
        name = request.name
        served = [self.repository.find(name, request.version)] if name else self.repository.all_served()
        return {"model_stats": [one.statistics() for one in served]}

    async def RepositoryIndex(self, request: Any, context: Any) -> dict[str, Any]:
        return {"models": self.repository.index(request.ready)}

    async def RepositoryModelLoad(self, request: Any, context: Any) -> dict[str, Any]:
        if request.parameters:
            raise bad("models are loaded from the files that the server was started with; a request brings none")
        await self.repository.load(request.model_name)
        return {}

    async def RepositoryModelUnload(self, request: Any, context: Any) -> dict[str, Any]:
        if set(request.parameters) - {"unload_dependents"}:
            raise bad("an unload takes no parameters but 'unload_dependents'")
        await self.repository.unload(request.model_name)
        return {}

    async def ModelInfer(self, request: Any, context: Any) -> Any:
        served = self.repository.find(request.model_name, request.model_version)
        parameters = _requests.parameters_of(plain(request.parameters))
        left = context.time_remaining() if context else None
        if left is not None and (not parameters.deadline or left < parameters.deadline):
            parameters.deadline = max(left, 1e-6)
        inputs, names = inputs_of(served, request), names_of(served, request)
        outputs = _requests.chosen(await _requests.infer(served, inputs, parameters), names)
        response = _proto.message("ModelInferResponse")(model_name=served.name, model_version=served.version, id=request.id)
        for output in outputs:
            response.outputs.add(name=output.name, datatype=output.datatype, shape=output.shape)
            response.raw_output_contents.append(output.bytes())
        return response

    async def stream(self, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Answers requests of a stream in their order; an error of one request does not end the stream."""
        response = _proto.message("ModelStreamInferResponse")
        request_class = _proto.message("ModelInferRequest")
        async for data in requests:
            try:
                yield response(infer_response=await self.ModelInfer(parsed(request_class, data), None))
            except Exception as error:
                yield response(error_message=str(_requests.refusal_of(error)))


def is_allowed(context: Any, token: bytes) -> bool:
    if not token:
        return True
    given = dict(context.invocation_metadata() or ()).get("authorization", "")
    scheme, _, word = (given if isinstance(given, str) else given.decode("latin-1")).partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(word.strip().encode(), token)


def handlers(repository: Repository) -> Any:
    service, token = Service(repository), repository.options.token
    healthy = {"ServerLive", "ServerReady"}  # need no token, as over HTTP

    def unary(method: Any) -> Any:
        answer_class = _proto.message(method.output_type.name)
        call = getattr(service, method.name)

        request_class = _proto.message(method.input_type.name)

        async def handle(data: bytes, context: Any) -> Any:
            if method.name not in healthy and not is_allowed(context, token):
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, "a bearer token is needed")
            try:
                answer = await call(parsed(request_class, data), context)
            except Exception as error:
                refused = _requests.refusal_of(error)
                await context.abort(CODES.get(refused.status, grpc.StatusCode.INTERNAL), str(refused))
            return answer if isinstance(answer, answer_class) else from_plain(answer_class, answer)

        return grpc.unary_unary_rpc_method_handler(handle, None, answer_class.SerializeToString)

    async def stream(requests: Any, context: Any) -> AsyncIterator[Any]:
        if not is_allowed(context, token):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "a bearer token is needed")
        async for answer in service.stream(requests):
            yield answer

    found = {}
    for method in _proto.file().services_by_name["GRPCInferenceService"].methods:
        if method.name == "ModelStreamInfer":
            answer_class = _proto.message(method.output_type.name)
            found[method.name] = grpc.stream_stream_rpc_method_handler(stream, None, answer_class.SerializeToString)
        else:
            found[method.name] = unary(method)
    return grpc.method_handlers_generic_handler(SERVICE, found)


def from_plain(class_: Any, values: dict[str, Any]) -> Any:
    from google.protobuf import json_format

    return json_format.ParseDict(values, class_())


async def start(repository: Repository) -> tuple[Any, int]:
    """Starts the server. Returns the server and its port."""
    options = repository.options
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", options.max_request), ("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((handlers(repository),))
    host = f"[{options.host}]" if ":" in options.host else options.host
    port = bind(server, f"{host}:{options.grpc_port}", options)
    await server.start()
    return server, port


def bind(server: Any, address: str, options: Options) -> int:
    if not options.tls_cert or not options.tls_key:
        return server.add_insecure_port(address)
    pair = (Path(options.tls_key).read_bytes(), Path(options.tls_cert).read_bytes())
    return server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
