#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bare_root.py FOLDER SUITE WHEEL [--mirror URL] [--out FILE]: measures how long a new user of Debian or Ubuntu needs
for the first steps with a wheel.

FOLDER receives a minimal system of SUITE (bookworm, trixie, jammy, noble) by debootstrap, with the packages
ca-certificates, python3 and python3-venv; a system that exists there is used again. In this system the script installs
the wheel into a new environment, compiles and runs a model from Python and by the command, and runs `weft doctor`.
Needs root, debootstrap and a network. Prints a row of a result file (and appends it to FILE): the wheel's size and the
seconds from the bare system to the first answer. The wheel must be made from the checked-out commit."""
import argparse
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))
import machine

DIGITS = ROOT / "examples/digits"
MIRRORS = {"noble": "http://archive.ubuntu.com/ubuntu", "jammy": "http://archive.ubuntu.com/ubuntu"}
SCRIPTS = Path("/usr/share/debootstrap/scripts")
RUN = """
import time
begin = time.time()
import numpy, weft
model = weft.compile("digits.onnx", device="cpu")
answer = model(numpy.load("ten.npy")).argmax(1).tolist()
print(time.time() - begin)
assert answer == list(range(10)), answer
"""


def make_system(folder, suite, mirror):
    """Installs a minimal system, unless there is one."""
    if (folder / "usr/bin/python3").exists():
        return
    words = ["debootstrap", "--variant=minbase", "--include=ca-certificates,python3,python3-venv"]
    if suite in MIRRORS:
        words += ["--components=main,universe"]
    # "gutsy" is debootstrap's script for all releases of Ubuntu
    script = [] if (SCRIPTS / suite).exists() else [str(SCRIPTS / "gutsy")]
    subprocess.run([*words, suite, str(folder), mirror or MIRRORS.get(suite, "http://deb.debian.org/debian"), *script], check=True)


def timed(folder, *words):
    """Runs a command in the minimal system, as a user with an empty home folder; returns its output and seconds."""
    begin = time.time()
    done = subprocess.run(["chroot", str(folder), "/usr/bin/env", "-i", "-C", "/home/user", "HOME=/home/user", "LANG=C.UTF-8",
                           "PATH=/home/user/weft/bin:/usr/bin:/bin", *words],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout, round(time.time() - begin, 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("suite")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--mirror")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    folder = arguments.folder
    make_system(folder, arguments.suite, arguments.mirror)
    home = folder / "home/user"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    for file in (arguments.wheel, DIGITS / "digits.onnx", DIGITS / "ten.npy"):
        shutil.copy(file, home)
    shutil.copy("/etc/resolv.conf", folder / "etc")
    mounted = [folder / name for name in ("proc", "dev", "sys")]
    for place in mounted:
        subprocess.run(["mount", "--bind", f"/{place.name}", str(place)], check=True)
    try:
        python, _ = timed(folder, "python3", "-c", "import platform; print(platform.python_version())")
        _, made = timed(folder, "python3", "-m", "venv", "weft")
        _, installed = timed(folder, "pip", "install", "--quiet", arguments.wheel.name)
        seconds, ran = timed(folder, "python", "-c", RUN)
        timed(folder, "weft", "run", "digits.onnx", "--input", "ten.npy")
        report, _ = timed(folder, "weft", "doctor")
    finally:
        for place in reversed(mounted):
            subprocess.run(["umount", str(place)], check=True)
    print(report)
    has_pack = any(name.endswith("weft-kernels.pack") for name in zipfile.ZipFile(arguments.wheel).namelist())
    of = {"system": arguments.suite, "python": python.strip(), "wheel": arguments.wheel.name, "kernel pack": has_pack}
    values = {"wheel_mib": arguments.wheel.stat().st_size / 2**20, "venv_s": made, "install_s": installed, "first_answer_s": ran,
              "compile_and_run_s": float(seconds), "all_s": made + installed + ran, "load": machine.load()}
    row = machine.result("wheel on a bare system", of, values, command=f"python tools/bare_root.py FOLDER {arguments.suite} WHEEL")
    machine.tell(row, arguments.out)


if __name__ == "__main__":
    main()
