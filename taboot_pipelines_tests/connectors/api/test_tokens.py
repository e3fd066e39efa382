"""The keeper of OAuth tokens, against a token endpoint on loopback."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from taboot_pipelines.connectors.api.client import Limits
from taboot_pipelines.connectors.api.tokens import AccessToken, Grant
from taboot_pipelines.errors import TabootError
from taboot_pipelines_tests.fakes.answering import Request, Response, answering

SECRET = "planted-client-secret"
GRANT = Grant({"grant_type": "refresh_token", "refresh_token": SECRET})


class FakeTokens:
    """Gives a new token each time, which lives for ``life``, or answers with ``said``."""

    def __init__(self, life: object = 3600, said: Response | None = None) -> None:
        self.life = life
        self.said = said
        self.asked: list[Request] = []

    def __call__(self, asked: Request) -> Response:
        self.asked.append(asked)
        token = {"access_token": f"token-{len(self.asked)}", "expires_in": self.life}
        return Response(body=token) if self.said is None else self.said


def keeper(base: str, grant: Grant = GRANT) -> AccessToken:
    return AccessToken("The service", f"{base}/token", lambda: grant, limits=Limits(backoff_seconds=0.0))


@pytest.mark.parametrize("life", [3600, "3600", 3599.5, None, [], 10**400, "soon"])
def test_a_token_is_kept_until_it_is_refused(life):
    with answering(fake := FakeTokens(life)) as base:
        token = keeper(base)
        assert [token(False), token(False)] == [{"authorization": "Bearer token-1"}] * 2
        assert token(True) == {"authorization": "Bearer token-2"}
        assert token.token() == "token-2"
    assert [asked.body for asked in fake.asked] == [dict(GRANT.form)] * 2


@pytest.mark.parametrize("life", [0, -5, 59, "10", -1e308])
def test_a_token_about_to_end_is_renewed(life):
    with answering(FakeTokens(life)) as base:
        token = keeper(base)
        assert [token.token(), token.token()] == ["token-1", "token-2"]


def test_threads_that_are_refused_together_get_one_new_token():
    together = threading.Barrier(8)
    with answering(fake := FakeTokens()) as base, ThreadPoolExecutor(8) as pool:
        token = keeper(base)

        def refused(_: int) -> str:
            token.token()
            together.wait(30)
            return token.token(renew=True)

        assert set(pool.map(refused, range(8))) == {"token-2"}
    assert len(fake.asked) == 2


def test_a_client_names_itself_in_the_header_where_the_grant_says_so():
    with answering(fake := FakeTokens()) as base:
        keeper(base, Grant({"grant_type": "client_credentials"}, basic=("id", "se:cret"))).token()
    assert fake.asked[0].headers["authorization"] == "Basic aWQ6c2U6Y3JldA=="


@pytest.mark.parametrize(
    ("said", "code", "message"),
    [
        (Response(400, {"error": "invalid_grant", "error_description": SECRET}), "E_CREDENTIALS", "revoked"),
        (Response(401, {"error": "invalid_client"}), "E_CREDENTIALS", "its id or its secret is wrong"),
        (Response(200, {"error": "invalid_grant"}), "E_CREDENTIALS", "revoked"),
        (Response(400, {"error": SECRET}), "E_CREDENTIALS", "refuses the credentials"),
        (Response(401, b"<html>no"), "E_CREDENTIALS", "refuses the credentials"),
        (Response(400, []), "E_CREDENTIALS", "refuses the credentials"),
        (Response(200, {"access_token": "two\nlines"}), "E_CREDENTIALS", "refuses the credentials"),
        (Response(200, {"access_token": 7}), "E_CREDENTIALS", "refuses the credentials"),
        (Response(404, {}), "E_CREDENTIALS", "not at this address"),
        (Response(200, b"<html>sign in"), "E_API", "a page of HTML"),
        (Response(403, {}), "E_FORBIDDEN", "does not let"),
        (Response(302, b"", {"location": "https://elsewhere.example/"}), "E_REDIRECT", ""),
        (Response(503, {}), "E_5XX_ORIGIN", "failed"),
        (Response(429, {}, {"retry-after": "9999"}), "E_429_RATE", "left alone"),
    ],
)
def test_what_goes_wrong_is_typed_and_repeats_nothing_of_the_service(said, code, message):
    with answering(FakeTokens(said=said)) as base, pytest.raises(TabootError) as refused:
        keeper(base).token()
    assert refused.value.code == code
    assert message in refused.value.message
    assert SECRET not in f"{refused.value} {refused.value.details}"
