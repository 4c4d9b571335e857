"""Count the lines of the core, a row a package: all, code without comments and blanks, functions.

The core is what serves a training run: engine without GMLake, actors, stream, plan and cshim.
Tests, their bridges and doubles are left out. The solvers that runs use have rows below the sum;
what is below plan/solve, and the exports of it, serves problems that have nothing to do with a run.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORE = ("engine", "actors", "stream", "plan", "cshim")
LEFT_OUT = re.compile(
    r"_test\.go$|^engine/gmlake/|^actors/(host/hosttest|device/devicetest)/"
    r"|^cshim/test/|^cshim/internal/(camount|cquick)/|/testdata/|^plan/solve/"
    r"|^cshim/engine/(solve|debug)\.go$"
)
SOLVERS = ("plan/descent", "plan/residency")
FUNCTION = re.compile(r"^(func |(static |extern |__attribute__.*|[a-z_]+ )+[\w *]*\w\([^;]*\{?$)")


def count(path: Path) -> tuple[int, int, int]:
    lines = path.read_text().splitlines()
    text = re.sub(r"/\*.*?\*/", "", "\n".join(lines), flags=re.DOTALL)
    code = [
        line for line in text.splitlines() if line.strip() and not line.strip().startswith("//")
    ]
    return len(lines), len(code), sum(bool(FUNCTION.match(line)) for line in code)


def main() -> None:
    rows: dict[str, list[int]] = {}
    for top in CORE:
        for path in sorted((ROOT / top).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in {".go", ".c", ".h", ".cc"} and not LEFT_OUT.search(name):
                row = rows.setdefault(path.parent.relative_to(ROOT).as_posix(), [0, 0, 0, 0])
                for i, n in enumerate((1, *count(path))):
                    row[i] += n
    solvers = {name: rows.pop(name) for name in SOLVERS}
    rows["the core"] = [sum(row[i] for row in rows.values()) for i in range(4)]
    rows |= solvers
    print(f"{'package':24}{'files':>7}{'lines':>8}{'code':>8}{'functions':>11}")
    for name, (files, lines, code, functions) in rows.items():
        print(f"{name:24}{files:7}{lines:8}{code:8}{functions:11}")


if __name__ == "__main__":
    main()
