"""Why a query has no answer, in Prometheus's own kinds: the HTTP API reports them as `errorType`."""

from typing import Literal

Kind = Literal["bad_data", "execution", "timeout", "canceled", "unavailable", "internal"]


class QueryError(Exception):
    """One clear sentence for the person who asked; `kind` is Prometheus's errorType."""

    kind: Kind = "execution"


class BadQuery(QueryError):
    """The text is not a query, or asks for what is not supported; says where in the text."""

    kind: Kind = "bad_data"


class ExecutionError(QueryError):
    """The query cannot be answered over these data, for example because of duplicate series."""

    kind: Kind = "execution"


class LimitExceeded(QueryError):
    """The query wants more than it may have; says which limit and how to narrow it."""

    kind: Kind = "execution"


class TooManySteps(LimitExceeded):
    kind: Kind = "bad_data"


class QueryTimeout(QueryError):
    kind: Kind = "timeout"


class QueryCanceled(QueryError):
    kind: Kind = "canceled"


class InternalError(QueryError):
    """A fault of ours; the log has the trace."""

    kind: Kind = "internal"


class SourceUnavailable(QueryError):
    """The store or the remote engine did not answer."""

    kind: Kind = "unavailable"
