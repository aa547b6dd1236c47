"""Tasks of MMMEB: JSON lines, one file for each data set, language and task, the right candidate first in its list.

The form is that of the evaluation of xVLM2Vec (arXiv 2503.09313): ``{dataset}_{language}_{n}_formatted_{task}.jsonl``,
each line a query with the list of its candidates under the name that the task has for them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optotype.schemas.errors import UsageError, did_you_mean
from optotype.store.importers.tasks.lines import Found, Line, candidate_name, read_rows, stem
from optotype.store.tasks.rows import TaskRows

__all__ = ["CANDIDATES", "read_mmmeb"]

CANDIDATES = {"captions": "i2t", "images": "t2i", "answers": "vqa", "imgs": "vg", "classes": "c"}
_FIELDS = {task: name for name, task in CANDIDATES.items()}
# Task -> names of the fields that hold the query's image and its text.
_QUERY = {"i2t": ("img", ""), "t2i": ("", "text"), "vqa": ("img", "question"), "vg": ("img", "text"), "c": ("img", "")}
_OF_IMAGES = ("t2i", "vg")  # whose candidates are images
_ENDS = re.compile(r"(?P<dataset>.+?)(_[0-9]+)?(_formatted)?(_(?P<task>i2t|t2i|vqa|vg|c))?")
_NAME = re.compile(
    r"(?P<dataset>.+)_(?P<language>[A-Za-z]{2})(?P<region>(-[A-Za-z0-9]+)*)_[0-9]+_formatted_(?P<task>i2t|t2i|vqa|vg|c)"
)
# Two-letter codes of ISO 639-1.
_CODES = (
    "aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo "
    "es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka "
    "kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng "
    "nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su "
    "sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
)
_LANGUAGES = frozenset(_CODES.split())


def read_mmmeb(paths: Sequence[Path], *, task: str | None, language: str | None, found: Found) -> TaskRows:
    """Read the files of one or more data sets, languages and tasks.

    Ids: a query is ``<dataset>/<task>/<language>/<item>``, a candidate ``<dataset>/<task>/<language>/<its string>``, so
    that each language has embeddings of its own (its instruction differs). An item is ``<dataset>/<image>``: the
    query's image, of t2i the right one; from the second line about an image on with ``#2``, ``#3`` ... behind it, so
    that the lines of an image are matched across languages by their order, those left out being counted. The item of a
    candidate is the image itself, or of a string the item that it is right for.

    A language is taken from a file's name only in the public form and if it is a code of ISO 639-1, in any case:
    ``DATASET_EN_1000_formatted_i2t`` is en. Otherwise two letters are a part of the data set's name.

    Parameters
    ----------
    paths : sequence of Path
    task, language : str, optional
        For all files; by default the task is that of the candidates' field, the language that in the file's name.
    found : Found
        Takes what is wrong, and says which languages the names gave. Lines without a query (``question`` or ``text`` is
        null or blank) are left out, as in the authors' evaluation, and counted; so are candidates that stand in a list
        twice.

    Raises
    ------
    UsageError
        No such task; files whose names do not say their language (all are named); every list holds the truth alone.
    NotFoundError, FormatError
        Of a file.
    """
    if task is not None and task not in _FIELDS:
        raise UsageError(f"no task {task!r} in this form: {', '.join(_FIELDS)}", hint=did_you_mean(task, list(_FIELDS)))
    rows = TaskRows()
    names = {path: _Name.of(path) for path in paths}
    if language is None:
        _check_languages(names, found)
    for path, name in names.items():
        _File(name.dataset, language or name.language or "", task, name.task, rows, found).read(path)
    if not found.number() and rows.query_list and all(len(rows.lists[number]) == 1 for number in rows.query_list):
        raise UsageError(
            "every query lists right candidates alone, so that nothing can be wrong",
            hint="A line of this form lists the wrong candidates, too. To rank against all candidates of a data set, "
            "give its lines as mmeb (--form mmeb --all-candidates) or as tables.",
        )
    rows.name_candidates()
    return rows


@dataclass(frozen=True)
class _Name:
    """What the name of a file says; None: nothing."""

    dataset: str
    language: str | None
    task: str | None

    @classmethod
    def of(cls, path: Path) -> _Name:
        name = stem(path)
        whole = _NAME.fullmatch(name)
        if whole is not None and whole["language"].lower() in _LANGUAGES:
            return cls(whole["dataset"], whole["language"].lower() + whole["region"], whole["task"])
        ends = _ENDS.fullmatch(name)
        return cls(name, None, None) if ends is None else cls(ends["dataset"], None, ends["task"])


def _check_languages(names: Mapping[Path, _Name], found: Found) -> None:
    """Refuse files whose names say no language; note what the others say."""
    if silent := [str(path) for path, name in names.items() if name.language is None]:
        said = "its name does not say the language" if len(silent) == 1 else "their names do not say the language"
        raise UsageError(
            f"{', '.join(silent)}: {said}, as DATASET_it_1000_formatted_i2t.jsonl does with a code of ISO 639-1",
            hint="Say it: --language en",
        )
    files: dict[str, list[str]] = defaultdict(list)
    for path, name in names.items():
        files[name.language or ""].append(path.name)
    told = "; ".join(f"{language} ({', '.join(of)})" for language, of in sorted(files.items()))
    found.notes.append(f"languages taken from the names of files: {told}")


class _File:
    """One file while it is read."""

    def __init__(
        self, dataset: str, language: str, task: str | None, named: str | None, rows: TaskRows, found: Found
    ) -> None:
        self._dataset, self._language, self._task, self._named = dataset, language, task, named
        self._rows, self._found = rows, found
        self._places: dict[tuple[str, str], int] = {}  # (task, candidate's string) -> place
        self._lines: dict[tuple[str, str], int] = {}  # (task, image) -> lines about it

    def read(self, path: Path) -> None:
        """Take in all lines."""
        before = self._count()
        for line in read_rows(path, self._found):
            self._add(line)
        if before == self._count():
            self._found.refuse(str(path), "empty", "the file is empty: it has no lines")

    def _count(self) -> int:
        return self._found.number() + sum(self._found.left_out.values()) + len(self._rows.query_list)

    def _add(self, line: Line) -> None:
        task = self._task_of(line)
        strings = None if task is None else self._strings(line, _FIELDS[task])
        if task is None or strings is None:
            return
        image_field, text_field = _QUERY[task]
        image = self._text(line, image_field) if image_field else ""
        if image is None:
            return
        about = image or strings[0]
        again = self._lines[task, about] = self._lines.get((task, about), 0) + 1
        text = ""
        if text_field:
            if text_field not in line.values:
                self._found.refuse(line.where, "missing-field", f"a line of {task} has {text_field!r}; null = no query")
                return
            value = line.values[text_field]
            if value is None or (isinstance(value, str) and not value.strip()):
                self._found.leave_out(f"{text_field} is {'null' if value is None else 'blank'}")
                return
            if not isinstance(value, str):
                self._found.refuse(line.where, "not-text", f"{text_field} is a text or null, got {value!r:.60}")
                return
            text = value
        item = f"{self._dataset}/{about}" + (f"#{again}" if again > 1 else "")
        places = [self._candidate(task, string) for string in strings]
        self._found.leave_out("candidate again in its list", len(places) - len(set(places)))
        self._rows.add_query(
            f"{self._dataset}/{task}/{self._language}/{item.removeprefix(self._dataset + '/')}",
            task=task,
            language=self._language,
            of_list=self._rows.add_list(places),
            relevant={places[0]: 1.0},
            item=item,
            text=text,
            image=image,
        )

    def _task_of(self, line: Line) -> str | None:
        """The task by the field of candidates; None, and a problem, where none or several are there."""
        there = [name for name in CANDIDATES if name in line.values]
        if self._task is not None and _FIELDS[self._task] in there:
            return self._task
        if self._task is not None or len(there) != 1:
            wanted = _FIELDS[self._task] if self._task is not None else f"one of {', '.join(CANDIDATES)}"
            got = ", ".join(there) or f"only {', '.join(map(repr, line.values))}"[:200]
            self._found.refuse(line.where, "no-candidates", f"candidates stand under {wanted}; got {got}")
            return None
        task = CANDIDATES[there[0]]
        if self._named not in (None, task):
            message = f"{there[0]} are candidates of {task}, the file's name says {self._named}; --task says which"
            self._found.refuse(line.where, "task-differs", message)
            return None
        return task

    def _strings(self, line: Line, name: str) -> list[str] | None:
        """The candidates, the right one first."""
        value = line.values[name]
        if not isinstance(value, list) or not value:
            message = f"{name} is a list of texts, the right one first, got {value!r:.60}"
            self._found.refuse(line.where, "no-candidates", message)
            return None
        said = [entry for entry in value if entry is not None and entry != "" and not str(entry).isspace()]
        bad = [entry for entry in said if not isinstance(entry, str)]
        if bad or not said or said[0] is not value[0]:
            which = f"{len(bad)} entries that are no text, such as {bad[0]!r:.60}" if bad else f"{value[0]!r} first"
            self._found.refuse(line.where, "not-text", f"{name} holds {which}; texts are wanted, the right one first")
            return None
        self._found.leave_out("blank candidate", len(value) - len(said))
        return said

    def _text(self, line: Line, name: str) -> str | None:
        value = line.values.get(name)
        if isinstance(value, str) and value.strip():
            return value
        self._found.refuse(line.where, "missing-field", f"{name} is a text that is not blank, got {value!r:.60}")
        return None

    def _candidate(self, task: str, string: str) -> int:
        """Place of a candidate; the same string is the same one."""
        place = self._places.get((task, string))
        if place is None:
            is_image = task in _OF_IMAGES
            contents: dict[str, Any] = {"image": string, "item": f"{self._dataset}/{string}"} if is_image else {}
            place = self._places[task, string] = self._rows.add_candidate(
                f"{self._dataset}/{task}/{self._language}/{candidate_name(string)}",
                target=string,
                **(contents or {"text": string}),
            )
        return place
