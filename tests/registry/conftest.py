"""DVC's and git's own settings in folders of the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _settings_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Neither DVC nor git reads the user's settings, and nobody is told anything."""
    base = tmp_path_factory.mktemp("settings")
    settings = {
        "DVC_NO_ANALYTICS": "1",
        "DVC_SITE_CACHE_DIR": str(base / "site"),
        "DVC_GLOBAL_CONFIG_DIR": str(base / "global"),
        "DVC_SYSTEM_CONFIG_DIR": str(base / "system"),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_{what}": "test@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        for name in ("DVC_STAGE", "DVC_ROOT"):
            patch.delenv(name, raising=False)
        yield
