"""Prints what a report costs: the file's size, the time to make it, the time until it is seen."""

import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import browser

RUNS = ["megatron_moe.r0", "mixtral_moe", "llama_varlen"]
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def main():
    print("report of            blocks      MB  made in s  first paint ms  drawn ms")
    with tempfile.TemporaryDirectory() as folder, browser.chromium() as chromium:
        for name in RUNS:
            path = Path(folder) / f"{name}.html"
            begin = time.perf_counter()
            browser.make(path, browser.recording(name))
            took = time.perf_counter() - begin
            paints, draws, blocks = [], [], 0
            for _ in range(5):
                page = chromium.new_page(viewport={"width": 1400, "height": 1000})
                browser.drawn(page, path)
                paints.append(page.evaluate(PAINT))
                draws.append(float(page.evaluate("document.body.dataset.drawn")))
                blocks = page.evaluate("report.data.drawn")
                page.close()
            size = path.stat().st_size / 1e6
            paint, drew = statistics.median(paints), statistics.median(draws)
            print(f"{name:<18}{blocks:>9,}{size:>8.2f}{took:>11.2f}{paint:>16.0f}{drew:>10.0f}")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        raise SystemExit(error.stderr.decode()) from error
