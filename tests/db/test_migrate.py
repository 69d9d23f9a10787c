"""Migrations: models and scripts agree, a newer file is refused, an older one is backed up first."""

import shutil
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text

from db.engine import open_samples, open_state
from db.errors import NewerDatabase
from db.migrate import SAMPLES, STATE, Schema, bring_up_to_date, current_revision
from db.models import SamplesBase, StateBase


@pytest.mark.parametrize(
    ("opener", "base", "schema"),
    [(open_samples, SamplesBase, SAMPLES), (open_state, StateBase, STATE)],
)
def test_the_scripts_build_what_the_models_say(tmp_path: Path, opener, base, schema: Schema) -> None:
    engine = opener(tmp_path / "x.db")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"render_as_batch": True})
        assert compare_metadata(context, base.metadata) == []
    assert current_revision(engine) == schema.head
    engine.dispose()
    config = Config()
    config.set_main_option("script_location", str(schema.scripts))
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_current_head() == schema.head


def test_a_newer_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "samples.db"
    engine = open_samples(path)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(NewerDatabase, match=r"samples\.db: was written by a newer Strata .*9999"):
        open_samples(path)
    plain = create_engine(f"sqlite:///{path}")
    assert current_revision(plain) == "9999"
    plain.dispose()


def test_an_older_database_is_backed_up_then_migrated(tmp_path: Path) -> None:
    scripts = tmp_path / "scripts"
    shutil.copytree(SAMPLES.scripts, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "versions" / "0002_later.py").write_text(
        "from alembic import op\n"
        "revision = '0002'\ndown_revision = '0001'\nbranch_labels = None\ndepends_on = None\n"
        "def upgrade():\n    op.execute('CREATE TABLE later (x INTEGER)')\n"
    )
    path = tmp_path / "samples.db"
    engine = open_samples(path)
    bring_up_to_date(engine, path, Schema(scripts, "0002"))
    assert current_revision(engine) == "0002"
    engine.dispose()
    backup = create_engine(f"sqlite:///{tmp_path / 'samples.db.before-0002'}")
    assert current_revision(backup) == "0001"
    backup.dispose()
