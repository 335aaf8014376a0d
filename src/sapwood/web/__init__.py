"""The explorer: an HTTP service around models and treebanks, and the pages that show them in a browser.

    >>> from sapwood.web import Service
    >>> service = Service.load()
    >>> [model.name for model in service.models]
    ['english']

`sapwood serve` runs it (`sapwood.web.server`). `application` is an ASGI application that any server can run; what can
be asked for is declared in `endpoints`, once, and described (`openapi`), checked (`schemas`) and done (`work`) from
there.
"""

from sapwood.web.service import Limits, Service

__all__ = ["Limits", "Service"]
