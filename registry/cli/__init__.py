"""The command line. It parses, calls one function, prints, and maps errors to exit codes; nothing else.

Nothing heavy is imported before a command runs: every ``--help`` costs what click costs.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the ``optotype`` command on ``sys.argv`` and leave with its exit code."""
    try:
        from optotype.registry.cli.root import cli

        cli.main(prog_name="optotype")
    except KeyboardInterrupt:  # before click was there to catch it
        sys.exit(130)
