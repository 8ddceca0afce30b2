"""WebHDFS, attacked by a page of another site in the browser of somebody on this machine."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
import requests

from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsStore

pytestmark = pytest.mark.stack

#: What a browser sends for a form of another site: no script of that site may add a header of its own.
FROM_ANOTHER_SITE = {
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/130.0 Safari/537.36",
    "Origin": "http://evil.example",
    "Content-Type": "application/x-www-form-urlencoded",
}


@pytest.fixture
def path(stack: Settings) -> Iterator[str]:
    store, name = HdfsStore.of(stack), f"/sluice/security-{uuid.uuid4().hex[:8]}"
    store.write(name, b"kept")
    yield name
    store.delete(name)


@pytest.mark.parametrize(
    ("method", "operation"),
    [
        ("POST", "op=TRUNCATE&newlength=0"),
        ("POST", "op=APPEND&noredirect=true"),
        ("PUT", "op=CREATE&overwrite=true&noredirect=true"),
        ("PUT", "op=RENAME&destination=/gone"),
        ("DELETE", "op=DELETE"),
    ],
)
def test_another_site_s_page_changes_nothing(stack: Settings, path: str, method: str, operation: str) -> None:
    url = f"{stack.hdfs.webhdfs}/webhdfs/v1{path}?{operation}&user.name={stack.hdfs.user}"
    with requests.Session() as browser:
        browser.trust_env = False
        answer = browser.request(method, url, headers=FROM_ANOTHER_SITE, timeout=30, allow_redirects=False)
    assert answer.status_code == 400
    assert HdfsStore.of(stack).read(path) == b"kept"
