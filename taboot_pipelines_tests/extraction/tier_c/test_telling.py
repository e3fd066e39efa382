"""Which sentences tell a relation: by their words, and between things of one kind by their grammar."""

from __future__ import annotations

import pytest

from taboot_pipelines.extraction.tier_c.telling import tells


@pytest.mark.parametrize(
    ("sentence", "start", "end"),
    [
        ("Grafana needs Loki.", "Grafana", "Loki"),
        ("Loki is used by Grafana.", "Grafana", "Loki"),
        ("Nextcloud is backed by Redis.", "Nextcloud", "Redis"),
        ("Redis backs Nextcloud.", "Nextcloud", "Redis"),
        ("Redis is needed for Nextcloud.", "Nextcloud", "Redis"),
        ("Nextcloud stores its data in MariaDB.", "Nextcloud", "MariaDB"),
        ("Chevereto requires a MariaDB database.", "Chevereto", "MariaDB"),
        ("Rancher uses K3s under the hood, which in turn uses Traefik.", "K3s", "Traefik"),
        ("Gitea and Outline require Postgres.", "Gitea", "Postgres"),
        ("Gitea and Outline require Postgres.", "Outline", "Postgres"),
    ],
)
def test_a_verb_tells_which_of_two_depends_on_the_other(sentence: str, start: str, end: str) -> None:
    assert tells("DEPENDS_ON", sentence, start, end)
    assert not tells("DEPENDS_ON", sentence, end, start)


@pytest.mark.parametrize(
    ("sentence", "start", "end"),
    [
        ("Grafana scrapes Loki.", "Grafana", "Loki"),
        ("Loki is scraped by Grafana.", "Grafana", "Loki"),
        ("Promtail sends logs to Loki.", "Promtail", "Loki"),
    ],
)
def test_a_verb_tells_which_of_two_connects_to_the_other(sentence: str, start: str, end: str) -> None:
    assert tells("CONNECTS_TO", sentence, start, end)
    assert not tells("CONNECTS_TO", sentence, end, start)


@pytest.mark.parametrize(
    "sentence",
    [
        "Gitea and Redis require Postgres.",  # Of both, not of one another.
        "Gitea can use Redis.",
        "Gitea allows you to use Redis.",
        "Gitea requires Redis or Postgres.",
        "Gitea uses the Redis client.",
        "Gitea needs the address of Redis.",
        "The Gitea image uses Redis.",
        "Deploy Gitea using Redis.",
        "Use Redis for Gitea.",
        "Redis users like Gitea.",
        "Gitea, Redis and other containers.",
    ],
)
def test_what_names_two_things_and_says_no_dependence(sentence: str) -> None:
    assert not tells("DEPENDS_ON", sentence, "Gitea", "Redis")
    assert not tells("DEPENDS_ON", sentence, "Redis", "Gitea")


def test_a_name_is_found_whole() -> None:
    assert tells("DEPENDS_ON", "Gitea-runner uses Redis.", "Gitea-runner", "Redis")
    assert not tells("DEPENDS_ON", "Gitea-runner uses Redis.", "Gitea", "Redis")


@pytest.mark.parametrize(
    ("relation", "sentence", "told"),
    [
        ("ROUTES_TO", "Requests are proxied to the backend.", True),
        ("ROUTES_TO", "The backend is hidden behind nginx.", True),
        ("ROUTES_TO", "The backend and nginx are releases of May.", False),
        ("EXPOSES_ENDPOINT", "The service listens on 8080.", True),
        ("EXPOSES_ENDPOINT", "The service has 8080 users.", False),
        ("BUILDS", "The image was built from it.", True),
        ("BUILDS", "They like the builders of it.", False),
    ],
)
def test_the_words_of_other_relations_tell_them_in_their_real_forms(
    relation: str, sentence: str, told: bool
) -> None:
    assert tells(relation, sentence, "x", "y") is told
