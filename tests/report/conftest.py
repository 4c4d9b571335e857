"""Reports of every kind, made once, and pages that they are opened in."""

import json
import subprocess

import browser
import pytest
from browser import RUNS


def event(**fields):
    return json.dumps(fields) + ",\n"


def memory(at):
    args = {"allocated": at << 20, "idle": (90 - at) << 20}
    return event(name="device 0 memory", ph="C", ts=at * 1000, tid=0, args=args)


# What a run writes of itself; the process was killed.
LOG = (
    "[\n"
    + "".join(memory(at) for at in range(1, 80))
    + event(name="step 0", ph="X", ts=20000, dur=30000, tid=0, args={"requests": 5, "hits": 4})
    + event(name="a <b>plan</b> serves", ph="i", ts=40000, tid=0)
    + '{"name":"st'
)


@pytest.fixture(scope="session")
def chromium():
    with browser.chromium() as running:
        yield running


@pytest.fixture(scope="session")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    plan = folder / "llama.plan"
    planned = [browser.STALLOC, "plan", "-o", plan, RUNS["streams"]]
    subprocess.run(planned, check=True, capture_output=True)
    live = folder / "live.json"
    live.write_text(LOG)
    runs = {**RUNS, "plan": plan, "live": live}
    made = {name: browser.make(folder / f"{name}.html", run) for name, run in runs.items()}
    snapshots = browser.ROOT / "report" / "testdata"
    changed = [snapshots / f"{name}.pickle" for name in ("snapshot", "changed")]
    return made | {"change": browser.make(folder / "change.html", *changed)}


@pytest.fixture
def opened(chromium, reports):
    """opened(name, ...): a drawn report. At the end: no console line, no error, no request."""
    pages, noise = [], []

    def go(name, **how):
        page = chromium.new_page(**{"viewport": {"width": 1400, "height": 1000}, **how})
        pages.append(page)
        page.on("console", lambda line: noise.append(f"console: {line.text}"))
        page.on("pageerror", lambda error: noise.append(f"error: {error}"))
        page.on("request", lambda r: r.url.startswith(("file:", "data:")) or noise.append(r.url))
        return browser.drawn(page, reports[name])

    yield go
    for page in pages:
        page.close()
    assert noise == []
