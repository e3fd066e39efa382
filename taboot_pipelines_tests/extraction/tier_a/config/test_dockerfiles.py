"""Dockerfiles by themselves."""

from __future__ import annotations

from taboot_pipelines.model.graph import Basis
from taboot_pipelines_tests.extraction.tier_a.config.reading import edges, interpret, one


def test_what_is_built_is_the_service_of_its_folder_and_declares_no_name() -> None:
    said = one("apps/api/Dockerfile", "FROM redis\nEXPOSE 6379\n", host="nas.lan")
    (built,) = edges(said, "BUILDS")
    assert (
        built.start.key == ("nas.lan/apps/api", "api") and built.end.name == "docker.io/library/redis:latest"
    )
    assert (built.start_basis, built.end_basis) == (Basis.DERIVED, Basis.NORMALIZED)
    assert not any(node.declared for node in said.nodes)


def test_a_folder_has_as_many_services_as_names() -> None:
    files = {"Dockerfile": "FROM a:1\n", "Dockerfile_dev": "FROM b:1\n", "web.Dockerfile": "FROM c:1\n"}
    starts = [edges(said, "BUILDS")[0].start.name for said in interpret(files).values()]
    assert starts == ["src", "src", "web"]


def test_files_about_dockerfiles_are_none() -> None:
    names = (".dockerignore", "Dockerfile.dockerignore", "Dockerfile.md", "dockerfile.yaml", "Dockerfile.j2")
    assert not any(said.nodes for name in names for said in interpret({name: "FROM a:1\n"}).values())


def test_only_the_stage_that_is_given_exposes_with_what_it_is_made_of() -> None:
    text = "FROM a AS one\nEXPOSE 1\nFROM b AS two\nEXPOSE 2\nFROM one\nEXPOSE 3/udp\n"
    exposed = [e.end.name for e in edges(one("Dockerfile", text), "EXPOSES_ENDPOINT")]
    assert exposed == ["src:1", "src:3"]


def test_what_is_given_to_the_build_is_marked_and_not_guessed() -> None:
    said = one("x/Dockerfile", "ARG TAG\nFROM a:${TAG}\nARG PORT\nEXPOSE $PORT 90000 1-60000\n")
    assert said.edges == ()
    (service,) = said.nodes
    assert service.properties["unresolved"] == ["EXPOSE", "FROM"]
    assert sorted(p.code for p in said.problems) == ["E_PARSE", "E_TOO_LARGE", "E_UNRESOLVED", "E_UNRESOLVED"]


def test_here_documents_hold_no_instructions() -> None:
    text = (
        "FROM a:1\nRUN <<A cat <<-'B'\nFROM no:1\nA\n\tEXPOSE 1\n\tB\nONBUILD COPY <<C /x\nFROM no:2\nC\n"
        'RUN cat <<<"D" && echo $((1<<E))\nEXPOSE 2\n'
    )
    said = one("x/Dockerfile", text)
    assert [e.end.name for e in said.edges] == ["docker.io/library/a:1", "x:2"]
