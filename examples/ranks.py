"""The processes of a job: those that torchrun started, or one beside fake others.

PyTorch's fake process group stands for the others. It answers at once and with anything, so that
losses mean nothing, but a rank asks for memory as it does beside real ones.
"""

import atexit
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

        torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    else:
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group(backend, store=store, rank=0, world_size=1)
    atexit.register(torch.distributed.destroy_process_group)
    return True
