# SPDX-License-Identifier: Apache-2.0
"""Runs a command under limits and notes its exit code and the most memory that it held, in KiB.

A process inherits the memory peak of the process that started it, so a small Python process starts the command in place
of pytest: python measured.py FILE SECONDS STACK_BYTES COMMAND..., with 0 for the usual stack."""
import os
import resource
import signal
import sys


def main():
    note, seconds, stack, *command = sys.argv[1:]
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if int(stack):
            resource.setrlimit(resource.RLIMIT_STACK, (int(stack), int(stack)))
        signal.alarm(100)  # ends the process if it hangs
        os.execv(command[0], command)
    _, status, used = os.wait4(child, 0)
    with open(note, "w") as file:
        file.write(f"{os.waitstatus_to_exitcode(status)} {used.ru_maxrss}")


main()
