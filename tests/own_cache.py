"""A user's cache for one test, or for the tests of a module."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensmith.cache import user_cache


def own_cache(home: Path, patch: pytest.MonkeyPatch) -> Path:
    """The folder of what tensmith keeps, in `home`, for as long as `patch` lasts: empty at first.

    Only headers that gcc has parsed are shared: they take as long as the tests' own small libraries, and no
    test changes what they are parsed to.
    """
    headers = user_cache("headers")
    headers.mkdir(parents=True, exist_ok=True, mode=0o700)
    patch.setenv("XDG_CACHE_HOME", str(home))
    if not user_cache("headers").exists():
        user_cache("headers").symlink_to(headers.resolve())
    return home / "tensmith"
