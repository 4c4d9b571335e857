"""Reports, made by bin/stalloc and opened in a headless Chromium."""

import contextlib
import shutil
import subprocess
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
STALLOC = ROOT / "bin" / "stalloc"


def recording(name):
    return ROOT / "tests" / "traces" / f"{name}.csv.gz"


RUNS = {
    "varlen": recording("llama_varlen"),
    "streams": recording("vit_streams"),
    "snapshot": ROOT / "report" / "testdata" / "snapshot.pickle",
}


def make(page, *runs):
    subprocess.run([STALLOC, "report", "-o", page, *runs], check=True, capture_output=True)
    return page


def executable():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise FileNotFoundError("no Chromium here: install one (Debian: apt-get install chromium)")


@contextlib.contextmanager
def chromium():
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        yield browser
        browser.close()


def drawn(page, path):
    """Opens a report and waits until it is drawn."""
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-drawn]", state="attached", timeout=120_000)
    return page


COLOURS = """() => {
  const map = document.getElementById('map');
  const image = map.getContext('2d').getImageData(0, 0, map.width, map.height);
  return new Set(new Uint32Array(image.data.buffer)).size;
}"""


def over_a_block(page):
    """Moves the pointer onto the largest block in sight, and returns its number."""
    spot = page.evaluate("""() => {
      const { map } = window.report, count = new Map();
      map.owner.forEach((b) => b >= 0 && count.set(b, (count.get(b) ?? 0) + 1));
      const [block] = [...count].reduce((a, b) => (b[1] > a[1] ? b : a));
      const at = map.owner.indexOf(block), box = map.over.getBoundingClientRect();
      const x = map.area.left + at % map.area.width + 1;
      const y = map.area.top + Math.floor(at / map.area.width);
      return { block, x: box.left + x / map.dpr, y: box.top + y / map.dpr };
    }""")
    page.mouse.move(spot["x"], spot["y"])
    return spot


def shown(page):
    return page.evaluate("[report.view.from, report.view.to, report.map.y0, report.map.y1]")


def picture(page):
    page.wait_for_timeout(100)
    return page.evaluate("document.getElementById('map').toDataURL()")


def marked(page):
    return page.evaluate("report.map.marked.reduce((a, b) => a + b)")
