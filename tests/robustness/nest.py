# SPDX-License-Identifier: Apache-2.0
"""Models of If nodes within If nodes, written byte by byte: protobuf's own writer stops at 100 levels."""


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, body):
    return varint(number << 3 | 2) + varint(len(body)) + body


def number(field_number, value):
    return varint(field_number << 3) + varint(value)


def node(op, inputs, output, *attributes):
    names = b"".join(field(1, name) for name in inputs)
    return field(1, names + field(2, output) + field(4, op) + b"".join(field(5, a) for a in attributes))


def value(name, type, *dims):
    shape = field(2, b"".join(field(1, number(1, dim)) for dim in dims))
    return field(1, name) + field(2, field(1, number(1, type) + shape))


def nested_model(depth):
    """Returns y = x inside `depth` nested If nodes, each in the then-branch of the previous If."""
    graph = node(b"Identity", [b"x"], b"y")
    for _ in range(depth):
        branch = field(2, b"g") + field(12, value(b"y", 1, 2)) + graph
        attributes = [field(1, name) + field(6, branch) + number(20, 5) for name in (b"then_branch",)]
        small = field(2, b"e") + field(12, value(b"y", 1, 2)) + node(b"Identity", [b"x"], b"y")
        attributes.append(field(1, b"else_branch") + field(6, small) + number(20, 5))
        graph = node(b"If", [b"c"], b"y", *attributes)
    whole = field(2, b"g") + graph + field(11, value(b"x", 1, 2)) + field(11, value(b"c", 9)) + field(12, value(b"y", 1, 2))
    return number(1, 9) + field(8, field(1, b"") + number(2, 18)) + field(7, whole)
