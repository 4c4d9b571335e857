"""Draws the figures of README and docs, and the table of recordings, from data: `make plots`.

    docs/data/gpu.json          what was measured on GPUs, with date, commit, machine, command
    docs/data/recordings.json   what `stalloc replay --json` prints of the bundled recordings,
                                written by `make recordings`
    --report                    a page of `stalloc report`, made by `make plots` in build/

A figure says nothing that is not in its data: measure again, change the data, draw again.
"""

import argparse
import base64
import gzip
import json
import re
import struct
import subprocess
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.collections import PatchCollection  # noqa: E402
from matplotlib.patches import Rectangle  # noqa: E402
from matplotlib.ticker import MaxNLocator  # noqa: E402

DOCS = Path(__file__).resolve().parent.parent
ALLOCATORS = ["native", "expandable", "gmlake", "stalloc"]
NAMES = {
    "native": "native",
    "expandable": "expandable segments",
    "gmlake": "GMLake",
    "stalloc": "stalloc",
}
# Told apart by people who see few colours, and in grey: their lightness differs.
COLOURS = {"native": "#4d4d4d", "expandable": "#e69f00", "gmlake": "#56b4e9", "stalloc": "#009e73"}
GIB = 1 << 30
GRAIN = 512  # the unit of addresses and curves in a report's page

STYLE = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 150,
    "axes.titlesize": 10, "legend.frameon": False,
}  # fmt: skip


def measured() -> list[dict]:
    """The programs of all runs: waste in percent, and the step against native's of that run."""
    programs: dict[str, dict] = {}
    for run in json.loads((DOCS / "data" / "gpu.json").read_text()):
        for program in run["programs"]:
            native = program["native"][1]
            of = programs.setdefault(program["name"], {})
            for allocator in ALLOCATORS:
                if allocator in program and allocator not in of:
                    waste, step = program[allocator]
                    of[allocator] = (waste, step / native)
    return [{"name": name, **of} for name, of in programs.items()]


def bars(axes, rows: list[dict], value, text) -> None:
    """A group of bars a row; what was not measured leaves its place empty."""
    height = 0.8 / len(ALLOCATORS)
    for i, allocator in enumerate(ALLOCATORS):
        for j, row in enumerate(rows):
            if allocator not in row:
                continue
            y, x = j + (i - 1.5) * height, value(row[allocator])
            axes.barh(y, x, height * 0.9, color=COLOURS[allocator])
            axes.text(x, y, " " + text(x), va="center", fontsize=6.5, color="#333333")
    axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)


def readme(out: Path) -> None:
    rows = measured()
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.9), sharey=True)
    bars(left, rows, lambda pair: pair[0], lambda x: f"{x:.1f}")
    bars(right, rows, lambda pair: pair[1], lambda x: f"{x:.2f}")
    left.set_title("memory wasted, % of what is reserved")
    right.set_title("median step time, native = 1")
    right.axvline(1, color="#999999", linewidth=0.6, zorder=0)
    handles = [Rectangle((0, 0), 1, 1, color=COLOURS[a]) for a in ALLOCATORS]
    figure.legend(handles, [NAMES[a] for a in ALLOCATORS], loc="lower center", ncols=4)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(out / "measured.png")


def replayed() -> dict[str, dict[str, dict]]:
    """What each allocator came to on each recording."""
    of: dict[str, dict[str, dict]] = {}
    for line in (DOCS / "data" / "recordings.json").read_text().splitlines():
        result = json.loads(line)
        of.setdefault(result["trace"], {})[result["allocator"]] = result
    return of


def recordings(out: Path) -> None:
    """Waste on the bundled recordings."""
    rows = replayed()
    names = sorted(rows, key=lambda name: -rows[name]["native"]["fragmentation"])
    figure, axes = plt.subplots(figsize=(7.2, 4.4))
    for allocator in ALLOCATORS:
        waste = [max(100 * rows[name][allocator]["fragmentation"], 0.01) for name in names]
        marker = {"native": "s", "expandable": "^", "gmlake": "D", "stalloc": "o"}[allocator]
        axes.plot(
            waste,
            range(len(names)),
            marker,
            color=COLOURS[allocator],
            label=NAMES[allocator],
            markersize=5,
        )
    axes.set_xscale("log")
    axes.set_xticks([0.01, 0.1, 1, 10, 50], ["0.01", "0.1", "1", "10", "50"])
    axes.set_yticks(range(len(names)), names, fontsize=7.5)
    axes.invert_yaxis()
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_xlabel("waste, % of the peak reserved (logarithmic)")
    axes.legend(loc="lower center", ncols=4, bbox_to_anchor=(0.4, 1.0))
    figure.tight_layout()
    figure.savefig(out / "recordings.png")


def table() -> None:
    """Puts what was replayed into benchmarks.md."""
    rows = replayed()
    about = json.loads((DOCS / "data" / "recordings.about.json").read_text())
    lines = [
        f"{about['date']}, commit {about['commit']}, `{about['command']}`:",
        "",
        "| recording | native | expandable | GMLake | stalloc | hits | driver: GMLake | stalloc |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]

    def driver(result: dict) -> str:
        time = result["steady_time_us"]
        return f"{100 * result['steady_driver_time_us'] / time:.2f}" if time else "–"

    for name in sorted(rows):
        of = rows[name]
        waste = " | ".join(f"{100 * of[a]['fragmentation']:.2f}" for a in ALLOCATORS)
        hits = 100 * of["stalloc"]["hits"] / of["stalloc"]["requests"]
        shares = f"{driver(of['gmlake'])} | {driver(of['stalloc'])}"
        lines.append(f"| {name} | {waste} | {hits:.1f} | {shares} |")
    means = [
        100 * sum(of[a]["fragmentation"] for of in rows.values()) / len(rows) for a in ALLOCATORS
    ]
    lines.append("| **average** | " + " | ".join(f"**{mean:.2f}**" for mean in means) + " | | | |")
    replace("benchmarks.md", "recordings: written by make recordings", lines)


def replace(page: str, marker: str, lines: list[str]) -> None:
    """Puts lines into a page, between a marker and the next end."""
    path = DOCS / page
    marker = f"<!-- {marker} -->\n"
    before, rest = path.read_text().split(marker)
    after = rest[rest.index("<!-- end -->") :]
    path.write_text(before + marker + "\n".join(lines) + "\n" + after)


def example(command: str) -> None:
    """Puts what a command prints into the tutorial."""
    root = DOCS.parent
    words = [str(root / "bin" / "stalloc"), *command.split()[1:]]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True)
    lines = ["```text", *done.stdout.splitlines(), "```"]
    replace("tutorial.md", "what that prints: written by make plots", lines)


def steps(out: Path, name: str) -> None:
    """When the driver is at work: its time in each step."""
    figure, axes = plt.subplots(figsize=(7.2, 2.6))
    for allocator, result in replayed()[name].items():
        spent = [step["driver_time_us"] / 1e3 for step in result["steps"]]
        axes.plot(
            spent, "-o", color=COLOURS[allocator], label=NAMES[allocator], markersize=3, linewidth=1
        )
    axes.set_yscale("symlog", linthresh=1)
    axes.set_yticks([0, 1, 10, 100, 1000], ["0", "1", "10", "100", "1000"])
    axes.set_ylim(-0.1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(f"step of {name}")
    axes.set_ylabel("ms in the driver")
    axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    figure.tight_layout()
    figure.savefig(out / "steps.png")


class Page:
    """The columns of a page of `stalloc report`."""

    def __init__(self, path: Path) -> None:
        packed = re.search(r'<script id="packed" type="text/plain">([^<]*)<', path.read_text())
        assert packed, f"{path} is no page of `stalloc report`"
        data = gzip.decompress(base64.b64decode(packed.group(1)))
        length = struct.unpack_from("<I", data)[0]
        self.head = json.loads(data[4 : 4 + length])
        self.columns: dict[str, list[int]] = {}
        at = 4 + length
        for name in self.head["order"]:
            values, last = [], 0
            for _ in range(self.head["columns"][name]):
                number = shift = 0
                while True:
                    byte = data[at]
                    at += 1
                    number |= (byte & 0x7F) << shift
                    shift += 7
                    if byte < 0x80:
                        break
                last += (number >> 1) ^ -(number & 1)
                values.append(last)
            self.columns[name] = values


def places(out: Path, page: Page) -> None:
    """Where the blocks of a step lay, under native and under stalloc."""
    columns = page.columns
    begin, end = page.head["begin"], page.head["end"]
    figure, both = plt.subplots(1, 2, figsize=(8.2, 3.6), sharey=True)
    shades = plt.get_cmap("viridis")

    def rectangles(starts, lives, sizes, places, unit):
        for start, life, size, place in zip(starts, lives, sizes, places):
            left, right = max(start, begin), min(start + life if life else end, end)
            low = place * GRAIN / GIB
            yield Rectangle((left, low), right - left, size * unit / GIB)

    for axes, allocator in zip(both, ("native", "stalloc")):
        held = [columns[f"held.{what}.{allocator}"] for what in ("begin", "life", "size", "low")]
        back = PatchCollection(list(rectangles(*held, GRAIN)), color="#f4d3cb", linewidth=0)
        back.set_rasterized(True)
        axes.add_collection(back)
        sizes = columns["size"]
        blocks = rectangles(
            columns["from"], columns["life"], sizes, columns["place." + allocator], 1
        )
        colours = shades([(size * 7919 % 97) / 97 for size in sizes])
        # The line shows blocks that live for less than a pixel's events.
        drawn = PatchCollection(list(blocks), linewidth=0.3, rasterized=True)
        drawn.set_facecolor(colours)
        drawn.set_edgecolor(colours)
        axes.add_collection(drawn)
        axes.set_title(NAMES[allocator])
        axes.set_xlim(begin, end)
        axes.set_xlabel("requests and frees of the recording so far")
        axes.autoscale_view(scalex=False)
    both[0].set_ylim(0)
    both[0].set_ylabel("address, GiB")
    figure.tight_layout()
    figure.savefig(out / "places.png")


def curves(out: Path, page: Page) -> None:
    """The load of a run, and what each allocator holds for it."""
    columns = page.columns
    figure, axes = plt.subplots(figsize=(7.2, 2.9))
    micros = [t / 1e3 for t in columns["curve.micros"]]
    axes.fill_between(
        micros,
        [x * GRAIN / GIB for x in columns["curve.load"]],
        color="#cccccc",
        label="load",
        linewidth=0,
    )
    for allocator in ALLOCATORS:
        reserved = [x * GRAIN / GIB for x in columns["curve." + allocator]]
        axes.plot(micros, reserved, color=COLOURS[allocator], label=NAMES[allocator], linewidth=1.1)
    axes.set_xlabel("recorded time, ms")
    axes.set_ylabel("GiB")
    axes.set_ylim(0)
    axes.legend(ncols=5, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8)
    figure.tight_layout()
    figure.savefig(out / "curves.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", type=Path, required=True, help="a page of `stalloc report`")
    parser.add_argument("--out", type=Path, default=DOCS / "figures")
    options = parser.parse_args()
    options.out.mkdir(exist_ok=True)
    page = Page(options.report)
    with plt.rc_context(STYLE):
        readme(options.out)
        table()
        example("stalloc replay tests/traces/llama_varlen.csv.gz tests/traces/llama_naive.csv.gz")
        recordings(options.out)
        steps(options.out, "hf_trainer")
        places(options.out, page)
        curves(options.out, page)


if __name__ == "__main__":
    main()
