"""Texts of a table put into the prompts of a template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from optotype.schemas.errors import InvalidDataError, Problem, UsageError
from optotype.schemas.prompt_styles import Style, check_style
from optotype.schemas.template_documents import SIDES
from optotype.schemas.templates import Prompt, Template, get_template
from optotype.store.checks import limited
from optotype.store.dataset import TextTable

__all__ = ["LABELS", "Prompting"]

LABELS = ("task", "language")
"""Columns of a table of texts that a template reads where no option says the same for all rows."""


@dataclass(frozen=True)
class Prompting:
    """How texts become prompts.

    Attributes
    ----------
    template : Template
    task, side, language : str or None
        For all rows. Where task or language are None and the template knows several, the table's column of that name
        says it for each row.
    style : {"plain", "punct", "newline"} or None
        How prompts end; None leaves them as the template and the text make them.
    """

    template: Template
    task: str | None
    side: str | None
    language: str | None
    style: Style | None

    @classmethod
    def parse(
        cls, template: str | None, *, task: str | None, side: str | None, language: str | None, style: str | None
    ) -> Prompting | None:
        """What was asked for; None without a template.

        Raises
        ------
        UsageError
            Something of a template was asked for without one; no such side or style.
        NotFoundError, FormatError, InvalidDataError
            As `optotype.schemas.templates.get_template`.
        """
        if template is None:
            options = {"--template-task": task, "--template-side": side, "--language": language, "--style": style}
            given = [option for option, value in options.items() if value is not None]
            if given:
                hint = "For the text alone in a style: --template bare"
                raise UsageError(f"{', '.join(given)} without --template: a template is what has them", hint=hint)
            return None
        if side is not None and side not in SIDES:
            raise UsageError(f"{side!r} is not a side: {', '.join(SIDES)}")
        return cls(get_template(template), task, side, language, check_style(style))

    def apply(self, table: TextTable) -> tuple[TextTable, dict[str, Any]]:
        """Fill the prompts.

        Parameters
        ----------
        table : TextTable
            With the labels `LABELS` where it has them.

        Returns
        -------
        prompts : TextTable
            The same ids, sorted; without labels.
        inputs : dict
            What makes up the prompts, for the key of a cached array: the template's name, version and digest, what was
            asked for, which columns were read, and the digest of the finished prompts.

        Raises
        ------
        UsageError
            The template has no prompt for what the options ask, or none without an image.
        InvalidDataError
            The same for single rows, or nothing is left of a text: every row is listed.
        """
        tasks, by_task = self._each("task", self.task, table)
        languages, by_language = self._each("language", self.language, table)
        problems: list[Problem] = []
        texts: list[str] = []
        known: dict[tuple[str | None, str | None], Prompt | UsageError] = {}
        for identity, text, of in zip(table.ids, table.texts, zip(tasks, languages, strict=True), strict=True):
            if of not in known:
                known[of] = self._prompt(*of)
            prompt = known[of]
            if isinstance(prompt, UsageError):
                problems.append(Problem(identity, "no-prompt", prompt.message))
                continue
            texts.append(prompt.filled(text, self.style))
            if not texts[-1].strip():
                message = f"in the style {self.style} nothing is left of {text!r}"
                problems.append(Problem(identity, "text-empty", message))
        if len({problem.message for problem in problems}) == 1 and not texts:  # no row is to blame
            raise next(prompt for prompt in known.values() if isinstance(prompt, UsageError))
        if problems:
            message = f"{len(problems)} of {len(table.ids)} texts cannot be put into a prompt of {self.template}"
            hint = next((prompt.hint for prompt in known.values() if isinstance(prompt, UsageError)), None)
            if by_task or by_language:
                hint = " ".join(filter(None, (hint, "Or take the rows that can: --where COLUMN=VALUE")))
            raise InvalidDataError(f"{message}; nothing was written", limited(problems), hint=hint)
        finished = replace(table, texts=tuple(texts), labels={})
        return finished, {
            "name": self.template.name,
            "version": self.template.version,
            "digest": self.template.digest,
            "task": self.task,
            "side": self.side,
            "language": self.language,
            "style": self.style,
            "columns": [name for name, by in (("task", by_task), ("language", by_language)) if by],
            "prompts": finished.digest,
        }

    def _each(
        self, part: Literal["task", "language"], given: str | None, table: TextTable
    ) -> tuple[Sequence[str | None], bool]:
        """Task or language of every row, and whether they come from the table's column."""
        if given is None and part in table.labels and self.template.distinguishes(part):
            # an empty cell says as little as no column
            return [label or None for label in table.labels[part]], True
        return [given] * len(table.ids), False

    def _prompt(self, task: str | None, language: str | None) -> Prompt | UsageError:
        """The prompt for rows of this task and language, or why there is none."""
        try:
            prompt = self.template.prompt(task, self.side, language)
        except UsageError as error:
            return error
        if not prompt.needs_image:
            return prompt
        alone = ", ".join(self.template.without_image) or "none"
        asked = " ".join(filter(None, (task, self.side))) or "its prompt"
        return UsageError(
            f"{self.template}: {asked} shows an image, which a text model does not see",
            hint=f"Prompts of text alone: {alone}. Vectors of a model that sees images come in by "
            "optotype states import NAME FILE.",
        )
