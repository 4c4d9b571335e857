"""The counters of one device, as stalloc.stats() returns them."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Stats:
    """One device's counters since the process began, in the order of struct stalloc_stats.

    Sizes are bytes. ``allocated`` sums the live blocks' rounded sizes, ``requested`` the sizes that
    were asked for; ``active`` adds blocks that were freed but are still used by another stream;
    ``reserved`` is the physical device memory held. ``hits`` and ``misses`` count the requests
    made while there was a plan: those served at their planned offsets, and the others.
    ``fallback`` counts the requests that plain driver allocations served because the engine could
    not: explain() says why. ``native_peak_reserved`` is the peak of what PyTorch's own allocator
    would have reserved for the same requests on this device, simulated for the first
    ``native_steps`` steps, 0 if unknown; ``native_ooms`` is 1 if the device would have been full.
    ``asleep`` are the bytes of tensors that are away: what pause() released, and what offload() and
    awake() have lent (``lent``). ``backup`` is the host memory that is kept for them, and for the
    next pause.
    ``waits`` counts the requests that waited for other streams (``wait_ns`` in all) to avoid new
    memory; the device had work meanwhile.

    print() shows the main figures.
    """

    requests: int = 0
    hits: int = 0
    misses: int = 0
    steps: int = 0
    plan_generation: int = 0
    allocated: int = 0
    peak_allocated: int = 0
    requested: int = 0
    peak_requested: int = 0
    active: int = 0
    peak_active: int = 0
    reserved: int = 0
    peak_reserved: int = 0
    allocated_total: int = 0
    freed_total: int = 0
    blocks: int = 0
    peak_blocks: int = 0
    blocks_total: int = 0
    driver_calls: int = 0
    driver_ns: int = 0
    ooms: int = 0
    retries: int = 0
    lost_events: int = 0
    fallback: int = 0
    native_peak_reserved: int = 0
    native_steps: int = 0
    native_ooms: int = 0
    asleep: int = 0
    backup: int = 0
    waits: int = 0
    wait_ns: int = 0
    lent: int = 0

    @property
    def fragmentation(self) -> float:
        """1 - peak allocated / peak reserved: the share of reserved memory no tensor needed."""
        return 1 - self.peak_allocated / self.peak_reserved if self.peak_reserved else 0.0

    @property
    def hit_rate(self) -> float:
        """Hits per request while there was a plan; 0 before there is one."""
        served = self.hits + self.misses
        return self.hits / served if served else 0.0

    def as_dict(self, prefix: str = "stalloc/") -> dict[str, float]:
        """All figures by name, for loggers of scalars: ``wandb.log(stalloc.stats().as_dict())``.

        For TensorBoard call ``writer.add_scalar(name, value, step)`` for each item.
        """
        figures: dict[str, float] = dataclasses.asdict(self)
        figures["fragmentation"] = self.fragmentation
        figures["hit_rate"] = self.hit_rate
        return {prefix + name: value for name, value in figures.items()}

    def __str__(self) -> str:
        lines = [
            f"allocated  {size(self.allocated)}, at most {size(self.peak_allocated)}",
            f"reserved   {size(self.reserved)}, at most {size(self.peak_reserved)} "
            f"({self.fragmentation:.2%} waste)",
            f"requests   {self.requests:,} in {self.steps:,} steps, {self.served()}",
            f"driver     {self.driver_ns / 1e9:.2f} s in {self.driver_calls:,} calls",
        ]
        if self.native():
            lines.insert(2, f"native     {self.native()}")
        if self.ooms or self.retries:
            lines.append(f"full       {self.ooms:,} times, after {self.retries:,} retries")
        if self.waits:
            lines.append(f"waited     {self.wait_ns / 1e9:.2f} s in {self.waits:,} requests")
        if self.asleep or self.backup:
            lines.append(f"away       {size(self.asleep)}, {size(self.backup)} of host memory kept")
        if self.fallback:
            lines.append(
                f"fallback   {self.fallback:,} requests had plain driver allocations: "
                f"stalloc.explain() says why"
            )
        return "\n".join(lines)

    def served(self) -> str:
        """How many requests the plans served, in words."""
        made = self.hits + self.misses
        if not made:
            return "none from a plan"
        return f"{self.hits:,} of {made:,} from a plan ({self.hit_rate:.2%})"

    def native(self) -> str:
        """What PyTorch's own allocator would have needed, in words; empty if unknown."""
        if self.native_ooms:
            return f"would have run out of memory in step {self.native_steps + 1:,}"
        if not self.native_peak_reserved:
            return ""
        # With that much it never gives its cache back. It may fit into less.
        text = f"would be at full speed in about {size(self.native_peak_reserved)}, or less"
        if self.native_steps < self.steps:
            text += f" in the first {self.native_steps:,} steps"
        return text


def size(amount: int) -> str:
    """An amount of memory for people: 30.06 GiB, 512 B."""
    value, unit = float(amount), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.2f} {unit}" if unit != "B" else f"{amount} B"
