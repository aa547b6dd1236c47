"""`benchmarks` is a package in the root of the repository, which `pytest` alone does not put on the path."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
