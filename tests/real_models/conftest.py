# SPDX-License-Identifier: Apache-2.0
"""A test with the fixture `load` runs its model in three ways (engine.py). A plain run takes the tests marked `small`,
those with `load` in one way, a different one each day. WEFT_TEST_FULL=1 takes all tests, in all ways."""
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]
import fetch
from engine import Engine
from places import IS_FULL


def pytest_configure(config):
    config.addinivalue_line("markers", "small: runs in every test run")


def pytest_collection_modifyitems(config, items):
    here = str(Path(__file__).parent)
    left_out = [item for item in items if str(item.path).startswith(here) and not item.get_closest_marker("small")]
    for item in items:
        if str(item.path).startswith(here) and "load" in item.fixturenames:
            item.add_marker(pytest.mark.rotates(3))
    if not IS_FULL:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def provider():
    import onnxruntime_ep_weft

    onnxruntime_ep_weft.register()


@pytest.fixture(params=["f32", "bf16", "onnxruntime"])
def load(request, provider, record_property):
    """Returns load(package, path, ...), which makes an Engine."""
    made = []

    def load(package, model, **more):
        if isinstance(model, str):
            model = str(fetch.package(package) / model)
        made.append(Engine(request.param, model, **more))
        return made[-1]

    load.mode = request.param
    yield load
    for engine in made:
        record_property("worst", float(engine.worst))
        print(f"REAL {request.node.name}: {engine.worst:.1e} of the limit, nodes {dict(engine.nodes)}")
