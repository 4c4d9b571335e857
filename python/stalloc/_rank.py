"""The process's rank in a distributed program, from its launcher's environment variables."""

import os
from typing import Optional

# Set by torchrun, DeepSpeed, accelerate and Megatron-LM (the first), by Slurm, MPI, and Lightning's
# own launcher. cshim/lib/log.c has the same list.
VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "LOCAL_RANK")
WORLDS = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def rank() -> Optional[int]:
    """The rank; None without a launcher."""
    return _first(VARIABLES)


def world_size() -> int:
    """How many processes there are according to the environment; 1 if it says nothing."""
    return _first(WORLDS) or 1


def name() -> str:
    """The prefix of log lines: "stalloc", or with ranks "stalloc[3]"."""
    number = rank()
    return "stalloc" if number is None else f"stalloc[{number}]"


def expand(text: str) -> str:
    """Replaces each %r in a file name by the rank, or by 0 if there is none."""
    return text.replace("%r", str(rank() or 0))


def _first(names: tuple[str, ...]) -> Optional[int]:
    for variable in names:
        text = os.environ.get(variable, "")
        if text.isascii() and text.isdigit():
            return int(text)
    return None
