"""A report as a person meets it: it renders, it answers the pointer, the console stays empty."""

import json
import subprocess

import browser
import pytest
from axe_playwright_python.sync_playwright import Axe

RUNS = {
    "varlen": browser.recording("llama_varlen"),
    "streams": browser.recording("vit_streams"),
    "snapshot": browser.ROOT / "report" / "testdata" / "snapshot.pickle",
}


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


@pytest.mark.parametrize("name", [*RUNS, "plan"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_renders(opened, name, scheme):
    page = opened(name, color_scheme=scheme)
    assert page.evaluate(COLOURS) > 5
    assert page.locator("#curve canvas").bounding_box()["height"] > 100
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(247, 247, 245)", "dark": "rgb(18, 20, 24)"}[scheme]
    assert page.locator("#trouble").is_hidden()


@pytest.mark.parametrize("name", [*RUNS, "plan"])
def test_hover_and_click(opened, name):
    page = opened(name)
    page.locator("#mapbox").scroll_into_view_if_needed()
    spot = over_a_block(page)
    size = page.evaluate(f"bytesText(report.data.columns.size[{spot['block']}])")
    tip = page.locator("#tip")
    tip.wait_for()
    assert tip.locator("b").inner_text() == size and "address" in tip.inner_text()
    page.mouse.click(spot["x"], spot["y"])
    assert size in page.locator("#details").inner_text()
    page.mouse.move(2, 2)
    assert tip.is_hidden() and page.locator("#details").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_live_run(opened, scheme):
    page = opened("live", color_scheme=scheme)
    assert page.locator("#curve canvas").bounding_box()["height"] > 100
    assert "80.00 %" in page.locator("main").inner_text()
    assert "a <b>plan</b> serves" in page.locator(".notes").inner_text()
    over = page.locator("#curve .u-over").bounding_box()
    page.mouse.move(over["x"] + over["width"] / 2, over["y"] + 60)
    assert "40" in page.locator(".u-legend").inner_text()
    before = shown(page)
    page.locator("#steps").select_option(label="step 0 (the peak)")
    assert shown(page) != before


def shown(page):
    return page.evaluate("[report.view.from, report.view.to, report.map.y0, report.map.y1]")


def test_zoom_drag_and_back(opened):
    page = opened("varlen")
    page.locator("#mapbox").scroll_into_view_if_needed()
    box = page.locator("#mapbox").bounding_box()
    x, y = box["x"] + 600, box["y"] + 200
    first = shown(page)
    page.mouse.move(x, y)
    page.mouse.wheel(0, -300)
    closer = shown(page)
    assert closer[0] > first[0] and closer[1] < first[1] and closer[2:] == first[2:]
    page.mouse.down()
    page.mouse.move(x - 150, y, steps=3)
    page.mouse.up()
    assert shown(page)[0] > closer[0]
    page.mouse.dblclick(x, y)
    assert shown(page) == first
    page.keyboard.down("Shift")
    page.mouse.wheel(0, -300)
    assert shown(page)[:2] == first[:2] and shown(page)[3] < first[3]
    page.mouse.down()
    page.mouse.move(x + 100, y + 100, steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    box_zoomed = shown(page)
    assert box_zoomed[1] - box_zoomed[0] < (first[1] - first[0]) / 5
    page.locator("#steps").select_option(label="whole recording")
    whole = shown(page)
    assert whole[0] < first[0] and whole[1] > first[1]
    # A stretch of the curve chosen by hand.
    over = page.locator("#curve .u-over").bounding_box()
    page.mouse.move(over["x"] + 300, over["y"] + 60)
    page.mouse.down()
    page.mouse.move(over["x"] + 500, over["y"] + 60, steps=3)
    page.mouse.up()
    assert shown(page)[1] - shown(page)[0] < (whole[1] - whole[0]) / 3


def test_keys(opened):
    page = opened("varlen")
    first = shown(page)
    page.locator("#over").focus()
    page.keyboard.press("+")
    closer = shown(page)
    assert closer[0] > first[0] and closer[1] < first[1]
    page.keyboard.press("ArrowRight")
    assert shown(page)[0] > closer[0]
    page.keyboard.press("0")
    assert shown(page) == first


def picture(page):
    page.wait_for_timeout(100)
    return page.evaluate("document.getElementById('map').toDataURL()")


def test_every_choice_changes_the_picture(opened):
    page = opened("streams")
    for box in ("#maps", "#colours", "#axis"):
        seen = []
        for button in page.locator(f"{box} button").all():
            button.click()
            assert button.get_attribute("aria-pressed") == "true"
            seen.append(picture(page))
        assert len(seen) > 1 and len(set(seen)) == len(seen), box
    dark = picture(page)
    page.locator("#theme").click()
    assert picture(page) != dark


def test_a_row_shows_its_blocks(opened):
    page = opened("snapshot")
    row = page.locator("[data-by=frame] tr[data-group='0']")
    assert "model.py:42 forward" in row.inner_text()
    before = picture(page)
    row.hover()
    assert picture(page) != before
    # Twelve activations of the one step that the peak is in.
    assert marked(page) == 12
    # A click keeps them, Escape on the map lets go.
    row.click()
    page.mouse.move(2, 2)
    assert marked(page) == 12 and row.get_attribute("data-kept") is not None
    page.locator("#over").focus()
    page.keyboard.press("Escape")
    assert page.evaluate("report.map.marked") is None


def marked(page):
    return page.evaluate("report.map.marked.reduce((a, b) => a + b)")


def rows(page, way):
    return page.locator(f"[data-by={way}] tr[data-group]:visible")


def test_groups_are_sorted_and_searched(opened):
    page = opened("snapshot")
    assert rows(page, "frame").count() == 3 and rows(page, "shape").count() == 0
    ways = page.locator("#by")
    ways.get_by_role("button", name="module").click()
    assert "torch.nn linear" in rows(page, "module").first.inner_text()
    ways.get_by_role("button", name="frame").click()
    page.locator("[data-by=frame] th button", has_text="blocks").click()
    page.locator("[data-by=frame] th button", has_text="blocks").click()
    assert page.locator("[data-by=frame] th[aria-sort=ascending]").inner_text() == "blocks"
    counts = [
        int(cell) for cell in page.locator("[data-by=frame] td:nth-child(3)").all_inner_texts()
    ]
    assert counts == [1, 4, 12]
    page.locator("#search").fill("model.py:10")
    assert rows(page, "frame").count() == 1
    assert "__init__" in rows(page, "frame").first.inner_text()


def test_many_groups_are_shown_when_asked_for(opened):
    page = opened("varlen")
    few = rows(page, "shape").count()
    page.locator("#more").click()
    assert few == 16 and rows(page, "shape").count() > few and page.locator("#more").is_hidden()


def test_every_way_to_group_marks_its_blocks(opened):
    page = opened("snapshot")
    blocks = page.evaluate("report.data.peak.blocks")
    for way in ("frame", "module", "shape", "phase"):
        page.locator("#by").get_by_role("button", name=way, exact=True).click()
        total = 0
        for row in rows(page, way).all():
            row.hover()
            total += marked(page)
        assert total == blocks, way


def test_the_flame_graph(opened):
    page = opened("snapshot")
    bars = page.locator("#flame button")
    wide = {bar.inner_text(): bar.bounding_box()["width"] for bar in bars.all()}
    assert wide["train.py:9 step"] / wide["live at the peak"] == pytest.approx(60 / 122, abs=0.01)
    forward = bars.get_by_text("model.py:42 forward")
    forward.hover()
    assert marked(page) == 12
    forward.click()
    assert bars.get_by_text("model.py:10").count() == 0
    bars.first.click()
    assert bars.get_by_text("model.py:10").count() == 1


def test_two_maps(opened):
    page = opened("streams")
    assert page.locator("#mapbox2").is_hidden()
    assert page.locator("#maps button[aria-pressed=true]").inner_text() == "native"
    page.locator("#maps2 button", has_text="stalloc").click()
    page.wait_for_function("report.maps.length === 2 && report.maps[1].owner")
    page.locator("#over").focus()
    page.keyboard.press("ArrowUp")
    same = "['y0', 'y1', 'top'].every((k) => report.maps[0][k] === report.maps[1][k])"
    assert page.evaluate(same)
    differ = "report.maps[0].low.some((at, i) => at !== report.maps[1].low[i])"
    assert page.evaluate(differ)
    page.locator("#mapbox").scroll_into_view_if_needed()
    spot = over_a_block(page)
    assert page.evaluate("report.maps[1].hovered") == spot["block"]


def test_texts_of_a_recording_stay_texts(opened):
    page = opened("snapshot")
    assert page.title() == "snapshot – stalloc report"
    block = page.evaluate("report.data.stacks.findIndex((s) => s.includes('<img'))")
    page.evaluate(f"""() => {{
      const {{ data, map }} = report;
      map.onpin(data.columns.stack.indexOf({block} + 1));
    }}""")
    assert "</script><img src=x" in page.locator("#details pre").inner_text()
    assert page.locator("#details img").count() == 0 and page.title() == "snapshot – stalloc report"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", [*RUNS, "plan", "live", "change"])
def test_accessible(opened, name, width, scheme):
    page = opened(name, viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if name not in ("live", "change"):
        assert page.evaluate(COLOURS) > 5
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    rows = [
        row.bounding_box()["height"] for row in page.locator(".peak tr[data-group]:visible").all()
    ]
    assert all(height < 90 for height in rows), rows


def test_two_runs(opened):
    page = opened("change")
    assert "The peak rose by 5.00 MiB" in page.locator(".verdict").inner_text()
    assert page.locator("[data-by=stack]").is_visible()
    page.locator("#by").get_by_role("button", name="shape").click()
    first = page.locator("[data-by=shape] tr[data-group]:visible")
    assert first.count() > 0 and page.locator("[data-by=stack]").is_hidden()
    page.locator("#search").fill("no such row")
    assert first.count() == 0


def test_without_scripts_the_tables_are_there(chromium, reports):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(reports["varlen"].as_uri())
    text = page.locator("main").inner_text()
    assert "20.41 GiB" in text and "What made the peak" in text and "needs JavaScript" in text
    context.close()
