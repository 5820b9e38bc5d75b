# SPDX-License-Identifier: Apache-2.0
"""Runs ray_cases.py on two nodes of Ray, each in a network namespace of its own with its own address. Needs root.

  build/ray/bin/python tests/serve/two_nodes.py
"""
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SPACES = {"weft-a": "10.251.7.1", "weft-b": "10.251.7.2"}
RAY = [sys.executable, "-m", "ray.scripts.scripts"]
HEAD = f"{SPACES['weft-a']}:6379"


def ip(*words, check=True):
    subprocess.run(["ip", *words], check=check, capture_output=not check)


def connect():
    """Makes two network namespaces and a pair of virtual interfaces between them."""
    first, second = SPACES
    for name in SPACES:
        end(name)
        ip("netns", "add", name)
    ip("link", "add", "weft-v0", "netns", first, "type", "veth", "peer", "name", "weft-v1", "netns", second)
    for (name, address), link in zip(SPACES.items(), ("weft-v0", "weft-v1")):
        ip("-n", name, "addr", "add", f"{address}/24", "dev", link)
        ip("-n", name, "link", "set", link, "up")
        ip("-n", name, "link", "set", "lo", "up")


def within(name, words, environment):
    return subprocess.Popen(["ip", "netns", "exec", name, *map(str, words)], env=environment)


def end(name):
    """Ends all processes of the namespace, which this test made, and removes it."""
    listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout
    for process in map(int, listed.split()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    ip("netns", "del", name, check=False)


def main():
    environment = os.environ | {"RAY_raylet_start_wait_time_s": "600", "RAY_worker_register_timeout_seconds": "600", "RAY_health_check_timeout_ms": "600000",
                                "RAY_AUTH_MODE": "disabled", "RAY_grpc_enable_http_proxy": "0"}
    nodes = []
    connect()
    with tempfile.TemporaryDirectory() as folder:
        try:
            common = ["start", "--block", "--num-cpus", 3, "--disable-usage-stats"]
            head = ["--head", "--include-dashboard", "false", "--port", 6379, "--node-ip-address", SPACES["weft-a"], "--temp-dir", folder]
            nodes.append(within("weft-a", [*RAY, *common, *head], environment))
            wait = f"import socket, time\nwhile socket.socket().connect_ex(('{SPACES['weft-a']}', 6379)): time.sleep(0.2)"
            within("weft-a", [sys.executable, "-c", wait], environment).wait()
            nodes.append(within("weft-b", [*RAY, *common, "--address", HEAD, "--node-ip-address", SPACES["weft-b"]], environment))
            cases = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "--rootdir", HERE, HERE / "ray_cases.py", *sys.argv[1:]]
            return within("weft-a", cases, environment | {"RAY_HEAD_ADDRESS": HEAD}).wait()
        finally:
            for name in SPACES:
                end(name)
            for node in nodes:
                node.wait()


if __name__ == "__main__":
    sys.exit(main())
