from __future__ import annotations

import pytest
from pydantic import ValidationError

from sluice.runtime.sections import Speed
from sluice.runtime.settings import Settings


def test_a_misspelt_setting_of_a_section_is_refused_with_the_right_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLUICE_SPEED__BATCH_SECOND", "1")
    with pytest.raises(
        ValidationError, match="batch_second: there is no such setting: did you mean batch_seconds"
    ):
        Settings()


def test_a_name_like_no_other_is_answered_with_all() -> None:
    with pytest.raises(ValidationError, match="the settings here are batch_bytes, batch_seconds, "):
        Speed.model_validate({"x": 1})
