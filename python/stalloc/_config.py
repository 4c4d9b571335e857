"""Settings: the environment's STALLOC_CONF, overridden by enable()'s arguments.

STALLOC_CONF has the form of PyTorch's own PYTORCH_ALLOC_CONF, ``key:value`` pairs separated
by commas. Which keys exist and what they take is known to the native library alone, which
reads the merged text with C's getenv; here only the form is checked, so that a new setting
needs no new Python.
"""

import os
from collections.abc import Mapping
from typing import Optional, Union

from ._errors import SettingError

VARIABLE = "STALLOC_CONF"

Value = Union[bool, int, float, str, "os.PathLike[str]"]


def parse(text: str) -> dict[str, str]:
    """Splits the text of STALLOC_CONF. A value may hold colons (a path does), never commas."""
    pairs: dict[str, str] = {}
    for place, item in enumerate(text.split(","), start=1):
        item = item.strip()
        if not item:
            continue
        key, colon, value = (part.strip() for part in item.partition(":"))
        if not colon or not key or not value:
            raise SettingError(
                f"{VARIABLE}: item {place} is {item!r}, expected key:value; "
                f"separate several settings by commas, as in key1:value1,key2:value2"
            )
        pairs[key] = value
    return pairs


def render(pairs: Mapping[str, str]) -> str:
    """The opposite of parse."""
    return ",".join(f"{key}:{value}" for key, value in pairs.items())


def merge(environment: str, arguments: Mapping[str, Optional[Value]]) -> dict[str, str]:
    """The settings in force: what code asks for explicitly wins over the environment.

    None is what nobody asked for.
    """
    merged = parse(environment)
    for key, value in arguments.items():
        if value is not None:
            merged[key] = _text(key, value)
    return merged


def _text(key: str, value: Value) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 70e9 is a whole number of bytes
    if isinstance(value, (int, float)):
        return str(value)
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(
            f"stalloc.enable({key}=...): got {type(value).__name__}, "
            f"expected str, int, float, bool or a path"
        )
    text = os.fspath(value).strip()
    if not text or "," in text:
        raise SettingError(
            f"stalloc.enable({key}={value!r}): a setting must not be empty or contain a comma, "
            f"which separates settings in {VARIABLE}"
        )
    return text
