"""Explorer: an HTTP service for models and treebanks, and web pages to browse them.

    >>> from sapwood.web import Service
    >>> service = Service.load()
    >>> [model.name for model in service.models]
    ['en']

`sapwood serve` runs it (`sapwood.web.server`). `application` is an ASGI application for any server. Requests are
declared once, in `endpoints`, from which they are documented (`openapi`), validated (`schemas`) and executed
(`scheduler`).
"""

from sapwood.web.service import Limits, Service

__all__ = ["Limits", "Service"]
