#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the figures of bench/results into the pages that show them: README.md,
docs/quantisation.md and docs/status/*.md.

  tools/status.py            # writes them
  tools/status.py --check    # fails if a page is not what this would write; a part of ./x lint

A page holds `<!-- figures: NAME -->...<!-- end -->`; the text between is what the function NAME below makes of the
rows. A row is refused if it lacks a required key, has an unknown key or names a commit that is not in the history.
In docs/status numbers are allowed only between such marks, so that each figure has a row as its source.
"""
import collections
import json
import math
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
PAGES = [ROOT / "README.md", ROOT / "docs/quantisation.md", *sorted((ROOT / "docs/status").glob("*.md"))]
NEEDED = {"what", "of", "values", "command", "date", "machine", "commit"}
ALLOWED = NEEDED | {"peers", "note", "file"}
MARK = re.compile(r"(<!-- figures: (\w+) -->).*?(<!-- end -->)", re.S)
NUMBER = re.compile(r"(?<![\w.\-/])\d[\d,.]*(?![\w\-]*[\w])")
MODELS = ["resnet50", "mobilenet_v3_large", "vit_b_16", "bert_base", "gpt2_prefill", "gpt2_decode", "yolo_n",
          "whisper_tiny_encoder", "llama_2layer", "resnet50_qdq"]
PEERS = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}


def git(*words):
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)


def strangers(commits):
    """Returns the commits that are not in the history; none in a shallow clone, because its history is incomplete."""
    shallow = git("rev-parse", "--is-shallow-repository").stdout.strip()
    if shallow != "false":
        return set()
    return {name for name in commits if git("merge-base", "--is-ancestor", name, "HEAD").returncode}


def faults(rows):
    for row in rows:
        if row.keys() - ALLOWED or NEEDED - row.keys():
            yield f"{row['file']}: a row has {sorted(row.keys() - ALLOWED)} and lacks {sorted(NEEDED - row.keys())}"
    unknown = strangers({row.get("commit", "") for row in rows})
    for file in sorted({row["file"] for row in rows if row.get("commit") in unknown}):
        yield f"{file}: {', '.join(sorted(unknown))}: not in the history of this tree; measure again on a commit"


def read():
    rows = []
    for path in sorted(RESULTS.glob("*.jsonl")):
        rows += [json.loads(line) | {"file": path.name} for line in path.read_text().splitlines()]
    if found := list(faults(rows)):
        raise SystemExit("\n".join(found))
    return rows


# Parts of tables


def table(head, lines):
    rows = [head, ["---"] * len(head), *lines]
    return "\n\n" + "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows) + "\n"


def number(value):
    """Formats integers with commas. Formats floats without decimals from 100 on, with three significant digits from 10
    on, else with two decimals."""
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) >= 10 else f"{value:.2f}"


def error(value):
    return f"{value:.1e}" if value else "0"


def ratio(value):
    return "" if value is None else f"{value:.2f}"


def sources(rows, page):
    """Returns a list of the sources of a table: for each file its date, commit, machine and commands."""
    depth = len(page.relative_to(ROOT).parts) - 1
    found = collections.OrderedDict()
    for row in rows:
        key = row["file"], row["date"], row["machine"], row["commit"][:7]
        found.setdefault(key, dict())[row["command"]] = None
    lines = []
    for (file, date, machine, commit), commands in found.items():
        words = list(commands) if len(commands) < 3 else [next(iter(commands)), "..."]
        link = "../" * depth + "bench/results/" + file
        lines.append(f"- [{file}]({link}): {date}, commit {commit}, {machine}; " + "; ".join(f"`{w}`" for w in words))
    return "\n" + "\n".join(lines) + "\n\n"


def sizes(of):
    return ", ".join(f"{name} {size}" for name, size in of.get("sizes", {}).items())


def best(rows, key):
    """Returns one row for each key: of the last day, of its last commit (rows are appended to a file), and of its rows
    the one with the most rounds."""
    found, commits = {}, {}
    for i, row in enumerate(rows):
        commits.setdefault((row["file"], row["commit"]), i)
    for row in sorted(rows, key=lambda row: (row["date"], commits[row["file"], row["commit"]], row["values"].get("rounds", 0))):
        found[key(row)] = row
    return found


def by_case(row):
    return row["of"]["model"], json.dumps(row["of"]["sizes"]), row["of"]["threads"]


def place(row):
    """Returns the sort key of a row: models in the order of MODELS, then the others."""
    name = row["of"].get("model") or row["of"].get("network")
    return (MODELS.index(name) if name in MODELS else len(MODELS)), name


def order(row):
    return place(row), row["of"]["threads"], row["file"]


def cpu_rows(rows, engine="weft", peers=("onnxruntime",)):
    return [row for row in rows if row["what"] == "run on a CPU" and row["of"]["engine"] == engine
            and row.get("peers", {}).keys() & set(peers)]


def first_sizes(row):
    return row["of"]["sizes"].get("batch") == 1


def clock(row):
    """Returns the time by which a row is compared: "cpu" for one thread, because other work on the machine hardly
    changes processor time; else "wall"."""
    return "cpu" if row["of"]["threads"] == 1 else "wall"


def against(row, peer):
    return row["peers"].get(peer, {}).get(f"{clock(row)}_ratio")


# What pages show


def by_machine(rows):
    """Returns {kind of machine: its rows of batch 1, one for each case}; the machine that was measured last comes
    first."""
    rows, found = [row for row in cpu_rows(rows) if first_sizes(row)], collections.defaultdict(list)
    for row in best(rows, lambda row: (short(row["machine"]), *by_case(row))).values():
        found[short(row["machine"])].append(row)
    newest = sorted(found, key=lambda machine: max(row["date"] for row in found[machine]), reverse=True)
    return {machine: sorted(found[machine], key=order) for machine in newest}


def short(machine):
    """Shortens a name with cores and features to "Xeon with AMX"."""
    maker = next((word for word in ("Xeon", "EPYC", "Ryzen", "Core") if word in machine), machine.split(",")[0])
    level = next((name for word, name in (("amx", "AMX"), ("avx512", "AVX-512"), ("avx2", "AVX2")) if word in machine), "")
    return f"{maker} with {level}" if level else maker


def one_thread(rows):
    return {machine: [row for row in mine if row["of"]["threads"] == 1] for machine, mine in by_machine(rows).items()}


def cpu_short(rows, page):
    found = one_thread(rows)
    head = ["time ratio, below 1 Weft is faster"]
    head += [f"{machine}: to {name} {version(mine, peer)}" for machine, mine in found.items() for peer, name in PEERS.items()]
    lines = []
    for model in MODELS:
        ours = [next((row for row in mine if row["of"]["model"] == model), None) for mine in found.values()]
        lines.append([model, *(ratio(against(row, peer)) if row else "" for row in ours for peer in PEERS)])
    return table(head, lines) + sources([row for mine in found.values() for row in mine], page)


def version(rows, peer):
    return " and ".join(sorted({row["peers"][peer]["version"].split("-")[0] for row in rows if peer in row["peers"]}))


def range_of(values):
    return f"{min(values):.2f} to {max(values):.2f}"


def behind(found, peer):
    slower = [f"{row['of']['model']} ({against(row, peer):.2f})" for row in found if against(row, peer) >= 1.005]
    words = f"slower on {', '.join(slower)}" if slower else "slower on none"
    return f"as fast or faster on {len(found) - len(slower)} of {len(found)}, {words}"


def cpu_headline(rows, page):
    lines = []
    for machine, mine in by_machine(rows).items():
        for threads in sorted({row["of"]["threads"] for row in mine}):
            for peer, name in PEERS.items():
                found = [row for row in mine if row["of"]["threads"] == threads and against(row, peer)]
                lines.append([machine, threads, name, behind(found, peer)])
    return table(["machine", "threads", "beside", "Weft is"], lines) + "\n"


def cpu_brief(rows, page):
    parts = []
    for machine, mine in one_thread(rows).items():
        ranges = [f"{range_of([against(row, peer) for row in mine])} of {name}'s time" for peer, name in PEERS.items()]
        parts.append(f"{machine}, {len(mine)} models, one thread: " + ", ".join(ranges))
    return ". ".join(parts)


def cpu_full(rows, page):
    text = ""
    for machine, mine in by_machine(rows).items():
        head = ["model", "sizes", "threads", "Weft ms", *(f"to {name}" for name in PEERS.values()),
                "s to the first answer, without and with cache", *(f"the same, {name}" for name in PEERS.values()), "peak MiB, in this order", "load"]
        lines = []
        for row in mine:
            all_of = [row["values"], *(row["peers"].get(peer, {}) for peer in PEERS)]
            starts = [", ".join(number(one[key]) for key in ("cold_s", "warm_s") if key in one) for one in all_of]
            peaks = ", ".join(number(round(one["peak_mib"])) for one in all_of if "peak_mib" in one)
            lines.append([row["of"]["model"], sizes(row["of"]), row["of"]["threads"], number(row["values"][f"{clock(row)}_ms"]),
                          *(ratio(against(row, peer)) for peer in PEERS), *starts, peaks, number(row["values"]["load"])])
        text += f"\n\n**{machine}**" + table(head, lines) + sources(mine, page)
    return text


def cpu_errors(rows, page):
    rows = sorted(best([row for row in rows if row["what"] == "error on a CPU"], by_case).values(), key=order)
    if not rows:
        return "\n\nNot measured yet: `./x bench peers --accuracy --engines weft,onnxruntime --results FILE`.\n\n"
    lines = []
    for row in rows:
        both = [row["values"], row["peers"]["onnxruntime"]]
        within = [f"{100 * one['within_one_step']:.2f} %" if "within_one_step" in one else "" for one in both]
        lines.append([row["of"]["model"], sizes(row["of"]), *(error(one["error_l2_exact"]) for one in both), *within])
    head = ["model", "sizes", "error of Weft", "error of ONNX Runtime", "within one step, Weft", "within one step, ONNX Runtime"]
    return table(head, lines) + sources(rows, page)


def cpu_batches(rows, page):
    rows = [row for row in cpu_rows(rows) if not first_sizes(row)]
    rows = sorted(best(rows, lambda row: (row["machine"], *by_case(row))).values(), key=order)
    lines = [[row["of"]["model"], sizes(row["of"]), row["of"]["threads"], number(row["values"]["wall_ms"]),
              *(ratio(against(row, peer)) for peer in PEERS)] for row in rows]
    return table(["model", "sizes", "threads", "Weft ms", *(f"to {name}" for name in PEERS.values())], lines) + sources(rows, page)


def before(rows, page):
    """Makes a table of time ratios to an older build of Weft, measured in the same run."""
    rows = cpu_rows(rows, peers=["weft_before"])
    rows = sorted(best(rows, lambda row: (row["machine"], *by_case(row))).values(), key=order)
    if not rows:
        return "\n\nNot measured: `./x bench peers --engines weft,weft_before`.\n\n"
    lines = [[row["of"]["model"], sizes(row["of"]), row["of"]["threads"], number(row["values"][f"{clock(row)}_ms"]),
              ratio(against(row, "weft_before")), row["peers"]["weft_before"]["version"]] for row in rows]
    return table(["model", "sizes", "threads", "Weft ms", "ratio to the older build", "older build"], lines) + sources(rows, page)


def free_rows(rows):
    rows = best(cpu_rows(rows, "weft_free", ["weft"]), lambda row: by_case(row)[:2])
    return sorted(rows.values(), key=order)


def cpu_free(rows, page):
    rows = free_rows(rows)
    lines = [[row["of"]["model"], sizes(row["of"]), row["of"]["threads"], ratio(row["peers"]["weft"]["cpu_ratio"])] for row in rows]
    return table(["model", "sizes", "threads", "time with open sizes / with fixed sizes"], lines) + sources(rows, page)


def free_range(rows, page):
    return range_of([row["peers"]["weft"]["cpu_ratio"] for row in free_rows(rows)])


def cpu_bf16(rows, page):
    rows = cpu_rows(rows, "weft_bf16", ["openvino_bf16"])
    rows = sorted(best(rows, lambda row: (row["machine"], *by_case(row))).values(), key=order)
    lines = [[row["of"]["model"], sizes(row["of"]), row["of"]["threads"], number(row["values"]["cpu_ms"]),
              ratio(row["peers"]["openvino_bf16"]["cpu_ratio"])] for row in rows]
    return table(["model", "sizes", "threads", "Weft ms", "to OpenVINO in bf16"], lines) + sources(rows, page)


def operators(rows, page):
    rows = list(best([row for row in rows if row["what"] == "operator on a CPU"], lambda row: row["of"]["operator"]).values())
    if not rows:
        return "\n\nNot measured yet: `./x python bench/single_nodes.py --out FILE`.\n\n"
    lines = [[row["of"]["operator"], number(row["values"]["cpu_ms"]), ratio(row["peers"]["onnxruntime"]["cpu_ratio"])] for row in rows]
    return table(["operator", "Weft, ms of processor time", "to ONNX Runtime"], lines) + sources(rows, page)


def fastest(torch):
    modes = {"eager_ms": "eager", "graph_ms": "CUDA graph", "compile_ms": "compile", "compile_graph_ms": "compile + CUDA graph"}
    time, mode = min((torch[key], mode) for key, mode in modes.items() if key in torch)
    return time, mode


def gpu_rows(rows):
    rows = [row for row in rows if row["what"] == "beside PyTorch on a GPU" and "network" in row["of"] and "ms" in row["values"]]
    key = lambda row: (row["of"]["network"], row["of"]["batch"], row["of"].get("mode"))
    return sorted(best(rows, key).values(), key=lambda row: (place(row), row["of"]["batch"]))


def gpu_ratio(row):
    return row["values"]["ms"] / fastest(row["peers"]["pytorch"])[0]


def gpu_table(rows, page):
    rows, lines = gpu_rows(rows), []
    for row in rows:
        time, mode = fastest(row["peers"]["pytorch"])
        mode += ", max-autotune" * ("mode" in row["of"]) + " (compile fails)" * ("failure" in row["peers"]["pytorch"])
        lines.append([row["of"]["network"], row["of"]["batch"], number(row["values"]["ms"]), number(time), ratio(gpu_ratio(row)), mode])
    return table(["model, f16", "batch", "Weft ms", "PyTorch ms", "ratio", "PyTorch's fastest mode"], lines) + sources(rows, page)


def gpu_control(rows, page):
    """Returns a table of the networks whose work depends on their data: times, and how far the answers are apart."""
    rows = [row for row in rows if row["what"] == "network with control flow" and row["of"]["device"] != "cpu"]
    rows = list(best(rows, lambda row: json.dumps(row["of"])).values())
    if not rows:
        return "\n\nNot measured yet: `python bench/gpu_control.py --out FILE`.\n\n"
    lines = []
    for row in rows:
        values, of = row["values"], row["of"]
        time, mode = fastest(row["peers"]["pytorch"])
        apart = error(values["error"]) if "tokens" not in values and "boxes" not in values else f"{values['error']:.1%}"
        lines.append([of["network"], sizes(of), of["precision"], number(values["ms"]), number(time), ratio(gpu_ratio(row)), mode, apart])
    head = ["network", "sizes", "precision", "Weft ms", "PyTorch ms", "ratio", "PyTorch's fastest mode", "difference from the CPU's answer"]
    short = in_short([gpu_ratio(row) for row in rows], "PyTorch's fastest mode")
    return f"\n\nIn short: {short}.\n" + table(head, lines) + sources(rows, page)


def in_short(values, peer):
    """Says how often Weft is faster, and the range and the geometric mean of the time ratios."""
    mean = math.exp(sum(map(math.log, values)) / len(values))
    return f"faster than {peer} on {sum(value < 1 for value in values)} of {len(values)}; ratios {range_of(values)}, geometric mean {mean:.2f}"


def zoo_gpu(rows, page):
    """Returns a table of the zoo on GPUs, slowest relative to PyTorch first."""
    rows = [row for row in rows if row["what"] == "zoo beside PyTorch on a GPU" and "ms" in row["values"]]
    rows = list(best(rows, lambda row: (row["of"]["network"], row["of"]["batch"])).values())
    if not rows:
        return "\n\nNot measured yet: `python bench/zoo.py --gpu --out FILE`.\n\n"
    lines = []
    for row in sorted(rows, key=gpu_ratio, reverse=True):
        time, mode = fastest(row["peers"]["pytorch"])
        mode += " (compile fails)" * ("failure" in row["peers"]["pytorch"])
        lines.append([row["of"]["network"], row["of"]["batch"], number(row["values"]["ms"]), number(time), ratio(gpu_ratio(row)), mode])
    head = ["network, f16", "batch", "Weft ms", "PyTorch ms", "ratio", "PyTorch's fastest mode"]
    short = in_short([gpu_ratio(row) for row in rows], "PyTorch's fastest mode")
    compiled = in_short([gpu_ratio(row) for row in rows if "failure" not in row["peers"]["pytorch"]], "PyTorch's fastest mode")
    return f"\n\nIn short: {short}. Of the networks that PyTorch compiles: {compiled}.\n" + table(head, lines) + sources(rows, page)


def better_peer(row):
    return max(peer["cpu_ratio"] for peer in row["peers"].values())


def zoo_cpu(rows, page, engine="weft", peers=PEERS, precision="f32"):
    """Returns a table for each kind of machine, newest first; rows by time relative to the better peer, slowest first."""
    rows = [row for row in rows if row["what"] == "zoo on a CPU" and row["of"]["engine"] == engine and "drawn" not in row["of"]]
    found = collections.defaultdict(list)
    for row in best(rows, lambda row: (short(row["machine"]), row["of"]["model"], json.dumps(row["of"]["sizes"]))).values():
        found[short(row["machine"])].append(row)
    if not rows:
        return "\n\nNot measured yet: `python bench/zoo.py --out FILE`.\n\n"
    newest_first = sorted(found, key=lambda machine: max((row["date"], row["file"]) for row in found[machine]), reverse=True)
    text = ""
    for machine in newest_first:
        mine = sorted(found[machine], key=better_peer, reverse=True)
        lines = [[row["of"]["model"], row["of"]["sizes"]["batch"], number(row["values"]["cpu_ms"]),
                  *[ratio(row["peers"].get(peer, {}).get("cpu_ratio")) for peer in peers], row["values"]["load"]] for row in mine]
        head = [f"network, {precision}, one thread", "batch", "Weft ms", *[f"to {name}" for name in peers.values()], "load"]
        summary = in_short([better_peer(row) for row in mine], "the better peer" if len(peers) > 1 else "the peer")
        text += f"\n\n**{machine}**\n\nIn short: {summary}.\n" + table(head, lines) + sources(mine, page) + "\n"
    return text


def zoo_bf16(rows, page):
    return zoo_cpu(rows, page, "weft_bf16", {"openvino_bf16": "OpenVINO in bf16"}, "bf16")


def zoo_fresh(rows, page):
    """Returns a table for each machine and each list of drawn networks: the first and the newest measurement of each network."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        if row["what"] == "zoo on a CPU" and "drawn" in row["of"] and row["of"]["engine"] == "weft":
            found[row["of"]["drawn"], row["machine"]][row["of"]["model"], row["of"]["sizes"]["batch"]].append(row)
    return "\n".join(fresh_of_machine(*of, found[of], page) for of in sorted(found, reverse=True))


def fresh_of_machine(drawn, machine, networks, page):
    by_age = lambda row: (row["date"], row["file"])  # rows of one file are in the order in which they were measured
    both = {key: [rows[0], rows[-1]] for key, rows in ((key, sorted(rows, key=by_age)) for key, rows in networks.items())}
    cells = lambda row: [ratio(row["peers"].get(peer, {}).get("cpu_ratio")) for peer in PEERS]
    lines = [[*key, *cells(first), number(last["values"]["cpu_ms"]), *(cells(last) if last is not first else [""] * len(PEERS))]
             for key, (first, last) in sorted(both.items(), key=lambda item: -better_peer(item[1][0]))]
    head = ["network, f32, one thread", "batch", *[f"first: to {name}" for name in PEERS.values()], "Weft ms",
            *[f"now: to {name}" for name in PEERS.values()]]
    first, now = ([better_peer(rows[at]) for rows in both.values()] for at in (0, 1))
    short = f"First measurement: {in_short(first, 'the better peer')}.\n\nNow: {in_short(now, 'the better peer')}"
    return (f"\n\n**Drawn on {drawn}, {machine}**\n\n{short}.\n" + table(head, lines)
            + sources([row for rows in both.values() for row in rows], page))


def tensorflow_cpu(rows, page):
    """Makes a table for each machine: Weft beside TensorFlow for SavedModels, and beside LiteRT for TensorFlow Lite
    models. Rows with the greatest time relative to the peer come first."""
    rows = [row for row in rows if row["what"] == "TensorFlow model on a CPU"]
    if not rows:
        return "\n\nNot measured yet: `python bench/tensorflow_models.py --out FILE`.\n\n"
    machines = sorted({row["machine"] for row in rows}, key=lambda name: (max(row["date"] for row in rows if row["machine"] == name), name), reverse=True)
    return "".join(tensorflow_of_machine(name, [row for row in rows if row["machine"] == name], page) for name in machines)


def tensorflow_of_machine(machine, rows, page):
    rows = list(best(rows, lambda row: json.dumps({key: row["of"][key] for key in ("model", "form", "type", "threads")})).values())
    lines = []
    for row in sorted(rows, key=better_peer, reverse=True):
        (name, peer), of = next(iter(row["peers"].items())), row["of"]
        lines.append([of["model"], of["form"], of["type"], number(row["values"]["cpu_ms"]), number(peer["cpu_ms"]), ratio(peer["cpu_ratio"]), f"{name} {peer['version']}"])
    head = ["network, batch 1, one thread", "form", "type", "Weft ms", "peer ms", "ratio", "peer"]
    return f"\n\n**{machine}**\n\nIn short: {in_short([better_peer(row) for row in rows], 'the peer')}.\n" + table(head, lines) + sources(rows, page)


def newest(rows, key=lambda row: json.dumps(row["of"])):
    """Returns the newest row for each key."""
    return list({key(row): row for row in sorted(rows, key=lambda row: row["date"])}.values())


def torch_operators(rows, page):
    rows = newest([row for row in rows if row["what"] == "OpInfo samples of torch"])
    if not rows:
        return "\n\nNot counted yet: `./x python tests/torch/opinfo.py --out FILE`.\n\n"
    known = ("samples", "entries", "right", "whole", "partly", "refused", "wrong")
    cell = lambda row, key: number(row["values"].get(key, "" if key in ("right", "whole", "partly", "refused") else 0))
    def rest(row):
        return "; ".join(filter(None, [in_words({k: v for k, v in row["values"].items() if k not in known}), row.get("note")]))
    lines = [[*(row["of"][key] for key in ("form", "type", "device", "torch")), *(cell(row, key) for key in known), rest(row)] for row in rows]
    head = ["form", "type", "device", "torch", "samples", "entries", "right", "whole on Weft", "partly on Weft", "refused", "wrong", "others"]
    return table(head, lines) + sources(rows, page)


def torch_models(rows, page):
    rows = newest([row for row in rows if row["what"] in ("models of PyTorch", "generation with PyTorch", "tests of PyTorch")])
    if not rows:
        return "\n\nNot counted yet: `./x python tests/torch/zoo.py --out FILE`.\n\n"
    shown = lambda values: {k: error(v) if isinstance(v, float) else v for k, v in values.items()}
    lines = [[row["what"], in_words(row["of"]), "; ".join(filter(None, [in_words(shown(row["values"])), row.get("note")]))] for row in rows]
    return table(["test", "of", "result"], lines) + sources(rows, page)


def tensorflow_gpu(rows, page):
    rows = newest([row for row in rows if row["what"] == "answers of a TensorFlow model"], lambda row: row["of"]["model"] + row["of"]["device"])
    lines = []
    for device in sorted({row["of"]["device"] for row in rows}, reverse=True):
        of = [row for row in rows if row["of"]["device"] == device]
        right = [row for row in of if row["values"]["right"]]
        worst = max(right, key=lambda row: row["values"]["of_allowed"])
        lines.append([device, len(of), len(right), f"{worst['values']['of_allowed']:.2f} ({worst['of']['model']})",
                      ", ".join(row["of"]["model"] for row in of if row not in right)])
    return table(["device", "models", "right", "largest error / tolerance", "not right"], lines) + sources(rows, page)


def torch_rows(rows, what, is_gpu):
    rows = [row for row in rows if row["what"] == f"torch.compile, {what}" and ("driver" in row["machine"]) == is_gpu]
    return sorted(newest(rows, lambda row: json.dumps([row["of"]["model"], row["of"]["threads"], row["of"]["type"]])), key=place)


def torch_peer(row, unit="ms"):
    """Returns the time and the name of inductor's fastest mode."""
    return min((peer[unit], name) for name, peer in row["peers"].items() if name.startswith("inductor"))


def torch_speed(rows, page):
    is_gpu = page.name == "gpu.md"
    kinds = ("time of a call", "first call", "cost of a call", "time of a call, without inductor")
    calls, first, cost, alone_only = (torch_rows(rows, what, is_gpu) for what in kinds)
    if not calls:
        return "\n\nNot measured yet: `./x python bench/torch_compile.py --out FILE`.\n\n"
    ratios, lines = [], []
    for row in calls:
        weft, alone, (peer, mode) = row["values"]["ms"], row["peers"]["alone"]["ms"], torch_peer(row)
        ratios.append(weft / peer)
        lines.append([row["of"]["model"], number(weft), ratio(weft / alone), number(peer), ratio(weft / peer), mode, number(row["peers"]["eager"]["ms"])])
    head = [f"network, {calls[0]['of']['type']}", "Weft ms", "ratio to Weft without torch", "inductor ms", "ratio to inductor", "inductor's fastest mode", "eager ms"]
    text = f"\n\nIn short: {in_short(ratios, 'the fastest mode of inductor')}.\n" + table(head, lines)
    if alone_only:
        pairs = [(row["of"]["model"], row["values"]["ms"] / row["peers"]["alone"]["ms"]) for row in alone_only]
        text += f"\nTo Weft without torch, timed without inductor: {', '.join(f'{name} {ratio(value)}' for name, value in pairs)}.\n"
    if first:
        cells = [[row["of"]["model"], number(row["values"]["seconds"]), number(torch_peer(row, "seconds")[0]), number(row["peers"].get("torch", {}).get("seconds", ""))] for row in first]
        text += table(["first call in a new process, no kernels on disk", "Weft s", "inductor s", "of it torch's tracing s"], cells)
    if cost:
        row = cost[-1]
        peers = {"Weft": row["values"]["us"], "inductor": torch_peer(row, "us")[0], "eager": row["peers"]["eager"]["us"]}
        if "torch" in row["peers"]:
            peers["torch.compile's own part"] = row["peers"]["torch"]["us"]
        text += table(["cost of a call: a small product, minus the program's own time", *peers], [["microseconds", *map(number, peers.values())]])
    return text + sources([*calls, *alone_only, *first, *cost], page)


def gpu_kernels(rows, page):
    """Makes a table of single products and operators, compared with PyTorch's."""
    rows = [row for row in rows if row["what"] == "beside PyTorch on a GPU" and {"gemm", "operator"} & row["of"].keys()]
    rows = [row for row in best(rows, lambda row: json.dumps(row["of"])).values() if "ms" in row["values"]]
    if not rows:
        return "\n\nNot measured yet: `python bench/gpu_peers.py --only gemm,rows --out FILE`.\n\n"
    lines, drawn = [], []
    for row in rows:
        torch = row["peers"]["pytorch"]["ms"]
        if row["of"].get("sizes") == "random":
            drawn.append(row["values"]["ms"] / torch)
            continue
        sizes = " x ".join(map(str, row["of"].get("gemm", row["of"].get("shape", []))))
        name = ", ".join(filter(None, [row["of"].get("operator"), sizes, row["of"].get("type", "f16")]))
        lines.append([name, f"{row['values']['ms']:.4f}", f"{torch:.4f}", ratio(row["values"]["ms"] / torch)])
    short = f"\n{len(drawn)} products of random sizes in f16: {in_short(drawn, 'cuBLAS and cuBLASLt')}.\n" if drawn else ""
    return table(["product or operator", "Weft ms", "PyTorch ms", "ratio"], lines) + short + sources(rows, page)


def gpu_headline(rows, page):
    """Says in how many cases Weft is at least as fast as PyTorch, and where it is slower. Names the GPUs of the rows it counts."""
    rows = [row for row in gpu_rows(rows) if "mode" not in row["of"]]
    behind = [f"{row['of']['network']} at batch {row['of']['batch']} ({gpu_ratio(row):.2f})" for row in rows if gpu_ratio(row) >= 1.005]
    return f"on one {' and one '.join(gpu_names(rows))}, at least as fast as PyTorch's fastest mode in {len(rows) - len(behind)} of {len(rows)} cases. Slower: {', '.join(behind) or 'none'}"


def gpu_decoder(rows, page):
    rows = [row for row in rows if row["what"] == "token of a decoder on a GPU" and "peers" in row]
    rows = list(best(rows, lambda row: (row["of"]["past"], row["of"]["room"])).values())
    lines = [[row["of"]["past"], number(row["values"]["ms"]), number(fastest(row["peers"]["pytorch"])[0])] for row in rows]
    return table(["tokens in the cache", "Weft ms", "PyTorch ms"], lines) + sources(rows, page)


def gpu_blocks(rows, page):
    """Returns a table of products of few rows with weights of few bits: their speed as a share of the speed of a copy."""
    rows = [row for row in rows if row["what"] == "product with few-bit weights on a GPU"]
    rows = list(best(rows, lambda row: json.dumps(row["of"])).values())
    lines = [[f"{row['of']['k']} x {row['of']['n']}", row["of"]["bits"], row["of"]["rows"], number(row["values"]["us"]), ratio(row["values"]["of_copy"]), ratio(row["values"].get("of_equal_copy"))] for row in rows]
    return table(["k x n", "bits", "rows", "microseconds", "share of copy speed", "of copies of equal size"], lines) + sources(rows, page)


def gpu_tiles(rows, page):
    rows = [row for row in rows if row["what"] == "tiles of a product on a GPU"]
    values = [min(row["values"]["us"].values()) / row["peers"]["pytorch"]["us"] for row in rows]
    mean = math.exp(sum(map(math.log, values)) / len(values))
    pairs = sum(len(row["values"]["us"]) for row in rows)
    return (f"\n\nMeasured: {pairs:,} pairs of shape and tile. The fastest tile of each of {len(rows)} shapes takes {range_of(values)} of"
            f" the time of PyTorch's product; the geometric mean is {mean:.2f}.\n") + sources(rows, page)


def gpu_errors(rows, page):
    rows = [row for row in rows if row["what"] == "error on a GPU" and "batch_to_float64" in row["values"]]
    rows = list(best(rows, lambda row: (row["of"]["model"], row["of"]["precision"])).values())
    rows.sort(key=lambda row: (place(row), row["of"]["precision"]))
    lines = [[row["of"]["model"], row["of"]["precision"], error(row["values"]["b1_to_float64"]),
              f"{error(row['values']['batch_to_float64'])} (batch {row['of']['batch']})", row["values"]["replays_equal"]] for row in rows]
    head = ["model", "precision", "error at batch 1", "error at a large batch", "replays with equal bits, of 100"]
    return table(head, lines) + sources(rows, page)


def gpu_sizes(rows, page):
    rows = [row for row in rows if row["what"] == "random sizes on a GPU" and "to_cpu" in row["values"]]
    rows = sorted(best(rows, lambda row: row["of"]["model"]).values(), key=place)
    lines = [[row["of"]["model"], row["of"]["random_sizes"], row["values"]["compiles"], error(row["values"]["to_cpu"])] for row in rows]
    return table(["model, f32", "sizes", "kernels compiled for them", "difference from the CPU's answer"], lines) + sources(rows, page)


def cudnn(rows, page):
    rows = [row for row in rows if row["what"] == "cuDNN's convolutions on a GPU"]
    rows = list(best(rows, lambda row: json.dumps(row["of"])).values())
    lines = [[*(row["of"][key] for key in ("precision", "sizes", "candidate")), error(row["values"]["to_reference"]),
              error(row["values"]["own_to_reference"]), row["values"]["replays_that_differ"]] for row in rows]
    head = ["precision", "sizes", "form", "error with cuDNN", "error of Weft's kernels", "replays that differ"]
    return table(head, lines) + sources(rows, page)


def gpu_names(rows):
    return sorted({row["machine"].split(",")[0] for row in rows if row["what"].endswith("on a GPU")})


def gpus(rows, page):
    return " and ".join(gpu_names(rows))


def counted(rows):
    return [row for row in rows if row["file"] == "counts.jsonl"]


def in_words(values):
    return ", ".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in values.items() if value not in ("", None))


def counts(rows, page):
    rows = counted(rows)
    if not rows:
        return "\n\nNo full count has been kept yet: `./x test --release`.\n\n"
    lines = [[row["what"] if row["what"] != "tests" else row["of"]["piece"], "" if row["what"] == "tests" else in_words(row["of"]),
              "; ".join(filter(None, [in_words(row["values"]), row.get("note")])), row["date"], row["commit"][:7], f"`{row['command']}`"] for row in rows]
    machines = sorted({row["machine"] for row in rows})
    return table(["test", "of", "result", "date", "commit", "command"], lines) + f"\nMachines: {'; '.join(machines)}.\n\n"


def node_cases(rows, page):
    """Says how many of ONNX's own cases are right through the public interface."""
    rows = [row for row in counted(rows) if row["what"] == "ONNX node cases"]
    if not rows:
        return "not counted yet through the public interface."
    places = collections.defaultdict(list)
    for row in rows:
        total = sum(row["values"].get(key, 0) for key in ("right", "wrong", "refused"))
        precision = f" in {row['of']['precision']}" if "precision" in row["of"] else ""
        places[f"{row['values']['right']:,} of {total:,} right"].append(f"`{row['of']['device']}`{precision}")
    parts = [f"{count} on {', '.join(dict.fromkeys(devices))}" for count, devices in places.items()]
    return f"{', '.join(parts)}, through {rows[0]['of']['through']}."


def memory(rows, page):
    rows = next(iter(one_thread(rows).values()))
    lines = [[row["of"]["model"], number(round(row["values"]["peak_mib"])),
              *(number(round(row["peers"][peer]["peak_mib"])) if peer in row["peers"] else "" for peer in PEERS)] for row in rows]
    return table(["model, peak memory of the process in MiB", "Weft", *PEERS.values()], lines) + sources(rows, page)


def file_sizes(rows, page):
    rows = [row for row in rows if row["what"] == "size of a file"]
    if not rows:
        return "\n\nNot measured yet: `./x python bench/sizes.py --out FILE`.\n\n"
    lines = [[row["of"]["file"], number(row["values"]["mib"]), number(row["values"].get("model_mib", "")),
              number(row["values"].get("working_mib", ""))] for row in rows]
    return table(["file", "MiB", "MiB of the model", "MiB of working memory"], lines) + sources(rows, page)


def wheels(rows, page):
    rows = [row for row in rows if row["what"] == "wheel on a bare system"]
    if not rows:
        return "\n\nNot measured yet: `python tools/bare_root.py FOLDER SUITE WHEEL --out FILE`.\n\n"
    found = best(rows, lambda row: (row["of"]["system"], row["of"]["python"], row["of"]["kernel pack"]))
    lines = [[system, python, row["of"]["wheel"].split("-")[2], "yes" if has_pack else "no",
              *(number(row["values"][key]) for key in ("wheel_mib", "venv_s", "install_s", "first_answer_s", "all_s", "load"))]
             for (system, python, has_pack), row in sorted(found.items())]
    head = ["system", "Python", "wheel for", "with kernel pack", "MiB", "s: environment", "s: installation", "s: first answer", "s in all", "load"]
    return table(head, lines) + sources(rows, page)


def quantisation(rows, page):
    rows = [row for row in rows if row["what"] == "quantisation"]
    if not rows:
        return "\n\nNot measured yet: `./x python bench/quantisation.py --out FILE`.\n\n"
    found = best(rows, lambda row: (row["of"]["engine"], row["of"]["judge"]))
    judges = [judge for judge in ("files", "text", "retrieval", "speech", "perplexity") if ("float", judge) in found]
    engines = sorted({engine for engine, _ in found}, key=lambda engine: (engine != "float", not engine.startswith("weft"), engine))
    def mark(values, judge):
        """Returns a star if the float model's figure has changed since this row was measured, which means that the data
        changed."""
        now = found["float", judge]["values"]
        if "refused" in values or values == now:
            return ""
        then = values["perplexity"] / values["of the float's"] if "perplexity" in values else values["score"] + values["lost"]
        return " *" if abs(then / now.get("perplexity", now.get("score")) - 1) > 0.001 else ""
    def cell(engine, judge):
        values = found[engine, judge]["values"] if (engine, judge) in found else {}
        if "perplexity" in values:
            share = values.get("of the float's")
            return (f"{values['perplexity']:.2f}" if values["perplexity"] < 1000 else "above 1000") + (f" ({share:.3f})" if share and share < 1000 else "") + mark(values, judge)
        return f"{values['score']:.1f}{mark(values, judge)}" if "score" in values else "refused" if values else ""
    def size(engine):
        values = found[engine, "perplexity"]["values"] if (engine, "perplexity") in found else {}
        return f"{values['MB']:.0f}" if "MB" in values else ""
    lines = [[engine, *(cell(engine, judge) for judge in judges), size(engine)] for engine in engines]
    return table(["", *judges, "MB of SmolLM2"], lines) + sources(rows, page)


def quantised_speed(rows, page):
    rows = [row for row in rows if row["what"] == "speed of quantised models"]
    if not rows:
        return "\n\nNot measured yet: `./x python bench/quantisation.py --judges speed --out FILE`.\n\n"
    def unit(row):
        has = row["of"]["level"].replace("avx512vnni", "avx512_vnni").replace("x86-64-v3", "avx2") if "level" in row["of"] else row["machine"]
        return next((name for flag, name in (("amx", "AMX"), ("avx512_vnni", "VNNI"), ("avx2", "AVX2")) if flag in has), "")
    found = best(rows, lambda row: (row["of"]["model"], str(row["of"]["sizes"]), row["of"]["to"], unit(row)))
    lines = [[model, ", ".join(f"{k} {v}" for k, v in row["of"]["sizes"].items()), to, processor, f"{row['values']['ms']:.2f}",
              f"{row['values']['ms of f32']:.2f}", f"{row['values']['times f32']:.2f}",
              f"{row['peers']['onnxruntime']['ms']:.2f}" if row.get("peers") else ""] for (model, _, to, processor), row in sorted(found.items())]
    return table(["model", "sizes", "form", "instructions", "Weft ms", "Weft ms in f32", "speed-up", "ONNX Runtime ms"], lines) + sources(rows, page)


def quantised_bits(rows, page):
    rows = [row for row in rows if row["what"] == "bits of quantised models"]
    if not rows:
        return "\n\nNot measured yet: `./x python bench/quantisation.py --judges bits --out FILE`.\n\n"
    lines = [[row["of"]["model"], row["of"]["device"], row["machine"].split(",")[0], row["of"]["level"], row["of"]["threads"],
              row["values"]["integer tensors"], f"{row['values']['equal runs']} of {row['values']['runs']}"] for row in rows]
    return table(["model", "device", "machine", "level", "threads", "integer tensors compared", "equal runs"], lines) + sources(rows, page)


def machines(rows, page):
    found = collections.defaultdict(set)
    for row in rows:
        found[row["machine"]].add(row["file"])
    return table(["machine", "figures"], [[name, ", ".join(sorted(files))] for name, files in sorted(found.items())]) + "\n"


# Writing


def filled(page, rows):
    def fill(match):
        begin, name, end = match.groups()
        if name not in FIGURES:
            raise SystemExit(f"{page.relative_to(ROOT)}: there are no figures {name}")
        return begin + FIGURES[name](rows, page) + end

    return MARK.sub(fill, page.read_text())


def loose_numbers(page):
    """Returns the numbers of a status page that do not come from a file of results. Code and links do not count as
    numbers."""
    text = MARK.sub("", page.read_text())
    text = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", text, flags=re.S)
    return NUMBER.findall(text)


FIGURES = {made.__name__: made for made in (
    cpu_short, cpu_headline, cpu_brief, cpu_errors, cpu_full, cpu_batches, cpu_free, free_range, cpu_bf16, operators, gpu_table, gpu_headline, gpu_control, zoo_gpu, zoo_cpu, zoo_bf16, zoo_fresh, tensorflow_cpu, tensorflow_gpu, gpu_kernels, gpu_blocks,
    gpu_decoder, gpu_tiles, before, gpu_errors, gpu_sizes, cudnn, gpus, counts, node_cases, memory, file_sizes, wheels, machines, quantisation, quantised_speed, quantised_bits,
    torch_operators, torch_models, torch_speed)}


def main():
    rows, wrong = read(), []
    for page in PAGES:
        text = filled(page, rows)
        if page.parent.name == "status" and (numbers := loose_numbers(page)):
            wrong.append(f"{page.relative_to(ROOT)}: {', '.join(numbers)}: figures stand between marks, from a file of bench/results")
        if "--check" not in sys.argv:
            page.write_text(text)
        elif text != page.read_text():
            wrong.append(f"{page.relative_to(ROOT)} is not what bench/results says: run ./x status")
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
