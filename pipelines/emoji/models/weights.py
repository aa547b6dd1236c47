"""Weights on their way from other formats to safetensors."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from optotype.pipelines.emoji.folder import write_json
from optotype.schemas.errors import FormatError

__all__ = ["check_names", "read_pickled_weights", "write_image_preprocessor", "write_weights"]

_SHOWN = 5


def write_weights(folder: Path, tensors: Mapping[str, npt.NDArray[Any]]) -> None:
    """``model.safetensors`` in ``folder``, tensors in the order safetensors gives them: bytes depend on them alone."""
    from safetensors.numpy import save_file

    # one metadata entry only: safetensors keeps several in no fixed order. asarray, since ascontiguousarray
    # would turn the scalar counters of batch norms into vectors.
    ordered = {name: np.asarray(tensors[name], order="C") for name in sorted(tensors)}
    path = folder / "model.safetensors"
    save_file(ordered, path, metadata={"format": "pt"})
    path.chmod(folder.stat().st_mode & 0o666)  # safetensors makes it private to the user


def read_pickled_weights(data: bytes, where: str) -> dict[str, npt.NDArray[Any]]:
    """A state dict saved by torch, read without running anything in it (``weights_only``).

    Raises
    ------
    FormatError
        Not a state dict.
    """
    import torch

    try:
        state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise FormatError(f"{where}: not weights that torch can read safely ({error})") from error
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise FormatError(f"{where}: expected a mapping of names to tensors, got {type(state).__name__}")
    return {str(name): tensor.numpy() for name, tensor in state.items()}


def check_names(found: Iterable[str], expected: Iterable[str], where: str) -> None:
    """Refuse weights whose names are not exactly the expected ones.

    Raises
    ------
    FormatError
        Names both missing and unexpected.
    """
    have, want = set(found), set(expected)
    if have == want:
        return
    missing, unexpected = sorted(want - have), sorted(have - want)
    told = [
        f"{len(names)} {what}: {', '.join(names[:_SHOWN])}{', …' if len(names) > _SHOWN else ''}"
        for what, names in (("missing", missing), ("unexpected", unexpected))
        if names
    ]
    raise FormatError(f"{where}: the weights are not those of the model; {'; '.join(told)}")


def write_image_preprocessor(
    folder: Path, *, size: int, mean: tuple[float, ...], std: tuple[float, ...], resample: int
) -> None:
    """``preprocessor_config.json``: straight to a square of ``size`` pixels, divided by 255, normalised by channel.

    ``resample`` is Pillow's number of the filter (2 bilinear, 3 bicubic). ``ViTImageProcessor`` does just these
    three steps, and `transformers` has it on Pillow alone.
    """
    document = {
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": list(mean),
        "image_processor_type": "ViTImageProcessor",
        "image_std": list(std),
        "resample": resample,
        "rescale_factor": 1 / 255,
        "size": {"height": size, "width": size},
    }
    write_json(folder / "preprocessor_config.json", document)
