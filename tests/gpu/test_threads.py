"""Many threads and streams at once: every tensor keeps its own bytes until it is freed."""

import queue
import random
import threading
import time

import gpu
from gpu import MIB

torch, stalloc = gpu.start()

THREADS, SECONDS = 8, 6
SEED = 20240607


class Worker(threading.Thread):
    """Makes tensors of one pattern each on a stream of its own and checks them before freeing.

    Some it hands to its neighbour, who checks and frees them.
    """

    def __init__(self, number, inbox, outbox, end):
        super().__init__()
        self.number, self.inbox, self.outbox, self.end = number, inbox, outbox, end
        self.stream = torch.cuda.Stream()
        self.draw = random.Random(SEED + number)
        self.made = self.passed = 0
        self.fault = None

    def run(self):
        try:
            with torch.cuda.stream(self.stream):
                held = []
                while time.monotonic() < self.end and self.fault is None:
                    held.append(self.make())
                    if len(held) > 24:
                        self.release(held.pop(self.draw.randrange(len(held))))
                    self.receive()
                while held:
                    self.check(*held.pop())
        except Exception as error:
            self.fault = f"{type(error).__name__}: {error}"

    def make(self):
        self.made += 1
        tag = self.number << 24 | self.made & 0xFFFFFF
        words = self.draw.choice((1, 100, 5000, MIB // 4, MIB, self.draw.randrange(1, 3 * MIB)))
        return torch.full((words,), tag, dtype=torch.int32, device="cuda"), tag

    def release(self, held):
        if self.draw.random() < 0.2:
            self.stream.synchronize()  # the neighbour's stream does not wait for this one
            self.outbox.put(held)
            self.passed += 1
        elif self.draw.random() < 0.5:
            self.check(*held)

    def receive(self):
        try:
            tensor, tag = self.inbox.get_nowait()
        except queue.Empty:
            return
        self.check(tensor, tag)
        tensor.record_stream(self.stream)

    def check(self, tensor, tag):
        wrong = int((tensor != tag).sum())
        if wrong:
            raise AssertionError(f"{wrong} of {tensor.numel()} words of tensor {tag:#x} changed")


def hammer(between):
    """Runs the threads; `between` is called by the main thread all the while."""
    boxes = [queue.SimpleQueue() for _ in range(THREADS)]
    end = time.monotonic() + SECONDS
    workers = [Worker(n, boxes[n], boxes[(n + 1) % THREADS], end) for n in range(THREADS)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        between()
        time.sleep(0.005)
    faults = [f"thread {w.number}: {w.fault}" for w in workers if w.fault]
    assert not faults, f"seed {SEED}: {faults}"
    made, passed = sum(w.made for w in workers), sum(w.passed for w in workers)
    assert made > 100 * THREADS, f"only {made} tensors in {SECONDS} s"
    return f"{made} tensors, {passed} of them freed by another thread"


def check_threads_with_streams_of_their_own():
    return hammer(lambda: None)


def check_threads_while_steps_end():
    words = hammer(stalloc.step)
    return f"{words}, {stalloc.stats().plan_generation} plans"


def check_threads_while_the_cache_is_emptied():
    return hammer(torch.cuda.empty_cache)


def check_backward_passes_in_several_threads():
    """Autograd's device thread serves all of them."""
    faults = []

    def train(number):
        with torch.cuda.stream(torch.cuda.Stream()):
            model = torch.nn.Linear(256, 256).cuda()
            for _ in range(50):
                x = torch.full((64, 256), float(number), device="cuda", requires_grad=True)
                model(x).sum().backward()
                expected = model.weight.detach().sum(0).expand_as(x)
                if not torch.allclose(x.grad, expected, atol=1e-4):
                    faults.append(number)

    threads = [threading.Thread(target=train, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults


if __name__ == "__main__":
    gpu.run(globals())
