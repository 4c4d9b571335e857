"""Settings: the environment's STALLOC_CONF, overridden by enable()'s arguments.

STALLOC_CONF has the form of PyTorch's own PYTORCH_ALLOC_CONF, ``key:value`` pairs separated
by commas. Only the C library knows which keys exist and which values they take (Library.check).
This module only joins texts, including wrong ones, so a new setting needs no new Python.
"""

import os
from collections.abc import Container, Mapping
from typing import Optional, Union

from ._errors import SettingError

VARIABLE = "STALLOC_CONF"

Value = Union[bool, int, float, str, "os.PathLike[str]"]


def _items(text: str) -> list[tuple[str, str]]:
    """Each item of STALLOC_CONF with its key. A value may hold colons, as a path does."""
    items = []
    for item in filter(None, (item.strip() for item in text.split(","))):
        key, colon, value = (part.strip() for part in item.partition(":"))
        items.append((key, f"{key}{colon}{value}"))
    return items


def value_of(key: str, text: str) -> Optional[str]:
    """A setting's value in a checked text; None if it is not set."""
    return next((item.partition(":")[2] for name, item in _items(text) if name == key), None)


def override(text: str, by: str) -> str:
    """The settings of both texts; those of the second win."""
    others: dict[str, list[str]] = {}  # keeps duplicates, for Library.check
    for key, item in _items(by):
        others.setdefault(key, []).append(item)
    instead = dict(others)
    merged: list[str] = []
    for key, item in _items(text):
        merged += instead.pop(key, []) if key in others else [item]
    return ",".join([*merged, *(item for items in instead.values() for item in items)])


def without(text: str, keys: Container[str]) -> str:
    """The settings without those of the keys."""
    return ",".join(item for key, item in _items(text) if key not in keys)


def merge(environment: str, arguments: Mapping[str, Optional[Value]]) -> str:
    """The settings in force: explicit arguments win over the environment.

    None is an argument that was not given.
    """
    asked = [f"{key}:{_text(key, value)}" for key, value in arguments.items() if value is not None]
    return override(environment, ",".join(asked))


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
