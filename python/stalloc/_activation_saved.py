"""What autograd saves instead of a tensor, and which tensors stay on the device, and why."""

import sys
from typing import Any, Optional

from ._activation_plan import Cycle

# Why a saved tensor of 1 MiB or more stays on the device.
PARAMETER = "parameter"  # or a view of one; also FSDP's gathered ones, whose storage comes and goes
CAST = "cast of a parameter"  # autocast's, which it keeps itself
SUBCLASS = "subclass"
LAYOUT = "layout"  # sparse, nested, conjugated or negated
COMPILED = "compiled"  # its backward pass needs all at once
BACKWARD = "backward"  # saved within a backward pass, as for a second one
STREAM = "other stream"  # or a graph is captured
HOST = "no host memory"
LINK = "link busy"  # in the first steps
FAILED = "failed"  # by a bug of ours

_COMPILER = "_functorch/_aot_autograd"
_APPLY = "torch/autograd/function.py"  # of some releases; others call from C


def why_stays(torch: Any, tensor: Any, caller: str) -> Optional[str]:
    """Why a tensor cannot leave; None if it can. `caller` is the file that saves it."""
    if type(tensor) is not torch.Tensor:
        return PARAMETER if isinstance(tensor, torch.nn.Parameter) else SUBCLASS
    base = tensor if tensor._base is None else tensor._base
    if isinstance(base, torch.nn.Parameter) or base.is_leaf and base.requires_grad:
        return PARAMETER
    if type(base) is not torch.Tensor:
        return SUBCLASS
    plain = tensor.layout is torch.strided and not tensor.is_nested  # which has no shape
    if not plain or tensor.is_conj() or tensor.is_neg():
        return LAYOUT
    if _is_cast(base.grad_fn):
        return CAST
    if torch._C._current_graph_task_id() != -1:
        return BACKWARD
    if _COMPILER in caller:
        return COMPILED
    return None


def _is_cast(made: Any) -> bool:
    if made is None or made.name() != "ToCopyBackward0":
        return False
    source = made.next_functions[0][0]
    return source is not None and source.name() == "torch::autograd::AccumulateGrad"


def caller_of(depth: int) -> str:
    """The file of the frame so many calls above the caller, or of what called Function.apply."""
    frame = sys._getframe(depth + 1)
    if frame.f_code.co_filename.endswith(_APPLY) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename


def check_version(tensor: Any, version: int, one: Any) -> None:
    """Raises the error that autograd would raise if it could look through hooks, with a shape."""
    if tensor._version != version:
        shape = list(one.shape)
        raise RuntimeError(
            f"one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: [{tensor.type()} {shape}] is at version {tensor._version}; expected "
            f"version {version} instead. It was saved within stalloc.offload_activations()."
        )


class Kept:
    """A saved tensor that stays on the device."""

    __slots__ = ("offloader", "tensor", "version")

    def __init__(self, tensor: Any, offloader: Any = None) -> None:
        # A leaf is kept itself: a parameter's memory may be exchanged before it is needed. An
        # output would keep itself alive through its graph.
        self.tensor = tensor if tensor.is_leaf else tensor.detach()
        self.version, self.offloader = tensor._version, offloader

    def unpack(self) -> Any:
        if self.offloader is not None:
            self.offloader.unpacked = True
        check_version(self.tensor, self.version, self.tensor)
        return self.tensor


class Record:
    """A storage that was saved: on the device, on its way, or on the host."""

    def __init__(self, cycle: Cycle, weak: Any, flat: Any, tensor: Any, counter: Any) -> None:
        self.cycle, self.size, self.weak = cycle, flat.numel(), weak
        self.flat: Any = flat  # its bytes on the device; None while they are away
        self.piece: Any = None  # of host memory
        self.out: Any = None  # the event after the copy out, until it was waited for
        self.back: Any = None  # after the copy back, likewise
        self.users = 0  # saved tensors
        self.needed = False
        self.ahead = False  # came back before it is needed, without a plan
        self.version, self.counter = tensor._version, counter
        self.number = cycle.save(self.size)

    def changed(self, tensor: Any) -> bool:
        """Whether a tensor of this storage may hold something else than what was saved."""
        return bool(self.counter._version != self.version or tensor._version != self.version)


class Saved:
    """A tensor of a record."""

    def __init__(self, offloader: Any, record: Record, tensor: Any, counter: Any) -> None:
        self.offloader, self.record = offloader, record
        record.users += 1
        self.dtype, self.shape, self.stride = tensor.dtype, tensor.shape, tensor.stride()
        self.offset = tensor.storage_offset()
        self.version, self.counter = tensor._version, counter

    def unpack(self) -> Any:
        # The counter counts for the tensor, too: somebody may change it as long as it lives.
        check_version(self.counter, self.version, self)
        return self.offloader.restore(self)

    def __del__(self) -> None:
        self.offloader.release(self.record)
