"""NCCL and our memory: pools that are registered, and a bug of older releases."""

import functools
import os
from types import ModuleType
from typing import Any, Optional

# The ids of registered MemPools: for each registration whether it is as a symmetric window. When a
# process group ends nothing is reported, so its pools stay here.
pools: dict[tuple[int, int], list[bool]] = {}

LAST_WRONG = (2, 31, 2)  # the newest release before nccl#2362


def why_wrong(torch: ModuleType, share: Optional[str]) -> Optional[str]:
    """Why buffers of several handles may reach other GPUs at wrong addresses, or None.

    NCCL registers the buffers of a graph if they can be exported. Releases before nccl#2362 then
    import only one handle and use its address for the neighbouring handles, too.
    """
    if share not in ("fd", "fabric") or os.environ.get("NCCL_GRAPH_REGISTER") == "0":
        return None
    try:
        version = tuple(torch.cuda.nccl.version()[:3])
    except (AttributeError, RuntimeError, TypeError):
        return None  # built without NCCL
    if version > LAST_WRONG:
        return None
    return (
        f"NCCL {'.'.join(map(str, version))} may use wrong addresses of other GPUs where it "
        f"registers memory of several handles, which share:{share} lets it do (nccl#2362); take a "
        f"newer NCCL, or set NCCL_GRAPH_REGISTER=0 and do not register buffers"
    )


def watch(torch: ModuleType) -> None:
    """Tracks registrations of pools from now on: PyTorch cannot be asked for them later."""
    group: Any = getattr(getattr(torch._C, "_distributed_c10d", None), "ProcessGroupNCCL", None)
    if not hasattr(group, "deregister_mem_pool"):
        return  # built without NCCL, or older than that
    register, deregister = group.register_mem_pool, group.deregister_mem_pool

    @functools.wraps(register)
    def registers(backend: Any, pool: Any, *args: Any, **kwargs: Any) -> Any:
        result = register(backend, pool, *args, **kwargs)
        symmetric = args[0] if args else kwargs.get("symm", False)
        pools.setdefault(tuple(pool.id), []).append(bool(symmetric))
        return result

    @functools.wraps(deregister)
    def deregisters(backend: Any, pool: Any) -> Any:
        result = deregister(backend, pool)
        times = pools.get(tuple(pool.id), [])
        if len(times) <= 1:
            pools.pop(tuple(pool.id), None)
        else:
            times.pop()
        return result

    group.register_mem_pool, group.deregister_mem_pool = registers, deregisters
