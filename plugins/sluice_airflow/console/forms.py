"""Bodies of the pages' forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from urllib.parse import parse_qsl

from fastapi import Depends, HTTPException, Request, status

#: Fields of one form: eight dimensions, sixteen conditions and 32 metrics have about 200.
MOST_FIELDS = 2_000


class Form(NamedTuple):
    """The fields of a form, in their order; a name may come several times."""

    pairs: Sequence[tuple[str, str]]

    def get(self, name: str) -> str:
        """The first field of that name; empty if there is none."""
        return next((text for key, text in self.pairs if key == name), "")


async def form(request: Request) -> Form:
    """The form that was sent. Raises HTTPException."""
    body = (await request.body()).decode("ascii", "replace")
    try:
        return Form(parse_qsl(body, keep_blank_values=True, errors="replace", max_num_fields=MOST_FIELDS))
    except ValueError:
        raise HTTPException(
            status.HTTP_413_CONTENT_TOO_LARGE, f"the form has more than {MOST_FIELDS} fields: send fewer"
        ) from None


Given = Annotated[Form, Depends(form)]
