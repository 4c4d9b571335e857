"""The GPUs that a benchmark has here."""

import dataclasses

SPARE = 3  # GiB of a device that contexts take, of processes that wait as well


@dataclasses.dataclass(frozen=True)
class Machine:
    gpus: int  # of these two are used at most
    memory: float = 0  # of each, in GiB
    device: str = ""  # its name


def here(program):
    """The machine here. Raises SystemExit, in the program's name, where there is no GPU."""
    import torch

    gpus = min(torch.cuda.device_count(), 2)
    if not gpus:
        raise SystemExit(f"{program}: no GPU here; --table shows what was measured")
    about = torch.cuda.get_device_properties(0)
    return Machine(gpus, about.total_memory / (1 << 30), about.name)
