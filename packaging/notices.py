"""Prints the licenses of everything that is linked into the libraries and the program.

    python packaging/notices.py ./cshim/engine ./cmd/stalloc "Zig's runtime=path/of/LICENSE"

Go's toolchain lists the modules of those packages; a module without a license is an error. Go's
standard library is linked, too. A license that several modules share is printed once.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

NAMES = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|PATENTS)([.-](txt|md|[A-Z-]+))?$", re.IGNORECASE)
MODULE = "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}\t{{.Dir}}"


def go(*arguments: str) -> str:
    command = [os.environ.get("GO", "go"), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def files_in(folder: Path) -> list[Path]:
    """The licenses and notices that lie in a folder."""
    return sorted(f for f in folder.iterdir() if f.is_file() and NAMES.match(f.name))


def linked(packages: list[str]) -> dict[str, set[Path]]:
    """By module: the folders of its linked packages and all above them, up to the module's."""
    found: dict[str, set[Path]] = {}
    for line in go("list", "-deps", "-f", MODULE, *packages).splitlines():
        name, *rest = line.split("\t")
        if name:
            root, folder = map(Path, rest)
            above = {p for p in (folder, *folder.parents) if p.is_relative_to(root)}
            found.setdefault(name, set()).update(above)
    return found


def main() -> None:
    named = dict(a.split("=", 1) for a in sys.argv[1:] if "=" in a)
    found = {name: [Path(path)] for name, path in named.items()}
    modules = linked([a for a in sys.argv[1:] if "=" not in a])
    modules[f"Go {go('env', 'GOVERSION').strip()}"] = {Path(go("env", "GOROOT").strip())}
    for name, folders in modules.items():
        found[name] = [file for folder in sorted(folders) for file in files_in(folder)]

    shared: dict[str, tuple[str, list[str]]] = {}  # by its words: a text, and what is under it
    for name, files in sorted(found.items()):
        if not files:
            sys.exit(f"{name}: no license in {', '.join(map(str, sorted(modules[name])))}")
        for file in files:
            text = file.read_text(encoding="utf-8", errors="replace").strip("\n")
            names = shared.setdefault(" ".join(text.split()), (text, []))[1]
            if name not in names:
                names.append(name)

    print("What is linked into stalloc's libraries and its program, and under which terms.")
    for text, names in shared.values():
        print("", "=" * 80, *names, "=" * 80, "", text, sep="\n")


if __name__ == "__main__":
    main()
