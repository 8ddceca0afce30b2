"""A site whose first three days are final and whose last one is open, and its SQL tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sluice.runtime.settings import Settings
from sluice.storage.hive import Hive
from sluice_lab.waiting import until
from tests.sql.site import NAMES, Site

#: How often tests look whether the watch, which looks every 20 s, has changed the tables: to list them costs
#: the endpoint and the metastore 0.1 s.
TABLES_SECONDS = 1.0


@pytest.fixture(scope="module")
def site(stack: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(stack, tmp_path_factory.mktemp("site"))
    made.commit(made.partials)
    made.publish_first(3)
    yield made
    made.forget()


@pytest.fixture(scope="module")
def sql(site: Site) -> Iterator[Hive]:
    """A session of the platform's own user, once the watch has created the site's tables."""
    with Hive(site.settings) as hive:
        wanted = {f"v_{site.full_name(name)}" for name in NAMES} | {"results"}
        until(lambda: wanted <= tables(hive), poll=TABLES_SECONDS)
        yield hive


def tables(hive: Hive) -> set[str]:
    return {row[1] for row in hive.query("SHOW TABLES").rows}
