"""Embedders of items out of transformers: a text model, a dual encoder (CLIP), or a vision-language model.

Each gives one vector of a text alone and, if it sees images, one of a text with its image, by the same weights.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import numpy as np
import numpy.typing as npt

from optotype.pipelines.encode.loading import (
    ModelFiles,
    check_device,
    check_no_missing_weights,
    load_errors,
    quiet_transformers,
    refuse_remote_code,
    safe_weights,
)
from optotype.pipelines.encode.preprocessing import Preprocessor, load_preprocessor
from optotype.pipelines.encode.text import Pooling, load_language_model, pool
from optotype.schemas.errors import ModelError, UsageError

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["FORMED", "POOLING", "Embedder", "EmbedderKind", "embedder_kind", "load_embedder"]

Floats = npt.NDArray[np.float32]
EmbedderKind = Literal["text", "dual", "vlm"]
POOLING: dict[EmbedderKind, Pooling | None] = {"text": "mean", "dual": None, "vlm": "last"}
"""Pooling of the last layer where none was asked for."""

FORMED = {
    "dual": "mean of the unit vectors of text and image features",
    "vlm": "last layer of one sequence of image and text",
}
"""How the vision-text embedding is formed, in words, for the array's attributes."""

_PADDED_TO_LENGTH = ("siglip",)  # trained on texts padded to the full length, and pooled at its end
_LONG = 10**6


class Embedder(Protocol):
    """What embeds items."""

    def check(self, labels: Sequence[str], texts: Sequence[str]) -> list[bool]:
        """Which texts are longer than the model reads and will be cut."""
        ...

    def text(self, texts: Sequence[str]) -> Floats:
        """Embeddings of texts alone, shape (texts, channels)."""
        ...

    def vision_text(self, texts: Sequence[str], images: Sequence[Image]) -> Floats:
        """Embeddings of texts with one image each, shape (texts, channels)."""
        ...


def embedder_kind(files: ModelFiles, *, trust_remote_code: bool = False) -> EmbedderKind:
    """What the model in a folder is, from its configuration alone.

    ``dual``: has ``get_text_features`` and ``get_image_features`` (CLIP, SigLIP, ...). ``vlm``: has a vision part
    besides (LLaVA, Qwen2-VL, ...). ``text``: anything else.
    """
    from transformers import MODEL_MAPPING, AutoConfig

    folder = cast("Path", files.folder)
    if not (folder / "config.json").is_file():
        return "text"  # a GGUF folder, or one whose loading says what is wrong with it
    if not trust_remote_code:
        refuse_remote_code(files)
    try:
        with quiet_transformers():
            config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=trust_remote_code)
            known = MODEL_MAPPING.get(type(config), None)
    except load_errors() as error:
        raise ModelError(f"{files.name}: its configuration cannot be read: {error}") from error
    model_class = known[0] if isinstance(known, tuple | list) else known
    if hasattr(model_class, "get_text_features") and hasattr(model_class, "get_image_features"):
        return "dual"
    return "vlm" if getattr(config, "vision_config", None) is not None else "text"


def load_embedder(
    files: ModelFiles,
    kind: EmbedderKind,
    *,
    pooling: Pooling | None,
    device: str = "cpu",
    max_length: int | None = None,
    trust_remote_code: bool = False,
) -> Embedder:
    """Load the weights, in float32.

    Raises
    ------
    ModelError
        They cannot be loaded or are incomplete; the folder lacks a tokenizer or an image processor.
    UsageError
        A pooling for a dual encoder, which has its own; a length that the model cannot read.
    """
    place = check_device(device, files.name)
    common: dict[str, Any] = {"local_files_only": True, "trust_remote_code": trust_remote_code}
    if kind == "text":
        model = load_language_model(files, device=device, trust_remote_code=trust_remote_code, max_length=max_length)
        return _TextEmbedder(model, pooling or "mean")
    if kind == "dual" and pooling is not None:
        raise UsageError(f"{files.name}: a dual encoder pools by itself", hint="Leave --pooling out.")
    weights, info = _weights(files, common)
    if kind == "dual":
        return _DualEncoder.load(files, weights.to(place), info, place, max_length, common)
    check_no_missing_weights(info, files.name)
    if max_length is not None:
        raise UsageError(f"{files.name}: image tokens may not be cut off", hint="Leave --max-length out.")
    return _VisionLanguageModel.load(files, weights.to(place), place, pooling or "last", common)


def _weights(files: ModelFiles, common: dict[str, Any]) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModel

    folder = cast("Path", files.folder)
    options = {**common, "dtype": torch.float32, "output_loading_info": True, "ignore_mismatched_sizes": True}
    options["use_safetensors"] = True if safe_weights(folder) else None
    try:
        with quiet_transformers():
            model, info = AutoModel.from_pretrained(folder, **options)
    except load_errors() as error:
        raise ModelError(f"{files.name}: the model cannot be loaded: {error}") from error
    return model.eval(), info


class _TextEmbedder:
    """A language model's last layer, pooled: as `optotype.pipelines.encode.text_states.encode_texts` does."""

    def __init__(self, model: Any, pooling: Pooling) -> None:
        self._model, self._pooling = model, pooling

    def check(self, labels: Sequence[str], texts: Sequence[str]) -> list[bool]:
        return cast("list[bool]", self._model.check(labels, texts))

    def text(self, texts: Sequence[str]) -> Floats:
        return cast("Floats", self._model.states(texts, self._model.layers - 1, self._pooling))

    def vision_text(self, texts: Sequence[str], images: Sequence[Image]) -> Floats:
        raise ModelError("a text model reads no images")


@dataclass
class _DualEncoder:
    """Two towers into one space.

    The text embedding is ``get_text_features`` as it comes. A dual encoder has no vector for text and image together;
    theirs is the mean of the two features' directions, ``(t/|t| + v/|v|) / 2`` (score fusion), so that
    1 - cos(E^L, E^VL) grows as the image says something else than the text.
    """

    name: str
    model: Any
    tokenizer: Any
    preprocessor: Preprocessor
    device: Any
    max_length: int
    padding: bool | str

    @classmethod
    def load(
        cls, files: ModelFiles, model: Any, info: Any, place: Any, max_length: int | None, common: dict[str, Any]
    ) -> _DualEncoder:
        from transformers import AutoTokenizer

        folder = cast("Path", files.folder)
        check_no_missing_weights(info, files.name)
        try:
            with quiet_transformers():
                tokenizer = AutoTokenizer.from_pretrained(folder, **common)
        except load_errors() as error:
            raise ModelError(f"{files.name}: its tokenizer cannot be loaded: {error}") from error
        preprocessor = load_preprocessor(folder, name=files.name, trust_remote_code=common["trust_remote_code"])
        stated = getattr(model.config, "text_config", model.config)
        limits = [tokenizer.model_max_length, getattr(stated, "max_position_embeddings", None) or _LONG]
        limit = min(int(each) for each in limits if each < _LONG) if min(limits) < _LONG else _LONG
        if max_length is not None and not 1 <= max_length <= limit:
            raise UsageError(f"{files.name}: --max-length {max_length}: this model reads 1 to {limit} tokens")
        to_length = str(model.config.model_type).startswith(_PADDED_TO_LENGTH)
        tokenizer.padding_side = tokenizer.truncation_side = "right"
        if tokenizer.pad_token_id is None:
            raise ModelError(f"{files.name}: its tokenizer has no padding token")
        padding: bool | str = "max_length" if to_length else True
        return cls(files.name, model, tokenizer, preprocessor, place, max_length or limit, padding)

    def check(self, labels: Sequence[str], texts: Sequence[str]) -> list[bool]:
        encoded = self.tokenizer(list(texts), truncation=False, padding=False, verbose=False)
        return [len(ids) > self.max_length for ids in encoded["input_ids"]]

    def text(self, texts: Sequence[str]) -> Floats:
        encoded = self.tokenizer(
            list(texts),
            padding=self.padding,
            truncation=True,
            max_length=self.max_length,
            return_tensors="pt",
            verbose=False,
        )
        takes = inspect.signature(self.model.get_text_features).parameters
        inputs = {name: encoded[name].to(self.device) for name in self.tokenizer.model_input_names if name in takes}
        return self._features(self.model.get_text_features, inputs)

    def vision_text(self, texts: Sequence[str], images: Sequence[Image]) -> Floats:
        import torch

        arrays = [self.preprocessor.apply(image) for image in images]
        pixels = {name: torch.from_numpy(np.stack([each[name] for each in arrays])) for name in arrays[0]}
        takes = inspect.signature(self.model.get_image_features).parameters
        inputs = {name: value.to(self.device) for name, value in pixels.items() if name in takes}
        seen = self._features(self.model.get_image_features, inputs)
        return (_unit(self.text(texts)) + _unit(seen)) / np.float32(2)

    def _features(self, method: Any, inputs: dict[str, Any]) -> Floats:
        try:
            output = method(**inputs)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise ModelError(f"{self.name}: the model failed: {error}") from error
        tensor = getattr(output, "pooler_output", output)  # some versions give the tensor, some a whole output
        return cast("Floats", tensor.float().cpu().numpy())


@dataclass
class _VisionLanguageModel:
    """A model that reads text and images in one sequence: its last layer at the last token, with and without image.

    Text and image go through the folder's chat template as one user turn, the image first; without a template the
    image's token stands on a line before the text. One item at a time: no vector depends on its neighbours' padding.
    """

    name: str
    model: Any
    processor: Any
    device: Any
    pooling: Pooling

    @classmethod
    def load(
        cls, files: ModelFiles, model: Any, place: Any, pooling: Pooling, common: dict[str, Any]
    ) -> _VisionLanguageModel:
        from transformers import AutoProcessor

        try:
            with quiet_transformers():
                processor = AutoProcessor.from_pretrained(cast("Path", files.folder), backend="pil", **common)
        except load_errors() as error:
            raise ModelError(f"{files.name}: its processor cannot be loaded: {error}") from error
        if getattr(processor, "tokenizer", None) is None or getattr(processor, "image_processor", None) is None:
            raise ModelError(f"{files.name}: its folder lacks a tokenizer or an image processor")
        return cls(files.name, model, processor, place, pooling)

    def check(self, labels: Sequence[str], texts: Sequence[str]) -> list[bool]:
        return [False] * len(texts)

    def text(self, texts: Sequence[str]) -> Floats:
        return np.concatenate([self._state(text, None) for text in texts])

    def vision_text(self, texts: Sequence[str], images: Sequence[Image]) -> Floats:
        return np.concatenate([self._state(text, image) for text, image in zip(texts, images, strict=True)])

    def _prompt(self, text: str, *, with_image: bool) -> str:
        if getattr(self.processor, "chat_template", None):
            content = [{"type": "image"}] * with_image + [{"type": "text", "text": text}]
            turn = [{"role": "user", "content": content}]
            return str(self.processor.apply_chat_template(turn, add_generation_prompt=True, tokenize=False))
        mark = getattr(self.processor, "image_token", "<image>")
        return f"{mark}\n{text}" if with_image else text

    def _state(self, text: str, image: Image | None) -> Floats:
        prompt = self._prompt(text, with_image=image is not None)
        options: dict[str, Any] = {"text": [prompt], "return_tensors": "pt"}
        if image is not None:
            options["images"] = [image]
        try:
            encoded = self.processor(**options)
            inputs = {name: value.to(self.device) for name, value in encoded.items() if hasattr(value, "to")}
            output = self.model(**inputs)
        except (RuntimeError, ValueError, TypeError, IndexError, KeyError) as error:
            what = "a text and an image" if image is not None else "a text alone"
            raise ModelError(f"{self.name}: the model failed on {what}: {error}") from error
        state = getattr(output, "last_hidden_state", None)
        if state is None or state.ndim != 3:
            raise ModelError(f"{self.name}: its output has no last hidden state (1, tokens, channels)")
        hidden = state.float().cpu().numpy()
        return pool(hidden, np.ones(hidden.shape[:2], dtype=np.int64), self.pooling)


def _unit(vectors: Floats) -> Floats:
    length = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return cast("Floats", (vectors / np.where(length == 0, 1, length)).astype(np.float32))
