"""`sluice users ...`: who may log in to Airflow's pages, the REST API and the SQL endpoint."""

from __future__ import annotations

from typing import Annotated

import typer

from sluice.cli.asked_by import me
from sluice.cli.output.format import Format, write
from sluice.runtime.login_settings import Role
from sluice.stack.users import Users

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
    password = _users().add(name, role)
    _note(name, "added", after=role)
    typer.echo(password)


@app.command("list")
def list_(style: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE) -> None:
    """Show the users, their roles, and where they come from: `here`, `oidc` or `ldap`."""
    rows = [(user.name, user.role, user.origin or "here") for user in _users().people()]
    write(("user", "role", "from"), rows, style)


@app.command("role")
def set_role(name: Name, role: Annotated[Role, typer.Argument(metavar="ROLE")]) -> None:
    """Give a user another role. What the user was logged in to ends: the next log-in has the new role.

    Example:
      sluice users role ann op
    """
    before = _users().role(name)
    _users().set_role(name, role)
    _note(name, "role", before, role)
    typer.echo(f"{name}: {role}")


@app.command()
def password(name: Name) -> None:
    """Give a user a new password and print it. What the user was logged in to ends."""
    fresh = _users().set_password(name)
    _note(name, "new password")
    typer.echo(fresh)


@app.command()
def remove(name: Name) -> None:
    """Remove a user. What the user was logged in to ends.

    Who comes by `oidc` or `ldap` can log in again as long as the groups there have a role here.
    """
    before = _users().role(name)
    _users().remove(name)
    _note(name, "removed", before)
    typer.echo(f"{name}: removed")


def _note(name: str, action: str, before: str = "", after: str = "") -> None:
    """Record the change, also while PostgreSQL is away."""
    from sluice.runtime.settings import get_settings
    from sluice.stack import journal

    journal.note(get_settings(), who=me(), what="user", name=name, action=action, before=before, after=after)


def _users() -> Users:
    from sluice.runtime.settings import get_settings

    return Users(get_settings())
