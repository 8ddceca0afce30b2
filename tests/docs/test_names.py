"""A class has a name of its own in the product, so that a name means one thing."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from sluice.runtime.settings import ROOT

#: Names that two classes have. A section of the settings is named after what it sets; the client has errors
#: and documents of its own, because it imports nothing of the platform; a
#: sum is a metric and what it is made of.
DOUBLE = {"Airflow", "HBase", "Hive", "Retention", "Spark", "Sql", "SqlFailed", "Sum", "Task"}


@pytest.mark.slow
def test_each_class_has_a_name_of_its_own() -> None:
    names = Counter(
        each.name
        for folder in ("include", "plugins", "jobs", "dags")
        for file in (ROOT / folder).rglob("*.py")
        for each in ast.parse(file.read_text()).body
        if isinstance(each, ast.ClassDef) and not each.name.startswith("_")
    )
    assert {name for name, times in names.items() if times > 1} == DOUBLE
