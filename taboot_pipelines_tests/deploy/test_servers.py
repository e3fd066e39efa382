"""The servers that tests are given: shared ones answer, own ones come back on the same address."""

from __future__ import annotations

from pathlib import Path

import neo4j
import obstore
import psycopg
import pytest
import redis
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import S3Store

from taboot_pipelines_tests.servers import PostgresServer, S3Server, own_neo4j, own_postgres, own_redis


def plain(url: str) -> str:
    return url.replace("postgresql+psycopg://", "postgresql://")


def test_a_database_is_fresh_each_time_and_sorts_by_language(postgres: PostgresServer) -> None:
    for _ in range(2):
        with psycopg.connect(plain(postgres.database("fresh"))) as connection:
            connection.execute("CREATE TABLE word (text TEXT)")
            connection.execute("INSERT INTO word VALUES ('b'), ('B'), ('a'), ('Z')")
            words = [row[0] for row in connection.execute("SELECT text FROM word ORDER BY text")]
    assert words == ["a", "b", "B", "Z"]


def test_redis_answers(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.set("key", "value")
        assert client.get("key") == b"value"


def test_neo4j_answers(neo4j_url: str) -> None:
    with neo4j.GraphDatabase.driver(neo4j_url) as driver:
        edition = driver.execute_query(
            "CALL dbms.components() YIELD versions, edition RETURN versions[0] AS v, edition AS e"
        ).records[0]
        assert (edition["v"], edition["e"]) == ("5.26.30", "community")


def test_conditional_writes_hold_on_s3(s3: S3Server) -> None:
    store = S3Store(
        s3.bucket("conditions"),
        endpoint=s3.endpoint,
        access_key_id=s3.access_key,
        secret_access_key=s3.secret_key,
        region=s3.region,
        client_options={"allow_http": True},
    )
    assert s3.bucket("conditions") == "conditions"
    first = obstore.put(store, "pointer", b"1", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "pointer", b"2", mode="create")
    seen = {"e_tag": first["e_tag"]}
    obstore.put(store, "pointer", b"2", mode=seen)
    with pytest.raises(PreconditionError):
        obstore.put(store, "pointer", b"3", mode=seen)
    assert bytes(obstore.get(store, "pointer").bytes()) == b"2"


@pytest.mark.server
@pytest.mark.parametrize("keeps", [True, False])
def test_an_own_redis_stops_and_comes_back(tmp_path: Path, keeps: bool) -> None:
    with own_redis(tmp_path, keeps_data=keeps) as server:
        address = server.url
        client = redis.Redis.from_url(address)
        client.set("key", "value")
        server.stop()
        with pytest.raises(redis.ConnectionError):
            client.get("key")
        server.start()
        assert server.url == address
        assert client.get("key") == (b"value" if keeps else None)
    with pytest.raises(redis.ConnectionError):
        client.get("key")


@pytest.mark.server
def test_an_own_postgres_keeps_its_data_over_a_kill(tmp_path: Path) -> None:
    with own_postgres(tmp_path) as server:
        address = plain(server.url)
        with psycopg.connect(address) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
        server.stop()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(address)
        server.start()
        assert plain(server.url) == address
        with psycopg.connect(address) as connection:
            assert connection.execute("SELECT n FROM kept").fetchone() == (7,)


@pytest.mark.server
def test_an_own_neo4j_keeps_its_data_over_a_kill(tmp_path: Path) -> None:
    with (
        own_neo4j(tmp_path) as server,
        neo4j.GraphDatabase.driver(server.url, connection_acquisition_timeout=5) as driver,
    ):
        driver.execute_query("CREATE (:Kept {n: 7})")
        server.stop()
        with pytest.raises(neo4j.exceptions.ServiceUnavailable):
            driver.verify_connectivity()
        server.start()
        assert driver.execute_query("MATCH (k:Kept) RETURN k.n AS n").records[0]["n"] == 7
