"""Why a request has no answer, in the kinds and status codes of Prometheus's HTTP API."""

from typing import Literal

from db.errors import BadMatcher, StoreError
from db.promql.errors import QueryError

ErrorType = Literal["bad_data", "execution", "timeout", "canceled", "unavailable", "internal", "not_found"]

# prometheus/prometheus, web/api/v1/api.go (respondError).
STATUS: dict[ErrorType, int] = {
    "bad_data": 400,
    "execution": 422,
    "timeout": 503,
    "canceled": 499,  # nginx's number for "the client has gone"
    "unavailable": 503,
    "internal": 500,
    "not_found": 404,
}


class ApiError(Exception):
    """One sentence for the client."""

    def __init__(self, kind: ErrorType, sentence: str) -> None:
        super().__init__(sentence)
        self.kind: ErrorType = kind


def bad_parameter(name: str, reason: object) -> ApiError:
    return ApiError("bad_data", f'invalid parameter "{name}": {reason}')


def api_error(error: QueryError | StoreError) -> ApiError:
    """What the API says of an error of the evaluator or of the store."""
    if isinstance(error, QueryError):
        return ApiError(error.kind, str(error))
    return ApiError("bad_data" if isinstance(error, BadMatcher) else "unavailable", str(error))
