"""What NCCL does with memory: pools that are registered, and what it can export."""

import functools
import os
from types import ModuleType
from typing import Any, Optional

# The ids of MemPools that are registered: for each time whether as symmetric windows. A process
# group that ends does not say so, and the pool stays here.
pools: dict[tuple[int, int], list[bool]] = {}

LAST_WRONG = (2, 31, 2)  # the newest release before nccl#2362


def why_wrong(torch: ModuleType, share: Optional[str]) -> Optional[str]:
    """Why buffers of several handles may reach other GPUs at wrong addresses, or None.

    NCCL registers what a graph uses if it can be exported. A release before nccl#2362 then
    imports one handle and uses the address for its neighbours, too.
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
    """Hears of pools that are registered from now on: PyTorch tells nobody afterwards."""
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
