"""What is written beside a panel for its readers: how it was made."""

from __future__ import annotations

import textwrap

from optotype.pipelines.emoji.probe.blind import BLIND, blind_kind
from optotype.pipelines.emoji.probe.directions import MOST_DIRECTIONS
from optotype.pipelines.emoji.probe.panel import ProbePanel
from optotype.pipelines.emoji.probe.ties import LEVEL

__all__ = ["readme"]

_README = """\
# A panel out of alignment probes

Every panel model is a vision encoder, a language model and a kind of probe: a linear map from the encoder's pooled
patch features (mean over tokens) to the language model's states of captions. It was fitted on {train} of {n}
image-caption pairs and answers {items} questions about the other {held_out}: which of four captions belongs to this
image? It chooses the caption whose whitened state has the highest cosine with what the map makes of the image.

- Halves: half of each emoji group, seed {seed}. Pairs that share a caption (but for case, spaces, punctuation) or the
  pixels of an image stay in one half. Whitening, penalties and everything else fitted saw the training half alone.
- Probes: `ridge` (least squares) and `contrastive` (symmetric InfoNCE, linear in the map and so convex), both on at
  most {directions} principal directions a side. Whitening strength and penalty were chosen by five-fold
  cross-validation within the training half; SOURCE.json has what was chosen.
- Benchmarks: `<group>-<kind>`; category = emoji group. Wrong captions are drawn from all held-out pairs (`random`) or
  from the same group (`group`), or are its neighbourhood (`nearest`: a centre drawn among the right caption and the
  three nearest to it, and the captions nearest to that centre, by cosine of the states of {nearest_by} as they are; no
  training is involved). They share neither caption nor image with the right one or with each other.
- `nearest` is chosen in the space of {nearest_by}, which may make it harder for that model than for others: compare
  language models on the other kinds.
- Groups with fewer than {min_items} held-out pairs are asked nothing.
- Blind runs see the options alone:
{blind}
{random}- ties.json: paired bootstrap over images ({repeats} resamples); two models are tied where the {level:.0%}
  interval of their difference holds 0. The intervals are one at a time: among many pairs, some exclude 0 by luck.
- downstream.csv: accuracy over all questions by encoder and language model, mean over the two probes: what rankings of
  these encoders are judged by. It is itself made by a linear map of pooled features, so metrics of that kind have an
  advantage on it.
- models.csv: `release_date` is that of the younger part, blank where it is not known of both.
"""


_RANDOM = """\
- random-vit was never trained and is in the panel on purpose: colour and layout get through random weights, too, so
  what it reaches is the floor to judge the others against, not chance.
"""


def readme(panel: ProbePanel, seed: int, min_items: int, repeats: int) -> str:
    """The text of ``README.md``, from what is in the panel."""
    kinds = dict.fromkeys(blind_kind(name) for name in panel.blind)
    return _README.format(
        train=len(panel.train),
        n=len(panel.pairs),
        held_out=len(panel.pairs) - len(panel.train),
        items=len(panel.questions),
        seed=seed,
        directions=MOST_DIRECTIONS,
        nearest_by=panel.nearest_by,
        min_items=min_items,
        blind="\n".join(_wrapped(f"  - `blind-{kind}/...`: {BLIND[kind]}") for kind in kinds),
        random=_RANDOM if any(member.encoder == "random-vit" for member in panel.members) else "",
        repeats=repeats,
        level=LEVEL,
    )


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 120, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)
