"""Reports that a person can read: one self-contained page and the same numbers as JSON."""

from __future__ import annotations

from optotype.registry.report.ranking.report import write_ranking_report

__all__ = ["write_ranking_report"]
