"""The command line, one module per command.

A command's module is imported when the command runs, so that `holdfast --help` is fast.
"""

import importlib
import sys
from typing import Final

import click
from click.shell_completion import CompletionItem, ShellComplete

# What --help shows, without importing the commands.
COMMANDS: Final = {
    "adopt": "Show what Holdfast would do in a cluster that Karpenter runs now.",
    "demo": "Run the controllers on a simulated cluster and EC2, in one process.",
    "doctor": "Report what is missing or wrong before `holdfast run` starts.",
    "explain": "Show why a pod waits, or why a node is what it is.",
    "plan": "Show which nodes would be launched for a scenario or a running cluster, and why.",
    "record": "Write the history of a cluster's pods to a file, for `simulate`.",
    "report": "Merge results of simulations into one report of their variants.",
    "reservations": "Show how full reservations are, and what idle slots cost.",
    "run": "Run the controllers on a cluster and an AWS account.",
    "sandbox": "Run a simulated cluster and a simulated AWS for any autoscaler.",
    "simulate": "Simulate a cluster for hours or weeks, and report what it costs.",
    "status": "Show the leader, nodes, pending pods, costs, and what fails.",
    "snapshot": "Write a cluster and its catalog to a file that `plan` reads.",
    "validate": "Check manifests like the API server, and against each other.",
}
_PLUGIN: Final = "kubectl holdfast"
_PLUGIN_VARIABLE: Final = "_KUBECTL_HOLDFAST_COMPLETE"  # click would derive one with a space
_NO_FILES: Final = ":4"  # ShellCompDirectiveNoFileComp of kubectl's completion


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

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Click's own method imports every command."""
        found = [
            CompletionItem(name, help=about)
            for name, about in sorted(COMMANDS.items())
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="holdfast")
def main() -> None:
    """A node autoscaler for Kubernetes that fills reserved capacity first."""


def kubectl_plugin() -> None:
    """The program `kubectl-holdfast`, which kubectl runs for `kubectl holdfast`."""
    main(prog_name=_PLUGIN, complete_var=_PLUGIN_VARIABLE)


def kubectl_completion() -> None:
    """The program `kubectl_complete-holdfast`: kubectl runs it with the words after `holdfast` to complete the last."""
    *words, incomplete = sys.argv[1:] or [""]
    for item in ShellComplete(main, {}, _PLUGIN, _PLUGIN_VARIABLE).get_completions(words, incomplete):
        about = f"\t{item.help}" if item.help else ""
        click.echo(f"{item.value}{about}")
    click.echo(_NO_FILES)
