"""Language models out of transformers: one state for each text, from a chosen layer by a chosen pooling."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

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
from optotype.pipelines.encode.pooling import POOLINGS, TEXT_POOLINGS, Pooling, TextPooling, pool
from optotype.schemas.errors import InvalidDataError, ModelError, NotFoundError, Problem, UsageError

__all__ = [
    "PADDINGS",
    "POOLINGS",
    "TEXT_POOLINGS",
    "LanguageModel",
    "Padding",
    "Pooling",
    "TextPooling",
    "find_gguf",
    "load_language_model",
    "pool",
]

Padding = Literal["right", "left"]
PADDINGS: tuple[Padding, ...] = ("right", "left")

# Families that number positions from pad_token_id + 1, so that their tables hold fewer texts' tokens than rows.
_OFFSET_POSITIONS = (
    "camembert",
    "data2vec-text",
    "longformer",
    "mpnet",
    "roberta",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
)
_LONG = 10**6  # tokenizers without a limit of their own say 10**30
_TOKENIZED_AT_ONCE = 1000
_SAME = 1e-3  # of the largest value; rounding in float32 is a hundred times smaller, a shifted position far larger


def find_gguf(folder: Path, gguf_file: str | None, name: str) -> str | None:
    """The GGUF file to load out of ``folder``: the one named, or the only one where there are no other weights.

    Raises
    ------
    NotFoundError
        The named file is not there.
    UsageError
        There are several and none was named.
    """
    if gguf_file is not None:
        if not (folder / gguf_file).is_file():
            raise NotFoundError(f"{name}: there is no file {gguf_file!r} in {folder}")
        return gguf_file
    found = sorted(path.name for path in folder.glob("*.gguf"))
    if not found or (folder / "config.json").exists():
        return None
    if len(found) > 1:
        raise UsageError(f"{name}: {len(found)} GGUF files: {', '.join(found)}", hint="Say which: --gguf-file NAME.")
    return found[0]


@dataclass
class LanguageModel:
    """A loaded base model and its tokenizer.

    Attributes
    ----------
    name : str
        What messages call it.
    layers : int
        How many hidden states it has: one before the first block and one after each. The last is what the model itself
        returns, after its final norm where it has one.
    max_length : int
        Tokens that it reads of a text, special tokens included.
    padding : {"right", "left"}
        Where the shorter texts of a batch are filled up. States do not depend on it but for rounding.
    """

    name: str
    layers: int
    max_length: int
    _model: Any
    _tokenizer: Any
    _device: Any
    padding: Padding = "right"

    def layer(self, layer: int) -> int:
        """``layer`` counted from the front.

        Raises
        ------
        UsageError
            There is none.
        """
        if not -self.layers <= layer < self.layers:
            raise UsageError(f"{self.name}: there is no layer {layer}: {-self.layers} to {self.layers - 1}")
        return layer % self.layers

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text before truncation, special tokens included."""
        counts: list[int] = []
        for start in range(0, len(texts), _TOKENIZED_AT_ONCE):
            chunk = list(texts[start : start + _TOKENIZED_AT_ONCE])
            encoded = self._tokenizer(chunk, truncation=False, padding=False, verbose=False)
            counts.extend(len(ids) for ids in encoded["input_ids"])
        return counts

    def check(self, ids: Sequence[str], texts: Sequence[str], pooling: TextPooling = "mean") -> list[bool]:
        """Find texts without tokens before anything is encoded.

        Returns
        -------
        list of bool
            Which texts are longer than `max_length` and will be cut.

        Raises
        ------
        InvalidDataError
            Lists every text that is blank or has no tokens; with the pooling ``last-before-eos`` those that are nothing
            but the end-of-sequence token after they were cut, too.
        UsageError
            That pooling, and the tokenizer names no end-of-sequence token.
        """
        counts = self.lengths(texts)
        problems = [
            Problem(identity, "text-empty", f"{text!r} has no tokens" if text.strip() else "the text is blank")
            for identity, text, count in zip(ids, texts, counts, strict=True)
            if count == 0 or not text.strip()
        ]
        if pooling == "last-before-eos":
            listed = {problem.where for problem in problems}
            problems += [
                Problem(identity, "only-eos", f"{text!r} has no token beside the end of the sequence")
                for identity, text, ends in zip(ids, texts, self._only_eos(texts), strict=True)
                if ends and identity not in listed
            ]
        if problems:
            raise InvalidDataError(
                f"{len(problems)} of {len(ids)} texts cannot be encoded; nothing was written", problems
            )
        return [count > self.max_length for count in counts]

    def _eos(self) -> int:
        """The end-of-sequence token, as the tokenizer names it."""
        token: int | None = self._tokenizer.eos_token_id
        if token is None:
            raise UsageError(
                f"{self.name}: its tokenizer names no end-of-sequence token, so none can be left out",
                hint="Take the last token as it comes: --pooling last",
            )
        return token

    def _only_eos(self, texts: Sequence[str]) -> list[bool]:
        """Which texts have no token but the end of the sequence, as far as they are read."""
        eos, found = self._eos(), []
        for start in range(0, len(texts), _TOKENIZED_AT_ONCE):
            chunk = list(texts[start : start + _TOKENIZED_AT_ONCE])
            encoded = self._tokenizer(chunk, truncation=True, max_length=self.max_length, padding=False, verbose=False)
            found += [all(token == eos for token in ids) for ids in encoded["input_ids"]]
        return found

    def states(self, texts: Sequence[str], layer: int, pooling: TextPooling) -> npt.NDArray[np.float32]:
        """Pooled states of one batch, shape (texts, channels), float32.

        Parameters
        ----------
        texts : sequence of str
            Those that `check` lets pass.
        layer : int
            From the front, as `layer` gives it.
        pooling : {"mean", "last", "cls", "last-before-eos"}
            As in `pool`; ``last-before-eos`` is the last real token that is not the tokenizer's end-of-sequence token,
            wherever that stands: the same as ``last`` for tokenizers that add none.

        Raises
        ------
        ModelError
            The model fails or returns another number of hidden states than its configuration says.
        """
        import torch

        encoded = self._tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=self.max_length,
            return_attention_mask=True,
            return_tensors="pt",
            verbose=False,
        )
        mask = encoded["attention_mask"]
        names = ["input_ids", "attention_mask"]
        # Models without a table of types may still take them, and add the embedding of token 0 (GPT-2).
        if "token_type_ids" in encoded and getattr(self._model.config, "type_vocab_size", None):
            names.append("token_type_ids")
        inputs = {name: encoded[name].to(self._device) for name in names}
        if self.padding == "left" and self._counts_positions():
            # from the first real token, which padding in front would otherwise move
            inputs["position_ids"] = (mask.cumsum(dim=1) - 1).clamp(min=0).to(self._device)
        options = {} if self._model.config.is_encoder_decoder else {"use_cache": False}
        try:
            output = self._model(**inputs, **options, output_hidden_states=True)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise ModelError(f"{self.name}: the model failed on {tuple(mask.shape)} tokens: {error}") from error
        hidden = getattr(output, "hidden_states", None)
        if hidden is None or len(hidden) != self.layers:
            seen = "none" if hidden is None else len(hidden)
            raise ModelError(f"{self.name}: {self.layers} hidden states expected, got {seen}")
        chosen = hidden[layer].to(torch.float32).cpu().numpy()
        if pooling == "last-before-eos":
            text = mask * (encoded["input_ids"] != self._eos())
            return pool(chosen, text.numpy(), "last")
        return pool(chosen, mask.numpy(), pooling)

    def _counts_positions(self) -> bool:
        """Whether positions have to be given to it: it takes them, and does not find them from the padding itself."""
        takes = "position_ids" in inspect.signature(self._model.forward).parameters
        return takes and self._model.config.model_type not in _OFFSET_POSITIONS

    def check_padding(self) -> None:
        """See that padding on the left leaves states as they are.

        Positions are given to models that take them; others must not know any (T5) or find them out (RoBERTa). Which is
        which no configuration says, so a word alone is compared with the same word beside a longer text.

        Raises
        ------
        ModelError
            They differ by more than rounding.
        """
        import torch

        short, long = "a", "a b c d e f g h"
        with torch.inference_mode():
            alone = self.states([short], self.layers - 1, "mean")[0]
            beside = self.states([short, long], self.layers - 1, "mean")[0]
        if not np.abs(alone - beside).max() <= _SAME * np.abs(alone).max():
            raise ModelError(
                f"{self.name}: padding on the left changes its states: it counts positions from the padding",
                hint="Pad on the right: leave --padding out",
            )


def load_language_model(
    files: ModelFiles,
    *,
    device: str = "cpu",
    trust_remote_code: bool = False,
    gguf_file: str | None = None,
    max_length: int | None = None,
    padding: Padding = "right",
) -> LanguageModel:
    """Load a language model without its head, in float32, with its tokenizer.

    Parameters
    ----------
    files : ModelFiles
        A hub snapshot or folder: safetensors (or ``.bin``, read with ``weights_only``) with a configuration and a
        tokenizer, or a folder with one GGUF file, which holds all three.
    device : str
        Where to run it.
    trust_remote_code : bool
        Whether code in the folder may run.
    gguf_file : str, optional
        Which GGUF file of the folder to take.
    max_length : int, optional
        Read no more tokens of a text than this; the model's own limit by default.
    padding : {"right", "left"}
        Where the shorter texts of a batch are filled up.

    Raises
    ------
    ModelError
        It cannot be loaded, lacks weights, is not a language model, or gives other states under padding on the left.
    UsageError
        ``max_length`` is below 1 or beyond what the model can read.
    """
    import torch
    from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

    name, folder = files.name, files.folder
    if folder is None:
        raise UsageError(f"{name}: a language model is a hub repository or a folder, not a plug-in")
    place = check_device(device, name)
    if not trust_remote_code:
        refuse_remote_code(files)
    gguf = find_gguf(folder, gguf_file, name)
    common: dict[str, Any] = {"local_files_only": True, "trust_remote_code": trust_remote_code}
    if gguf is not None:
        common["gguf_file"] = gguf
    # mismatched sizes are reported that way, and refused below with their names
    options = {**common, "dtype": torch.float32, "output_loading_info": True, "ignore_mismatched_sizes": True}
    if gguf is None:
        options["use_safetensors"] = True if safe_weights(folder) else None
    try:
        with quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(folder, **common)
            # GGUF files name their tensors as the whole causal model; its head is left aside afterwards.
            loader = AutoModel if gguf is None else AutoModelForCausalLM
            model, info = loader.from_pretrained(folder, **options)
    except load_errors() as error:
        raise ModelError(f"{name}: the language model cannot be loaded: {error}") from error
    check_no_missing_weights(info, name)
    if gguf is not None:
        model = model.base_model
    if model.config.is_encoder_decoder:
        model = model.get_encoder()
    config = model.config.get_text_config()
    blocks = getattr(config, "num_hidden_layers", None)
    if not isinstance(blocks, int) or "input_ids" not in inspect.signature(model.forward).parameters:
        raise ModelError(f"{name}: a model of type {config.model_type!r} does not turn text alone into hidden states")
    _prepare(tokenizer, name, padding)
    limit = _limit(tokenizer, config)
    if max_length is not None and not 1 <= max_length <= limit:
        raise UsageError(f"{name}: --max-length {max_length}: this model reads 1 to {limit} tokens")
    loaded = LanguageModel(name, blocks + 1, max_length or limit, model.eval().to(place), tokenizer, place, padding)
    if padding == "left":
        loaded.check_padding()
    return loaded


def _prepare(tokenizer: Any, name: str, padding: Padding) -> None:
    """Make the tokenizer pad on the side asked for and cut on the right, with a padding token.

    Right padding is right for every family: causal models do not look ahead, others are masked, and absolute positions
    count from the first token, which padding on the left would shift; there they are given.
    """
    tokenizer.padding_side = padding
    tokenizer.truncation_side = "right"
    if tokenizer.pad_token_id is None:
        # any token will do: the mask says where padding is
        stand_in = next(
            (t for t in (tokenizer.eos_token, tokenizer.unk_token, tokenizer.bos_token) if t is not None), None
        )
        stand_in = stand_in if stand_in is not None else tokenizer.convert_ids_to_tokens(0)
        if stand_in is None:
            raise ModelError(f"{name}: its tokenizer has no token that could stand for padding")
        tokenizer.pad_token = stand_in


def _limit(tokenizer: Any, config: Any) -> int:
    """Tokens that a text may have: the smaller of the tokenizer's and the position table's limit."""
    limits = [tokenizer.model_max_length] if tokenizer.model_max_length < _LONG else []
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        offset = (config.pad_token_id or 0) + 1 if config.model_type in _OFFSET_POSITIONS else 0
        limits.append(positions - offset)
    return min(limits, default=_LONG)
