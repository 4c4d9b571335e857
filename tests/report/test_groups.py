"""What made the peak, in groups: each marks its blocks on the map; sorted and searched."""

import pytest
from browser import marked, picture


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
