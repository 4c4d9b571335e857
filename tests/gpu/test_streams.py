"""Blocks across streams: nobody's bytes change while queued work still needs them."""

import gpu
from gpu import MIB

torch, stalloc = gpu.start()

SLEEP = 20_000_000  # clock ticks of the GPU, some 10 ms
SIZE = 8 * MIB


def full(value):
    return torch.full((SIZE,), value, dtype=torch.uint8, device="cuda")


def used_by_the_side(side, value):
    """A block of the current stream, read late by another, freed and asked for again at once.

    Returns what the other stream read.
    """
    x = full(value)
    with torch.cuda.stream(side):
        side.wait_stream(torch.cuda.default_stream())
        seen = torch.empty_like(x)
        torch.cuda._sleep(SLEEP)
        seen.copy_(x)
    x.record_stream(side)
    del x
    again = full(255)  # overwrites x's bytes if it gets them
    side.synchronize()
    assert bool((again == 255).all())
    return seen


def check_record_stream():
    side = torch.cuda.Stream()
    for value in range(1, 11):
        assert bool((used_by_the_side(side, value) == value).all()), f"round {value}"


def check_record_stream_under_a_plan():
    side = torch.cuda.Stream()

    def step():
        kept = [full(value) for value in range(48)]  # enough for a plan to be worth its memory
        assert bool((used_by_the_side(side, 77) == 77).all())
        for value, x in enumerate(kept):
            assert bool((x == value).all()), value

    before = stalloc.stats()
    for _ in range(15):
        step()
        stalloc.step()
    after = stalloc.stats()
    assert after.plan_generation > before.plan_generation, "no plan in 15 steps"
    return f"{after.hits - before.hits} hits, {after.misses - before.misses} misses"


def check_blocks_come_back_when_the_stream_is_done():
    side = torch.cuda.Stream()
    used_by_the_side(side, 1)
    torch.cuda.synchronize()
    before = torch.cuda.memory_reserved()
    for _ in range(20):
        used_by_the_side(side, 1)
        torch.cuda.synchronize()
    grown = torch.cuda.memory_reserved() - before
    assert grown <= 4 * SIZE, f"{grown / MIB} MiB more after 20 rounds of {SIZE / MIB} MiB"


def check_no_stream_gets_what_another_has_queued_work_on():
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    for _ in range(10):
        with torch.cuda.stream(first):
            x = torch.empty(SIZE, dtype=torch.uint8, device="cuda")
            torch.cuda._sleep(SLEEP)
            x.fill_(1)
            del x  # the filling is still queued
        with torch.cuda.stream(second):
            y = full(2)
        torch.cuda.synchronize()
        assert bool((y == 2).all())


def check_same_stream_reuses_at_once():
    before = None
    for _ in range(50):
        full(3)
        before = before or torch.cuda.memory_reserved()
    grown = torch.cuda.memory_reserved() - before
    assert grown == 0, f"{grown / MIB} MiB more after 50 blocks of {SIZE / MIB} MiB"


def check_freed_on_another_stream():
    """Where a tensor is dropped does not matter: it goes back to the stream it was made on."""
    side = torch.cuda.Stream()
    for value in range(10):
        x = full(value)
        with torch.cuda.stream(side):
            del x
            y = full(100)
        z = full(value)
        torch.cuda.synchronize()
        assert bool((y == 100).all()) and bool((z == value).all())


if __name__ == "__main__":
    gpu.run(globals())
