"""The files of a catalog: what they say, what they hold, what they refuse."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest
from pages import Tags
from payloads import make_suite

from optotype.registry.artifacts.index import Registry
from optotype.registry.artifacts.listing import diff_versions, list_versions
from optotype.registry.artifacts.publish import publish
from optotype.registry.catalog import build, comparisons, entries
from optotype.registry.catalog.build import build_catalog
from optotype.schemas.errors import ConflictError, UsageError

_VOID = ("meta", "link", "br", "input", "wbr", "hr")


def pages(site: Path) -> dict[str, str]:
    """Every page of the catalog itself, by path; pages of reports are not."""
    return {
        path.relative_to(site).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(site.rglob("*.html"))
        if "payload" not in path.parts
    }


def words(page: str) -> str:
    """What a page says, without its tags and scripts."""
    bare = re.sub(r"<(script|style)>.*?</\1>", "", page, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", bare))


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_version_and_name_has_a_page(published: Path, site: Path) -> None:
    rows = list_versions(Registry(published))
    wanted = {f"{row['kind']}/{row['name']}/{row['version']}/index.html" for row in rows}
    wanted |= {f"{row['kind']}/{row['name']}/index.html" for row in rows} | {"index.html"}
    assert set(pages(site)) == wanted
    document = json.loads((site / "catalog.json").read_text())
    assert [{key: row[key] for key in rows[0]} for row in document["versions"]] == rows
    assert all((site / row["page"]).is_file() for row in document["versions"])


def test_pages_load_nothing_and_their_policy_fits_them(site: Path) -> None:
    for name, page in pages(site).items():
        tags = Tags(page, _VOID)
        assert not tags.unbalanced, name
        assert not tags.open, name
        for tag, attributes in tags.found:
            assert not [key for key in attributes if key.startswith("on") or key == "style"], (name, tag, attributes)
            assert "srcset" not in attributes
            if tag == "iframe":
                assert attributes["sandbox"] in (None, "")
                assert (attributes["src"] or "").startswith("payload/")
            elif "src" in attributes:
                pytest.fail(f"{name}: {tag} loads {attributes['src']}")
            if tag == "link":
                assert attributes == {"rel": "icon", "href": "data:,"}
        policy = next(a["content"] or "" for t, a in tags.found if a.get("http-equiv") == "Content-Security-Policy")
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        for element, directive in (("style", "style-src"), ("script", "script-src")):
            (text,) = re.findall(rf"<{element}>(.*?)</{element}>", page, flags=re.S)
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"{directive} 'sha256-{digest}'" in policy
        assert not re.findall(r"url\(|@import|https?://", re.sub(r"<dd>.*?</dd>", "", page)), name


def test_links_lead_to_what_is_there(site: Path) -> None:
    found = pages(site)
    ids = {name: {a["id"] for _, a in Tags(page, _VOID).found if "id" in a} for name, page in found.items()}
    for name, page in found.items():
        listed = [attributes["id"] for _, attributes in Tags(page, _VOID).found if "id" in attributes]
        assert len(listed) == len(set(listed)), f"{name}: an id stands twice"
        for tag, attributes in Tags(page, _VOID).found:
            for key in ("aria-labelledby", "aria-describedby", "for", "data-copy"):
                for part in (attributes.get(key) or "").split():
                    assert part in ids[name], (name, key, part)
            if tag == "a":
                target, fragment = urldefrag(attributes["href"] or "")
                path = (site / name).parent / unquote(target) if target else site / name
                assert path.is_file(), (name, target)
                relative = path.resolve().relative_to(site.resolve()).as_posix()
                assert not fragment or unquote(fragment) in ids[relative], (name, attributes["href"])


def test_headings_are_in_order_and_what_scrolls_takes_the_focus(site: Path) -> None:
    for name, page in pages(site).items():
        tags = Tags(page, _VOID).found
        levels = [int(tag[1]) for tag, _ in tags if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), (name, levels)
        for tag, attributes in tags:
            if "scroll" in (attributes.get("class") or "").split() or tag == "pre":
                assert attributes.get("tabindex") == "0", name
            if tag in ("input", "select"):
                assert any(a.get("for") == attributes["id"] for t, a in tags if t == "label")


def test_texts_of_others_stay_text(site: Path) -> None:
    for name, page in pages(site).items():
        assert page.count("<script>") == 1, name
        assert "<published>" not in page
    assert "&lt;script&gt;document.title" in (site / "suite/prime/0.2.0/index.html").read_text()
    assert "the &lt;answer&gt; key" in (site / "suite/prime/0.1.0/index.html").read_text()


def test_a_version_shows_its_card_facts_files_and_pin(published: Path, site: Path) -> None:
    page = (site / "suite/prime/0.2.0/index.html").read_text()
    said = words(page)
    manifest = Registry(published).resolve("suite/prime@0.2.0").manifest
    assert "optotype pin suite/prime@0.2.0 --from GIT_URL_OR_PATH" in said
    assert manifest.digest in said
    for file in manifest.files:
        assert file.path in said
        assert file.sha256 in said
    for text in ("@stable", "latest", "Known limits", "What it was made of", "few models", "m4"):
        assert text in said
    assert "yanked" not in said


def test_a_yanked_version_says_so_and_is_not_to_be_pinned_by_version(published: Path, site: Path) -> None:
    said = words((site / "suite/prime/0.1.0/index.html").read_text())
    digest = Registry(published).resolve("suite/prime@0.1.0", yanked=True).digest
    assert "This version was yanked:" in said
    assert "suite/prime@0.2.0 instead" in said
    assert f"optotype pin suite/prime@{digest} --from" in said
    assert "yanked" in words((site / "index.html").read_text())


def test_the_source_stands_in_the_commands(published: Path, tmp_path: Path) -> None:
    build_catalog(published, tmp_path / "site", source="https://example.org/suites.git")
    said = words((tmp_path / "site/suite/prime/0.2.0/index.html").read_text())
    assert "optotype pin suite/prime@0.2.0 --from https://example.org/suites.git" in said


def test_differences_are_those_of_the_diff_verb(published: Path, site: Path) -> None:
    registry = Registry(published)
    diffs = json.loads((site / "suite/prime/diff.json").read_text())["diffs"]
    pairs = [("0.2.0", "1.0.0-rc.1"), ("0.1.0", "1.0.0-rc.1"), ("0.1.0", "0.2.0")]
    assert diffs == [diff_versions(registry, f"suite/prime@{a}", f"suite/prime@{b}") for a, b in pairs]
    page = (site / "suite/prime/index.html").read_text()
    assert re.findall(r'data-from="(.+?)" data-to="(.+?)"', page) == pairs
    part = words(page[page.index('data-from="0.1.0" data-to="0.2.0"') :])
    for text in ("2 items in both", "+1 added", "−1 removed", "1 reweighted", "retention 0.05 0.1", "m1 1 3 ▼ 2"):
        assert text in part, text
    assert "m2" not in part[: part.index("Items added")], "its rank did not move"
    assert "b / &lt;1&gt;" in part


def test_rankings_are_shown_best_first(site: Path) -> None:
    said = words((site / "ranking/emoji/0.2.0/index.html").read_text())
    assert "1 cnn 0.500 0.490 to 0.510 0.333 2 vit 0.375" in said
    assert "Chance is 0.250" in said


def test_reports_are_copied_byte_for_byte_and_found_from_their_ranking(published: Path, site: Path) -> None:
    payload = published / "artifacts/report/look/0.1.0/payload"
    assert tree(site / "report/look/0.1.0/payload") == tree(payload)
    page = (site / "report/look/0.1.0/index.html").read_text()
    assert 'href="payload/ranking.html"' in page
    assert "../../../report/look/0.1.0/index.html" in (site / "ranking/emoji/0.1.0/index.html").read_text()
    assert "../../../ranking/emoji/0.1.0/index.html" in page


def test_large_reports_are_not_copied(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "LARGEST_REPORT", 10)
    build_catalog(published, tmp_path / "site")
    assert not (tmp_path / "site/report/look/0.1.0/payload").exists()
    assert "not copied into this site" in (tmp_path / "site/report/look/0.1.0/index.html").read_text()


def test_equal_versions_give_equal_bytes_elsewhere(published: Path, site: Path, tmp_path: Path) -> None:
    moved = tmp_path / "another place" / "project"
    shutil.copytree(published, moved)
    build_catalog(moved, tmp_path / "out", title="Things <published>")
    assert tree(tmp_path / "out") == tree(site)
    for name, content in tree(site).items():
        assert str(published).encode() not in content, name


def test_an_older_catalog_is_replaced_whole_and_other_folders_are_not(published: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    build_catalog(published, out)
    (out / "left.html").write_text("of an older version")
    build_catalog(published, out)
    assert not (out / "left.html").exists()
    for name in ("folder", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "folder/kept.txt").write_text("mine")
    (tmp_path / "other/catalog.json").write_text('{"kind": "else"}')
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(out)
    for name in ("folder", "other", "file", "link"):
        with pytest.raises(ConflictError, match="in the way"):
            build_catalog(published, tmp_path / name)
    assert (tmp_path / "folder/kept.txt").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    build_catalog(published, tmp_path / "empty")
    assert (tmp_path / "empty/index.html").is_file()


def test_a_build_that_fails_leaves_the_old_catalog(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "site"
    build_catalog(published, out, title="old")
    before = tree(out)
    wrote: list[Path] = []

    def write(path: Path, content: bytes) -> None:
        if len(wrote) == 5:
            raise OSError(28, "No space left on device")
        wrote.append(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    monkeypatch.setattr(build, "_write", write)
    with pytest.raises(OSError, match="No space"):
        build_catalog(published, out, title="new")
    assert tree(out) == before
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_places_that_would_harm_the_project_are_refused(published: Path, tmp_path: Path) -> None:
    for out in (published, published.parent, published / "artifacts", published / "artifacts" / "site"):
        with pytest.raises(UsageError):
            build_catalog(published, out)
    with pytest.raises(UsageError, match="title"):
        build_catalog(published, tmp_path / "site", title="  ")


def test_nothing_published_is_a_page_that_says_so(tmp_path: Path) -> None:
    written = build_catalog(tmp_path / "project", tmp_path / "site")
    assert written["versions"] == written["names"] == 0
    assert "Nothing is published yet" in (tmp_path / "site/index.html").read_text()


@pytest.fixture
def copy(published: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    shutil.copytree(published, tmp_path / "copy")
    return tmp_path / "copy"


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def _break_manifest(folder: Path) -> str:
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace("the first", "the worst"))
    return "cannot be read"


def _break_payload(folder: Path) -> str:
    _flip(folder / "payload/items.parquet")
    return "not those of the manifest: items.parquet"


def _break_card(folder: Path) -> str:
    _flip(folder / "CARD.md")
    return "card is not shown"


def _lose_payload(folder: Path) -> str:
    shutil.rmtree(folder / "payload")
    return "payload is not here"


def _add_file(folder: Path) -> str:
    (folder / "payload/extra.txt").write_text("not published")
    return "not those of the manifest: extra.txt"


@pytest.mark.parametrize("harm", [_break_manifest, _break_payload, _break_card, _lose_payload, _add_file])
def test_what_is_damaged_is_named_and_does_not_hide_the_rest(
    copy: Path, tmp_path: Path, harm: Callable[[Path], str]
) -> None:
    told = harm(copy / "artifacts/suite/prime/0.1.0")
    written = build_catalog(copy, tmp_path / "site")
    assert written["versions"] == 8
    (note,) = written["notes"]
    assert note.startswith("suite/prime@0.1.0: ")
    assert str(copy) not in note
    said = words((tmp_path / "site/suite/prime/0.1.0/index.html").read_text())
    assert told in said
    assert str(copy) not in "".join(pages(tmp_path / "site").values())
    assert "m4" in words((tmp_path / "site/suite/prime/0.2.0/index.html").read_text())
    damaged = "damaged" in words((tmp_path / "site/index.html").read_text())
    assert damaged == (harm is not _lose_payload), "what is absent is not damaged"


def test_wrong_bytes_are_never_shown(copy: Path, tmp_path: Path) -> None:
    folder = copy / "artifacts/report/look/0.1.0/payload"
    page = (folder / "ranking.html").read_text()
    (folder / "ranking.html").write_text(page.replace("hello", "hullo"))
    build_catalog(copy, tmp_path / "site")
    assert not (tmp_path / "site/report/look/0.1.0/payload").exists()
    assert "Its pages are not here" in (tmp_path / "site/report/look/0.1.0/index.html").read_text()


def test_of_large_payloads_the_manifest_is_shown(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "LARGEST_READ", 10)
    written = build_catalog(published, tmp_path / "site")
    assert len(written["notes"]) == 8
    said = words((tmp_path / "site/suite/prime/0.2.0/index.html").read_text())
    assert "larger than 0 MiB" in said
    assert "retention 0.05 0.1" in said
    assert "items and ranks are not compared" in said


def test_many_versions_are_compared_up_to_the_limit_and_it_is_said(tmp_path: Path) -> None:
    root = tmp_path / "project"
    for minor in range(11):
        publish("suite", f"s@0.{minor}.0", make_suite(tmp_path / f"{minor}", {f"a/{minor}": 1.0}), root=root)
    written = build_catalog(root, tmp_path / "site")
    assert written["comparisons"] == 28 + 3
    page = words((tmp_path / "site/suite/s/index.html").read_text())
    assert "Any two of the newest 8 versions are compared here, and each older one with the next." in page


def test_compared_pairs() -> None:
    versions = [f"1.{minor}.0" for minor in range(10)]
    found = comparisons.compared_pairs(list(reversed(versions)))
    newest = set(itertools.combinations(versions[2:], 2))
    assert set(found) == newest | {("1.0.0", "1.1.0"), ("1.1.0", "1.2.0")}
    assert found[0] == ("1.8.0", "1.9.0")
    assert len(found) == len(set(found))
    assert comparisons.compared_pairs(["1.0.0"]) == []
    assert comparisons.compared_pairs(["1.0.0", "1.0.0-rc.1"]) == [("1.0.0-rc.1", "1.0.0")]


def test_lists_stop_and_say_so(tmp_path: Path) -> None:
    root = tmp_path / "project"
    publish("suite", "s@1.0.0", make_suite(tmp_path / "1", {"a/0": 1.0}), root=root)
    publish("suite", "s@2.0.0", make_suite(tmp_path / "2", {f"a/{i:03d}": 1.0 for i in range(70)}), root=root)
    build_catalog(root, tmp_path / "site")
    page = words((tmp_path / "site/suite/s/index.html").read_text())
    assert "and 20 more" in page
    (found,) = json.loads((tmp_path / "site/suite/s/diff.json").read_text())["diffs"]
    assert len(found["items"]["added"]) == 70


def test_a_payload_of_a_later_format_does_not_stop_the_rest(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from optotype.schemas.errors import FormatError

    def refuse(*_: Any, **__: Any) -> Any:
        raise FormatError("of a later format")

    monkeypatch.setattr(comparisons, "compare", refuse)
    monkeypatch.setattr(build, "result_tables", refuse)
    build_catalog(published, tmp_path / "site")
    assert "They cannot be compared: of a later format" in (tmp_path / "site/suite/prime/index.html").read_text()
