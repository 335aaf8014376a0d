"""Explorer: an HTTP service for models and treebanks, and web pages to browse them.

    >>> from sapwood.web import Service
    >>> service = Service.load()
    >>> [model.name for model in service.models]
    ['en']

`sapwood serve` runs it (`sapwood.web.server`). `application.make_explorer` returns it as an application for any ASGI
server, and `application.make_application` puts other routes behind the same checks. Requests are declared once, in
`api`, with types from which they are decoded (`messages`) and documented (`openapi`); `scheduler` does the work.
"""

from importlib.util import find_spec

from sapwood.errors import UsageError

if not all(map(find_spec, ("msgspec", "prometheus_client", "starlette", "uvicorn"))):
    raise UsageError(
        "the explorer needs further packages: pip install uvicorn httptools starlette msgspec prometheus-client"
    )

from sapwood.web.service import Limits, Service

__all__ = ["Limits", "Service"]
