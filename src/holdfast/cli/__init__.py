"""The command line, one module per command.

A command's module is imported when the command runs, so that `holdfast --help` is fast.
"""

import importlib
from typing import Final

import click

# What --help shows, without importing the commands.
COMMANDS: Final = {
    "adopt": "Show what Holdfast would do in a cluster that Karpenter runs now.",
    "demo": "Run the controllers on a simulated cluster and EC2, in one process.",
    "doctor": "Report what is missing or wrong before `holdfast run` starts.",
    "plan": "Show which nodes would be launched for a scenario, and why.",
    "run": "Run the controllers on a cluster and an AWS account.",
    "sandbox": "Run a simulated cluster and a simulated AWS for any autoscaler.",
    "validate": "Check manifests like the API server, and against each other.",
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"holdfast.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="holdfast")
def main() -> None:
    """A node autoscaler for Kubernetes that fills reserved capacity first."""
