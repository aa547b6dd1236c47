"""Train a projector from patch tokens into a frozen causal language model, under a budget of FLOPs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.encode.causal import CausalModel
from optotype.pipelines.encode.loading import torch_state
from optotype.schemas.errors import InvalidDataError, ModelError, Problem, UsageError

__all__ = ["Recipe", "Training", "projector_flops", "train_projector"]

Projector = Literal["linear", "mlp2"]
ReadPatches = Callable[[Sequence[int]], list[NDArray[np.float32]]]

_SHOWN = 10
_SCALED_BY = 64  # images whose patches tell their scale
_SCALED_BY_TOKENS = 4096  # first entries of the vocabulary that tell the scale of embeddings
_LAST = 0.1  # of the steps: the final training loss is the mean over these


@dataclass(frozen=True)
class Recipe:
    """How a projector is trained.

    Attributes
    ----------
    projector : {"linear", "mlp2"}
        One linear layer, or two of the language model's width with a GELU between (LLaVA-1.5).
    flops : float
        Budget of training, see `projector_flops`; training stops before the step that would exceed it.
    batch : int
        Images in a step.
    rate : float
        Of Adam at the first step; falls to 0 by a half cosine.
    caption_tokens : int
        Longer captions are cut there, their line end included.
    device : str
    threads : int
        Of torch on the CPU. The losses hang on it in their last digits, so it is a parameter.
    """

    projector: Projector = "linear"
    flops: float = 1e12
    batch: int = 4
    rate: float = 1e-3
    caption_tokens: int = 64
    device: str = "cpu"
    threads: int = 1


@dataclass(frozen=True)
class Training:
    """What came of it.

    Attributes
    ----------
    losses : ndarray (steps,) float64
        Mean loss over the caption tokens of each step's batch, before the step.
    held_out : ndarray (h,) float64
        Mean loss over the caption tokens of each held-out image, by the trained projector.
    text_only : float or None
        Mean over the held-out of the same loss without any image; None where nothing is held out, or the model has no
        token to begin with.
    flops : float
        Spent on training.
    images : int
        Seen, with repetition.
    cut : int
        Captions that were cut, of those that were used.
    """

    losses: NDArray[np.float64]
    held_out: NDArray[np.float64]
    text_only: float | None
    flops: float
    images: int
    cut: int

    @property
    def final(self) -> float:
        """Mean loss of the last tenth of the steps, one at least."""
        return float(self.losses[-max(1, round(_LAST * len(self.losses))) :].mean())


def projector_flops(
    recipe: Recipe, model: CausalModel, *, channels: int, patches: int, before: int, caption: int
) -> float:
    """FLOPs of one image's part of a training step.

    4·(B·L + H·T) for the frozen language model: 2 per parameter and token forward, 2 back (gradients of activations,
    none of weights), with B parameters of the blocks over L = before + M + T tokens and H of the head over the T of the
    caption; attention's products are left out, as is usual. The projector: 4·d·t·M for a linear one (forward, gradient
    of its weights), 4·d·t·M + 6·t²·M for two layers. The vision encoder's forward pass is not in it: its patches are
    read from the store.
    """
    t = model.width
    language = 4.0 * (model.blocks * (before + patches + caption) + model.head * caption)
    projector = 4.0 * channels * t * patches + (6.0 * t * t * patches if recipe.projector == "mlp2" else 0.0)
    return language + projector


def train_projector(
    causal: CausalModel,
    read: ReadPatches,
    counts: Sequence[int],
    captions: Sequence[str],
    items: Sequence[str],
    train: Sequence[int],
    held_out: Sequence[int],
    recipe: Recipe,
    rng: np.random.Generator,
) -> Training:
    """Train a projector with encoder and language model frozen, then measure its loss on held-out captions.

    A text begins with what the tokenizer puts in front (BOS, where it does), then come the projected patches, the
    caption and a line end, as in LLaVA's first stage. The loss is that of the caption and the line end, mean over
    tokens. Images come in a seeded order, anew for each epoch. Patches are divided by one number, their root mean
    square over the first images, and the projector begins with outputs of the scale of the token embeddings: an
    encoder's unit must not decide how fast Adam moves. Nothing of torch's global random state is used.

    Parameters
    ----------
    read : callable
        Positions -> patches (M_i, d) float32 of each image.
    counts : sequence of int, length n
        M_i by position.
    captions, items : sequence of str, length n
        Captions and ids by position.
    train, held_out : sequence of int
        Positions; ``held_out`` may be empty.
    rng : numpy Generator
        For the order and the first weights.

    Raises
    ------
    InvalidDataError
        Captions that are blank, patches that are not finite; named.
    UsageError
        The budget does not pay for one step, or a text is longer than the model reads.
    ModelError
        The loss is not finite.
    """
    import torch

    used = [*train, *held_out]
    before, tokens, cut = _tokenised(causal, [captions[p] for p in used], [items[p] for p in used], recipe)
    texts = dict(zip(used, tokens, strict=True))
    for p in used:
        _check_length(causal, items[p], len(before), counts[p], len(texts[p]))
    first = read(train[:_SCALED_BY])
    _check_patches(first, [items[p] for p in train[:_SCALED_BY]])
    channels = first[0].shape[1]
    scale = float(np.sqrt(np.mean([np.mean(np.square(each, dtype=np.float64)) for each in first])))
    if scale == 0:
        raise InvalidDataError(
            "A projector cannot be trained", [Problem("patches", "no-variance", "the patches are all zero")]
        )

    def cost(positions: Sequence[int]) -> float:
        return sum(
            projector_flops(
                recipe, causal, channels=channels, patches=counts[p], before=len(before), caption=len(texts[p])
            )
            for p in positions
        )

    def batch(positions: Sequence[int]) -> list[NDArray[np.float32]]:
        patches = read(positions)
        _check_patches(patches, [items[p] for p in positions])
        return [each / np.float32(scale) for each in patches]

    with _trainable(recipe.threads):
        network = _Network(causal, recipe.projector, channels, before, rng)
        steps = _schedule(train, recipe, rng, cost)
        optimiser = torch.optim.Adam(network.weights, lr=recipe.rate)
        losses = []
        for number, (positions, _) in enumerate(steps):
            for group in optimiser.param_groups:
                group["lr"] = recipe.rate * 0.5 * (1 + np.cos(np.pi * number / len(steps)))
            summed, count = network.losses(batch(positions), [texts[p] for p in positions])
            loss = summed.sum() / count.sum()
            losses.append(float(loss.detach()))
            if not np.isfinite(losses[-1]):
                raise ModelError(
                    f"{causal.name}: the loss of step {number + 1} is {losses[-1]}",
                    hint="Give a lower rate: --set mid-training-loss.rate=0.0001.",
                )
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
        found, without = [], []
        with torch.no_grad():
            for start in range(0, len(held_out), recipe.batch):
                positions = list(held_out[start : start + recipe.batch])
                summed, count = network.losses(batch(positions), [texts[p] for p in positions])
                found += (summed / count).double().tolist()
                if network.start:
                    summed, count = network.losses(None, [texts[p] for p in positions])
                    without += (summed / count).double().tolist()
    return Training(
        np.array(losses),
        np.array(found, dtype=np.float64),
        float(np.mean(without)) if without else None,
        float(sum(each for _, each in steps)),
        sum(len(positions) for positions, _ in steps),
        cut,
    )


@contextmanager
def _trainable(threads: int) -> Iterator[None]:
    """Deterministic torch that keeps gradients, unlike `torch_state`, whose settings it takes over."""
    import torch

    with torch_state(threads), torch.inference_mode(False), torch.enable_grad():
        yield


def _tokenised(
    causal: CausalModel, captions: Sequence[str], items: Sequence[str], recipe: Recipe
) -> tuple[list[int], list[list[int]], int]:
    """Tokens in front of every text, those of each caption with its line end, and how many were cut."""
    tokenizer = causal.tokenizer
    ended = [f"{caption.strip()}\n" for caption in captions]
    encoded = tokenizer(ended, padding=False, truncation=False, return_special_tokens_mask=True, verbose=False)
    before: list[int] = []
    tokens, empty, cut = [], [], 0
    for item, caption, ids, special in zip(
        items, captions, encoded["input_ids"], encoded["special_tokens_mask"], strict=True
    ):
        inside = [int(token) for token, mark in zip(ids, special, strict=True) if not mark]
        if not caption.strip() or not inside:
            empty.append(Problem(str(item), "caption-empty", f"{caption!r} has no tokens"))
            continue
        leading = next(place for place, mark in enumerate(special) if not mark)
        before = [int(token) for token in ids[:leading]]
        cut += len(inside) > recipe.caption_tokens
        tokens.append(inside[: recipe.caption_tokens])
    if empty:
        more = f" (the first {_SHOWN} are named)" if len(empty) > _SHOWN else ""
        raise InvalidDataError(f"{len(empty)} captions cannot be trained on{more}", empty[:_SHOWN])
    return before, tokens, cut


def _check_patches(patches: Sequence[NDArray[np.float32]], items: Sequence[str]) -> None:
    bad = [item for item, each in zip(items, patches, strict=True) if not np.isfinite(each).all()]
    if bad:
        problems = [Problem(str(item), "not-finite", "its patches hold NaN or Inf") for item in bad[:_SHOWN]]
        raise InvalidDataError("A projector cannot be trained", problems)


def _check_length(causal: CausalModel, item: str, before: int, patches: int, caption: int) -> None:
    if causal.positions is not None and before + patches + caption > causal.positions:
        raise UsageError(
            f"{causal.name} reads {causal.positions} tokens; {item} has {patches} patches and {caption} tokens of its "
            "caption",
            hint="Pool patches: --set mid-training-loss.tokens=64.",
        )


def _schedule(
    train: Sequence[int], recipe: Recipe, rng: np.random.Generator, cost: Callable[[Sequence[int]], float]
) -> list[tuple[list[int], float]]:
    """Batches that the budget pays for, with what each costs.

    Raises
    ------
    UsageError
        Not even the first.
    """
    steps: list[tuple[list[int], float]] = []
    spent = 0.0
    while True:
        order = [train[place] for place in rng.permutation(len(train))]
        for start in range(0, len(order), recipe.batch):
            positions = order[start : start + recipe.batch]
            needed = cost(positions)
            if spent + needed > recipe.flops:
                if not steps:
                    raise UsageError(
                        f"one step of {len(positions)} images takes {needed:.3g} FLOPs, the budget is "
                        f"{recipe.flops:.3g}",
                        hint="Give --set mid-training-loss.flops=NUMBER, a smaller batch, or fewer tokens an image.",
                    )
                return steps
            spent += needed
            steps.append((positions, needed))


class _Network:
    """The projector in front of the language model.

    Attributes
    ----------
    weights : list of tensors
        Of the projector; all that is trained.
    start : list of int
        Tokens that a text without an image begins with; empty where the model has none.
    """

    def __init__(
        self, causal: CausalModel, projector: Projector, channels: int, before: Sequence[int], rng: np.random.Generator
    ) -> None:
        import torch

        self._causal = causal
        embed = causal.model.get_input_embeddings()
        some = torch.arange(min(embed.weight.shape[0], _SCALED_BY_TOKENS), device=causal.device)
        width, scale = causal.width, float(embed(some).double().square().mean().sqrt())

        def layer(rows: int, gain: float) -> list[Any]:
            first = rng.standard_normal((rows, width)) * gain / np.sqrt(rows)
            made = [torch.tensor(first, dtype=torch.float32), torch.zeros(width)]
            return [each.to(causal.device).requires_grad_() for each in made]

        if projector == "linear":
            self.weights = layer(channels, scale)
        else:
            # a GELU of a standard normal has a root mean square of 0.65
            self.weights = [*layer(channels, 1.0), *layer(width, scale / 0.65)]
        self._before = list(before)
        ends = (causal.tokenizer.bos_token_id, causal.tokenizer.eos_token_id)
        self.start = self._before or [int(each) for each in ends if each is not None][:1]

    def losses(self, patches: Sequence[NDArray[np.float32]] | None, texts: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """Sum of the losses over the caption tokens of each text, and their number; both (texts,) tensors.

        Without ``patches`` the texts have no image.
        """
        import torch
        from torch.nn.functional import cross_entropy

        model, device = self._causal.model, self._causal.device
        embed = model.get_input_embeddings()
        start = torch.tensor(self._before if patches is not None else self.start, dtype=torch.long, device=device)
        visual: list[Any] = [embed.weight.new_zeros((0, self._causal.width)) for _ in texts]
        if patches is not None:
            visual = list(self._project(np.concatenate(patches)).split([len(each) for each in patches]))
        rows: list[Any] = []
        places: list[int] = []
        targets: list[int] = []
        owners: list[int] = []
        for number, text in enumerate(texts):
            ids = torch.tensor(list(text), dtype=torch.long, device=device)
            # by the module, not its table: some families scale what they look up
            rows.append(torch.cat([embed(start), visual[number], embed(ids)]))
            first = len(start) + len(visual[number]) - 1  # the token before the caption foretells its first
            places += range(first, first + len(text))
            targets += list(text)
            owners += [number] * len(text)
        longest = max(len(row) for row in rows)
        inputs = torch.stack([torch.nn.functional.pad(row, (0, 0, 0, longest - len(row))) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=device)
        kept = sorted(set(places))
        options: dict[str, Any] = {"inputs_embeds": inputs, "attention_mask": mask, "use_cache": False}
        if self._causal.picks_logits:
            logits = model(**options, logits_to_keep=torch.tensor(kept, device=device)).logits
            number_of = {place: number for number, place in enumerate(kept)}
            at = [number_of[place] for place in places]
        else:
            logits, at = model(**options).logits, places
        owner = torch.tensor(owners, device=device)
        chosen = logits[owner, torch.tensor(at, device=device)].float()
        each = cross_entropy(chosen, torch.tensor(targets, device=device), reduction="none")
        # one product instead of a scatter, whose order of additions is not fixed everywhere
        member = (owner[None, :] == torch.arange(len(texts), device=device)[:, None]).to(each.dtype)
        return member @ each, member.sum(dim=1)

    def _project(self, patches: NDArray[np.float32]) -> Any:
        import torch

        hidden = torch.from_numpy(np.ascontiguousarray(patches)).to(self._causal.device)
        hidden = hidden @ self.weights[0] + self.weights[1]
        if len(self.weights) == 4:
            hidden = torch.nn.functional.gelu(hidden) @ self.weights[2] + self.weights[3]
        return hidden
