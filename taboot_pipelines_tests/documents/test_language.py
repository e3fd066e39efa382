"""Language: sure answers on prose, `und` on everything that is not."""

from __future__ import annotations

import json
import socket

import pytest

from taboot_pipelines.documents.language import allowed, detect
from taboot_pipelines_tests.documents import corpus


@pytest.mark.parametrize(
    ("text", "lang"),
    [
        (
            (
                "The server listens on the port that you set in the configuration file, and answers every"
                " request."
            ),
            "en",
        ),
        (
            (
                "Dieses Dokument beschreibt, wie man den Server einrichtet und betreibt, damit alles"
                " funktioniert."
            ),
            "de",
        ),
        ("Ce document décrit comment installer le serveur et le configurer pour la première fois.", "fr"),
        ("Este documento describe cómo instalar el servidor y configurarlo por primera vez.", "es"),
        ("Этот документ описывает установку сервера и его первоначальную настройку.", "ru"),
        ("这份文件描述了如何安装服务器以及如何配置它的所有服务。", "zh"),
        (
            (
                "Líder Aviação (Líder Aviation) is a Brazilian airline specialising in air charter, with"
                " bases at Congonhas and Guarulhos, and one of the largest of the region."
            ),
            "en",
        ),
        (
            (
                "De server luistert op de poort die in het configuratiebestand is ingesteld. Het wachtwoord"
                " van de gebruiker was verlopen en is door de beheerder vernieuwd, of de dienst is gestopt."
            ),
            "nl",
        ),
        ("", "und"),
        ("Hello", "und"),
        (
            "```\nthe server listens on the port that you set in the configuration file and answers\n```\n",
            "und",
        ),
        ("image: redis\nports:\n  - 80:80\nvolumes:\n  - ./data:/data\n", "und"),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n" * 20, "und"),
    ],
)
def test_detect(text: str, lang: str) -> None:
    assert detect(text) == lang


def test_english_documentation_is_never_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object) -> None:
        raise AssertionError("the model must come with the package")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    found = [detect(data.decode(), ["en"]) for path, data in corpus.files("linuxserver-docs-md", "**/*.md")]
    assert len(found) > 100
    assert set(found) <= {"en", "und"}
    assert found.count("en") > 0.9 * len(found)


def test_english_with_names_of_another_language_is_english() -> None:
    refused = []
    for name in ("multihop-hotpotqa-100", "multihop-musique-train-100"):
        for line in (corpus.DATA / name / "corpus.jsonl").open(encoding="utf-8"):
            document = json.loads(line)
            if detect(f"# {document['title']}\n\n{document['text']}", ["en"]) not in {"en", "und"}:
                refused.append(document["title"])
    assert len(refused) <= 1, refused


def test_allowed() -> None:
    assert allowed("de", []) and allowed("und", ["en"]) and allowed("en", ["en-US"])
    assert not allowed("de", ["en"])
