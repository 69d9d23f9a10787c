"""The first schema of the samples database."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "head_dense",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("layout_id", sa.Integer(), nullable=False),
        sa.Column("ts", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_head_dense")),
    )
    with op.batch_alter_table("head_dense", schema=None) as batch_op:
        batch_op.create_index("ix_head_dense_layout_ts", ["layout_id", "ts"], unique=False)
        batch_op.create_index("ix_head_dense_ts", ["ts"], unique=False)

    op.create_table(
        "head_sparse",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("ts_min", sa.BigInteger(), nullable=False),
        sa.Column("ts_max", sa.BigInteger(), nullable=False),
        sa.Column("series_ids", sa.LargeBinary(), nullable=False),
        sa.Column("timestamps", sa.LargeBinary(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_head_sparse")),
    )
    with op.batch_alter_table("head_sparse", schema=None) as batch_op:
        batch_op.create_index("ix_head_sparse_ts_max", ["ts_max"], unique=False)

    op.create_table(
        "label_pair",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_label_pair")),
        sa.UniqueConstraint("name", "value", name=op.f("uq_label_pair_name")),
    )
    op.create_table(
        "layout",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_layout")),
    )
    op.create_table(
        "layout_slot",
        sa.Column("series_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("layout_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("series_id", "layout_id", name=op.f("pk_layout_slot")),
        sqlite_with_rowid=False,
    )
    with op.batch_alter_table("layout_slot", schema=None) as batch_op:
        batch_op.create_index("ix_layout_slot_layout_id", ["layout_id"], unique=False)

    op.create_table(
        "metadata",
        sa.Column("metric", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("help", sa.String(), nullable=False),
        sa.Column("unit", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("metric", "type", "help", "unit", name=op.f("pk_metadata")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "posting",
        sa.Column("pair_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("series_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("pair_id", "series_id", name=op.f("pk_posting")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "series",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("hash", sa.BigInteger(), nullable=False),
        sa.Column("labels", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_series")),
    )
    with op.batch_alter_table("series", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_series_hash"), ["hash"], unique=False)

    op.create_table(
        "source",
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("instance", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("interval_seconds", sa.Float(), nullable=False),
        sa.Column("last_attempt_ms", sa.BigInteger(), nullable=True),
        sa.Column("last_success_ms", sa.BigInteger(), nullable=True),
        sa.Column("duration_seconds", sa.Float(), nullable=True),
        sa.Column("samples", sa.Integer(), nullable=True),
        sa.Column("error", sa.String(), nullable=False),
        sa.Column("note", sa.String(), nullable=False),
        sa.Column("labels", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "pool", "instance", "url", name=op.f("pk_source")),
    )


def downgrade() -> None:
    op.drop_table("source")
    with op.batch_alter_table("series", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_series_hash"))

    op.drop_table("series")
    op.drop_table("posting")
    op.drop_table("metadata")
    with op.batch_alter_table("layout_slot", schema=None) as batch_op:
        batch_op.drop_index("ix_layout_slot_layout_id")

    op.drop_table("layout_slot")
    op.drop_table("layout")
    op.drop_table("label_pair")
    with op.batch_alter_table("head_sparse", schema=None) as batch_op:
        batch_op.drop_index("ix_head_sparse_ts_max")

    op.drop_table("head_sparse")
    with op.batch_alter_table("head_dense", schema=None) as batch_op:
        batch_op.drop_index("ix_head_dense_ts")
        batch_op.drop_index("ix_head_dense_layout_ts")

    op.drop_table("head_dense")
