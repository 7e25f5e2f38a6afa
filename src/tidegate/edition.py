"""Which Tidegate this is: for the keys of caches.

Needs   its own files
Gives   the version, and a hash of all files that decide what it does
Keeps   what is changed in a checkout must not find what was compiled before
Cost    its files are read once in a process
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def own_version() -> str:
    try:
        return version("tidegate")
    except PackageNotFoundError:
        return "?"


@cache
def fingerprint() -> str:
    found = hashlib.sha256()
    root = Path(__file__).resolve().parent
    for path in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".toml")):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]
