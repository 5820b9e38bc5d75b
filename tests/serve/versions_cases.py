# SPDX-License-Identifier: Apache-2.0
"""Models in a watched folder: versions are added and removed under load, and no request fails."""
import asyncio
import os
import shutil

import aiohttp
from server import MODEL, Server, double, numbers, until

WORDS = ("--poll", "50ms", "--device", "cpu")


def put(source, folder, name, version):
    """Puts a version into the folder: writes the file, then renames it."""
    place = folder / name / str(version)
    place.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, place / "part")
    os.replace(place / "part", place / "model.weft")


def versions(server, name="double"):
    status, answer = server.ask(f"/v2/models/{name}")
    return answer["versions"] if status == 200 else []


def test_versions_of_a_watched_folder(tmp_path):
    models = tmp_path / "models"
    two, three = (double(tmp_path / f"{n}.weft", n) for n in (2, 3))
    put(two, models, "double", 1)
    shutil.copy(MODEL, models / "digits.onnx")
    with Server("--model-folder", models, "--versions", 2, *WORDS) as server:
        assert versions(server) == ["1"] and versions(server, "digits") == ["1"]
        given, wanted = numbers()
        put(three, models, "double", 10)
        until(lambda: versions(server) == ["1", "10"])
        newest = server.ask("/v2/models/double/infer", given)[1]
        assert newest["model_version"] == "10" and newest["outputs"][0]["data"] == [v * 1.5 for v in wanted]
        older = server.ask("/v2/models/double/versions/1/infer", given)[1]
        assert older["model_version"] == "1" and older["outputs"][0]["data"] == wanted
        shutil.rmtree(models / "double" / "10")
        until(lambda: versions(server) == ["1"])
        (models / "double" / "11").mkdir()
        (models / "double" / "11" / "model.onnx").write_bytes(b"no model")
        until(lambda: [row["state"] for row in server.ask("/v2/repository/index", {})[1] if row["version"] == "11"] == ["UNAVAILABLE"])
        assert server.ask("/v2/models/double/infer", given)[1]["outputs"][0]["data"] == wanted
        shutil.rmtree(models / "double")
        until(lambda: server.ask("/v2/models/double")[0] == 404)
        assert server.ask("/v2/models/digits/ready")[0] == 200


def test_a_new_version_under_load(tmp_path):
    """Each answer comes from one version alone, all requests are answered, and the last answers are the new
    version's."""
    models = tmp_path / "models"
    put(double(tmp_path / "2.weft", 2), models, "double", 1)
    double(tmp_path / "3.weft", 3)
    given, _ = numbers(rows=2)
    by_version = {"1": [2 * v for v in given["inputs"][0]["data"]], "2": [3 * v for v in given["inputs"][0]["data"]]}
    with Server("--model-folder", models, *WORDS) as server:
        seen = []

        async def client(session):
            while seen.count("2") < 200:
                async with session.post(server.url + "/v2/models/double/infer", json=given) as answer:
                    value = await answer.json()
                    assert answer.status == 200, value
                    assert value["outputs"][0]["data"] == by_version[value["model_version"]]
                    seen.append(value["model_version"])
                    if len(seen) == 100:
                        await asyncio.to_thread(put, tmp_path / "3.weft", models, "double", 2)

        async def everyone():
            async with aiohttp.ClientSession() as session:
                await asyncio.gather(*(client(session) for _ in range(8)))

        asyncio.run(everyone())
        assert seen.count("1") >= 100
        until(lambda: versions(server) == ["2"])


def test_a_file_that_is_replaced(tmp_path):
    models = tmp_path / "models"
    put(double(tmp_path / "2.weft", 2), models, "double", 1)
    double(tmp_path / "5.weft", 5)
    with Server("--model-folder", models, *WORDS) as server:
        given, wanted = numbers()
        assert server.ask("/v2/models/double/infer", given)[1]["outputs"][0]["data"] == wanted
        put(tmp_path / "5.weft", models, "double", 1)
        until(lambda: server.ask("/v2/models/double/infer", given)[1]["outputs"][0]["data"] == [v * 2.5 for v in wanted])
