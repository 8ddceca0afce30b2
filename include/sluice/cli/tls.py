"""`sluice tls`: what the doors show, and how programs and browsers get to trust it."""

from __future__ import annotations

from typing import Annotated

import typer

from sluice.runtime.settings import TLS_DOORS, Settings
from sluice.transmission.listener import STORE_PASSWORD


class NoTls(LookupError):
    """The doors show no certificate."""


def show(
    authority: Annotated[
        bool, typer.Option("--authority", help="Print the authority's certificate alone, in PEM.")
    ] = False,
) -> None:
    """Show which doors speak TLS, with which certificate, and how to connect to them.

    A browser trusts the doors once the authority's certificate is among those it knows. Give it to people by
    a way that nobody else can write to, and let them compare the fingerprint.

    Examples:
      sluice tls
      sluice tls --authority > sluice.crt
    """
    from sluice.stack import tls

    settings = Settings()
    doors = tls.doors(settings)
    if not doors:
        said = f"tls.mode is {settings.tls.mode!r}, and the doors listen at {settings.bind_host}"
        raise NoTls(f"no door speaks TLS: {said}. To have it, set tls: {{mode: on}}")
    try:
        found = tls.shown(settings)
    except FileNotFoundError as error:
        raise NoTls(f"{error.filename} is not there yet: `sluice up` makes it") from error
    folder = settings.home / tls.FOLDER
    file, store = folder / tls.AUTHORITY, folder / tls.TRUST_STORE
    if authority:
        typer.echo(file.read_text(), nl=False)
        return
    others = ", ".join(door for door in (*TLS_DOORS, "postgres") if door not in doors)
    lines = [
        f"TLS at       {', '.join(doors)}; not at {others}",
        f"certificate  for {', '.join(found.names)}; until {found.until:%Y-%m-%d}",
        f"authority    {file}",
        f"             SHA-256 {found.fingerprint}",
    ]
    if "airflow" in doors:
        lines.append(f"browser      {settings.airflow.url}")
    if "sql" in doors:
        where = settings.hive
        trusted = f"sslTrustStore={store};trustStorePassword={STORE_PASSWORD}"
        lines.append(
            f"JDBC         jdbc:hive2://{where.host}:{where.port}/{where.database};ssl=true;{trusted}"
        )
    if {"airflow", "sql"} <= doors.keys():
        port, trusted = settings.hive.port, f'authority="{file}"'
        lines.append(
            f'Python       Client("{settings.airflow.url}", USER, PASSWORD, sql_port={port}, {trusted})'
        )
    typer.echo("\n".join(lines))
