import re
import shutil
import xml.etree.ElementTree as ET
import zipfile
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pandas as pd
import pyarrow as pa
import pytest

from sluice.engine.rowkey import RowKey
from sluice.quality.day_hops import Hop
from sluice.quality.docs import data_docs, escaped
from sluice.quality.expectations import delete_older, validate
from sluice.quality.pages import assets
from sluice.results.compare import OFFLINE_RESULTS, ONLINE_RESULTS, compare
from sluice.runtime.settings import Settings
from sluice.stack import jars

pytestmark = pytest.mark.slow

ALL = (*assets.STYLES, *assets.SCRIPTS, *assets.FONTS)
TOPIC, DAY = "profiling_logs", date(2015, 5, 17)


def test_text_cannot_become_markup_or_a_template_variable() -> None:
    frame = pd.DataFrame({"series": ['<script>alert("1")</script> $column &', None], "online": [1.0, 2.0]})
    safe = escaped(frame)
    assert safe["series"][0] == "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &#36;column &amp;"
    assert safe["series"][1] is None
    assert list(safe["online"]) == [1.0, 2.0]
    assert "<script>" in frame["series"][0]


def resolve(lib: Path, *, stamp: str = "1", version: str = "1.2.3", leave_out: str = "") -> None:
    """Make webjars as Maven leaves them; each asset contains its name and version."""
    (lib / assets.COMPONENT).mkdir(parents=True, exist_ok=True)
    for old in (lib / assets.COMPONENT).glob("*.jar"):
        old.unlink()
    for asset in ALL:
        webjar, path = asset.split("/", 1)
        if webjar != leave_out:
            with zipfile.ZipFile(lib / assets.COMPONENT / f"{webjar}-{version}.jar", "a") as jar:
                name = f"META-INF/resources/webjars/{webjar}/{version}/{path}"
                jar.writestr(name, f"{asset} {version}")
    (lib / assets.COMPONENT / jars.STAMP).write_text(stamp)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of a comparison that differs and of one that agrees, with the webjars in place."""
    home = tmp_path_factory.mktemp("instance")
    settings = Settings(instance="test", home=home, port_base=29_000)
    key = RowKey(7, 2, (("path", "/$a</script>"),), "count", 1431857100000).encode()
    for value in (2.0, 3.0):
        found = compare(
            "hits (7v2)",
            pa.table([[key], ["3"], [None]], schema=ONLINE_RESULTS),
            pa.table([[key], ["count"], [value], [None], [None]], schema=OFFLINE_RESULTS),
        )
        hops = [Hop("archive", "Kafka", 3, "HDFS", int(value))]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jars, "LIB", home / "lib")
            resolve(home / "lib")
            assert (validate(settings, TOPIC, DAY, found.frame, hops) == []) == (value == 3.0)
    return data_docs(settings).parent


class Resources(HTMLParser):
    """Everything that a page loads by itself or through the styles in it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.urls: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        # A file has no origin, so a browser would refuse a script with a hash to check.
        assert not {"integrity", "crossorigin"} & set(values)
        self.urls += [value or "" for name, value in attrs if name in {"src", "srcset", "data", "poster"}]
        if tag == "link":
            self.urls.append(values["href"] or "")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "style":
            self.urls += re.findall(r"(?:url\(|@import)\s*['\"]?([^'\")]*)", data)


def test_no_page_loads_anything_from_a_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) == 1 + 2 + 4  # the index, two suites, and a page for each suite of each run
    for page in pages:
        resources = Resources(page).urls
        assert len(resources) == 1 + len(assets.STYLES) + len(assets.SCRIPTS), page  # one is the icon
        for url in resources:
            assert (page.parent / unquote(url)).resolve().is_relative_to(site.resolve()), (page, url)
            assert (page.parent / unquote(url)).is_file(), (page, url)


def test_pages_are_light_or_dark_and_ask_for_nothing(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert "@media (prefers-color-scheme: dark)" in text
        assert "newsletter" not in text
        assert "vega" not in text


def test_the_index_lists_every_run_and_its_links_lead_to_pages(site: Path) -> None:
    links = re.findall(r"validations/[^'\"]*\.html", (site / "index.html").read_text())
    paths = {unquote(link) for link in links}
    assert paths == {str(page.relative_to(site)) for page in site.glob("validations/**/*.html")}
    assert all(f"{TOPIC} {DAY}" in path for path in paths)
    for page in (*site.glob("validations/**/*.html"), *site.glob("expectations/*.html")):
        home = re.search(r'class="navbar-brand" href="([^"]*)"', page.read_text())
        assert home is not None
        assert (page.parent / home[1]).resolve() == (site / "index.html").resolve()


def test_the_oldest_comparisons_of_a_day_are_forgotten(site: Path, tmp_path: Path) -> None:
    home = tmp_path / "instance"
    shutil.copytree(site, home / "data_docs")
    shutil.copytree(site.with_name("validations"), home / "validations")
    settings, name = Settings(instance="test", home=home, port_base=29_000), f"{TOPIC} {DAY}"
    pages = sorted((home / "data_docs").glob("validations/*/*/*"))
    assert delete_older(settings, "another 2015-05-17", 1) == delete_older(settings, name, 2) == 0
    assert delete_older(settings, name, 1) == 4  # of each suite a validation and its page
    assert sorted((home / "data_docs").glob("validations/*/*/*")) == pages[1::2]
    assert len(list((home / "validations").glob("*/*/*"))) == 2


def test_assets_are_placed_once_and_replaced_when_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "LIB", tmp_path / "lib")
    resolve(tmp_path / "lib")
    site = tmp_path / "site"
    placed = site / "static" / "lib"
    assets.place(site)
    assert all((placed / asset).read_text() == f"{asset} 1.2.3" for asset in ALL)
    before = placed.stat().st_ino
    assets.place(site)
    assert placed.stat().st_ino == before
    resolve(tmp_path / "lib", stamp="2", version="2.0.0")
    (site / "static" / "lib.new").mkdir()  # a run that was killed left it
    assets.place(site)
    assert all((placed / asset).read_text() == f"{asset} 2.0.0" for asset in ALL)
    assert [path.name for path in (site / "static").iterdir()] == ["lib"]


@pytest.mark.parametrize("leave_out", ["", "jquery"])
def test_missing_assets_are_named_and_leave_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, leave_out: str
) -> None:
    monkeypatch.setattr(jars, "LIB", tmp_path / "lib")
    resolve(tmp_path / "lib")
    assets.place(tmp_path / "site")
    resolve(tmp_path / "lib", stamp="2", leave_out=leave_out)
    if not leave_out:
        (tmp_path / "lib" / assets.COMPONENT / jars.STAMP).unlink()
    assets.place(tmp_path / "site")
    assert "run `make setup`" in caplog.text
    assert all((tmp_path / "site" / "static" / "lib" / asset).is_file() for asset in ALL)


def test_a_page_without_its_assets_says_so(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert re.search(r'<p class="d-none"><strong>This page lacks its styles', page.read_text())


def test_the_pom_names_every_webjar() -> None:
    pom = ET.parse(jars.POMS / assets.COMPONENT / "pom.xml").getroot()  # noqa: S314 - our own file
    names = {node.text for node in pom.findall(".//{*}dependency/{*}artifactId")}
    assert {asset.split("/")[0] for asset in ALL} == names


@pytest.mark.skipif(
    not (jars.LIB / assets.COMPONENT / jars.STAMP).exists(), reason="the webjars are not resolved: make setup"
)
def test_the_webjars_hold_every_asset_and_none_loads_from_a_network(tmp_path: Path) -> None:
    assets.place(tmp_path)
    lib = tmp_path / "static" / "lib"
    assert all((lib / asset).stat().st_size > 0 for asset in ALL)
    for style in assets.STYLES:
        loads = re.findall(r"(?:url\(|@import)\s*['\"]?(\S{5})", (lib / style).read_text())
        assert set(loads) <= {"data:", "../we"}, style  # inline pictures and the icons' font
