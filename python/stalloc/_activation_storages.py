"""Storages that leave the device and come back, each once however many tensors share it."""

import importlib
from typing import Any, Optional

from ._activation_saved import Record, Saved


class Storages:
    """Moves the records of one device. The caller has its lock."""

    def __init__(self, torch: Any, link: Any) -> None:
        self._torch, self._link = torch, link
        reductions = importlib.import_module(f"{torch.__name__}.multiprocessing.reductions")
        self.weak = reductions.StorageWeakRef
        self._retired: list[Record] = []  # whose host memory copies under way still use
        self._empty: dict[Any, Any] = {}  # by dtype
        self.out = self.back = self.late = 0

    def flat(self, storage: Any) -> Any:
        """All bytes of a storage as a tensor."""
        return self._torch.empty(0, dtype=self._torch.uint8, device=self._link.device).set_(storage)

    def counter(self, tensor: Any) -> Any:
        """A tensor without memory that shares the tensor's version counter."""
        if tensor.dtype not in self._empty:
            self._empty[tensor.dtype] = self._torch.empty(
                0, dtype=tensor.dtype, device=self._link.device
            )
        counter = tensor.detach()
        counter.data = self._empty[tensor.dtype]
        return counter

    def view(self, one: Saved) -> Any:
        """The saved tensor, whose record is on the device."""
        tensor = self._torch.empty(0, dtype=one.dtype, device=self._link.device)
        storage = one.record.flat.untyped_storage()
        return tensor.set_(storage, one.offset, one.shape, one.stride)

    def leave(self, record: Record) -> bool:
        """Begins the copy out. False: the host has no memory for it."""
        record.piece = self._link.host.take(record.size)
        if record.piece is None:
            return False
        record.out = self._link.leave(record.flat, record.piece.memory)
        self.out += record.size
        return True

    def drop(self, record: Optional[Record]) -> None:
        """Gives the memory up, from here on in the program's order, if the record is to leave."""
        if record is None or record.out is None or record.needed:
            return
        self._wait(record, record.out)
        record.out = record.flat = None
        record.cycle.items[record.number].drop = record.cycle.place

    def come_back(self, record: Optional[Record]) -> None:
        """Begins the copy back, if the record is away. Without memory for it, it comes later."""
        if record is None or record.flat is not None or record.needed:
            return
        try:
            self._return(record)
        except self._torch.cuda.OutOfMemoryError:
            return
        record.cycle.items[record.number].back = record.cycle.place

    def bring(self, record: Record) -> None:
        """From here on in the program's order, the record is on the device."""
        if record.flat is None:
            self.late += 1
            self._return(record)
        for event in (record.out, record.back):
            if event is not None:
                self._wait(record, event)
        record.out = record.back = None
        self._give(record)

    def _wait(self, record: Record, event: Any) -> None:
        if not self._link.timed:
            self._link.wait(event)
            return
        before = self._link.mark()
        self._link.wait(event)
        record.cycle.stalls.append((record.cycle.place, before, self._link.mark()))

    def retire(self, record: Record) -> None:
        """Nothing needs it any more. Perhaps nothing is saved after it, as after an exception."""
        copying = record.out is not None or record.back is not None
        if copying and record.flat is not None:
            self._link.release(record.flat)
        record.flat = None
        if copying:
            self._retired.append(record)
        else:
            self._give(record)

    def settle(self) -> None:
        """Gives up the host memory of what was retired during a copy, for which the program's
        stream waits."""
        while self._retired:
            record = self._retired.pop()
            for event in (record.out, record.back):
                if event is not None:
                    self._link.wait(event)
            record.out = record.back = None
            self.retire(record)

    def _return(self, record: Record) -> None:
        # What the program has held all the time need not come back.
        held = self._torch.UntypedStorage._new_with_weak_ptr(record.weak.cdata)
        if held is not None and held.nbytes() == record.size:
            record.flat = self.flat(held)
            record.cycle.items[record.number].held = True
            self._give(record)
            return
        record.flat, record.back = self._link.back(record.piece.memory)
        self.back += record.size

    def _give(self, record: Record) -> None:
        if record.piece is not None:
            self._link.host.give(record.piece)
            record.piece = None
