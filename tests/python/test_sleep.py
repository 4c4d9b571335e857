"""Memory that sleeps, as Python asks the library for it."""

import pytest
from stalloc import StallocError


def test_nothing_sleeps_where_stalloc_is_not_enabled(stub):
    import stalloc

    assert stalloc.pause() == 0 and stalloc.resume() is None
    with stalloc.region("weights"):
        pass
    assert stub.calls == []


def test_all_and_some(torch, stub):
    import stalloc

    before = len(stub.calls)
    assert stalloc.pause() == 1000
    stalloc.pause("weights", "discard")
    stalloc.pause(["weights", "optimizer"])
    stalloc.resume(("optimizer",))
    stalloc.resume()
    assert stub.calls[before:] == [
        "pause", "discard", "weights", "pause", "weights", "optimizer", "resume", "optimizer",
        "resume",
    ]  # fmt: skip
    assert stalloc.stats().asleep == 0


def test_region_ends_whatever_happens(torch, stub):
    import stalloc

    before = len(stub.calls)
    with pytest.raises(ZeroDivisionError), stalloc.region("weights"):
        1 / 0  # noqa: B018
    assert stub.calls[before:] == ["region", "weights", "outside"]
    with pytest.raises(StallocError, match="has no name"), stalloc.region(""):
        raise AssertionError
    assert stub.calls[before + 3 :] == ["region", ""][:1]


def test_bad_input(torch, stub):
    import stalloc

    with pytest.raises(ValueError, match="'disk': expected"):
        stalloc.pause(backup="disk")
    with pytest.raises(StallocError, match="no region is named"):
        stalloc.pause([])
    with pytest.raises(StallocError, match="too little memory"):
        stalloc.pause("full")
    with pytest.raises(StallocError, match="there is no device 9"):
        stalloc.pause(device=9)
    with pytest.raises(StallocError, match="there is no device 9"):
        stalloc.resume(device=9)
    for name in None, 7, b"weights", "a\0b":
        with pytest.raises(StallocError, match="a region's name is text"), stalloc.region(name):
            raise AssertionError
    with pytest.raises(StallocError, match="a region's name is text"):
        stalloc.pause(["weights", None])


@pytest.mark.parametrize("device", [-1, 1, "cuda:1"])
def test_no_such_device(torch, stub, device):
    """To the library -1 is all of them, and those that it has not seen are empty."""
    import stalloc

    before = stub.calls
    for call in (stalloc.stats, stalloc.explain):
        with pytest.raises(StallocError, match="there is no device"):
            call(device)
    for call in (stalloc.pause, stalloc.resume):
        with pytest.raises(StallocError, match="there is no device"):
            call(device=device)
    assert stub.calls == before


def test_capture_is_not_waited_for(torch, stub):
    import stalloc

    torch.capturing = True
    with pytest.raises(StallocError, match="captured"):
        stalloc.pause()
    assert "pause" not in stub.calls


def test_graphs_are_refused_while_something_sleeps(torch):
    import stalloc

    graph = torch.cuda.CUDAGraph()
    assert graph.replay() == "replayed"
    stalloc.pause()
    with pytest.raises(StallocError, match="graphs=True"):
        graph.replay()
    stalloc.resume("weights")  # something sleeps on
    with pytest.raises(StallocError):
        graph.replay()
    stalloc.resume()
    assert graph.replay() == "replayed"
    stalloc.pause(graphs=True)
    assert graph.replay() == "replayed"
    stalloc.pause("more")  # which does not say that graphs do without
    with pytest.raises(StallocError):
        graph.replay()
    stalloc.resume()
    stalloc.pause(graphs=True)
    assert graph.replay() == "replayed"
    stalloc.resume()


def test_graphs_are_replayed_while_regions_lend(torch, stub):
    """What is lent was not paused, and is away before a pause and behind a resume."""
    import stalloc

    graph = torch.cuda.CUDAGraph()
    stub.set(lent=400)
    assert stalloc.pause() == 600
    with pytest.raises(StallocError, match="graphs=True"):
        graph.replay()
    stalloc.resume("weights")
    stub.set(asleep=400)
    stalloc.resume("more")
    assert graph.replay() == "replayed"


def test_graphs_are_refused_where_a_pause_fails_late(torch, stub):
    import stalloc

    stub.set(asleep=5)  # the driver would not take all of it back
    with pytest.raises(StallocError):
        stalloc.pause("full")
    with pytest.raises(StallocError, match="graph"):
        torch.cuda.CUDAGraph().replay()
    stalloc.resume()
    torch.cuda.CUDAGraph().replay()


def test_what_sleeps_wakes_behind_close(torch, stub):
    import stalloc

    stalloc.pause()
    stalloc.close()
    assert stalloc.pause() == 0  # nothing is stalloc's any more
    stalloc.resume()
    assert stub.calls[-2:] == ["close", "resume"]


@pytest.fixture
def saver(torch, monkeypatch):
    from stalloc.integrations import torch_memory_saver

    monkeypatch.setattr(torch_memory_saver, "_keeps", {})
    return torch_memory_saver


def test_shape_of_torch_memory_saver(saver, stub):
    before = len(stub.calls)
    saver.pause()  # no region has begun
    saver.resume()
    with saver.region():
        pass
    with saver.region(tag="weights", enable_cpu_backup=True):
        pass
    with saver.region("weights"):
        pass
    saver.pause("default")
    saver.resume("default")
    saver.pause()
    saver.resume()
    assert stub.calls[before:] == [
        "region", "default", "outside", "region", "weights", "outside", "region", "weights",
        "outside", "discard", "default", "resume", "default", "pause", "weights", "discard",
        "default", "resume", "default", "weights",
    ]  # fmt: skip


def test_saver_pauses_all_or_none(saver, stub):
    with saver.region("kept", enable_cpu_backup=True), saver.region("full"):
        pass
    with pytest.raises(StallocError, match="too little"):
        saver.pause()
    assert stub.calls[-4:] == ["discard", "full", "resume", "kept"]
    with pytest.raises(StallocError):  # nothing of it is known: it is kept, or refused
        saver.pause("full")


def test_awake_and_prefetch(torch, stub):
    import stalloc

    before = len(stub.calls)
    with stalloc.awake("reference", changed=False):
        pass
    with pytest.raises(ZeroDivisionError), stalloc.awake("reference"):
        1 / 0  # noqa: B018
    stalloc.prefetch("reference", device=0)
    assert stub.calls[before:] == [
        "begin_awake", "reference", "end_read", "reference",
        "begin_awake", "reference", "end_changed", "reference", "prefetch", "reference",
    ]  # fmt: skip
    with pytest.raises(StallocError, match="no such region"):
        stalloc.prefetch("unknown")
    with pytest.raises(StallocError, match="there is no device 9"):
        stalloc.prefetch("reference", device=9)


def test_nothing_is_lent_where_stalloc_is_not_enabled(stub):
    import stalloc

    with stalloc.awake("reference"):
        stalloc.prefetch("reference")
    optimizer = object()
    assert stalloc.offload(optimizer) is optimizer
    assert stub.calls == []
