"""Takes the picture that the README shows: python tests/report/picture.py docs/report.png"""

import sys
import tempfile
from pathlib import Path

import browser


def main(target):
    with tempfile.TemporaryDirectory() as folder, browser.chromium() as chromium:
        path = browser.make(browser.recording("mixtral_moe"), Path(folder) / "report.html")
        page = chromium.new_page(viewport={"width": 1280, "height": 1480}, color_scheme="light")
        browser.drawn(page, path)
        box = page.locator("#mapbox").bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.36, box["y"] + box["height"] * 0.6)
        page.locator("#tip").wait_for()
        page.wait_for_timeout(1000)
        end = page.locator("#drawn").bounding_box()
        height = end["y"] + end["height"] + 14
        clip = {"x": 0, "y": 0, "width": 1280, "height": height}
        page.screenshot(path=target, clip=clip)


if __name__ == "__main__":
    main(sys.argv[1])
