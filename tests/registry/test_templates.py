"""Prompt templates as rows."""

from __future__ import annotations

from optotype.registry.templates import list_templates, show_template
from optotype.schemas.prompt_styles import STYLES
from optotype.schemas.templates import get_template, render


def test_every_shipped_template_is_listed() -> None:
    rows = {f"{row['name']}@{row['version']}": row for row in list_templates()}
    assert set(rows) == {"bare@1.0.0", "mmmeb@1.0.0"}
    assert rows["mmmeb@1.0.0"]["tasks"] == ["i2t", "t2i", "c", "vqa", "vg"]
    assert rows["mmmeb@1.0.0"]["languages"] == ["en", "it", "es", "fr", "de"]
    assert rows["bare@1.0.0"]["languages"] == ["*"]
    assert all(row["title"] and row["source"] and row["digest"].startswith("sha256:") for row in rows.values())


def test_all_prompts_in_all_styles() -> None:
    template = get_template("mmmeb")
    shown = show_template("mmmeb@1", text="a dog?")
    assert len(shown["prompts"]) == len(template.prompts) == 44
    for row in shown["prompts"]:
        cell = {key: row[key] for key in ("task", "side", "language")}
        for style in STYLES:
            assert row[style] == render(template, "a dog?", style=style, **cell)
        assert row["needs_image"] == ("<|image_1|>" in row["plain"])
        assert row["needs_text"] == ("a dog" in row["plain"])
    assert [row["plain"] for row in show_template("bare")["prompts"]] == ["{text}"] * 3
