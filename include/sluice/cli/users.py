"""`sluice users ...`: who may log in to Airflow's pages, the REST API and the SQL endpoint."""

from __future__ import annotations

from typing import Annotated

import typer

from sluice.cli.format import Format, write
from sluice.stack.users import Role, Users

app = typer.Typer(
    help="Who may log in: add, list, change and remove the instance's users.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
AsRole = Annotated[Role, typer.Option(help="What the user may do; docs/security.md lists it.")]


@app.command()
def add(name: Name, role: AsRole = "viewer") -> None:
    """Add a user and print the password, which is not kept anywhere.

    The same name and password open Airflow's pages, the REST API and, for reading, the SQL endpoint.

    Example:
      sluice users add ann --role user
    """
    typer.echo(_users().add(name, role))


@app.command("list")
def list_(style: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE) -> None:
    """Show the users and their roles."""
    write(("user", "role"), [(user.name, user.role) for user in _users().people()], style)


@app.command("role")
def set_role(name: Name, role: Annotated[Role, typer.Argument(metavar="ROLE")]) -> None:
    """Give a user another role. What the user was logged in to ends: the next log-in has the new role.

    Example:
      sluice users role ann op
    """
    _users().set_role(name, role)
    typer.echo(f"{name}: {role}")


@app.command()
def password(name: Name) -> None:
    """Give a user a new password and print it. What the user was logged in to ends."""
    typer.echo(_users().set_password(name))


@app.command()
def remove(name: Name) -> None:
    """Remove a user. What the user was logged in to ends."""
    _users().remove(name)
    typer.echo(f"{name}: removed")


def _users() -> Users:
    from sluice.runtime.settings import get_settings

    return Users(get_settings())
