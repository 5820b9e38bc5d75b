# SPDX-License-Identifier: Apache-2.0
"""Draws If, Loop and Scan, whose bodies are random graphs (drawings) themselves and read values of the outer graph.
This file evaluates the bodies trip by trip and node by node, so that there is an expected result for each value."""

import numpy as np
from draw import FLOATS, Skip, Value, check_sane, names_read
from onnx import helper
from operators import draws

DEEPEST = 2
# The functions that draw a body's nodes; graphs.py sets them.
ways = []


def body_of(d, own, least=1, most=4):
    """Returns a body with some random nodes, drawn inside `d`. Their operands are preferably the values `own`."""
    if d.depth >= DEEPEST:
        raise Skip
    body = d.inner()
    body.values = body.values[-12:] + own
    steps, tries = d.random.randint(least, most), 0
    while steps > 0 and tries < 40:
        tries += 1
        mark = body.mark()
        try:
            ways[0](body)
            steps -= 1
        except Skip:
            body.back_to(mark)
    if not body.nodes:
        raise Skip
    return body


def port(value, sizes=None):
    return helper.make_tensor_value_info(value.name, helper.np_dtype_to_tensor_dtype(value.dtype), sizes)


def graph_of(body, name, inputs, outputs):
    return helper.make_graph(body.nodes, name, inputs, outputs)


def made_in(body, want):
    """Returns a value that a node of the body computed."""
    fitting = [v for step in body.steps for v in step.results if want(v)]
    if not fitting:
        raise Skip
    return body.random.choice(fitting[-3:])


def run_steps(steps, known):
    """Returns the values of a body by name, computed from the values around it."""
    values = dict(known)
    for step in steps:
        operands = {name: values[name] for name in names_read(step.node) if name in values}
        plain, wide = step.compute(operands)
        for old, p, w in zip(step.results, plain, wide):
            check_sane(Value(old.name, p, w, False))
            if not old.stays_exact(w, p.dtype):
                raise Skip
            values[old.name] = (p, w)
    return values


def outside(node, d):
    """Returns the values that a node with bodies reads from the graph around it."""
    around = {v.name: v for v in d.values + d.initializers + d.inputs}
    return {name: (around[name].plain, around[name].wide) for name in names_read(node) if name in around}


def placed(d, node, compute, exact):
    plain, wide = compute(outside(node, d))
    values = [d.valued(name, np.asarray(p), np.asarray(w), e) for name, p, w, e in zip(node.output, plain, wide, exact)]
    return d.keep(node, compute, values)


# --- If


def run_time_condition(d, holds):
    """Returns a bool with this value that is known only at run time."""
    x = d.given(np.array(1.0 if holds else -1.0, np.float32))
    return d.add("Greater", x, np.array(0, np.float32), exact=True)


@draws("If")
def branch(d, name):
    holds = d.chance(0.5)
    condition = run_time_condition(d, holds) if d.chance(0.7) else d.weight(np.array(holds))
    yes = body_of(d, [])
    wanted = made_in(yes, lambda v: True)
    no = body_of(d, [])
    same_rank = [v for step in no.steps for v in step.results if v.dtype == wanted.dtype and v.rank == wanted.rank]
    if same_rank:
        other = d.random.choice(same_rank)
    else:
        no.values = [wanted_like(d, wanted)]
        other = no.add("Identity", no.values[0], exact=True)
    graphs = {"then_branch": graph_of(yes, "yes", [], [port(wanted)]), "else_branch": graph_of(no, "no", [], [port(other)])}
    node = helper.make_node(name, [condition.name], d.fresh(1), **graphs)

    def compute(known):
        taken, result = (yes, wanted) if known[condition.name][0] else (no, other)
        p, w = run_steps(taken.steps, known)[result.name]
        return [p], [w]

    return placed(d, node, compute, [(wanted if holds else other).exact])


def wanted_like(d, value):
    return d.weight(d.array(value.shape, value.dtype))


# --- Loop


@draws("Loop")
def loop(d, name):
    carried = [d.pick(lambda v: v.plain.size < 200) for _ in range(d.random.randint(1, 2))]

    def build(own):
        body = body_of(d, own)
        number, goes_on, *mine = own
        results = [next_of(body, value, d.chance(0.15)) for value in mine]
        last = d.random.choice((None, None, 1, 2))
        more = body.add("Less", number, np.array(last), exact=True) if last else body.add("Identity", goes_on, exact=True)
        rows = [made_in(body, lambda v: v.plain.size < 200)] if d.chance(0.6) else []
        return body, more, results, rows

    return make_loop(d, d.random.choice((0, 1, 2, 3, 5, 30)), carried, build)


def make_loop(d, trips, carried, build, known=0.4):
    """Makes a Loop node. `build` draws the body from [number of the trip, condition, carried values]. It returns the
    drawing, the condition for another trip, the new carried values, and the values for the scan outputs. `known`: the
    probability that the number of trips is a constant."""
    count = d.weight(np.array(trips)) if d.chance(known) else d.given(np.array(trips))
    names = d.fresh(2 + len(carried))
    number = Value(names[0], np.array(0), np.array(0), True)
    goes_on = Value(names[1], np.array(True), np.array(True), True)
    own = [Value(n, v.plain, v.wide, v.exact, stored=v.stored) for n, v in zip(names[2:], carried)]
    body, more, results, rows = build([number, goes_on, *own])
    given_back = [v.name for v in [more, *results, *rows]]
    if len(set(given_back)) != len(given_back):
        raise Skip
    inputs = [port(number, []), port(goes_on, []), *(port(v) for v in own)]
    node = helper.make_node("Loop", [count.name, "" if d.chance(0.5) else d.weight(np.array(True)).name, *(v.name for v in carried)],
                            d.fresh(len(results) + len(rows)),
                            body=graph_of(body, "body", inputs, [port(more), *(port(v) for v in results + rows)]))

    def compute(known):
        now = [known[v.name] for v in carried]
        stacked = [([], []) for _ in rows]
        for trip in range(int(known[count.name][0])):
            values = dict(known)
            values[number.name] = (np.array(trip),) * 2
            values[goes_on.name] = (np.array(True),) * 2
            values |= {mine.name: pair for mine, pair in zip(own, now)}
            values = run_steps(body.steps, values)
            for (plain, wide), row in zip(stacked, rows):
                plain.append(values[row.name][0]), wide.append(values[row.name][1])
            now = [values[v.name] for v in results]
            if not values[more.name][0]:
                break
        if any(not plain or any(p.shape != plain[0].shape for p in plain) for plain, _ in stacked):
            raise Skip
        return ([p for p, _ in now] + [np.stack(plain) for plain, _ in stacked],
                [w for _, w in now] + [np.stack(wide) for _, wide in stacked])

    return placed(d, node, compute, [v.exact for v in results + rows])


def next_of(body, mine, grows):
    """Returns the value that replaces a carried value after a trip: it has the same type and, unless it grows, the same
    sizes."""
    if grows and mine.rank:
        return body.add("Concat", mine, body.weight(body.array((1, *mine.shape[1:]), mine.dtype)), axis=0, exact=True)
    if body.chance(0.1):
        return body.add("Identity", mine, exact=True)  # keep it unchanged
    try:
        return made_in(body, lambda v: v.dtype == mine.dtype and v.shape == mine.shape)
    except Skip:
        if mine.dtype == bool:
            return body.add("Not", mine, exact=True)
        if mine.dtype.kind in "iu":
            return body.add("BitwiseXor", mine, body.weight(np.array(3, mine.dtype)), exact=True)
        return body.add("Mul", mine, body.weight(np.array(0.5, mine.dtype)), exact=True)


# --- Scan


@draws("Scan")
def scan(d, name):
    x = d.pick(lambda v: 0 < v.rank and 0 < v.plain.size < 300 and v.dtype in FLOATS)
    axis, reverse = d.random.randrange(x.rank), d.random.randrange(2)
    moved = (np.moveaxis(x.plain, axis, 0), np.moveaxis(x.wide, axis, 0))
    state = d.weight(d.array(moved[0].shape[1:], x.dtype))
    names = d.fresh(2)
    mine = Value(names[0], state.plain, state.wide, state.exact, stored=state.stored)
    row = Value(names[1], moved[0][0], moved[1][0], x.exact, stored=x.stored)
    body = body_of(d, [mine, row])
    after = body.add("Add", mine, row, exact=True) if d.chance(0.5) else next_of(body, mine, False)
    out = made_in(body, lambda v: v.plain.size < 200)
    if out is after:
        raise Skip
    node = helper.make_node(name, [state.name, x.name], d.fresh(2), num_scan_inputs=1, scan_input_axes=[axis],
                            scan_input_directions=[reverse],
                            body=graph_of(body, "scan", [port(mine), port(row)], [port(after), port(out)]))

    def compute(known):
        p, w = (np.moveaxis(a, axis, 0) for a in known[x.name])
        now, plain, wide = known[state.name], [], []
        for i in range(len(p) - 1, -1, -1) if reverse else range(len(p)):
            values = run_steps(body.steps, known | {mine.name: now, row.name: (p[i], w[i])})
            now = values[after.name]
            plain.append(values[out.name][0]), wide.append(values[out.name][1])
        if any(p.shape != plain[0].shape for p in plain):
            raise Skip
        return [now[0], np.stack(plain)], [now[1], np.stack(wide)]

    return placed(d, node, compute, [after.exact, out.exact])
