"""Memory that sleeps: the same bits, the device free for another process, the same losses."""

import statistics
import subprocess
import sys
import time

import gpu
from gpu import GIB, MIB

torch, stalloc = gpu.start()

CYCLES, CONTEXT = 20, 64 * MIB  # what of a context may come and go

# For each line of its input: takes all of the device but so much and writes it, says so; gives it
# back at the next line, and says so.
FILL = """
import sys, torch
torch.cuda.init()
for line in sys.stdin:
    left = int(line)
    x = None
    torch.cuda.empty_cache()
    if left >= 0:
        size = torch.cuda.mem_get_info()[0] - left
        x = torch.empty(size, dtype=torch.uint8, device="cuda").fill_(0xA5)
        torch.cuda.synchronize()
    print("done", flush=True)
"""


def free():
    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0]


def held():
    """What of the device is stalloc's, as it says itself."""
    return stalloc.stats().reserved


def blocks(count=40):
    """Tensors with gaps between them, some used by another stream."""
    generator = torch.Generator("cuda").manual_seed(1)
    sizes = [MIB * (1 + 7 * n % 60) + 512 * n for n in range(2 * count)]
    made = [
        torch.randint(0, 256, (n,), dtype=torch.uint8, device="cuda", generator=generator)
        for n in sizes
    ]
    made[5].record_stream(torch.cuda.Stream())
    return made[::2]


def check_same_bits_and_the_device_is_free():
    kept = blocks()
    copies, addresses = [x.cpu() for x in kept], [x.data_ptr() for x in kept]
    before, reserved = free(), held()
    asleep = stalloc.pause()
    given = free() - before
    assert asleep == reserved and held() == 0, (asleep, reserved, held())
    assert given >= reserved - CONTEXT, f"{given / MIB:.0f} of {reserved / MIB:.0f} MiB went back"
    stalloc.resume()
    assert [x.data_ptr() for x in kept] == addresses and held() == reserved
    assert all(torch.equal(x.cpu(), copy) for x, copy in zip(kept, copies))
    return f"{given / GIB:.2f} GiB went back"


def check_requests_raise_and_frees_are_taken_in():
    kept = blocks(10)
    stalloc.pause()
    try:
        torch.empty(MIB, device="cuda")
        raise AssertionError("a request was served of what sleeps")
    except torch.cuda.OutOfMemoryError as error:
        raise AssertionError("memory is not short") from error
    except RuntimeError as error:
        assert "sleeps" in str(error), error
    last = kept.pop()
    address = last.data_ptr()
    kept.clear()
    stalloc.resume()
    assert last.data_ptr() == address and int(last.sum()) >= 0


def check_region_sleeps_for_itself():
    with stalloc.region("weights"):
        weights = torch.arange(64 * MIB, device="cuda", dtype=torch.int32)
    rest = torch.ones(32 * MIB, device="cuda")
    asleep = stalloc.pause("weights")
    assert 256 * MIB <= asleep < 300 * MIB
    rest += torch.ones_like(rest)
    torch.cuda.synchronize()
    stalloc.resume("weights")
    assert int(weights[-1]) == 64 * MIB - 1 and float(rest[0]) == 2


def check_graphs_are_refused():
    x = torch.zeros(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
    said = [line for line in stalloc.explain().splitlines() if "CUDA graphs" in line]
    assert len(said) == 1 and " MiB  1 pool" in said[0], said
    stalloc.pause()
    try:
        graph.replay()
        raise AssertionError("a graph was replayed over memory that sleeps")
    except stalloc.StallocError:
        pass
    stalloc.resume()
    x.fill_(4)
    graph.replay()
    assert float(y[0]) == 5
    return f"awake: {' '.join(said[0].split())}"


def check_full_on_waking():
    kept = blocks()
    copies = [x.cpu() for x in kept]
    other = Other()
    asleep = stalloc.pause()
    other.takes(asleep // 2)
    try:
        stalloc.resume()
        raise AssertionError("there was room")
    except stalloc.StallocError as error:
        assert "stays asleep" in str(error), error
    assert held() == 0
    other.ends()
    stalloc.resume()
    assert all(torch.equal(x.cpu(), copy) for x, copy in zip(kept, copies))


class Other:
    """Another process on the device."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", FILL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.takes(-1)  # its context is there

    def takes(self, left):
        """All of the device but so many bytes; nothing of it if less than 0."""
        print(left, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline().strip() == "done", "the other process has failed"

    def ends(self):
        self.process.stdin.close()
        self.process.wait(60)


def losses(between):
    """Of CYCLES steps of a small model, with something between them."""
    torch.manual_seed(3)
    layers = [torch.nn.Linear(2048, 2048) for _ in range(8)]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    found = []
    for _ in range(CYCLES):
        x = torch.randn(256, 2048, device="cuda")
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        stalloc.step()
        found.append(loss.item())
        between()
    return found


def check_twenty_cycles_have_the_same_losses():
    """Train, sleep, another process takes 90 % of the device, wake, train."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    alone = losses(lambda: None)
    other, shares = Other(), []

    def between():
        stalloc.pause()
        room, total = torch.cuda.mem_get_info()
        left = min(256 * MIB, room - total * 9 // 10)
        assert left >= 0, f"{room / GIB:.1f} GiB are free while all sleeps"
        other.takes(left)
        shares.append((room - left) / total)
        other.takes(-1)
        stalloc.resume()

    assert losses(between) == alone
    other.ends()
    return f"the other took {100 * min(shares):.0f} % of the device, {len(shares)} times"


def asleep_and_awake(*name):
    """Seconds, the median after the first time, which pins memory; then without copies."""
    found = []
    for backup in ("host", "host", "host", "host", "discard"):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        stalloc.pause(*name, backup=backup)
        asleep = time.perf_counter()
        stalloc.resume(*name)
        found.append((asleep - begin, time.perf_counter() - asleep))
    asleep, awake = map(statistics.median, zip(*found[1:4], strict=True))
    return "{:.3f} and {:.3f} s ({:.3f} and {:.3f} without copies)".format(asleep, awake, *found[4])


def check_time():
    """Of 10 GiB, beside pinned copies of PyTorch's; no bound."""
    words = [gpu.pinned_copies()]
    for count in (10, 320):
        kept = [
            torch.empty(10 * GIB // count, dtype=torch.uint8, device="cuda") for _ in range(count)
        ]
        words.append(f"{count} tensors: {asleep_and_awake()}")
        del kept
    with stalloc.region("time"):
        kept = [torch.empty(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(160)]
    words.append(f"a region of {len(kept)}: {asleep_and_awake('time')}")
    return "; ".join(words)


if __name__ == "__main__":
    gpu.run(globals())
