"""A double of the link to the host, over CPU tensors: each copy is made as late as it can be.

Memory that comes back holds NaN until it is awaited. So what is given up, handed out or read too
early makes a loss NaN, or another one.
"""

import torch
from stalloc import _host_memory
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode


class Meter(TorchDispatchMode):
    """The bytes of live tensors, now and at most."""

    def __init__(self):
        super().__init__()
        self._live, self.peak, self.highest = {}, 0, 0
        self.host = set()  # storages that are no device's

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, torch.Tensor):
                self.add(tensor)
        self.look()
        return result

    def add(self, tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in self._live and storage._cdata not in self.host:
            self._live[storage._cdata] = StorageWeakRef(storage), storage.nbytes()

    def look(self):
        for key, (weak, _) in list(self._live.items()):
            if weak.expired():
                del self._live[key]
        now = sum(size for _, size in self._live.values())
        self.peak, self.highest = max(self.peak, now), max(self.highest, now)
        return now


class Event:
    def __init__(self, copy):
        self.copy, self.asked = copy, 0


class SlowLink:
    """`meter` is in force while the program runs."""

    def __init__(self, meter, host=1 << 40, patience=3):
        self.device, self._meter, self._patience = torch.device("cpu"), meter, patience
        self.host = _host_memory.HostMemory(lambda size: self._pin(size, host))
        self.timed, self.moved, self.now, self.here = False, 0, 0, True

    def _pin(self, size, most):
        if self.host.pinned + size > most:
            return None
        with torch.utils._python_dispatch._disable_current_modes():
            memory = torch.zeros(size, dtype=torch.uint8)
        self._meter.host.add(memory.untyped_storage()._cdata)
        return memory

    def usable(self, begins):
        return self.here

    def mark(self):
        self.now += 1_000_000
        return self.now

    def between(self, marks):
        return [mark - marks[0] for mark in marks]

    def _event(self, to, source):
        self.moved += 1

        def copy():
            with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
                to.copy_(source)

        return Event(copy)

    def leave(self, memory, to):
        return self._event(to, memory)

    def back(self, source):
        memory = torch.empty_like(source)
        memory.fill_(255)  # NaN in every type
        return memory, self._event(memory, source)

    def passed(self, event):
        event.asked += 1
        if event.asked == self._patience:
            self.wait(event)
        return event.asked >= self._patience

    def wait(self, event):
        if event.copy is not None:
            event.copy()
            event.copy = None

    def rate(self, way):
        return 4e9

    def allocated(self):
        return self._meter.look()

    def load(self):
        self._meter.look()
        peak, self._meter.peak = self._meter.peak, 0
        self._meter.look()
        return peak

    def most(self):
        return self._meter.highest

    def retries(self):
        return 0
