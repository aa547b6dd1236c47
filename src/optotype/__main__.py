"""``python -m optotype`` and the ``optotype`` command."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from optotype.registry.cli import main as run

    run()


if __name__ == "__main__":
    main()
