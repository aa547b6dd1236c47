"""Reports that a person can read: self-contained pages, with the same numbers as JSON beside them."""

from __future__ import annotations

from optotype.registry.report.compression.report import write_compression_report
from optotype.registry.report.evaluation.report import write_evaluation_report
from optotype.registry.report.ranking.report import write_ranking_report

__all__ = ["write_compression_report", "write_evaluation_report", "write_ranking_report"]
