"""The files of the page: what can be checked without a browser. `make e2e-page` checks the rest."""

import gzip
import re

import pytest

from holdfast import web

FILES = web.files()
TEXTS = {path or "index.html": file.content.decode() for path, file in FILES.items()}


def test_page_and_its_assets_are_served() -> None:
    assert FILES[""].content_type == "text/html"
    assert {path.rpartition(".")[2] for path in FILES if path} == {"css", "js", "svg"}


def test_page_refers_only_to_files_that_exist() -> None:
    named = re.findall(r'(?:src|href)="([^"#]+)"', TEXTS["index.html"])
    assert set(named) == {path for path in FILES if path}
    for path, text in TEXTS.items():
        if path.endswith(".js"):
            imports = re.findall(r'from "\./([^"]+)"', text)
            assert {f"assets/{one}" for one in imports} <= FILES.keys()


def test_compressed_files_are_the_files() -> None:
    assert all(gzip.decompress(file.compressed) == file.content for file in FILES.values())
    assert len({file.etag for file in FILES.values()}) == len(FILES)


def test_page_is_small() -> None:
    assert sum(len(file.content) for file in FILES.values()) < 100_000
    assert sum(len(file.compressed) for file in FILES.values()) < 36_000


@pytest.mark.parametrize("path", TEXTS)
def test_nothing_is_loaded_from_elsewhere(path: str) -> None:
    text = TEXTS[path].replace("http://www.w3.org/2000/svg", "")
    assert "://" not in text
    assert not re.search(r'(?:src|href)="/', text)
    assert not re.search(r"url\(|@import", text)


@pytest.mark.parametrize("path", [path for path in TEXTS if path.endswith((".js", ".html"))])
def test_no_text_becomes_markup_or_code(path: str) -> None:
    banned = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc"
    assert not re.search(banned, TEXTS[path])
    assert not re.search(r"<[^>]+\s(?:style|on\w+)=", TEXTS[path]), (
        "the policy refuses inline styles and handlers"
    )


def test_policy_allows_this_origin_alone() -> None:
    policy = web.HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "*" not in policy
