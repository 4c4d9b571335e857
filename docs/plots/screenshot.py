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
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        drawn(page, Path(report).resolve())
        page.screenshot(path=picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
