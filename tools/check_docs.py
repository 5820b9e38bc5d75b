#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the Markdown pages of the tree. Links to files and headings must lead somewhere. docs/README.md must give each
page its place in the reading order. `weft VERB` must name a verb of the command line. No sentence may have more words
than LONGEST. tools/docs.py makes a site of the same pages."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONGEST = 30
CODE = re.compile(r"```.*?```|^    [^\n]*$", re.S | re.M)
MADE = re.compile(r"<!-- figures: \w+ -->.*?<!-- end -->", re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"`weft ([a-z]\w*)|^(?:\./x )?weft ([a-z]\w*)", re.M)
VERB = re.compile(r'^    \{"(\w+)", \w+_verb,', re.M)
WORD = re.compile(r"[A-Za-z0-9][\w'/.-]*")


def pages():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "*.md"], capture_output=True, text=True, check=True)
    return [ROOT / line for line in sorted(set(listed.stdout.splitlines())) if (ROOT / line).is_file()]


def anchors(page):
    """Returns the anchors of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ +(.*)$", CODE.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def reading_order():
    """Returns the sections of docs/README.md, in order: for each the titles and the pages of its table."""
    index = ROOT / "docs/README.md"
    sections = {}
    for part in re.split(r"^## ", index.read_text(), flags=re.M)[1:]:
        heading, _, rest = part.partition("\n")
        rows = re.findall(r"^\| \[([^\]]+)\]\(([^)]+)\)", rest, re.M)
        sections[heading] = [(title, (index.parent / link).resolve()) for title, link in rows]
    return sections


def misplaced(listed):
    """Yields a message for each page that the reading order lacks or repeats, and for the index if it lists itself."""
    for page in pages():
        if (count := listed.count(page)) != (page != ROOT / "docs/README.md"):
            yield f"{page.relative_to(ROOT)}: stands {count} times in docs/README.md"


def broken(page):
    for link in LINK.findall(CODE.sub("", page.read_text())):
        if ":" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            yield link


def unknown_verbs(page, verbs):
    return {a or b for a, b in COMMAND.findall(page.read_text())} - verbs


def sentences(text):
    text = MADE.sub("", CODE.sub("", text))
    text = re.sub(r"`[^`]*`", "code", LINK.sub("link", text))
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.) ?)", text):
        for part in block.split("|") if block.startswith("|") else [block]:
            yield from re.split(r"(?<=[.!?:;])\s+", " ".join(part.split()))


def main():
    faults = list(misplaced([page for section in reading_order().values() for _, page in section]))
    verbs = set(VERB.findall((ROOT / "driver/command.cpp").read_text()))
    for page in pages():
        name = page.relative_to(ROOT)
        faults += [f"{name}: the command line has no verb {verb}" for verb in sorted(unknown_verbs(page, verbs))]
        faults += [f"{name}: the link {link} leads nowhere" for link in broken(page)]
        for sentence in sentences(page.read_text()):
            if (words := len(WORD.findall(sentence))) > LONGEST:
                faults.append(f"{name}: {words} words, at most {LONGEST}: {sentence[:100]} ...")
    if faults:
        raise SystemExit("\n".join(faults))
    print(f"documents: {len(pages())} pages, in reading order, links lead somewhere, commands have verbs that exist, sentences of at most {LONGEST} words")


if __name__ == "__main__":
    main()
