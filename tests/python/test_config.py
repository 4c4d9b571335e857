"""Settings: the form of STALLOC_CONF, and who wins."""

from pathlib import Path

import pytest
from stalloc import _config


def test_environment_alone():
    assert _config.merge("a:1, b : /tmp/x:y ,", {}) == "a:1,b:/tmp/x:y"


def test_arguments_override_the_environment():
    arguments = {"b": 3, "c": True, "d": Path("/p"), "e": 0.5, "f": False}
    assert _config.merge("a:1,b:2,z:9", arguments) == "a:1,b:3,z:9,c:on,d:/p,e:0.5,f:off"


def test_none_is_what_nobody_asked_for():
    assert _config.merge("a:1", {"a": None, "b": None}) == "a:1"


def test_whole_numbers_of_bytes():
    assert _config.merge("", {"limit": 70e9}) == "limit:70000000000"
    assert _config.merge("", {"limit": 70 * 2**30}) == "limit:75161927680"


def test_mistakes_stay_for_the_library_to_tell():
    assert _config.override("a,b:1,b:2,:x", "c:,c:3,a=1") == "a,b:1,b:2,:x,c:,c:3,a=1"
    assert _config.override("b:1,a:1,b:2", "b:3,b:4") == "b:3,b:4,a:1"  # not what is overridden


def test_value():
    assert _config.value_of("b", "a:1, b : x:y") == "x:y" and _config.value_of("c", "a:1") is None


@pytest.mark.parametrize("value", ["", "  ", "x,y"])
def test_value_that_does_not_fit_the_form(value):
    with pytest.raises(ValueError, match=r"enable\(key=.*empty or contain a comma"):
        _config.merge("", {"key": value})


def test_value_of_a_foreign_type():
    with pytest.raises(TypeError, match=r"enable\(key=...\): got list, expected str"):
        _config.merge("", {"key": ["x"]})
