"""Forked DataLoader workers beside training: they end, and their parent's memory is untouched."""

import os

import gpu

torch, stalloc = gpu.start()


class Images(torch.utils.data.Dataset):
    """Images of one grey each. In a worker it drops a tensor of its parent's on the GPU."""

    def __init__(self, count, inherited=None):
        self.count, self.inherited, self.parent = count, inherited, os.getpid()

    def __len__(self):
        return self.count

    def __getitem__(self, place):
        if os.getpid() != self.parent:
            self.inherited = None
        return torch.full((3, 32, 32), place / self.count), place


def train(loader, model, optimizer):
    seen = 0
    for images, places in loader:
        images = images.cuda(non_blocking=True)
        scores = model(images)
        torch.nn.functional.cross_entropy(scores, places.cuda() % 10).backward()
        optimizer.step()
        optimizer.zero_grad()
        stalloc.step()
        assert torch.equal(images[:, 2, 31, 31].cpu(), places / loader.dataset.count)
        seen += len(places)
    return seen


def loader(workers, **options):
    # The dataset holds the only reference: a worker that drops it frees the tensor.
    dataset = Images(512, torch.arange(1 << 20, device="cuda"))
    return torch.utils.data.DataLoader(
        dataset, batch_size=32, num_workers=workers, multiprocessing_context="fork", **options
    )


def untouched(loader):
    return torch.equal(loader.dataset.inherited, torch.arange(1 << 20, device="cuda"))


def model():
    torch.manual_seed(5)
    made = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10)
    ).cuda()
    made(torch.zeros(1, 3, 32, 32, device="cuda"))
    return made, torch.optim.SGD(made.parameters(), lr=0.01)


def check_new_workers_every_epoch():
    data = loader(4, pin_memory=True)
    trained, optimizer = model()
    for _ in range(3):
        assert train(data, trained, optimizer) == 512
    assert untouched(data)


def check_workers_that_stay():
    data = loader(4, pin_memory=True, persistent_workers=True)
    trained, optimizer = model()
    for _ in range(3):
        assert train(data, trained, optimizer) == 512
    assert untouched(data)


def check_an_epoch_left_in_the_middle():
    data = loader(4)
    trained, _ = model()
    for _ in range(5):
        for images, _ in data:
            trained(images.cuda()).sum().backward()
            break
    assert untouched(data)


def check_many_children():
    """Forked while memory is held and used; each child frees its copies of the tensors."""
    held = [torch.ones(1 << 18, device="cuda") for _ in range(20)]
    children = []
    for _ in range(20):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                held.clear()
                stalloc.step()
                status = 0
            finally:
                os._exit(status)  # whatever happens, a child must not run the other checks
        children.append(child)
        torch.ones(1 << 20, device="cuda").sum().item()
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    assert all(float(x.sum()) == 1 << 18 for x in held)


if __name__ == "__main__":
    gpu.run(globals())
