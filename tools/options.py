#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates text from src/compile/options.def in files that cannot include it: the structs of weft.h and weft.hpp, the
arguments of weft.compile with their descriptions, _weft.pyi and docs/options.md.

usage: tools/options.py [--check]

With --check nothing is written, and the exit code is 1 if a file is not what would be written."""
import pathlib
import re
import subprocess
import sys
import textwrap
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "src/compile/options.def"
ROW = re.compile(r"^(LIST_|OTHER_)?OPTION\((.*)\)$", re.M)
WORD = re.compile(r'\s*("(?:\\.|[^"\\])*"|[^,]*)(?:,|$)')
FIELDS = {
    None: ("kind", "name", "initial", "api", "stage", "flag", "value", "sentence", "python"),
    "LIST_": ("kind", "name", "api", "count", "stage", "flag", "value", "sentence", "python"),
    "OTHER_": ("kind", "name", "api", "stage", "flag", "value", "sentence", "python"),
}


class Kind(NamedTuple):
    """The types of one kind of option. In the members of the C struct, {} stands for the option's name and {count} for
    the name of its count."""

    members: tuple[str, ...]
    cpp: str
    native: str = ""  #: in _weft.pyi; empty: Python lacks the option
    python: str = ""  #: in weft.compile
    default: str = "None"


LIST = ("const char* const* {}", "size_t {count}")
TEXTS = "std::vector<std::string>"
CALLBACK = "Callable[[str, int, int], None] | None"
KINDS = {
    "text": Kind(("const char* {}",), "std::string", "str", "str | None"),
    "path": Kind(("const char* {}",), "std::string", "str", "str | os.PathLike[str] | None"),
    "number": Kind(("int32_t {}",), "int", "int", "int", "0"),
    "bytes": Kind(("int64_t {}",), "int64_t", "int", "int", "0"),
    "seconds": Kind(("double {}",), "double", "float", "float", "0"),
    "deadline": Kind(("double {}",), "double", "float", "float | None"),
    "flag": Kind(("int32_t {}",), "bool", "bool", "bool", "False"),
    "cache": Kind(("int32_t {}",), "bool", "bool", "bool", "True"),
    "borrow": Kind(("int32_t {}",), "bool"),
    "precision": Kind(("weft_precision {}",), "weft_precision", "str", "str", '"f32"'),
    "texts": Kind(LIST, TEXTS, "list[str]", "Iterable[str]", "()"),
    "shapes": Kind(LIST, TEXTS, "list[str]", "Mapping[str, Sequence[Any]] | None"),
    "symbols": Kind(LIST, TEXTS, "list[str]", "Mapping[str, int] | None"),
    "donations": Kind(LIST, TEXTS, "list[str]", "Mapping[str, str] | None"),
    "static_inputs": Kind(LIST, TEXTS),
    "constants": Kind(("const char* const* constant_names", "const weft_tensor* const* {}", "size_t constant_count"),
                      "std::vector<std::pair<std::string, Tensor>>", "list[tuple[str, Tensor]]", "Mapping[str, Any] | None"),
    "operators": Kind(("const weft_operator* {}", "size_t operator_count"), "std::vector<weft_operator>", "list[Operator]",
                      "Iterable[Operator]", "()"),
    "allocator": Kind(("const weft_allocator* {}",), "const weft_allocator*"),
    "executor": Kind(("const weft_executor* {}",), "const weft_executor*"),
    "progress": Kind(("void (*{})(void* user, const char* phase, size_t done, size_t total)", "void* progress_user"),
                     "std::function<void(std::string_view phase, size_t done, size_t total)>", CALLBACK, CALLBACK),
    "stop": Kind(("int32_t (*{})(void* user)", "void* stop_user"), "std::function<bool()>"),
}


class Option(NamedTuple):
    kind: str
    name: str
    api: str
    flag: str
    value: str
    sentence: str
    python: str
    initial: str = "{}"
    count: str = ""

    @property
    def types(self):
        return KINDS[self.kind]

    @property
    def members(self):
        return [member.format(self.api, count=self.count) for member in self.types.members]

    @property
    def cpp_name(self):
        return "use_cache" if self.kind == "cache" else self.api

    @property
    def default(self):
        return self.initial if self.initial.startswith('"') else self.types.default


def read_options():
    options = []
    for form, row in ROW.findall(TABLE.read_text()):
        words = [re.sub(r"\\(.)", r"\1", word[1:-1]) if word[:1] == '"' else word for word in WORD.findall(row)]
        fields = dict(zip(FIELDS[form or None], words))
        if fields.get("kind") not in KINDS:
            continue  # the definition of a macro
        if fields.get("initial") == "auto":
            fields["initial"] = '"auto"'
        del fields["stage"]
        options.append(Option(**fields))
    return options


def name_of(member):
    return re.search(r"\(\*(\w+)\)|(\w+)$", member).group(1) or member.rpartition(" ")[2]


def c_members(option):
    """Returns the members of the C struct. The description follows the first member, or precedes it if it does not fit
    there."""
    lines = [f"  {member};" for member in option.members]
    sentence = ("1: " if option.kind in ("flag", "cache", "borrow") else "") + option.sentence
    if len(lines[0]) + len(sentence) <= 112:
        return [f"{lines[0]} /* {sentence} */", *lines[1:]]
    return [*textwrap.wrap(f"/* {sentence} */", 120, initial_indent="  ", subsequent_indent="   * ", break_on_hyphens=False), *lines]


def c_struct(options):
    lines = ["  size_t struct_size;", *(line for option in options for line in c_members(option))]
    zeros = ", ".join("WEFT_PRECISION_F32" if option.kind == "precision" else "0" for option in options for _ in option.members)
    return "\n".join([
        "", *lines, "} weft_compile_options;", "/* clang-format off */", "#define WEFT_COMPILE_OPTIONS_INIT \\",
        f"  {{sizeof(weft_compile_options), {zeros}}}", "",
    ])


def cpp_struct(options):
    initial = {"precision": " = WEFT_PRECISION_F32", "number": " = 0", "bytes": " = 0", "seconds": " = 0", "deadline": " = 0",
               "flag": " = false", "borrow": " = false", "cache": " = true", "allocator": " = nullptr", "executor": " = nullptr"}
    lines = [""]
    for option in options:
        value = f" = {option.initial}" if option.initial[0] == '"' else initial.get(option.kind, "{}")
        is_same = lines[-1].startswith(f"  {option.types.cpp} ") and value == "{}"
        lines[-1:] = [f"{lines[-1][:-1]}, {option.cpp_name}{{}};"] if is_same else [lines[-1], f"  {option.types.cpp} {option.cpp_name}{value};"]
    return "\n".join([*lines, ""])


def cpp_view(options):
    def call(option):
        if option.kind == "cache":
            return "c_.no_cache = !o.use_cache"
        return f"give({', '.join([f'o.{option.api}', *(f'c_.{name_of(member)}' for member in option.members)])})"

    lines = [""]
    for option in options:
        one = f"{lines[-1][:-1]}, {call(option)};"
        lines[-1:] = [one] if 1 < len(lines) and len(one) <= 120 else [lines[-1], f"    {call(option)};"]
    return "\n".join([*lines, "  "])


def stub(options):
    return "\n".join(["", *(f"    {o.name}: {o.types.native}" for o in options if o.types.native), "", ""])


def arguments(options):
    lines = []
    for option in options:
        if not option.types.native:
            continue
        kind = "str" if option.default == '"auto"' else option.types.python
        lines.append(f"    {option.name}: {kind} = {option.default},")
        if option.name == "device":
            lines.append("    devices: Sequence[str] = (),")
    return "\n".join(["", *lines, ""])


def descriptions(options):
    lines = []
    for option in options:
        if not option.types.native:
            continue
        lines += textwrap.wrap(f"{option.name}: {option.python or option.sentence}.", 132, break_on_hyphens=False)
        if option.name == "device":
            lines += textwrap.wrap('devices: several devices that compute each run together, ("gpu:0", "gpu:1"), or "cpu" any number of times. '
                                   "The weights of products are split between them (tensor parallelism).", 132)
    return "\n".join(["", *(f"    {line}" for line in lines), ""])


HEAD = """# Options of a compile

Written by `tools/options.py` from `src/compile/options.def`; `./x lint` checks that it is current. In C++ an option has the name of C, but
`use_cache` is the opposite of `no_cache`. On the command line, options for several values may be repeated.

| Python | C | command line | meaning |
| --- | --- | --- | --- |
"""


def page(options):
    def row(option):
        flag = ", ".join(f"`{flag}{' ' + option.value if option.value else ''}`" for flag in option.flag.split(",") if flag)
        python = f"`{option.name}={option.default}`" if option.types.native else ""
        meaning = option.sentence + (f". Python: {option.python}" if option.python and option.types.native else "")
        return f"| {python} | `{option.api}` | {flag} | {meaning.replace('|', chr(92) + '|')} |"

    return HEAD + "\n".join(map(row, options)) + "\n"


#: file -> (text before, function, text after) of each part that is written
PARTS = {
    "include/weft/weft.h": [("typedef struct weft_compile_options {", c_struct, "/* clang-format on */")],
    "include/weft/weft.hpp": [("struct CompileOptions {", cpp_struct, "};\n\nnamespace detail {"),
                              ("  explicit CompileOptionsView(const CompileOptions& o) {", cpp_view, "}\n  const weft_compile_options* get()")],
    "api/python/weft/_weft.pyi": [("class Options:", stub, "class Model:")],
    "api/python/weft/__init__.py": [("    model: str | os.PathLike[str] | bytes,\n    *,", arguments, ") -> Model:"),
                                    ("or the bytes of a file.", descriptions, "\n    Raises UsageError for a missing file")],
}


def written(path, parts, options):
    text = (ROOT / path).read_text()
    for before, make, after in parts:
        start = text.index(before) + len(before)
        text = text[:start] + make(options) + text[text.index(after, start):]
    if not path.startswith("include/"):
        return text
    command = ["clang-format-19", f"--assume-filename={ROOT / path}"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def main():
    options = read_options()
    pages = {path: written(path, parts, options) for path, parts in PARTS.items()} | {"docs/options.md": page(options)}
    stale = [path for path, text in pages.items() if not (ROOT / path).exists() or (ROOT / path).read_text() != text]
    if "--check" in sys.argv:
        print("\n".join(f"{path}: not what tools/options.py would write" for path in stale), end="\n" if stale else "")
        return bool(stale)
    for path in stale:
        (ROOT / path).write_text(pages[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
