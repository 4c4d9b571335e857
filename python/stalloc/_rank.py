"""Which process of a distributed program this is, as its launcher says in the environment."""

import os
from typing import Optional

# torchrun, DeepSpeed, accelerate and Megatron-LM set the first; then Slurm and MPI; last what
# Lightning's own launcher sets. cshim/lib/log.c has the same list.
VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "LOCAL_RANK")
WORLDS = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def rank() -> Optional[int]:
    """The rank, None where nothing says that there are several."""
    return _first(VARIABLES)


def world_size() -> int:
    """How many processes there are, as far as the environment says: else 1."""
    return _first(WORLDS) or 1


def name() -> str:
    """What lines of the log begin with: "stalloc", of several ranks "stalloc[3]"."""
    number = rank()
    return "stalloc" if number is None else f"stalloc[{number}]"


def expand(text: str) -> str:
    """The text with the rank for each %r, 0 where there is none: for names of files."""
    return text.replace("%r", str(rank() or 0))


def _first(names: tuple[str, ...]) -> Optional[int]:
    for variable in names:
        text = os.environ.get(variable, "")
        if text.isascii() and text.isdigit():
            return int(text)
    return None
