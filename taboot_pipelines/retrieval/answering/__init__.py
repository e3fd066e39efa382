"""Answers: from facts, which are the graph's edges and the values of configuration files, else out of text.

For facts a question passes through these modules, one after the other:

1. ``entity_linking`` finds the names in it and the things that they may mean, in the ``service_index``: the
   graph of a view indexed for questions, with the texts of its configuration documents.
2. ``answer_types`` reads the question, for text too: the kind of value, a yes or no, a count, a list.
   ``question`` says which kinds of fact it may ask for, by ``question_types``, a fitted model, and which of
   its words say nothing (``vocabulary``: ``filler.txt``, ``asking.txt``).
3. ``disambiguation`` narrows names by each other ("the db of household") and by what a service declares, and
   takes several words as one name ("the household db").
4. ``fact_answers.Facts`` says it out of edges: by ``typed_facts``, which asks a typed query (``queries``) of
   what is named and says its rows; where the words say more of what is meant, by ``dependencies``, ``ports``
   and ``inventory`` (images and versions). ``service_properties`` says which services have a property of
   their declaration. They share ``fact_base`` and ``citations``.
5. ``config`` says it out of a file's value: ``config_files`` reads the formats and says whose a value is,
   ``config_values`` chooses among the values (``properties.txt``) and puts them into words.
6. ``fact_answers`` takes what leaves the fewest words unexplained, or says what was looked for. It is the
   one entry, :func:`answer_from_facts`, and makes an ``Answer`` of it.

Answers out of text, and what they share with those from facts:

- ``compound_questions``: what asks several things taken apart, and the answers put together;
  ``similarity``: how near texts are to a question, in meaning and token by token;
- ``text_query``: the words of a question and how much they say; ``answer_types``: the kinds of value and how
  each is told; ``words``: stems and synonyms; ``ownership``: which sources speak of the house;
- ``documents``: documents as statements (``retrieval.sentences``); ``reading``: those that answer, how
  probable that is, and what is shown of them, by a fitted model (``reading.json``); ``key_meanings``: what
  keys of configuration mean in plain words (``key_meanings.txt``);
- ``table_comparisons``: what comparing a column says;
- ``model_answers``: a chat model that reads, looks up and writes; ``grounding``: which of its sentences
  rest on what they cite.
"""
