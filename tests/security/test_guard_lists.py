"""Every class that the SQL endpoint's guard names is one of Spark's, or the name guards nothing."""

from __future__ import annotations

import re
import zipfile

import pytest

from sluice.stack.environment import spark_home
from sluice.stack.jars import JAVA

GUARD = JAVA / "spark" / "Guard.java"
#: The guard's lists of classes, and the packages in which Spark keeps such classes.
LISTS = {
    "NEVER": ("catalyst/plans/logical/", "execution/command/", "hive/execution/"),
    "NEVER_CALLED": ("catalyst/expressions/", "hive/"),
    "READING": ("catalyst/plans/logical/", "execution/command/"),
}


@pytest.fixture(scope="module")
def classes() -> set[str]:
    """Spark's own classes for SQL, each as a path."""
    found: set[str] = set()
    for part in ("catalyst", "sql", "hive"):
        (jar,) = (spark_home() / "jars").glob(f"spark-{part}_*.jar")
        with zipfile.ZipFile(jar) as packed:
            found.update(packed.namelist())
    return found


def names(wanted: str) -> list[str]:
    """The names in one of the guard's lists."""
    found = re.search(rf"Set<String> {wanted} =\s*Set\.of\((.*?)\);", GUARD.read_text(), re.DOTALL)
    assert found is not None
    return re.findall(r'"(\w+)"', found[1])


@pytest.mark.parametrize("wanted", LISTS)
def test_every_listed_name_is_a_class_of_spark(wanted: str, classes: set[str]) -> None:
    listed = names(wanted)
    assert listed
    unknown = [
        name
        for name in listed
        if not any(f"org/apache/spark/sql/{package}{name}.class" in classes for package in LISTS[wanted])
    ]
    assert unknown == []
