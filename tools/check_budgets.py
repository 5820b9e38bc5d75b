#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the size budgets of the tree: lengths of functions and files, and the lines of the CMake code, of the public
headers, of src/ and of some of its parts.

Tables (*.def) are excepted. `--list` prints the longest functions and files."""
import ast
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPP = (".h", ".hpp", ".cpp")

FUNCTION_MEDIAN, FUNCTION_P90, FUNCTION_MAX = 6, 20, 120
FILE_P90, FILE_MAX = 318, 1000
CMAKE_TOTAL, PUBLIC_TOTAL, SOURCE_TOTAL = 640, 960, 72_760
# Largest number of lines of each part. The part tensorflow includes TensorFlow Lite.
PARTS = {"src/frontends/torch/": 7_620, "src/frontends/tensorflow/": 8_000, "src/quantise/": 4_000}

# Text that would confuse the search for braces. Newlines inside it are kept, so that line numbers stay right.
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|\'\\x?\w+\''
                   r'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
BOUNDARY = re.compile(r"[{};]")
TEMPLATE = re.compile(r"^\s*template\s*<.*?>(?=\s*\w)", re.S)
TYPE = re.compile(r"\s*(class|struct|union|enum)\b")


def plain(text):
    """Returns the text without comments, preprocessor lines and the contents of literals, but with all line breaks."""
    return NOISE.sub(lambda m: "\n" * m.group().count("\n") if m.group()[0] != '"' else '""', text)


def kind_of(head):
    """Returns the kind of block that a brace opens, by the text before it: "scope", "function" or "other" (an initialiser, a
    list)."""
    head = re.sub(r"\b(alignas|__attribute__|requires)\s*\(+[^()]*(\([^()]*\)[^()]*)*\)+|\[\[.*?\]\]", " ", head, flags=re.S)
    head = re.sub(r"\boperator\s*(==|<=|>=|!=|[-+*/%^&|]?=|<=>|\(\))", "operator", head)
    if re.search(r'\bnamespace\b[\w\s:]*$|\bextern\s*""\s*$', head):
        return "scope"
    head = TEMPLATE.sub("", head)
    if TYPE.match(head):
        return "scope"
    before, call, _ = head.partition("(")
    return "function" if call and "=" not in before else "other"


def functions_in(text):
    """Returns (first line, last line) of each function body in a namespace or a class."""
    text, stack, start, found = plain(text), [], 0, []
    for match in BOUNDARY.finditer(text):
        mark, at = match.group(), match.start()
        inside_code = any(kind != "scope" for kind, _ in stack)
        if mark == "{":
            head = text[start:at]
            # After brace-initialised members, a body belongs to the constructor that was found just before.
            again = not head.strip(" \n,") and not inside_code and found and found[-1][2] == start
            first = found.pop()[0] if again else text.count("\n", 0, start + len(head) - len(head.lstrip())) + 1
            kind = "function" if again else "other" if inside_code else kind_of(head)
            stack.append((kind, first))
        elif mark == "}" and stack:
            kind, first = stack.pop()
            if kind == "function" and not any(k != "scope" for k, _ in stack):
                found.append((first, text.count("\n", 0, at) + 1, at + 1))
        start = at + 1
    return [(first, last) for first, last, _ in found]


def python_functions(text):
    nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return [(n.lineno, n.end_lineno) for n in nodes]


def quantile(numbers, share):
    numbers = sorted(numbers)
    return numbers[min(len(numbers) - 1, int(share * len(numbers)))] if numbers else 0


def tracked():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], capture_output=True,
                            text=True, check=True).stdout.split("\n")
    return [p for p in sorted(set(listed)) if p and (ROOT / p).is_file()]


def measure():
    """Returns (lines of each file, length of each function by "path:line") for C++ and Python, and the lines of CMake."""
    files, functions, cmake = {}, {}, 0
    for path in tracked():
        suffix = pathlib.PurePath(path).suffix
        if suffix in CPP + (".py",):
            text = (ROOT / path).read_text()
            files[path] = text.count("\n")
            spans = python_functions(text) if suffix == ".py" else functions_in(text)
            functions |= {f"{path}:{first}": last - first + 1 for first, last in spans}
        elif suffix == ".cmake" or path.endswith("CMakeLists.txt"):
            cmake += (ROOT / path).read_text().count("\n")
    return files, functions, cmake


def main():
    files, functions, cmake = measure()
    code = [n for p, n in functions.items() if not p.startswith("tests/")]
    total = lambda *tops: sum(n for p, n in files.items() if p.startswith(tops))
    budgets = [
        ("median of functions", quantile(code, 0.5), FUNCTION_MEDIAN),
        ("90 % of functions", quantile(code, 0.9), FUNCTION_P90),
        ("90 % of files", quantile(files.values(), 0.9), FILE_P90),
        ("CMake in all", cmake, CMAKE_TOTAL),
        ("public headers in all", total("include/"), PUBLIC_TOTAL),
        ("src/ without these parts", total("src/") - total(*PARTS), SOURCE_TOTAL),
        *((top, total(top), most) for top, most in PARTS.items()),
    ]
    found = [f"{name}: {have} lines, the budget is {most}" for name, have, most in budgets if have > most]
    found += [f"{p}: a function of {n} lines, the budget is {FUNCTION_MAX}" for p, n in functions.items()
              if n > FUNCTION_MAX]
    found += [f"{p}: {n} lines, the budget is {FILE_MAX}" for p, n in files.items() if n > FILE_MAX]
    if "--list" in sys.argv:
        for table in (functions, files):
            print("\n".join(f"{n:6} {p}" for p, n in sorted(table.items(), key=lambda e: -e[1])[:15]) + "\n")
    print("budgets: " + ", ".join(f"{name} {have}/{most}" for name, have, most in budgets))
    print(f"budgets: {total('tests/')} lines of tests for {total('src/', 'api/', 'driver/')} of source")
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
