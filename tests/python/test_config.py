"""Settings: the form of STALLOC_CONF, and who wins."""

from pathlib import Path

import pytest
from stalloc import _config


def test_environment_alone():
    assert _config.merge("a:1, b:/tmp/x:y ,", {}) == {"a": "1", "b": "/tmp/x:y"}


def test_arguments_override_the_environment():
    merged = _config.merge("a:1,b:2", {"b": 3, "c": True, "d": Path("/p"), "e": 0.5, "f": False})
    assert merged == {"a": "1", "b": "3", "c": "on", "d": "/p", "e": "0.5", "f": "off"}


def test_none_is_what_nobody_asked_for():
    assert _config.merge("a:1", {"a": None, "b": None}) == {"a": "1"}


def test_whole_numbers_of_bytes():
    assert _config.merge("", {"limit": 70e9}) == {"limit": "70000000000"}
    assert _config.merge("", {"limit": 70 * 2**30}) == {"limit": "75161927680"}


def test_render_is_the_opposite_of_parse():
    for text in ("", "a:1", "a:1,b:x:y"):
        assert _config.render(_config.parse(text)) == text


@pytest.mark.parametrize("text", ["a", "a:1,b", ":1", "a:", "a:1,:", "a=1"])
def test_malformed_environment(text):
    with pytest.raises(ValueError, match=r"STALLOC_CONF: item \d is .*expected key:value"):
        _config.merge(text, {})


@pytest.mark.parametrize("value", ["", "  ", "x,y"])
def test_value_that_does_not_fit_the_form(value):
    with pytest.raises(ValueError, match=r"enable\(key=.*empty or contain a comma"):
        _config.merge("", {"key": value})


def test_value_of_a_foreign_type():
    with pytest.raises(TypeError, match=r"enable\(key=...\): got list, expected str"):
        _config.merge("", {"key": ["x"]})
