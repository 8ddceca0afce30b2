"""What is installed is compared with requirements.txt."""

from __future__ import annotations

from importlib.metadata import version

from sluice.runtime.installed import differing


def test_only_what_differs_is_named() -> None:
    numpy = version("numpy")
    text = f"""# pins
numpy=={numpy}
NumPy=={numpy} ; python_version >= "3.0"
absent-package==1.0
absent-elsewhere==1.0 ; python_version < "3.0"

pandas==0.1
"""
    assert list(differing(text)) == [
        "absent-package is missing",
        f"pandas is {version('pandas')}, not 0.1",
    ]
