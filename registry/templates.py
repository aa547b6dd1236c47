"""Prompt templates: list those that are shipped, and show how one asks."""

from __future__ import annotations

from typing import Any

from optotype.schemas.prompt_styles import STYLES
from optotype.schemas.template_documents import IMAGE, TEXT
from optotype.schemas.templates import Template, get_template, shipped_templates

__all__ = ["list_templates", "show_template"]


def list_templates() -> list[dict[str, Any]]:
    """Every shipped template.

    Returns
    -------
    list of dict
        ``name``, ``version``, ``title``, ``source``, ``digest``, ``tasks`` and ``languages`` (list of str, in the
        document's order; ``*`` is any), by name and version.
    """
    return [_head(template) for template in shipped_templates()]


def show_template(reference: str, text: str = TEXT) -> dict[str, Any]:
    """One template with all its prompts, each in all styles.

    Parameters
    ----------
    reference : str
        As `optotype.schemas.templates.get_template` takes it.
    text : str
        What to put in place of ``{text}``; the placeholder itself by default.

    Returns
    -------
    dict
        What `list_templates` has for it, ``image_token`` (str or None) and ``prompts``: a list of dict with ``task``,
        ``side``, ``language``, ``end_mark``, ``needs_image``, ``needs_text``, ``prompt`` (as the document has it) and
        ``plain``, ``punct`` and ``newline`` (as a model reads it, with the authors' token for the image).

    Raises
    ------
    UsageError, NotFoundError, FormatError, InvalidDataError
        As `optotype.schemas.templates.get_template`.
    """
    template = get_template(reference)
    prompts = [
        {
            "task": task,
            "side": side,
            "language": language,
            "end_mark": prompt.end_mark,
            "needs_image": prompt.needs_image,
            "needs_text": prompt.needs_text,
            "prompt": prompt.text,
            **{style: prompt.filled(text, style, template.image_token or IMAGE) for style in STYLES},
        }
        for (task, side, language), prompt in template.prompts.items()
    ]
    return {**_head(template), "image_token": template.image_token, "prompts": prompts}


def _head(template: Template) -> dict[str, Any]:
    return {
        "name": template.name,
        "version": template.version,
        "title": template.title,
        "source": template.source,
        "digest": template.digest,
        "tasks": list(dict.fromkeys(task for task, _, _ in template.prompts)),
        "languages": list(dict.fromkeys(language for _, _, language in template.prompts)),
    }
