"""Draws the figures of README and docs from data: `make plots`.

    docs/data/limit.jsonl       what examples/limit.py measured on a GPU, if it has
    docs/data/recordings.json   what `stalloc replay --smallest --json` prints of the recordings,
                                written by `make recordings`
    --report                    a page of `stalloc report`, made by `make plots` in build/

A figure says nothing that is not in its data: measure again, change the data, draw again.
"""

import argparse
import base64
import gzip
import json
import re
import statistics
import struct
import subprocess
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import frontiers  # noqa: E402
import limits  # noqa: E402
import matplotlib.pyplot as plt  # noqa: E402
import offloads  # noqa: E402
import recordings  # noqa: E402
import tables  # noqa: E402
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
MARKERS = {"native": "s", "expandable": "^", "gmlake": "D", "stalloc": "o"}
SPEED = "full_speed_in_bytes"
MOST = 40  # percent, on the axis of sizes.png
# The runs kept apart, by names that people know.
APART = {
    "detection": "Faster R-CNN (torchvision)",
    "diffusion": "Stable Diffusion 1.5 (diffusers)",
    "embeddings": "sentence embeddings (sentence-transformers)",
    "grpo": "GRPO (transformers)",
    "images": "ConvNeXt, growing images (timm)",
    "packing": "packed sequences (HF Trainer)",
    "speech": "Wav2Vec2 (transformers)",
    "t5": "T5 (HF Seq2SeqTrainer)",
    "unet3d": "3-D U-Net (MONAI)",
}
GIB = 1 << 30
GRAIN = 512  # the unit of addresses and curves in a report's page

STYLE = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 150,
    "axes.titlesize": 10, "legend.frameon": False,
}  # fmt: skip


def replayed() -> dict[str, dict[str, dict]]:
    """What each allocator came to on each recording."""
    of: dict[str, dict[str, dict]] = {}
    for line in (DOCS / "data" / "recordings.json").read_text().splitlines():
        result = json.loads(line)
        if result["group"] == "tuned":
            of.setdefault(result["trace"], {})[result["allocator"]] = result
    return of


def sizes(out: Path) -> None:
    """How much more than its tensors each run that was kept apart needs at full speed; then what
    the others need on average.
    """
    found = recordings.kept()
    rows = [
        (APART[name], {a: tables.excess(of, a, SPEED) for a in ALLOCATORS})
        for name, of in tables.rows_of(found, "apart").items()
    ]
    rows.sort(key=lambda row: -(row[1]["native"] or 0))
    others = tables.steady(of for (group, _), of in found.items() if group != "apart")
    means: dict[str, float | None] = {}
    for a in ALLOCATORS:
        told = [x for of in others if (x := tables.excess(of, a, SPEED)) is not None]
        means[a] = statistics.mean(told) if len(told) == len(others) else None
    rows.append((f"{len(others)} runs it was made with or tried on, average", means))
    figure, axes = plt.subplots(figsize=(7.6, 3.9))
    for y, (_, needs) in enumerate(rows):
        axes.axhline(y, color="#eeeeee", linewidth=0.8, zorder=0)
        beyond = 0
        for allocator, x in needs.items():
            at = x
            if x is None or x > MOST:
                at = MOST + 2 + 4 * beyond
                beyond += 1
                never = "some never" if y == len(rows) - 1 else "never"
                said = never if x is None else f"{x:.0f} %"
                axes.annotate(
                    said, (at, y), xytext=(0, 5), textcoords="offset points", fontsize=6,
                    ha="center", color=COLOURS[allocator],
                )  # fmt: skip
            axes.plot(
                [at], [y], MARKERS[allocator], color=COLOURS[allocator], markersize=6,
                label=NAMES[allocator] if y == 0 else None, clip_on=False,
            )  # fmt: skip
    axes.axhline(len(rows) - 1.5, color="#999999", linewidth=0.8)
    axes.set_xlim(0, MOST + 8)
    axes.set_xticks(range(0, MOST + 1, 10), [f"{x} %" for x in range(0, MOST + 1, 10)])
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows], fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set_xlabel("memory above the peak load that a run needs at full speed")
    axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.35, 1.0))
    figure.tight_layout()
    figure.savefig(out / "sizes.png", metadata={"Source": recordings.digest()})


def example(command: str) -> None:
    """Puts what a command prints into the tutorial."""
    root = DOCS.parent
    words = [str(root / "bin" / "stalloc"), *command.split()[1:]]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True)
    lines = ["```text", *done.stdout.splitlines(), "```"]
    recordings.put(DOCS / "tutorial.md", "what that prints: written by make plots", lines)


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
    figure.savefig(out / "steps.png", metadata={"Source": recordings.digest()})


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


def measured_pictures(out: Path) -> None:
    """The figures of what was measured and replayed, without a report's page."""
    with plt.rc_context(STYLE):
        sizes(out)
        steps(out, "hf_trainer")
        if not limits.draw(out, plt, COLOURS, NAMES):
            print("limit.png: not drawn: nothing is measured in docs/data/limit.jsonl")
        if not frontiers.draw(out, plt, COLOURS):
            print("frontier.png: not drawn: nothing is measured in docs/data/frontier.jsonl")
        if not offloads.draw(out, plt):
            print("offload.png: not drawn: there is no docs/data/offload-step.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", type=Path, required=True, help="a page of `stalloc report`")
    parser.add_argument("--out", type=Path, default=DOCS / "figures")
    options = parser.parse_args()
    options.out.mkdir(exist_ok=True)
    page = Page(options.report)
    measured_pictures(options.out)
    with plt.rc_context(STYLE):
        example("stalloc replay tests/traces/llama_varlen.csv.gz tests/traces/llama_naive.csv.gz")
        places(options.out, page)
        curves(options.out, page)


if __name__ == "__main__":
    main()
