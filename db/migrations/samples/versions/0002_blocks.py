"""Sealed blocks, packed postings, and the row that orders head and blocks."""

import sqlalchemy as sa
from alembic import op

from db.postings import repack_postings

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "store_state",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("sealed_seq", sa.BigInteger(), nullable=False),
        sa.Column("sealing_seq", sa.BigInteger(), nullable=True),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("next_series_id", sa.BigInteger(), nullable=False),
        sa.Column("next_timeline_id", sa.BigInteger(), nullable=False),
        sa.Column("series_epoch", sa.BigInteger(), nullable=False),
        sa.Column("places_version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_store_state")),
    )
    op.execute(
        "INSERT INTO store_state VALUES (1, 0, NULL, "
        "max((SELECT coalesce(max(seq), 0) FROM head_dense), "
        "(SELECT coalesce(max(seq), 0) FROM head_sparse)), "
        "(SELECT coalesce(max(id), 0) + 1 FROM series), 1, 0, 0)"
    )
    op.create_table(
        "load",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_load")),
    )
    op.create_table(
        "bundle",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("group_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.String(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bundle")),
    )
    op.create_index("ix_bundle_group_id_metric", "bundle", ["group_id", "metric"], unique=False)
    op.create_table(
        "bundle_member",
        sa.Column("series_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("bundle_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("series_id", "bundle_id", name=op.f("pk_bundle_member")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_bundle_member_bundle_id", "bundle_member", ["bundle_id"], unique=False)
    op.create_table(
        "block",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("bundle_id", sa.Integer(), nullable=False),
        sa.Column("level", sa.Integer(), nullable=False),
        sa.Column("window_ms", sa.BigInteger(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=False),
        sa.Column("end_ms", sa.BigInteger(), nullable=False),
        sa.Column("ord", sa.BigInteger(), nullable=False),
        sa.Column("members", sa.BigInteger(), nullable=False),
        sa.Column("timeline_id", sa.Integer(), nullable=False),
        sa.Column("lanes", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_block")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_block_bundle_id_window_ms",
        "block",
        ["bundle_id", "window_ms", "members", "start_ms", "end_ms", "ord", "timeline_id", "lanes"],
        unique=False,
    )
    op.create_index(
        "ix_block_level_window_ms", "block", ["level", "window_ms", "bundle_id", "ord"], unique=False
    )
    op.create_index("ix_block_end_ms", "block", ["end_ms"], unique=False)
    op.create_index("ix_block_timeline_id", "block", ["timeline_id"], unique=False)
    op.create_table(
        "timeline",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("lanes", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", "part", name=op.f("pk_timeline")),
        sqlite_with_rowid=False,
    )
    op.add_column("layout", sa.Column("ended", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.drop_index("ix_head_dense_ts", table_name="head_dense")
    op.drop_table("posting")
    op.create_table(
        "posting",
        sa.Column("pair_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("chunk", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("ids", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("pair_id", "chunk", name=op.f("pk_posting")),
        sqlite_with_rowid=False,
    )
    repack_postings(op.get_bind())


def downgrade() -> None:
    raise NotImplementedError("samples in blocks cannot go back into the head; restore the backup instead")
