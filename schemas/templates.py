"""Prompt templates: versioned documents that say how a model is asked, by task, side and language.

What a document holds says `optotype.schemas.template_documents`. Versions that are shipped never change; a prompt that
is not there is an error, never another one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from optotype.schemas.documents import canonical_json, parse_document
from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, UsageError, did_you_mean
from optotype.schemas.names import is_url_or_path
from optotype.schemas.prompt_styles import Style, styled
from optotype.schemas.references import Alias, Digest, Exact, Range, Reference, sort_key
from optotype.schemas.template_documents import IMAGE, TEMPLATE_FORMAT, TEXT, template_problems

__all__ = ["Prompt", "Template", "get_template", "parse_template", "render", "shipped_templates"]

_ANY = "*"
_SHIPPED = Path(__file__).parent / "template_data"
_PLACE = re.compile(r"\{text\}|<image>")


@dataclass(frozen=True)
class Prompt:
    """One instruction.

    Attributes
    ----------
    text : str
        With the places `TEXT` and `IMAGE`.
    end_mark : str
        What the styles ``punct`` and ``newline`` add: one of `optotype.schemas.prompt_styles.END_MARKS`.
    """

    text: str
    end_mark: str

    @property
    def needs_image(self) -> bool:
        """Whether it has a place for an image."""
        return IMAGE in self.text

    @property
    def needs_text(self) -> bool:
        """Whether it has a place for a text."""
        return TEXT in self.text

    def filled(self, text: str, style: Style | None, image_token: str = IMAGE) -> str:
        """The finished prompt: ``text`` and ``image_token`` in their places, then ended as ``style`` says."""
        # in one go, so that a text that reads like a placeholder stays as it is
        finished = _PLACE.sub(lambda match: text if match[0] == TEXT else image_token, self.text)
        return styled(finished, style, self.end_mark)


@dataclass(frozen=True)
class Template:
    """A checked document.

    Attributes
    ----------
    name, version, title, source : str
        ``version`` is semantic; the last two may be empty.
    image_token : str or None
        What the authors wrote for an image.
    digest : str
        ``sha256:`` and the SHA-256 of the document's canonical JSON: white space and the order of keys do not count.
    prompts : mapping of (task, side, language) to Prompt
        In the order of the document; each of the three may be ``*``.
    """

    name: str
    version: str
    title: str
    source: str
    image_token: str | None
    digest: str
    prompts: Mapping[tuple[str, str, str], Prompt]

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    def distinguishes(self, part: Literal["task", "language"]) -> bool:
        """Whether prompts differ by task, or by language: whether one is named at all."""
        place = {"task": 0, "language": 2}[part]
        return any(key[place] != _ANY for key in self.prompts)

    def prompt(self, task: str | None, side: str | None, language: str | None) -> Prompt:
        """The prompt for a task, a side and a language; None takes what is there for any.

        Raises
        ------
        UsageError
            There is none; says what there is.
        """
        tasks = _in_order(key[0] for key in self.prompts)
        found_task = self._chosen("task", task, tasks, "", "--template-task")
        sides = _in_order(key[1] for key in self.prompts if key[0] == found_task)
        where = f" for {found_task}" if found_task != _ANY else ""
        found_side = self._chosen("side", side, sides, where, "--template-side")
        languages = _in_order(key[2] for key in self.prompts if key[:2] == (found_task, found_side))
        where += "" if found_side == _ANY else f" {found_side}"
        found_language = self._chosen("language", language, languages, where, "--language")
        return self.prompts[found_task, found_side, found_language]

    def _chosen(self, part: str, asked: str | None, there: list[str], where: str, option: str) -> str:
        if asked is not None and asked in there:
            return asked
        if _ANY in there:
            return _ANY
        named = ", ".join(there)
        if asked is None:
            raise UsageError(f"{self} wants a {part}{where}: {named}", hint=f"Say which: {option} {there[0]}")
        guess = did_you_mean(asked, there)
        guess = guess if guess.startswith("Did you mean") else ""  # else the same list, in another order
        hint = f"{guess} A template of your own can have it: --template FILE.json"
        raise UsageError(f"{self} has no {part} {asked!r}{where}; it has {named}", hint=hint.strip())

    @property
    def without_image(self) -> list[str]:
        """``task side`` of the prompts that are text alone, each once, in order."""
        return _in_order(f"{task} {side}" for (task, side, _), prompt in self.prompts.items() if not prompt.needs_image)


def render(
    template: Template,
    text: str,
    *,
    task: str | None = None,
    side: str | None = None,
    language: str | None = None,
    style: Style | None = None,
    image_token: str | None = None,
) -> str:
    """The prompt of one item as a model reads it.

    Parameters
    ----------
    template : Template
    text : str
        Of the item; placed as it is, whatever placeholders it may hold itself. Ignored by prompts without ``{text}``.
    task, side, language : str, optional
        As `Template.prompt` takes them.
    style : {"plain", "punct", "newline"}, optional
        How the finished prompt ends, see `optotype.schemas.prompt_styles.styled`; as written by default.
    image_token : str, optional
        What the model writes for an image; the template's own by default, ``<image>`` where it has none.

    Raises
    ------
    UsageError
        There is no such prompt.
    """
    token = image_token if image_token is not None else template.image_token or IMAGE
    return template.prompt(task, side, language).filled(text, style, token)


def shipped_templates() -> list[Template]:
    """Every template that comes with the package, by name and version."""
    found = [parse_template(path.read_bytes(), where=path.name) for path in _SHIPPED.glob("*.json")]
    return sorted(found, key=lambda template: (template.name, sort_key(template.version)))


def get_template(reference: str) -> Template:
    """A shipped template, or one out of a file.

    Parameters
    ----------
    reference : str
        ``NAME``, ``NAME@1.0.0``, ``NAME@1`` or another selector of `optotype.schemas.references`, the newest version
        that fits; or the path of a JSON document (what holds a ``/`` or ends in ``.json``).

    Raises
    ------
    NotFoundError
        No such template, version or file.
    UsageError
        Not a reference.
    FormatError, InvalidDataError
        As `parse_template`.
    """
    if is_url_or_path(reference) or reference.lower().endswith(".json"):
        path = Path(reference)
        if not path.is_file():
            raise NotFoundError(f"no template at {reference}", hint="Those that are shipped: optotype templates list")
        return parse_template(path.read_bytes(), where=reference)
    asked = Reference.parse(reference)
    if isinstance(asked.selector, Range) and asked.selector.text == "x":
        raise UsageError(
            f"{reference!r}: x alone is not a version",
            hint=f"Versions are written 1.0.0, 1, ^1.0 or 1.x: {asked.name}@1",
        )
    shipped = shipped_templates()
    named = [template for template in shipped if template.name == asked.name]
    names = _in_order(template.name for template in shipped)
    if not named:
        hint = (
            f"{did_you_mean(asked.name, names)} Shipped are {', '.join(names)}; one of your own is a path: ./FILE.json"
        )
        raise NotFoundError(f"there is no template {asked.name!r}", hint=hint.strip())
    selector, newest = asked.selector, named[-1]
    if selector is None or selector == Alias("latest"):
        return newest
    fits = [template for template in named if _fits(selector, template)]
    if not fits:
        versions = ", ".join(template.version for template in named)
        raise NotFoundError(f"there is no {reference}: versions are {versions}", hint=f"Try {newest}.")
    return fits[-1]


def parse_template(text: str | bytes, *, where: str) -> Template:
    """Read a template's document.

    Parameters
    ----------
    text : str or bytes
        JSON as described in `optotype.schemas.template_documents`.
    where : str
        The file, for messages.

    Raises
    ------
    FormatError
        Not JSON, no template, or of a newer format.
    InvalidDataError
        Every problem of the document.
    """
    document = parse_document(text, kind="template", where=where, newest=TEMPLATE_FORMAT)
    if document.get("kind") != "template":
        raise FormatError(f"{where}: kind is {document.get('kind')!r}; 'template' is wanted")
    problems = template_problems(document)
    if problems:
        raise InvalidDataError(f"{where} refused:", problems)
    prompts = {
        (task, side, language): Prompt(text, cell["end_mark"])
        for task, sides in document["tasks"].items()
        for side, cell in sides.items()
        for language, text in cell["prompts"].items()
    }
    return Template(
        name=document["name"],
        version=document["version"],
        title=document.get("title", ""),
        source=document.get("source", ""),
        image_token=document.get("image_token"),
        digest="sha256:" + hashlib.sha256(canonical_json(document)).hexdigest(),
        prompts=prompts,
    )


def _fits(selector: Exact | Range | Alias | Digest, template: Template) -> bool:
    if isinstance(selector, Exact):
        return selector.version == template.version
    if isinstance(selector, Range):
        return selector.matches(template.version)
    return isinstance(selector, Digest) and template.digest.startswith(selector.prefix)


def _in_order(values: Iterable[str]) -> list[str]:
    """Each value once, in the order of its first time."""
    return list(dict.fromkeys(values))
