"""stalloc.save_plan and load_plan: what of them reaches the library."""

import pytest


@pytest.mark.parametrize("name", ["save_plan", "load_plan"])
def test_nothing_while_not_enabled(process, tmp_path, name):
    import stalloc

    process()
    assert getattr(stalloc, name)(tmp_path / "x.plan") is False


def test_names_and_devices(process, stub, tmp_path, monkeypatch):
    import stalloc

    process()
    monkeypatch.setenv("RANK", "3")
    monkeypatch.chdir(tmp_path)
    stalloc.enable()
    assert stalloc.load_plan("x.%r.plan") and stalloc.save_plan(tmp_path / "y.plan", "cuda:1")
    file = str(tmp_path / "x.3.plan")
    assert stub.calls[-4:] == ["load", file, "save", str(tmp_path / "y.plan")]


def test_errors_are_the_librarys(process):
    import stalloc

    process()
    stalloc.enable()
    for call in (stalloc.save_plan, stalloc.load_plan):
        with pytest.raises(stalloc.StallocError, match="device out of range"):
            call("x.plan", 9)
