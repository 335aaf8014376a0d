"""Endpoints of the web service."""
