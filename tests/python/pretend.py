"""Reports of training runs, for benchmarks that run nothing."""


def step(seconds, retries=0, driver=(0.0, 0), **more):
    """A step of a report. `driver` has its seconds there, and its calls."""
    threads = {"main": 0.01, "autograd": 0.02, "others": 0.005}
    counted = {"driver_seconds": driver[0], "driver_calls": driver[1]}
    counted |= {"waits": 1, "wait_ns": 2_000_000}
    return {"seconds": seconds, "retries": retries, "thread_seconds": threads, **counted, **more}
