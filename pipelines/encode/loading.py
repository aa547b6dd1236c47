"""From a model source to files on disk, their identity in a cache key, and the state of torch they are run under."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import pickle
import platform
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.schemas.documents import canonical_json
from optotype.schemas.errors import ExternalError, MissingPackageError, ModelError, NotFoundError, UsageError
from optotype.schemas.sources import ModelSource

if TYPE_CHECKING:
    import torch

__all__ = [
    "ModelFiles",
    "check_device",
    "check_no_missing_weights",
    "folder_digest",
    "import_failed",
    "load_errors",
    "locate",
    "needs_remote_code",
    "platform_inputs",
    "quiet_transformers",
    "refuse_remote_code",
    "safe_weights",
    "torch_state",
    "versions",
]

# What a model needs of a hub repository: configurations, tokenizers, weights. Not other frameworks' weights.
_PATTERNS = ("*.json", "*.txt", "*.model", "*.jinja", "*.tiktoken", "*.safetensors")
_CODE = ("*.py",)
_BIN = ("*.bin",)
# Weights that a base model may lack, because they do not touch its tokens: poolers, heads, mask tokens of pre-training.
_UNUSED = re.compile(r"(^|\.)(pooler|head|lm_head|mask_token|logit_scale|logit_bias)(\.|$)")
_SHOWN = 5


@dataclass(frozen=True)
class ModelFiles:
    """A model source that has been found.

    Attributes
    ----------
    source : ModelSource
        As asked for.
    folder : Path or None
        Where its files are; ``None`` for a plug-in without a folder.
    identity : mapping
        What goes into cache keys: nothing that depends on where the folder stands, and all that the numbers depend on.
    """

    source: ModelSource
    folder: Path | None
    identity: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What messages call the model."""
        return self.source.text


def locate(
    source: ModelSource, *, root: Path | None = None, trust_remote_code: bool = False, gguf: str | None = None
) -> ModelFiles:
    """Find a source's files, downloading a hub source into the Hugging Face cache if it is not there.

    Parameters
    ----------
    source : ModelSource
        Parsed; a relative folder is taken from the working directory.
    root : Path, optional
        The project. A folder inside it is named in keys by its path from there, any other by its last part: the digest
        of its files is what tells two apart.
    trust_remote_code : bool
        Whether Python files of a hub repository are fetched too.
    gguf : str, optional
        A GGUF file of a hub repository to fetch instead of safetensors.

    Raises
    ------
    NotFoundError
        No such folder, repository, revision or module.
    ExternalError
        The hub does not answer and the cache does not hold the revision.
    """
    if source.kind == "hf":
        folder = _snapshot(source, trust_remote_code=trust_remote_code, gguf=gguf)
        identity = {"source": source.text, "commit": folder.name}
        return ModelFiles(source, folder, identity)
    if source.kind == "folder":
        folder = _existing(source.location)
        return ModelFiles(source, folder, {"source": _label(folder, root), "files": folder_digest(folder)})
    code = _module_file(source.location)
    identity = {"source": f"python:{source.location}:{source.factory}", "code": _file_digest(code)}
    if source.folder is None:
        return ModelFiles(source, None, identity)
    folder = _existing(source.folder)
    return ModelFiles(source, folder, {**identity, "folder": _label(folder, root), "files": folder_digest(folder)})


def _existing(location: str) -> Path:
    folder = Path(location).expanduser()
    if folder.is_dir():
        return folder.resolve()
    if folder.exists():
        raise NotFoundError(f"{location}: a model source is a folder, this is a file", hint=f"Try {folder.parent}.")
    looks_like_repository = re.fullmatch(r"[\w.-]+/[\w.-]+", location) is not None
    hint = f"If a hub repository is meant: hf:{location}@<commit>." if looks_like_repository else None
    raise NotFoundError(f"{location}: no such model folder", hint=hint)


def _label(folder: Path, root: Path | None) -> str:
    if root is not None and folder.is_relative_to(root.resolve()):
        return folder.relative_to(root.resolve()).as_posix()
    return folder.name


def _module_file(module: str) -> Path:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError) as error:
        raise NotFoundError(f"python:{module}: cannot be imported ({error})", hint="Is it installed here?") from error
    except (Exception, SystemExit) as error:  # its packages' own code runs, and may raise anything
        raise import_failed(f"python:{module}", error) from error
    if spec is None:
        raise NotFoundError(f"python:{module}: no such module", hint="Is it installed in this environment?")
    if spec.origin is None or not Path(spec.origin).is_file():
        what = "it is a folder without __init__.py" if spec.origin is None else "it is part of Python itself"
        raise ModelError(
            f"python:{module}: a plug-in is a module with a file of its own; {what}",
            hint="Write python:<module>:<factory>[@<folder>], where <module> is the file with the encoder.",
        )
    return Path(spec.origin)


def import_failed(name: str, error: BaseException) -> ModelError:
    """The error for a module whose code raised ``error`` while it was imported, with the file and line."""
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}, line {error.lineno}"
    else:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<frozen")]
        place = f"{frames[-1].filename}, line {frames[-1].lineno}"
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return ModelError(
        f"{name}: importing its module failed at {place}: {type(error).__name__}{': ' + said if said else ''}",
        hint="Mend the module; importing it must neither fail nor exit.",
    )


def _snapshot(source: ModelSource, *, trust_remote_code: bool, gguf: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    def fetch(patterns: Iterable[str]) -> Path:
        return Path(snapshot_download(source.location, revision=source.revision, allow_patterns=list(patterns)))

    patterns = [*_PATTERNS, *(_CODE if trust_remote_code else ())]
    if gguf is not None:
        patterns = [*(p for p in patterns if p != "*.safetensors"), gguf]
    try:
        folder = fetch(patterns)
        if gguf is None and not any(folder.rglob("*.safetensors")):
            folder = fetch([*patterns, *_BIN])
    except GatedRepoError as error:
        raise ExternalError(f"{source.text}: the repository asks for its terms to be accepted first") from error
    except RevisionNotFoundError as error:
        raise NotFoundError(f"{source.text}: the repository has no revision {source.revision!r}") from error
    except RepositoryNotFoundError as error:
        raise NotFoundError(f"{source.text}: no such repository, or not one that may be read here") from error
    except LocalEntryNotFoundError as error:
        raise ExternalError(
            f"{source.text}: not in the local cache of the hub, and the hub does not answer or HF_HUB_OFFLINE is set",
            hint="Fetch it once where there is a network, or give a local folder.",
        ) from error
    except (HfHubHTTPError, OSError) as error:
        raise ExternalError(f"{source.text}: the hub failed: {error}") from error
    return folder


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of a model folder's files.

    Left out: hidden files, ``__pycache__`` and Markdown, which no number depends on.
    """
    files = []
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if any(part.startswith(".") or part == "__pycache__" for part in parts) or path.suffix.lower() == ".md":
            continue
        if path.is_file():
            files.append(["/".join(parts), _file_digest(path)])
    return hashlib.sha256(canonical_json(files)).hexdigest()


def needs_remote_code(folder: Path) -> bool:
    """Whether the folder's model exists only as Python code inside the folder."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if not isinstance(config, dict) or "AutoConfig" not in (config.get("auto_map") or {}):
        return False
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return config.get("model_type") not in CONFIG_MAPPING_NAMES


def refuse_remote_code(files: ModelFiles) -> None:
    """Stop before a model that brings its own code is loaded without leave.

    Raises
    ------
    ModelError
        The folder demands its own Python code.
    """
    if files.folder is not None and needs_remote_code(files.folder):
        raise ModelError(
            f"{files.name}: this model is Python code inside its folder, which is not run unless asked for",
            hint="Read the code, then add --trust-remote-code (trust_remote_code=True).",
        )


def safe_weights(folder: Path) -> bool:
    """Whether the folder holds safetensors; its pickled ``.bin`` weights, if any, are then left alone."""
    return any(folder.glob("*.safetensors"))


def load_errors() -> tuple[type[Exception], ...]:
    """What transformers raises when a folder cannot be loaded; anything else is a bug and is let through."""
    from safetensors import SafetensorError

    return (
        OSError,
        ValueError,
        RuntimeError,
        ImportError,
        KeyError,
        TypeError,
        AttributeError,
        SafetensorError,
        pickle.UnpicklingError,
    )


def check_no_missing_weights(info: Mapping[str, Any], name: str) -> None:
    """Refuse a model some of whose weights were not in the files and so are random numbers.

    Parameters
    ----------
    info : mapping
        ``output_loading_info`` of ``from_pretrained``.
    name : str
        The model, for the message.

    Raises
    ------
    ModelError
        Weights are missing, or have another shape than the configuration says. Poolers and heads may be missing: tokens
        do not pass through them.
    """
    missing = sorted(key for key in info.get("missing_keys", ()) if not _UNUSED.search(key))
    mismatched = sorted(str(key[0] if isinstance(key, tuple) else key) for key in info.get("mismatched_keys", ()))
    if not missing and not mismatched:
        return
    parts = [
        f"{len(keys)} {what} ({', '.join(keys[:_SHOWN])}{', ...' if len(keys) > _SHOWN else ''})"
        for keys, what in ((missing, "weights are not in its files"), (mismatched, "weights have another shape"))
        if keys
    ]
    raise ModelError(
        f"{name}: {' and '.join(parts)}; they would be random numbers",
        hint="Does config.json belong to these weights?",
    )


def check_device(device: str, name: str) -> torch.device:
    """The torch device called ``device``, if a model can run on it here.

    Raises
    ------
    UsageError
        Not the name of a device.
    ModelError
        A device that this machine, or this build of torch, does not have.
    """
    import torch

    try:
        found = torch.device(device)
    except (RuntimeError, ValueError) as error:
        raise UsageError(f"{device!r} is not a device: cpu, cuda, cuda:<number> or mps") from error
    if found.type == "cpu":
        return found
    here = ["cpu"]
    if torch.cuda.is_available():
        here += [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        here.append("mps")
    usable = any(option.partition(":")[0] == found.type for option in here)
    if (
        found.type not in ("cuda", "mps")
        or not usable
        or (found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count())
    ):
        raise ModelError(
            f"{name}: there is no device {device!r} here, only {', '.join(here)}", hint="Use --device cpu."
        )
    return found


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers' own bars and advice off stderr while a model loads; errors still raise."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@contextlib.contextmanager
def torch_state(threads: int) -> Iterator[None]:
    """No gradients, deterministic algorithms and ``threads`` threads; what was before comes back afterwards."""
    import torch

    # cuBLAS is deterministic only with a fixed workspace, and reads this when its first handle is made.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = (
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.benchmark,
    )
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # costs time, no result changes
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    try:
        with torch.inference_mode():
            yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1], warn_only=before[2])
        torch.utils.deterministic.fill_uninitialized_memory = before[3]  # type: ignore[attr-defined]
        torch.backends.cuda.matmul.allow_tf32 = before[4]
        torch.backends.cudnn.allow_tf32 = before[5]
        torch.backends.cudnn.benchmark = before[6]


def _processor() -> str:
    """The processor's own name: two kinds of one architecture may take other kernels and round differently."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()


def platform_inputs(device: torch.device) -> dict[str, str]:
    """The kind of machine, for keys: encoded bytes are the same on one kind only."""
    import torch

    inputs = {
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": _processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "device": device.type,
    }
    if device.type == "cuda":
        inputs["accelerator"] = torch.cuda.get_device_name(device)
    return inputs


def versions(*packages: str) -> dict[str, str]:
    """Installed versions, for keys.

    Raises
    ------
    MissingPackageError
        One of them is not installed.
    """
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError as error:
            raise MissingPackageError(f"encoding needs the package {package}", hint=f"pip install {package}") from error
    return found
