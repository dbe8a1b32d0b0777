"""The files of the page: what can be checked without a browser. `make e2e-page` checks the rest."""

import gzip
import re

import pytest

from holdfast.explain import server

FILES = {path[1:]: file for path, file in server.page_files().items()}
TEXTS = {path or "index.html": content.decode() for path, (content, _) in FILES.items()}


def test_page_and_its_assets_are_served() -> None:
    assert FILES[""][1] == "text/html"
    assert {path.rpartition(".")[2] for path in FILES if path} == {"css", "js", "svg"}


def test_page_refers_only_to_files_that_exist() -> None:
    named = re.findall(r'(?:src|href)="([^"#]+)"', TEXTS["index.html"])
    assert set(named) == {path for path in FILES if path}
    for path, text in TEXTS.items():
        if path.endswith(".js"):
            imports = re.findall(r'from "\./([^"]+)"', text)
            assert {f"assets/{one}" for one in imports} <= FILES.keys()


def test_page_is_small() -> None:
    assert sum(len(content) for content, _ in FILES.values()) < 100_000
    assert sum(len(gzip.compress(content)) for content, _ in FILES.values()) < 36_000


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
    assert "unsafe" not in server._POLICY
    assert "*" not in server._POLICY
