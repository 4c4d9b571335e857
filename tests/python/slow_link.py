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
    """A copy that is not made yet. It keeps no memory of the device alive: others have to."""

    def __init__(self, device, host, out):
        self._device, self._host, self._out = StorageWeakRef(device.untyped_storage()), host, out
        self.asked, self.done = 0, False
        self.kept = None  # memory that was released meanwhile

    def copies(self, memory):
        return self._device.cdata == memory.untyped_storage()._cdata

    def lost(self):
        return not self.done and self._device.expired()

    def pass_by(self):
        if self.done:
            return
        storage = torch.UntypedStorage._new_with_weak_ptr(self._device.cdata)
        assert storage is not None, "memory was given up while a copy was under way"
        self.done = True
        with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
            device = torch.empty(0, dtype=torch.uint8).set_(storage)
            (self._host if self._out else device).copy_(device if self._out else self._host)
        self.kept = None


class SlowLink:
    """`meter` is in force while the program runs."""

    def __init__(self, meter, host=1 << 40, polls=3):
        self.device, self._meter, self._polls = torch.device("cpu"), meter, polls
        self.host = _host_memory.HostMemory(lambda size: self._pin(size, host))
        self.timed, self.now, self.here = False, 0, True
        self.events = []

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

    def _event(self, *copy):
        self.events.append(Event(*copy))
        return self.events[-1]

    def leave(self, memory, to):
        return self._event(memory, to, True)

    def back(self, source):
        memory = torch.empty_like(source)
        memory.fill_(255)  # NaN in every type
        return memory, self._event(memory, source, False)

    def release(self, memory):
        for event in self.events:
            if not event.done and event.copies(memory):
                event.kept = memory

    def passed(self, event):
        event.asked += 1
        if event.asked >= self._polls:
            event.pass_by()
        return event.done

    def wait(self, event):
        event.pass_by()

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
