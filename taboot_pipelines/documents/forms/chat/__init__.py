"""Chat sessions with AI models, of every known format, as Markdown.

``turns`` says what all formats have in common; ``lines``, ``sessions``, ``chatgpt``, ``gemini`` and ``aider``
read them, by ``blocks`` (what a message holds) and ``tree`` (messages that name their parents); ``markdown``
writes, and ``form`` is the whole. How a file is told to be a chat is in ``model.chats``.
"""

from taboot_pipelines.documents.forms.chat.form import chat

__all__ = ["chat"]
