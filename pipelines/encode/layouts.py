"""Which tokens of a vision model are patches, by the model's own layout.

One table row per ``model_type`` of transformers. It states how many special tokens stand in front of the patches, read
from the configuration and never guessed from shapes; the count that is left must then equal the grid that follows from
the pixels and the patch size, or the run stops.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from optotype.schemas.errors import ModelError

__all__ = ["LAYOUTS", "Layout", "layout_of", "patch_grid"]

Form = Literal["tokens", "map", "reshaped"]
Grid = Callable[[Any, int, int], tuple[int, int]]


def _pair(value: Any) -> tuple[int, int]:
    """(rows, columns) of a size that a configuration gives as one number or two."""
    if isinstance(value, Iterable):
        rows, columns = value
        return int(rows), int(columns)
    return int(value), int(value)


def patch_grid(config: Any, height: int, width: int) -> tuple[int, int]:
    """Grid of a patch embedding without padding: pixels beyond the last whole patch are dropped."""
    rows, columns = _pair(config.patch_size)
    return height // rows, width // columns


def _swin_grid(config: Any, height: int, width: int) -> tuple[int, int]:
    """Swin pads to whole patches and, at each of its ``len(depths) - 1`` mergings, to an even count."""
    grid = [math.ceil(pixels / patch) for pixels, patch in zip((height, width), _pair(config.patch_size), strict=True)]
    for _ in range(len(config.depths) - 1):
        grid = [(count + 1) // 2 for count in grid]
    return grid[0], grid[1]


def _dinov3_convnext_grid(config: Any, height: int, width: int) -> tuple[int, int]:
    """A 4x4 stem and a halving before each later stage, none of them padded."""
    stride = 4 * 2 ** (len(config.hidden_sizes) - 1)
    return height // stride, width // stride


def _blocks(config: Any) -> int:
    """A state before the first block and one after each."""
    return int(config.num_hidden_layers) + 1


def _stages(config: Any) -> int:
    """A state before the first stage and one after each."""
    return len(config.depths) + 1


def _efficientnet_states(config: Any) -> int:
    """The stem and every block; repeats are scaled by the depth coefficient and rounded up."""
    return 1 + sum(math.ceil(float(config.depth_coefficient) * int(n)) for n in config.num_block_repeats)


def _mobilenet_v1_states(config: Any) -> int:
    """26 convolutions (13 depthwise, 13 pointwise), without the stem."""
    return 26


def _mobilenet_v2_states(config: Any) -> int:
    """16 inverted residuals, without the stem."""
    return 16


def _class_token(config: Any) -> int:
    return 1


def _no_special(config: Any) -> int:
    return 0


def _class_and_distillation(config: Any) -> int:
    return 2


def _class_and_registers(config: Any) -> int:
    return 1 + int(config.num_register_tokens)


@dataclass(frozen=True)
class Layout:
    """How one family of models lays out its output.

    Attributes
    ----------
    specials : callable
        Configuration -> number of special tokens in front of the patches.
    states : callable
        Configuration -> number of hidden states that the model returns.
    final : {"tokens", "map"}
        The final output: ``(batch, specials + patches, channels)`` or ``(batch, channels, rows, columns)``.
    hidden : {"tokens", "map", "reshaped"}
        The same of hidden states; ``reshaped`` models keep their maps in ``reshaped_hidden_states``.
    grid : callable
        Configuration, height, width in pixels -> rows, columns of the final output, for ``tokens``.
    model_class : str or None
        The transformers class to load; ``None`` is what `AutoModel` chooses.
    naflex : bool
        The image processor cuts patches itself and pads them; ``spatial_shapes`` holds each image's grid.
    """

    specials: Callable[[Any], int] = _class_token
    states: Callable[[Any], int] = _blocks
    final: Form = "tokens"
    hidden: Form = "tokens"
    grid: Grid = patch_grid
    model_class: str | None = None
    naflex: bool = False


_MAPS = Layout(_no_special, _stages, final="map", hidden="map")
_SWIN = Layout(_no_special, _stages, hidden="reshaped", grid=_swin_grid)

# A dual model (image and text) is loaded through its vision class, which reads its part of the configuration and of the
# weights only: the text tower is never built.
LAYOUTS: dict[str, Layout] = {
    "aimv2": Layout(_no_special, model_class="Aimv2VisionModel"),
    "aimv2_vision_model": Layout(_no_special, model_class="Aimv2VisionModel"),
    "beit": Layout(),
    "clip": Layout(model_class="CLIPVisionModel"),
    "clip_vision_model": Layout(model_class="CLIPVisionModel"),
    "convnext": _MAPS,
    "convnextv2": _MAPS,
    "data2vec-vision": Layout(),
    "deit": Layout(_class_and_distillation),
    "dinov2": Layout(),
    "dinov2_with_registers": Layout(_class_and_registers),
    # Its final output carries the pooled map as a class token; its hidden states are maps.
    "dinov3_convnext": Layout(_class_token, _stages, hidden="map", grid=_dinov3_convnext_grid),
    "dinov3_vit": Layout(_class_and_registers),
    "efficientnet": Layout(_no_special, _efficientnet_states, final="map", hidden="map"),
    "ijepa": Layout(_no_special),
    "metaclip_2": Layout(model_class="MetaClip2VisionModel"),
    "metaclip_2_vision_model": Layout(model_class="MetaClip2VisionModel"),
    "mobilenet_v1": Layout(_no_special, _mobilenet_v1_states, final="map", hidden="map"),
    "mobilenet_v2": Layout(_no_special, _mobilenet_v2_states, final="map", hidden="map"),
    "regnet": _MAPS,
    "resnet": _MAPS,
    "siglip": Layout(_no_special, model_class="SiglipVisionModel"),
    "siglip_vision_model": Layout(_no_special, model_class="SiglipVisionModel"),
    "siglip2": Layout(_no_special, model_class="Siglip2VisionModel", naflex=True),
    "siglip2_vision_model": Layout(_no_special, model_class="Siglip2VisionModel", naflex=True),
    "swin": _SWIN,
    "swinv2": _SWIN,
    "vit": Layout(),
    "vit_msn": Layout(),
}


def layout_of(config: Any, where: str) -> Layout:
    """The layout of the family that ``config`` belongs to.

    A family that is not in the table is accepted only if its configuration states ``num_prefix_tokens`` itself, which
    models that come with their own code can do.

    Parameters
    ----------
    config : transformers configuration
        Of the whole model, as the folder states it.
    where : str
        The source, for the message.

    Raises
    ------
    ModelError
        The family is unknown and does not say how many special tokens it has.
    """
    family = str(getattr(config, "model_type", ""))
    if family in LAYOUTS:
        return LAYOUTS[family]
    stated = getattr(config, "num_prefix_tokens", None)
    if isinstance(stated, int) and not isinstance(stated, bool) and stated >= 0:
        return Layout(lambda config: int(config.num_prefix_tokens))
    close = difflib.get_close_matches(family, LAYOUTS, n=1)
    guess = f" Did you mean {close[0]!r}?" if close else ""
    raise ModelError(
        f"{where}: no token layout is known for vision models of type {family!r}.{guess} "
        f"Known: {', '.join(sorted(LAYOUTS))}",
        hint="Give num_prefix_tokens (special tokens in front of the patches) in its config.json, "
        "or write a plug-in: python:<module>:<factory>[@<folder>].",
    )
