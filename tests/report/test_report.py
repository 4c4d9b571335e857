"""A report as a person meets it: it renders, and the console stays empty."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import COLOURS, RUNS, shown


@pytest.mark.parametrize("name", [*RUNS, "plan"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_renders(opened, name, scheme):
    page = opened(name, color_scheme=scheme)
    assert page.evaluate(COLOURS) > 5
    assert page.locator("#curve canvas").bounding_box()["height"] > 100
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(247, 247, 245)", "dark": "rgb(18, 20, 24)"}[scheme]
    assert page.locator("#trouble").is_hidden()


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


@pytest.mark.parametrize("name", RUNS)
def test_the_first_screen(opened, name):
    """What is wasted, why, and what to do, each in a sentence, without scrolling."""
    page = opened(name, viewport={"width": 1280, "height": 900})
    verdict, finding = page.locator(".verdict"), page.locator(".findings li").first
    said = verdict.inner_text()
    assert "native allocator reserves" in said or "wastes next to nothing" in said, said
    assert "The run fits in" in said and "stalloc" in verdict.locator("b").inner_text(), said
    for box in (verdict, finding):
        assert box.bounding_box()["y"] + box.bounding_box()["height"] < 900


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
