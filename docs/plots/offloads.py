"""Draws docs/figures/offload.png: a step with offloaded optimizer states, from
docs/data/offload-step.json, which examples/offload_picture.py has written on a GPU."""

from __future__ import annotations

import json
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "data" / "offload-step.json"
LIVE, AWAY, DEVICE = "#56b4e9", "#e69f00", "#009e73"


def link(times: list[float], away: list[float]) -> list[float]:
    """GiB a second that came back (above zero) or left (below), over windows of some samples."""
    width = 8
    rates = [0.0] * len(times)
    for i in range(len(times)):
        low, high = max(i - width, 0), min(i + width, len(times) - 1)
        if times[high] > times[low]:
            rates[i] = (away[low] - away[high]) / (times[high] - times[low]) * 1e3
    return rates


def draw(out: Path, plt) -> bool:
    """Whether there was anything to draw."""
    if not DATA.exists():
        return False
    of = json.loads(DATA.read_text())
    times, live, away, _ = zip(*of["samples"])
    there = [all_ - gone for all_, gone in zip(live, away)]
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(7.2, 4.2), sharex=True, height_ratios=(3, 1)
    )
    top.fill_between(times, there, live, color=AWAY, alpha=0.45, linewidth=0, label="on the host")
    top.fill_between(times, 0, there, color=LIVE, alpha=0.45, linewidth=0, label="on the device")
    top.plot(times, live, color="#4d4d4d", linewidth=0.9, label="live tensors")
    top.axhline(of["limit"], color="#d55e00", linewidth=1, linestyle="--", label="limit")
    top.set_ylim(bottom=max(0, min(there) - 2))
    top.set_ylabel("GiB")
    top.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8)
    rates = link(list(times), list(away))
    bottom.fill_between(times, 0, rates, color=DEVICE, linewidth=0, step="mid")
    bottom.axhline(0, color="#999999", linewidth=0.6)
    bottom.set_ylabel("link, GiB/s\nout | back", fontsize=8)
    bottom.set_xlabel("ms since the optimizer's step began")
    for panel in (top, bottom):
        for begin, end in zip(of["optimizer"][::2], of["optimizer"][1::2]):
            panel.axvspan(begin, end, color="#999999", alpha=0.35, linewidth=0)
    figure.tight_layout()
    figure.savefig(out / "offload.png")
    plt.close(figure)
    return True
