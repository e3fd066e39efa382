"""The labelled sentences of benchmarks/gold/prose hold against the data and the model, and what loads, scores
and compares them does so on invented ones.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.gold import prose_agreement as agree
from benchmarks.gold import prose_set as prose
from benchmarks.gold.prose_set import ALL, DataDiffers, End, ProseSet, Score, Sentence, Span, Triple, score
from taboot_pipelines.model.graph import EDGES
from taboot_pipelines_tests.world import DATA

FILES = ("gold", "labels_a", "labels_b")
GUIDE = (prose.PROSE / "GUIDE.md").read_text("utf-8")

#: Properties that a label gives an edge and the model gives its Endpoint.
OF_THE_ENDPOINT = {
    "port": EDGES["BINDS"].properties["port"],
    "protocol": EDGES["BINDS"].properties["protocol"],
}


def rows(name: str) -> list[Sentence]:
    return prose.read_sentences(prose.PROSE / f"{name}.jsonl")


# --- the labels ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=(*FILES, "later"))
def labelled(request):
    return ProseSet.load(prose.PROSE / f"{request.param}.jsonl", half="both", data=DATA)


def test_every_span_stands_in_the_file_that_was_labelled(labelled):
    for one in labelled.sentences:
        whole = Span(0, len(labelled.document(one.file)))
        for span in (one, *one.context):
            assert span.start < span.end and whole.holds(span), one.id
            shown = labelled.text(one, span)
            assert shown and shown == shown.strip(), one.id


def test_every_end_is_a_name_in_the_sentence_or_in_its_context(labelled):
    for one in labelled.sentences:
        for triple in one.triples:
            ends = (triple.subject, triple.object)
            assert not all(end.context for end in ends), one.id
            for end in ends:
                assert end.start < end.end, one.id
                assert one.holds(end) is not end.context, one.id
                assert not end.context or any(span.holds(end) for span in one.context), one.id
                name = labelled.text(one, end)
                assert name == name.strip() and name[0] not in "`*[\"'" and name[-1] not in "`*]\"'", one.id


def test_types_signatures_and_properties_are_those_of_the_model(labelled):
    for one in labelled.sentences:
        for triple in one.triples:
            edge = EDGES[triple.type]
            assert triple.subject.label in edge.start and triple.object.label in edge.end, one.id
            checks = {**edge.properties, **(OF_THE_ENDPOINT if triple.type == "EXPOSES_ENDPOINT" else {})}
            assert all(checks[name](value) for name, value in triple.properties.items()), one.id
            assert triple.type != "BINDS" or "port" in triple.properties, one.id


def test_the_kind_goes_with_the_triples_and_none_is_said_twice(labelled):
    for one in labelled.sentences:
        assert one.kind in prose.KINDS, one.id
        assert one.triples or one.kind != "assertion", one.id
        assert not one.triples or one.kind in ("assertion", "instruction"), one.id
        told = [(t.type, t.subject, t.object, sorted(t.properties.items())) for t in one.triples]
        assert all(told.count(triple) == 1 for triple in told), one.id


@pytest.mark.parametrize(
    ("half", "sentences", "relations"),
    [
        (
            "open",
            254,
            {
                "EXPOSES_ENDPOINT": 36,
                "DEPENDS_ON": 7,
                "BINDS": 5,
                "ROUTES_TO": 3,
                "CONNECTS_TO": 3,
                "BUILDS": 3,
            },
        ),
        (
            "locked",
            244,
            {
                "EXPOSES_ENDPOINT": 35,
                "BINDS": 8,
                "DEPENDS_ON": 7,
                "CONNECTS_TO": 2,
                "ROUTES_TO": 2,
                "BUILDS": 1,
                "RESOLVES_TO": 1,
            },
        ),
    ],
)
def test_the_halves_hold_what_they_were_decided_to_hold(half, sentences, relations):
    gold = ProseSet.load(half=half, data=DATA).sentences
    assert {one.half for one in gold} == {half}
    assert len(gold) == sentences
    assert Counter(triple.type for one in gold for triple in one.triples) == relations


def test_a_file_is_in_one_half_and_sentences_do_not_overlap():
    gold = rows("gold")
    halves = {(one.file, one.half) for one in gold}
    assert {half for _, half in halves} == set(prose.HALVES)
    assert len(halves) == len({file for file, _ in halves})
    for one, other in zip(
        ordered := sorted(gold, key=lambda s: (s.file, s.start)), ordered[1:], strict=False
    ):
        assert one.file != other.file or not one.overlaps(other), (one.id, other.id)


def test_the_labellings_are_of_the_same_sentences():
    def bare(sentences):
        return [replace(one, kind="", triples=(), decision="", labelled="") for one in sentences]

    gold, first, second = (bare(rows(name)) for name in FILES)
    assert gold == first == second


def test_each_difference_is_decided_by_what_the_guide_names():
    gold, first, second = (rows(name) for name in FILES)
    differs = set(agree.differing(first, second))
    decided = {one.id for one in gold if one.decision}
    assert differs <= decided
    # One that both labelled alike was changed for a case, as the guide says.
    assert [one.decision for one in gold if one.id in decided - differs] == ["pages"]
    assert set(agree.differing(first, gold)) | set(agree.differing(second, gold)) <= decided
    cases = set(re.findall(r"^\* \*\*([a-z ]+)\*\*:", GUIDE, re.MULTILINE)) | {"what is asserted"}
    assert {one.decision for one in gold if one.decision} <= cases


def test_the_second_labelling_says_which_part_a_sentence_is_of():
    assert Counter(one.labelled for one in rows("labels_b")) == {"s001-s416": 416, "s417-s498": 82}


# --- loading ------------------------------------------------------------------------------------------------


def sentence(content: str = "", **more) -> Sentence:
    """An invented sentence of an invented file."""
    told = {
        "id": "x1",
        "half": "open",
        "file": "page.md",
        "sha256": hashlib.sha256(content.encode()).hexdigest(),
        "start": 0,
        "end": max(1, len(content)),
        "headings": (),
        "introduction": None,
        "kind": "none",
        "triples": (),
    }
    return Sentence(**{**told, **more})


def test_texts_are_read_by_offset(tmp_path):
    content = "# Nøtes\r\n\r\nThings:\r\n\r\n- Notes need *Redis*.\r\n"
    (tmp_path / "page.md").write_bytes(content.encode())
    at = content.index("Notes need")
    one = sentence(
        content,
        start=at,
        end=at + 19,
        headings=(Span(2, 7),),
        introduction=Span(11, 18),
    )
    gold = ProseSet([one], tmp_path)
    assert gold.text(one) == "Notes need *Redis*."
    assert gold.headings(one) == ["Nøtes"]
    assert gold.introduction(one) == "Things:"
    assert one.context == (Span(2, 7), Span(11, 18))
    assert gold.text(one, gold.shown(one).span(12, 17)) == "Redis"


def test_html_is_shown_as_it_is_read_and_leads_back_to_the_file(tmp_path):
    content = "<p>Run <code>a</code> &amp;\n  <a href='x>'>b<!-- c --></a>,<br/>then &lt;ip&gt;:80</p>"
    (tmp_path / "page.html").write_text(content)
    one = sentence(content, file="page.html", start=3, end=len(content) - 4)
    gold = ProseSet([one], tmp_path)
    shown = gold.shown(one)
    assert shown.text == "Run a & b, then <ip>:80"
    at = shown.text.index("<ip>:80")
    assert gold.text(one, shown.span(at, at + 7)) == "<ip>:80"
    span = shown.span(at, at + 7)
    assert content[span.start : span.end] == "&lt;ip&gt;:80"
    with pytest.raises(ValueError):
        shown.span(3, 3)


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Z")), max_size=40))
def test_escaped_text_is_shown_as_itself(text):
    shown = prose.shown_html(f"<b>{html.escape(text)}</b>", 10)
    assert shown.text == text
    assert len(shown.places) == len(text)
    assert all(a.end == b.start for a, b in zip(shown.places, shown.places[1:], strict=False))


def test_data_that_differs_is_refused_by_name(tmp_path):
    one = sentence("as labelled")
    gold = ProseSet([one], tmp_path)
    with pytest.raises(DataDiffers, match=r"page\.md cannot be read .* TABOOT_TEST_DATA"):
        gold.text(one)
    (tmp_path / "page.md").write_text("as changed")
    with pytest.raises(DataDiffers, match=r"page\.md is not the file that was labelled"):
        gold.text(one)
    (tmp_path / "page.md").write_text("as labelled")
    assert gold.text(one) == "as labelled"


def test_only_the_open_half_is_loaded_unless_one_asks():
    assert {one.half for one in ProseSet.load().sentences} == {"open"}
    assert len(ProseSet.load(half="both").sentences) == len(rows("gold"))


# --- scores -------------------------------------------------------------------------------------------------


def triple(type: str = "DEPENDS_ON", subject=(0, 5), object=(10, 15), label: str = "Service") -> Triple:
    return Triple(type, End(*subject, label=label), End(*object, label="Service"))


def scored(predicted, gold) -> dict:
    return score({"x1": predicted}, [sentence(triples=tuple(gold))])


def test_what_is_labelled_and_found_matches_in_both_ways():
    one, other = triple(), triple("CONNECTS_TO")
    found = scored([other, one], [one, other])
    assert list(found) == ["CONNECTS_TO", "DEPENDS_ON", ALL]
    assert found["DEPENDS_ON"].exact == found["DEPENDS_ON"].relaxed == Score(1, 1, 1)
    assert found[ALL].exact == Score(2, 2, 2)


def test_properties_do_not_count():
    assert scored([replace(triple(), properties={"port": 80})], [triple()])[ALL].exact.f1 == 1


@pytest.mark.parametrize(
    ("predicted", "exact", "relaxed"),
    [
        (triple(subject=(0, 4)), 0, 1),
        (triple(subject=(4, 30)), 0, 1),
        (triple(object=(9, 11)), 0, 1),
        (triple(label="Host"), 0, 1),
        (triple(subject=(5, 9)), 0, 0),
        (triple(object=(15, 16)), 0, 0),
        (triple("CONNECTS_TO"), 0, 0),
        (triple(subject=(10, 15), object=(0, 5)), 0, 0),
    ],
)
def test_relaxed_is_the_same_type_and_an_overlap_of_both_ends(predicted, exact, relaxed):
    found = scored([predicted], [triple()])[ALL]
    assert (found.exact.matched, found.relaxed.matched) == (exact, relaxed)


def test_a_prediction_and_a_label_match_once():
    twice = scored([triple(), triple()], [triple()])[ALL]
    assert twice.exact == twice.relaxed == Score(1, 2, 1)
    wide = scored([triple(object=(0, 50))], [triple(), triple(object=(20, 25))])[ALL].relaxed
    assert wide == Score(1, 1, 2)


def test_the_most_pairs_are_found_whatever_the_order():
    # The wide prediction matches both labels, the narrow one only the first.
    wide, narrow = triple(object=(10, 25)), triple(object=(11, 12))
    gold = [triple(), triple(object=(20, 25))]
    for predicted in ([wide, narrow], [narrow, wide]):
        assert scored(predicted, gold)[ALL].relaxed == Score(2, 2, 2)


def test_precision_recall_and_f1():
    one = scored([triple(), triple(object=(20, 25)), triple(object=(30, 35))], [triple()])[ALL].exact
    assert (one.precision, one.recall, one.f1) == (pytest.approx(1 / 3), 1.0, 0.5)
    nothing = Score(0, 0, 0)
    assert (nothing.precision, nothing.recall, nothing.f1) == (1.0, 1.0, 1.0)
    missed, invented = Score(0, 0, 2), Score(0, 2, 0)
    assert (missed.precision, missed.recall, missed.f1) == (1.0, 0.0, 0.0)
    assert (invented.precision, invented.recall, invented.f1) == (0.0, 1.0, 0.0)


def test_a_triple_matches_in_its_own_sentence_only():
    gold = [sentence(triples=(triple(),)), sentence(id="x2", file="other.md")]
    found = score({"x2": [triple()]}, gold)
    assert found["DEPENDS_ON"].relaxed == Score(0, 1, 1)
    assert score({}, gold)[ALL].exact == Score(0, 0, 1)
    with pytest.raises(ValueError, match="not scored: x3"):
        score({"x3": []}, gold)


TRIPLES = st.lists(
    st.builds(
        triple,
        type=st.sampled_from(["DEPENDS_ON", "CONNECTS_TO"]),
        subject=st.sampled_from([(0, 5), (3, 8), (6, 9)]),
        object=st.sampled_from([(10, 15), (12, 20), (17, 22)]),
    ),
    max_size=6,
)


@given(TRIPLES, TRIPLES)
def test_scores_are_of_both_sides_alike_and_relaxed_is_never_below_exact(first, second):
    one, other = scored(first, second), scored(second, first)
    for relation, value in one.items():
        assert value.exact.matched <= value.relaxed.matched <= min(value.exact.predicted, value.exact.gold)
        for a, b in ((value.exact, other[relation].exact), (value.relaxed, other[relation].relaxed)):
            assert (a.matched, a.predicted, a.gold) == (b.matched, b.gold, b.predicted)
            assert (a.precision, a.recall, a.f1) == (b.recall, b.precision, b.f1)
    assert scored(first, first)[ALL].exact.f1 == 1


# --- agreement ----------------------------------------------------------------------------------------------


def test_kappa():
    # Cohen's kappa of a textbook's table: 20 and 15 alike, 5 and 10 not.
    first = ["yes"] * 25 + ["no"] * 25
    second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert agree.kappa(first, second) == pytest.approx(0.4)
    assert agree.kappa(["a", "a"], ["a", "a"]) == 1.0
    assert agree.kappa(["a", "b"], ["b", "a"]) == -1.0
    with pytest.raises(ValueError):
        agree.kappa([], [])


def test_agreement_of_two_invented_labellings():
    first = [sentence(triples=(triple(),), kind="assertion"), sentence(id="x2", kind="none")]
    second = [
        sentence(triples=(triple(subject=(1, 5)),), kind="assertion"),
        sentence(id="x2", kind="question"),
    ]
    agreed = agree.agreement(first, second)
    assert (agreed.sentences, agreed.same_kind) == (2, 0.5)
    assert (agreed.triples[ALL].exact.f1, agreed.triples[ALL].relaxed.f1) == (0.0, 1.0)
    assert agree.differing(first, second) == ["x1", "x2"]
    assert agree.differing(first, first) == []
    with pytest.raises(ValueError):
        agree.agreement(first, second[:1])


@pytest.mark.parametrize(("name", "half"), [("all 498", "both"), ("open", "open"), ("locked", "locked")])
def test_the_guide_tells_the_agreement_as_it_is(name, half):
    agreed = agree.agreement(*agree.labellings(half))
    both = agreed.triples[ALL]
    assert f"| {name} | {both.exact.f1:.3f} | {both.relaxed.f1:.3f} | {agreed.kappa:.3f} |" in GUIDE


def test_what_is_printed_names_no_sentence_of_the_locked_half(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["prose_agreement.py", "--differs"])
    assert agree.main() == 0
    printed = capsys.readouterr().out
    assert "both halves: 498 sentences" in printed
    named = set(re.findall(r"\bs\d{3}\b", printed))
    assert named and named <= {one.id for one in rows("gold") if one.half == "open"}
