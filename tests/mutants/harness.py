# SPDX-License-Identifier: Apache-2.0
"""Runs the programs that read damaged files (harness.h), on all processors."""
import concurrent.futures
import os
import subprocess

from places import BUILD


def failures_of_part(program, seed, files, first, count):
    """Returns the failures of mutants [first, first + count)."""
    command = [BUILD / "bin" / program, seed, first, count, *files]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace", timeout=3600)
    lines = done.stdout.splitlines()
    wrong, number = [], first
    print(lines[-1] if lines else "")  # names the slowest mutant, and the one with the most memory
    for line in lines:
        number = int(line) if line.isdigit() else number
        if line.startswith("BUG"):
            wrong.append(f"mutant {number}: {line}")
    if done.returncode:
        wrong.append(f"mutant {number}: exit code {done.returncode}: {done.stderr[-1500:]}")
        rest = first + count - number - 1
        if rest > 0 and len(wrong) < 20:
            wrong += failures_of_part(program, seed, files, number + 1, rest)
    return wrong


def failures(program, seed, files, first, count):
    """Returns the failures of mutants [first, first + count), or of these files without damage if the seed is
    "intact"."""
    share = -(-count // os.cpu_count())  # a program reads its files on one core
    parts = [(start, min(share, first + count - start)) for start in range(first, first + count, share)]
    with concurrent.futures.ThreadPoolExecutor(len(parts)) as pool:
        return [line for found in pool.map(lambda part: failures_of_part(program, seed, files, *part), parts) for line in found]
