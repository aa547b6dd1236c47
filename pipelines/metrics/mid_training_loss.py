"""Mid-training loss: how well captions can be foretold after a short training of a projector alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.emoji.probe.halves import seeded
from optotype.pipelines.kernels.rows import BlockCache, RowReader
from optotype.pipelines.metrics.held_out import held_out
from optotype.pipelines.metrics.metric import Inputs, Kind, Need, Option, Score, metric_error
from optotype.pipelines.metrics.misfits import Misfit, too_few
from optotype.schemas.errors import UsageError

__all__ = ["MidTrainingLoss"]


class MidTrainingLoss:
    """Negative final caption loss of a projector trained under a budget of FLOPs, all else frozen.

    Patch tokens go through one linear layer (or two: ``projector``) into the space of a causal language model's token
    embeddings and stand in front of the caption, whose tokens and line end are to be foretold; Adam, a half cosine of
    rates, as the first stage of LLaVA (Liu et al. 2024). See `optotype.pipelines.encode.projector_training`.
    Every encoder gets the same ``flops``, so one with more patches an image sees fewer images.

    The score is minus the mean loss in nats a token: over images that were held out, each weighing the same
    (``per_item``, the default), or, with ``on`` = train, over the last tenth of the training steps, which is the
    paper's final loss. ``details`` holds both, and the held-out loss of the captions without any image.

    Bytes are the same on one type of machine for one number of ``threads``, as for encoding; versions are in
    ``details``.

    FLOPs: the budget, plus 2·(B·L + H·T) for each held-out image; see `projector_flops` for the formula. The vision
    encoder's forward pass is not in the budget: its patches are stored.

    Chosen where the definition is silent: the held-out loss, a budget of 1e12, 4 images a step, rate 1e-3, captions cut
    at 64 tokens, 20 % but 32 images at most held out, and the scale of patches taken out (see `train_projector`).
    """

    name = "mid-training-loss"
    kind: Kind = "trains"
    needs: frozenset[Need] = frozenset({"captions", "language-model", "training"})
    options: Mapping[str, Option] = MappingProxyType(
        {
            "flops": Option(1e12, float, "budget of training, the same for every encoder", minimum=1.0),
            "projector": Option("linear", str, "one layer or two", choices=("linear", "mlp2")),
            "on": Option("held-out", str, "whose loss is the score", choices=("held-out", "train")),
            "held-out": Option(0.2, float, "share of the images that is held out", minimum=0.01, maximum=0.95),
            "held-out-images": Option(32, int, "most images that are held out", minimum=1),
            "batch": Option(4, int, "images in a step", minimum=1),
            "rate": Option(1e-3, float, "of Adam at the first step", minimum=0.0),
            "caption-tokens": Option(64, int, "tokens of a caption, its line end included", minimum=2),
            "tokens": Option(0, int, "most tokens of an image, neighbours averaged; 0 is all patches", minimum=0),
            "device": Option("cpu", str, "cpu, cuda or mps"),
            "threads": Option(1, int, "threads of torch on the CPU", minimum=1),
        }
    )
    source = "final loss of FLOP-matched first-stage training of the projector (LLaVA, Liu et al. 2024)"

    def check(self, n: int, options: Mapping[str, Any]) -> Iterator[Misfit]:
        """There are 2 items or more."""
        yield from too_few(n, 2)

    def score(self, inputs: Inputs, options: Mapping[str, Any], *, seed: int) -> Score:
        """See the class.

        Raises
        ------
        UsageError
            No captions or no weights of the language model; a budget below one step; texts beyond what it reads.
        NotFoundError, ModelError
            The model is not there, cannot be loaded, or is no causal language model with its head.
        InvalidDataError
            Blank captions, patches that are not finite.
        """
        from optotype.pipelines.encode.causal import load_causal_model
        from optotype.pipelines.encode.loading import locate, versions
        from optotype.pipelines.encode.projector_training import Recipe, train_projector
        from optotype.schemas.sources import parse_source

        if inputs.captions is None:
            raise metric_error(self.name, "it needs the captions of the images", "Give --captions TABLE.")
        if inputs.language_model is None:
            raise metric_error(
                self.name,
                f"it needs the weights of the language model {inputs.model}",
                f"Give --language-model {inputs.model or 'NAME'}=SOURCE, a folder or hf:REPOSITORY@REVISION.",
            )
        n = len(inputs.items)
        if n < 2:
            raise metric_error(self.name, f"2 images are the least, got {n}")
        train, test = held_out(inputs.items, options["held-out"], seed, "mid-training-loss")
        test = np.sort(test[: options["held-out-images"]]) if options["on"] == "held-out" else test[:0]
        patches = _Patches(inputs, options["tokens"])
        files = locate(parse_source(inputs.language_model))
        causal = load_causal_model(files, device=options["device"])
        recipe = Recipe(
            projector=options["projector"],
            flops=options["flops"],
            batch=options["batch"],
            rate=options["rate"],
            caption_tokens=options["caption-tokens"],
            device=options["device"],
            threads=options["threads"],
        )
        try:
            found = train_projector(
                causal,
                patches.read,
                patches.counts,
                [str(caption) for caption in inputs.captions],
                [str(item) for item in inputs.items],
                np.sort(train).tolist(),
                test.tolist(),
                recipe,
                seeded(seed, "mid-training-loss"),
            )
        except UsageError as error:
            raise metric_error(self.name, error.message, error.hint) from error
        on_held_out = options["on"] == "held-out"
        loss = float(found.held_out.mean()) if on_held_out else found.final
        details = {
            "train_loss": found.final,
            "held_out_loss": loss if on_held_out else None,
            "text_only_loss": found.text_only,
            "first_loss": float(found.losses[0]),
            "steps": len(found.losses),
            "images_seen": found.images,
            "train": len(train),
            "held_out": len(test),
            "flops": found.flops,
            "budget": options["flops"],
            "language_model_parameters": causal.blocks + causal.head,
            "captions_cut": found.cut,
            "language_model": dict(files.identity),
            "versions": versions("torch", "transformers"),
        }
        notes = []
        if found.images < len(train):
            notes.append(
                f"the budget paid for {len(found.losses)} steps on {found.images} of {len(train)} images: so short a "
                "training tells of its first weights as much as of the encoder"
            )
        return Score(-loss, per_item=-found.held_out if on_held_out else None, details=details, warnings=tuple(notes))


class _Patches:
    """Patches of images by position, a few blocks in memory.

    Attributes
    ----------
    counts : list of int
        Tokens of each image as they are read.
    """

    def __init__(self, inputs: Inputs, most: int) -> None:
        sizes = np.asarray(inputs.features["row_size"].values, dtype=np.int64)
        self._offsets = np.concatenate([[0], np.cumsum(sizes)])
        self._reader = RowReader(inputs.features["patches"].data, "mid-training")
        self._cache = BlockCache()
        self._most = most
        self.counts = [int(min(size, most) if most else size) for size in sizes]

    def read(self, positions: Sequence[int]) -> list[NDArray[np.float32]]:
        """Patches of each image (M, d); where they are too many, means of runs of neighbours in reading order."""
        found = []
        for position in positions:
            start, stop = int(self._offsets[position]), int(self._offsets[position + 1])
            rows = self._reader.read(start, stop, self._cache).astype(np.float32)
            if len(rows) != self.counts[position]:
                runs = np.array_split(rows, self.counts[position])
                rows = np.stack([run.mean(axis=0, dtype=np.float64) for run in runs]).astype(np.float32)
            found.append(rows)
        return found
