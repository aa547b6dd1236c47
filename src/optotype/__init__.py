"""optotype: the registry that vision-language evaluation stands on.

Importing this does no work: every public name is loaded at its first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what editors and type checkers see; `_PUBLIC` is what Python does, and a test compares the two
    from optotype.pipelines.encode.image_features import encode_images
    from optotype.pipelines.encode.items import encode_items
    from optotype.pipelines.encode.text_states import encode_texts
    from optotype.pipelines.graphs import features_graph, states_graph
    from optotype.pipelines.metrics.catalogue import get_metric
    from optotype.pipelines.metrics.metric import Metric
    from optotype.pipelines.operators.neighbours import feature_neighbours, state_neighbours
    from optotype.pipelines.ravel import RavelScore, score
    from optotype.pipelines.selectors.pool import Pool
    from optotype.pipelines.selectors.selector import Selection, Selector, get_selector
    from optotype.registry.artifacts.index import Registry
    from optotype.registry.artifacts.publish import publish
    from optotype.registry.compressions import compress
    from optotype.registry.evaluations import evaluate
    from optotype.registry.frontiers import frontier
    from optotype.registry.judgements import judge
    from optotype.registry.mixtures import mix_features
    from optotype.registry.pair_correlations import correlate_pairs
    from optotype.registry.pair_mining import mine_pairs
    from optotype.registry.pair_scores import match_pairs, score_pairs
    from optotype.registry.pair_suites import open_pair_suite
    from optotype.registry.panels import export_panel, import_scores
    from optotype.registry.pins.load import Loaded, Suite, load, load_suite, open_pinned
    from optotype.registry.pins.pin import pin
    from optotype.registry.pins.pull import pull
    from optotype.registry.probes import probe_panel
    from optotype.registry.rankings import rank
    from optotype.registry.retrievals import retrieve
    from optotype.registry.tasks import export_tasks, import_tasks
    from optotype.schemas.errors import (
        ConflictError,
        ExternalError,
        FormatError,
        IntegrityError,
        InvalidDataError,
        MissingPackageError,
        ModelError,
        NotFoundError,
        OptotypeError,
        Problem,
        UsageError,
    )
    from optotype.schemas.references import Reference
    from optotype.schemas.templates import get_template
    from optotype.store.dataset import read_images, read_texts
    from optotype.store.embeddings import open_embeddings, write_embeddings
    from optotype.store.export import export_features, export_states
    from optotype.store.features import as_padded, open_features, select_images, write_features
    from optotype.store.importers import import_features, import_states
    from optotype.store.importers.embeddings import import_embeddings
    from optotype.store.manifest import Manifest, read_manifest, verify
    from optotype.store.neighbours import open_neighbours, write_neighbours
    from optotype.store.panels.dataset import open_panel
    from optotype.store.project import Project
    from optotype.store.states import open_states, write_states
    from optotype.store.tasks.dataset import open_tasks
    from optotype.store.tasks.writing import write_tasks

__version__ = "0.1.0"

__all__ = [
    "ConflictError",
    "ExternalError",
    "FormatError",
    "IntegrityError",
    "InvalidDataError",
    "Loaded",
    "Manifest",
    "Metric",
    "MissingPackageError",
    "ModelError",
    "NotFoundError",
    "OptotypeError",
    "Pool",
    "Problem",
    "Project",
    "RavelScore",
    "Reference",
    "Registry",
    "Selection",
    "Selector",
    "Suite",
    "UsageError",
    "__version__",
    "as_padded",
    "compress",
    "correlate_pairs",
    "encode_images",
    "encode_items",
    "encode_texts",
    "evaluate",
    "export_features",
    "export_panel",
    "export_states",
    "export_tasks",
    "feature_neighbours",
    "features_graph",
    "frontier",
    "get_metric",
    "get_selector",
    "get_template",
    "import_embeddings",
    "import_features",
    "import_scores",
    "import_states",
    "import_tasks",
    "judge",
    "load",
    "load_suite",
    "match_pairs",
    "mine_pairs",
    "mix_features",
    "open_embeddings",
    "open_features",
    "open_neighbours",
    "open_pair_suite",
    "open_panel",
    "open_pinned",
    "open_states",
    "open_tasks",
    "pin",
    "probe_panel",
    "publish",
    "pull",
    "rank",
    "read_images",
    "read_manifest",
    "read_texts",
    "retrieve",
    "score",
    "score_pairs",
    "select_images",
    "state_neighbours",
    "states_graph",
    "verify",
    "write_embeddings",
    "write_features",
    "write_neighbours",
    "write_states",
    "write_tasks",
]

_ERRORS = "optotype.schemas.errors"

# public name -> module that defines it
_PUBLIC: dict[str, str] = {
    "ConflictError": _ERRORS,
    "ExternalError": _ERRORS,
    "FormatError": _ERRORS,
    "IntegrityError": _ERRORS,
    "InvalidDataError": _ERRORS,
    "Loaded": "optotype.registry.pins.load",
    "Manifest": "optotype.store.manifest",
    "Metric": "optotype.pipelines.metrics.metric",
    "MissingPackageError": _ERRORS,
    "ModelError": _ERRORS,
    "NotFoundError": _ERRORS,
    "OptotypeError": _ERRORS,
    "Pool": "optotype.pipelines.selectors.pool",
    "Problem": _ERRORS,
    "Project": "optotype.store.project",
    "RavelScore": "optotype.pipelines.ravel",
    "Reference": "optotype.schemas.references",
    "Registry": "optotype.registry.artifacts.index",
    "Selection": "optotype.pipelines.selectors.selector",
    "Selector": "optotype.pipelines.selectors.selector",
    "Suite": "optotype.registry.pins.load",
    "UsageError": _ERRORS,
    "as_padded": "optotype.store.features",
    "compress": "optotype.registry.compressions",
    "correlate_pairs": "optotype.registry.pair_correlations",
    "encode_images": "optotype.pipelines.encode.image_features",
    "encode_items": "optotype.pipelines.encode.items",
    "encode_texts": "optotype.pipelines.encode.text_states",
    "evaluate": "optotype.registry.evaluations",
    "export_features": "optotype.store.export",
    "export_panel": "optotype.registry.panels",
    "export_states": "optotype.store.export",
    "export_tasks": "optotype.registry.tasks",
    "feature_neighbours": "optotype.pipelines.operators.neighbours",
    "features_graph": "optotype.pipelines.graphs",
    "frontier": "optotype.registry.frontiers",
    "get_metric": "optotype.pipelines.metrics.catalogue",
    "get_selector": "optotype.pipelines.selectors.selector",
    "get_template": "optotype.schemas.templates",
    "import_embeddings": "optotype.store.importers.embeddings",
    "import_features": "optotype.store.importers",
    "import_scores": "optotype.registry.panels",
    "import_states": "optotype.store.importers",
    "import_tasks": "optotype.registry.tasks",
    "judge": "optotype.registry.judgements",
    "load": "optotype.registry.pins.load",
    "load_suite": "optotype.registry.pins.load",
    "match_pairs": "optotype.registry.pair_scores",
    "mine_pairs": "optotype.registry.pair_mining",
    "mix_features": "optotype.registry.mixtures",
    "open_embeddings": "optotype.store.embeddings",
    "open_features": "optotype.store.features",
    "open_neighbours": "optotype.store.neighbours",
    "open_pair_suite": "optotype.registry.pair_suites",
    "open_panel": "optotype.store.panels.dataset",
    "open_pinned": "optotype.registry.pins.load",
    "open_states": "optotype.store.states",
    "open_tasks": "optotype.store.tasks.dataset",
    "pin": "optotype.registry.pins.pin",
    "probe_panel": "optotype.registry.probes",
    "publish": "optotype.registry.artifacts.publish",
    "pull": "optotype.registry.pins.pull",
    "rank": "optotype.registry.rankings",
    "read_images": "optotype.store.dataset",
    "read_manifest": "optotype.store.manifest",
    "read_texts": "optotype.store.dataset",
    "retrieve": "optotype.registry.retrievals",
    "score": "optotype.pipelines.ravel",
    "score_pairs": "optotype.registry.pair_scores",
    "select_images": "optotype.store.features",
    "state_neighbours": "optotype.pipelines.operators.neighbours",
    "states_graph": "optotype.pipelines.graphs",
    "verify": "optotype.store.manifest",
    "write_embeddings": "optotype.store.embeddings",
    "write_features": "optotype.store.features",
    "write_neighbours": "optotype.store.neighbours",
    "write_states": "optotype.store.states",
    "write_tasks": "optotype.store.tasks.writing",
}


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        value = getattr(importlib.import_module(_PUBLIC[name]), name)
        globals()[name] = value  # found without this function from now on
        return value
    raise AttributeError(f"module 'optotype' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
