"""Kafka's message specifications as a table."""

from __future__ import annotations

from spark_segmentlog.record.system.schemas import FieldSchema, VersionRange, message_schemas


def test_versions_are_ranges_with_both_ends() -> None:
    assert 2 in VersionRange(2, 4)
    assert 4 in VersionRange(2, 4)
    assert 5 not in VersionRange(2, 4)
    assert 0 not in VersionRange(0, -1)
    assert (str(VersionRange(2, 4)), str(VersionRange(3, 3))) == ("2 to 4", "3")


def test_every_record_type_of_a_topic_is_there_once() -> None:
    schemas = message_schemas()
    keys = [
        (schema.topic, schema.type_id, schema.name) for schema in schemas.values() if schema.topic
    ]
    assert len(keys) == len(set(keys)) > 50
    assert all(schema.type_id is not None for schema in schemas.values() if schema.topic)


def all_fields(fields: tuple[FieldSchema, ...]) -> list[FieldSchema]:
    return [nested for field in fields for nested in (field, *all_fields(field.fields))]


def test_tags_stand_in_flexible_versions_alone() -> None:
    tagged = [
        (schema, field)
        for schema in message_schemas().values()
        for field in all_fields(schema.fields)
        if field.tag is not None
    ]
    assert tagged
    assert all(field.versions.first >= schema.flexible.first for schema, field in tagged)
