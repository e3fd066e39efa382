"""Answers out of text, and what they share with those out of facts.

- ``asking``: what a question asks for; ``values``: the kinds of value and how each is told; ``words``: stems
  and synonyms; ``ownership``: which sources speak of the house;
- ``documents``: documents as statements (``retrieval.sentences``); ``passages``: the statements about what is
  asked, best first; ``choosing``: those that make the answer; ``confidence``: how sure it is;
- ``synthesis``: a model's words, checked against what they cite; ``replays``: what is kept of answers.
"""
