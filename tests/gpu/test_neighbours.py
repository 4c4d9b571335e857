"""NCCL and symmetric memory beside stalloc: each way with and without memory that can be shared.

With one GPU there is nobody to register memory with, and the table says so. What NCCL says of
registrations is counted, not judged: its words change from version to version.
"""

import gpu

HOOK = {"TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK": "1"}


def ranks(way, share, **environment):
    """Runs a way with torchrun, a rank a GPU; what its rank 0 and NCCL's log say of it."""
    import torch

    if torch.cuda.device_count() < 2:
        return "not run: there are no two GPUs"
    log = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,REG"}
    conf = f"cache:off,share:{share}"
    said, lines = gpu.torchrun("neighbours.py", way, STALLOC_CONF=conf, **log, **environment)
    assert said["served"], "stalloc did not serve"
    registered = sum("NCCL INFO" in line and "egister" in line for line in lines)
    return f"{said['world']} ranks; {registered} lines of NCCL's log are about registering"


def check_plain():
    return ranks("plain", "off")


def check_plain_to_be_shared():
    return ranks("plain", "fd")


def check_the_hook_registers_all():
    return ranks("plain", "off", **HOOK)


def check_the_hook_registers_all_to_be_shared():
    return ranks("plain", "fd", **HOOK)


def check_a_registered_pool():
    return ranks("pool", "off")


def check_a_registered_pool_with_the_hook():
    return ranks("pool", "fd", **HOOK)


def check_a_graph_with_tensors_from_outside():
    return ranks("graph", "off")


def check_a_graph_with_tensors_from_outside_to_be_shared():
    return ranks("graph", "fd")


def check_a_graph_with_the_hook():
    return ranks("graph", "fd", **HOOK)


def check_symmetric_memory():
    return ranks("symmetric", "fd")


if __name__ == "__main__":
    gpu.run(globals())
