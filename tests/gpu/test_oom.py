"""Running out of memory: an error that Python catches, in any thread, and life after it."""

import gpu
from gpu import GIB, MIB

torch, stalloc = gpu.start()

CAP = 4 * GIB


def block(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def refused(size):
    """The message with which a request of this size is refused."""
    try:
        block(size)
    except RuntimeError as error:
        assert "out of memory" in str(error), error
        return str(error)
    raise AssertionError(f"{size} bytes were given out under a cap of {CAP}")


def check_more_than_the_cap():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(CAP / total)
    before = torch.cuda.memory_stats()["num_ooms"]
    message = refused(2 * CAP)
    assert torch.cuda.memory_stats()["num_ooms"] == before + 1
    return f"explained in {len(message.splitlines())} lines"


def check_tensors_live_on():
    kept = torch.arange(1000, device="cuda")
    refused(2 * CAP)
    assert int((kept + block(1000)[:1].zero_()).sum()) == 499500


def check_filling_up():
    blocks = []
    try:
        while len(blocks) < 32:
            blocks.append(block(256 * MIB))
    except RuntimeError as error:
        assert "out of memory" in str(error), error
    count = len(blocks)
    assert 14 <= count <= 16, f"{count} blocks of 256 MiB in {CAP / GIB} GiB"
    assert torch.cuda.memory_reserved() <= CAP
    del blocks[::2]
    blocks.append(block(count // 2 * 256 * MIB - 128 * MIB))  # of the holes together
    blocks[-1].fill_(1)
    blocks.clear()
    block(CAP - 256 * MIB).fill_(1)
    return f"{count} blocks, and what their holes add up to in one piece"


class Greedy(torch.autograd.Function):
    """Asks for too much, in the backward pass: in autograd's own thread."""

    @staticmethod
    def forward(context, x):
        return x * 2

    @staticmethod
    def backward(context, gradient):
        block(2 * CAP)
        return gradient


def check_in_the_backward_pass():
    x = torch.ones(4, device="cuda", requires_grad=True)
    for _ in range(3):
        try:
            Greedy.apply(x).sum().backward()
        except RuntimeError as error:
            assert "out of memory" in str(error), error
        else:
            raise AssertionError("the backward pass did not fail")
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0] * 4


def check_training_goes_on():
    torch.manual_seed(1)
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4))).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    data = torch.randn(256, 1024, device="cuda")
    losses = []
    for number in range(12):
        loss = (model(data) - data).square().mean()
        loss.backward()
        if number % 4 == 2:
            refused(2 * CAP)
        optimizer.step()
        optimizer.zero_grad()
        stalloc.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0], losses


def check_without_the_cap_again():
    torch.cuda.set_per_process_memory_fraction(1.0)
    free = torch.cuda.mem_get_info()[0]
    if free < CAP + 4 * GIB:
        return f"not tried: only {free / GIB:.1f} GiB of the device are free"
    block(CAP + GIB).fill_(1)


if __name__ == "__main__":
    gpu.run(globals())
