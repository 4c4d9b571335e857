"""Takes the picture of a report for README: `make plots`.

Needs Chromium on the path, and what tests/report needs.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "report"))

from browser import chromium, drawn  # noqa: E402


def main(report: str, picture: str) -> None:
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 2300}, color_scheme="light")
        drawn(page, Path(report).resolve())
        map_ = page.locator("#mapbox").bounding_box()
        page.mouse.move(map_["x"] + map_["width"] * 0.45, map_["y"] + map_["height"] * 0.62)
        page.locator("#tip").wait_for()
        clip = {"x": 0, "y": 0, "width": 1280, "height": map_["y"] + map_["height"] + 6}
        page.screenshot(path=picture, clip=clip)


if __name__ == "__main__":
    main(*sys.argv[1:])
