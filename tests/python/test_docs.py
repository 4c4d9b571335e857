"""README and docs: what they say about commands, settings, messages and files is so."""

import re
import subprocess

import pytest
from documented import COMMANDS, PAGES, ROOT, name, of, split

# Who runs them: this file, test_record.py, tests/shim/test_documented.py. What is not ours
# stands last: installers, and what needs a GPU.
KNOWN = {"make", "python", "bin/stalloc", "stalloc", "torchrun", "deepspeed"}
OTHERS = {"pip", "pre-commit", "export", "cc", "go", "stalloc[3]:"}


def test_every_command_is_run_by_some_test():
    for page, words in COMMANDS:
        assert split(words)[1][0] in KNOWN | OTHERS, f"{page}: {' '.join(words)}"


def options(words):
    return [word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)]


@pytest.mark.parametrize("words", of("make"))
def test_target(words):
    """The target exists, as make sees it. A dry run would not do: it runs what calls make again."""
    words = list(words[: words.index("&&")] if "&&" in words else words)
    folder = ["-C", words[words.index("-C") + 1]] if "-C" in words else []
    targets = [w for w in words[1:] if w not in folder and "=" not in w]
    command = ["make", *folder, "--print-data-base", "--question", ":"]
    known = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    for target in targets:
        assert re.search(rf"^{re.escape(target)}:", known, re.MULTILINE), target


@pytest.mark.parametrize("words", of("python", where=lambda words: "/" in words[1]))
def test_script(words):
    """The script exists and knows the options; what it does needs a GPU."""
    script = ROOT / words[1]
    assert script.exists()
    for option in options(words):
        text = "".join(path.read_text() for path in script.parent.glob("*.py"))
        assert f'"{option}"' in text, option


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_readme_is_short():
    words = re.findall(r"\S*\w\S*", (ROOT / "README.md").read_text())  # not a table's lines
    assert len(words) <= 700


# Words that were names here and say nothing to a user of PyTorch, with what is said instead.
PRIVATE = {
    "tape": "schedule",
    "rung": "fallback",
    "overhang": "",
    "foretold": "",
    "anybodys": "",
    "burnt": "",
    "employ": "use",
    "forsake": "drop",
    "hasty": "",
    "hurried": "",
    "in vain": "for nothing",
    "lack": "miss",
    "patience": "timeout",
    "playing": "",
    "untold": "",
    "wish": "",
}
WORDS = re.compile(rf"\b({'|'.join(PRIVATE)})(e?[ds]|ing)?\b", re.IGNORECASE)
THIS = "tests/python/test_docs.py"  # which lists them


def test_no_private_words():
    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split()
    kinds = (".md", ".go", ".py", ".c", ".h", ".cc", ".js", ".html", ".txt", ".yml", ".toml")
    found = []
    for file in listed:
        path = ROOT / file
        if file == THIS or not file.endswith(kinds) or "uplot" in file or not path.exists():
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            found += [f"{file}:{number}: {word[0]}" for word in WORDS.finditer(line)]
    assert found == []


# What reads as translated, with what PyTorch's users say: in pages and help texts. Decisions keep
# what was written, measurements have their scripts, and a quoted message is the program's.
TRANSLATED = {
    "anew": "again", "as ever": "as usual", "whoever": "everybody who", "in words": "",
    "mends?": "fix", "mended": "fixed", "briefs?": "", "come again": "repeat",
    "behind the (?:first|second|last|step|mark)": "after",
    "came again": "repeated", "take those": "use those", "be had": "is not available",
    "laid": "placed", "way read": "", "wins nothing": "is no better", "makes? no sense": "",
}  # fmt: skip
PHRASES = re.compile(rf"\b({'|'.join(TRANSLATED)})\b", re.IGNORECASE)
HELP = re.compile(
    r'Long: `(.*?)`|(?:help|description|epilog|Short)[=:]\s*((?:f?"[^"]*"\s*)+)', re.S
)


def told():
    """What users read, by file: pages, and the texts of --help."""
    for page in PAGES:
        measured = page.name in ("benchmarks.md", "tables.md", "constants.md")
        if "decisions" not in page.parts and not measured:
            yield page, re.sub(r"`[^`\n]*`", "", page.read_text())
    for source in [*ROOT.glob("cmd/stalloc/*.go"), *ROOT.glob("python/stalloc/*.py")]:
        yield source, " ".join(a or b for a, b in HELP.findall(source.read_text()))


def test_no_translated_phrases():
    found = [f"{name(file)}: {word[0]}" for file, text in told() for word in PHRASES.finditer(text)]
    assert found == []


def test_settings():
    """The table has the keys that the library knows."""
    known = re.search(
        r"\} keys\[\] = \{(.*?)\};", (ROOT / "cshim/lib/conf.c").read_text(), re.DOTALL
    )
    keys = set(re.findall(r'\{"(\w+)"', known.group(1)))
    told = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/settings.md").read_text(), re.MULTILINE)
    assert {key for key in told if key.islower()} == keys


def joined(code):
    """Code in which a text over several lines is one."""
    return re.sub(r'"\s*\n\s*f?"', "", code)


def parts(message):
    """What of a message does not vary."""
    return [p.strip(" :;,.()") for p in message.split("...") if len(p.strip(" :;,.()")) > 3]


def explained():
    """The messages in troubleshooting.md: its headings, and what its text quotes."""
    text = (ROOT / "docs/troubleshooting.md").read_text()
    return [" ".join(m.split()) for m in re.findall(r"`([^`]+)`", text)]


def test_messages():
    """Every message that is explained is one that is written somewhere."""
    sources = [*ROOT.glob("cshim/lib/*.[ch]"), *ROOT.glob("cshim/engine/*.go")]
    sources += [
        *ROOT.glob("live/hostmem/*.go"),
        *ROOT.glob("actors/**/*.go"),
        *ROOT.glob("python/stalloc/*.py"),
    ]
    code = joined("\n".join(path.read_text() for path in sources))
    headings = re.findall(r"^### (.*)$", (ROOT / "docs/troubleshooting.md").read_text(), re.M)
    messages = [text for heading in headings for text in re.findall(r"`([^`]+)`", heading)]
    assert len(messages) > 30
    for message in messages:
        for part in parts(message):
            part = part.removeprefix("stalloc ").removeprefix("CUDA out of memory. ")
            assert part in code, part


# What is written for people at run time, by language: the log, and warnings.
WRITERS = {
    "actors/**/*.go": r'\b[lL]og\.(?:Info|Warn|Error)\(\s*"([^"]+)"',
    "cshim/engine/*.go": r'\b[lL]og\.(?:Info|Warn|Error)\(\s*"([^"]+)"',
    "cshim/lib/*.c": r'stalloc_log_once\([^"]*"([^"]+)"',
    "python/stalloc/*.py": r'(?:warnings\.warn|print|return)\(\s*f?"(stalloc[ :][^"]+)"',
}


def written():
    for pattern, call in WRITERS.items():
        for path in ROOT.glob(pattern):
            if not path.name.endswith("_test.go"):
                for message in re.findall(call, joined(path.read_text())):
                    message = re.sub(r"%\w|\{(?:[^{}]|\{[^}]*\})*\}", "...", message)
                    if any(len(part) > 8 for part in parts(message)):
                        yield message


@pytest.mark.parametrize("message", sorted(set(written())))
def test_every_message_is_explained(message):
    wanted = [part.removeprefix("stalloc: ") for part in parts(message) if len(part) > 8]
    known = [part for text in explained() for part in parts(text) if len(part) > 8]
    assert any(k in w or w in k for w in wanted for k in known), message


def test_decisions_are_listed():
    folder = ROOT / "docs/decisions"
    index = (folder / "index.md").read_text()
    for record in folder.glob("[0-9]*.md"):
        assert f"({record.name})" in index
        assert re.match(r"# \d+\. ", record.read_text())
