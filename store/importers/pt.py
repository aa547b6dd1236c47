"""``.pt``: tensors saved by ``torch.save``, loaded without running code, mapped into memory."""

from __future__ import annotations

import pickle
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from optotype.schemas.errors import FormatError, MissingPackageError, Problem
from optotype.store.importers.source import BARE, Member, Members

__all__ = ["members"]

_GLOBAL = re.compile(r"GLOBAL ([\w.]+)")
_HINT = (
    "Files that hold other objects are not loaded, since that runs code. "
    "Save a dictionary of tensors and a list of ids: torch.save({'ids': ids, 'patches': patches}, file)"
)
_NUMPY_HINT = "Save ids as [str(i) for i in ids] and arrays as torch.from_numpy(array), and torch.save again."


@contextmanager
def members(path: str) -> Iterator[Members]:
    """The tensors of a dictionary, or the one tensor of the file under the name ``""``; ``ids`` is a list of str."""
    try:
        import torch
    except ImportError as error:
        raise MissingPackageError(f"{path}: reading .pt files needs torch", hint="pip install torch") from error

    try:
        with warnings.catch_warnings():
            # Of what is refused below (odd pickles, nested and quantized tensors), or is sound.
            warnings.simplefilter("ignore")
            content = _load(torch, path)
    except (pickle.UnpicklingError, RuntimeError, ValueError, OSError, EOFError, KeyError, AttributeError) as error:
        raise _refused(path, error) from error
    found = Members(path, {})
    if torch.is_tensor(content):
        content = {BARE: content}
    if not isinstance(content, Mapping):
        raise FormatError(f"{path}: a dictionary of tensors is wanted, got {type(content).__name__}")
    for name, value in content.items():
        if torch.is_tensor(value):
            member = _member(torch, value)
            if member is None:
                message = f"a dense tensor of float16, float32, float64 or bfloat16 is wanted; got {_words(value)}"
                found.problems.append(Problem(str(name), "wrong-dtype", message))
            else:
                found.arrays[str(name)] = member
        elif name == "ids" and isinstance(value, list | tuple):
            found.ids = list(value)
    yield found


def _refused(path: str, error: Exception) -> FormatError:
    """What is wrong with a file that torch does not load."""
    if Path(path).stat().st_size == 0:
        return FormatError(f"{path}: the file is empty")
    with Path(path).open("rb") as file:
        is_zip = file.read(4) == b"PK\x03\x04"
    if is_zip and not zipfile.is_zipfile(path):
        return FormatError(f"{path}: the file is cut short", hint="Copy or save it again.")
    other = _GLOBAL.search(str(error))
    if other is not None:
        hint = _NUMPY_HINT if other[1].startswith("numpy.") else _HINT
        return FormatError(f"{path}: not a .pt file of tensors alone: it holds {other[1]}", hint=hint)
    first = str(error).strip().splitlines()
    return FormatError(
        f"{path}: not a .pt file of tensors alone ({first[0] if first else type(error).__name__})", hint=_HINT
    )


def _words(tensor: Any) -> str:
    """What kind of tensor it is."""
    marks = {"nested": tensor.is_nested, "quantized": tensor.is_quantized, "without values (meta)": tensor.is_meta}
    return ", ".join([str(tensor.dtype), str(tensor.layout), *(word for word, is_so in marks.items() if is_so)])


def _load(torch: Any, path: str) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError as error:
        if "mmap" not in str(error):
            raise
        return torch.load(path, map_location="cpu", weights_only=True)  # the old format cannot be mapped


def _member(torch: Any, tensor: Any) -> Member | None:
    """The tensor as a member; None if NumPy has no such array."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested or tensor.is_meta:
        return None
    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        return Member.of(tensor.view(torch.uint16).numpy(), "bfloat16")
    try:
        return Member.of(tensor.resolve_conj().resolve_neg().numpy())
    except (TypeError, RuntimeError):
        return None
