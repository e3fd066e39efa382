"""Clients of model servers and models in this process, beside the embedders: rerankers and chat models."""
