"""close(): what stops, what is told afterwards, and that there is no way back."""

import threading

import pytest
import stalloc
from stalloc import StallocError, StallocWarning


class Optimizer:
    pass


def test_closed_is_as_disabled(process, stub):
    torch = process()
    stalloc.enable()
    stub.set(requests=3)
    stalloc.close()
    assert stub.calls == ["close"]
    assert not stalloc.is_enabled() and stalloc.route() == ""
    assert stalloc.stats() == stalloc.Stats()
    assert stalloc.explain() == "stalloc is not enabled: it was closed."
    stalloc.step()
    torch.step(Optimizer())
    torch.step(Optimizer())
    assert stalloc.save_plan("a.plan") is False and stalloc.load_plan("a.plan") is False
    stalloc.close()
    assert stub.calls == ["close"]


def test_there_is_no_way_back(process):
    process()
    stalloc.enable()
    stalloc.close()
    with pytest.warns(StallocWarning, match="stays off: it was closed.*start a new process"):
        assert stalloc.enable() is False
    with pytest.raises(StallocError, match="it was closed"):
        stalloc.enable(strict=True)


def test_before_enable_it_does_nothing(process, stub):
    process()
    stalloc.close()
    assert stub.calls == [] and "nothing has called" in stalloc.explain()
    assert stalloc.enable() is True


def test_while_other_threads_ask(process):
    process()
    stalloc.enable()
    failed, over = [], threading.Event()

    def ask():
        try:
            while not over.is_set():
                stalloc.step()
                stalloc.stats(0)
                stalloc.explain(0)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    stalloc.close()
    over.set()
    for thread in threads:
        thread.join()
    assert failed == []
