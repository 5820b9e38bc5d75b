# SPDX-License-Identifier: Apache-2.0
"""`python -m weft` and, where the package is installed, `weft`: the command line."""
import sys

from weft._weft import command


def main():
    sys.stdout.flush()
    sys.exit(command(sys.argv[1:], [sys.executable, "-m", "weft"]))


if __name__ == "__main__":
    main()
