"""The processes of a job: those that torchrun started, or one beside fake others.

PyTorch's fake process group stands for the others. It answers at once, and what it does not write
into an output is whatever lay there. So outputs are filled: a rank asks for memory as beside real
ones, and computes with finite numbers, for a GPU is faster with NaN.
"""

import atexit
import functools
import os

import harness


def add_argument(group):
    group.add_argument(
        "--ranks",
        type=harness.positive,
        default=1,
        help="be one of so many, the others fake (default: those that torchrun started)",
    )


def join(device, ranks=1):
    """Joins the other processes; a job of one has all collective calls, with nobody to talk to.

    False: this process has trained before, and is still joined.
    """
    import torch

    if torch.distributed.is_initialized():
        return False
    if device.type == "cuda":
        torch.cuda.set_device(device)
    started = int(os.environ.get("WORLD_SIZE", 1)) if "RANK" in os.environ else 0
    backend = "nccl" if device.type == "cuda" else "gloo"
    if started and ranks in (1, started):
        torch.distributed.init_process_group(
            backend,
            init_method=os.environ.get("RENDEZVOUS"),  # None: as torchrun says
            rank=int(os.environ["RANK"]),
            world_size=started,
        )
    elif ranks > 1:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        fill_outputs(torch.distributed.ProcessGroup)
        torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    else:
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group(backend, store=store, rank=0, world_size=1)
    atexit.register(torch.distributed.destroy_process_group)
    return True


# By the name of a ProcessGroup's method: how its first two arguments are filled. torch.distributed
# calls these, whatever function of it a library has imported under whatever name.
METHODS = {
    "recv": "received",
    "recv_anysource": "received",
    "broadcast": "received",
    "scatter": "received",
    "gather": "received",
    "allgather": "gathered",
    "_allgather_base": "gathered",
    "allgather_coalesced": "gathered",
    "allgather_into_tensor_coalesced": "gathered",
    "reduce_scatter": "scattered",
    "_reduce_scatter_base": "scattered",
    "reduce_scatter_tensor_coalesced": "scattered",
    "alltoall": "exchanged",
    "alltoall_base": "exchanged",
}


def fill_outputs(group):
    """Has the methods of a class of process groups fill what they return, once.

    All groups of the process are of that class, the fake one and those that are made from it.
    """
    for method, what in METHODS.items():
        plain = getattr(group, method, None)
        if plain is None or hasattr(plain, "fills"):
            continue

        @functools.wraps(plain)
        def filled(self, outputs, *arguments, plain=plain, what=what, **named):
            work = plain(self, outputs, *arguments, **named)
            fill(what, tensors_of(outputs), tensors_of(arguments[0]) if arguments else [])
            return work

        filled.fills = True
        setattr(group, method, filled)


def tensors_of(value):
    """The tensors in nested lists, in their order."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in tensors_of(part)]
    return []


def fill(what, outputs, inputs):
    """Fills outputs with what ranks that are all like this one would send; where shapes tell
    nothing of that, with small values. Takes no memory of its own: it is what is measured.
    """
    import torch

    with torch.no_grad():
        place = 0  # in a single input that several outputs are parts of
        given = inputs[0].numel() if inputs else 0
        for i, output in enumerate(outputs):
            n, source = output.numel(), None
            if what == "gathered" and given and n % given == 0 and inputs[0].dtype == output.dtype:
                for part in output.view(-1, given).unbind():
                    copy(part, inputs[0].reshape(-1))
                continue
            if what in ("scattered", "exchanged") and len(inputs) == 1:
                if place + n <= given:
                    source = inputs[0].reshape(-1)[place : place + n].view(output.shape)
                place += n
            elif what in ("scattered", "exchanged") and i < len(inputs):
                source = inputs[i] if inputs[i].shape == output.shape else None
            if source is not None and source.dtype == output.dtype:
                copy(output, source)
            else:
                small(output)


def copy(to, source):
    """Copies, but for what is in place already: an input may be a part of its output."""
    if to.data_ptr() != source.data_ptr():
        to.copy_(source)


def small(output):
    """Values as activations and gradients have them: what is in the tensor does not count."""
    import torch

    if not output.is_floating_point():
        output.zero_()
        return
    generator = torch.Generator(output.device).manual_seed(output.numel())
    output.normal_(0, 1e-3, generator=generator)
