"""The page of mined pairs: the document and pictures of a mining put through the template."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.report.formats import rendered, template_text
from optotype.schemas.errors import InvalidDataError, UsageError

if TYPE_CHECKING:
    from optotype.pipelines.pairs.mining import Mining
    from optotype.registry.report.ranking.thumbnails import Thumbnails

__all__ = ["contact_sheet"]

_SIDE = 112  # pixels of a picture
_CONTENTS = (("pairs", "Pairs"), ("counts", "Counts"), ("reproduce", "Reproduce"))


def contact_sheet(
    document: Mapping[str, Any],
    mining: Mining,
    pictures: Mapping[str, Path],
    captions: Mapping[str, str],
    *,
    shown: int = 60,
) -> tuple[str, list[str]]:
    """The page as text: no script, nothing loaded from elsewhere, the same bytes for the same input.

    Parameters
    ----------
    document : mapping
        What ``pairs.json`` holds.
    mining : Mining
        The pairs, best first.
    pictures, captions : mapping of str
        File and words of every image; either may be empty.
    shown : int
        Pairs on the page, from 0 on; the first ones.

    Returns
    -------
    (str, list of str)
        The page, and warnings: pictures that could not be read, whose place is left empty.

    Raises
    ------
    UsageError
        ``shown`` is negative.
    """
    if shown < 0:
        raise UsageError(f"--shown is a number from 0 on, got {shown}")
    count = min(shown, len(mining.first))
    pairs: list[dict[str, Any]] = [
        {
            "images": (mining.ids[int(mining.first[place])], mining.ids[int(mining.second[place])]),
            "similar": float(mining.similar[place]),
            "different": float(mining.different[place]),
            "gap": float(mining.similar[place] - mining.different[place]),
        }
        for place in range(count)
    ]
    images = [image for pair in pairs for image in pair["images"]]
    thumbnails, warnings = _thumbnails(pictures, images) if pictures else (None, [])
    similar, different = document["similar"], document["different"]
    page = rendered(
        template_text("optotype.registry.report.contact_sheet", "contact_sheet.html"),
        title=f"Pairs that {similar['name']} takes for alike and {different['name']} tells apart",
        contents=_CONTENTS,
        filters={"cosine": _cosine, "caption": lambda image: captions.get(image, "")},
        sheets=("suites.css", "contact_sheet/contact_sheet.css"),
        doc=document,
        counts=document["counts"],
        above=document["thresholds"]["above"],
        below=document["thresholds"]["below"],
        pairs=pairs,
        number={} if thumbnails is None else thumbnails.number,
        uris=() if thumbnails is None else thumbnails.uris,
        drawn=thumbnails is not None,
        command=_command(document),
    )
    return page, warnings


def _thumbnails(pictures: Mapping[str, Path], images: Sequence[str]) -> tuple[Thumbnails, list[str]]:
    """Pictures of those images that can be read; hours of mining are not lost to one that cannot."""
    from optotype.registry.report.ranking.thumbnails import make_thumbnails

    try:
        return make_thumbnails(pictures, images, side=_SIDE), []
    except InvalidDataError as error:
        broken = {problem.where for problem in error.problems}
        warnings = [f"no picture of {each.where} on the contact sheet: {each.message}" for each in error.problems]
        return make_thumbnails(pictures, [image for image in images if image not in broken], side=_SIDE), warnings


def _cosine(value: float) -> str:
    """A threshold with the digits that it has, at least two of them."""
    digits = f"{value:.6f}".rstrip("0")
    return f"{value:.2f}" if len(digits.partition(".")[2]) < 2 else digits


def _command(document: Mapping[str, Any]) -> str:
    """The command that gives these pairs again."""
    given = document["parameters"]
    words = ["optotype pairs mine"]
    words += [f"--{side} {shlex.quote(document[side]['name'])}" for side in ("similar", "different")]
    words += [
        f"--{name.replace('_', '-')} {given[name]}"
        for name in ("above", "above_quantile", "below", "below_quantile", "per_image")
        if given[name] is not None
    ]
    if given["common"]:
        words.append("--common")
    if given["seed"]:
        words.append(f"--seed {given['seed']}")
    words.append("--out PAIRS")
    return " \\\n    ".join([" ".join(words[:3]), " ".join(words[3:])])
