# SPDX-License-Identifier: Apache-2.0
"""Runs scripts with the Python that has TensorFlow. Each script runs in a fork of this process, which has imported
TensorFlow already, because the import takes 5 seconds, longer than most scripts. Reads lines [LOG, SCRIPT, ARGUMENT...]
of JSON and answers each with the script's exit status."""
import json
import os
import runpy
import sys
import traceback

import tensorflow  # noqa: F401  # it starts no threads for kernels before a script uses it


def work(log, script, *arguments):
    """Runs a script as a program whose output goes to the file `log`; returns its exit status."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(file, stream)
    sys.argv, sys.path[0] = [script, *arguments], os.path.dirname(script)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


for line in sys.stdin:
    if (child := os.fork()) == 0:
        status = work(*json.loads(line))
        sys.stdout.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
