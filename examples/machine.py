"""The GPUs that a benchmark has here."""

import dataclasses

SPARE = 3  # GiB of a device that contexts take, of processes that wait as well


@dataclasses.dataclass(frozen=True)
class Machine:
    gpus: int  # that are used
    memory: float = 0  # of each, in GiB
    device: str = ""  # its name


def here(program, most=2):
    """The machine here, with so many GPUs. Raises SystemExit, in the program's name, where there
    is none."""
    import torch

    gpus = min(torch.cuda.device_count(), most)
    if not gpus:
        raise SystemExit(f"{program}: no GPU here; --table shows what was measured")
    about = torch.cuda.get_device_properties(0)
    return Machine(gpus, about.total_memory / (1 << 30), about.name)
