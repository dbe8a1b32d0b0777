"""`holdfast status`: shows the leader, nodes, pending pods, costs and failing controllers."""

import click

from holdfast.cli import leader, status_page


@click.command(epilog=leader.EXIT_CODES)
@leader.options
@click.pass_context
def command(ctx: click.Context, /, output: str | None, **_where: str) -> None:
    """Show the leader, nodes, pending pods, costs, and what fails.

    Asks the leader; reads only. `-o wide` lists nodes by zone and NodePool.
    """
    report = leader.ask(ctx, lambda found: found.status())
    leader.write(output, report, lambda wide: status_page.build(report, wide=wide))
