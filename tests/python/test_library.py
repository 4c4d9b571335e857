"""The ctypes layer against a compiled double of the library."""

import re
from pathlib import Path

import pytest
from stalloc import StallocError, Stats, _library

HEADER = Path(__file__).resolve().parents[2] / "cshim" / "stalloc.h"


def header_fields():
    """The fields of struct stalloc_stats in the C header, in order."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    body = re.search(r"struct stalloc_stats \{(.*?)\};", text, flags=re.S).group(1)
    return re.findall(r"\w+", re.sub(r"uint64_t", "", body))


def test_stats_are_the_header_s_fields_in_order():
    assert list(Stats.__dataclass_fields__) == header_fields()


def test_every_counter_arrives_under_its_name(stub):
    count = stub.fill()
    stats = _library.Library(stub.path).stats(0)
    assert [getattr(stats, name) for name in header_fields()] == list(range(1, count + 1))


def test_header_declares_what_python_uses():
    headers = [path.read_text() for path in HEADER.parent.glob("*.h")]
    declared = set(re.findall(r"\b(stalloc_\w+)\(", "".join(headers)))
    used = {_library.ALLOC, _library.FREE, *_library.HOOKS.values(), *_library._SIGNATURES}
    assert used <= declared


def test_addresses_are_distinct(stub):
    library = _library.Library(stub.path)
    names = [_library.ALLOC, _library.FREE, *_library.HOOKS.values()]
    assert len({library.address(name) for name in names}) == len(names)


def test_errors_carry_the_library_s_text(stub):
    library = _library.Library(stub.path)
    with pytest.raises(StallocError, match="statistics of device 9: device out of range"):
        library.stats(9)
    with pytest.raises(StallocError, match="peaks of device 9: device out of range"):
        library.reset_peak(9)
    with pytest.raises(StallocError, match="explain .* device 9: device out of range"):
        library.explain(9)
    with pytest.raises(StallocError, match="step boundary: device out of range"):
        library.step(9)


@pytest.mark.parametrize("length", [0, 5, (1 << 14) - 1, 1 << 14, 60000])
def test_explain_of_any_length(stub, length):
    text = "memory" * 10000
    stub.set_text(text[:length])
    assert _library.Library(stub.path).explain(0) == text[:length]


def test_missing_library_names_the_remedy(tmp_path):
    with pytest.raises(StallocError, match="libstalloc.so is missing; run `make build`"):
        _library.Library(tmp_path / "libstalloc.so")


def test_library_that_does_not_load(tmp_path):
    path = tmp_path / "libstalloc.so"
    path.write_text("not a library")
    with pytest.raises(StallocError, match="cannot load .*rebuild it here"):
        _library.Library(path)


def test_library_of_another_version(c10):
    with pytest.raises(StallocError, match="does not export stalloc_malloc: .*different versions"):
        _library.Library(c10 / "lib" / "libc10.so")


def test_stats_print_themselves():
    stats = Stats(
        requests=120, hits=99, misses=1, steps=4, allocated=512, peak_allocated=3 << 29,
        reserved=1 << 30, peak_reserved=2 << 30, driver_calls=1234, driver_ns=1_500_000_000,
        fallback=3, native_peak_reserved=3 << 30, native_steps=4,
    )  # fmt: skip
    assert str(stats).splitlines() == [
        "allocated  512 B, at most 1.50 GiB",
        "reserved   1.00 GiB, at most 2.00 GiB (25.00% waste)",
        "native     would be at full speed in about 3.00 GiB, or less",
        "requests   120 in 4 steps, 99 of 100 from a plan (99.00%)",
        "driver     1.50 s in 1,234 calls",
        "fallback   3 requests had plain driver allocations: stalloc.explain() says why",
    ]
    assert "none from a plan" in str(Stats()) and "fallback" not in str(Stats())


def test_what_native_would_have_done_in_words():
    assert Stats(steps=9).native() == ""
    early = Stats(steps=9000, native_steps=2000, native_peak_reserved=1 << 30)
    assert (
        early.native()
        == "would be at full speed in about 1.00 GiB, or less in the first 2,000 steps"
    )
    full = Stats(steps=9, native_steps=4, native_peak_reserved=1 << 30, native_ooms=1)
    assert full.native() == "would have run out of memory in step 5"


def test_derived_figures():
    stats = Stats(hits=99, misses=1, peak_allocated=90, peak_reserved=100)
    assert stats.hit_rate == 0.99
    assert stats.fragmentation == pytest.approx(0.1)
    assert Stats().hit_rate == 0 and Stats().fragmentation == 0
