"""The places where the state may be, for every test of `db`."""

from tests.postgres_server import postgres, state_location

__all__ = ["postgres", "state_location"]
