"""The files of an exported task of lmms-eval."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optotype.registry.exporters.exporter import Request
from optotype.registry.exporters.lmms_eval_tasks import Task
from optotype.registry.exporters.suite import slug
from optotype.schemas.errors import NotFoundError

__all__ = ["ID_COLUMNS", "KIND", "MARK", "task_files"]

ID_COLUMNS = ("id", "idx", "index", "question_id", "pid", "qid", "questionId", "Index", "ID")
"""Columns of data sets in which ids are looked for, in this order."""

MARK = "export.json"
KIND = "lmms-eval-suite"


def task_files(request: Request, tasks: Sequence[Task]) -> dict[str, bytes]:
    """Paths in the exported folder -> contents."""
    suite = request.suite
    group = f"{slug(suite.name)}_blind" if request.blind else slug(suite.name)
    files = {
        f"{group}.yaml": _lines(f"group: {_text(group)}", "task:", *(f"  - {_text(task.name)}" for task in tasks)),
        "README.md": _readme(request, group, tasks),
        MARK: _json({"format_version": 1, "kind": KIND, **_named_suite(request), "blind": request.blind}),
    }
    pick = (Path(__file__).parent / "lmms_eval_pick.py").read_bytes()
    for task in tasks:
        columns = request.columns.get(task.benchmark)
        plan = {
            "task": task.name,
            "suite": suite.label,
            "digest": suite.digest,
            "benchmark": task.benchmark,
            "include": task.include,
            "columns": list(ID_COLUMNS) if columns is None else [columns],
            "ids": [item.item_id for item in task.items],
        }
        files[f"{task.name}/{task.name}.yaml"] = _yaml(request, task)
        files[f"{task.name}/suite.json"] = _json(plan)
        files[f"{task.name}/utils.py"] = pick
    return files


def _named_suite(request: Request) -> dict[str, Any]:
    return {"suite": request.suite.name, "version": request.suite.version, "digest": request.suite.digest}


def _yaml(request: Request, task: Task) -> bytes:
    revision = request.revisions.get(task.benchmark)
    lines = [f"include: {_text(task.include)}", f"task: {_text(task.name)}", "tag: []"]
    if revision is not None:
        kwargs = {**_base_kwargs(task), "revision": revision}
        lines += ["dataset_kwargs:", *(f"  {name}: {json.dumps(value)}" for name, value in kwargs.items())]
    lines.append("process_docs: !function utils.pick")
    if request.blind:
        lines += ["doc_to_visual: !function utils.no_images", "doc_to_messages: null"]
    version = request.suite.version or request.suite.digest
    lines += ["metadata:", f"  - version: {_text(version)}", f"    suite: {_text(request.suite.label)}"]
    return _lines(*lines, f"    digest: {_text(request.suite.digest)}")


def _base_kwargs(task: Task) -> dict[str, Any]:
    """``dataset_kwargs`` of the base task, which a task's own would replace as a whole."""
    found: dict[str, Any] = {}
    for path in _included(task.base):
        found = _plain_yaml(path).get("dataset_kwargs") or found
    return dict(found)


def _included(base: Path | None) -> list[Path]:
    """A task's YAML after those that it includes."""
    chain: list[Path] = []
    while base is not None and base.is_file() and base not in chain:
        chain.append(base)
        include = _plain_yaml(base).get("include")
        base = base.parent / include if isinstance(include, str) else None
    return chain[::-1]


def _plain_yaml(path: Path) -> Mapping[str, Any]:
    """A YAML of lmms-eval without what it calls."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!function", lambda loader, node: None)
    try:
        found = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise NotFoundError(f"{path}: cannot be read as a task of lmms-eval ({error})") from error
    return found if isinstance(found, Mapping) else {}


def _readme(request: Request, group: str, tasks: Sequence[Task]) -> bytes:
    rows = [f"| `{task.name}` | {task.benchmark} | {len(task.items)} |" for task in tasks]
    link = "ln -sfn \"$(python -c 'import lmms_eval, os; print(os.path.dirname(lmms_eval.__file__))')/tasks\" tasks"
    what = "without images" if request.blind else "with images"
    return _lines(
        f"# {request.suite.label} for lmms-eval, {what}",
        "",
        f"Digest `{request.suite.digest}`. Written by `optotype export`; do not edit.",
        "",
        "| task | benchmark | items |",
        "|---|---|---|",
        *rows,
        "",
        "`tasks` is a link to the folder of base tasks of lmms-eval. On another machine make it anew, in this folder:",
        "",
        "```sh",
        link,
        f"lmms_eval --include_path . --tasks {group} --log_samples --output_path results --model MODEL",
        f"optotype place {request.suite.label} results",
        "```",
    )


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def _lines(*lines: str) -> bytes:
    return ("\n".join(lines) + "\n").encode()
