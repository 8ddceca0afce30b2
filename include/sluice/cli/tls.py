"""`sluice tls`: what the doors show, and how programs and browsers get to trust it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.runtime.settings import TLS_DOORS, Settings
from sluice.transmission.listener import STORE_PASSWORD

if TYPE_CHECKING:
    from sluice.stack.tls import DoorCertificate


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
    doors = [door for door in TLS_DOORS if settings.speaks_tls(door)]
    if not doors:
        said = f"tls.mode is {settings.tls.mode!r}, and the doors listen at {settings.bind_host}"
        raise NoTls(f"no door speaks TLS: {said}. To have it, set tls: {{mode: on}}")
    try:
        found = tls.shown(settings)
    except FileNotFoundError as error:
        raise NoTls(f"{error.filename} is not there yet: `sluice up` makes it") from error
    if authority:
        typer.echo((tls.folder(settings) / tls.AUTHORITY).read_text(), nl=False)
    else:
        typer.echo("\n".join(_lines(settings, doors, found)))


def _lines(settings: Settings, doors: Collection[str], found: DoorCertificate) -> Iterator[str]:
    from sluice.stack import tls

    file, store = tls.folder(settings) / tls.AUTHORITY, tls.folder(settings) / tls.TRUST_STORE
    others = ", ".join(door for door in TLS_DOORS if door not in doors)
    yield f"TLS at       {', '.join(doors)}{f'; not at {others}' if others else ''}"
    yield f"certificate  for {', '.join(found.names)}; until {found.until:%Y-%m-%d}"
    yield f"authority    {file}"
    yield f"             SHA-256 {found.fingerprint}"
    if "airflow" in doors:
        yield f"browser      {settings.airflow.url}"
    where = settings.hive
    if "sql" in doors:
        trusted = f"sslTrustStore={store};trustStorePassword={STORE_PASSWORD}"
        yield f"JDBC         jdbc:hive2://{where.host}:{where.port}/{where.database};ssl=true;{trusted}"
    if "postgres" in doors:
        own = settings.postgres
        place = f"host={own.host} port={own.port} dbname={own.database} user={own.user}"
        yield f"psql         sslmode=verify-full sslrootcert={own.root_certificate} {place}"
    if {"airflow", "sql"} <= set(doors):
        rest = f'sql_port={where.port}, authority="{file}"'
        yield f'Python       Client("{settings.airflow.url}", USER, PASSWORD, {rest})'
