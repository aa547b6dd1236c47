"""Task sets of retrieval: queries, the candidates that belong to each, and which of them are right.

A task set is an array like any other (Zarr v3 group with a manifest, `optotype.store.writer`): texts as
variable-length strings, lists of candidates and relevance as contiguous ragged arrays after the CF conventions.
"""

from __future__ import annotations

from optotype.store.tasks.dataset import describe_tasks, open_tasks, task_cells
from optotype.store.tasks.rows import TaskRows
from optotype.store.tasks.writing import TASKS, write_tasks

__all__ = ["TASKS", "TaskRows", "describe_tasks", "open_tasks", "task_cells", "write_tasks"]
