"""Vision encoders out of transformers: one code path for all families in `layouts`."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from optotype.pipelines.encode.layouts import Layout, layout_of
from optotype.pipelines.encode.loading import (
    ModelFiles,
    check_device,
    check_no_missing_weights,
    import_failed,
    load_errors,
    quiet_transformers,
    refuse_remote_code,
    safe_weights,
)
from optotype.pipelines.encode.preprocessing import Preprocessor, load_preprocessor
from optotype.pipelines.encode.protocol import VisionEncoder, interface_problems
from optotype.schemas.errors import MissingPackageError, ModelError, NotFoundError, UsageError

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["TransformersEncoder", "VisionPlan", "load_plugin", "plan_vision", "resolve_layers"]

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class VisionPlan:
    """All about a Hugging Face vision folder that can be known without its weights.

    Attributes
    ----------
    files : ModelFiles
        Where it is.
    config : transformers configuration
        Of the vision part.
    layout : Layout
        Of its family.
    layers : int
        How many hidden states it returns.
    preprocessor : Preprocessor
        Its image processor, with the image size that was asked for.
    trust_remote_code : bool
        Whether code in the folder may run.
    """

    files: ModelFiles
    config: Any
    layout: Layout
    layers: int
    preprocessor: Preprocessor
    trust_remote_code: bool = False

    def load(self, device: str = "cpu") -> TransformersEncoder:
        """Load the weights, in float32.

        Raises
        ------
        ModelError
            They cannot be loaded, are incomplete, or the device is not there.
        """
        import torch
        import transformers

        place = check_device(device, self.files.name)
        folder = cast("Path", self.files.folder)
        options: dict[str, Any] = {
            "dtype": torch.float32,
            "output_loading_info": True,
            "ignore_mismatched_sizes": True,  # reported, and refused below with their names
            "local_files_only": True,
            "use_safetensors": True if safe_weights(folder) else None,
        }
        if self.layout.model_class is None:
            loader = transformers.AutoModel
            options["trust_remote_code"] = self.trust_remote_code
        else:
            loader = getattr(transformers, self.layout.model_class)
        try:
            with quiet_transformers():
                model, info = loader.from_pretrained(folder, **options)
        except load_errors() as error:
            raise ModelError(f"{self.files.name}: the model cannot be loaded: {error}") from error
        check_no_missing_weights(info, self.files.name)
        return TransformersEncoder(self, model.eval().to(place), place)


def plan_vision(files: ModelFiles, *, image_size: int | None = None, trust_remote_code: bool = False) -> VisionPlan:
    """Read a vision folder's configuration and image processor.

    Raises
    ------
    ModelError
        No configuration, an unknown family, code that may not run, or no image processor.
    """
    from transformers import AutoConfig

    folder = cast("Path", files.folder)
    if not trust_remote_code:
        refuse_remote_code(files)
    try:
        with quiet_transformers():
            config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=trust_remote_code)
    except load_errors() as error:
        raise ModelError(f"{files.name}: its configuration cannot be read: {error}") from error
    layout = layout_of(config, files.name)
    vision = getattr(config, "vision_config", config) if layout.model_class is not None else config
    preprocessor = load_preprocessor(
        folder, name=files.name, image_size=image_size, trust_remote_code=trust_remote_code
    )
    return VisionPlan(files, vision, layout, layout.states(vision), preprocessor, trust_remote_code)


class TransformersEncoder:
    """A `VisionEncoder` over a loaded transformers model; built by `VisionPlan.load`."""

    def __init__(self, plan: VisionPlan, model: Any, device: Any) -> None:
        self.name = plan.files.name
        self.layers = plan.layers
        self.preprocessing = plan.preprocessor.settings
        self._plan, self._model, self._device = plan, model, device
        self._can_interpolate = "interpolate_pos_encoding" in inspect.signature(model.forward).parameters

    def preprocess(self, images: Sequence[Image]) -> list[dict[str, npt.NDArray[Any]]]:
        """Each image's arrays by itself: a processor may deliver images of different sizes."""
        return [self._plan.preprocessor.apply(image) for image in images]

    def encode(
        self, batch: Sequence[Mapping[str, npt.NDArray[Any]]], layers: Sequence[int | None]
    ) -> list[list[Floats]]:
        """Patch tokens as maps ``(rows, columns, channels)`` float32; one forward pass for each pixel size among them.

        Raises
        ------
        ModelError
            The model fails, or its tokens are not special tokens and a grid as its layout says.
        """
        results: list[list[Floats]] = [[np.empty(0)] * len(batch) for _ in layers]
        by_shape: dict[tuple[int, ...], list[int]] = {}
        for i, arrays in enumerate(batch):
            by_shape.setdefault(arrays["pixel_values"].shape, []).append(i)
        for members in by_shape.values():
            inputs = {key: np.stack([batch[i][key] for i in members]) for key in batch[members[0]]}
            for maps, asked in zip(results, self._forward(inputs, layers), strict=True):
                for i, tokens in zip(members, asked, strict=True):
                    maps[i] = tokens
        return results

    def _forward(self, inputs: Mapping[str, npt.NDArray[Any]], layers: Sequence[int | None]) -> list[list[Floats]]:
        import torch

        tensors = {key: torch.from_numpy(value).to(self._device) for key, value in inputs.items()}
        options: dict[str, Any] = {"output_hidden_states": any(layer is not None for layer in layers)}
        if self._can_interpolate and self._other_size(inputs["pixel_values"].shape):
            options["interpolate_pos_encoding"] = True
        try:
            output = self._model(**tensors, **options)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            shape = inputs["pixel_values"].shape
            raise ModelError(f"{self.name}: the model failed on pixels of shape {shape}: {error}") from error
        return [self._tokens(output, layer, inputs) for layer in layers]

    def _other_size(self, shape: tuple[int, ...]) -> bool:
        """Whether the pixels are not of the size that the position table was made for."""
        stated = getattr(self._plan.config, "image_size", None)
        if stated is None or len(shape) != 4:
            return False
        own = (stated, stated) if isinstance(stated, int) else tuple(stated)
        return shape[2:] != own

    def _tokens(self, output: Any, layer: int | None, inputs: Mapping[str, npt.NDArray[Any]]) -> list[Floats]:
        layout = self._plan.layout
        if layer is None:
            form, tensor = layout.final, output.last_hidden_state
        else:
            form = layout.hidden
            states = output.reshaped_hidden_states if form == "reshaped" else output.hidden_states
            if states is None or len(states) != self.layers:
                seen = "none" if states is None else len(states)
                raise ModelError(f"{self.name}: {self.layers} hidden states expected of this family, got {seen}")
            tensor = states[layer]
        array = tensor.float().cpu().numpy()
        where = "final layer" if layer is None else f"layer {layer}"
        if form in ("map", "reshaped"):
            if array.ndim != 4:
                raise ModelError(
                    f"{self.name}: {where} should be (images, channels, rows, columns), got shape {array.shape}"
                )
            return list(np.ascontiguousarray(array.transpose(0, 2, 3, 1)))
        if array.ndim != 3:
            raise ModelError(f"{self.name}: {where} should be (images, tokens, channels), got shape {array.shape}")
        return self._patches(array, where, inputs)

    def _patches(self, array: Floats, where: str, inputs: Mapping[str, npt.NDArray[Any]]) -> list[Floats]:
        """Drop special tokens (and padding) and check that exactly the grid is left."""
        layout, config = self._plan.layout, self._plan.config
        specials = layout.specials(config)
        images, tokens, channels = array.shape
        if layout.naflex:
            grids = [(int(rows), int(columns)) for rows, columns in inputs["spatial_shapes"]]
            wrong = next((grid for grid in grids if specials + grid[0] * grid[1] > tokens), None)
        else:
            height, width = inputs["pixel_values"].shape[2:]
            grids = [layout.grid(config, height, width)] * images
            wrong = grids[0] if specials + grids[0][0] * grids[0][1] != tokens else None
        if wrong is not None:
            raise ModelError(
                f"{self.name}: {tokens} tokens at {where}, but a grid of {wrong[0]} x {wrong[1]} patches "
                f"and {specials} special tokens make {specials + wrong[0] * wrong[1]}; "
                f"the layout known for {config.model_type!r} does not fit this model",
                hint="Write a plug-in that says which tokens are patches: python:<module>:<factory>[@<folder>].",
            )
        return [
            np.ascontiguousarray(row[specials : specials + rows * columns]).reshape(rows, columns, channels)
            for row, (rows, columns) in zip(array, grids, strict=True)
        ]


def load_plugin(files: ModelFiles, *, device: str = "cpu", image_size: int | None = None) -> VisionEncoder:
    """Call a plug-in's factory and check what it returns.

    Raises
    ------
    NotFoundError
        The module has no such factory.
    UsageError
        ``image_size`` or ``device`` was asked for and the factory does not take it.
    ModelError
        The factory fails, or what it returns is not a `VisionEncoder`; lists everything that is missing.
    """
    source = files.source
    try:
        module = importlib.import_module(source.location)
    except ImportError as error:
        raise MissingPackageError(f"{files.name}: its module cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:  # foreign code, which may raise anything
        raise import_failed(files.name, error) from error
    factory = getattr(module, source.factory or "", None)
    if not callable(factory):
        raise NotFoundError(f"{files.name}: module {source.location} has no function {source.factory!r}")
    check_device(device, files.name)
    parameters = inspect.signature(factory).parameters
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    options: dict[str, Any] = {}
    for option, value, default in (("device", device, "cpu"), ("image_size", image_size, None)):
        if takes_all or option in parameters:
            options[option] = value
        elif value != default:
            flag = option.replace("_", "-")
            raise UsageError(f"{files.name}: this plug-in takes no {option}", hint=f"Leave --{flag} out.")
    try:
        encoder = factory(*(() if files.folder is None else (files.folder,)), **options)
    except load_errors() as error:
        raise ModelError(f"{files.name}: its factory failed: {type(error).__name__}: {error}") from error
    problems = interface_problems(encoder, files.name)
    if problems:
        raise ModelError(
            "\n  - ".join(
                [f"{files.name}: what the factory returned is not a vision encoder", *(p.message for p in problems)]
            ),
            hint="The protocol stands in optotype.pipelines.encode.protocol.",
        )
    return cast("VisionEncoder", encoder)


def resolve_layers(layers: Sequence[int | None] | None, count: int, name: str) -> list[int | None]:
    """Layer indexes counted from the front; ``None`` is the final output.

    Parameters
    ----------
    layers : sequence of int or None, optional
        Negative ones count from the back (-1 is the last hidden state). Nothing asked for is the final output.
    count : int
        How many hidden states there are.
    name : str
        The model, for messages.

    Raises
    ------
    UsageError
        Out of range, the same layer twice, or none at all.
    """
    if layers is None:
        return [None]
    if not layers:
        raise UsageError(f"{name}: no layer was asked for", hint="Leave --layer out for the final output.")
    found: list[int | None] = []
    for layer in layers:
        if layer is not None and not -count <= layer < count:
            allowed = (
                f"{-count} to {count - 1}, or none for the final output" if count else "it has the final output only"
            )
            raise UsageError(f"{name}: there is no layer {layer}: {allowed}")
        found.append(layer if layer is None or layer >= 0 else layer + count)
    twice = sorted(
        {layer for layer in found if found.count(layer) > 1}, key=lambda layer: -1 if layer is None else layer
    )
    if twice:
        raise UsageError(f"{name}: layer {', '.join(str(layer) for layer in twice)} was asked for twice")
    return found
