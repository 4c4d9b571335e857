"""README and docs: what they say about commands, settings, messages and files is so."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STALLOC = ROOT / "bin" / "stalloc"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Python's, not the binary's.
MODULES = {"run": "stalloc.run", "record": "stalloc.record", "doctor": "stalloc.doctor"}


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


def of(program):
    """The distinct command lines of a program, without settings before it."""
    lines = {}
    for page, words in COMMANDS:
        while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
            words = words[1:]
        if words[:1] == [program]:
            lines.setdefault(tuple(words), page)
    return [pytest.param(words, id=" ".join(words)) for words in lines]


def options(words):
    return [word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)]


def own(words):
    """Those that are stalloc's, not the program's behind it."""
    for i, word in enumerate(words):
        if word.endswith(".py") or word == "-m":
            return words[: i + (word == "-m")]
    return words


@pytest.mark.parametrize("words", of("stalloc"))
def test_command(words):
    """The command exists and has these options; what names files of ours does run."""
    command, rest = words[1], words[2:]
    if command in MODULES:
        sources = [ROOT / "python" / "stalloc" / f"{command}.py", ROOT / "cmd/stalloc/doctor.go"]
        known = "".join(path.read_text() for path in sources)
        for option in options(own(rest)):
            assert f'"{option}"' in known or f'"{option.lstrip("-")}"' in known, option
        return
    arguments = [str(STALLOC), command, *rest]
    if command == "help" or "--metrics" in rest or not any("tests/traces" in w for w in rest):
        help_of = subprocess.run([str(STALLOC), "help", command], capture_output=True, text=True)
        assert help_of.returncode == 0, help_of.stderr
        for option in options(rest):
            assert option in help_of.stdout, option
        return
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", of("make"))
def test_target(words):
    words = words[: words.index("&&")] if "&&" in words else words
    folder = ROOT / words[words.index("-C") + 1] if "-C" in words else ROOT
    targets = [w for w in words[1:] if w != "-C" and "=" not in w and "/" not in w]
    makefile = "".join(p.read_text() for p in [folder / "Makefile", *folder.glob("*/*.mk")])
    for target in targets:
        assert re.search(rf"^{re.escape(target)}\b.*:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("words", of("python"))
def test_script(words):
    if words[1] in ("train.py", "-m"):
        return  # the reader's own
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
    assert len((ROOT / "README.md").read_text().split()) <= 700


def test_settings():
    """The table has the keys that the library knows, and the route."""
    known = re.search(r"\} keys\[\] = \{(.*?)\};", (ROOT / "cshim/conf.c").read_text(), re.DOTALL)
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
    sources = [*ROOT.glob("cshim/*.[ch]"), *ROOT.glob("cshim/engine/*.go")]
    sources += [*ROOT.glob("actors/*.go"), *ROOT.glob("python/stalloc/*.py")]
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
    "actors/*.go": r'\blog\.(?:Info|Warn|Error)\(\s*"([^"]+)"',
    "cshim/engine/*.go": r'\blog\.(?:Info|Warn|Error)\(\s*"([^"]+)"',
    "cshim/*.c": r'stalloc_log_once\([^"]*"([^"]+)"',
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
