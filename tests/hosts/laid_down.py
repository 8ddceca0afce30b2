"""The rendered files of every agent, where a deployment puts them; no agent is started."""

from __future__ import annotations

from sluice.collection import deploy_plan
from sluice.collection.agent import folder
from sluice.runtime.settings import Settings


def lay_down(settings: Settings) -> None:
    for change in deploy_plan.plan(settings):
        assert change.rendered is not None
        where = folder(settings, change.agent)
        where.mkdir(parents=True, exist_ok=True)
        for name, text in change.rendered.files.items():
            (where / name).write_text(text)
