"""A region with states of an optimizer: of some of its parameters, or all it has."""

import itertools
from types import ModuleType
from typing import Any

from . import _lend, _library, _offload_state

# Smaller states stay: step counters, scales of 8-bit states.
LEAST = 1 << 20
# After so many bytes have moved into the region, the memory where they were goes back to the
# driver, and the region gets new, large handles.
AT_ONCE = 512 << 20

_numbers = itertools.count()


class Part:
    """States that leave together and come back together."""

    kind = "cuda"  # of the devices whose memory can leave

    def __init__(self, torch: ModuleType, library: _library.Library, every: bool = False) -> None:
        self.torch, self.binding = torch, library
        self.weak = torch.multiprocessing.reductions.StorageWeakRef
        self.tag = f"stalloc.offload.{next(_numbers)}"
        self.every = every  # it has all states, of whatever parameter
        self.parameters: list[Any] = []
        self.devices: set[int] = set()  # where the region has memory
        self.moved: dict[int, Any] = {}  # storages in it, by address; it keeps none alive
        self.remade = False  # the last states that moved came in place of others
        self.away: set[int] = set()  # devices where it was closed
        self.streams: dict[int, int] = {}  # that wait for what came back, the last by device

    def wake(self) -> None:
        """Brings the states back for the current streams."""
        for device in sorted(self.away):
            stream = _lend.current_stream(self.torch, device)
            self.binding.begin_awake(device, self.tag, stream)
            self.away.remove(device)
            self.streams[device] = stream

    def follow(self) -> None:
        """Makes the current streams wait for what came back for others, as for a read."""
        for device in sorted(self.devices - self.away):
            stream = _lend.current_stream(self.torch, device)
            if self.streams.get(device, stream) != stream:
                self.binding.begin_awake(device, self.tag, stream)
                self.binding.end_awake(device, self.tag, stream, False, False, False)
                self.streams[device] = stream

    def lend(self, always: bool, more: set[int], read: frozenset[int] = frozenset()) -> None:
        """Lets the states leave, if there are any: all with always.

        `more` are the devices where other parts are lent after this one; on those of `read` the
        states were away before, and have not changed since.
        """
        for device in sorted(self.devices - self.away):
            stream, changed = _lend.current_stream(self.torch, device), device not in read
            self.streams.pop(device, None)  # with an error its use has ended, too
            self.binding.end_awake(device, self.tag, stream, changed, always, device in more)
            self.away.add(device)

    def states(self, optimizer: Any) -> dict[Any, Any]:
        """The states by parameter, in a dictionary of its own."""
        state = optimizer.__dict__["state"]
        if self.every:
            return dict(state)
        return {x: state[x] for x in self.parameters if x in state}

    def adopt(self, optimizer: Any) -> bool:
        """Moves states that are elsewhere into the region; returns whether there were any."""
        before = len(self.moved)
        self.moved = {at: weak for at, weak in self.moved.items() if not weak.expired()}
        kept, self.remade = len(self.moved), False
        sharing: dict[int, list[Any]] = {}  # by storage
        for tensor in _offload_state.tensors(self.torch, self.states(optimizer)):
            storage = tensor.untyped_storage()
            at = storage.data_ptr()
            large = storage.nbytes() >= LEAST
            if tensor.device.type == self.kind and large and at not in self.moved:
                sharing.setdefault(at, []).append(tensor)
        if not sharing:
            return False
        self.wake()
        idle, moved = AT_ONCE, False
        for tensors in sharing.values():
            # Parameters, gradients or flat buffers may be the same memory.
            if self._uses(tensors[0]) > len(tensors):
                continue
            if idle >= AT_ONCE:
                self.torch.cuda.empty_cache()
                idle = 0
            idle += tensors[0].untyped_storage().nbytes()
            try:
                self._move(tensors)
            except self.torch.cuda.OutOfMemoryError:
                break  # the rest stays where it is until the next step
            moved = True
        if moved:
            self.torch.cuda.empty_cache()
            self.remade = kept < before
        return moved

    def held(self, optimizer: Any) -> bool:
        """Whether anything but the optimizer refers to states, or to dictionaries of them."""
        alone = _offload_state.references([{}])[0]
        if _offload_state.references([optimizer.__dict__["state"]])[0] > alone + 1:
            return True  # more refer to it than __dict__
        states = self.states(optimizer)  # which refers to the states of a parameter, too
        if self._referenced(states, alone, 2):
            return True
        sharing: dict[int, list[Any]] = {}
        for tensor in self._moved_of(states):
            sharing.setdefault(tensor.untyped_storage().data_ptr(), []).append(tensor)
        if any(at not in sharing and not weak.expired() for at, weak in self.moved.items()):
            return True  # to what was a state before
        return any(self._uses(tensors[0]) > len(tensors) for tensors in sharing.values())

    def _referenced(self, value: Any, alone: int, owners: int = 1) -> bool:
        """Whether more than so many owners refer to something inside that lies in the region."""
        inner, plain = _offload_state.inside(self.torch, value), self.torch.Tensor
        for each, count in zip(inner, _offload_state.references(inner)):
            if count > alone + owners and self._moved_of(each):
                return True
            if type(each) is not plain and self._referenced(each, alone):
                return True
        return False

    def _uses(self, tensor: Any) -> int:
        """How many tensors share the storage."""
        return int(self.torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)) - 1

    def _move(self, tensors: list[Any]) -> None:
        """Gives the tensors of one storage a new one in the region."""
        torch, first = self.torch, tensors[0]
        old = first.untyped_storage()
        with torch.no_grad():
            self.binding.begin_region(self.tag)
            try:
                new = torch.empty(old.nbytes(), dtype=torch.uint8, device=first.device)
            finally:
                self.binding.end_region()
            whole = torch.empty(0, dtype=torch.uint8, device=first.device)
            new.copy_(whole.set_(old, 0, (old.nbytes(),), (1,)))
            storage = new.untyped_storage()
            for tensor in tensors:
                tensor.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
        self.devices.add(first.device.index or 0)
        self.moved[storage.data_ptr()] = self.weak(storage)

    def _moved_of(self, value: Any) -> list[Any]:
        """The tensors of a state that lie in the region."""
        return [
            tensor
            for tensor in _offload_state.tensors(self.torch, value)
            if tensor.untyped_storage().data_ptr() in self.moved
        ]
