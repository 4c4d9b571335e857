"""A limit on what a training run may hold of its device.

PyTorch's own limit holds for its caching allocator and for stalloc. cudaMallocAsync's memory is
the driver's, which knows no limit: there a plain allocation takes the rest of the device.
"""

import ctypes

GIB = 1 << 30
KERNELS = 256 << 20  # bytes left beside the limit for what the driver loads later

_taken = []


def limit(device, allocator, gib):
    """Lets this process hold so many GiB from now on. Before the first tensors of a run."""
    import torch

    if allocator == "async":
        torch.ones(64, 64, device=device, dtype=torch.bfloat16).mm(  # makes cuBLAS's handle
            torch.ones(64, 64, device=device, dtype=torch.bfloat16)
        )
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        take(torch.cuda.mem_get_info(device)[0] - int(gib * GIB) - KERNELS)
        return
    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, gib * GIB / total), device)


def lift():
    """Takes the limit away."""
    import torch

    torch.cuda.set_per_process_memory_fraction(1.0)
    while _taken:
        _driver().cuMemFree_v2(_taken.pop())


def take(size):
    """Takes so many bytes of the device from all allocators."""
    if size <= 0:
        return
    place = ctypes.c_uint64()
    status = _driver().cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(size))
    if status:
        raise RuntimeError(f"cuMemAlloc of {size} bytes, the rest of the device: error {status}")
    _taken.append(place)


def _driver():
    return ctypes.CDLL("libcuda.so.1")
