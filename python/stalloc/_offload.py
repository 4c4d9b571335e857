"""Optimizer states that move to the host while they are not used."""

import functools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any, Literal

from . import _library, _offload_saved, _offload_state, _offload_step, _session, _torch
from ._errors import StallocError, StallocWarning
from ._offload_part import Part

# After so many steps in a row that made states anew, every later step is expected to.
FRESH = 4


def offload(optimizer: Any, when: Literal["short", "always"] = "short") -> Any:
    """The states of an optimizer lend their memory between its steps. Returns the optimizer.

    For every torch.optim.Optimizer; tested on a GPU with fused and foreach AdamW.
    States of at least 1 MiB get their own memory after the step that made them, and after
    load_state_dict. From then on as much of it as other tensors need is copied to the host after
    each step, and comes back before the next step uses it. While some is away, PyTorch's own
    optimizers (but LBFGS) step part by part: only the states of one part must be on the device.
    If a later part fails, step() raises a StallocError, and its next call updates the rest.
    Where everything fits, nothing is copied; "always" copies all of it. Losses and weights are
    bit-identical to those without.

    Reading `optimizer.state` (state_dict does) brings the states back to the device until the next
    step; while states, or dictionaries of them, are referenced from elsewhere, they stay there.
    A step that is captured into a CUDA graph or runs inside the backward pass ends the offloading
    of this optimizer, and so do new states in each step (LBFGS): a warning says so, and the states
    stay on the device. What an optimizer keeps outside of `state`, such as fp32 weights, stays
    there, too. Does nothing while stalloc is not enabled.

    Raises:
        StallocError: it is no torch.optim.Optimizer, nor a wrapper that has one as `optimizer` or
            `optim`.
        ValueError: `when` is neither.
    """
    if when not in ("short", "always"):
        raise ValueError(f'stalloc: when is {when!r}: expected "short" or "always"')
    active = _session.active()
    if active is None:
        return optimizer
    torch, library = active
    inner = _offload_state.innermost(torch, optimizer)
    if inner is None:
        raise StallocError(
            f"stalloc: offload() needs a torch.optim.Optimizer, or a wrapper that has one as "
            f"`optimizer` or `optim`, and got a {type(optimizer).__name__}"
        )
    known = inner.__dict__.get("_stalloc")
    if known is None:
        known = _Offloaded(torch, library, inner)
        inner._stalloc = known
    known.always = when == "always"
    known.begin(inner)
    return optimizer


class _Offloaded:
    """The state of offload() for one optimizer."""

    def __init__(self, torch: ModuleType, library: _library.Library, optimizer: Any) -> None:
        self.torch, self.binding = torch, library
        self.always = False
        self.parts: list[Part] = []
        self.over = False  # its states stay on the device
        self.fresh = 0  # steps in a row that made states anew
        self.told = False
        self.quiet = False  # True: reading the states does not wake them
        self.pending = ""  # a warning that waits until they are read again
        self.made = False  # this step has, in place of others
        self.done: list[Part] = []  # parts that a step which has failed has updated
        self.loss: Any = None  # that its closure has returned
        self.whole = _offload_step.undivided(torch, optimizer)
        if self.whole is None:
            self.parts.append(Part(torch, library, every=True))
        # torch.compile must not trace these: it would count among those that refer to the states,
        # and compile each part anew in each step.
        untraced = torch.compiler.disable
        optimizer.register_step_pre_hook(untraced(self._before))
        optimizer.register_step_post_hook(untraced(self._after))
        optimizer.register_load_state_dict_post_hook(self._adopt)
        more: dict[str, Any] = {}
        if self.whole is not None:
            more = _offload_saved.methods(torch, type(optimizer))
            more["step"] = self._divided(self.whole)
        _offload_state.watch(optimizer, more)
        _offload_step.under_schedulers(optimizer)

    def begin(self, optimizer: Any) -> None:
        """Moves states that are there already."""
        self._after(optimizer)

    def wake(self) -> None:
        """Brings the states back for the current streams: all, or none that was away."""
        away = {part: frozenset(part.away) for part in self.parts if part.away}
        try:
            for part in away:
                part.wake()
        except StallocError:
            for part, read in away.items():  # else they would fill the device until the next step
                part.lend(self.always, set(), read)
            raise

    def read(self) -> None:
        """The program reads the states."""
        if not self.quiet:
            self.wake()

    @contextmanager
    def unread(self) -> Iterator[None]:
        """Inside, reading the states does not wake them: the parts are awake one by one."""
        self.quiet = True
        try:
            yield
        finally:
            self.quiet = False
        if self.pending:  # not earlier: as an error it would keep the parts that follow away
            self.told, text, self.pending = False, self.pending, ""
            self._warn(text)

    def _before(self, optimizer: Any, args: Any = (), kwargs: Any = None) -> None:
        if self.whole is None:
            self.wake()
        for part in self.parts:
            part.follow()
        if _torch.is_capturing(self.torch):
            self._end("a step is captured into a graph, which keeps their addresses")
        elif self.torch._C._current_graph_task_id() != -1:
            self._end("the optimizer steps inside the backward pass")

    def _divided(self, whole: Any) -> Any:
        """The step, part by part, with the name, arguments and hooks of the whole one."""
        by_parts = self.torch.compiler.disable(_Offloaded._by_parts)

        @functools.wraps(whole)
        def step(optimizer: Any, closure: Any = None) -> Any:
            offloaded = optimizer.__dict__.get("_stalloc")  # a copied optimizer has none
            if offloaded is None or offloaded.over:
                return whole(optimizer, closure)
            if not offloaded.done:  # else these gradients are of the step that is finished now
                offloaded.loss = None
                if closure is not None:
                    with offloaded.torch.enable_grad():
                        offloaded.loss = closure()
            try:
                by_parts(offloaded, optimizer)
            except BaseException:
                _offload_step.unscale(optimizer)
                raise
            loss, offloaded.loss = offloaded.loss, None
            return loss

        hooked: Any = self.torch.optim.Optimizer.profile_hook_step(step)
        hooked.hooked = True
        return hooked

    def _by_parts(self, optimizer: Any) -> None:
        whole: Any = self.whole
        self.divide(optimizer)
        devices = {device for part in self.parts for device in part.devices}
        away = any(self.binding.stats(device).asleep for device in devices)
        if optimizer.__dict__["state"] and not away and not self.done:
            whole(optimizer)  # one step takes less time; reading the states, it wakes them
            return
        groups = _offload_step.groups_of(self.torch, optimizer, self.parts)
        todo = [x for x in self.parts if groups[x] and x not in self.done]
        with self.unread():
            for part in self.parts:  # what had to stay before may be in the way of the others
                if not part.away and part not in todo[:1]:
                    self.lend(optimizer, part)
            for part in todo:
                hint = "make room, and call step() again with the same gradients, which finishes it"
                try:
                    part.wake()
                    hint = "some of the next part may be updated, too: load a checkpoint"
                    _offload_step.update(whole, optimizer, groups[part])
                except Exception as error:
                    if not self.done:
                        raise
                    raise StallocError(
                        f"stalloc: the optimizer's step has updated {len(self.done)} of "
                        f"{len(self.parts)} parts of the parameters; {hint}: {error}"
                    ) from error
                self.done.append(part)
                self.lend(optimizer, part)
            self.done.clear()

    def divide(self, optimizer: Any) -> None:
        """Gives parameters that are new a part."""
        if self.whole is not None:
            new = functools.partial(Part, self.torch, self.binding)
            for part in _offload_step.divide(self.torch, optimizer, self.parts, new):
                if not self.over and not _torch.is_capturing(self.torch):
                    part.adopt(optimizer)  # states may lie with another part, which is about to go

    def _after(self, optimizer: Any, args: Any = (), kwargs: Any = None) -> None:
        self.divide(optimizer)
        for part in self.parts:
            if not part.away:
                self.lend(optimizer, part)
        self.fresh, self.made = self.fresh + 1 if self.made else 0, False
        if self.fresh >= FRESH:
            with suppress(StallocError):  # where they do not all fit, they go on to leave
                self._end("the optimizer makes new states in each step")

    def lend(self, optimizer: Any, part: Part, read: frozenset[int] = frozenset()) -> None:
        """Moves new states of a part to its region, which lends its memory from now on.

        On the devices `read` they were away before, and were only read.
        """
        if self.over or _torch.is_capturing(self.torch):
            return
        new = part.adopt(optimizer)
        self.made = part.remade or self.made
        if not part.devices:
            return
        if part.held(optimizer):
            self._warn(
                "optimizer states are referenced from outside of the optimizer; they stay on the "
                "device until those references are gone"
            )
            return
        try:
            part.lend(self.always, self._follow(optimizer, part), frozenset() if new else read)
        except StallocError as error:  # the program goes on with what is on the device
            self._warn(f"optimizer states stay on the device until the next step: {error}")

    def _follow(self, optimizer: Any, part: Part) -> set[int]:
        """The devices where other parts are lent after this one."""
        devices: set[int] = set()
        for other in self.parts[self.parts.index(part) + 1 :]:
            # Between parts the others are away until it is their turn.
            if (self.quiet or not other.away) and not part.devices <= devices:
                if not other.held(optimizer):
                    devices |= other.devices
        return devices

    def _adopt(self, optimizer: Any, *_: Any) -> None:
        """Moves loaded states to the regions."""
        self.done.clear()  # the next step is of all
        if self.quiet:
            return  # of one part, which moves by itself
        self.divide(optimizer)
        for part in self.parts:
            if not self.over and not _torch.is_capturing(self.torch):
                part.adopt(optimizer)

    def _end(self, why: str) -> None:
        """Ends offloading: the states stay on the device."""
        if self.done:
            raise StallocError(f"stalloc: finish the optimizer's step first: {why}")
        self.wake()
        if not self.over:
            self.over, self.told = True, False
            self._warn(f"optimizer states stay on the device from now on: {why}")

    def _warn(self, text: str) -> None:
        if not self.told:
            self.told = True
            if self.quiet:
                self.pending = text
                return
            warnings.warn(f"stalloc: {text}", StallocWarning, stacklevel=4)
