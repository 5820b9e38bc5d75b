# SPDX-License-Identifier: Apache-2.0
"""Message classes of v2.proto. They are made from the file at their first use, because generated code would require one particular
version of protobuf. `Reader` knows only the parts of the language that the file uses."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Field = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    name: getattr(Field, f"TYPE_{name.upper()}")
    for name in ("bool", "bytes", "double", "float", "int32", "int64", "string", "uint32", "uint64")
}
TOKEN = re.compile(r'//[^\n]*|"[^"]*"|\w+(?:\.\w+)*|[{}()<>=;,]')


class Reader:
    """A recursive-descent parser over the words of a .proto file."""

    def __init__(self, text: str) -> None:
        self._words = [word for word in TOKEN.findall(text) if not word.startswith("//")]
        self._at = 0

    def peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def take(self, wanted: str = "") -> str:
        word = self.peek()
        if not word or (wanted and word != wanted):
            raise ValueError(f"v2.proto: '{word}' in the place of '{wanted}'")
        self._at += 1
        return word

    def until(self, end: str) -> Iterator[str]:
        """Yields the first word of each entry up to the word `end`, which it also reads."""
        while self.peek() != end:
            yield self.take()
        self.take(end)

    def file(self) -> descriptor_pb2.FileDescriptorProto:
        file = descriptor_pb2.FileDescriptorProto(name="weft_v2.proto")
        while word := self.peek():
            self.take()
            if word == "syntax":
                self.take("=")
                file.syntax = self.take().strip('"')
                self.take(";")
            elif word == "package":
                file.package = self.take()
                self.take(";")
            elif word == "message":
                self.message(file.message_type.add())
            elif word == "enum":
                self.enum(file.enum_type.add())
            else:
                self.service(file.service.add(), file.package)
        return file

    def enum(self, enum: descriptor_pb2.EnumDescriptorProto) -> None:
        enum.name = self.take()
        self.take("{")
        for name in self.until("}"):
            self.take("=")
            enum.value.add(name=name, number=int(self.take()))
            self.take(";")

    def message(self, message: descriptor_pb2.DescriptorProto) -> None:
        message.name = self.take()
        self.take("{")
        for word in self.until("}"):
            if word == "message":
                self.message(message.nested_type.add())
            elif word == "oneof":
                message.oneof_decl.add(name=self.take())
                self.take("{")
                for kind in self.until("}"):
                    self.field(message, kind).oneof_index = len(message.oneof_decl) - 1
            elif word == "map":
                self.map(message)
            else:
                is_list = word == "repeated"
                field = self.field(message, self.take() if is_list else word)
                field.label = Field.LABEL_REPEATED if is_list else Field.LABEL_OPTIONAL

    def field(self, message: descriptor_pb2.DescriptorProto, kind: str) -> Any:
        field = message.field.add(name=self.take(), label=Field.LABEL_OPTIONAL)
        if kind in SCALARS:
            field.type = SCALARS[kind]
        else:
            field.type_name = kind  # a message or an enum; the pool finds which
        self.take("=")
        field.number = int(self.take())
        self.take(";")
        return field

    def map(self, message: descriptor_pb2.DescriptorProto) -> None:
        self.take("<")
        key = self.take()
        self.take(",")
        value = self.take()
        self.take(">")
        name = self.peek().title().replace("_", "") + "Entry"
        entry = message.nested_type.add(name=name)
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=SCALARS[key], label=Field.LABEL_OPTIONAL)
        entry.field.add(name="value", number=2, type_name=value, label=Field.LABEL_OPTIONAL)
        self.field(message, name).label = Field.LABEL_REPEATED

    def service(self, service: descriptor_pb2.ServiceDescriptorProto, package: str) -> None:
        service.name = self.take()
        self.take("{")
        for _ in self.until("}"):
            method = service.method.add(name=self.take())
            for side in ("input_type", "output_type"):
                self.take("(")
                if self.peek() == "stream":
                    self.take()
                    setattr(method, "client_streaming" if side == "input_type" else "server_streaming", True)
                setattr(method, side, f".{package}.{self.take()}")
                self.take(")")
                if side == "input_type":
                    self.take("returns")
            self.take("{")
            self.take("}")


@functools.cache
def file() -> Any:
    """Returns the file's descriptor. The descriptor has its own pool, because a client in this process may define the same messages."""
    described = Reader((Path(__file__).resolve().parent / "v2.proto").read_text()).file()
    return descriptor_pool.DescriptorPool().AddSerializedFile(described.SerializeToString())


def message(name: str) -> Any:
    """Returns the class of a message such as "ModelInferRequest"."""
    return message_factory.GetMessageClass(file().message_types_by_name[name])
