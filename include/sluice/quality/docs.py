"""Data Docs: the pages of every validation, under the instance's directory."""

from __future__ import annotations

import html
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock

from sluice.quality.pages import assets
from sluice.runtime.settings import Settings

SITE = "data_docs"
VIEW = {"module_name": "sluice.quality.pages.view", "class_name": "PageView"}


def data_docs(settings: Settings) -> Path:
    """The site's first page."""
    return settings.home / "data_docs" / "index.html"


@contextmanager
def context(settings: Settings) -> Iterator[Any]:
    """A context of Great Expectations whose validations and pages are kept; one at a time.

    Suites and checkpoints are kept in memory, because the program makes them: two versions of the program
    then never share a file. Importing the library takes 6-15 s.
    """
    import great_expectations as gx

    settings.home.mkdir(parents=True, exist_ok=True)
    with FileLock(settings.home / "data_docs.lock"):  # every run writes the index
        assets.place(settings.home / "data_docs")
        yield gx.get_context(mode="ephemeral", project_config=_config(settings))


def _config(settings: Settings) -> Any:
    from great_expectations.data_context.types.base import DataContextConfig

    memory = {"class_name": "InMemoryStoreBackend"}

    def files(name: str) -> dict[str, str]:
        return {
            "class_name": "TupleFilesystemStoreBackend",
            "base_directory": str(settings.home / name),
        }

    return DataContextConfig(
        analytics_enabled=False,
        progress_bars={"globally": False},
        expectations_store_name="expectations_store",
        validation_results_store_name="validation_results_store",
        checkpoint_store_name="checkpoint_store",
        stores={
            "expectations_store": {"class_name": "ExpectationsStore", "store_backend": memory},
            "checkpoint_store": {"class_name": "CheckpointStore", "store_backend": memory},
            "validation_definition_store": {
                "class_name": "ValidationDefinitionStore",
                "store_backend": memory,
            },
            "validation_results_store": {
                "class_name": "ValidationResultsStore",
                "store_backend": files("validations"),
            },
        },
        data_docs_sites={
            SITE: {
                "class_name": "SiteBuilder",
                "show_how_to_buttons": False,
                "store_backend": files("data_docs"),
                "site_index_builder": {"class_name": "DefaultSiteIndexBuilder", "view": VIEW},
                "site_section_builders": {
                    "expectations": {"view": VIEW},
                    # By default a run is no validation if its name, which has the topic's, contains
                    # "profiling".
                    "validations": {"view": VIEW, "run_name_filter": {"matches_regex": "."}},
                    "profiling": "None",
                },
            }
        },
    )


def escaped(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its text escaped: the library puts values into its pages as they are.

    A dollar sign is escaped as well, because the pages are made from templates with ``$name``.
    """
    safe = frame.copy()
    for name in safe.columns:
        if safe[name].dtype == object:
            safe[name] = [_escape(value) if isinstance(value, str) else value for value in safe[name]]
    return safe


def _escape(text: str) -> str:
    return html.escape(text).replace("$", "&#36;")
