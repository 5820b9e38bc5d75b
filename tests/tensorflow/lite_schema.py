# SPDX-License-Identifier: Apache-2.0
"""Runs with the Python that has TensorFlow: compares tflite.def with TensorFlow's own classes for the schema.
lite_schema.py DEF"""
import importlib.util
import re
import sys
from pathlib import Path

import flatbuffers

package = Path(importlib.util.find_spec("tensorflow").origin).parent
spec = importlib.util.spec_from_file_location("schema", package / "lite/python/schema_py_generated.py")
schema = importlib.util.module_from_spec(spec)
spec.loader.exec_module(schema)

text = Path(sys.argv[1]).read_text()
unions = {number: name for name, number in vars(schema.BuiltinOptions).items() if not name.startswith("_")}
operators = re.findall(r'^BUILTIN\((\d+), "(\w+)", (\d+)\)', text, re.M)
assert len(operators) > 150
for number, name, options in operators:
    assert getattr(schema.BuiltinOperator, name) == int(number), name
    assert int(options) in unions

SIZES = {"byte": 1, "flag": 1, "integer": 4, "number": 4, "wide": 8}
SPELLING = {"activation": "FusedActivationFunction"}
for options, slot, name, kind, default in re.findall(r'^OPTION\((\d+), (\d+), "(\w+)", (\w+), (\d+)\)', text, re.M):
    table = unions[int(options)]
    field = SPELLING.get(name, "".join(part[:1].upper() + part[1:] for part in name.split("_")))
    if name in ("new_height", "new_width"):  # deprecated, and absent from the current classes
        continue
    # Makes a table with only this field: TensorFlow's class must read its value.
    builder = flatbuffers.Builder(0)
    value = {"text": None, "integers": None}.get(kind, 1)
    offset = builder.CreateString("a") if kind == "text" else builder.CreateNumpyVector(__import__("numpy").array([7], "int32")) if kind == "integers" else 0
    builder.StartObject(int(slot) + 1)
    if kind in ("text", "integers"):
        builder.PrependUOffsetTRelativeSlot(int(slot), offset, 0)
    else:
        add = {"byte": builder.PrependInt8Slot, "flag": builder.PrependBoolSlot, "integer": builder.PrependInt32Slot,
               "number": builder.PrependFloat32Slot, "wide": builder.PrependInt64Slot}[kind]
        add(int(slot), 2 if kind in ("byte", "integer", "wide") else value, 0)
    builder.Finish(builder.EndObject())
    found = getattr(schema, table).GetRootAs(builder.Output(), 0)
    empty = flatbuffers.Builder(0)
    empty.StartObject(0)
    empty.Finish(empty.EndObject())
    nothing = getattr(schema, table).GetRootAs(empty.Output(), 0)
    if kind == "integers":
        assert getattr(found, field)(0) == 7, (table, name)
        continue
    wanted = {"text": b"a", "byte": 2, "integer": 2, "wide": 2}.get(kind, 1)
    assert getattr(found, field)() == wanted, (table, name)
    assert (getattr(nothing, field)() or 0) == int(default), (table, name)
