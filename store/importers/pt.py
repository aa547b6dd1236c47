"""``.pt``: tensors saved by ``torch.save``, loaded without running code, mapped into memory."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from optotype.schemas.errors import FormatError, MissingPackageError, Problem
from optotype.store.importers.source import BARE, Member, Members

__all__ = ["members"]


@contextmanager
def members(path: str) -> Iterator[Members]:
    """The tensors of a dictionary, or the one tensor of the file under the name ``""``; ``ids`` is a list of str."""
    try:
        import torch
    except ImportError as error:
        raise MissingPackageError(f"{path}: reading .pt files needs torch", hint="pip install torch") from error

    try:
        with warnings.catch_warnings():
            # Of a file that was not saved by torch: refused below, or sound.
            warnings.filterwarnings("ignore", message="Detected pickle protocol")
            content = _load(torch, path)
    except (pickle.UnpicklingError, RuntimeError, ValueError, OSError, EOFError, KeyError, AttributeError) as error:
        first = str(error).strip().splitlines()
        raise FormatError(
            f"{path}: not a .pt file of tensors alone ({first[0] if first else type(error).__name__})",
            hint="Files that hold other objects are not loaded, since that runs code. "
            "Save a dictionary of tensors and a list of ids: torch.save({'ids': ids, 'patches': patches}, file)",
        ) from error
    found = Members(path, {})
    if torch.is_tensor(content):
        content = {BARE: content}
    if not isinstance(content, Mapping):
        raise FormatError(f"{path}: a dictionary of tensors is wanted, got {type(content).__name__}")
    for name, value in content.items():
        if torch.is_tensor(value):
            member = _member(torch, value)
            if member is None:
                message = f"dtype is float16, float32, float64 or bfloat16, dense; got {value.dtype}, {value.layout}"
                found.problems.append(Problem(str(name), "wrong-dtype", message))
            else:
                found.arrays[str(name)] = member
        elif name == "ids" and isinstance(value, list | tuple):
            found.ids = list(value)
    yield found


def _load(torch: Any, path: str) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError as error:
        if "mmap" not in str(error):
            raise
        return torch.load(path, map_location="cpu", weights_only=True)  # the old format cannot be mapped


def _member(torch: Any, tensor: Any) -> Member | None:
    """The tensor as a member; None if NumPy has no such array."""
    tensor = tensor.detach()
    if tensor.layout != torch.strided or tensor.is_quantized:
        return None
    if tensor.dtype == torch.bfloat16:
        return Member.of(tensor.view(torch.uint16).numpy(), "bfloat16")
    try:
        return Member.of(tensor.resolve_conj().resolve_neg().numpy())
    except TypeError:
        return None
