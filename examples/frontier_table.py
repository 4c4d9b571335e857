"""What frontier.py has measured so far, as Markdown tables. A dash: not measured."""

import dataclasses
import statistics

from frontier_search import Search

HEADS = {
    "native": "native", "expandable": "expandable", "async": "cudaMallocAsync",
    "gmlake": "GMLake's", "stalloc": "stalloc", "offload": "stalloc, offload",
}  # fmt: skip
ALLOCATORS = {
    "native": "native", "expandable": "expandable", "async": "async",
    "gmlake": "stalloc:pool=gmlake", "stalloc": "stalloc", "offload": "stalloc",
}  # fmt: skip
HOST = " (h)"
PEERS = ("native", "expandable", "async", "gmlake")


class Missing(LookupError):
    """A run that was not made."""


@dataclasses.dataclass(frozen=True)
class Row:
    """At one size: by column what was found, None where nothing trains; columns that were not
    measured are absent."""

    size: int
    found: dict

    def peer(self):
        """The better peer's tokens a second, 0 if no peer trains; None if not all are known."""
        if not all(peer in self.found for peer in ("native", "expandable")):
            return None
        known = [self.found[peer] for peer in PEERS if peer in self.found]
        return max((best.rate for best in known if best), default=0)

    def gain(self, column):
        """Over the better peer, in percent; None where either is not known or does not train."""
        peer, best = self.peer(), self.found.get(column)
        return 100 * (best.rate / peer - 1) if peer and best else None


def rows(bench):
    """All sizes of which anything is known."""

    def ask(allocator, way, cap, turn):
        raise Missing

    search, found = Search(bench, ask), []
    for size in sizes(bench):
        cells = {}
        for column in HEADS:
            try:
                cells[column] = search.best(ALLOCATORS[column], size, column == "offload")
            except Missing:
                continue
        if {"native", "expandable"} <= set(cells):
            found.append(Row(size, cells))
    return found


def sizes(bench):
    """All limits of its runs."""
    keys = bench.keys()
    return sorted({key["cap"] for key in keys if key["cap"] is not None})


def tables(benches):
    parts = sorted({place for bench in benches for place in bench.book.places})
    for bench in benches:
        known = rows(bench)
        if known:
            parts += [f"### {bench.model.title}", table(known), *summaries(known)]
    if any(HOST in part for part in parts):
        parts.append(f"{HOST.strip()} Micro-batches of one sequence: the host bounds them.")
    return "\n\n".join(parts)


def table(known):
    head = ["GiB", *HEADS.values(), "stalloc / better peer", "with offload"]
    lines = [f"| {' | '.join(head)} |", "|--:" * len(head) + "|"]
    for row in known:
        cells = [cell(row.found, column) for column in HEADS]
        gains = [gain(row, column) for column in ("stalloc", "offload")]
        lines.append(f"| {' | '.join([str(row.size), *cells, *gains])} |")
    return "\n".join(lines)


def cell(found, column):
    if column not in found:
        return "–"
    best = found[column]
    if not best:
        return "does not train"
    return f"{best.rate:,.0f} ({best.way.words()}){HOST if best.way.batch == 1 else ''}"


def gain(row, column):
    peer, known = row.peer(), row.gain(column)
    if known is not None:
        return f"{known:+.1f} %"
    return "alone" if peer == 0 and row.found.get(column) else "–"


def summaries(known):
    """The gain over the better peer: median and largest over the sizes where a peer trains."""
    for column in ("stalloc", "offload"):
        gains = {row.size: value for row in known if (value := row.gain(column)) is not None}
        if not gains:
            continue
        most = max(gains, key=gains.get)
        least = min(gains, key=gains.get)
        alone = [str(row.size) for row in known if row.peer() == 0 and row.found.get(column)]
        text = (
            f"{HEADS[column]} over the better peer, {len(gains)} sizes: median "
            f"{statistics.median(gains.values()):+.1f} %, most {gains[most]:+.1f} % at {most} GiB, "
            f"least {gains[least]:+.1f} % at {least} GiB"
        )
        yield text + (f"; it alone trains at {', '.join(alone)} GiB." if alone else ".")
