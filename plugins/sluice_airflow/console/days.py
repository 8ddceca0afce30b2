"""Days that an address may name."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import Field

#: Around each of them there are days and months that can be named too.
FIRST_DAY, LAST_DAY = date(1970, 1, 1), date(9998, 12, 31)

AskedDay = Annotated[date, Field(ge=FIRST_DAY, le=LAST_DAY)]
