"""An allocator to be scored: each block at the lowest address that is free.

    stalloc score tests/traces/llama_naive.csv.gz -- python3 examples/first_fit.py

Memory is taken from the device in pages of 2 MiB, from address 0 up, and never given back.
"""

import bisect
import sys

PAGE = 2 << 20


def main() -> None:
    live: list[tuple[int, int]] = []  # where blocks begin and end, in order
    at: dict[str, tuple[int, int]] = {}  # by name
    capacity = reserved = 0
    for line in sys.stdin:
        kind, *fields = line.rstrip("\n").split(",")
        if kind == "c":
            capacity = int(fields[0])
        elif kind == "a":
            name, size = fields[0], max(512, (int(fields[1]) + 511) // 512 * 512)
            address = 0
            for begin, end in live:
                if begin - address >= size:
                    break
                address = end
            needed = max(reserved, (address + size + PAGE - 1) // PAGE * PAGE)
            if needed > capacity:
                print("full", flush=True)
                return
            reserved = needed
            at[name] = (address, address + size)
            bisect.insort(live, at[name])
            print(f"{address},{reserved}", flush=True)
        elif kind == "f" and fields[0] in at:
            block = at.pop(fields[0])
            del live[bisect.bisect_left(live, block)]
        elif kind == "q" or kind == "# end" or kind.startswith("# step "):
            print(reserved, flush=True)


if __name__ == "__main__":
    main()
