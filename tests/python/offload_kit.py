"""For tests of optimizer states that lend their memory: a double of the library that overwrites
what is away, and small models that train."""

import pytest
from stalloc import StallocWarning, Stats, _lend, _offload


class Memory:
    """The calls that offload() makes, in order; what is away is poisoned until it is back."""

    def __init__(self):
        self.calls, self.regions, self.saved = [], {}, {}
        self.inside, self.fails = None, 0
        self.more, self.changed = [], []  # of each end: whether others follow, and what it says
        self.away, self.stays = set(), False  # closed regions; nothing leaves
        self.uses, self.streams = {}, {}  # by region: begun and not ended; that wait for it

    @property
    def moved(self):
        return [tensor for tag in self.regions for tensor in self.tensors(tag)]

    def tensors(self, tag):
        """The blocks of a region; it keeps none alive."""
        import torch

        alive = [(torch.UntypedStorage._new_with_weak_ptr(x.cdata), x) for x in self.regions[tag]]
        self.regions[tag] = [weak for storage, weak in alive if storage is not None]
        whole = torch.tensor([], dtype=torch.uint8)
        return [whole.new_tensor([]).set_(x) for x, _ in alive if x is not None]

    def stats(self, device):
        return Stats(asleep=0 if self.stays else len(self.away))

    def begin_region(self, tag):
        self.inside = tag

    def end_region(self):
        self.inside = None

    def begin_awake(self, device, tag, stream):
        if self.calls.count("begin") + 1 == self.fails:
            raise MemoryError
        self.uses[tag] = self.uses.get(tag, 0) + 1
        self.streams.setdefault(tag, []).append(stream)
        if self.uses[tag] > 1:
            return  # nothing of it is away
        self.calls.append("begin")
        self.away.discard(tag)
        for tensor in self.tensors(tag):
            tensor.copy_(self.saved[tensor.data_ptr()])

    def end_awake(self, device, tag, stream, changed, always, more):
        self.uses[tag] = max(self.uses.get(tag, 0) - 1, 0)
        if self.uses[tag]:
            return
        self.more.append(more)
        self.changed.append(changed)
        self.calls.append("always" if always else "end")
        self.away.add(tag)
        for tensor in self.tensors(tag):
            self.saved[tensor.data_ptr()] = tensor.clone()
            tensor.fill_(0xFF)


@pytest.fixture
def memory(monkeypatch):
    import torch

    memory = Memory()
    empty = torch.empty

    def allocate(*args, **kwargs):
        tensor = empty(*args, **kwargs)
        if memory.inside:
            weak = torch.multiprocessing.reductions.StorageWeakRef(tensor.untyped_storage())
            memory.regions.setdefault(memory.inside, []).append(weak)
        return tensor

    monkeypatch.setattr(torch, "empty", allocate)
    monkeypatch.setattr(_offload.Part, "kind", "cpu")
    monkeypatch.setattr(_lend, "current_stream", lambda torch, device: 0)
    monkeypatch.setattr(_offload._torch, "is_capturing", lambda torch: memory.capturing)
    monkeypatch.setattr(_offload._session, "active", lambda: (torch, memory))
    memory.capturing = False
    return memory


def model():
    import torch

    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(600, 600), torch.nn.Linear(600, 8))


def train(net, optimizer, steps=3, begin=0):
    import torch

    losses = []
    for n in range(begin, steps):
        x = torch.full((4, 600), 0.01 * (n + 1))
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def adam(net, **more):
    import torch

    return torch.optim.AdamW(net.parameters(), lr=0.01, **more)


def offloaded():
    """A model, its optimizer that lends its states, and the losses of four steps without."""
    net = model()
    losses = train(net, adam(net), 4)
    net = model()
    return net, _offload.offload(adam(net)), losses


def stays_while_held(memory, net, optimizer, hold):
    """After two steps `hold` gets a reference: the states stay for a step, and leave later."""
    train(net, optimizer, 2)
    assert len(memory.moved) > 1
    held = hold()
    with pytest.warns(StallocWarning, match="referenced from outside"):
        train(net, optimizer, 1)
    assert memory.calls[-1] == "begin"
    del held
    train(net, optimizer, 1)
    assert memory.calls[-1] == "end"


def closures(net, optimizer, steps):
    """Losses of steps that compute them themselves."""
    import torch

    losses = []
    for n in range(steps):
        x = torch.full((4, 600), 0.01 * (n + 1))

        def closure(x=x):
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            return loss

        losses.append(optimizer.step(closure).item())
    return losses
