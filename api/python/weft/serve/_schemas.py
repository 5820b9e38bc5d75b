# SPDX-License-Identifier: Apache-2.0
"""Schemas for /openapi.json: of requests that FastAPI does not parse itself, and of errors."""

from __future__ import annotations

from typing import Any

WHY = {
    400: "the request is wrong; `error` says what", 401: "the bearer token is missing or wrong", 404: "there is no such model or version",
    408: "the body did not come in time", 413: "the request is too large", 415: "the body is compressed",
    422: "the answer has values that JSON cannot say", 429: "the queue of the model is full", 503: "not ready, or out of memory",
    504: "the deadline of the request passed",
}

ERROR = {"type": "object", "properties": {"error": {"type": "string"}}}
TENSOR = {
    "type": "object",
    "required": ["name", "datatype", "shape"],
    "properties": {
        "name": {"type": "string"},
        "datatype": {"type": "string", "examples": ["FP32"]},
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "parameters": {"type": "object"},
        "data": {"type": "array"},
    },
}
REQUEST = {
    "type": "object",
    "required": ["inputs"],
    "properties": {
        "id": {"type": "string"},
        "parameters": {"type": "object", "properties": {"timeout": {"type": "integer"}, "binary_data_output": {"type": "boolean"}}},
        "inputs": {"type": "array", "items": TENSOR},
        "outputs": {
            "type": "array",
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "parameters": {"type": "object"}}},
        },
    },
}


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"description": WHY[status], "content": {"application/json": {"schema": ERROR}}} for status in statuses}


def infer_body() -> dict[str, Any]:
    """Returns the schema of a request's body: JSON, or JSON and then the bytes of tensors; a header gives the length of the JSON."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    content = {"application/json": {"schema": REQUEST}, "application/octet-stream": binary}
    header = {
        "name": "Inference-Header-Content-Length", "in": "header", "required": False, "schema": {"type": "integer", "minimum": 0},
        "description": "bytes of JSON at the begin of a binary request",
    }
    return {"requestBody": {"required": True, "content": content}, "parameters": [header]}
