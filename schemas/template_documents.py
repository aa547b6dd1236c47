"""The documents of prompt templates: what is in one, and everything that can be wrong with it.

A document is JSON::

    {"format_version": 1, "kind": "template", "name": "mmmeb", "version": "1.0.0", "title": "...", "source": "...",
     "image_token": "<|image_1|>",
     "tasks": {"t2i": {"query": {"end_mark": ".", "prompts": {"en": "Find an image of: {text}"}}}}}

``{text}`` stands for the text of an item and ``<image>`` for its image, which every model writes with its own token
(``image_token`` is what the template's authors wrote). ``*`` as a task, side or language means any that is not named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from optotype.schemas.errors import Problem, UsageError, did_you_mean
from optotype.schemas.prompt_styles import END_MARKS
from optotype.schemas.references import check_name, check_version

__all__ = ["IMAGE", "SIDES", "TEMPLATE_FORMAT", "TEXT", "Side", "template_problems"]

TEMPLATE_FORMAT = 1  # format_version
IMAGE = "<image>"
TEXT = "{text}"
Side = Literal["query", "candidate"]
SIDES: tuple[Side, ...] = ("query", "candidate")

_ANY = "*"
_TASK = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
_OTHER_PLACE = re.compile(r"\{\w*\}|<\|[^|<>]*\|>|<image_\w+>")
_KEYS = ("format_version", "kind", "name", "version", "title", "source", "image_token", "tasks")


def template_problems(document: Mapping[str, Any]) -> list[Problem]:
    """Everything that is wrong with a document whose format and kind were checked; empty when it is sound."""
    problems = [
        Problem(key, "unknown-key", f"a template has {', '.join(_KEYS)}. {did_you_mean(key, _KEYS)}".strip())
        for key in document
        if key not in _KEYS
    ]
    for key, check in (("name", check_name), ("version", check_version)):
        value = document.get(key)
        try:
            check(value if isinstance(value, str) else repr(value))
        except UsageError as error:
            problems.append(Problem(key, f"bad-{key}", error.message))
    for key in ("title", "source", "image_token"):
        value = document.get(key, "")
        if not isinstance(value, str) or _is_broken(value) or (key == "image_token" and key in document and not value):
            problems.append(Problem(key, "not-text", f"a text is wanted, got {value!r}"))
    return problems + _task_problems(document.get("tasks"))


def _task_problems(tasks: object) -> list[Problem]:
    problems: list[Problem] = []
    for task, sides in _entries(tasks, "tasks", problems):
        if task != _ANY and _TASK.fullmatch(task) is None:
            message = f"a task is lower-case letters, digits and -, or *, got {task!r}"
            problems.append(Problem("tasks", "bad-task", message))
        for side, cell in _entries(sides, f"tasks.{task}", problems):
            where = f"tasks.{task}.{side}"
            if side not in (*SIDES, _ANY):
                problems.append(Problem(where, "bad-side", f"a side is query, candidate or *, got {side!r}"))
            if not isinstance(cell, dict) or set(cell) != {"end_mark", "prompts"}:
                problems.append(Problem(where, "bad-side", "an object with end_mark and prompts is wanted"))
                continue
            mark = cell["end_mark"]
            if mark not in END_MARKS:
                message = f"one of {' '.join(END_MARKS)} is wanted, got {mark!r}"
                problems.append(Problem(f"{where}.end_mark", "bad-end-mark", message))
            for language, text in _entries(cell["prompts"], f"{where}.prompts", problems):
                place = f"{where}.prompts.{language}"
                if language != _ANY and _LANGUAGE.fullmatch(language) is None:
                    message = f"a language is a code such as en or pt-BR, or *, got {language!r}"
                    problems.append(Problem(place, "bad-language", message))
                if (fault := _prompt_fault(text)) is not None:
                    problems.append(Problem(place, *fault))
    return problems


def _entries(value: object, where: str, problems: list[Problem]) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        return value.items()
    problems.append(Problem(where, "not-object", f"an object with at least one entry is wanted, got {value!r:.80}"))
    return ()


def _prompt_fault(text: object) -> tuple[str, str] | None:
    """Kind and message of what is wrong with a prompt."""
    if not isinstance(text, str) or not text.strip() or _is_broken(text):
        return "not-text", f"a text that is not blank is wanted, got {text!r}"
    others = dict.fromkeys(match[0] for match in _OTHER_PLACE.finditer(text) if match[0] != TEXT)
    if others:
        return "unknown-place", f"{', '.join(others)} is no place for anything: {TEXT} and {IMAGE} are"
    if TEXT not in text and IMAGE not in text:
        return "no-place", f"has neither {TEXT} nor {IMAGE}, so that every item would read the same"
    return None


def _is_broken(text: str) -> bool:
    """Whether half a character (a lone surrogate) is in it, which no file can hold."""
    return any("\ud800" <= character <= "\udfff" for character in text)
