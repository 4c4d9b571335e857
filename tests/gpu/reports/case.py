"""Public reports about GPU memory allocators as small programs: what they share.

A program has one argument, a Context, and is written from what its report describes. Sizes are in
MiB. What its reporter expected is a list of checks; the first that fails says in a word how.
"""

import dataclasses
from typing import Callable, Optional

MIB = 1 << 20
SLACK = 32  # MiB of a limit beside what its factor says


@dataclasses.dataclass(frozen=True)
class Case:
    """`reports` are "owner/name#number". With `live`, the most MiB of its tensors at once, the
    program runs under a limit of `factor` times that. One that is `alone` looks at the whole
    device, so that nothing may run beside it."""

    program: Callable[["Context"], None]
    reports: tuple
    pattern: str
    expected: str
    live: Optional[int] = None
    factor: float = 1.05
    alone: bool = False
    conf: str = ""  # settings of PyTorch's allocator that it is about

    @property
    def name(self):
        return self.program.__name__

    def limit(self):
        """MiB."""
        return int(self.factor * self.live) + SLACK if self.live else None


CASES = {}


def case(*reports, **about):
    """Adds a program to CASES."""

    def put(program):
        CASES[program.__name__] = Case(program, reports, **about)
        return program

    return put


class Fails(Exception):
    """An expectation that does not hold: a word, and what was seen."""

    def __init__(self, word, text):
        super().__init__(text)
        self.word = word


class Context:
    """What a program allocates with, and how it says what it saw. `unit` is what it takes for a
    MiB: less where it runs on a CPU."""

    def __init__(self, torch, allocator, device="cuda", unit=MIB):
        self.torch, self.allocator, self.device, self.unit = torch, allocator, device, unit
        self.said = []

    def new(self, mib, value=0):
        """A tensor of so many MiB, each byte `value`."""
        size = int(mib * self.unit)
        tensor = self.torch.empty(size, dtype=self.torch.uint8, device=self.device)
        return tensor.fill_(value % 251)

    def holds(self, tensor, value):
        """Whether first and last byte are what was written; else somebody else wrote there."""
        both = int(tensor.view(-1)[0]), int(tensor.view(-1)[-1])
        self.check(both == (value % 251,) * 2, "values", f"{both} where {value % 251} was written")

    def check(self, holds, word, text):
        if not holds:
            raise Fails(word, text)

    def say(self, text):
        self.said.append(text)

    def stream(self):
        return self.torch.cuda.Stream()

    def on(self, stream):
        """A context in which work goes to the stream, behind what is queued so far."""
        stream.wait_stream(self.torch.cuda.current_stream())
        return self.torch.cuda.stream(stream)

    def busy(self, seconds):
        """Keeps the current stream busy for about so long."""
        self.torch.cuda._sleep(int(seconds * 1.7e9))

    def reserved(self):
        return self.torch.cuda.memory_reserved() / MIB

    def allocated(self):
        return self.torch.cuda.memory_allocated() / MIB

    def retries(self):
        return self.torch.cuda.memory_stats().get("num_alloc_retries", 0)

    def flat(self, kept, slack, word="grows"):
        """Reserved memory at the end of each round, in MiB, does not grow after the third."""
        self.say(f"reserved after rounds 3 and {len(kept)}: {kept[2]:,.0f}, {kept[-1]:,.0f} MiB")
        self.check(kept[-1] <= kept[2] + slack, word, self.said[-1])
