"""Commands and groups that show examples, suggest what was meant, and turn exceptions into exit codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from optotype.registry.cli.failures import as_failure
from optotype.schemas.errors import did_you_mean

__all__ = ["Command", "Group", "Root"]


class _WithExamples(click.Command):
    """A command whose help ends with examples, each a line that can be typed as it stands."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, one a line and never wrapped, so that they can be copied."""
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class Command(_WithExamples):
    """A verb."""


class Group(_WithExamples, click.Group):
    """A group of verbs, in the order in which they were added."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of a first session, not of the alphabet."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that ``args`` name; an unknown one is answered with the nearest known."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            known = [known for known, command in self.commands.items() if not command.hidden]
            ctx.fail(f"No such command {name!r}. {did_you_mean(name, known)}")
        return super().resolve_command(ctx, args)


Group.group_class = Group


class Root(Group):
    """The top group: the one place where exceptions become messages and exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; whatever it raises leaves as a click exception."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            if error.option_name != "-C" or error.ctx is None:
                raise
            path = error.ctx.command_path.removeprefix("optotype").strip()
            raise click.UsageError(f"-C goes before the verb: optotype -C PROJECT {path} ...", error.ctx) from error
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except (Exception, KeyboardInterrupt) as error:
            raise as_failure(error) from error
