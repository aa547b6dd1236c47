"""lmms-eval: a folder for ``--include_path``, with a task for each benchmark that picks the suite's items by id.

``DIR/<suite>.yaml`` is a group of all tasks. ``DIR/<suite>_<benchmark>/`` holds a task: a YAML that includes the base
task's, ``utils.py`` with ``pick``, and ``suite.json`` with the ids. Base tasks are named by their path under
``DIR/tasks``, a link to the ``tasks`` folder of the installed lmms-eval, so that the files are the same everywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from optotype.registry.exporters.exporter import Exported, Request
from optotype.registry.exporters.lmms_eval_files import KIND, MARK, task_files
from optotype.registry.exporters.lmms_eval_tasks import TASKS, Task, base_tasks, find_harness
from optotype.schemas.errors import ConflictError
from optotype.store.drafts import Draft, flush

__all__ = ["LmmsEval"]

_DIGEST = re.compile(r"[0-9a-f]{32}")


class LmmsEval:
    """Tasks that include others. ``tasks`` maps a benchmark, or ``BENCHMARK/SUB_TASK``, to its base task.

    A base task is the path of a YAML that is there; a path under the harness's ``tasks`` folder
    (``mmmu/mmmu_val.yaml``); or, where lmms-eval is installed beside optotype or another base task was given by its
    path in one, its name. By default it is the benchmark's name, as scores imported from lmms-eval have it.
    """

    name = "lmms-eval"
    needs_content = True  # sub_task, which says what of a benchmark a task holds
    options = frozenset({"blind", "tasks", "revisions", "columns"})

    def write(self, request: Request) -> Exported:
        """Write the folder; one that an earlier export wrote is replaced as a whole.

        Raises
        ------
        InvalidDataError
            Base tasks that cannot be found, items that belong to none.
        ConflictError
            Something else stands at the target.
        """
        target = request.target
        if target.exists() and not _replaceable(target):
            raise ConflictError(
                f"{target} is in the way: it was not written by `optotype export --to {self.name}`",
                hint="Move it away, or choose another folder.",
            )
        harness = find_harness(request.tasks.values())
        tasks = base_tasks(request, harness)
        notes = _notes(request, tasks)
        used = any(task.include.startswith(f"../{TASKS}/") for task in tasks)
        with Draft(target) as draft:
            for path, content in sorted(task_files(request, tasks).items()):
                file = draft.path / path
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(content)
                flush(file)
            if used and harness is not None:
                (draft.path / TASKS).symlink_to(harness.resolve(), target_is_directory=True)
            draft.commit(_replaceable)
        if used and harness is None:
            notes.append(
                f"lmms-eval is not here: make {target / TASKS} a link to its folder lmms_eval/tasks where it runs "
                "(README.md has the line)"
            )
        runs = [{"name": task.name, "benchmark": task.benchmark, "items": len(task.items)} for task in tasks]
        return Exported((target,), tuple(runs), tuple(notes))


def _replaceable(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    if not any(folder.iterdir()):
        return True
    try:
        return bool(json.loads((folder / MARK).read_text(encoding="utf-8")).get("kind") == KIND)
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def _notes(request: Request, tasks: Sequence[Task]) -> list[str]:
    notes = [
        f"{task.benchmark}: its ids are digests that optotype made of prompts, which no data set holds; the task will "
        "not find its items"
        for task in tasks
        if all(_DIGEST.fullmatch(item.item_id) for item in task.items)
    ]
    loose = [name for name in request.suite.benchmarks if name not in request.revisions]
    if loose:
        notes.append(
            f"no revision of the data set is pinned for {', '.join(loose)}: --revision BENCHMARK=COMMIT pins one"
        )
    return notes
