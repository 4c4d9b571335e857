"""The map of addresses over time answers the pointer, the keys and every choice."""

import pytest
from browser import RUNS, over_a_block, picture, shown


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
