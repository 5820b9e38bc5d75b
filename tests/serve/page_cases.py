# SPDX-License-Identifier: Apache-2.0
"""Tests the page at / in a real headless Chromium (an npm package), controlled by Chromium's own protocol: the test
gives a picture and reads the answer."""
import asyncio
import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import aiohttp
import brotli
from server import DIGITS, MODEL, Server, double

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "real_models"))
import fetch

CHROMIUM = "npm:@sparticuz/chromium"
fetch.PACKAGES[CHROMIUM] = ["npm:@sparticuz/chromium==147.0.0", "18fe5404ce845594cd7d592fc07f37a19514079ba4d9c27192ad8b908743f16b"]
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-zygote", "--single-process", "--remote-debugging-port=0"]


def unpacked(folder):
    """Returns the browser program, and the folder of libraries that this machine may lack."""
    parts = fetch.package(CHROMIUM) / "package" / "bin"
    program = folder / "chromium"
    program.write_bytes(brotli.decompress((parts / "chromium.br").read_bytes()))
    program.chmod(0o755)
    tarfile.open(fileobj=io.BytesIO(brotli.decompress((parts / "al2023.tar.br").read_bytes()))).extractall(folder, filter="data")
    return program, folder / "lib"


class Page:
    """A tab of the browser, controlled through its debugging socket."""

    def __init__(self, socket):
        self.socket, self.last = socket, 0

    async def call(self, method, **parameters):
        self.last += 1
        await self.socket.send_json({"id": self.last, "method": method, "params": parameters})
        while True:
            answer = await self.socket.receive_json()
            if answer.get("id") == self.last:
                assert "error" not in answer, answer
                return answer["result"]

    async def value(self, expression):
        result = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def until(self, expression):
        while not (value := await self.value(expression)):
            assert not (error := await self.value("document.getElementById('error')?.textContent")), error
            await asyncio.sleep(0.1)
        return value

    async def give_file(self, path):
        root = await self.call("DOM.getDocument")
        node = await self.call("DOM.querySelector", nodeId=root["root"]["nodeId"], selector="#file")
        await self.call("DOM.setFileInputFiles", files=[str(path)], nodeId=node["nodeId"])


async def in_browser(folder, url, work):
    program, libraries = unpacked(folder)
    command = [program, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
    environment = os.environ | {"LD_LIBRARY_PATH": str(libraries), "HOME": str(folder)}
    with open(folder / "log", "wb") as log, subprocess.Popen(command, stderr=log, stdout=log, env=environment) as browser:
        try:
            while not (found := re.search(r"DevTools listening on ws://([\w.:]+)/", (folder / "log").read_text())):
                assert browser.poll() is None, (folder / "log").read_text()
                await asyncio.sleep(0.1)
            async with aiohttp.ClientSession() as session:
                async with session.put(f"http://{found[1]}/json/new?{url}") as answer:
                    tab = await answer.json(content_type=None)
                async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    await work(Page(socket))
        finally:
            browser.kill()


def test_a_picture_is_read(tmp_path):
    async def work(page):
        await page.until("document.getElementById('model')?.options.length == 2 && !document.getElementById('picture').hidden")
        assert "image" in await page.value("document.getElementById('ports').textContent")
        assert "/v2/models/{name}/infer" in await page.value("document.getElementById('operations').textContent")
        for name in ("seven", "three"):
            await page.value("document.getElementById('latency').textContent = ''")
            await page.give_file(DIGITS / f"{name}.png")
            assert re.fullmatch(r"[\d.]+ ms", await page.until("document.getElementById('latency').textContent"))
            best = await page.until("document.getElementById('answer').rows[1]?.cells[0].textContent")
            assert best == name
        await page.value("document.getElementById('model').value = 'double'; document.getElementById('model').dispatchEvent(new Event('change'))")
        await page.until("!document.getElementById('text').hidden")
        await page.value("document.getElementById('answer').replaceChildren(); document.getElementById('send').click()")
        assert "[2]" in await page.until("document.getElementById('answer').rows[1]?.textContent")

    with Server(MODEL, double(tmp_path / "double.weft")) as server:
        asyncio.run(asyncio.wait_for(in_browser(tmp_path, server.url + "/", work), 900))
