"""Programs whose activations move, each in its own way: a forward pass within hooks() and a
backward pass. Each returns a tensor to compare. They import torch, so tests import this late."""

import threading

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDTH = 512


def weight(scale=1 / 30):
    made = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(1)) * scale
    return nn.Parameter(made)


def batch():
    return torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(2))


def _forward(hooks):
    """A parameter, and a loss of it."""
    p = weight()
    with hooks():
        return p, (batch() @ p).exp().sin().sum()


def plain(hooks):
    p = weight()
    with hooks():
        loss = (batch() @ p).exp().sin().square().sum()
    loss.backward()
    return p.grad


def views_of_one_storage(hooks):
    p = weight()
    with hooks():
        y = batch() @ p
        first, second = y.chunk(2, 0)
        z = (first * second).exp()
        mixed = y.t().contiguous() * y.t()
        loss = z.sum() + mixed.sum()
    del first, second, y, z, mixed
    loss.backward()
    return p.grad


def retain_graph(hooks):
    p, loss = _forward(hooks)
    loss.backward(retain_graph=True)
    loss.backward()
    return p.grad


def double_backward(hooks):
    p, loss = _forward(hooks)
    (gradient,) = torch.autograd.grad(loss, p, create_graph=True)
    gradient.square().sum().backward()
    return p.grad


def double_backward_within(hooks):
    p = weight()
    with hooks():
        loss = (batch() @ p).exp().sin().sum()
        (gradient,) = torch.autograd.grad(loss, p, create_graph=True)
        gradient.square().sum().backward()
    return p.grad


def checkpointed(hooks):
    return _checkpointed(hooks, use_reentrant=False)


def reentrant(hooks):
    return _checkpointed(hooks, use_reentrant=True)


def _checkpointed(hooks, use_reentrant):
    p = weight()

    def layer(t):
        return (t @ p).exp().sin()

    with hooks():
        z = checkpoint(layer, batch() @ p, use_reentrant=use_reentrant)
        z = checkpoint(layer, z, use_reentrant=use_reentrant)
        loss = z.square().sum()
        del z
        loss.backward()
    return p.grad


def compiled(hooks):
    p = weight()
    function = torch.compile(lambda t: (t @ p).exp().sin(), backend="aot_eager")
    with hooks():
        loss = function(batch()).sum()
    loss.backward()
    return p.grad


def autocast(hooks):
    first, second = weight(), nn.Parameter(torch.cat([weight().detach()] * 2))
    with hooks(), torch.autocast("cpu", dtype=torch.bfloat16):
        y = nn.functional.linear(nn.functional.linear(batch(), first), second)
        loss = y.float().exp().sum()
    loss.backward()
    return first.grad


def held_by_the_program(hooks):
    p = weight()
    with hooks():
        y = (batch() @ p).exp()
        loss = y.sin().exp().sin().sum()
    loss.backward()
    return p.grad + y.sum().detach()


def no_backward(hooks):
    p, loss = _forward(hooks)
    del loss
    with hooks(), torch.no_grad():
        (batch() @ p).exp()
    return plain(hooks)


def expanded(hooks):
    p = nn.Parameter(torch.ones(WIDTH))
    with hooks():
        loss = (p.sin().expand(WIDTH, WIDTH) * batch().exp()).exp().sum()
    loss.backward()
    return p.grad


def conjugated(hooks):
    p = weight()
    with hooks():
        c = torch.complex(p.sin(), p.cos())
        loss = (c.conj() * c @ c.conj()).abs().sum()
    loss.backward()
    return p.grad


def nested(hooks):
    p = weight()
    with hooks():
        y = (batch() @ p).exp().sin()
        ragged = torch.nested.as_nested_tensor([y[:200], y[200:]])
        loss = torch.nested.to_padded_tensor(ragged * ragged, 0.0).sum()
    loss.backward()
    return p.grad


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return gradient * y + 0 * x


def own_function(hooks):
    p = weight()
    with hooks():
        loss = Exp.apply(batch() @ p).sin().sum()
    loss.backward()
    return p.grad


def other_thread(hooks):
    p = weight()
    with hooks():
        loss = (batch() @ p).exp().sin().sum()
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()
    return p.grad


class Sub(torch.Tensor):
    pass


def subclass(hooks):
    p = weight()
    with hooks():
        loss = (batch().as_subclass(Sub) @ p).exp().sin().sum()
    loss.backward()
    return p.grad


def gathered_parameter(hooks):
    """As FSDP does: the storage is emptied after the forward pass, and gathered again."""
    p, q = weight(), weight(1 / 20)
    kept = q.detach().clone()
    with hooks():
        loss = ((batch() @ p) @ q.t()).exp().sum()
    storage = q.untyped_storage()
    size = storage.nbytes()
    storage.resize_(0)
    storage.resize_(size)
    with torch.autograd._unsafe_preserve_version_counter(q), torch.no_grad():
        q.copy_(kept)
    loss.backward()
    return p.grad


def exchanged_parameter(hooks):
    """As DeepSpeed does: the parameter has other memory in the backward pass."""
    p, q = weight(), weight(1 / 20)
    gathered = q.data
    with hooks():
        loss = ((batch() @ p).exp() * q.sum() @ q).sum()
    q.data = torch.empty(0)
    q.data = gathered.clone()
    gathered.fill_(float("nan"))
    loss.backward()
    return p.grad


def changed_before(hooks):
    p = weight()
    with hooks():
        y = (batch() @ p).exp()
        y.mul_(2)
        loss = y.sin().sum()
    loss.backward()


def changed_after(hooks):
    p = weight()
    with hooks():
        y = (batch() @ p).exp()
        loss = (y * 2).sum()
    y.add_(1)
    loss.backward()


def changed_parameter(hooks):
    p, q = weight(), weight()
    with hooks():
        loss = (batch() @ p @ q).sum()
    with torch.no_grad():
        q.add_(1)
    loss.backward()


def changed_alias(hooks):
    """What was saved last lives on under another name, and is changed there."""
    p = weight()
    with hooks():
        y = (batch() @ p).exp()
        alias = y[:10]
        loss = y.sum()
    del y
    alias.zero_()
    loss.backward()
