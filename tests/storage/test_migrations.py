"""The newest migration's name is the revision to which Alembic would bring a database."""

from __future__ import annotations

import pytest
from alembic.script import ScriptDirectory

from sluice.storage import migrations
from sluice.storage.postgres import alembic_config


@pytest.mark.slow
def test_the_newest_revision() -> None:
    assert migrations.newest() == ScriptDirectory.from_config(alembic_config()).get_current_head()
