#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the site of the documents in build/docs/site; a part of `./x docs`, which builds weft and installs mkdocs first.

The pages are the Markdown files of the tree, in the order of docs/README.md, and reference pages that are written here: from outputs
of `weft`, from docstrings and from the public headers. A link that leads nowhere is an error, and so is a page without a place in that order.
"""
import inspect
import json
import os
import re
import shutil
import subprocess
import sys

import check_docs

ROOT = check_docs.ROOT
FOLDER = ROOT / "build/docs"
SOURCE = FOLDER / "source"
WEFT = ROOT / "build/release/bin/weft"
HEADERS = ["include/weft/weft.h", "include/weft/weft.hpp"]


def copy(path):
    target = SOURCE / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)


def copy_linked(page):
    """Copies files of other kinds that a page links to: sources, pictures, figures. Copies no folders."""
    text = page.read_text()
    for link in set(check_docs.LINK.findall(text)):
        target = (page.parent / link.partition("#")[0]).resolve()
        if ":" not in link and target.is_file() and target.suffix != ".md":
            copy(target)


def weft(*words):
    return subprocess.run([WEFT, *words], capture_output=True, text=True, check=True).stdout.rstrip()


def block(text, language=""):
    return f"```{language}\n{text}\n```\n"


def command_line():
    general = weft("--help")
    verbs = re.findall(r"^  (\w+) +\w", general.partition("exit codes")[0].partition("examples:")[0], re.M)
    parts = [f"## weft {verb}\n\n{block(weft(verb, '--help'))}" for verb in verbs]
    return "# Command line: every option\n\n" + "\n".join([block(general), *parts])


def signature_of(thing):
    """Returns the signature as text; annotations, which are kept as strings, are shown without quotes."""
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(thing)))


def documented(name, thing):
    """Yields the signature and the docstring of a function or class, and of the class's public methods and properties."""
    signature = ""
    if callable(thing) and not (inspect.isclass(thing) and issubclass(thing, tuple)):
        try:
            signature = signature_of(thing)
        except ValueError:
            pass
    yield f"## {name}\n\n{block(name + signature, 'python')}\n{block(inspect.getdoc(thing) or '', 'text')}"
    if not inspect.isclass(thing) or issubclass(thing, Exception):
        return
    for member, value in vars(thing).items():
        if not member.startswith("_") and inspect.getdoc(value) and (inspect.isfunction(value) or isinstance(value, property)):
            head = f"{name}.{member}" + (signature_of(value) if inspect.isfunction(value) else "")
            yield f"### {name}.{member}\n\n{block(head, 'python')}\n{block(inspect.getdoc(value), 'text')}"


def python():
    sys.path.insert(0, str(ROOT / "build/release/python"))
    import weft as module

    names = [name for name in module.__all__ if name != "__version__"]
    parts = [part for name in names for part in documented(f"weft.{name}", getattr(module, name))]
    return f"# Python: every function\n\n{block(inspect.getdoc(module), 'text')}\n" + "\n".join(parts)


def headers():
    """Returns a page with weft.h, divided by its own headings, and with the whole of weft.hpp."""
    c, cpp = ((ROOT / path).read_text() for path in HEADERS)
    parts = re.split(r"^/\* ---- (.+?) -+(?: \*/)?\n", c, flags=re.M)
    text = f"# C and C++: the headers\n\n## weft.h\n\n{block(parts[0].strip(), 'c')}\n"
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        opened = "/*\n" if body.startswith(" *") else ""
        text += f"### {title}\n\n{block(opened + body.strip(chr(10)), 'c')}\n"
    return f"{text}## weft.hpp\n\n{block(cpp.strip(), 'cpp')}"


def knobs():
    return f"# Environment variables\n\n{block(weft('knobs'))}"


def operators():
    return (f"# Operators: PyTorch, and programs as text\n\n## Programs of torch.export\n\n{block(weft('ops', '--torch'))}\n"
            f"## Weft's own\n\n{block(weft('ops'))}")


GENERATED = {"Command line: every option": command_line, "Python: every function": python, "C and C++: the headers": headers,
             "Environment variables": knobs, "Operators: PyTorch, text form": operators}


def write_generated():
    """Writes the reference pages; returns their entries for the navigation of the site."""
    (SOURCE / "reference").mkdir(parents=True)
    places = []
    for title, write in GENERATED.items():
        path = f"reference/{write.__name__}.md"
        (SOURCE / path).write_text(write())
        places.append({title: path})
    return places


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    for page in check_docs.pages():
        copy(page)
        copy_linked(page)
    order = [{heading: [{title: str(page.relative_to(ROOT))} for title, page in listed]}
             for heading, listed in check_docs.reading_order().items()]
    for section in order:
        if "Reference" in section:
            section["Reference"] += write_generated()
    order.append({"All documents": "docs/README.md"})
    settings = {"INHERIT": "../../docs/mkdocs.yml", "docs_dir": "source", "site_dir": "site", "nav": order}
    (FOLDER / "mkdocs.yml").write_text(json.dumps(settings))  # JSON is YAML
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", FOLDER / "mkdocs.yml"]
    built = subprocess.run(command, cwd=FOLDER, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True)
    if built.returncode:
        raise SystemExit("\n".join(line for line in built.stderr.splitlines() if not line.startswith("INFO")))
    print(f"{FOLDER.relative_to(ROOT)}/site/index.html: {len(check_docs.pages())} pages and {len(GENERATED)} that are written here")


if __name__ == "__main__":
    main()
