"""Tensors that processes share where they lie, with share:fd: both ways, and whoever ends first."""

import os
import re
import signal

import gpu
from gpu import MIB

if __name__ == "__main__":
    torch, stalloc = gpu.start(share="fd")
else:  # a receiver, which begins with this module, before a tensor reaches it
    import stalloc
    import torch

    stalloc.enable(share="fd")

WAIT = 300  # seconds, after which a receiver that hangs is an error


def doubles(inbox, outbox):
    """Doubles each tensor that it gets, in place, and sends back its sum; None ends it."""
    while (tensor := inbox.get()) is not None:
        tensor.mul_(2)
        torch.cuda.synchronize()
        outbox.put((tensor.numel(), float(tensor.double().sum()), tensor.data_ptr()))
        del tensor


def makes(outbox, done):
    """Sends a tensor of its own, and waits until it is no longer used."""
    tensor = torch.arange(3 * MIB, dtype=torch.float32, device="cuda")
    torch.cuda.synchronize()
    outbox.put(tensor)
    assert done.get(timeout=WAIT)
    assert float(tensor[7]) == -1, "what the receiver wrote does not arrive"


def dies(inbox, outbox):
    """Has a tensor, and is killed."""
    tensor = inbox.get()
    outbox.put(float(tensor[0]))
    outbox.close()
    outbox.join_thread()
    os.kill(os.getpid(), signal.SIGKILL)


def watches(inbox, outbox):
    """Says what the first value of a tensor is, each time that it is asked."""
    tensor = inbox.get()
    outbox.put(float(tensor[0]))
    while inbox.get():
        outbox.put(float(tensor[0]))


def tells(inbox, outbox):
    """Has a tensor, and says what explain() tells of it."""
    tensor = inbox.get()
    outbox.put(" ".join(stalloc.explain().split()))
    assert inbox.get() is None
    del tensor


class Receiver:
    def __init__(self, work, queues=2):
        context = torch.multiprocessing.get_context("spawn")
        self.queues = [context.Queue() for _ in range(queues)]
        self.process = context.Process(target=work, args=self.queues, daemon=True)
        self.process.start()

    def end(self):
        self.process.join(WAIT)
        assert self.process.exitcode is not None, "the receiver hangs"
        return self.process.exitcode


def native_memory():
    """What PyTorch's own allocator holds beside stalloc: what had to move lies there."""
    return torch.cuda.memory_reserved() - stalloc.stats().reserved


def check_both_say_what_is_shared():
    receiver = Receiver(tells)
    inbox, outbox = receiver.queues
    tensor = torch.ones(20 * MIB, device="cuda")
    torch.cuda.synchronize()
    inbox.put(tensor)
    there, here = outbox.get(timeout=WAIT), " ".join(stalloc.explain().split())
    said = "80.00 MiB are blocks that other processes can have (1)"
    assert said in here, here
    assert re.match(r"8[0-9.]+ MiB of other processes are mapped here", there), there
    inbox.put(None)
    assert receiver.end() == 0
    return said


def check_values_both_ways_and_nothing_moves():
    receiver = Receiver(doubles)
    inbox, outbox = receiver.queues
    before = native_memory()
    for numel in (100, 3 * MIB, 40 * MIB):  # small, of one handle, of several
        tensor = torch.full((numel,), 1.5, device="cuda")
        address = tensor.data_ptr()
        torch.cuda.synchronize()
        inbox.put(tensor)
        got, total, there = outbox.get(timeout=WAIT)
        assert (got, total) == (numel, 3.0 * numel), (got, total)
        assert tensor.data_ptr() == address and there != 0
        assert bool((tensor == 3).all()), "what the receiver wrote does not arrive"
    assert native_memory() == before, "a tensor has moved into native's memory"
    inbox.put(None)
    assert receiver.end() == 0


def check_a_view_and_a_part():
    receiver = Receiver(doubles)
    inbox, outbox = receiver.queues
    torch.cuda.empty_cache()
    hole, total = 40 * MIB, torch.cuda.mem_get_info()[1]  # of 160 MiB
    room = torch.cuda.memory_reserved() + 15 * hole  # for three and most of a fourth
    torch.cuda.set_per_process_memory_fraction(room / total)
    parts = [torch.empty(hole, device="cuda") for _ in range(3)]
    parts[0] = parts[2] = None
    whole = torch.ones(2 * hole - MIB, device="cuda")  # stitched of two holes
    torch.cuda.set_per_process_memory_fraction(1.0)
    inbox.put(whole)
    assert outbox.get(timeout=WAIT)[1] == 2.0 * whole.numel()
    inbox.put(whole[5 * MIB : 9 * MIB])
    assert outbox.get(timeout=WAIT)[:2] == (4 * MIB, 4.0 * 4 * MIB)
    assert float(whole[5 * MIB - 1]) == 2 and float(whole[5 * MIB]) == 4
    inbox.put(None)
    assert receiver.end() == 0


def check_the_receiver_sends():
    receiver = Receiver(makes)
    outbox, done = receiver.queues
    tensor = outbox.get(timeout=WAIT)
    assert bool((tensor == torch.arange(3 * MIB, dtype=torch.float32, device="cuda")).all())
    tensor[7] = -1
    torch.cuda.synchronize()
    done.put(True)
    assert receiver.end() == 0
    del tensor


def check_a_receiver_that_is_killed():
    receiver = Receiver(dies)
    inbox, outbox = receiver.queues
    tensor = torch.full((20 * MIB,), 7.0, device="cuda")
    torch.cuda.synchronize()
    inbox.put(tensor)
    assert outbox.get(timeout=WAIT) == 7
    assert receiver.end() == -signal.SIGKILL
    assert bool((tensor == 7).all())
    tensor.add_(1)
    assert bool((tensor == 8).all())


def check_weights_that_are_updated_in_place_also_around_sleep():
    receiver = Receiver(watches)
    inbox, outbox = receiver.queues
    weights = torch.full((20 * MIB,), 1.0, device="cuda")
    other = torch.full((40 * MIB,), 5.0, device="cuda")
    torch.cuda.synchronize()
    inbox.put(weights)
    assert outbox.get(timeout=WAIT) == 1
    for step in range(2, 5):
        weights.fill_(step)
        torch.cuda.synchronize()
        inbox.put(True)
        assert outbox.get(timeout=WAIT) == step
    asleep = stalloc.pause()
    assert asleep >= other.nbytes - 32 * MIB, f"{asleep} sleep"
    weights.fill_(9)  # which is awake, since somebody has it
    torch.cuda.synchronize()
    inbox.put(True)
    assert outbox.get(timeout=WAIT) == 9
    stalloc.resume()
    assert bool((weights == 9).all()) and bool((other == 5).all())
    inbox.put(False)
    assert receiver.end() == 0


if __name__ == "__main__":
    gpu.run(globals())
