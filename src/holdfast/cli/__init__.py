"""The command line: a file per command; each parses, calls, prints.

A command's module is imported when the command runs, so that `holdfast --help` is as quick as it can be.
"""

import importlib
from typing import Final

import click

# What --help shows, without importing the commands.
COMMANDS: Final = {
    "demo": "Watch it at work: a cluster, an EC2 with reservations and the real controllers, all in one process.",
    "plan": "Say what would be launched for a scenario, where its pods would go, and why not elsewhere.",
    "run": "Run the controllers, on the cluster and the account that the environment names.",
    "sandbox": "Run a simulated cluster and a simulated AWS, for whatever autoscaler you bring.",
    "validate": "Check manifests as the API server would, and whether they can work together.",
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
    """A node autoscaler for Kubernetes that uses every slot paid for in advance before it buys anything."""
