"""The command lines in README and docs, for the tests that run them."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def name(page):
    return str(page.relative_to(ROOT))


def commands():
    """Every line of a shell in a block of code."""
    found = []
    for page in PAGES:
        text = page.read_text()
        blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        blocks += re.findall(
            r"(?:^    \S.*\n)+", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M
        )
        for line in "".join(blocks).splitlines():
            words = shlex.split(line, comments=True)
            if words:
                found.append((name(page), words))
    return found


COMMANDS = commands()


def split(words):
    """The settings before a command, and the command without them."""
    settings = {}
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        key, _, settings[key] = words[0].partition("=")
        words = words[1:]
    return settings, words


def of(*programs, where=lambda words: True):
    """The distinct command lines of programs, whole."""
    lines = {}
    for _, words in COMMANDS:
        rest = split(words)[1]
        if rest[:1] and rest[0] in programs and where(rest):
            lines[tuple(words)] = None
    return [pytest.param(words, id=" ".join(words)) for words in lines]
