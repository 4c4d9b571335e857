"""What NCCL does with memory that it can export."""

import os
from types import ModuleType
from typing import Optional

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
