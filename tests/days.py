# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that selects the tests of a plain run by the day (mark `rotates`) and orders tests (mark `long`)."""
import collections
import zlib

import pytest

from places import DAY, IS_FULL


def values_of(item):
    """Returns the id() of this test's parameter values: a tuple for each `parametrize` mark and each fixture."""
    if not hasattr(item, "callspec"):
        return []
    given = item.callspec.params
    names = [mark.args[0] for mark in item.iter_markers("parametrize")]
    lists = [[name.strip() for name in (of.split(",") if isinstance(of, str) else of)] for of in names]
    lists += [[name] for name in given if not any(name in of for of in lists)]  # parameters of fixtures
    return [tuple(id(given[name]) for name in of) for of in lists]


def of_other_days(items):
    """Returns the tests that a plain run leaves out today. A function with the mark `rotates(n)` runs one in n of its
    tests, a different one each day. If the function has several lists of parameters, each value of a list occurs every
    day, provided that another list has n or more values (a Latin square). A function without parameters runs on one day
    in n. If only its file has the mark, it runs every day."""
    functions = collections.defaultdict(list)
    for item in items:
        node, _ = next(item.iter_markers_with_node("rotates"), (None, None))
        if node is item or (node and hasattr(item, "callspec")):
            functions[item.parent, item.originalname].append(item)
    found = set()
    for (_, name), tests in functions.items():
        ranks = collections.defaultdict(dict)  # number of a list -> {value: its rank}
        for item in tests:
            numbers = [ranks[i].setdefault(value, len(ranks[i])) for i, value in enumerate(values_of(item))]
            if (sum(numbers) + DAY + zlib.crc32(name.encode())) % item.get_closest_marker("rotates").args[0]:
                found.add(item)
    return found


def long_first(items, workers):
    """Returns the tests in another order: each worker begins with its share of the long tests, because a long test that
    begins last would leave the other processors idle. pytest-xdist gives each worker consecutive tests."""
    is_long = [bool(item.get_closest_marker("long")) for item in items]
    longs, others = ([item for item, long in zip(items, is_long) if long == wanted] for wanted in (True, False))
    found = []
    for worker in range(workers):
        mine = longs[worker::workers]
        size = (len(items) - len(found)) // (workers - worker) - len(mine)
        found += mine + others[:size]
        others = others[size:]
    return found


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    is_chosen = IS_FULL or config.option.keyword or any("::" in word for word in config.args)
    if left_out := set() if is_chosen else of_other_days(items):
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    if worker := getattr(config, "workerinput", None):
        items[:] = long_first(items, worker["workercount"])
