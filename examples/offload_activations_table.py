"""What offload_activations.py has measured, as a Markdown table: medians over the turns, and in
brackets the least and the most. Speeds are compared within a turn."""

import statistics

GIB = 1 << 30


def describe(row):
    if "failed" in row:
        return row["failed"]
    return f"{row['tokens/s']:,.0f} tokens/s, {row['held'] / GIB:.2f} GiB held"


def same_bits(rows):
    """Names of ways that did not compute what the first did, as far as both went."""
    done = [
        (name, row["losses"]) for name, some in rows.items() for row in some if "failed" not in row
    ]
    others = (name for name, losses in done if any(a != b for a, b in zip(losses, done[0][1])))
    return list(dict.fromkeys(others))


def shown(values, form):
    """The median, with the least and the most."""
    texts = [form.format(value) for value in (statistics.median(values), min(values), max(values))]
    return texts[0] if len(values) == 1 else f"{texts[0]} ({texts[1]}..{texts[2]})"


def ratios(rows, others):
    """Of the speeds of two ways, turn by turn."""
    return [
        row["tokens/s"] / other["tokens/s"]
        for row, other in zip(rows, others)
        if "failed" not in row and "failed" not in other
    ]


def table(rows, plain, recomputed):
    """The rows as text, with what is wrong at the end."""
    heads = ("limit, GiB", "live", "held", "tokens/s", "of unlimited", "of recomputed")
    heads = ("way", "turns", *heads, "out a step, GiB", "late")
    lines = [f"| {' | '.join(heads)} |", "|---" + "|--:" * (len(heads) - 1) + "|"]
    for name, some in rows.items():
        limit = f"{some[0]['limit'] / GIB:.2f}" if some[0].get("limit") else ""
        good = [row for row in some if "failed" not in row]
        if not good:
            lines.append(f"| {name} | {len(some)} | {limit} | | | {some[0]['failed']} | | | | |")
            continue
        cells = [str(len(good)), limit]
        cells += [f"{max(row[what] for row in good) / GIB:.2f}" for what in ("live", "held")]
        cells.append(shown([row["tokens/s"] for row in good], "{:,.0f}"))
        for other in (plain, recomputed):
            beside = ratios(some, rows.get(other, []))
            cells.append(shown(beside, "{:.3f}") if beside else "")
        planned = [row for row in good if "out" in row]
        cells += [shown([row["out"] / GIB for row in planned], "{:.2f}") if planned else ""]
        cells += [str(max(row["late"] for row in planned)) if planned else ""]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, *remarks(rows)])


def remarks(rows):
    """What stayed on the device, and what is wrong."""
    for name, some in rows.items():
        if some[0].get("stayed"):
            yield f"{name}: stayed on the device: {some[0]['stayed']}"
    for name, some in rows.items():
        for row in some:
            if row.get("limit") and row.get("held", 0) > row["limit"]:
                row["wrong"] = row["wrong"] or "held more than the limit"
            if row.get("wrong"):
                yield f"WRONG: {name}: {row['wrong']}"
    for name in same_bits(rows):
        yield f"WRONG: {name}: other bits"
