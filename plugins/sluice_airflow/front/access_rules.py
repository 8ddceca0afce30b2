"""What may be asked for without a login, how large a request may be, and what is no page."""

from __future__ import annotations

from airflow.configuration import conf

from sluice.stack.airflow.configuration import AUTH_MANAGER
from sluice_airflow.front.head import SAFE, RequestHead

#: docs/security.md lists the same; tests/security attacks everything else.
PUBLIC = frozenset(
    {
        "/auth/login",
        "/auth/provider",  # Airflow's log-in page, unless the settings name an identity provider
        "/auth/provider/return",
        "/api/v2/auth/login",
        "/api/v2/auth/logout",
        "/api/v2/version",
        "/api/v2/monitor/health",
        "/execution/health",
        "/execution/health/ping",
    }
)
#: Files of the pages and of the log-in page, as everybody can download them with Airflow.
PUBLIC_BELOW = ("/auth/static/", "/static/assets/", "/static/i18n/")
LOG_OUT = "/api/v2/auth/logout"
LOG_INS = frozenset({"/auth/token", "/auth/token/cli"})
LOG_IN_PAGE = "/api/v2/auth/login"
EXECUTION = "/execution/"
METRICS = "/sluice/metrics"
CONSOLE = "/sluice/console/"
#: A log-in begins on our own page: another site's must not begin one in somebody's browser. It ends at an
#: address to which the provider's page leads.
PROVIDER = "/auth/provider"
#: Programs ask for these; a browser shows none of them by itself.
NO_PAGES = ("/api/", "/ui/", "/auth/token", EXECUTION, "/sluice/api/", METRICS)
LOG_IN_BYTES, BODY_BYTES, TASK_BYTES = 16 << 10, 1 << 20, 16 << 20


def public(head: RequestHead) -> bool:
    """Whether the request needs no login."""
    path = head.path
    if head.method in SAFE:
        return path in PUBLIC or path.startswith(PUBLIC_BELOW) or _of_another_auth_manager(path)
    return head.method == "POST" and (path in LOG_INS or _of_another_auth_manager(path))


def page(path: str) -> bool:
    """Whether a person may be led to this address from elsewhere: it shows something and changes nothing."""
    return (not path.startswith(NO_PAGES) and path != PROVIDER) or path == LOG_IN_PAGE


def most(head: RequestHead) -> int:
    """How many bytes the body may have."""
    if head.path.startswith(EXECUTION):
        return TASK_BYTES  # what tasks return to others (XCom)
    return LOG_IN_BYTES if public(head) or head.path == METRICS else BODY_BYTES


def _of_another_auth_manager(path: str) -> bool:
    """Another auth manager has its own addresses for the log-in, and they are below this one."""
    return path.startswith("/auth/") and conf.get("core", "auth_manager") != AUTH_MANAGER
