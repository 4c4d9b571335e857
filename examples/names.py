"""What tables call the allocators that examples name as settings."""

NAMES = {
    "native": "native",
    "expandable": "expandable segments",
    "async": "cudaMallocAsync",
    "stalloc:pool=gmlake": "GMLake's",
    "stalloc": "stalloc",
}


def name(allocator):
    return NAMES.get(allocator, allocator)
