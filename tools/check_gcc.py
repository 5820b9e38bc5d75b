#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_gcc.py BUILD [--all]: g++ checks the sources with the flags of the build in BUILD, with warnings as errors, and
writes no output.

The usual build uses clang, and compiles many files together; this check compiles each file alone, so each file must
include what it uses. It takes a fraction of the time of a build. Without --all it checks at most CHANGED of the files
that the last commits or the working tree changed, or that include a changed header. It also checks OTHERS other files,
which differ from day to day. src/codegen is left out, because LLVM's headers take longer than all the rest; `./x build
gcc` compiles it. The tests of kernels are left out too, because they are written for clang.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMITS = 10
CHANGED, OTHERS = 14, 4  # largest numbers of changed and of other files that one call checks
LEFT_OUT = ("src/codegen/", "tests/kernels/")
CLANG_ONLY_PAIRS = ("-Xclang", "-include-pch")
CLANG_ONLY = ("-fuse-ld", "-gline-tables-only", "-fcolor-diagnostics", "-Wno-unknown-warning-option", "-mllvm=")


def compiled_by(file, build):
    """Returns the sources that compiling `file` covers: the file itself if it is not generated, the included sources if
    it is a batch (cmake/weft_flags.cmake), and none if it is any other generated file."""
    if build not in file.parents:
        return [file]
    is_batch = file.stem[-1].isdigit()
    return [ROOT / line.split('"')[1] for line in file.read_text().splitlines()] if is_batch else []


def commands(build):
    """Returns {source file, relative to the root: (command that checks it with g++, folder to run it in)}."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        words = shlex.split(entry["command"])
        is_foreign = any(word.startswith("--target=") for word in words)  # only clang can compile for other processors
        if file.suffix != ".cpp" or ROOT not in file.parents or is_foreign:
            continue
        words = words[next(i for i, word in enumerate(words) if "clang++" in word or word.endswith("g++")) + 1 :]
        left_out = ("-o", *CLANG_ONLY_PAIRS)
        kept = [w for i, w in enumerate(words)
                if w not in ("-c", *left_out) and words[i - 1] not in left_out and not w.startswith(CLANG_ONLY)]
        kept = ["g++", "-fsyntax-only", "-Werror", *(w for w in kept if w != entry["file"])]
        for source in compiled_by(file, build):
            found[str(source.relative_to(ROOT))] = ([*kept, str(source)], entry["directory"])
    return found


def git(*words):
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True).stdout.split()


def changed_files():
    last = git("rev-list", f"--max-count={COMMITS + 1}", "HEAD")[-1:]
    return git("diff", "--name-only", *last) if last else []


def users_of(headers, sources):
    """Returns the sources that include one of the headers directly."""
    names = [f'"{header.split("/", 1)[1]}"' for header in headers if "/" in header]
    return [s for s in sources if any(name in (ROOT / s).read_text(errors="replace") for name in names)]


def chosen(sources):
    draw = random.Random(int(os.environ.get("WEFT_TEST_SEED", time.time() // 86400)))
    changed = changed_files()
    first = [f for f in changed if f in sources]
    first += [f for f in users_of([f for f in changed if f.endswith((".h", ".def"))], sources) if f not in first]
    first = draw.sample(first, min(CHANGED, len(first)))
    rest = sorted(set(sources) - set(first))
    return first + draw.sample(rest, min(OTHERS, len(rest)))


def read(entry):
    file, (words, folder) = entry
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    return file, done.returncode, done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--all", action="store_true")
    words = parser.parse_args()
    all_commands = commands(words.build.resolve())
    sources = [file for file in all_commands if not file.startswith(LEFT_OUT)]
    files = sources if words.all else chosen(sources)
    jobs = int(os.environ.get("WEFT_JOBS", len(os.sched_getaffinity(0))))
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for file, code, text in pool.map(read, [(file, all_commands[file]) for file in files]):
            if code:
                wrong += 1
                print(f"{file}:\n{text}", file=sys.stderr)
    print(f"g++: {len(files)} files read, {wrong} refused")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
