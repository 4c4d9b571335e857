"""What frontier.py has measured so far, as Markdown tables. A dash: not measured."""

import dataclasses
import statistics

from frontier_search import Search
from names import NAMES

ALLOCATORS = {
    "native": "native", "expandable": "expandable", "async": "async",
    "gmlake": "stalloc:pool=gmlake", "stalloc": "stalloc", "offload": "stalloc",
}  # fmt: skip
HEADS = {column: NAMES[allocator] for column, allocator in ALLOCATORS.items()}
HEADS["offload"] = "stalloc, offload"
PEERS = ("native", "expandable", "async", "gmlake")


class Missing(LookupError):
    """A run that was not made."""


@dataclasses.dataclass(frozen=True)
class Row:
    """At one size: by column what was found, None where nothing trains; columns that were not
    measured are absent."""

    size: int
    found: dict

    def best(self):
        """The column of the best peer; None if none trains."""
        known = {peer: best.rate for peer in PEERS if (best := self.found.get(peer))}
        return max(known, key=known.get, default=None)

    def peer(self):
        """The best peer's tokens a second, 0 if no peer trains."""
        return self.found[self.best()].rate if self.best() else 0

    def gain(self, column):
        """Over the best peer, in percent; None where a speed is not known, or either does not
        train. If this column's `least` is set, it is at least so much."""
        best, peer = self.found.get(column), self.found.get(self.best())
        if not best or not peer or peer.least or peer.retried or best.retried:
            return None
        return 100 * (best.rate / peer.rate - 1)


def row(bench, size, search=None):
    """What is known at a size; None unless native and expandable segments are."""
    search, found = search or Search(bench, missing), {}
    for column in HEADS:
        try:
            found[column] = search.best(ALLOCATORS[column], size, column == "offload")
        except Missing:
            continue
    return Row(size, found) if {"native", "expandable"} <= set(found) else None


def missing(allocator, way, cap, turn):
    raise Missing


def rows(bench):
    """Sizes that were measured, and those of which as much is known, where somebody trains and
    stalloc was measured."""
    search, found = Search(bench, missing), []
    caps = {key["cap"] for key in bench.keys()} - {None}
    for size in sorted(caps.union(*bench.groups) if caps else caps):
        known = row(bench, size, search)
        if not known or "stalloc" not in known.found or not any(known.found.values()):
            continue
        if found:
            carry(found[-1].found, known.found)
        if size in caps or {"stalloc", "offload"} <= set(known.found):
            found.append(known)
    return found


def carry(smaller, found):
    """What trains at a smaller size does so here, too."""
    for column, before in smaller.items():
        if before and column in found and before.rate > (found[column] or before).rate:
            found[column] = dataclasses.replace(before, least=True)
    if smaller.get("offload") and "offload" not in found:
        found["offload"] = dataclasses.replace(smaller["offload"], least=True)


def tables(benches):
    parts = sorted({place for bench in benches for place in bench.book.places})
    for bench in benches:
        known = rows(bench)
        if known:
            parts += [f"### {bench.model.title}", table(known), *summaries(known)]
    if any("≥" in part for part in parts):
        parts.append("≥: ways that were not run at this size may be faster.")
    if any("[" in part for part in parts):
        parts.append(
            "In brackets: as measured, where the host bounded the steps. Before it: what the "
            "kernels alone reach, or the fastest quarter of all allocators' steps if these were "
            "not profiled; stalloc's driver calls and waits are added to its time. A bracket "
            "alone: the allocator had to give its cache back and try again; how long that took is "
            "not known."
        )
    return "\n\n".join(parts)


def table(known):
    head = ["GiB", *HEADS.values(), "stalloc / best peer", "with offload"]
    lines = [f"| {' | '.join(head)} |", "|--:" * len(head) + "|"]
    for row in known:
        cells = [cell(row.found, column) for column in HEADS]
        gains = [gain(row, column) for column in ("stalloc", "offload")]
        lines.append(f"| {' | '.join([str(row.size), *cells, *gains])} |")
    return "\n".join(lines)


def cell(found, column):
    """Tokens a second, half of the range of its runs, and the way."""
    if column not in found:
        return "–"
    best = found[column]
    if not best:
        return "does not train"
    half = (max(best.rates) - min(best.rates)) / 2 / best.rate
    spread = f" ±{100 * half:.1f} %" if len(best.rates) > 1 else ""
    clocked = statistics.median(best.clocked)
    if best.retried:
        return f"{'≥ ' * best.least}[{clocked:,.0f}]{spread} ({best.way.words()})"
    by_host = f" [{clocked:,.0f}]" if best.clocked != best.rates else ""
    return f"{'≥ ' * best.least}{best.rate:,.0f}{spread} ({best.way.words()}){by_host}"


def gain(row, column):
    peer, known = row.peer(), row.gain(column)
    if known is not None and not (known < 0 and row.found[column].least):  # which says nothing
        return "≥ " * row.found[column].least + percent(known)
    return "alone" if peer == 0 and row.found.get(column) else "–"


def percent(value):
    return f"{round(value, 1) + 0.0:+.1f} %"  # + 0.0: no minus before nothing


def summaries(known):
    """The gain over the best peer: median and largest over the sizes where a peer trains."""
    for column in ("stalloc", "offload"):
        sure = [row for row in known if column in row.found and row.found[column]]
        sure = [row for row in sure if not row.found[column].least]
        gains = {row.size: value for row in sure if (value := row.gain(column)) is not None}
        if not gains:
            continue
        most = max(gains, key=gains.get)
        least = min(gains, key=gains.get)
        alone = [str(row.size) for row in known if row.peer() == 0 and row.found.get(column)]
        sizes = "size" if len(gains) == 1 else "sizes"
        text = (
            f"{HEADS[column]} over the best peer, {len(gains)} {sizes}: median "
            f"{percent(statistics.median(gains.values()))}, "
            f"most {percent(gains[most])} at {most} GiB, "
            f"least {percent(gains[least])} at {least} GiB"
        )
        yield text + (
            f"; of those run there, it alone trains at {', '.join(alone)} GiB." if alone else "."
        )
