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
