"""Tier A extraction from nginx configuration, SWAG's proxy confs included."""
