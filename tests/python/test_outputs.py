"""Files that a user names: what is no regular file stays what it is, and links are followed."""

import os
import stat
import sys
import threading

import pytest
from recording import LOOP
from stalloc import _summary, record
from stalloc._output import Output


@pytest.fixture
def script(recorded, tmp_path):
    path = tmp_path / "it.py"
    path.write_text(
        "import os, sys, stalloc, torch\nhistory = torch.history\nos.write(1, b'said')\n" + LOOP
    )
    return str(path)


def read_in_the_background(pipe):
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    return reader, got


def test_a_pipe_gets_the_recording(script, tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    assert record.main(["-o", str(pipe), script]) == 1  # nobody reads: said before the run
    reader, got = read_in_the_background(pipe)
    while record.main(["-o", str(pipe), script]) == 1 and reader.is_alive():
        pass
    reader.join(10)
    assert stat.S_ISFIFO(os.lstat(pipe).st_mode)
    assert got[0].startswith(b"# workload it torch") and got[0].endswith(b"# end\n")


def test_a_link_is_followed(script, tmp_path):
    link, file = tmp_path / "link.csv", tmp_path / "file.csv"
    link.symlink_to("file.csv")
    assert record.main(["-o", str(link), script]) == 0
    assert link.is_symlink() and file.read_text().startswith("# workload it torch")
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    file.chmod(0o600)
    assert record.main(["-o", str(link), script]) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(p.name for p in tmp_path.glob("*.csv*")) == ["file.csv", "link.csv"]


def test_standard_output(script, capfd):
    assert record.main(["-o", "-", script]) == 0
    sys.stdout.flush()
    out, err = capfd.readouterr()
    assert out.startswith("# workload it torch") and out.endswith("# end\n")
    assert "said" in err and "stalloc report" not in err


def test_what_cannot_be_written_is_said_before_the_run(script, tmp_path, capfd):
    for path, why in (str(tmp_path), "Is a directory"), ("", "No such file"):
        assert record.main(["-o", path, script]) == 1
        out, err = capfd.readouterr()
        assert f"stalloc record: -o {path}: " in err and why in err and "said" not in out


def test_a_name_as_long_as_there_can_be(tmp_path):
    path = tmp_path / ("\u9577" * 85)  # 255 bytes
    with Output(str(path)).whole() as out:
        out.write(b"it")
    assert [p.read_text() for p in tmp_path.iterdir()] == ["it"] and path.exists()


def test_a_failure_leaves_what_was_there(tmp_path):
    file = tmp_path / "x.csv"
    file.write_text("before")
    with pytest.raises(ZeroDivisionError), Output(str(file)).whole() as out:
        out.write(b"half")
        1 / 0  # noqa: B018
    assert file.read_text() == "before" and list(tmp_path.iterdir()) == [file]


def test_the_summary(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError):  # and nothing waits
        _summary.write(str(pipe), {})
    link = tmp_path / "link"
    link.symlink_to("file")
    _summary.write(str(link), {})
    assert link.is_symlink() and '"devices": {}' in (tmp_path / "file").read_text()
