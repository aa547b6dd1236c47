"""Causal language models with their heads, for losses on texts."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from optotype.pipelines.encode.loading import (
    ModelFiles,
    check_device,
    load_errors,
    quiet_transformers,
    refuse_remote_code,
    safe_weights,
)
from optotype.pipelines.encode.text import find_gguf
from optotype.schemas.errors import ModelError, UsageError

__all__ = ["CausalModel", "load_causal_model"]


@dataclass(frozen=True)
class CausalModel:
    """A frozen causal language model with its head, in float32.

    Attributes
    ----------
    name : str
    width : int
        Of its token embeddings.
    blocks, head : int
        Parameters that each token passes through, and those of the output layer.
    positions : int or None
        Tokens it can read, where it has a limit.
    model, tokenizer, device : object
        Of transformers and torch; no parameter takes a gradient.
    picks_logits : bool
        Whether it can be asked for the logits of some positions alone.
    """

    name: str
    width: int
    blocks: int
    head: int
    positions: int | None
    model: Any
    tokenizer: Any
    device: Any
    picks_logits: bool


def load_causal_model(files: ModelFiles, *, device: str = "cpu") -> CausalModel:
    """Load a causal language model with its head, in float32.

    Parameters
    ----------
    files : ModelFiles
        A hub snapshot or folder of safetensors (or ``.bin``, read with ``weights_only``), or with one GGUF file.

    Raises
    ------
    ModelError
        It cannot be loaded, is no causal language model, lacks the weights of its head, or looks ahead.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    name, folder = files.name, files.folder
    if folder is None:
        raise UsageError(f"{name}: a language model is a hub repository or a folder, not a plug-in")
    place = check_device(device, name)
    refuse_remote_code(files)
    gguf = find_gguf(folder, None, name)
    common: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    if gguf is not None:
        common["gguf_file"] = gguf
    options = {**common, "dtype": torch.float32, "output_loading_info": True, "ignore_mismatched_sizes": True}
    if gguf is None:
        options["use_safetensors"] = True if safe_weights(folder) else None
    try:
        with quiet_transformers():
            if gguf is None:
                _check_causal(AutoConfig.from_pretrained(folder, **common), MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, name)
            tokenizer = AutoTokenizer.from_pretrained(folder, **common)
            model, info = AutoModelForCausalLM.from_pretrained(folder, **options)
    except load_errors() as error:
        raise ModelError(f"{name}: the language model cannot be loaded: {error}") from error
    lacking = sorted({str(key) for kind in ("missing_keys", "mismatched_keys") for key in info.get(kind, ())})
    if lacking:
        shown = ", ".join(lacking[:5]) + (", ..." if len(lacking) > 5 else "")
        raise ModelError(
            f"{name}: weights of the causal model are not in its files and would be random numbers: {shown}",
            hint="Give the model as it was trained, with its head.",
        )
    model = model.eval().requires_grad_(False).to(place)
    source, output = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    total = sum(parameter.numel() for parameter in model.parameters())  # shared ones once
    blocks = total - source.numel() - (0 if output is source else output.numel())
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    picks = "logits_to_keep" in inspect.signature(model.forward).parameters
    causal = CausalModel(
        name,
        int(source.shape[1]),
        int(blocks),
        int(output.numel()),
        limit if isinstance(limit, int) and limit > 0 else None,
        model,
        tokenizer,
        place,
        picks,
    )
    _check_looks_back(causal)
    return causal


def _check_causal(config: Any, known: Any, name: str) -> None:
    """Refuse what is saved as anything but a causal language model."""
    classes = {each for value in known.values() for each in ([value] if isinstance(value, str) else value)}
    stated = list(getattr(config, "architectures", None) or [])
    if not classes.intersection(stated):
        what = f"is a {' and '.join(stated)}" if stated else "does not say what it is"
        raise ModelError(
            f"{name}: {what} (type {config.model_type!r}), and only a causal language model with its head has a loss "
            "on captions",
            hint="Give another language model, such as a Llama, Qwen or SmolLM with its head.",
        )


def _check_looks_back(causal: CausalModel) -> None:
    """Refuse a model whose output at a token hangs on later ones, whatever its configuration says."""
    import torch

    embed = causal.model.get_input_embeddings()
    with torch.inference_mode():
        tokens = embed(torch.arange(min(4, embed.weight.shape[0]), device=causal.device))[None]
        changed = tokens.clone()
        changed[:, -1] = 2.0 * tokens.std() - changed[:, -1]
        first, second = (causal.model(inputs_embeds=each, use_cache=False).logits[:, :-1] for each in (tokens, changed))
    if float((first - second).abs().max()) > 1e-4 * max(1.0, float(first.abs().max())):
        raise ModelError(
            f"{causal.name}: it looks ahead (the output at a token changes with later ones), so its loss on a caption "
            "means nothing",
            hint="Give a causal language model.",
        )
