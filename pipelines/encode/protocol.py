"""What a vision encoder is, for models that are not Hugging Face folders.

A plug-in is a factory in an importable module, named as a source by ``python:<module>:<factory>[@<folder>]``. It is
called as ``factory(folder, device=..., image_size=...)``: ``folder`` is a `pathlib.Path` and is passed only if the
source names one, and of the two keywords those that its signature has. It returns a `VisionEncoder`::

    class MyEncoder:
        layers = 0                                   # only the final output can be asked for

        def preprocess(self, images):                # RGB PIL images -> whatever encode() takes
            return torch.stack([self.transform(image) for image in images])

        def encode(self, batch, layers):             # -> for each layer, for each image, its patch tokens
            maps = self.network(batch)               # (images, channels, rows, columns)
            return [list(maps.permute(0, 2, 3, 1).numpy()) for _ in layers]

    def load(folder, *, device="cpu"):
        return MyEncoder(...)

The call happens under ``torch.inference_mode()``, with deterministic algorithms and the thread count of the run.
`encoder_problems` is the conformance check: run it on small images in the plug-in's own tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from optotype.schemas.documents import canonical_json
from optotype.schemas.errors import Problem

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["VisionEncoder", "encoder_problems", "interface_problems", "output_problems"]

_TOLERANCE = 1e-3


@runtime_checkable
class VisionEncoder(Protocol):
    """Images in, patch tokens out.

    Attributes
    ----------
    layers : int
        How many hidden states can be asked for: ``encode`` takes layers ``0 .. layers - 1``, and ``None`` for the final
        output, always. 0 when there is the final output only.

    Notes
    -----
    Two more attributes are used where they exist: ``name`` (str), what messages call the model; ``preprocessing`` (a
    JSON-ready mapping), which becomes a part of the cache key.
    """

    layers: int

    def preprocess(self, images: Sequence[Image]) -> Any:
        """Turn RGB images of any sizes into one batch, in their order. Its type is the encoder's own affair."""

    def encode(self, batch: Any, layers: Sequence[int | None]) -> Sequence[Sequence[npt.NDArray[np.floating[Any]]]]:
        """Run the model once and return the asked layers' patch tokens.

        Parameters
        ----------
        batch
            What ``preprocess`` returned.
        layers : sequence of int or None
            Hidden states in ``0 .. self.layers - 1``; ``None`` is the final output.

        Returns
        -------
        sequence of sequence of ndarray
            ``result[l][i]`` holds the patch tokens of image ``i`` at ``layers[l]``, as ``(tokens, channels)``, or as a
            map ``(rows, columns, channels)``, which is flattened row by row and keeps the grid on record. Floating,
            finite, at least one token, the same channels for all images of a layer; special tokens (class,
            distillation, registers, padding) are not among them. Token counts may differ between images.
        """


def interface_problems(encoder: object, where: str) -> list[Problem]:
    """What keeps ``encoder`` from being a `VisionEncoder` before it has run; empty when nothing does."""
    problems: list[Problem] = []
    layers = getattr(encoder, "layers", None)
    if not isinstance(layers, int) or isinstance(layers, bool) or layers < 0:
        message = f"layers is the number of hidden states, an int >= 0, got {layers!r}"
        problems.append(Problem(where, "encoder-layers", message))
    for method, arguments in (("preprocess", "images"), ("encode", "batch, layers")):
        if not callable(getattr(encoder, method, None)):
            problems.append(
                Problem(where, "encoder-method", f"{type(encoder).__name__} has no method {method}({arguments})")
            )
    preprocessing = getattr(encoder, "preprocessing", None)
    if preprocessing is not None and not isinstance(preprocessing, Mapping):
        kind = type(preprocessing).__name__
        problems.append(Problem(where, "encoder-preprocessing", f"preprocessing is a mapping or absent, got {kind}"))
    elif preprocessing is not None:
        try:
            canonical_json(dict(preprocessing))
        except (TypeError, ValueError) as error:
            message = f"preprocessing holds what JSON cannot: {error}"
            problems.append(Problem(where, "encoder-preprocessing", message))
    return problems


def output_problems(output: object, *, images: int, layers: Sequence[int | None], where: str) -> list[Problem]:
    """What is wrong with the shape of what ``encode`` returned for a batch; empty when nothing is.

    Values are not looked at: NaN and infinities are searched for where the image's id is known.
    """

    def problem(kind: str, message: str) -> Problem:
        return Problem(where, kind, message)

    if not isinstance(output, Sequence) or len(output) != len(layers):
        size = f"of length {len(output)}" if isinstance(output, Sequence) else ""
        got = f"{type(output).__name__} {size}".strip()
        return [
            problem(
                "encoder-output", f"encode() returns a sequence with one entry per layer ({len(layers)}), got {got}"
            )
        ]
    problems = []
    for layer, arrays in zip(layers, output, strict=True):
        name = "final layer" if layer is None else f"layer {layer}"
        if not isinstance(arrays, Sequence) or len(arrays) != images:
            size = f"of length {len(arrays)}" if isinstance(arrays, Sequence) else ""
            got = f"{type(arrays).__name__} {size}".strip()
            problems.append(
                problem("encoder-output", f"{name}: a sequence with one array per image ({images}), got {got}")
            )
            continue
        channels = set()
        for i, array in enumerate(arrays):
            if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
                got = f"{type(array).__name__} of {getattr(array, 'dtype', 'no dtype')}"
                problems.append(problem("encoder-output", f"{name}, image {i}: a NumPy array of floats, got {got}"))
            elif array.ndim not in (2, 3) or 0 in array.shape:
                shape = f"(tokens, channels) or (rows, columns, channels), none of them 0, got {array.shape}"
                problems.append(problem("encoder-output", f"{name}, image {i}: {shape}"))
            else:
                channels.add(array.shape[-1])
        if len(channels) > 1:
            seen = sorted(channels)
            problems.append(problem("encoder-output", f"{name}: one number of channels for all images, got {seen}"))
    return problems


def encoder_problems(encoder: object, images: Sequence[Image], *, where: str = "encoder") -> list[Problem]:
    """The conformance check of a plug-in: everything in which ``encoder`` breaks the protocol; empty when it conforms.

    Parameters
    ----------
    encoder : object
        What the factory returned.
    images : sequence of PIL images
        At least two different ones, RGB; best of different sizes.
    where : str
        The name that problems carry.

    Notes
    -----
    Beside names and shapes it checks that the output is finite, that the same batch gives the same numbers twice,
    that an image's tokens do not depend on its neighbours in the batch (within 1e-3 of the largest value), that tokens
    follow the order of the images, that the final output does not change when hidden states are asked for beside it,
    and that every layer that ``layers`` promises can be had.
    """
    problems = interface_problems(encoder, where)
    if problems:
        return problems
    model = cast("VisionEncoder", encoder)  # interface_problems has looked
    layers: list[int | None] = [None, *range(model.layers)]
    together = model.encode(model.preprocess(images), layers)
    problems = output_problems(together, images=len(images), layers=layers, where=where)
    if problems:
        return problems
    again = model.encode(model.preprocess(images), layers)
    final = model.encode(model.preprocess(images), [None])
    for position, layer in enumerate(layers):
        name = "final layer" if layer is None else f"layer {layer}"
        for i, image in enumerate(images):
            tokens = np.asarray(together[position][i])
            if not np.isfinite(tokens).all():
                problems.append(Problem(where, "encoder-finite", f"{name}, image {i}: NaN or infinite values"))
                continue
            if not np.array_equal(tokens, np.asarray(again[position][i])):
                problems.append(Problem(where, "encoder-repeat", f"{name}, image {i}: two runs gave different numbers"))
            alone = np.asarray(model.encode(model.preprocess([image]), [layer])[0][0])
            scale = _TOLERANCE * max(1.0, float(np.abs(tokens).max()))
            if alone.shape != tokens.shape or float(np.abs(alone - tokens).max()) > scale:
                message = f"{name}, image {i}: its tokens depend on the other images of the batch, or on their order"
                problems.append(Problem(where, "encoder-batch", message))
            if layer is None and not np.array_equal(tokens, np.asarray(final[0][i])):
                message = f"final layer, image {i}: it changes when hidden states are asked for beside it"
                problems.append(Problem(where, "encoder-layers", message))
    return problems
